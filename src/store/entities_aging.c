/* SPDX-License-Identifier: MIT
 *
 * Forgetting old versions of entities that are not written any more: all entities are looked at in
 * turn, some at a time, and again after a while. Those that are written lose their old versions
 * then (store/entities_write.c).
 */
#include "base/str.h"
#include "store/entities_private.h"

#define AT_A_TIME 64u
#define AGAIN_MS 60000

struct aging_pass {
    struct entities *e;
    struct arena arena;
    struct {
        struct tidings_str id;
        int64_t max_age_ms;
    } found[AT_A_TIME];
    size_t count, seen;
    struct tidings_str last;
    bool failed;
};

static bool has_age(struct entities *e)
{
    bool found = false;
    list_each (it, next, &e->types) {
        found = found || list_entry(it, struct entity_type, link)->keeping.max_age_ms > 0;
    }
    return found;
}

static bool entities_aging_take(void *user, const struct entity_version *v)
{
    struct aging_pass *a = user;
    const struct entity_type *t = entity_types_find(a->e, v->type, v->type_version);
    a->seen++;
    if (v->id.len > ENTITY_ID_MAX) {
        return true; /* none of ours */
    }
    a->last = arena_dup(&a->arena, v->id);
    a->failed = !a->last.ptr;
    if (!a->failed && t && t->keeping.max_age_ms > 0) {
        a->found[a->count].id = a->last;
        a->found[a->count++].max_age_ms = t->keeping.max_age_ms;
    }
    return !a->failed && a->seen < AT_A_TIME;
}

static int entities_aging_forget(struct aging_pass *a, int64_t now, struct tidings_error *err)
{
    int rc = entities_begin(a->e, err);
    if (rc < 0) {
        return rc;
    }
    for (size_t i = 0; rc == 0 && i < a->count; i++) {
        rc = entity_forget(a->e, a->found[i].id, now - a->found[i].max_age_ms, err);
    }
    if (rc < 0) {
        entities_rollback(a->e);
        return rc;
    }
    return entities_commit(a->e, err);
}

int entity_aging_step(struct entities *e, struct tidings_error *err)
{
    int64_t now = entities_now(e);
    bool is_begun = e->aged[0] != '\0';
    if ((!is_begun && now < e->aging_ms) || !has_age(e)) {
        return 0;
    }
    struct aging_pass a = {.e = e};
    const struct entity_scope everything = {.deleted = true};
    arena_init(&a.arena, AT_A_TIME * (ENTITY_ID_MAX + 16u));
    int rc = e->rows->ops->list(e->rows, &everything, tidings_str(e->aged), entities_aging_take, &a,
                                err);
    rc = rc == 0 && a.failed ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory") : rc;
    rc = rc == 0 && a.count > 0 ? entities_aging_forget(&a, now, err) : rc;
    bool is_over = rc < 0 || a.seen < AT_A_TIME;
    if (is_over) {
        e->aging_ms = now + AGAIN_MS;
        e->aged[0] = '\0';
    } else {
        memcpy(e->aged, a.last.ptr, a.last.len);
        e->aged[a.last.len] = '\0';
    }
    arena_deinit(&a.arena);
    return rc < 0 ? rc : !is_over;
}
