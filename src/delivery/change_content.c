/* SPDX-License-Identifier: MIT
 *
 * A short list of the newest values. An entry that is being read stays until the provider is done,
 * and does not count: else those that were read would go before they are told. The rest goes,
 * oldest first, when there are too many.
 */
#include "delivery/change_content.h"

#include "base/arena.h"
#include "base/mem.h"
#include "base/str.h"
#include "catalog/job_read.h"
#include "delivery/patches.h"
#include "delivery/subscriber.h"
#include "store/change.h"

#define VALUES_MAX 256u
#define VALUES_MAX_BYTES (8u << 20)
#define VALUE_ESCAPE 6u /* one byte may become six */

/* Every byte of it counts. */
struct value_key {
    const struct change *change;
    const struct baseline *from;
    uintptr_t shape;                  /* enum value_shape */
    const struct access_class *class; /* who may see the same of it; NULL: everything */
};

enum value_shape {
    SHAPE_CONTENTS,
    SHAPE_PATCH,
    SHAPE_SAID, /* as PROFILE_DATA has them */
    SHAPE_SAID_PATCH,
};

struct value {
    struct list link;
    struct value_key key;
    struct core *core;
    const struct change *change; /* a reference */
    const struct principal *who; /* a reference to one of the class, or NULL */
    struct baseline *from, *to;  /* of a patch: references, or NULL */
    enum value_state state;
    bool is_too_large, is_whole; /* of a patch: it is; it was asked for without a baseline */
    struct tidings_str etag;     /* of what a patch leads to */
    struct arena arena;
    struct buf out;
    struct jw w;
    struct tidings_read read;
};

void values_init(struct values *v, const struct core *core)
{
    list_init(&v->entries);
    map_init(&v->by_key);
    v->count = v->bytes = 0;
    baselines_init(&v->baselines, core);
    v->patches = 0;
}

static struct tidings_str key_text(const struct value_key *key)
{
    return tidings_strn((const char *)key, sizeof(*key));
}

static void value_free(struct values *v, struct value *e)
{
    list_remove(&e->link);
    map_remove(&v->by_key, key_text(&e->key));
    v->count -= e->state != VALUE_READING;
    v->bytes -= e->out.len;
    change_unref(e->change);
    principal_unref(e->who);
    baseline_unref(e->from);
    baseline_unref(e->to);
    arena_deinit(&e->arena);
    buf_deinit(&e->out);
    mem_free(e);
}

void values_deinit(struct values *v)
{
    while (!list_empty(&v->entries)) {
        value_free(v, list_entry(v->entries.next, struct value, link));
    }
    map_deinit(&v->by_key);
    baselines_deinit(&v->baselines);
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

static struct value *find(struct values *v, struct value_key key)
{
    return map_find(&v->by_key, key_text(&key));
}

static const struct access_class *class_of(const struct principal *who)
{
    return access_is_full(who) ? NULL : who->class;
}

/* An entry that is being read. NULL: out of memory. */
static struct value *add(struct core *core, const struct principal *who,
                         const struct change *change, struct value_key key)
{
    struct values *v = &core->values;
    struct value *e = mem_zalloc(sizeof(*e));
    if (!e) {
        return NULL;
    }
    e->key = key;
    if (map_put(&v->by_key, key_text(&e->key), e, NULL) < 0) {
        mem_free(e);
        return NULL;
    }
    e->core = core;
    e->change = change_ref(change);
    e->who = key.class ? principal_ref(who) : NULL;
    e->state = VALUE_READING;
    arena_init(&e->arena, 1u << 16);
    buf_init(&e->out, core->limits->max_value_bytes * VALUE_ESCAPE + 4096);
    list_append(&v->entries, &e->link);
    return e;
}

/* It has been read, or cannot be. */
static void conclude(struct value *e, bool is_ready)
{
    e->state = is_ready && !e->out.failed ? VALUE_READY : VALUE_NONE;
    if (e->state == VALUE_NONE) {
        buf_deinit(&e->out);
    }
    e->core->values.count++;
    e->core->values.bytes += e->out.len;
}

static void wake_waiting(struct core *core)
{
    list_each (it, next, &core->peers) {
        struct peer *peer = list_entry(it, struct peer, link);
        if (peer->waits_value) {
            peer->waits_value = false;
            peer_mark_dirty(peer);
        }
    }
    trim(&core->values);
}

/* ---- values ---------------------------------------------------------------------------------- */

static void value_read(struct request *request)
{
    struct value *e = request->user;
    if (request->code >= 0) {
        jw_end_array(&e->w);
    }
    conclude(e, request->code >= 0);
    wake_waiting(e->core);
}

static void ask(struct value *e)
{
    struct core *core = e->core;
    jw_init(&e->w, &e->out);
    jw_begin_array(&e->w);
    struct catalog_hit hit;
    if (!catalog_find(core->catalog, e->change->uri, &e->arena, &hit)) {
        conclude(e, false);
        return;
    }
    request_init(&e->read.base, core, value_read, e, e->change->uri);
    e->read.w = &e->w;
    e->read.who = e->who;
    e->read.own_only = true;
    e->read.max_bytes = core->limits->max_value_bytes;
    request_read(&e->read, &hit);
}

enum value_state values_get(struct core *core, const struct principal *who,
                            const struct change *change, struct tidings_str *ret_json)
{
    *ret_json = STR_EMPTY;
    if (change->kind == TIDINGS_CHANGE_DELETED) {
        return VALUE_NONE;
    }
    struct value_key key = {.change = change, .class = class_of(who)};
    struct value *e = find(&core->values, key);
    if (!e) {
        trim(&core->values);
        e = add(core, who, change, key);
        if (!e) {
            return VALUE_NONE;
        }
        ask(e);
    }
    if (e->state == VALUE_READY) {
        *ret_json = buf_str(&e->out);
    }
    return e->state;
}

/* ---- patches --------------------------------------------------------------------------------- */

/* The mount that makes patches of `uri` itself, or NULL. */
static struct tidings_provider *find_patching(const struct core *core, struct tidings_str uri)
{
    struct tidings_provider *p = catalog_mount(core->catalog, uri);
    return p && p->ops->patch ? p : NULL;
}

static int take_patch(struct tidings_read *read, const struct read_element *element,
                      struct tidings_error *err)
{
    struct value *e = read->base.user;
    e->etag = arena_dup(&e->arena, element->about->etag);
    e->is_too_large = element->bytes.len > e->core->limits->max_value_bytes;
    int rc = e->is_too_large ? 0 : buf_puts(&e->out, element->bytes);
    return rc < 0 || !e->etag.ptr ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory") : 0;
}

static void forget_patch(struct tidings_read *read)
{
    struct value *e = read->base.user;
    buf_clear(&e->out);
}

static const struct read_taker patch_taker = {take_patch, forget_patch};

static void ask_patch(struct value *e);

static void patch_read(struct request *request)
{
    struct value *e = request->user;
    struct values *v = &e->core->values;
    bool is_told = request->code >= 0;
    if (request->code == TIDINGS_E_INVALID && e->from && !e->is_whole) {
        e->is_whole = true; /* that version is gone */
        ask_patch(e);
        return;
    }
    if (is_told) {
        e->to = baseline_get(&v->baselines, e->change->uri, e->etag, STR_EMPTY);
    } else {
        e->to = baseline_ref(e->from);
        buf_clear(&e->out);
        if (e->change->kind == TIDINGS_CHANGE_DELETED) {
            patch_write_deleted(&e->out, e->change, e->from);
            is_told = true;
        }
    }
    v->patches++;
    conclude(e, is_told && !e->is_too_large);
    wake_waiting(e->core);
}

static void ask_patch(struct value *e)
{
    struct core *core = e->core;
    struct catalog_hit hit = {.provider = find_patching(core, e->change->uri)};
    if (!hit.provider) { /* it was there a moment ago */
        conclude(e, false);
        return;
    }
    memset(&e->read, 0, sizeof(e->read));
    request_init(&e->read.base, core, patch_read, e, e->change->uri);
    e->read.taker = &patch_taker;
    e->read.max_bytes = core->limits->max_read_bytes;
    e->read.who = e->who;
    e->read.is_patch = true;
    e->read.patch_from = e->from && !e->is_whole ? baseline_etag(e->from) : STR_EMPTY;
    request_read(&e->read, &hit);
}

/* From contents; whoever has none of them is told whole next time. */
static enum value_state make_patch(struct core *core, const struct principal *who,
                                   const struct change *change, struct value_key key,
                                   struct baseline *from, struct value **ret)
{
    bool is_deleted = change->kind == TIDINGS_CHANGE_DELETED;
    struct tidings_str contents = STR_EMPTY;
    enum value_state state = is_deleted ? VALUE_READY : values_get(core, who, change, &contents);
    if (state != VALUE_READY) {
        return state;
    }
    struct value *e = add(core, who, change, key);
    if (!e) {
        return VALUE_NONE;
    }
    e->from = baseline_ref(from);
    if (is_deleted) {
        patch_write_deleted(&e->out, change, from);
        e->to = baseline_ref(from);
    } else {
        patch_write(&e->out, &core->values.baselines, change->uri, from, contents, &e->to);
    }
    core->values.patches++;
    conclude(e, true);
    *ret = e;
    return e->state;
}

enum value_state values_get_patch(struct core *core, const struct principal *who,
                                  const struct change *change, struct baseline *from,
                                  struct tidings_str *ret_json, struct baseline **ret_to)
{
    struct value_key key = {
        .change = change, .from = from, .shape = SHAPE_PATCH, .class = class_of(who)};
    struct value *e = find(&core->values, key);
    *ret_json = STR_EMPTY;
    *ret_to = NULL;
    if (!e) {
        trim(&core->values);
        if (!find_patching(core, change->uri)) {
            enum value_state state = make_patch(core, who, change, key, from, &e);
            if (!e) {
                return state;
            }
        } else if ((e = add(core, who, change, key)) != NULL) {
            e->from = baseline_ref(from);
            ask_patch(e);
        } else {
            *ret_to = from;
            return VALUE_NONE;
        }
    }
    if (e->state != VALUE_READING) {
        *ret_json = buf_str(&e->out);
        *ret_to = e->to;
    }
    return e->state;
}

/* ---- for subscriptions ----------------------------------------------------------------------- */

static struct chain *chain_of(const struct sub *sub)
{
    return sub->extra ? sub->extra->chain : NULL;
}

/* In the words of the profile, which legacy clients get. */
static bool is_said(const struct sub *sub)
{
    const struct peer *peer = sub->peer;
    return sub->listen->id_len == 0 && dialect_does(peer->core->self, PROFILE_DATA) &&
           !(peer->ops && peer->ops->told);
}

/* The same as `*json`, made once. */
static enum value_state say(struct core *core, const struct principal *who,
                            const struct change *change, struct value_key key,
                            struct tidings_str *json)
{
    struct value *e = find(&core->values, key);
    if (!e) {
        trim(&core->values);
        e = add(core, who, change, key);
        if (!e) {
            *json = STR_EMPTY;
            return VALUE_NONE;
        }
        e->from = baseline_ref((struct baseline *)(uintptr_t)key.from);
        if (json->len > 0) {
            dialect_put_data(&e->out, *json);
        } else { /* gone: all that is known of it */
            buf_puts(&e->out, STR("\"data\":{\"deleted\":true,"));
            buf_puts(&e->out, core->access ? change_metadata_without_version(change)
                                           : change->metadata_json);
            buf_putc(&e->out, '}');
        }
        conclude(e, true);
    }
    *json = buf_str(&e->out);
    return e->state;
}

enum value_state sub_value(const struct sub *sub, const struct change *change,
                           struct tidings_str *ret_json, struct baseline **ret_to)
{
    struct core *core = sub->peer->core;
    const struct chain *chain = chain_of(sub);
    struct baseline *from = chain ? chain_at(chain, change->uri) : NULL;
    *ret_to = NULL;
    enum value_state state =
        chain ? values_get_patch(core, sub->peer->who, change, from, ret_json, ret_to)
              : values_get(core, sub->peer->who, change, ret_json);
    bool is_there =
        state == VALUE_READY || (state == VALUE_NONE && change->kind == TIDINGS_CHANGE_DELETED);
    if (!is_there || !is_said(sub)) {
        return state;
    }
    struct value_key key = {.change = change,
                            .from = from,
                            .shape = chain ? SHAPE_SAID_PATCH : SHAPE_SAID,
                            .class = class_of(sub->peer->who)};
    return say(core, sub->peer->who, change, key, ret_json);
}

void sub_told(const struct sub *sub, const struct change *change, struct baseline *to)
{
    if (chain_of(sub)) {
        chain_move(chain_of(sub), change->uri, to);
    }
}

void sub_left_out(const struct sub *sub, const struct change *change)
{
    struct chain *chain = chain_of(sub);
    if (!chain || !sub_is_own(sub, change)) {
        return;
    }
    struct core *core = sub->peer->core;
    const struct baseline *at = chain_at(chain, change->uri);
    if (!find_patching(core, change->uri) || change->etag.len == 0) {
        chain_move(chain, change->uri, NULL);
    } else if (!at || str_cmp(baseline_etag(at), change->etag) < 0) { /* never back */
        struct baseline *own =
            baseline_get(&core->values.baselines, change->uri, change->etag, STR_EMPTY);
        chain_move(chain, change->uri, own);
        baseline_unref(own);
    }
}
