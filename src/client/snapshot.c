/* SPDX-License-Identifier: MIT
 *
 * Digests of resources, by URI.
 */
#include "client/snapshot.h"

#include "base/mem.h"
#include "base/str.h"
#include "json/write.h"

struct snapshot *snapshot_create(void)
{
    struct snapshot *v = mem_zalloc(sizeof(*v));
    if (v) {
        map_init(&v->entries);
    }
    return v;
}

void snapshot_destroy(struct snapshot *v)
{
    struct snapshot_entry *e;
    if (!v) {
        return;
    }
    for (size_t at = 0; (e = map_next(&v->entries, &at)) != NULL;) {
        mem_free(e);
    }
    map_deinit(&v->entries);
    mem_free(v);
}

struct snapshot_entry *snapshot_find(const struct snapshot *v, struct tidings_str uri)
{
    return map_find(&v->entries, uri);
}

struct snapshot_entry *snapshot_add(struct snapshot *v, struct tidings_str uri)
{
    struct snapshot_entry *e = snapshot_find(v, uri);
    if (e) {
        return e;
    }
    e = mem_zalloc(sizeof(*e) + uri.len);
    if (!e) {
        return NULL;
    }
    memcpy(e->text, uri.ptr, uri.len);
    e->uri = (struct tidings_str){e->text, uri.len};
    if (map_put(&v->entries, e->uri, e, NULL) < 0) {
        mem_free(e);
        return NULL;
    }
    return e;
}

void snapshot_remove(struct snapshot *v, struct tidings_str uri)
{
    mem_free(map_remove(&v->entries, uri));
}

int snapshot_put(struct snapshot *v, struct tidings_str uri, const struct json *value,
                 size_t max_bytes)
{
    struct buf text;
    struct jw w;
    struct sha256 s;
    buf_init(&text, 2 * max_bytes);
    jw_init(&w, &text);
    jw_value(&w, value);
    struct snapshot_entry *e = text.failed ? NULL : snapshot_add(v, uri);
    if (e) {
        sha256_init(&s);
        sha256_put(&s, buf_str(&text).ptr, text.len);
        sha256_end(&s, e->digest);
        e->is_known = true;
    }
    buf_deinit(&text);
    return e ? 0 : TIDINGS_E_NOMEM;
}
