/* SPDX-License-Identifier: MIT
 *
 * Questions about one principal: is it the same as another, has it a scope, has it expired, and how
 * it is written as JSON.
 */
#include "access/principal.h"

#include "base/str.h"
#include "json/write.h"

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
