/* SPDX-License-Identifier: MIT
 *
 * Evaluates access rules. Principals with the same rules share a class; a new class is compared
 * with all others, because there are few.
 */
#include "security/access.h"

#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "security/principal.h"

/* -------------------------------------------------------------------------------------------------
 * Creates and checks ids that contain a digest of the principal that owns them.
 */

#define RANDOM_BYTES 16u
#define RANDOM_DIGITS (2 * RANDOM_BYTES)
#define DIGEST_BYTES 8u
_Static_assert(OWNED_ID_LEN == RANDOM_DIGITS + 2 * DIGEST_BYTES, "both parts");

static void owned_put_hex(const unsigned char *bytes, size_t count, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
}

/* Writes the digits after the random ones. */
static void owned_put_digest(const char *random, const struct principal *p, char *out)
{
    struct sha256 s;
    unsigned char digest[SHA256_BYTES];
    const char by = p ? (char)('0' + p->kind) : 'p';
    sha256_init(&s);
    sha256_put(&s, random, RANDOM_DIGITS);
    sha256_put(&s, &by, 1);
    if (p && p->name.len > 0) {
        sha256_put(&s, p->name.ptr, p->name.len);
    }
    sha256_end(&s, digest);
    owned_put_hex(digest, DIGEST_BYTES, out);
}

int owned_id_create(const struct principal *p, char ret[OWNED_ID_LEN + 1])
{
    unsigned char random[RANDOM_BYTES];
    int rc = random_bytes(random, sizeof(random));
    if (rc < 0) {
        return rc;
    }
    owned_put_hex(random, RANDOM_BYTES, ret);
    owned_put_digest(ret, p, ret + RANDOM_DIGITS);
    ret[OWNED_ID_LEN] = '\0';
    return 0;
}

bool owned_id_is_of(struct tidings_str id, const struct principal *p)
{
    char digest[2 * DIGEST_BYTES];
    if (!p) {
        return true;
    }
    if (id.len != OWNED_ID_LEN) {
        return false;
    }
    owned_put_digest(id.ptr, p, digest);
    return memcmp(digest, id.ptr + RANDOM_DIGITS, sizeof(digest)) == 0;
}

bool owned_uri_is(struct tidings_str uri)
{
    return str_starts(uri, STR(OWNED_URI_PREFIX));
}

static bool owned_uri_is_of(struct tidings_str uri, const struct principal *p)
{
    return owned_uri_is(uri) && owned_id_is_of(str_skip(uri, sizeof(OWNED_URI_PREFIX) - 1), p);
}

/* ---------------------------------------------------------------------------------------------- */

#define SEEING (1u << ACCESS_LIST | 1u << ACCESS_READ | 1u << ACCESS_SUBSCRIBE)

struct access_rules *access_rules_ref(struct access_rules *rules)
{
    if (rules) {
        __atomic_add_fetch(&rules->refs, 1, __ATOMIC_RELAXED);
    }
    return rules;
}

void access_rules_unref(struct access_rules *rules)
{
    if (rules && __atomic_sub_fetch(&rules->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        rules->destroy(rules);
    }
}

/* ---- classes --------------------------------------------------------------------------------- */

static bool is_for(const struct access_rule *rule, const struct principal *p)
{
    bool is_known = p->kind != PRINCIPAL_ANONYMOUS;
    switch (rule->whom) {
    case ACCESS_ANYBODY:
        return true;
    case ACCESS_ANONYMOUS:
        return !is_known;
    case ACCESS_AUTHENTICATED:
        return is_known && (rule->kinds & 1u << p->kind) != 0;
    case ACCESS_NAMED:
        return is_known && (rule->kinds & 1u << p->kind) != 0 && str_eq(rule->name, p->name);
    }
    return false;
}

static bool access_holds(const struct access_rule *rule, const struct principal *p)
{
    return is_for(rule, p) && (rule->scope.len == 0 || principal_has_scope(p, rule->scope));
}

static bool is_class_of(const struct access_class *class, const struct access_rules *rules,
                        const struct principal *p)
{
    size_t n = 0;
    for (size_t i = 0; i < rules->count; i++) {
        if (access_holds(&rules->at[i], p)) {
            if (n == class->count || class->at[n] != &rules->at[i]) {
                return false;
            }
            n++;
        }
    }
    return n == class->count;
}

static struct access_class *access_create(struct principals *all, const struct principal *p)
{
    struct access_rules *rules = all->rules;
    size_t count = 0;
    for (size_t i = 0; i < rules->count; i++) {
        count += access_holds(&rules->at[i], p);
    }
    struct access_class *class = mem_zalloc(sizeof(*class) + count * sizeof(class->at[0]));
    if (!class) {
        return NULL;
    }
    unsigned everywhere = 0;
    for (size_t i = 0; i < rules->count; i++) {
        const struct access_rule *rule = &rules->at[i];
        if (access_holds(rule, p)) {
            class->at[class->count++] = rule;
            everywhere |= rule->uri.len == 0 ? rule->ops : 0u;
        }
    }
    class->is_full = (everywhere & SEEING) == SEEING;
    class->rules = access_rules_ref(rules);
    class->all = all;
    class->refs = 1;
    list_append(&all->classes, &class->link);
    return class;
}

int access_class_of(const struct principal *p, struct access_class **ret)
{
    struct principals *all = p->all;
    *ret = NULL;
    if (!all->rules) {
        return 0;
    }
    list_each (it, next, &all->classes) {
        struct access_class *class = list_entry(it, struct access_class, link);
        if (is_class_of(class, all->rules, p)) {
            class->refs++;
            *ret = class;
            return 0;
        }
    }
    *ret = access_create(all, p);
    return *ret ? 0 : TIDINGS_E_NOMEM;
}

void access_class_unref(struct access_class *class)
{
    if (class && --class->refs == 0) {
        if (class->all) {
            list_remove(&class->link);
        }
        access_rules_unref(class->rules);
        mem_free(class);
    }
}

/* ---- asking ---------------------------------------------------------------------------------- */

static bool access_rule_allows(const struct access_rule *rule, enum access_op op,
                               struct tidings_str uri)
{
    return (rule->ops & 1u << op) != 0 &&
           (rule->uri.len == 0 || pattern_matches(rule->kind, rule->uri, uri));
}

static bool class_allows(const struct access_class *class, enum access_op op,
                         struct tidings_str uri)
{
    for (size_t i = 0; i < class->count; i++) {
        if (access_rule_allows(class->at[i], op, uri)) {
            return true;
        }
    }
    return false;
}

bool access_allows(const struct principal *principal, enum access_op op, struct tidings_str uri)
{
    if (owned_uri_is(uri)) {
        return op != ACCESS_WRITE && owned_uri_is_of(uri, principal);
    }
    return !principal || !principal->class || class_allows(principal->class, op, uri);
}

bool access_class_reaches(const struct access_class *class, enum access_op op,
                          struct tidings_str text)
{
    struct tidings_str own = pattern_prefix(PATTERN_TEMPLATE, text);
    if (own.len == text.len) {
        return class_allows(class, op, text);
    }
    for (size_t i = 0; i < class->count; i++) {
        const struct access_rule *rule = class->at[i];
        struct tidings_str other = pattern_prefix(rule->kind, rule->uri);
        /* Whether two patterns overlap is hard to decide, but prefixes show which certainly do not.
         * A literal URI can overlap only with a template whose prefix it starts with. */
        bool is_one = rule->kind == PATTERN_LITERAL && rule->uri.len > 0;
        bool is_below = !is_one && str_starts(own, other);
        if ((rule->ops & 1u << op) != 0 && (is_below || str_starts(other, own))) {
            return true;
        }
    }
    return false;
}

bool access_reaches(const struct principal *principal, enum access_op op, struct tidings_str text)
{
    return !principal || !principal->class || access_class_reaches(principal->class, op, text);
}

bool access_subscribes(const struct principal *principal, struct tidings_str uri)
{
    return access_allows(principal, ACCESS_READ, uri) &&
           access_allows(principal, ACCESS_SUBSCRIBE, uri);
}

bool access_writes(const struct principal *principal, struct tidings_str uri)
{
    return access_allows(principal, ACCESS_READ, uri) &&
           access_allows(principal, ACCESS_WRITE, uri);
}

bool access_writes_everything(const struct principal *principal)
{
    const unsigned wanted = 1u << ACCESS_READ | 1u << ACCESS_WRITE;
    unsigned ops = 0;
    if (!access_is_by_rule(principal)) {
        return false;
    }
    for (size_t i = 0; principal && i < principal->class->count; i++) {
        const struct access_rule *rule = principal->class->at[i];
        ops |= rule->uri.len == 0 ? rule->ops : 0u;
    }
    return !principal || (ops & wanted) == wanted;
}

bool access_is_operator(const struct principal *principal)
{
    if (!access_is_by_rule(principal)) {
        return principal->kind == PRINCIPAL_USER;
    }
    return access_writes(principal, STR(ACCESS_OPERATOR_URI));
}

bool access_may_notify(const struct principal *principal, struct tidings_str uri,
                       struct tidings_str target, uint64_t seq)
{
    if (owned_uri_is(uri)) {
        return owned_uri_is_of(uri, principal);
    }
    if (access_is_full(principal)) {
        return true;
    }
    struct access_class *class = principal->class;
    if (class->decided_seq != seq) {
        class->decided = access_subscribes(principal, uri) &&
                         (target.len == 0 || access_subscribes(principal, target));
        class->decided_seq = seq;
    }
    return class->decided;
}

bool access_shows_from(const struct principal *principal, struct tidings_str uri, uint64_t seq)
{
    if (access_is_full(principal)) {
        return true;
    }
    struct access_class *class = principal->class;
    if (class->from_seq != seq) {
        class->shows_from = access_subscribes(principal, uri);
        class->from_seq = seq;
    }
    return class->shows_from;
}

/* The first scope that a matching rule requires and the principal lacks; empty: no scope would
 * help. */
static struct tidings_str scope_for(const struct principal *principal, enum access_op op,
                                    struct tidings_str uri)
{
    const struct access_rules *rules = principal->class->rules;
    for (size_t i = 0; i < rules->count; i++) {
        const struct access_rule *rule = &rules->at[i];
        if (rule->scope.len > 0 && is_for(rule, principal) && !access_holds(rule, principal) &&
            access_rule_allows(rule, op, uri)) {
            return rule->scope;
        }
    }
    return STR_EMPTY;
}

int access_put_missing(const struct principal *principal, unsigned ops, struct tidings_str uri,
                       struct buf *out)
{
    if (!principal || !principal->class || principal->kind != PRINCIPAL_TOKEN) {
        return 0;
    }
    struct tidings_str last = STR_EMPTY;
    for (unsigned op = 0; op < ACCESS_OPS; op++) {
        if ((ops & 1u << op) == 0 || access_allows(principal, (enum access_op)op, uri)) {
            continue;
        }
        struct tidings_str scope = scope_for(principal, (enum access_op)op, uri);
        if (scope.len == 0) {
            buf_clear(out);
            return 0;
        }
        if (!str_eq(scope, last)) {
            buf_puts(out, last.len > 0 ? STR(" ") : STR_EMPTY);
            buf_puts(out, scope);
        }
        last = scope;
    }
    return out->failed;
}
