/* SPDX-License-Identifier: MIT
 *
 * Sets up what verifies bearer tokens, and the OAuth metadata that clients are told. Its texts are
 * made once, when the server starts; requests only copy them.
 */
#include "server/oauth_setup.h"

#include "auth/dpop.h"
#include "base/error.h"
#include "base/mem.h"
#include "json/write.h"

#define TEXT_MAX (256u * 1024u)
#define SCOPES_MAX 64u /* that clients are told of */

/* "https://host:1/path" -> "https://host:1", "/path"; a lone '/' is no path. */
static struct tidings_str split_path(struct tidings_str url, struct tidings_str *path)
{
    size_t at = 0;
    for (unsigned slashes = 0; at < url.len; at++) {
        if (url.ptr[at] == '/' && ++slashes == 3) {
            break;
        }
    }
    *path = str_skip(url, at);
    while (path->len > 0 && path->ptr[path->len - 1] == '/') {
        path->len--;
    }
    return tidings_strn(url.ptr, at);
}

/* Slices into a buffer that still grows: where one begins and ends. */
struct piece {
    size_t from, to;
};

/* The well-known place of a document, before the path (RFC 8414 §3.1, RFC 9728 §3.1). */
static struct piece put_well_known_url(struct buf *out, struct tidings_str url,
                                       struct tidings_str known)
{
    struct tidings_str path;
    struct tidings_str origin = split_path(url, &path);
    struct piece p = {.from = out->len};
    buf_puts(out, origin);
    buf_puts(out, known);
    buf_puts(out, path);
    p.to = out->len;
    return p;
}

static void put_strings(struct jw *w, struct tidings_str key, const struct config_list *list)
{
    jw_key(w, key);
    jw_begin_array(w);
    for (size_t i = 0; i < list->count; i++) {
        jw_string(w, tidings_str(list->items[i]));
    }
    jw_end_array(w);
}

/* A set of scopes, without the one that is between client and authorization server alone. */
struct scopes {
    struct tidings_str at[SCOPES_MAX];
    size_t count;
};

static void add_scope(struct scopes *s, struct tidings_str scope)
{
    bool is_wanted =
        scope.len > 0 && s->count < SCOPES_MAX && !str_eq(scope, STR("offline_access"));
    for (size_t i = 0; is_wanted && i < s->count; i++) {
        is_wanted = !str_eq(s->at[i], scope);
    }
    if (is_wanted) {
        s->at[s->count++] = scope;
    }
}

/* Those that every token needs, and those that rules ask for. */
static void put_scopes(struct jw *w, const struct config *c, const struct access_rules *rules)
{
    struct scopes all = {.count = 0};
    for (size_t i = 0; i < c->auth_scope.count; i++) {
        add_scope(&all, tidings_str(c->auth_scope.items[i]));
    }
    for (size_t i = 0; rules && i < rules->count; i++) {
        add_scope(&all, rules->at[i].scope);
    }
    if (all.count == 0) {
        return;
    }
    jw_key(w, STR("scopes_supported"));
    jw_begin_array(w);
    for (size_t i = 0; i < all.count; i++) {
        jw_string(w, all.at[i]);
    }
    jw_end_array(w);
}

static struct piece oauth_put_metadata(struct buf *out, const struct config *c,
                                       struct tidings_str resource,
                                       const struct access_rules *rules)
{
    struct piece p = {.from = out->len};
    struct jw w;
    jw_init(&w, out);
    jw_begin_object(&w);
    jw_put_string(&w, STR("resource"), resource);
    put_strings(&w, STR("authorization_servers"), &c->auth_issuer);
    put_scopes(&w, c, rules);
    jw_put_raw(&w, STR("bearer_methods_supported"), STR("[\"header\"]"));
    jw_put_raw(&w, STR("dpop_signing_alg_values_supported"), STR(DPOP_ALGORITHMS_JSON));
    if (c->auth_dpop != DPOP_ACCEPT) {
        jw_put_bool(&w, STR("dpop_bound_access_tokens_required"), true);
    }
    jw_end_object(&w);
    p.to = out->len;
    return p;
}

static struct piece put_scope(struct buf *out, const struct config_list *scopes)
{
    struct piece p = {.from = out->len};
    for (size_t i = 0; i < scopes->count; i++) {
        buf_puts(out, i > 0 ? STR(" ") : STR_EMPTY);
        buf_puts(out, tidings_str(scopes->items[i]));
    }
    p.to = out->len;
    return p;
}

static struct tidings_str slice(const struct buf *text, struct piece p)
{
    return p.to > p.from ? tidings_strn(text->ptr + p.from, p.to - p.from) : STR_EMPTY;
}

/* What is said to clients. `resource` empty: it has no name, and no issuer needs one. */
static int oauth_describe(struct oauth_setup *a, const struct config *c,
                          struct tidings_str resource, const struct access_rules *rules,
                          struct tidings_error *err)
{
    struct http_auth *h = &a->http;
    struct tidings_str path = STR_EMPTY;
    struct piece document = {0}, url = {0}, server = {0};
    struct piece scope = put_scope(&a->text, &c->auth_scope);
    bool has_issuer = c->auth_issuer.count > 0;
    if (has_issuer) {
        document = oauth_put_metadata(&a->text, c, resource, rules);
        url = put_well_known_url(&a->text, resource, STR(AUTH_METADATA_PATH));
        server = put_well_known_url(&a->text, tidings_str(c->auth_issuer.items[0]),
                                    STR(AUTH_SERVER_PATH));
        (void)split_path(resource, &path);
    }
    size_t count = c->auth_scope.count;
    a->scopes = mem_zalloc((count + 1) * sizeof(*a->scopes));
    if (a->text.failed || !a->scopes) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        a->scopes[i] = tidings_str(c->auth_scope.items[i]);
    }
    h->scopes = a->scopes;
    h->scope_count = count;
    h->scope = slice(&a->text, scope);
    h->metadata = slice(&a->text, document);
    h->metadata_url = slice(&a->text, url);
    h->server_url = slice(&a->text, server);
    h->resource_path = slice(&a->text, (struct piece){url.to - path.len, url.to});
    return 0;
}

static int open_auth(struct oauth_setup *a, const struct config *c, const char *resource,
                     struct tidings_error *err)
{
    struct auth_issuer issuers[AUTH_ISSUERS_MAX];
    const char *const *audiences = (const char *const *)c->auth_audience.items;
    size_t count = c->auth_issuer.count;
    if (count > AUTH_ISSUERS_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "--auth-issuer: at most %u are accepted",
                            AUTH_ISSUERS_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        issuers[i] = (struct auth_issuer){
            .issuer = c->auth_issuer.items[i],
            .jwks = c->auth_jwks.count > 0 ? c->auth_jwks.items[i] : NULL,
        };
    }
    const struct auth_options options = {
        .issuers = issuers,
        .issuer_count = count,
        .audiences = c->auth_audience.count > 0 ? audiences : &resource,
        .audience_count = c->auth_audience.count > 0 ? c->auth_audience.count : resource != NULL,
        .tokens = c->auth_tokens[0] ? c->auth_tokens : NULL,
        .introspection = c->auth_introspection[0] ? c->auth_introspection : NULL,
        .introspection_credentials = c->auth_credentials[0] ? c->auth_credentials : NULL,
        .ca = c->auth_ca[0] ? c->auth_ca : NULL,
        .leeway_ms = (uint32_t)c->auth_leeway_ms,
    };
    struct tidings_str path;
    int rc = auth_open(&a->http.auth, &options, err);
    if (rc == 0 && count > 0) {
        struct tidings_str origin = split_path(tidings_str(resource), &path);
        rc = dpop_create(&a->http.dpop, origin, path, (enum dpop_mode)c->auth_dpop, err);
    }
    return rc < 0 ? rc : auth_start(a->http.auth, err);
}

int oauth_setup_open(struct oauth_setup *a, const struct config *c, const char *url,
                     const struct access_rules *rules, struct tidings_error *err)
{
    if (!config_wants_tokens(c)) {
        return 0;
    }
    const char *resource = c->auth_resource[0] ? c->auth_resource : url;
    if (c->auth_issuer.count > 0 && !resource) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "tokens must be meant for this server, and it has no address that "
                            "could be its name; name it with --auth-resource https://HOST/mcp");
    }
    buf_init(&a->text, TEXT_MAX);
    int rc = oauth_describe(a, c, tidings_str(resource), rules, err);
    if (rc == 0) {
        rc = open_auth(a, c, resource, err);
    }
    if (rc < 0) {
        oauth_setup_close(a);
        return error_wrap(err, rc, "authorization");
    }
    return 0;
}

void oauth_setup_close(struct oauth_setup *a)
{
    auth_close(a->http.auth);
    dpop_destroy(a->http.dpop);
    mem_free(a->scopes);
    buf_deinit(&a->text);
    *a = (struct oauth_setup){.scopes = NULL};
}
