/* SPDX-License-Identifier: MIT
 *
 * The configuration file: JSON with // and block comments, and trailing commas. They are blanked
 * out in a copy, which preserves line numbers; the strict parser then checks the text, and a small
 * walker over the same text finds the lines of errors. The walker assumes text that the parser has
 * accepted.
 */
#include <inttypes.h>
#include <stdio.h>

#include <tidings/server.h>

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/net/tls.h"
#include "cluster/postgres_nodes.h"
#include "formats/json.h"
#include "formats/json_parse.h"
#include "formats/json_write.h"
#include "formats/url.h"
#include "server/config.h"
#include "server/config_internal.h"
#include "server/option_rules.h"
#include "server/publish.h"
#include "server/setup.h"
#include "store/store.h"

/* -------------------------------------------------------------------------------------------------
 * Checks settings of the configuration that need or contradict one another.
 */

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
            "%s: tokens would cross the network unencrypted; add --tls-cert and --tls-key, or, if "
            "a proxy terminates TLS, name its address: --auth-resource https://…",
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

/* Errors in the files are found when the server opens them. */
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

/* Checks that the URL is spelled as clients compare it: lower case, no query, no fragment. */
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

/* Rejects settings that depend on other settings which are not set. */
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
         "--auth-resource: no token is required; add --auth-issuer or --auth-tokens"},
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
        return tidings_fail(
            err, TIDINGS_E_DENIED,
            "--tcp: this transport carries no token, so clients would not be authenticated; "
            "require certificates (--tls-client-auth require), or remove the option");
    }
    return c->auth_resource[0] ? check_resource(c, err) : 0;
}

/* ---- all checks ------------------------------------------------------------------------------ */

bool config_knows_clients(const struct config *c)
{
    return c->tls_cert.count > 0 && c->tls_client_auth == TLS_CLIENT_REQUIRE;
}

bool config_shows_self(const struct config *c)
{
    return c->self || c->console;
}

/* Other nodes and operators see the name, so it must not be ambiguous. */
static int check_cluster_name(const char *option, const char *name, struct tidings_error *err)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");
    return len > 0 && len <= SHARED_NAME_MAX && name[len] == '\0'
               ? 0
               : tidings_fail(err, TIDINGS_E_INVALID,
                              "--%s: a name has 1 to %u letters, digits, '-', '_' and '.'", option,
                              SHARED_NAME_MAX);
}

/* Checks the mounts that several nodes share. */
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
    /* The output of `tidings config` must be readable again, so the default value is allowed. */
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

/* ---------------------------------------------------------------------------------------------- */

#define FILE_MAX_DEPTH 16u
#define MOUNT_SETTINGS_MAX 65536u

/* ---- source lines ---------------------------------------------------------------------------- */

struct cursor {
    const char *at, *end;
    unsigned line;
};

static void skip_blank(struct cursor *c)
{
    while (c->at < c->end && strchr(" \t\r\n", *c->at) && *c->at) {
        c->line += *c->at++ == '\n' ? 1 : 0;
    }
}

/* At a '"': the raw text between the quotes; moves to the end of the string. */
static struct tidings_str skip_string(struct cursor *c)
{
    const char *start = ++c->at;
    while (c->at < c->end && *c->at != '"') {
        c->at += *c->at == '\\' && c->end - c->at > 1 ? 2 : 1;
    }
    struct tidings_str raw = tidings_strn(start, (size_t)(c->at - start));
    if (c->at < c->end) {
        c->at++;
    }
    return raw;
}

/* Moves to the end of one whole value. */
static void skip_value(struct cursor *c)
{
    unsigned depth = 0;
    skip_blank(c);
    while (c->at < c->end) {
        char ch = *c->at;
        if (ch == '"') {
            skip_string(c);
        } else if (depth == 0 && (ch == ',' || ch == ']' || ch == '}')) {
            return;
        } else {
            depth += ch == '[' || ch == '{' ? 1 : 0;
            depth -= ch == ']' || ch == '}' ? 1 : 0;
            c->line += ch == '\n' ? 1 : 0;
            c->at++;
        }
    }
}

/* From the start of an object to the value of `key`; `line` becomes the line of the key. */
static bool enter_key(struct cursor *c, struct tidings_str key)
{
    skip_blank(c);
    while (c->at < c->end && (*c->at == '{' || *c->at == ',')) {
        c->at++;
        skip_blank(c);
        if (c->at >= c->end || *c->at != '"') {
            return false;
        }
        if (str_eq(skip_string(c), key)) {
            while (c->at < c->end && *c->at != ':') {
                c->at++;
            }
            c->at += c->at < c->end ? 1 : 0;
            return true;
        }
        skip_blank(c);
        c->at += c->at < c->end ? 1 : 0; /* ':' */
        skip_value(c);
        skip_blank(c);
    }
    return false;
}

/* From the start of an array to its element. */
static bool enter_index(struct cursor *c, size_t index)
{
    skip_blank(c);
    for (size_t i = 0; c->at < c->end && (*c->at == '[' || *c->at == ','); i++) {
        c->at++;
        skip_blank(c);
        if (i == index) {
            return true;
        }
        skip_value(c);
        skip_blank(c);
    }
    return false;
}

/* ---- storing values -------------------------------------------------------------------------- */

struct reading {
    struct config *config;
    const char *path;        /* the name in errors */
    struct tidings_str base; /* the folder of relative directories */
    struct tidings_str text; /* without comments */
};

static unsigned line_of_key(const struct reading *r, struct tidings_str key)
{
    struct cursor c = {r->text.ptr, r->text.ptr + r->text.len, 1};
    return enter_key(&c, key) ? c.line : 1;
}

/* The line of an element of `list`, or of its member `key`. */
static unsigned line_of_item(const struct reading *r, struct tidings_str list, size_t index,
                             const char *key)
{
    struct cursor c = {r->text.ptr, r->text.ptr + r->text.len, 1};
    if (!enter_key(&c, list) || !enter_index(&c, index)) {
        return 1;
    }
    struct cursor inner = c;
    return key && enter_key(&inner, tidings_str(key)) ? inner.line : c.line;
}

static int wrong_type(const struct config_row *row, struct tidings_error *err)
{
    struct buf accepted;
    buf_init(&accepted, 160);
    config_put_accepted(&accepted, row);
    tidings_fail(err, TIDINGS_E_INVALID, "wrong type of value (accepted: %s)",
                 accepted.ptr ? accepted.ptr : "");
    buf_deinit(&accepted);
    return TIDINGS_E_INVALID;
}

/* A string of the file without NUL, because libc functions use it later. */
static int clean_string(const struct json *v, struct tidings_str *ret, struct tidings_error *err)
{
    struct tidings_str s = jv_str(v);
    if (!jv_is(v, JV_STRING)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "wrong type of value (accepted: a string)");
    }
    if (s.len > 0 && memchr(s.ptr, '\0', s.len)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "holds a NUL character");
    }
    *ret = s;
    return 0;
}

/* Files are relative to the folder of this file; URLs, where allowed, are unchanged.
 */
static int assign(const struct reading *r, const struct config_row *row, struct tidings_str text,
                  struct config_origin origin, struct tidings_error *err)
{
    bool is_file = row->type == CONFIG_PATH || row->type == CONFIG_FILES;
    bool is_url = str_starts(text, STR("https://")) || str_starts(text, STR("http://"));
    if (!is_file || is_url || text.len == 0 || text.ptr[0] == '/' || r->base.len == 0) {
        return config_assign(r->config, row, text, origin, err);
    }
    char path[2 * CONFIG_VALUE_MAX]; /* truncated text is too long for any value */
    snprintf(path, sizeof(path), "%.*s%.*s", STR_ARG(r->base), STR_ARG(text));
    return config_assign(r->config, row, tidings_str(path), origin, err);
}

static int take_plain(const struct reading *r, const struct config_row *row, struct json *v,
                      struct config_origin origin, struct tidings_error *err)
{
    char number[24];
    struct tidings_str text;
    bool is_bool = jv_is(v, JV_TRUE) || jv_is(v, JV_FALSE);
    bool is_int = jv_is(v, JV_INT);
    if (row->type == CONFIG_BOOL) {
        if (!is_bool) {
            return wrong_type(row, err);
        }
        text = jv_is_true(v) ? STR("true") : STR("false");
    } else if (is_int && (row->type == CONFIG_NUMBER || row->type == CONFIG_SIZE ||
                          row->type == CONFIG_DURATION)) {
        snprintf(number, sizeof(number), "%" PRId64, jv_int(v));
        text = tidings_str(number);
    } else {
        if (row->type == CONFIG_NUMBER || !jv_is(v, JV_STRING)) {
            return wrong_type(row, err);
        }
        int rc = clean_string(v, &text, err);
        if (rc < 0) {
            return rc;
        }
    }
    return assign(r, row, text, origin, err);
}

static int take_list(const struct reading *r, const struct config_row *row, struct json *v,
                     struct config_origin origin, struct tidings_error *err)
{
    if (!json_is_list(v)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "wrong type of value (accepted: an array of strings, or one)");
    }
    if (json_list_count(v) == 0) {
        return config_assign(r->config, row, STR_EMPTY, origin, err);
    }
    for (size_t i = 0; i < json_list_count(v); i++) {
        struct tidings_str item;
        int rc = clean_string(json_list_at(v, i), &item, err);
        if (rc == 0) {
            rc = assign(r, row, item, origin, err);
        }
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int config_file_take_excludes(struct json *v, struct config_list *list,
                                     struct tidings_error *err)
{
    if (!json_is_list(v)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "wrong type of value (accepted: an array of globs, or one)");
    }
    for (size_t i = 0; i < json_list_count(v); i++) {
        struct tidings_str item;
        int rc = clean_string(json_list_at(v, i), &item, err);
        if (rc == 0 && item.len > 0) {
            rc = config_check_item(CONFIG_GLOBS, item, err);
        }
        if (rc == 0) {
            rc = config_list_add(list, item, err);
        }
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* Check a mount's rule for subscriptions below it; one of the two is NULL. */
static int take_rule(struct json *options, struct json *limits, struct tidings_error *err)
{
    struct option_rule rule;
    return jv_is(options ? options : limits, JV_OBJECT)
               ? option_rule_read(&rule, options, limits, err)
               : tidings_fail(err, TIDINGS_E_INVALID, "must be an object");
}

/* A mount, as far as it has been read. */
struct mount_reading {
    struct config_mount_spec spec;
    struct config_list exclude;
    struct buf settings; /* of providers other than files: a JSON object */
    struct jw w;
};

/* Members that only files have; other providers check their own members. */
static int take_own_member(struct mount_reading *m, struct tidings_str key, struct json *v,
                           struct tidings_error *err)
{
    if (m->spec.ops) {
        jw_key(&m->w, key);
        jw_value(&m->w, v);
        return m->settings.failed
                   ? tidings_fail(err, m->settings.failed, "the settings are too large")
                   : 0;
    }
    if (str_eq(key, STR("path"))) {
        return clean_string(v, &m->spec.path, err);
    }
    if (str_eq(key, STR("exclude"))) {
        return config_file_take_excludes(v, &m->exclude, err);
    }
    return tidings_fail(err, TIDINGS_E_INVALID,
                        "unknown key (accepted: type, uri, path, exclude, nodes, options, limits)");
}

static int take_nodes(struct json *v, enum mount_nodes *ret, struct tidings_error *err)
{
    char shown[CONFIG_QUOTE_MAX];
    struct tidings_str name = STR_EMPTY;
    int rc = clean_string(v, &name, err);
    for (int i = MOUNT_LOCAL; rc == 0 && i <= MOUNT_OWNED; i++) {
        if (str_eq(name, tidings_str(mount_nodes_name((enum mount_nodes)i)))) {
            *ret = (enum mount_nodes)i;
            return 0;
        }
    }
    return rc < 0 ? rc
                  : tidings_fail(err, TIDINGS_E_INVALID, "'%s' (accepted: " MOUNT_NODES_NAMES ")",
                                 config_quote(name, shown));
}

static int take_mount_member(struct mount_reading *m, struct tidings_str key, struct json *v,
                             struct tidings_error *err)
{
    struct config_mount_spec *spec = &m->spec;
    if (str_eq(key, STR("type"))) {
        return 0; /* it was read first */
    }
    if (str_eq(key, STR("uri"))) {
        return clean_string(v, &spec->uri, err);
    }
    if (str_eq(key, STR("nodes"))) {
        return take_nodes(v, &spec->nodes, err);
    }
    if (str_eq(key, STR("options"))) {
        spec->options = v;
        return take_rule(v, NULL, err);
    }
    if (str_eq(key, STR("limits"))) {
        spec->limits = v;
        return take_rule(NULL, v, err);
    }
    return take_own_member(m, key, v, err);
}

static int config_file_take_type(struct json *v, struct config_mount_spec *spec,
                                 struct tidings_error *err)
{
    char shown[CONFIG_QUOTE_MAX];
    struct tidings_str name = STR_EMPTY;
    struct json *type = jv_get(v, "type");
    int rc = type ? clean_string(type, &name, err) : 0;
    if (rc < 0 || !type || str_eq(name, STR("file"))) {
        return rc;
    }
    spec->ops = builtin_find(name);
    return spec->ops ? 0
                     : tidings_fail(err, TIDINGS_E_INVALID, "'%s' is not a provider (accepted: %s)",
                                    config_quote(name, shown), BUILTIN_NAMES);
}

static int take_members(struct mount_reading *m, struct json *v, char failed[CONFIG_NAME_MAX],
                        struct tidings_error *err)
{
    char shown[CONFIG_QUOTE_MAX];
    struct tidings_str key = STR("type");
    struct json *member;
    int rc = config_file_take_type(v, &m->spec, err);
    for (void *it = NULL; rc == 0 && (it = jv_next(v, it, &key, &member)) != NULL;) {
        rc = take_mount_member(m, key, member, err);
    }
    if (rc < 0) {
        snprintf(failed, CONFIG_NAME_MAX, "%.*s", STR_ARG(key));
        return error_wrap(err, rc, "%s", config_quote(key, shown));
    }
    if (!m->spec.ops && (m->spec.path.len == 0 || m->spec.path.len > CONFIG_VALUE_MAX)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "path: a mount needs a directory");
    }
    return 0;
}

static int take_mount(const struct reading *r, struct json *v, size_t index,
                      struct tidings_error *err)
{
    struct mount_reading m = {.spec = {.base = r->base, .exclude = &m.exclude}};
    struct config_origin origin = {CONFIG_FILE, line_of_key(r, STR("mounts"))};
    char failed[CONFIG_NAME_MAX] = "";
    buf_init(&m.settings, MOUNT_SETTINGS_MAX);
    jw_init(&m.w, &m.settings);
    jw_begin_object(&m.w);
    int rc = jv_is(v, JV_OBJECT)
                 ? take_members(&m, v, failed, err)
                 : tidings_fail(err, TIDINGS_E_INVALID,
                                "a mount is an object with uri, path and exclude, or type");
    jw_end_object(&m.w);
    if (rc == 0 && m.settings.failed) {
        rc = tidings_fail(err, m.settings.failed, "the settings are too large");
    }
    if (rc == 0) {
        m.spec.settings = buf_str(&m.settings);
        rc = config_mount_add(r->config, &m.spec, origin, err);
    }
    config_list_deinit(&m.exclude);
    buf_deinit(&m.settings);
    if (rc < 0) {
        return error_wrap(err, rc, "%s:%u: mounts", r->path,
                          line_of_item(r, STR("mounts"), index, failed[0] ? failed : NULL));
    }
    return 0;
}

static int take_rules(const struct reading *r, const struct config_row *row, struct json *v,
                      struct tidings_error *err)
{
    struct tidings_str list = tidings_str(row->key);
    struct config_origin origin = {CONFIG_FILE, line_of_key(r, list)};
    if (!jv_is(v, JV_ARRAY)) {
        return error_wrap(err, wrong_type(row, err), "%s:%u: %s", r->path, origin.line, row->key);
    }
    for (size_t i = 0; i < jv_count(v); i++) {
        struct buf text;
        struct jw w;
        buf_init(&text, CONFIG_FILE_MAX);
        jw_init(&w, &text);
        jw_value(&w, jv_at(v, i));
        int rc = text.failed ? tidings_fail(err, text.failed, "out of memory")
                             : config_assign(r->config, row, buf_str(&text), origin, err);
        buf_deinit(&text);
        if (rc < 0) {
            return error_wrap(err, rc, "%s:%u: %s", r->path, line_of_item(r, list, i, NULL),
                              row->key);
        }
    }
    return 0;
}

static int take_mounts(const struct reading *r, struct json *v, struct tidings_error *err)
{
    if (!jv_is(v, JV_ARRAY)) {
        tidings_fail(err, TIDINGS_E_INVALID, "wrong type of value (accepted: an array of mounts)");
        return error_wrap(err, TIDINGS_E_INVALID, "%s:%u: mounts", r->path,
                          line_of_key(r, STR("mounts")));
    }
    for (size_t i = 0; i < jv_count(v); i++) {
        int rc = take_mount(r, jv_at(v, i), i, err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int config_file_take_member(const struct reading *r, struct tidings_str key, struct json *v,
                                   struct tidings_error *err)
{
    const struct config_row *row = config_find(key, CONFIG_AS_KEY);
    struct config_origin origin = {CONFIG_FILE, line_of_key(r, key)};
    if (!row) {
        int rc = config_unknown(key, CONFIG_AS_KEY, "key", err);
        return error_wrap(err, rc, "%s:%u", r->path, origin.line);
    }
    if (row->type == CONFIG_MOUNTS) {
        return take_mounts(r, v, err);
    }
    if (row->type == CONFIG_RULES || row->type == CONFIG_ACCESS) {
        return take_rules(r, row, v, err);
    }
    int rc = config_is_list(row->type) ? take_list(r, row, v, origin, err)
                                       : take_plain(r, row, v, origin, err);
    if (rc < 0) {
        char name[CONFIG_NAME_MAX];
        config_spell(row, CONFIG_AS_KEY, name);
        return error_wrap(err, rc, "%s:%u: %s", r->path, origin.line, name);
    }
    return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* "line 3 column 8: …" from the parser becomes "file:3: …". */
static int locate_parse_error(const struct reading *r, int rc, struct tidings_error *err)
{
    unsigned line = 0, column = 0;
    int used = 0;
    if (!err) {
        return rc;
    }
    if (sscanf(err->text, "line %u column %u: %n", &line, &column, &used) < 2 || used == 0) {
        return error_wrap(err, rc, "%s", r->path);
    }
    memmove(err->text, err->text + used, strlen(err->text + used) + 1);
    return error_wrap(err, rc, "%s:%u", r->path, line);
}

static int config_file_read_text(struct reading *r, struct tidings_error *err)
{
    struct json *root = NULL;
    int rc = jv_parse(r->text, FILE_MAX_DEPTH, &root, err);
    if (rc < 0) {
        return locate_parse_error(r, rc, err);
    }
    if (!jv_is(root, JV_OBJECT)) {
        rc =
            tidings_fail(err, TIDINGS_E_PARSE, "%s:1: the file must hold one JSON object", r->path);
    }
    struct tidings_str key;
    struct json *v;
    for (void *it = NULL; rc == 0 && (it = jv_next(root, it, &key, &v)) != NULL;) {
        rc = config_file_take_member(r, key, v, err);
    }
    jv_unref(root);
    return rc;
}

int config_load_text(struct config *c, const char *path, struct tidings_str text,
                     struct tidings_error *err)
{
    struct reading r = {.config = c, .path = path};
    struct tidings_str name = tidings_str(path);
    while (name.len > 0 && name.ptr[name.len - 1] != '/') {
        name.len--;
    }
    r.base = name;
    if (text.len > CONFIG_FILE_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "%s: larger than %u bytes", path,
                            CONFIG_FILE_MAX);
    }
    char *file = str_dup(tidings_str(path));
    char *copy = str_dup(text);
    int rc = 0;
    if (!copy || !file) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "%s: out of memory", path);
        goto fail_copy;
    }
    mem_free(c->file);
    c->file = file;
    file = NULL;
    unsigned unclosed = json_blank_comments(copy, text.len);
    if (unclosed > 0) {
        rc = tidings_fail(err, TIDINGS_E_PARSE, "%s:%u: the comment is never closed", path,
                          unclosed);
        goto fail_copy;
    }
    json_blank_commas(copy, text.len);
    r.text = tidings_strn(copy, text.len);
    rc = config_file_read_text(&r, err);
fail_copy:
    mem_free(copy);
    mem_free(file);
    return rc;
}

int config_load_file(struct config *c, const char *path, enum tidings_file_from from,
                     struct tidings_error *err)
{
    struct buf text;
    buf_init(&text, CONFIG_FILE_MAX + 8192);
    int rc = from == TIDINGS_FILE_NAMED ? whole_file_read(path, CONFIG_FILE_MAX, &text, err)
                                        : whole_file_read_found(path, CONFIG_FILE_MAX, &text, err);
    if (rc == 0) {
        rc = config_load_text(c, path, buf_str(&text), err);
    }
    c->file_from = from;
    buf_deinit(&text);
    return rc;
}

/* -------------------------------------------------------------------------------------------------
 * The configuration from outside the file: arguments, environment; and the text of --help. A higher
 * source wins in any order, so arguments are read first (they name the file) and the file last.
 */

/* ---- environment ----------------------------------------------------------------------------- */

/* Unknown names with our prefix are normal (an orchestrator sets TIDINGS_PORT, a user
 * TIDINGS_HOME), so only names that resemble a known one are reported as typing errors. */
static int check_foreign(struct tidings_str name, struct tidings_error *err)
{
    if (str_eq(name, STR("TIDINGS_SERVER")) || str_eq(name, STR("TIDINGS_TOKEN")) ||
        str_eq(name, STR("TIDINGS_LAUNCHED"))) {
        return 0; /* used by the commands that connect to a server */
    }
    const size_t prefix = sizeof("TIDINGS_") - 1;
    unsigned distance = name.len - prefix <= 6 ? 1 : 2;
    if (!config_nearest(name, CONFIG_AS_VARIABLE, distance)) {
        return 0;
    }
    return config_unknown(name, CONFIG_AS_VARIABLE, "variable", err);
}

static int take_variable(struct config *c, const struct config_row *row, const char *value,
                         struct tidings_error *err)
{
    struct config_origin origin = {CONFIG_ENVIRONMENT, 0};
    struct tidings_str rest = tidings_str(value);
    int rc = 0;
    bool is_json = row->type == CONFIG_RULES || row->type == CONFIG_ACCESS; /* contains commas */
    bool splits = config_is_list(row->type) && !is_json;
    if (!splits) {
        rc = config_assign(c, row, rest, origin, err);
    }
    while (splits && rc == 0 && rest.len > 0) {
        struct tidings_str item = str_trim(str_cut(rest, ',', &rest, NULL), " \t");
        rc = item.len > 0 ? config_assign(c, row, item, origin, err) : 0;
    }
    if (rc < 0) {
        char name[CONFIG_NAME_MAX];
        config_spell(row, CONFIG_AS_VARIABLE, name);
        return error_wrap(err, rc, "%s", name);
    }
    return 0;
}

int config_load_env(struct config *c, char *const *environment, struct tidings_error *err)
{
    for (char *const *e = environment; e && *e; e++) {
        struct tidings_str value;
        struct tidings_str name = str_cut(tidings_str(*e), '=', &value, NULL);
        if (!str_starts(name, STR("TIDINGS_")) || value.len == 0 ||
            str_eq(name, STR("TIDINGS_CONFIG"))) {
            continue;
        }
        const struct config_row *row = config_find(name, CONFIG_AS_VARIABLE);
        int rc = row ? take_variable(c, row, value.ptr, err) : check_foreign(name, err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static const char *environment_find(char *const *environment, struct tidings_str name)
{
    for (char *const *e = environment; e && *e; e++) {
        struct tidings_str value;
        if (str_eq(str_cut(tidings_str(*e), '=', &value, NULL), name) && value.len > 0) {
            return value.ptr;
        }
    }
    return NULL;
}

/* ---- arguments ------------------------------------------------------------------------------- */

struct args {
    struct config *config;
    char *const *argv;
    int argc, next;
    const char *file; /* --config */
    bool no_file;     /* --no-config */
};

/* The value of an option: after '=' or the next argument. */
static int option_value(struct args *a, struct tidings_str name, const char *inline_value,
                        const char **ret, struct tidings_error *err)
{
    char shown[CONFIG_QUOTE_MAX];
    if (inline_value) {
        *ret = inline_value;
        return 0;
    }
    if (a->next >= a->argc) {
        return tidings_fail(err, TIDINGS_E_INVALID, "%s needs a value", config_quote(name, shown));
    }
    *ret = a->argv[a->next++];
    return 0;
}

/* "--no-name" of a boolean row; NULL: another option. */
static const struct config_row *negated(struct tidings_str name)
{
    if (!str_starts(name, STR("--no-"))) {
        return NULL;
    }
    const struct config_row *row = config_find(str_skip(name, 5), CONFIG_AS_NAME);
    return row && row->type == CONFIG_BOOL ? row : NULL;
}

/* Decides whether the next argument is the value of an option with an optional value. Positional
 * arguments are directories; a directory that looks like an address is written ./HOST:PORT. */
static bool is_value_next(const struct args *a)
{
    const char *next = a->next < a->argc ? a->argv[a->next] : "";
    return strcmp(next, "path") == 0 || (next[0] != '-' && strchr(next, ':') && !strchr(next, '/'));
}

static int take_option(struct args *a, const char *arg, struct tidings_error *err)
{
    bool has_value;
    struct tidings_str rest;
    struct tidings_str name = str_cut(tidings_str(arg), '=', &rest, &has_value);
    const char *given = has_value ? rest.ptr : NULL;
    const char *value = NULL;
    int rc = 0;
    if (str_eq(name, STR("--config"))) {
        return option_value(a, name, given, &a->file, err);
    }
    if (str_eq(name, STR("--no-config")) && !has_value) {
        a->no_file = true;
        return 0;
    }
    const struct config_row *row = config_find(name, CONFIG_AS_FLAG);
    if (!row && !has_value && (row = negated(name)) != NULL) {
        return config_set(a->config, row->name, "false", CONFIG_FLAG, err);
    }
    if (!row) {
        return config_unknown(name, CONFIG_AS_FLAG, "option", err);
    }
    if (row->type == CONFIG_BOOL) {
        value = given ? given : "true";
    } else if (row->bare && !given && !is_value_next(a)) {
        value = row->bare;
    } else {
        rc = option_value(a, name, given, &value, err);
    }
    return rc < 0 ? rc : config_set(a->config, row->name, value, CONFIG_FLAG, err);
}

static int load_named_file(const struct args *a, char *const *environment,
                           struct tidings_error *err)
{
    const char *variable = environment_find(environment, STR("TIDINGS_CONFIG"));
    if (a->file) {
        int rc = config_load_file(a->config, a->file, TIDINGS_FILE_NAMED, err);
        return rc == TIDINGS_E_NOTFOUND ? error_wrap(err, rc, "--config") : rc;
    }
    if (a->no_file) {
        return 0;
    }
    if (variable) {
        int rc = config_load_file(a->config, variable, TIDINGS_FILE_NAMED, err);
        return rc == TIDINGS_E_NOTFOUND ? error_wrap(err, rc, "TIDINGS_CONFIG") : rc;
    }
    struct tidings_error why = {0};
    int rc = config_load_file(a->config, CONFIG_FILE_NAME, TIDINGS_FILE_FOUND, &why);
    if (rc == TIDINGS_E_NOTFOUND && !a->config->file) {
        return 0;
    }
    if (rc == TIDINGS_E_DENIED && !a->config->file) { /* never ignore it */
        error_wrap(&why, rc, "found here, but not named by --config (--no-config reads none)");
    }
    if (rc < 0 && err) {
        *err = why;
    }
    return rc;
}

int config_args(struct config *c, int argc, char *const *argv, char *const *environment,
                struct tidings_error *err)
{
    struct args a = {.config = c, .argv = argv, .argc = argc};
    bool only_directories = false;
    while (a.next < a.argc) {
        const char *arg = a.argv[a.next++];
        int rc = 0;
        if (!only_directories && strcmp(arg, "--") == 0) {
            only_directories = true;
        } else if (!only_directories && arg[0] == '-' && arg[1] != '\0') {
            rc = take_option(&a, arg, err);
        } else {
            rc = config_add_dir(c, arg, CONFIG_FLAG, err);
        }
        if (rc < 0) {
            return rc;
        }
    }
    int rc = config_load_env(c, environment, err);
    if (rc == 0) {
        rc = load_named_file(&a, environment, err);
    }
    rc = rc < 0 ? rc : config_mount_skills(c, err);
    return rc < 0 ? rc : config_check(c, err);
}
