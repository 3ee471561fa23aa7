/* SPDX-License-Identifier: MIT
 *
 * Verifies a token: looks it up in the token file, then checks it as a JWT; otherwise it needs
 * introspection. Claims are checked before the signature: they cost less, both must be valid, and
 * an expired token must not cause a fetch of keys.
 */
#include "security/verifier.h"

#include <arpa/inet.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "security/auth.h"
#include "security/jwt.h"
#include "security/token_file.h"

/* -------------------------------------------------------------------------------------------------
 * The counters of all token caches, in a list that only grows, at its head. Each count has one
 * writer, so an atomic store suffices.
 */

struct counters *counters_create(struct counters **head)
{
    struct counters *c = mem_zalloc(sizeof(*c));
    if (!c) {
        return NULL;
    }
    c->next = __atomic_load_n(head, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(head, &c->next, c, false, __ATOMIC_RELEASE,
                                        __ATOMIC_ACQUIRE)) {
    }
    return c;
}

void counters_destroy_all(struct counters *head)
{
    while (head) {
        struct counters *next = head->next;
        mem_free(head);
        head = next;
    }
}

void counters_add(uint64_t *count, int64_t n)
{
    __atomic_store_n(count, *count + (uint64_t)n, __ATOMIC_RELAXED);
}

void counters_refuse(struct counters *c, enum auth_outcome outcome, const char *why)
{
    counters_add(outcome == AUTH_MALFORMED ? &c->counts.malformed
                 : outcome == AUTH_INVALID ? &c->counts.invalid
                                           : &c->counts.unavailable,
                 1);
    for (size_t i = 0; i < COUNTERS_REASONS; i++) {
        if (!c->refused[i].why) {
            __atomic_store_n(&c->refused[i].why, why, __ATOMIC_RELEASE);
        }
        if (c->refused[i].why == why) {
            counters_add(&c->refused[i].count, 1);
            return;
        }
    }
}

static uint64_t counters_get(const uint64_t *count)
{
    return __atomic_load_n(count, __ATOMIC_RELAXED);
}

void counters_sum(struct counters *const *head, struct auth_counts *ret)
{
    *ret = (struct auth_counts){0};
    for (const struct counters *c = __atomic_load_n(head, __ATOMIC_ACQUIRE); c; c = c->next) {
        ret->verified += counters_get(&c->counts.verified);
        ret->remembered += counters_get(&c->counts.remembered);
        ret->malformed += counters_get(&c->counts.malformed);
        ret->invalid += counters_get(&c->counts.invalid);
        ret->unavailable += counters_get(&c->counts.unavailable);
        ret->waiting += counters_get(&c->counts.waiting);
    }
}

void counters_each_refusal(struct counters *const *head, auth_refusal_fn fn, void *user)
{
    struct counters sum = {.next = NULL};
    for (const struct counters *c = __atomic_load_n(head, __ATOMIC_ACQUIRE); c; c = c->next) {
        for (size_t i = 0; i < COUNTERS_REASONS; i++) {
            const char *why = __atomic_load_n(&c->refused[i].why, __ATOMIC_ACQUIRE);
            size_t n = 0;
            while (why && n < COUNTERS_REASONS && sum.refused[n].why && sum.refused[n].why != why) {
                n++;
            }
            if (why && n < COUNTERS_REASONS) {
                sum.refused[n].why = why;
                sum.refused[n].count += counters_get(&c->refused[i].count);
            }
        }
    }
    for (size_t n = 0; n < COUNTERS_REASONS && sum.refused[n].why; n++) {
        fn(user, sum.refused[n].why, sum.refused[n].count);
    }
}

/* -------------------------------------------------------------------------------------------------
 * Checks and copies options, so that errors are found before anything is opened.
 */

#define URL_MAX 2048u
#define REFRESH_MS (10u * 60 * 1000)
#define INTERVAL_MS (30u * 1000)
#define STALE_MS (60u * 60 * 1000)

/* ---- URLs ------------------------------------------------------------------------------------ */

/* Returns true for an address of the loopback network and for exactly "localhost", not for a name
 * that starts with one of these. */
static bool is_loopback(struct tidings_str host)
{
    char text[16];
    struct in_addr address;
    if (str_eq_nocase(host, STR("localhost")) || str_eq(host, STR("[::1]"))) {
        return true;
    }
    if (host.len >= sizeof(text)) {
        return false;
    }
    memcpy(text, host.ptr, host.len);
    text[host.len] = '\0';
    return inet_pton(AF_INET, text, &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

static struct tidings_str host_of(struct tidings_str authority)
{
    if (authority.len > 0 && authority.ptr[0] == '[') {
        ptrdiff_t end = str_find(authority, ']');
        return tidings_strn(authority.ptr, end < 0 ? 0 : (size_t)end + 1);
    }
    return str_cut(authority, ':', &(struct tidings_str){0}, NULL);
}

bool auth_settings_is_safe_url(struct tidings_str url)
{
    bool is_https = str_starts(url, STR("https://"));
    struct tidings_str rest = str_skip(url, is_https ? 8 : 7);
    size_t end = 0;
    if (url.len > URL_MAX || (!is_https && !str_starts(url, STR("http://")))) {
        return false;
    }
    for (size_t i = 0; i < url.len; i++) {
        if (url.ptr[i] <= ' ' || url.ptr[i] > '~' || url.ptr[i] == '\\' || url.ptr[i] == '#') {
            return false;
        }
    }
    while (end < rest.len && rest.ptr[end] != '/' && rest.ptr[end] != '?') {
        end++;
    }
    struct tidings_str authority = tidings_strn(rest.ptr, end), host = host_of(authority);
    return host.len > 0 && str_find(authority, '@') < 0 && (is_https || is_loopback(host));
}

static int check_url(struct tidings_str url, const char *what, struct tidings_error *err)
{
    return auth_settings_is_safe_url(url)
               ? 0
               : tidings_fail(
                     err, TIDINGS_E_INVALID,
                     "%s '%.*s' must be a URL with https, or with http to 127.0.0.1, [::1] "
                     "or localhost",
                     what, STR_ARG(url));
}

/* ---- copying --------------------------------------------------------------------------------- */

static int auth_settings_keep(char **ret, const char *text, struct tidings_error *err)
{
    *ret = text ? str_dup(tidings_str(text)) : NULL;
    return text && !*ret ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory") : 0;
}

static bool is_url(const char *text)
{
    return strstr(text, "://") != NULL;
}

static int keep_issuer(struct auth_settings *s, const struct auth_issuer *from,
                       struct tidings_error *err)
{
    struct issuer *i = &s->issuers[s->issuer_count];
    for (size_t n = 0; n < s->issuer_count; n++) {
        if (strcmp(s->issuers[n].name, from->issuer) == 0) {
            return tidings_fail(err, TIDINGS_E_INVALID, "the issuer '%s' is named twice",
                                from->issuer);
        }
    }
    int rc = check_url(tidings_str(from->issuer), "the issuer", err);
    if (rc == 0 && from->jwks && is_url(from->jwks)) {
        rc = check_url(tidings_str(from->jwks), "the key set", err);
    }
    if (rc == 0) {
        rc = auth_settings_keep(&i->name, from->issuer, err);
        s->issuer_count++;
    }
    if (rc == 0) {
        rc = auth_settings_keep(&i->jwks, from->jwks, err);
        i->is_remote = !from->jwks || is_url(from->jwks);
    }
    return rc;
}

static int keep_audiences(struct auth_settings *s, const struct auth_options *o,
                          struct tidings_error *err)
{
    if (o->audience_count > AUTH_AUDIENCES_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "more than %u audiences", AUTH_AUDIENCES_MAX);
    }
    if (o->audience_count == 0 && (o->issuer_count > 0 || o->introspection)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "tokens of an authorization server need an audience: the name by which "
                            "it knows this server");
    }
    int rc = 0;
    for (size_t i = 0; i < o->audience_count && rc == 0; i++) {
        rc = auth_settings_keep(&s->audiences[i], o->audiences[i], err);
        s->audience_count += rc == 0;
    }
    return rc;
}

int auth_settings_init(struct auth_settings *s, const struct auth_options *o,
                       struct tidings_error *err)
{
    s->leeway_ms = o->leeway_ms;
    s->refresh_ms = o->refresh_ms ? o->refresh_ms : REFRESH_MS;
    s->interval_ms = o->interval_ms ? o->interval_ms : INTERVAL_MS;
    s->stale_ms = o->stale_ms ? o->stale_ms : STALE_MS;
    if (o->issuer_count > AUTH_ISSUERS_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "more than %u issuers", AUTH_ISSUERS_MAX);
    }
    int rc = keep_audiences(s, o, err);
    for (size_t i = 0; i < o->issuer_count && rc == 0; i++) {
        rc = keep_issuer(s, &o->issuers[i], err);
    }
    if (rc == 0 && o->introspection) {
        rc = check_url(tidings_str(o->introspection), "the introspection URL", err);
    }
    if (rc == 0) {
        rc = auth_settings_keep(&s->tokens, o->tokens, err);
    }
    if (rc == 0) {
        rc = auth_settings_keep(&s->introspection, o->introspection, err);
    }
    if (rc == 0) {
        rc = auth_settings_keep(&s->credentials, o->introspection_credentials, err);
    }
    return rc < 0 ? rc : auth_settings_keep(&s->ca, o->ca, err);
}

void auth_settings_deinit(struct auth_settings *s)
{
    for (size_t i = 0; i < s->issuer_count; i++) {
        mem_free(s->issuers[i].name);
        mem_free(s->issuers[i].jwks);
    }
    for (size_t i = 0; i < s->audience_count; i++) {
        mem_free(s->audiences[i]);
    }
    mem_free(s->tokens);
    mem_free(s->introspection);
    mem_free(s->credentials);
    mem_free(s->ca);
}

const struct issuer *auth_settings_find_issuer(const struct auth_settings *s,
                                               struct tidings_str name)
{
    for (size_t i = 0; i < s->issuer_count; i++) {
        if (str_eq(name, tidings_str(s->issuers[i].name))) {
            return &s->issuers[i];
        }
    }
    return NULL;
}

struct claims_rules auth_settings_rules(const struct auth_settings *s, bool needs_expiry)
{
    return (struct claims_rules){
        .audiences = s->audiences,
        .audience_count = s->audience_count,
        .leeway_ms = s->leeway_ms,
        .needs_expiry = needs_expiry,
    };
}

/* ---------------------------------------------------------------------------------------------- */

/* ---- values in use --------------------------------------------------------------------------- */

static int verifier_replace(void *user, const struct shared_value *old)
{
    (void)user;
    (void)old;
    return SHARED_MAP_REPLACE;
}

static int verifier_put(struct verifier *v, struct shared_value *value)
{
    int rc = shared_map_update(v->shared, value->key, value, verifier_replace, NULL);
    return rc < 0 ? rc : 0;
}

/* Makes caches forget their tokens before they answer the next request. */
static void verifier_advance(struct verifier *v)
{
    __atomic_add_fetch(&v->generation, 1, __ATOMIC_RELEASE);
}

unsigned verifier_generation(const struct verifier *v)
{
    return __atomic_load_n(&v->generation, __ATOMIC_ACQUIRE);
}

int verifier_put_files(struct verifier *v, const struct auth_files *files)
{
    int rc = files->tokens ? verifier_put(v, token_file_value(files->tokens)) : 0;
    for (size_t i = 0; i < v->settings.issuer_count && rc == 0; i++) {
        rc = files->jwks[i] ? verifier_put(v, jwks_value(files->jwks[i])) : 0;
    }
    if (rc == 0 && files->credentials) {
        rc = verifier_put(v, credentials_value(files->credentials));
    }
    verifier_advance(v);
    return rc;
}

int verifier_put_keys(struct verifier *v, struct jwks *keys)
{
    int rc = verifier_put(v, jwks_value(keys));
    verifier_advance(v);
    return rc;
}

static int verifier_unset(void *user, const struct shared_value *old)
{
    (void)user;
    return old ? SHARED_MAP_REMOVE : SHARED_MAP_KEEP;
}

void verifier_remove_keys(struct verifier *v, const struct issuer *issuer)
{
    (void)shared_map_update(v->shared, tidings_str(issuer->name), NULL, verifier_unset, NULL);
    verifier_advance(v);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int open_files(struct verifier *v, struct tidings_error *err)
{
    struct auth_files *files;
    int rc = auth_files_load(&v->settings, &files, err);
    if (rc == 0) {
        rc = verifier_put_files(v, files);
        auth_files_destroy(files);
        if (rc < 0) {
            tidings_fail(err, rc, "out of memory");
        }
    }
    return rc;
}

int verifier_init(struct verifier *v, const struct auth_options *options, struct tidings_error *err)
{
    int rc = auth_settings_init(&v->settings, options, err);
    if (rc == 0 && v->settings.issuer_count > 0) {
        rc = signature_load(err);
    }
    if (rc == 0) {
        v->shared = shared_map_create(err);
        rc = v->shared ? open_files(v, err) : TIDINGS_E_NOMEM;
    }
    return rc;
}

void verifier_deinit(struct verifier *v)
{
    shared_map_destroy(v->shared);
    auth_settings_deinit(&v->settings);
}

/* ---- proofs ---------------------------------------------------------------------------------- */

_Static_assert(AUTH_ISSUERS_MAX <= 1u << JWKS_PROOF_SPARE, "the issuer fits into a proof");

/* Identifies a key and its issuer. */
static uint64_t verifier_make_proof(size_t issuer, uint64_t key)
{
    return key << JWKS_PROOF_SPARE | issuer;
}

bool verifier_proof_is_valid(const struct verifier *v, uint64_t proof)
{
    const struct auth_settings *s = &v->settings;
    size_t issuer = proof & ((1u << JWKS_PROOF_SPARE) - 1);
    if (proof == 0 || issuer >= s->issuer_count) {
        return proof == 0;
    }
    struct jwks *set = jwks_of(shared_map_find(v->shared, tidings_str(s->issuers[issuer].name)));
    bool stands = !set || jwks_has(set, proof >> JWKS_PROOF_SPARE);
    shared_value_unref(set ? jwks_value(set) : NULL);
    return stands;
}

/* ---- the token file -------------------------------------------------------------------------- */

static void find_in_file(struct verifier *v, const unsigned char digest[SHA256_BYTES],
                         struct verdict *ret)
{
    struct token_file *f = token_file_of(shared_map_find(v->shared, TOKEN_FILE_KEY));
    if (!f) {
        return;
    }
    if (token_file_find(f, digest, &ret->identity) < 0) {
        *ret = (struct verdict){.outcome = AUTH_UNAVAILABLE, .why = "out of memory"};
    } else if (ret->identity) {
        *ret = (struct verdict){.outcome = AUTH_OK, .identity = ret->identity};
    }
    shared_value_unref(token_file_value(f));
}

/* ---- JWTs ------------------------------------------------------------------------------------ */

static void verifier_refuse(struct verdict *ret, const char *why)
{
    *ret = (struct verdict){.outcome = AUTH_INVALID, .why = why};
}

static void verifier_accept(const struct verifier *v, const struct issuer *issuer,
                            const struct claims *claims, uint64_t proof, struct verdict *ret)
{
    struct tidings_str prefix =
        v->settings.issuer_count > 1 ? tidings_str(issuer->name) : STR_EMPTY;
    if (!identity_fits(prefix, claims->name)) {
        verifier_refuse(ret, "the name in the token is too long");
        return;
    }
    struct identity *i =
        identity_create(prefix, claims->name, &claims->scopes, claims->expires_ms, AUTH_BY_JWT);
    if (i) {
        memcpy(i->is.key, claims->key, sizeof(i->is.key));
        i->is.proof = verifier_make_proof((size_t)(issuer - v->settings.issuers), proof);
    }
    *ret = i ? (struct verdict){.outcome = AUTH_OK, .identity = i}
             : (struct verdict){.outcome = AUTH_UNAVAILABLE, .why = "out of memory"};
}

static void verifier_verify(struct verifier *v, const struct issuer *issuer, const struct jwt *t,
                            const struct claims *claims, struct verdict *ret)
{
    enum verdict_need need = issuer->is_remote ? VERDICT_NEEDS_KEYS : VERDICT_FINAL;
    struct jwks *set = jwks_of(shared_map_find(v->shared, tidings_str(issuer->name)));
    if (!set) {
        *ret = (struct verdict){.outcome = AUTH_UNAVAILABLE,
                                .why = "the keys of the issuer cannot be had at the moment",
                                .need = need};
        ret->issuer = (size_t)(issuer - v->settings.issuers);
        return;
    }
    uint64_t proof = 0;
    switch (jwks_verify(set, t->kid, t->algorithm, t->bytes, buf_str(&t->signature), &proof)) {
    case JWKS_GOOD:
        verifier_accept(v, issuer, claims, proof, ret);
        break;
    case JWKS_BAD:
        verifier_refuse(ret, "the signature of the token is wrong");
        break;
    case JWKS_UNFIT:
        verifier_refuse(ret, "the key of the token is not for its algorithm");
        break;
    case JWKS_NO_KEY:
        verifier_refuse(ret, "the key of the token is not known");
        ret->need = need;
        ret->issuer = (size_t)(issuer - v->settings.issuers);
        break;
    }
    shared_value_unref(jwks_value(set));
}

static void find_jwt(struct verifier *v, struct tidings_str token, int64_t now_ms,
                     struct verdict *ret)
{
    struct jwt t;
    const char *why = jwt_parse(&t, token);
    if (why) {
        verifier_refuse(ret, why);
        return;
    }
    const struct issuer *issuer = auth_settings_find_issuer(&v->settings, t.issuer);
    struct claims_rules rules = auth_settings_rules(&v->settings, true);
    struct claims claims;
    if (!issuer) {
        verifier_refuse(ret, "the issuer of the token is not trusted here");
    } else if ((why = claims_check(t.claims, &rules, now_ms, &claims)) != NULL) {
        verifier_refuse(ret, why);
    } else {
        verifier_verify(v, issuer, &t, &claims, ret);
    }
    jwt_deinit(&t);
}

void verifier_check(struct verifier *v, struct tidings_str token,
                    const unsigned char digest[SHA256_BYTES], int64_t now_ms, struct verdict *ret)
{
    verifier_refuse(ret, "the token is not known here");
    find_in_file(v, digest, ret);
    if (ret->outcome != AUTH_INVALID) {
        return;
    }
    if (v->settings.issuer_count > 0 && jwt_is_likely(token)) {
        find_jwt(v, token, now_ms, ret);
    } else if (v->settings.introspection) {
        *ret = (struct verdict){.outcome = AUTH_UNAVAILABLE,
                                .why = "the authorization server is unreachable; try again later",
                                .need = VERDICT_NEEDS_INTROSPECTION};
    }
}
