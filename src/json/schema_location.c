/* SPDX-License-Identifier: MIT
 *
 * Where in a schema something is: JSON pointers (RFC 6901) in texts of a fixed size, and errors
 * that begin with one.
 */
#include <stdio.h>

#include "json/schema_private.h"

void location_text_init(struct location_text *p, char *out, size_t size)
{
    *p = (struct location_text){.out = out, .size = size};
    out[0] = '\0';
}

void location_text_put(struct location_text *p, struct tidings_str s)
{
    size_t room = p->size - 1 - p->len;
    size_t len = s.len;
    if (p->is_full) {
        return;
    }
    if (len > room) {
        p->is_full = true;
        len = room;
        while (len > 0 && ((unsigned char)s.ptr[len] & 0xc0u) == 0x80u) {
            len--;
        }
    }
    if (len > 0) {
        memcpy(p->out + p->len, s.ptr, len);
    }
    p->len += len;
    p->out[p->len] = '\0';
}

void location_text_put_token(struct location_text *p, struct tidings_str key)
{
    size_t from = 0;
    location_text_put(p, STR("/"));
    for (size_t i = 0; i < key.len && !p->is_full; i++) {
        if (key.ptr[i] == '~' || key.ptr[i] == '/') {
            location_text_put(p, tidings_strn(key.ptr + from, i - from));
            location_text_put(p, key.ptr[i] == '~' ? STR("~0") : STR("~1"));
            from = i + 1;
        }
    }
    location_text_put(p, str_skip(key, from));
}

static void put_edges(struct location_text *p, const struct node *n)
{
    if (n->parent) { /* as deep as schemas may nest */
        put_edges(p, n->parent);
        location_text_put(p, n->edge);
    } else if (n->document->uri.len > 0) {
        location_text_put(p, n->document->uri);
        location_text_put(p, STR("#"));
    }
}

void schema_locate(const struct node *n, const char *keyword, char *out, size_t size)
{
    struct location_text p;
    location_text_init(&p, out, size);
    put_edges(&p, n);
    if (keyword) {
        location_text_put_token(&p, tidings_str(keyword));
    }
}

int schema_refuse(const struct compiler *c, int code, const struct node *n, const char *keyword,
                  const char *text)
{
    char location[120];
    schema_locate(n, keyword, location, sizeof(location));
    return tidings_fail(c->err, code, "schema%s%s: %s", location[0] ? " at " : "", location, text);
}

int schema_charge(const struct compiler *c, const struct node *n, uint64_t steps)
{
    c->s->cost += steps;
    return c->s->cost <= c->s->limits.max_cost
               ? 0
               : schema_refuse(c, TIDINGS_E_LIMIT, n, NULL, "the schema takes too long to compile");
}

int schema_no_memory(const struct compiler *c)
{
    return tidings_fail(c->err, TIDINGS_E_NOMEM, "schema: out of memory");
}

struct tidings_str schema_edge(struct arena *arena, const char *keyword,
                               const struct tidings_str *key)
{
    size_t size = strlen(keyword) + 3 + (key ? 2 * key->len : 0);
    char *out = arena_alloc(arena, size);
    if (!out) {
        return tidings_strn(NULL, 0);
    }
    struct location_text p;
    location_text_init(&p, out, size);
    location_text_put_token(&p, tidings_str(keyword));
    if (key) {
        location_text_put_token(&p, *key);
    }
    return tidings_strn(out, p.len);
}
