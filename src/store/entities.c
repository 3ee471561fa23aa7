/* SPDX-License-Identifier: MIT
 *
 * Entities: opening the store they are kept in, batches, and reading. Texts that a read hands on
 * are copied into the caller's arena: the rows' own live only until the next call.
 */
#include "store/entities.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/entities_private.h"
#include "store/shared.h"
#include "json/merge_patch.h"
#include "json/write.h"

int entities_open(struct entity_rows *rows, struct entities **ret, struct tidings_error *err)
{
    struct entities *e = mem_zalloc(sizeof(*e));
    if (!e) {
        rows->ops->destroy(rows);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    e->rows = rows;
    list_init(&e->types);
    map_init(&e->by_label);
    map_init(&e->newest);
    entity_holds_init(&e->holds);
    entity_read_cache_init(&e->read_cache);
    int rc = rows->shared ? entity_recent_create(&e->recent, err) : 0;
    rc = rc == 0 ? entity_types_load(e, err) : rc;
    if (rc < 0) {
        entities_close(e);
        return rc;
    }
    entity_types_warn(e);
    *ret = e;
    return 0;
}

void entities_close(struct entities *e)
{
    if (e) {
        entity_types_clear(e);
        entity_holds_deinit(&e->holds);
        entity_read_cache_clear(&e->read_cache);
        entity_recent_destroy(e->recent);
        e->rows->ops->destroy(e->rows);
        mem_free(e);
    }
}

struct entity_rows *entities_rows(struct entities *e)
{
    return e->rows;
}

int64_t entities_now(struct entities *e)
{
    const struct shared_ops *shared = e->rows->shared;
    return shared && shared->now ? shared->now(e->rows) : clock_wall_ms();
}

uint64_t entities_position(struct entities *e)
{
    return e->rows->ops->position(e->rows);
}

/* ---- holding --------------------------------------------------------------------------------- */

int entities_hold(struct entities *e, struct tidings_str id, int64_t from)
{
    return entity_holds_add(&e->holds, id, from);
}

void entities_release(struct entities *e, struct tidings_str id, int64_t from)
{
    entity_holds_remove(&e->holds, id, from);
}

/* ---- batches --------------------------------------------------------------------------------- */

int entities_begin(struct entities *e, struct tidings_error *err)
{
    e->has_added_types = false;
    int rc = e->rows->ops->begin(e->rows, err);
    e->in_batch = rc == 0;
    return rc;
}

bool entities_begin_unlocked(struct entities *e)
{
    const struct shared_ops *shared = e->rows->shared;
    e->has_added_types = false;
    e->in_batch = shared && shared->begin_unlocked && shared->begin_unlocked(e->rows);
    return e->in_batch;
}

/* The types are what the rows say, also when those cannot be read now. Is a commit in doubt,
 * whoever follows the store is told of them. */
static void end_added_types(struct entities *e, bool is_committed)
{
    if (e->has_added_types) {
        e->has_added_types = false;
        entity_types_end_batch(e, is_committed);
    }
}

int entities_commit(struct entities *e, struct tidings_error *err)
{
    int rc = e->rows->ops->commit(e->rows, err);
    e->in_batch = false;
    end_added_types(e, rc == 0);
    return rc;
}

void entities_rollback(struct entities *e)
{
    e->rows->ops->rollback(e->rows);
    e->in_batch = false;
    end_added_types(e, false);
}

int entity_forget(struct entities *e, struct tidings_str id, int64_t end, struct tidings_error *err)
{
    int64_t held = entity_holds_oldest(&e->holds, id);
    return e->rows->ops->forget(e->rows, id, end < held ? end : held, err);
}

/* ---- texts ----------------------------------------------------------------------------------- */

bool entity_version_keep(struct entity_version *v, struct arena *arena)
{
    struct tidings_str *texts[] = {&v->id,    &v->type,       &v->type_version, &v->parent,
                                   &v->value, &v->changed_by, &v->principal,    &v->previous};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        *texts[i] = arena_dup(arena, *texts[i]);
        if (!texts[i]->ptr) {
            return false;
        }
    }
    return true;
}

int entity_text(const struct json *v, struct arena *arena, struct tidings_str *ret,
                struct tidings_error *err)
{
    struct buf out;
    struct jw w;
    buf_init(&out, ENTITY_VALUE_MAX);
    jw_init(&w, &out);
    jw_value(&w, v);
    int rc = out.failed == TIDINGS_E_LIMIT
                 ? tidings_fail(err, TIDINGS_E_LIMIT, "the value has more than %u bytes",
                                ENTITY_VALUE_MAX)
                 : 0;
    if (rc == 0) {
        struct tidings_str copy = {0};
        copy = out.failed ? copy : arena_dup(arena, buf_str(&out));
        rc = copy.ptr ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        *ret = copy.ptr ? copy : *ret;
    }
    buf_deinit(&out);
    return rc;
}

int entity_diff(struct tidings_str from, struct tidings_str to, struct arena *arena,
                struct tidings_str *ret, struct tidings_error *err)
{
    struct json *a = NULL, *b = NULL, *patch = NULL;
    int rc = jv_parse(from, JSON_MAX_DEPTH, &a, err);
    rc = rc == 0 ? jv_parse(to, JSON_MAX_DEPTH, &b, err) : rc;
    *ret = STR_EMPTY;
    if (rc == 0) {
        rc = merge_diff(a, b, &patch);
        rc = rc < 0    ? tidings_fail(err, rc, "out of memory")
             : rc == 1 ? entity_text(patch, arena, ret, err)
                       : 0;
    }
    jv_unref(patch);
    jv_unref(b);
    jv_unref(a);
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

void entities_set_read_cache(struct entities *e, size_t max_bytes)
{
    e->read_cache.max_bytes = max_bytes;
}

void entities_set_unreachable(struct entities *e, bool is_unreachable)
{
    e->is_unreachable = is_unreachable;
}

void entities_note_followed(struct entities *e, const struct entity_version *v)
{
    entity_read_cache_drop(&e->read_cache, v->id);
    if (v->value.len > 0 && !v->deleted) {
        entity_recent_put(e->recent, v);
    } else {
        entity_recent_drop(e->recent, v->id, TIMELINE_FOREVER);
    }
}

void entities_drop_cached(struct entities *e)
{
    entity_read_cache_clear(&e->read_cache);
    entity_recent_clear(e->recent);
}

const struct recent_version *entities_recent(const struct entities *e, struct tidings_str id)
{
    return entity_recent_find(e->recent, id);
}

/* The current version, from what is known while the store cannot be reached: nobody waits for it
 * then. */
static int find_current(struct entities *e, struct tidings_str id, struct entity_version *ret,
                        struct tidings_error *err)
{
    bool keeps = e->read_cache.max_bytes > 0 && !e->in_batch;
    const struct entity_version *known =
        keeps && e->is_unreachable ? entity_read_cache_find(&e->read_cache, id) : NULL;
    int rc = known ? 1 : e->rows->ops->find(e->rows, id, TIMELINE_FOREVER, ret, err);
    known = keeps && rc == TIDINGS_E_BUSY ? entity_read_cache_find(&e->read_cache, id) : known;
    if (known) {
        *ret = *known;
        return 1;
    }
    if (rc == 1) { /* nobody reads an older one from here on */
        entity_recent_drop(e->recent, id, ret->from);
    }
    if (keeps && rc == 1) {
        entity_read_cache_put(&e->read_cache, ret);
    }
    return rc;
}

int entities_find(struct entities *e, struct tidings_str id, int64_t at, struct arena *arena,
                  struct entity_version *ret, struct tidings_error *err)
{
    int rc = at == TIMELINE_FOREVER ? find_current(e, id, ret, err)
                                    : e->rows->ops->find(e->rows, id, at, ret, err);
    if (rc == 1 && !entity_version_keep(ret, arena)) {
        rc = tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    return rc;
}

int entities_patch_from(struct entities *e, struct tidings_str id, int64_t baseline,
                        struct arena *arena, struct entity_patch *ret, struct tidings_error *err)
{
    *ret = (struct entity_patch){.patch = STR_EMPTY};
    int rc = entities_find(e, id, TIMELINE_FOREVER, arena, &ret->version, err);
    struct entity_version base;
    rc = rc == 1 ? e->rows->ops->find(e->rows, id, baseline, &base, err) : rc;
    if (rc != 1 || base.from != baseline) {
        return rc < 0 ? rc : 0;
    }
    ret->type = arena_dup(arena, base.type);
    ret->type_version = arena_dup(arena, base.type_version);
    rc = ret->type.ptr && ret->type_version.ptr
             ? entity_diff(base.value, ret->version.value, arena, &ret->patch, err)
             : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    entity_holds_offer(&e->holds, id, ret->version.from);
    return rc < 0 ? rc : 1;
}

int entities_history(struct entities *e, struct tidings_str id, int64_t first, entity_version_fn fn,
                     void *user, struct tidings_error *err)
{
    return e->rows->ops->history(e->rows, id, first, fn, user, err);
}

int entities_list(struct entities *e, const struct entity_scope *scope, struct tidings_str after,
                  entity_version_fn fn, void *user, struct tidings_error *err)
{
    return e->rows->ops->list(e->rows, scope, after, fn, user, err);
}

int entities_idle(struct entities *e, struct tidings_error *err)
{
    int rc = e->rows->ops->idle(e->rows, err);
    return rc != 0 ? rc : entity_aging_step(e, err);
}

void entities_each_type(struct entities *e, entity_type_fn fn, void *user)
{
    list_each (it, next, &e->types) {
        if (!fn(user, &list_entry(it, struct entity_type, link)->row)) {
            break;
        }
    }
}
