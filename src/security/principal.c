/* SPDX-License-Identifier: MIT
 *
 * Functions on one principal: comparison, scopes, expiry, and JSON output.
 */
#include "security/principal.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/str.h"
#include "formats/json_write.h"
#include "security/access.h"
#include "security/client_account.h"
#include "security/limits.h"

/* -------------------------------------------------------------------------------------------------
 * Creates identities. Each is one block of memory: the struct, the slices of its scopes, the
 * strings.
 */

bool scope_list_add(struct scope_list *l, struct tidings_str scope)
{
    if (scope.len == 0 || scope.len > AUTH_SCOPE_MAX) {
        return false;
    }
    for (size_t i = 0; i < scope.len; i++) {
        char c = scope.ptr[i];
        if (c < '!' || c > '~' || c == '"' || c == '\\') {
            return false;
        }
    }
    for (size_t i = 0; i < l->count; i++) {
        if (str_eq(l->items[i], scope)) {
            return true;
        }
    }
    if (l->count == AUTH_SCOPES_MAX || l->bytes + scope.len > AUTH_SCOPE_BYTES) {
        return false;
    }
    l->items[l->count++] = scope;
    l->bytes += scope.len;
    return true;
}

bool scope_list_add_all(struct scope_list *l, struct tidings_str scopes)
{
    while (scopes.len > 0) {
        struct tidings_str one = str_cut(scopes, ' ', &scopes, NULL);
        if (one.len > 0 && !scope_list_add(l, one)) {
            return false;
        }
    }
    return true;
}

bool identity_is_name(struct tidings_str name, size_t max)
{
    if (name.len == 0 || name.len > max || !str_is_utf8(name)) {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.ptr[i];
        if (c < ' ' || c == 0x7f) {
            return false;
        }
    }
    return true;
}

bool identity_fits(struct tidings_str issuer, struct tidings_str name)
{
    return issuer.len + (issuer.len > 0) + name.len <= AUTH_NAME_MAX;
}

struct identity *identity_create(struct tidings_str issuer, struct tidings_str name,
                                 const struct scope_list *scopes, int64_t expires_ms,
                                 enum auth_kind kind)
{
    size_t table = scopes->count * sizeof(struct tidings_str);
    struct identity *i = mem_zalloc(sizeof(*i) + table + issuer.len + 1 + name.len + scopes->bytes);
    if (!i) {
        return NULL;
    }
    struct tidings_str *items = (struct tidings_str *)(void *)(i + 1);
    char *at = (char *)(items + scopes->count), *begin = at;
    if (issuer.len > 0) {
        (void)str_pack(&at, issuer);
        *at++ = ' ';
    }
    (void)str_pack(&at, name);
    i->is.name = tidings_strn(begin, (size_t)(at - begin));
    for (size_t n = 0; n < scopes->count; n++) {
        items[n] = str_pack(&at, scopes->items[n]);
    }
    i->is.scopes = items;
    i->is.scope_count = scopes->count;
    i->is.expires_ms = expires_ms;
    i->is.kind = kind;
    list_init(&i->link);
    return i;
}

void identity_destroy(struct identity *i)
{
    mem_free(i);
}

/* ---------------------------------------------------------------------------------------------- */

bool principal_is_same(const struct principal *a, const struct principal *b)
{
    return a == b || (a && b && a->kind == b->kind && str_eq(a->name, b->name));
}

bool principal_is_equal(const struct principal *a, const struct principal *b)
{
    return a == b || (a && b && str_eq(a->key, b->key));
}

const char *principal_kind_name(enum principal_kind kind)
{
    static const char *const names[] = {
        [PRINCIPAL_ANONYMOUS] = "anonymous",
        [PRINCIPAL_USER] = "user",
        [PRINCIPAL_CERTIFICATE] = "certificate",
        [PRINCIPAL_TOKEN] = "token",
    };
    return names[kind];
}

const char *principal_by(const struct principal *p)
{
    return p ? principal_kind_name(p->kind) : "program";
}

void principal_write(struct jw *w, const struct principal *p)
{
    jw_begin_object(w);
    if (p && p->name.len > 0) {
        jw_put_string(w, STR("name"), p->name);
    }
    jw_put_string(w, STR("by"), tidings_str(principal_by(p)));
    jw_end_object(w);
}

void principal_put_origin(const struct principal *p, struct tidings_str origin, struct buf *out)
{
    buf_puts(out, origin);
    if (p && origin.len > 0) {
        buf_putc(out, '\n');
        buf_putc(out, (char)('0' + p->kind));
        buf_puts(out, p->name);
    }
}

bool principal_has_scope(const struct principal *p, struct tidings_str scope)
{
    for (size_t i = 0; i < p->scope_count; i++) {
        if (str_eq(p->scopes[i], scope)) {
            return true;
        }
    }
    return false;
}

bool principal_is_expired(const struct principal *p, int64_t now_ms)
{
    return p && p->expires_ms > 0 && now_ms >= p->expires_ms;
}

/* -------------------------------------------------------------------------------------------------
 * The principals of a worker, interned. The key consists of kind, name, scopes (sorted), expiry and
 * proof. A principal is one block of memory with its strings.
 */

#define KEY_MAX (64u + PRINCIPAL_MAX + PRINCIPAL_MAX_SCOPES * (PRINCIPAL_SCOPE_MAX + 1))

void principals_init(struct principals *all, struct loop *loop, struct quotas *quotas,
                     struct client_accounts *client_accounts)
{
    all->loop = loop;
    all->quotas = quotas;
    all->client_accounts = client_accounts;
    map_init(&all->by_key);
    list_init(&all->classes);
    all->next_expiry_ms = 0;
}

void principals_deinit(struct principals *all)
{
    size_t pos = 0;
    struct principal *p;
    while ((p = map_next(&all->by_key, &pos)) != NULL) {
        quota_release(p->quota); /* quotas do not outlive the hub */
        p->quota = NULL;
        client_account_release(p->account);
        p->account = NULL;
    }
    principals_forget(all);
}

void principals_forget(struct principals *all)
{
    size_t pos = 0;
    struct principal *p;
    while ((p = map_next(&all->by_key, &pos)) != NULL) {
        p->all = NULL;
    }
    map_deinit(&all->by_key);
    list_each (it, next, &all->classes) {
        list_entry(it, struct access_class, link)->all = NULL;
        list_remove(it);
    }
    principals_init(all, all->loop, all->quotas, all->client_accounts);
}

static void principal_table_note_expiry(struct principals *all, const struct principal *p,
                                        int64_t now_ms)
{
    if (p->expires_ms > now_ms &&
        (all->next_expiry_ms == 0 || p->expires_ms < all->next_expiry_ms)) {
        all->next_expiry_ms = p->expires_ms;
    }
}

void principals_find_expiry(struct principals *all, int64_t now_ms)
{
    size_t pos = 0;
    const struct principal *p;
    all->next_expiry_ms = 0;
    while ((p = map_next(&all->by_key, &pos)) != NULL) {
        principal_table_note_expiry(all, p, now_ms);
    }
}

/* ---- making ---------------------------------------------------------------------------------- */

/* Returns true if `s` cannot forge a separator in the key or a line in the log. */
static bool is_printable(struct tidings_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if ((unsigned char)s.ptr[i] < 0x20 || s.ptr[i] == 0x7f) {
            return false;
        }
    }
    return true;
}

static int principal_table_check(const struct principal_spec *spec, struct tidings_error *err)
{
    bool is_anonymous = spec->kind == PRINCIPAL_ANONYMOUS;
    if (is_anonymous != (spec->name.len == 0) || !is_printable(spec->name)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "a principal has a name without control characters");
    }
    if (spec->name.len >= PRINCIPAL_MAX) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "a principal's name may be at most %u bytes long",
                            PRINCIPAL_MAX - 1);
    }
    if (spec->scope_count > PRINCIPAL_MAX_SCOPES) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "a principal may have at most %u scopes",
                            PRINCIPAL_MAX_SCOPES);
    }
    for (size_t i = 0; i < spec->scope_count; i++) {
        if (spec->scopes[i].len > PRINCIPAL_SCOPE_MAX || !is_printable(spec->scopes[i])) {
            return tidings_fail(err, TIDINGS_E_LIMIT,
                                "a scope is at most %u bytes long, without control characters",
                                PRINCIPAL_SCOPE_MAX);
        }
    }
    return 0;
}

static int by_text(const void *a, const void *b)
{
    return str_cmp(*(const struct tidings_str *)a, *(const struct tidings_str *)b);
}

/* Writes the scopes to `out`, sorted and without duplicates. */
static size_t sort_scopes(const struct principal_spec *spec,
                          struct tidings_str out[PRINCIPAL_MAX_SCOPES])
{
    size_t n = 0;
    for (size_t i = 0; i < spec->scope_count; i++) {
        out[i] = spec->scopes[i];
    }
    qsort(out, spec->scope_count, sizeof(*out), by_text);
    for (size_t i = 0; i < spec->scope_count; i++) {
        if (out[i].len > 0 && (n == 0 || !str_eq(out[n - 1], out[i]))) {
            out[n++] = out[i];
        }
    }
    return n;
}

/* An authenticated principal has the same limits wherever it connects from. A user of a Unix socket
 * has that user's quota. */
static void principal_table_find_limits(struct principals *all, struct principal *p)
{
    bool is_shown = p->kind == PRINCIPAL_CERTIFICATE || p->kind == PRINCIPAL_TOKEN;
    uint64_t now = loop_now_ms(all->loop);
    struct buf name;
    buf_init(&name, CLIENT_ACCOUNT_NAME_MAX);
    buf_putf(&name, "%s %s", principal_kind_name(p->kind), p->name.ptr);
    if (is_shown && !name.failed) {
        p->quota = quotas_find(all->quotas, buf_str(&name), now);
    }
    if (p->kind != PRINCIPAL_ANONYMOUS && !name.failed) {
        p->account = client_accounts_find(all->client_accounts, buf_str(&name), now);
    }
    buf_deinit(&name);
}

static struct principal *principal_table_create(struct principals *all,
                                                const struct principal_spec *spec,
                                                struct tidings_str key)
{
    size_t text = key.len + spec->name.len + 1;
    for (size_t i = 0; i < spec->scope_count; i++) {
        text += spec->scopes[i].len;
    }
    size_t scopes = spec->scope_count * sizeof(struct tidings_str);
    struct principal *p = mem_zalloc(sizeof(*p) + scopes + text);
    if (!p) {
        return NULL;
    }
    struct tidings_str *own = (struct tidings_str *)(p + 1);
    char *at = (char *)(own + spec->scope_count);
    p->kind = spec->kind;
    p->scopes = own;
    p->scope_count = spec->scope_count;
    p->expires_ms = spec->expires_ms;
    p->proof = spec->proof;
    p->all = all;
    p->refs = 1;
    p->key = str_pack(&at, key);
    for (size_t i = 0; i < spec->scope_count; i++) {
        own[i] = str_pack(&at, spec->scopes[i]);
    }
    p->name = str_pack(&at, spec->name);
    if (access_class_of(p, &p->class) < 0 || map_put(&all->by_key, p->key, p, NULL) < 0) {
        access_class_unref(p->class);
        mem_free(p);
        return NULL;
    }
    principal_table_find_limits(all, p);
    principal_table_note_expiry(all, p, 0);
    return p;
}

static void principal_table_put_key(struct buf *key, const struct principal_spec *spec)
{
    buf_putf(key, "%d %lld %llx ", (int)spec->kind, (long long)spec->expires_ms,
             (unsigned long long)spec->proof);
    buf_puts(key, spec->name);
    for (size_t i = 0; i < spec->scope_count; i++) {
        buf_putc(key, '\n');
        buf_puts(key, spec->scopes[i]);
    }
}

int principal_intern(struct principals *all, const struct principal_spec *spec,
                     const struct principal **ret, struct tidings_error *err)
{
    struct tidings_str scopes[PRINCIPAL_MAX_SCOPES];
    int rc = principal_table_check(spec, err);
    if (rc < 0) {
        return rc;
    }
    struct principal_spec sorted = *spec;
    sorted.scopes = scopes;
    sorted.scope_count = sort_scopes(spec, scopes);
    struct buf key;
    buf_init(&key, KEY_MAX);
    principal_table_put_key(&key, &sorted);
    struct principal *p = map_find(&all->by_key, buf_str(&key));
    if (p) {
        p->refs++;
    } else {
        p = key.failed ? NULL : principal_table_create(all, &sorted, buf_str(&key));
    }
    buf_deinit(&key);
    *ret = p;
    return p ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

const struct principal *principal_ref(const struct principal *p)
{
    struct principal *counted = (struct principal *)(uintptr_t)p; /* not part of the value */
    if (counted) {
        counted->refs++;
    }
    return p;
}

void principal_unref(const struct principal *p)
{
    struct principal *counted = (struct principal *)(uintptr_t)p;
    if (counted && --counted->refs == 0) {
        if (counted->all) {
            map_remove(&counted->all->by_key, counted->key);
        }
        quota_release(counted->quota);
        client_account_release(counted->account);
        access_class_unref(counted->class);
        mem_free(counted);
    }
}

int principal_renew(struct principals *all, const struct principal **p)
{
    const struct principal *old = *p, *renewed = NULL;
    if (!old || old->all) {
        return 0;
    }
    struct principal_spec spec = {
        .kind = old->kind,
        .name = old->name,
        .scopes = old->scopes,
        .scope_count = old->scope_count,
        .expires_ms = old->expires_ms,
        .proof = old->proof,
    };
    int rc = principal_intern(all, &spec, &renewed, NULL);
    if (rc == 0) {
        *p = renewed;
        principal_unref(old);
    }
    return rc;
}

/* ---- asking ---------------------------------------------------------------------------------- */
