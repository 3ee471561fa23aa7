/* SPDX-License-Identifier: MIT
 *
 * Reads the two documents of discovery.
 */
#include "oauth/metadata.h"

#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "oauth/document.h"
#include "oauth/scope.h"
#include "oauth/url.h"

/* ---- the resource ---------------------------------------------------------------------------- */

static int metadata_check_resource(const char *resource, const char *server,
                                   struct tidings_error *err)
{
    struct url named, asked;
    char shown[160];
    if (resource && url_read(tidings_str(resource), &named) &&
        url_read(tidings_str(server), &asked) && url_covers(&named, &asked)) {
        return 0;
    }
    return tidings_fail(
        err, TIDINGS_E_DENIED,
        "the metadata of '%.120s' is that of another resource: '%s'; no token is "
        "asked for",
        server, document_shown(tidings_str(resource ? resource : ""), shown, sizeof(shown)));
}

/* The wanted one is not among them: those that are, for whoever has to choose. */
static int metadata_say_issuers(const struct json *document, const char *wanted,
                                struct tidings_error *err)
{
    struct json *list = jv_get(document, "authorization_servers");
    struct buf all;
    char shown[80];
    buf_init(&all, 320);
    for (size_t i = 0; jv_is(list, JV_ARRAY) && i < jv_count(list) && !all.failed; i++) {
        document_shown(jv_str(jv_at(list, i)), shown, sizeof(shown));
        buf_putf(&all, "%s'%s'", i > 0 ? ", " : "", shown); /* as many as there is room for */
    }
    int rc =
        tidings_fail(err, TIDINGS_E_DENIED, "the server takes no tokens of '%.90s', it names %s",
                     wanted, all.len > 0 ? all.ptr : "nobody");
    buf_deinit(&all);
    return rc;
}

/* The preferred one if it is there, else the first that may be asked. */
static int metadata_choose_issuer(const struct json *document, const struct issuer_choice *choice,
                                  char **ret, struct tidings_error *err)
{
    struct json *list = jv_get(document, "authorization_servers");
    struct tidings_str chosen = STR_EMPTY;
    struct url u;
    const char *preferred = choice->only ? choice->only : choice->preferred;
    if (preferred && document_lists(document, "authorization_servers", preferred)) {
        chosen = tidings_str(preferred);
    } else if (choice->only) {
        return metadata_say_issuers(document, choice->only, err);
    }
    for (size_t i = 0; jv_is(list, JV_ARRAY) && i < jv_count(list) && chosen.len == 0; i++) {
        struct tidings_str issuer = jv_str(jv_at(list, i));
        chosen = url_read(issuer, &u) && url_is_safe(&u) ? issuer : chosen;
    }
    if (chosen.len == 0) {
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "the server's metadata names no authorization server by https");
    }
    *ret = str_dup(chosen);
    return *ret ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

int resource_metadata_read(struct tidings_str text, const char *server,
                           const struct issuer_choice *choice, struct resource_metadata *ret,
                           struct tidings_error *err)
{
    struct resource_metadata m = {0};
    struct json *root = NULL;
    int rc = document_read(text, "the metadata of the resource", &root, err);
    if (rc == 0) {
        rc = document_text(root, "resource", URL_MAX, &m.resource, err);
    }
    if (rc == 0) {
        rc = metadata_check_resource(m.resource, server, err);
    }
    if (rc == 0) {
        rc = metadata_choose_issuer(root, choice, &m.issuer, err);
    }
    if (rc == 0 && (rc = document_scopes(root, "scopes_supported", &m.scopes)) < 0) {
        tidings_fail(err, rc, "the server's metadata names too many scopes");
    }
    m.wants_proof = jv_is_true(jv_get(root, "dpop_bound_access_tokens_required"));
    jv_unref(root);
    if (rc < 0) {
        resource_metadata_deinit(&m);
        return rc;
    }
    *ret = m;
    return 0;
}

void resource_metadata_deinit(struct resource_metadata *m)
{
    mem_free(m->resource);
    mem_free(m->issuer);
    mem_free(m->scopes);
    *m = (struct resource_metadata){0};
}

/* ---- the authorization server ---------------------------------------------------------------- */

static unsigned metadata_auth_methods(const struct json *document)
{
    static const struct {
        const char *name;
        enum client_auth bit;
    } known[] = {
        {"none", CLIENT_AUTH_NONE},
        {"client_secret_basic", CLIENT_AUTH_BASIC},
        {"client_secret_post", CLIENT_AUTH_POST},
        {"private_key_jwt", CLIENT_AUTH_KEY},
    };
    unsigned all = 0;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        bool is_there =
            document_lists(document, "token_endpoint_auth_methods_supported", known[i].name);
        all |= is_there ? known[i].bit : 0u;
    }
    return all;
}

static int metadata_check_issuer(const struct json *document, const char *issuer,
                                 struct tidings_error *err)
{
    char shown[160];
    struct tidings_str named = jv_str(jv_get(document, "issuer"));
    if (str_eq(named, tidings_str(issuer))) {
        return 0;
    }
    return tidings_fail(err, TIDINGS_E_DENIED,
                        "the metadata of the authorization server '%.120s' is that of '%s': it is "
                        "not used",
                        issuer, document_shown(named, shown, sizeof(shown)));
}

static int metadata_read_endpoints(const struct json *document, struct server_metadata *m,
                                   struct tidings_error *err)
{
    const struct {
        const char *name;
        char **at;
    } endpoints[] = {
        {"authorization_endpoint", &m->authorization_endpoint},
        {"token_endpoint", &m->token_endpoint},
        {"registration_endpoint", &m->registration_endpoint},
        {"device_authorization_endpoint", &m->device_endpoint},
        {"revocation_endpoint", &m->revocation_endpoint},
    };
    int rc = 0;
    for (size_t i = 0; i < sizeof(endpoints) / sizeof(endpoints[0]) && rc == 0; i++) {
        rc = document_url(document, endpoints[i].name, endpoints[i].at, err);
    }
    if (rc == 0 && !m->token_endpoint) {
        rc = tidings_fail(err, TIDINGS_E_PARSE, "the authorization server names no token endpoint");
    }
    return rc;
}

int server_metadata_read(struct tidings_str text, const char *issuer, struct server_metadata *ret,
                         struct tidings_error *err)
{
    struct server_metadata m = {0};
    struct json *root = NULL;
    int rc = document_read(text, "the metadata of the authorization server", &root, err);
    if (rc == 0) {
        rc = metadata_check_issuer(root, issuer, err);
    }
    if (rc == 0) {
        rc = metadata_read_endpoints(root, &m, err);
    }
    if (rc == 0 && (rc = document_scopes(root, "scopes_supported", &m.scopes)) < 0) {
        tidings_fail(err, rc, "the authorization server names too many scopes");
    }
    if (rc == 0 && !(m.issuer = str_dup(tidings_str(issuer)))) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    m.auth_methods = metadata_auth_methods(root);
    m.has_s256 = document_lists(root, "code_challenge_methods_supported", "S256");
    m.sends_issuer = jv_is_true(jv_get(root, "authorization_response_iss_parameter_supported"));
    m.takes_client_urls = jv_is_true(jv_get(root, "client_id_metadata_document_supported"));
    m.takes_proofs = document_lists(root, "dpop_signing_alg_values_supported", "ES256");
    m.lists_grants = jv_is(jv_get(root, "grant_types_supported"), JV_ARRAY);
    m.has_client_grant = document_lists(root, "grant_types_supported", "client_credentials");
    m.has_assertion_grant = document_lists(root, "grant_types_supported",
                                           "urn:ietf:params:oauth:grant-type:jwt-bearer");
    jv_unref(root);
    if (rc < 0) {
        server_metadata_deinit(&m);
        return rc;
    }
    *ret = m;
    return 0;
}

static char *metadata_join(struct tidings_str origin, const char *path)
{
    struct buf out;
    buf_init(&out, URL_MAX);
    buf_puts(&out, origin);
    buf_puts(&out, tidings_str(path));
    char *text = out.failed ? NULL : buf_detach(&out, NULL);
    buf_deinit(&out);
    return text;
}

int server_metadata_guess(struct tidings_str origin, struct server_metadata *ret,
                          struct tidings_error *err)
{
    struct server_metadata m = {
        .issuer = str_dup(origin),
        .authorization_endpoint = metadata_join(origin, "/authorize"),
        .token_endpoint = metadata_join(origin, "/token"),
        .registration_endpoint = metadata_join(origin, "/register"),
        .has_s256 = true, /* that revision demands it */
    };
    if (!m.issuer || !m.authorization_endpoint || !m.token_endpoint || !m.registration_endpoint) {
        server_metadata_deinit(&m);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    *ret = m;
    return 0;
}

void server_metadata_deinit(struct server_metadata *m)
{
    mem_free(m->issuer);
    mem_free(m->authorization_endpoint);
    mem_free(m->token_endpoint);
    mem_free(m->registration_endpoint);
    mem_free(m->device_endpoint);
    mem_free(m->revocation_endpoint);
    mem_free(m->scopes);
    *m = (struct server_metadata){0};
}
