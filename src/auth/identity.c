/* SPDX-License-Identifier: MIT
 *
 * Making identities: one block of memory for each, the struct, the slices of its scopes, the texts.
 */
#include "auth/identity.h"

#include "base/mem.h"
#include "base/str.h"

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
