/* SPDX-License-Identifier: MIT
 *
 * The step that finds out who gives tokens for a server, and how: the metadata of the resource,
 * then that of its authorization server, each at one of a few addresses. A server without metadata
 * of its own is asked as revision 2025-03-26 has it: it is its own authorization server.
 */
#include "base/error.h"
#include "oauth/document.h"
#include "oauth/flow_private.h"

static void flow_ask_resource(struct flow *f);
static void flow_ask_server(struct flow *f);

/* Nothing at that address, which is no failure. */
static bool flow_is_missing(long status)
{
    return status >= 400 && status < 500 && status != 429;
}

static void flow_get(struct flow *f, const char *url, flow_answer_fn fn)
{
    struct flow_request r = {.method = "GET", .url = url};
    flow_ask(f, &r, fn);
}

/* The document at an address made of `url`; `is_root`: that of the whole host. */
static void flow_get_well_known(struct flow *f, const char *url, const char *name, bool is_behind,
                                bool is_root, flow_answer_fn fn)
{
    struct buf address;
    struct url u;
    buf_init(&address, 2 * URL_MAX);
    if (!url_read(tidings_str(url), &u)) {
        flow_failf(f, TIDINGS_E_INVALID, "'%.120s' is no http address: nobody can be asked", url);
        return;
    }
    if (is_root) {
        u.path = u.query = STR_EMPTY;
    }
    if (url_put_well_known(&address, &u, name, is_behind) < 0) {
        flow_failf(f, TIDINGS_E_LIMIT, "the address of a document is too long");
    } else {
        flow_get(f, address.ptr, fn);
    }
    buf_deinit(&address);
}

static bool flow_has_path(const char *url)
{
    struct url u;
    return url_read(tidings_str(url), &u) && u.path.len > 1;
}

/* ---- the authorization server ---------------------------------------------------------------- */

static void flow_on_server(struct flow *f, const struct flow_answer *answer)
{
    struct tidings_error why = {0};
    if (answer->status == 200) {
        int rc = server_metadata_read(answer->body, f->resource.issuer, &f->issuer, &why);
        if (rc < 0) {
            flow_fail(f, &why);
        } else {
            flow_discovered(f);
        }
    } else if (flow_is_missing(answer->status)) {
        f->place++;
        flow_ask_server(f);
    } else {
        flow_failf(f, TIDINGS_E_BUSY, "the authorization server cannot answer now (HTTP %ld)",
                   answer->status);
    }
}

static void flow_guess_server(struct flow *f)
{
    struct tidings_error why = {0};
    if (f->resource.resource) {
        flow_failf(f, TIDINGS_E_NOTFOUND,
                   "the authorization server '%.120s' has no metadata: ask whoever runs it",
                   f->resource.issuer);
    } else if (server_metadata_guess(tidings_str(f->resource.issuer), &f->issuer, &why) < 0) {
        flow_fail(f, &why);
    } else {
        flow_discovered(f);
    }
}

static void flow_ask_server(struct flow *f)
{
    static const struct {
        const char *name;
        bool is_behind;
    } places[] = {
        {"oauth-authorization-server", false},
        {"openid-configuration", false},
        {"openid-configuration", true}, /* the same without a path */
    };
    unsigned count = flow_has_path(f->resource.issuer) ? 3 : 2;
    if (f->place < count) {
        flow_get_well_known(f, f->resource.issuer, places[f->place].name,
                            places[f->place].is_behind, false, flow_on_server);
    } else {
        flow_guess_server(f);
    }
}

/* ---- the resource ---------------------------------------------------------------------------- */

static void flow_on_resource(struct flow *f, const struct flow_answer *answer)
{
    struct tidings_error why = {0};
    struct issuer_choice choice = {f->host.settings->issuer, f->before.issuer};
    if (answer->status == 200) {
        int rc = resource_metadata_read(answer->body, f->server, &choice, &f->resource, &why);
        if (rc < 0) {
            flow_fail(f, &why);
            return;
        }
        f->wants_proof = f->wants_proof || f->resource.wants_proof;
        f->place = 0;
        flow_ask_server(f);
    } else if (flow_is_missing(answer->status)) {
        f->place++;
        flow_ask_resource(f);
    } else {
        flow_failf(f, TIDINGS_E_BUSY, "the server cannot say now who gives tokens (HTTP %ld)",
                   answer->status);
    }
}

/* Without any: the server's own host. */
static void flow_guess_resource(struct flow *f)
{
    struct url u;
    if (!url_read(tidings_str(f->server), &u) || !(f->resource.issuer = str_dup(u.origin))) {
        flow_failf(f, TIDINGS_E_NOMEM, "out of memory");
        return;
    }
    f->place = 0;
    flow_ask_server(f);
}

static void flow_ask_resource(struct flow *f)
{
    static const char name[] = "oauth-protected-resource";
    /* The one that was named, the one of the path, the one of the host. */
    unsigned place = f->place + (f->metadata_url ? 0 : 1);
    if (place == 0) {
        flow_get(f, f->metadata_url, flow_on_resource);
    } else if (place == 1) {
        flow_get_well_known(f, f->server, name, false, false, flow_on_resource);
    } else if (place == 2 && flow_has_path(f->server)) {
        flow_get_well_known(f, f->server, name, false, true, flow_on_resource);
    } else {
        flow_guess_resource(f);
    }
}

void flow_discover(struct flow *f)
{
    f->place = 0;
    flow_ask_resource(f);
}
