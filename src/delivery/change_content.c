/* SPDX-License-Identifier: MIT
 *
 * The table of contents that were read for subscribers: by change, baseline and who may see the
 * same, the oldest forgotten first.
 */
#include "delivery/change_content.h"

#include "base/mem.h"
#include "delivery/change_content_private.h"
#include "store/change.h"
#include "worker/worker.h"

#define CONTENTS_MAX 256u
#define CONTENTS_MAX_BYTES (8u << 20)
#define CONTENT_ESCAPE 6u /* one byte may become six */

void change_content_init(struct change_contents *v, const struct worker *worker)
{
    list_init(&v->entries);
    map_init(&v->by_key);
    v->count = v->bytes = 0;
    baselines_init(&v->baselines, worker);
    v->patches = 0;
}

static struct tidings_str key_text(const struct change_content_key *key)
{
    return tidings_strn((const char *)key, sizeof(*key));
}

static void change_content_free(struct change_contents *v, struct change_content *e)
{
    list_remove(&e->link);
    map_remove(&v->by_key, key_text(&e->key));
    v->count -= e->state != CHANGE_CONTENT_READING;
    v->bytes -= e->out.len;
    change_unref(e->change);
    principal_unref(e->principal);
    baseline_unref(e->from);
    baseline_unref(e->to);
    arena_deinit(&e->arena);
    buf_deinit(&e->out);
    mem_free(e);
}

void change_content_deinit(struct change_contents *v)
{
    while (!list_empty(&v->entries)) {
        change_content_free(v, list_entry(v->entries.next, struct change_content, link));
    }
    map_deinit(&v->by_key);
    baselines_deinit(&v->baselines);
}

void change_content_trim(struct change_contents *v)
{
    list_each (it, next, &v->entries) {
        if (v->count <= CONTENTS_MAX && v->bytes <= CONTENTS_MAX_BYTES) {
            return;
        }
        struct change_content *e = list_entry(it, struct change_content, link);
        if (e->state != CHANGE_CONTENT_READING &&
            it != v->entries.prev) { /* the newest is in use */
            change_content_free(v, e);
        }
    }
}

struct change_content *change_content_find(struct change_contents *v, struct change_content_key key)
{
    return map_find(&v->by_key, key_text(&key));
}

struct change_content *change_content_add(struct worker *worker, struct change_contents *v,
                                          const struct principal *principal,
                                          const struct change *change,
                                          struct change_content_key key)
{
    struct change_content *e = mem_zalloc(sizeof(*e));
    if (!e) {
        return NULL;
    }
    e->key = key;
    if (map_put(&v->by_key, key_text(&e->key), e, NULL) < 0) {
        mem_free(e);
        return NULL;
    }
    e->worker = worker;
    e->change = change_ref(change);
    e->principal = key.class ? principal_ref(principal) : NULL;
    e->state = CHANGE_CONTENT_READING;
    arena_init(&e->arena, 1u << 16);
    buf_init(&e->out, worker->limits->max_value_bytes * CONTENT_ESCAPE + 4096);
    list_append(&v->entries, &e->link);
    return e;
}

void change_content_conclude(struct change_contents *v, struct change_content *e, bool is_ready)
{
    e->state = is_ready && !e->out.failed ? CHANGE_CONTENT_READY : CHANGE_CONTENT_NONE;
    if (e->state == CHANGE_CONTENT_NONE) {
        buf_deinit(&e->out);
    }
    v->count++;
    v->bytes += e->out.len;
}
