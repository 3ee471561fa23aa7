/* SPDX-License-Identifier: MIT
 *
 * Sets up token verification and the OAuth metadata for clients. The metadata is built once, when
 * the server starts; requests only copy it.
 */
#include "server/auth_setup.h"

#include <tidings/server.h>

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "formats/json.h"
#include "formats/json_parse.h"
#include "formats/json_write.h"
#include "formats/pattern.h"
#include "formats/uri.h"
#include "formats/uri_template.h"
#include "security/dpop.h"
#include "security/seal.h"
#include "security/token_file.h"
#include "server/publish.h"

/* -------------------------------------------------------------------------------------------------
 * Reads and checks access rules. A set of rules is one array and the strings of each rule, which
 * are freed together with the last reference.
 */

#define RULE_MAX_DEPTH 4u
#define ALL_KINDS (1u << PRINCIPAL_USER | 1u << PRINCIPAL_CERTIFICATE | 1u << PRINCIPAL_TOKEN)

struct rule_set {
    struct access_rules base;
    struct access_rule *rules;
    char **texts; /* of each rule: name, scope and URI in one block */
};

static void set_destroy(struct access_rules *base)
{
    struct rule_set *set = list_entry(base, struct rule_set, base);
    for (size_t i = 0; i < base->count; i++) {
        mem_free(set->texts[i]);
    }
    mem_free(set->texts);
    mem_free(set->rules);
    mem_free(set);
}

/* ---- one rule -------------------------------------------------------------------------------- */

struct word {
    const char *name;
    unsigned value;
};

static const struct word operations[] = {
    {"list", 1u << ACCESS_LIST},
    {"read", 1u << ACCESS_READ},
    {"subscribe", 1u << ACCESS_SUBSCRIBE},
    {"write", 1u << ACCESS_WRITE},
    {NULL, 0},
};

static const struct word kinds[] = {
    {"token", 1u << PRINCIPAL_TOKEN},
    {"certificate", 1u << PRINCIPAL_CERTIFICATE},
    {"user", 1u << PRINCIPAL_USER},
    {NULL, 0},
};

static const struct word whoms[] = {
    {"*", ACCESS_ANYBODY},
    {"anonymous", ACCESS_ANONYMOUS},
    {"authenticated", ACCESS_AUTHENTICATED},
    {NULL, 0},
};

static const struct word matches[] = {
    {"literal", PATTERN_LITERAL},
    {"container", PATTERN_CONTAINER},
    {"glob", PATTERN_GLOB},
    {"template", PATTERN_TEMPLATE},
    {NULL, 0},
};

static const struct word *find_word(const struct word *words, struct tidings_str text)
{
    while (words->name && !str_eq(tidings_str(words->name), text)) {
        words++;
    }
    return words->name ? words : NULL;
}

static int read_allow(struct access_rule *rule, struct json *v, struct tidings_error *err)
{
    size_t count = json_list_count(v);
    for (size_t i = 0; i < count; i++) {
        const struct word *word = find_word(operations, jv_str(json_list_at(v, i)));
        if (!word) {
            count = 0;
            break;
        }
        rule->ops |= word->value;
    }
    return count > 0 ? 0
                     : tidings_fail(err, TIDINGS_E_INVALID,
                                    "allow: must be one or an array of some of list, read, "
                                    "subscribe and write");
}

static int access_read_text(struct json *v, const char *name, size_t max, struct tidings_str *ret,
                            struct tidings_error *err)
{
    *ret = jv_str(v);
    if (!jv_is(v, JV_STRING) || ret->len == 0 || ret->len > max ||
        memchr(ret->ptr, '\0', ret->len)) {
        return tidings_fail(err, TIDINGS_E_INVALID, "%s: must be a string of 1 to %zu bytes", name,
                            max);
    }
    return 0;
}

static int read_principal(struct access_rule *rule, struct json *v, struct tidings_error *err)
{
    int rc = access_read_text(v, "principal", PRINCIPAL_MAX - 1, &rule->name, err);
    const struct word *word = rc == 0 ? find_word(whoms, rule->name) : NULL;
    rule->whom = word ? (enum access_whom)word->value : ACCESS_NAMED;
    return rc;
}

static int read_by(struct access_rule *rule, struct json *v, struct tidings_error *err)
{
    const struct word *word = find_word(kinds, jv_str(v));
    if (!word) {
        return tidings_fail(err, TIDINGS_E_INVALID, "by: must be token, certificate or user");
    }
    rule->kinds = word->value;
    return 0;
}

/* Returns true if the URI contains a character class. Brackets right after the slashes contain the
 * address of a host instead. */
static bool access_has_class(struct tidings_str uri)
{
    ptrdiff_t at = str_find(uri, '[');
    bool is_host = at > 2 && memcmp(uri.ptr + at - 3, "://", 3) == 0;
    return at >= 0 && (!is_host || str_find(str_skip(uri, (size_t)at + 1), '[') >= 0);
}

static int access_check_template(struct tidings_str text, struct tidings_error *err)
{
    struct uri_template *t = NULL;
    int rc = template_create(text, &t, err);
    template_destroy(t);
    return rc;
}

/* Kind and canonical text of the pattern; `match` NULL: the kind is inferred from the text. */
static int access_read_uri(struct access_rule *rule, const struct config *c, struct json *v,
                           struct json *match, struct buf *canonical, struct tidings_error *err)
{
    struct tidings_str given;
    int rc = access_read_text(v, "uri", URI_MAX, &given, err);
    const struct word *word = find_word(matches, jv_str(match));
    if (rc == 0 && match && !word) {
        rc = tidings_fail(err, TIDINGS_E_INVALID,
                          "match: must be literal, container, glob or template");
    }
    if (rc < 0) {
        return rc;
    }
    rule->kind = str_find(given, '{') >= 0                              ? PATTERN_TEMPLATE
                 : str_find(given, '*') >= 0 || access_has_class(given) ? PATTERN_GLOB
                 : given.ptr[given.len - 1] == '/'                      ? PATTERN_CONTAINER
                                                                        : PATTERN_LITERAL;
    rule->kind = word ? (enum pattern_kind)word->value : rule->kind;
    bool is_pattern = rule->kind == PATTERN_TEMPLATE || rule->kind == PATTERN_GLOB;
    rc = entity_authority_canonical(c, given, is_pattern, canonical, err);
    if (rc == 0 && rule->kind == PATTERN_TEMPLATE) {
        rc = access_check_template(buf_str(canonical), err);
    } else if (rc == 0 && rule->kind == PATTERN_GLOB) {
        rc = glob_check_uri(buf_str(canonical), false, err);
    }
    rule->uri = buf_str(canonical);
    return rc < 0 ? error_wrap(err, rc, "uri") : 0;
}

static int access_read_members(struct access_rule *rule, const struct config *c, struct json *v,
                               struct buf *canonical, struct tidings_error *err)
{
    struct tidings_str key;
    struct json *member = NULL, *uri = jv_get(v, "uri"), *match = jv_get(v, "match");
    int rc = uri ? access_read_uri(rule, c, uri, match, canonical, err) : 0;
    if (match && !uri) {
        rc = tidings_fail(err, TIDINGS_E_INVALID,
                          "match: says how 'uri' is meant, which is missing");
    }
    for (void *at = NULL; rc == 0 && (at = jv_next(v, at, &key, &member)) != NULL;) {
        if (str_eq(key, STR("principal"))) {
            rc = read_principal(rule, member, err);
        } else if (str_eq(key, STR("by"))) {
            rc = read_by(rule, member, err);
        } else if (str_eq(key, STR("scope"))) {
            rc = access_read_text(member, "scope", PRINCIPAL_SCOPE_MAX, &rule->scope, err);
        } else if (str_eq(key, STR("allow"))) {
            rc = read_allow(rule, member, err);
        } else if (!str_eq(key, STR("uri")) && !str_eq(key, STR("match"))) {
            rc = tidings_fail(
                err, TIDINGS_E_INVALID,
                "unknown key '%.*s' (accepted: principal, by, scope, uri, match, allow)",
                STR_ARG_MAX(key, 64));
        }
    }
    return rc;
}

/* Borrows from `v` and from `canonical`. */
static int access_read_rule(struct access_rule *rule, const struct config *c, struct json *v,
                            struct buf *canonical, struct tidings_error *err)
{
    *rule = (struct access_rule){.kinds = ALL_KINDS};
    if (!jv_is(v, JV_OBJECT)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "a rule is an object with principal, by, scope, uri, match and allow");
    }
    int rc = access_read_members(rule, c, v, canonical, err);
    bool is_proved = rule->kinds != ALL_KINDS;
    if (rc == 0 && rule->ops == 0) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "allow: is missing (list, read, subscribe, write)");
    }
    if (rc == 0 && is_proved && rule->whom == ACCESS_ANONYMOUS) {
        return tidings_fail(
            err, TIDINGS_E_INVALID,
            "by: leave it out where principal is anonymous, who has proved nothing");
    }
    if (rc == 0 && is_proved && rule->whom == ACCESS_ANYBODY) {
        rule->whom = ACCESS_AUTHENTICATED;
    }
    return rc;
}

int access_rule_check(struct tidings_str text, struct tidings_error *err)
{
    struct json *v = NULL;
    struct access_rule rule;
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3);
    int rc = jv_parse(text, RULE_MAX_DEPTH, &v, err);
    if (rc == 0) {
        rc = access_read_rule(&rule, NULL, v, &canonical, err);
    }
    jv_unref(v);
    buf_deinit(&canonical);
    return rc;
}

/* ---- sets of rules --------------------------------------------------------------------------- */

static int access_add(struct rule_set *set, const struct config *c, struct json *v,
                      struct tidings_error *err)
{
    struct access_rule rule;
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3);
    int rc = access_read_rule(&rule, c, v, &canonical, err);
    char *text = rc == 0 ? mem_alloc(rule.name.len + rule.scope.len + rule.uri.len + 1) : NULL;
    if (rc == 0 && !text) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (rc == 0) {
        char *at = text;
        rule.name = str_pack(&at, rule.name);
        rule.scope = str_pack(&at, rule.scope);
        rule.uri = str_pack(&at, rule.uri);
        set->texts[set->base.count] = text;
        set->rules[set->base.count++] = rule;
    }
    buf_deinit(&canonical);
    return rc;
}

static struct rule_set *set_create(size_t most)
{
    struct rule_set *set = mem_zalloc(sizeof(*set));
    if (!set) {
        return NULL;
    }
    set->rules = mem_zalloc((most + 1) * sizeof(*set->rules));
    set->texts = mem_zalloc((most + 1) * sizeof(*set->texts));
    set->base = (struct access_rules){.at = set->rules, .destroy = set_destroy, .refs = 1};
    if (!set->rules || !set->texts) {
        access_rules_unref(&set->base);
        return NULL;
    }
    return set;
}

/* The array of rules in the file; `ret_root` gets a reference. */
static int access_read_file(const char *path, struct json **ret_root, struct json **ret,
                            struct tidings_error *err)
{
    struct buf text;
    buf_init(&text, CONFIG_FILE_MAX + 8192);
    int rc = whole_file_read(path, CONFIG_FILE_MAX, &text, err);
    if (rc < 0) { /* the message names the rule */
        buf_deinit(&text);
        return rc;
    }
    if (json_blank_comments(text.ptr, text.len) > 0) {
        rc = tidings_fail(err, TIDINGS_E_PARSE, "a comment is never closed");
    }
    if (rc == 0) {
        json_blank_commas(text.ptr, text.len);
        rc = jv_parse(buf_str(&text), RULE_MAX_DEPTH + 2, ret_root, err);
    }
    buf_deinit(&text);
    if (rc == 0) {
        *ret = jv_is(*ret_root, JV_OBJECT) ? jv_get(*ret_root, "access") : *ret_root;
        if (!jv_is(*ret, JV_ARRAY) || jv_count(*ret) > ACCESS_MAX_RULES) {
            rc = tidings_fail(err, TIDINGS_E_INVALID,
                              "the file must hold an array of at most %u rules, or an object with "
                              "one as 'access'",
                              ACCESS_MAX_RULES);
        }
    }
    return rc < 0 ? error_wrap(err, rc, "%s", path) : 0;
}

static int add_configured(struct rule_set *set, const struct config *c, struct tidings_error *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < c->access.count; i++) {
        struct json *v = NULL;
        rc = jv_parse(tidings_str(c->access.items[i]), RULE_MAX_DEPTH, &v, err);
        if (rc == 0) {
            rc = access_add(set, c, v, err);
        }
        jv_unref(v);
    }
    return rc;
}

int access_load(const struct config *c, struct access_rules **ret, struct tidings_error *err)
{
    bool has_file = c->access_file && c->access_file[0];
    struct json *root = NULL, *rules = NULL;
    *ret = NULL;
    if (!has_file && c->access.count == 0) {
        return 0;
    }
    int rc = seal_load(err);
    if (rc < 0) {
        return error_wrap(err, rc, "access rules need OpenSSL, to seal cursors");
    }
    rc = has_file ? access_read_file(c->access_file, &root, &rules, err) : 0;
    struct rule_set *set = rc == 0 ? set_create(c->access.count + jv_count(rules)) : NULL;
    if (rc == 0 && !set) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (rc == 0) {
        rc = add_configured(set, c, err);
    }
    for (size_t i = 0; rc == 0 && i < jv_count(rules); i++) {
        rc = access_add(set, c, jv_at(rules, i), err);
        if (rc < 0) {
            rc = error_wrap(err, rc, "%s: rule %zu", c->access_file, i + 1);
        }
    }
    jv_unref(root);
    if (rc < 0 && set) {
        access_rules_unref(&set->base);
    } else if (rc == 0) {
        *ret = &set->base;
    }
    return rc;
}

/* -------------------------------------------------------------------------------------------------
 * tidings_token_create: a new bearer token, for programs that issue tokens.
 */

int tidings_token_create(struct tidings_str name, struct tidings_str scopes, char **ret_token,
                         char **ret_line, struct tidings_error *err)
{
    struct buf token, line;
    buf_init_secret(&token, AUTH_TOKEN_MAX);
    buf_init(&line, TOKEN_FILE_MAX);
    int rc = token_make(name, scopes, &token, &line, err);
    if (rc == 0) {
        *ret_token = buf_detach(&token, NULL);
        *ret_line = buf_detach(&line, NULL);
    }
    buf_deinit(&token);
    buf_deinit(&line);
    return rc;
}

/* ---------------------------------------------------------------------------------------------- */

#define TEXT_MAX (256u * 1024u)
#define SCOPES_MAX 64u /* in the metadata */

/* "https://host:1/path" -> "https://host:1", "/path"; a lone '/' counts as no path. */
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

/* A slice of a buffer that still grows: its start and end. */
struct piece {
    size_t from, to;
};

/* The well-known URL of a document, before the path (RFC 8414 §3.1, RFC 9728 §3.1). */
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

/* A set of scopes, without the one that only concerns the client and the authorization server. */
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

/* The scopes that every token needs, and the scopes in rules. */
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

/* Builds the metadata for clients. `resource` empty: the server has no name, and no issuer needs
 * one. */
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
