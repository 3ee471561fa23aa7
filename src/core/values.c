/* SPDX-License-Identifier: MIT
 *
 * A short list of the newest values. An entry that is being read stays until the provider is done;
 * the rest goes, oldest first, when there are too many.
 */
#include "core/values.h"

#include "base/arena.h"
#include "base/mem.h"
#include "core/peer.h"
#include "core/read.h"
#include "store/change.h"

#define VALUES_MAX 256u
#define VALUES_MAX_BYTES (8u << 20)
#define VALUE_ESCAPE 6u /* one byte may become six */

struct value {
    struct list link;
    struct core *core;
    const struct change *change; /* a reference */
    enum value_state state;
    struct arena arena;
    struct buf out;
    struct jw w;
    struct tidings_read read;
};

void values_init(struct values *v)
{
    list_init(&v->entries);
    v->count = v->bytes = 0;
}

static void value_free(struct values *v, struct value *e)
{
    list_remove(&e->link);
    v->count--;
    v->bytes -= e->out.len;
    change_unref(e->change);
    arena_deinit(&e->arena);
    buf_deinit(&e->out);
    mem_free(e);
}

void values_deinit(struct values *v)
{
    while (!list_empty(&v->entries)) {
        value_free(v, list_entry(v->entries.next, struct value, link));
    }
}

static void trim(struct values *v)
{
    list_each (it, next, &v->entries) {
        if (v->count <= VALUES_MAX && v->bytes <= VALUES_MAX_BYTES) {
            return;
        }
        struct value *e = list_entry(it, struct value, link);
        if (e->state != VALUE_READING && it != v->entries.prev) { /* the newest is in use */
            value_free(v, e);
        }
    }
}

static void value_read(struct request *request)
{
    struct value *e = request->user;
    struct core *core = e->core;
    e->state = VALUE_NONE;
    if (request->code >= 0) {
        jw_end_array(&e->w);
        e->state = e->out.failed ? VALUE_NONE : VALUE_READY;
    }
    if (e->state == VALUE_NONE) {
        buf_deinit(&e->out);
    }
    core->values.bytes += e->out.len;
    list_each (it, next, &core->peers) {
        struct peer *peer = list_entry(it, struct peer, link);
        if (peer->waits_value) {
            peer->waits_value = false;
            peer_mark_dirty(peer);
        }
    }
    trim(&core->values);
}

static struct value *find(struct values *v, const struct change *change)
{
    for (struct list *it = v->entries.prev; it != &v->entries; it = it->prev) {
        struct value *e = list_entry(it, struct value, link);
        if (e->change == change) {
            return e;
        }
    }
    return NULL;
}

static struct value *ask(struct core *core, const struct change *change)
{
    trim(&core->values);
    struct value *e = mem_zalloc(sizeof(*e));
    if (!e) {
        return NULL;
    }
    size_t max = core->limits->max_value_bytes;
    e->core = core;
    e->change = change_ref(change);
    e->state = VALUE_READING;
    arena_init(&e->arena, 1u << 16);
    buf_init(&e->out, max * VALUE_ESCAPE + 4096);
    jw_init(&e->w, &e->out);
    jw_begin_array(&e->w);
    list_append(&core->values.entries, &e->link);
    core->values.count++;
    struct catalog_hit hit;
    if (!catalog_find(core->catalog, change->uri, &e->arena, &hit)) {
        e->state = VALUE_NONE;
        return e;
    }
    request_init(&e->read.base, core, value_read, e, change->uri);
    e->read.w = &e->w;
    e->read.own_only = true;
    e->read.max_bytes = max;
    request_read(&e->read, &hit);
    return e;
}

enum value_state values_get(struct core *core, const struct change *change,
                            struct tidings_str *ret_json)
{
    *ret_json = STR_EMPTY;
    if (change->kind == TIDINGS_CHANGE_DELETED) {
        return VALUE_NONE;
    }
    struct value *e = find(&core->values, change);
    if (!e) {
        e = ask(core, change);
    }
    if (!e) {
        return VALUE_NONE;
    }
    if (e->state == VALUE_READY) {
        *ret_json = buf_str(&e->out);
    }
    return e->state;
}
