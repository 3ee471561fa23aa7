/* SPDX-License-Identifier: MIT
 *
 * What no single row of the configuration can judge: settings that need, or contradict, one
 * another.
 */
#include "base/error.h"
#include "base/tls.h"
#include "base/url_redact.h"
#include "server/config.h"
#include "server/entity_authority.h"
#include "store/shared.h"

/* An address that other machines can reach. */
static int check_remote(const struct config *c, const char *option, const struct config_address *a,
                        struct tidings_error *err)
{
    bool is_http = strcmp(option, "--http") == 0, wants = is_http && config_wants_tokens(c);
    bool knows = wants || config_knows_clients(c);
    if (config_address_is_loopback(a)) {
        return 0;
    }
    if (!c->allow_remote && !knows) {
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "%s: '%s' can be reached by other machines and nothing asks who "
                            "they are; add --allow-remote to serve there, or use 127.0.0.1",
                            option, a->host);
    }
    if (c->allow_write && !knows) {
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "--allow-write: '%s' can be reached by other machines, and nothing "
                            "asks who they are; ask for tokens (--auth-issuer, --auth-tokens) or "
                            "certificates (--tls-client-auth require), or use 127.0.0.1",
                            a->host);
    }
    if (c->console && !knows) {
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "--console: '%s' can be reached by other machines, and nothing asks "
                            "who they are; ask for tokens (--auth-issuer, --auth-tokens) or "
                            "certificates (--tls-client-auth require), or use 127.0.0.1",
                            a->host);
    }
    if (wants && !config_is_encrypted(c)) {
        return tidings_fail(
            err, TIDINGS_E_DENIED,
            "%s: tokens would cross the network readable by anybody; add "
            "--tls-cert and --tls-key, or, when a proxy in front speaks TLS, say so "
            "by its address: --auth-resource https://…",
            option);
    }
    if (wants && c->auth_issuer.count > 0 && !c->auth_resource[0]) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "%s: '%s' is not what clients call this server, and tokens must be "
                            "meant for it; name it with --auth-resource https://HOST/mcp",
                            option, a->host);
    }
    return 0;
}

/* Whether the files are any good is found out when they are opened. */
static int check_tls(const struct config *c, struct tidings_error *err)
{
    bool asks = c->tls_client_auth != 0, has_ca = c->tls_client_ca[0] != '\0';
    if (c->tls_cert.count != c->tls_key.count) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "--tls-cert, --tls-key: %zu certificates and %zu keys; each "
                            "certificate needs its key, in the same order",
                            c->tls_cert.count, c->tls_key.count);
    }
    if ((asks || has_ca) && c->tls_cert.count == 0) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "clients can be asked for certificates over TLS only; add --tls-cert "
                            "and --tls-key");
    }
    if (asks && !has_ca) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "--tls-client-auth: name with --tls-client-ca whose certificates are "
                            "accepted");
    }
    if (has_ca && !asks) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "--tls-client-ca: say with --tls-client-auth whether clients may "
                            "(request) or must (require) show a certificate");
    }
    return 0;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

bool config_wants_tokens(const struct config *c)
{
    return c->auth_issuer.count > 0 || c->auth_tokens[0] != '\0';
}

bool config_is_encrypted(const struct config *c)
{
    return c->tls_cert.count > 0 || str_starts(tidings_str(c->auth_resource), STR("https://"));
}

static bool is_host_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '[' ||
           c == ']' || c == ':';
}

/* Is it spelled as clients will compare it: lower case, no query, no fragment? */
static int check_resource(const struct config *c, struct tidings_error *err)
{
    struct tidings_str url = tidings_str(c->auth_resource);
    bool is_plain = str_starts(url, STR("http://")), is_tls = str_starts(url, STR("https://"));
    struct tidings_str rest = str_skip(url, is_plain ? 7 : 8), path;
    struct tidings_str host = str_cut(rest, '/', &path, NULL);
    bool ok = (is_plain || is_tls) && host.len > 0 && host.ptr[0] != ':';
    for (size_t i = 0; i < host.len; i++) {
        ok = ok && is_host_char(host.ptr[i]);
    }
    for (size_t i = 0; i < path.len; i++) {
        ok = ok && path.ptr[i] > ' ' && path.ptr[i] <= '~' && !strchr("?#\"\\<>", path.ptr[i]);
    }
    if (!ok || url.len == 0) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "--auth-resource: '%.200s' is not the URL of an endpoint (accepted: "
                            "https://host/path in lower case, without query and fragment)",
                            c->auth_resource);
    }
    struct tidings_str name = host.ptr[0] == '[' ? host : str_cut(host, ':', &rest, NULL);
    if (is_plain && !str_eq(name, STR("127.0.0.1")) && !str_eq(name, STR("localhost")) &&
        !str_starts(name, STR("[::1]"))) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "--auth-resource: '%.200s': tokens are sent over https:// only, but to "
                            "this very machine",
                            c->auth_resource);
    }
    return 0;
}

/* Settings that say more of others which are not there. */
static int check_alone(const struct config *c, struct tidings_error *err)
{
    const struct {
        bool given, needed;
        const char *text;
    } rows[] = {
        {c->auth_jwks.count > 0, c->auth_issuer.count > 0,
         "--auth-jwks: say with --auth-issuer whose keys these are"},
        {c->auth_audience.count > 0, c->auth_issuer.count > 0,
         "--auth-audience: say with --auth-issuer whose tokens are meant for it"},
        {c->auth_introspection[0], c->auth_issuer.count > 0,
         "--auth-introspection: name the authorization server with --auth-issuer, so that clients "
         "learn where tokens come from"},
        {c->auth_credentials[0], c->auth_introspection[0],
         "--auth-credentials: say with --auth-introspection where to use them"},
        {c->auth_ca[0], c->auth_issuer.count > 0,
         "--auth-ca: there is no --auth-issuer whose certificate it would be for"},
        {c->auth_scope.count > 0, config_wants_tokens(c),
         "--auth-scope: nothing gives scopes; add --auth-issuer or --auth-tokens"},
        {c->auth_resource[0], config_wants_tokens(c),
         "--auth-resource: nobody is asked for a token; add --auth-issuer or --auth-tokens"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].given && !rows[i].needed) {
            return tidings_fail(err, TIDINGS_E_INVALID, "%s", rows[i].text);
        }
    }
    return 0;
}

static int check_tokens(const struct config *c, struct tidings_error *err)
{
    int rc = check_alone(c, err);
    if (rc < 0 || !config_wants_tokens(c)) {
        return rc;
    }
    if (c->auth_jwks.count > 0 && c->auth_jwks.count != c->auth_issuer.count) {
        return tidings_fail(
            err, TIDINGS_E_INVALID,
            "--auth-issuer, --auth-jwks: %zu issuers and %zu sets of keys; name one "
            "for each, in the same order, or none",
            c->auth_issuer.count, c->auth_jwks.count);
    }
    for (size_t i = 0; i < c->auth_scope.count; i++) {
        if (strcmp(c->auth_scope.items[i], "offline_access") == 0) {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "--auth-scope: offline_access is between client and authorization "
                                "server; leave it out");
        }
    }
    if (c->tcp.count > 0 && !config_knows_clients(c)) {
        return tidings_fail(err, TIDINGS_E_DENIED,
                            "--tcp: lines carry no token, so nobody would ask who comes in there; "
                            "ask for certificates (--tls-client-auth require), or leave it out");
    }
    return c->auth_resource[0] ? check_resource(c, err) : 0;
}

/* ---- all of them ----------------------------------------------------------------------------- */

bool config_knows_clients(const struct config *c)
{
    return c->tls_cert.count > 0 && c->tls_client_auth == TLS_CLIENT_REQUIRE;
}

bool config_shows_self(const struct config *c)
{
    return c->self || c->console;
}

/* Others are told it: nothing that could be taken for something else. */
static int check_cluster_name(const char *option, const char *name, struct tidings_error *err)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");
    return len > 0 && len <= SHARED_NAME_MAX && name[len] == '\0'
               ? 0
               : tidings_fail(err, TIDINGS_E_INVALID,
                              "--%s: a name has 1 to %u letters, digits, '-', '_' and '.'", option,
                              SHARED_NAME_MAX);
}

/* Of mounts that several nodes have. */
static int check_nodes(const struct config *c, struct tidings_error *err)
{
    const char *first = c->owned.count > 0    ? c->owned.items[0]
                        : c->shared.count > 0 ? c->shared.items[0]
                                              : NULL;
    size_t owned = c->owned.count;
    for (size_t i = 0; i < c->mount_count; i++) {
        const struct config_mount *m = &c->mounts[i];
        first = !first && m->nodes != MOUNT_LOCAL ? m->uri : first;
        owned += m->nodes == MOUNT_OWNED;
    }
    if (first && !config_store_is_shared(c)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'%s' is shared or owned: that is between nodes that share a database; "
                            "name it with --store postgres://…, or leave the mount local",
                            first);
    }
    for (size_t i = 0; i < c->owned.count; i++) {
        for (size_t k = 0; k < c->shared.count; k++) {
            if (strcmp(c->owned.items[i], c->shared.items[k]) == 0) {
                return tidings_fail(err, TIDINGS_E_INVALID,
                                    "'%s' is named by --shared and by --owned; leave one out",
                                    c->owned.items[i]);
            }
        }
    }
    return owned <= CONFIG_OWNED_MAX
               ? 0
               : tidings_fail(err, TIDINGS_E_LIMIT, "more than %u mounts are owned",
                              CONFIG_OWNED_MAX);
}

static int check_cluster(const struct config *c, struct tidings_error *err)
{
    bool is_shared = config_store_is_shared(c);
    int rc = check_cluster_name("cluster", c->cluster, err);
    rc = rc == 0 && c->node[0] ? check_cluster_name("node", c->node, err) : rc;
    if (rc == 0 && c->node[0] && !is_shared) {
        rc = tidings_fail(
            err, TIDINGS_E_INVALID,
            "--node: nodes have names only in a store that they share; add --store postgres://…");
    }
    /* What `tidings config` prints can be read back, so the default may be said. */
    if (rc == 0 && strcmp(c->cluster, CONFIG_CLUSTER_DEFAULT) != 0 && !is_shared) {
        rc = tidings_fail(err, TIDINGS_E_INVALID,
                          "--cluster: only a store that nodes share has one; name it with --store "
                          "postgres://…, or leave --cluster out");
    }
    return rc == 0 ? check_nodes(c, err) : rc;
}

int config_check(const struct config *c, struct tidings_error *err)
{
    int rc = check_tls(c, err);
    if (rc == 0) {
        rc = check_tokens(c, err);
    }
    if (rc < 0) {
        return rc;
    }
    rc = config_wants_http(c) ? check_remote(c, "--http", &c->http, err) : 0;
    for (size_t i = 0; rc == 0 && i < c->tcp.count; i++) {
        struct config_address a;
        rc = config_parse_address(tidings_str(c->tcp.items[i]), &a, err);
        rc = rc < 0 ? rc : check_remote(c, "--tcp", &a, err);
    }
    uint64_t largest = c->max_body > c->max_line ? c->max_body : c->max_line;
    if (rc == 0 && c->max_input < 2 * largest) {
        rc = tidings_fail(err, TIDINGS_E_INVALID,
                          "--max-input: one message would not fit; give it at least twice the "
                          "larger of --max-body and --max-line, %llu bytes",
                          (unsigned long long)(2 * largest));
    }
    if (rc == 0 && c->max_output < c->max_read) {
        rc = tidings_fail(err, TIDINGS_E_INVALID,
                          "--max-output: one resource would not fit; give it at least --max-read, "
                          "%llu bytes",
                          (unsigned long long)c->max_read);
    }
    if (rc == 0 && c->entities[0] && c->store[0] && strcmp(c->entities, c->store) != 0) {
        char one[URL_REDACTED_MAX], other[URL_REDACTED_MAX];
        rc = tidings_fail(err, TIDINGS_E_INVALID,
                          "--entities '%s' and --store '%s': a server has one store; name the same "
                          "file, or leave one out",
                          url_redact(c->entities, one), url_redact(c->store, other));
    }
    rc = rc == 0 ? check_cluster(c, err) : rc;
    return rc == 0 ? entity_authority_check(c, err) : rc;
}
