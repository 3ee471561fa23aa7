/* SPDX-License-Identifier: MIT
 *
 * Checking a write of an entity before it is done: what is asked for by itself, who asks, and what
 * is stored.
 */
#include "base/str.h"
#include "store/entities_write_private.h"

/* ---- what is asked for ----------------------------------------------------------------------- */

int entities_write_check(struct write_context *k, size_t i)
{
    const struct entity_write *w = k->steps[i].w;
    if (!entity_id_is_valid(w->id)) {
        return REFUSE(k, i, ENTITY_INVALID, TIDINGS_E_INVALID,
                      "an entity's id has 1 to %u letters, digits, '-', '_' and '.'",
                      ENTITY_ID_MAX);
    }
    if (w->has_parent && w->parent.len > 0 && !entity_id_is_valid(w->parent)) {
        return REFUSE(k, i, ENTITY_INVALID, TIDINGS_E_INVALID, "the parent is no entity's id");
    }
    if (w->has_parent && str_eq(w->parent, w->id)) {
        return REFUSE(k, i, ENTITY_INVALID, TIDINGS_E_INVALID, "an entity is not its own parent");
    }
    for (size_t j = 0; j < i; j++) {
        if (str_eq(k->steps[j].w->id, w->id)) {
            return REFUSE(k, i, ENTITY_INVALID, TIDINGS_E_INVALID,
                          "'%.*s' stands twice in one transaction", STR_ARG(w->id));
        }
    }
    if (w->op == ENTITY_UPSERT && !w->value == !w->patch) {
        return REFUSE(k, i, ENTITY_INVALID, TIDINGS_E_INVALID,
                      "give either a value or a patch, not %s", w->value ? "both" : "neither");
    }
    if (w->patch && w->baseline == TIMELINE_NEVER && !w->rebase) {
        return REFUSE(k, i, ENTITY_INVALID, TIDINGS_E_INVALID,
                      "a patch needs the baseline it starts from");
    }
    if (w->valid_from != TIMELINE_NEVER && w->valid_from >= TIMELINE_FOREVER) {
        return REFUSE(k, i, ENTITY_INVALID, TIDINGS_E_INVALID, "validFrom is too late");
    }
    return 0;
}

/* ---- what whoever writes may ----------------------------------------------------------------- */

static bool check_may(const struct write_context *k, enum entity_right right,
                      const struct entity_type_row *type, struct tidings_str id)
{
    return !k->t->may || k->t->may(k->t->may_user, right, type, id);
}

bool entities_write_may_as_stored(const struct write_context *k, enum entity_right right,
                                  const struct entity_version *v)
{
    return check_may(k, right,
                     &(struct entity_type_row){.name = v->type, .version = v->type_version}, v->id);
}

/* The newest version of a type that the entity may be written as. NULL: none. */
static struct entity_type *newest_for(const struct write_context *k, struct tidings_str name,
                                      struct tidings_str id)
{
    struct entity_type *t = entity_types_newest(k->e, name);
    while (t && !check_may(k, ENTITY_MAY_WRITE, &t->row, id)) {
        struct entity_type *before = list_entry(t->link.prev, struct entity_type, link);
        bool is_one = t->link.prev != &k->e->types && str_eq(before->row.name, name);
        t = is_one ? before : NULL;
    }
    return t;
}

/* Is the type the one that is stored? Upserts may also name the newest version. */
static int entities_write_check_type(struct write_context *k, size_t i)
{
    struct step *s = &k->steps[i];
    const struct entity_write *w = s->w;
    bool upsert = w->op == ENTITY_UPSERT;
    bool is_short = w->type.len == 0; /* whatever it is; of the types named it was asked before */
    if (upsert && !is_short) {
        s->type = entity_types_find(k->e, w->type, w->type_version);
        if (!s->type) {
            return REFUSE(k, i, ENTITY_UNKNOWN_TYPE, TIDINGS_E_NOTFOUND,
                          "there is no entity type '%.*s@%.*s'", STR_ARG(w->type),
                          STR_ARG(w->type_version));
        }
    }
    if (upsert && is_short && !s->exists) {
        return REFUSE(k, i, ENTITY_UNKNOWN, TIDINGS_E_NOTFOUND,
                      "there is no entity '%.*s'; a new one is written with its type, as "
                      "{type}@{version}/%.*s",
                      STR_ARG(w->id), STR_ARG(w->id));
    }
    if (!s->exists) {
        return 0;
    }
    if (is_short && !entities_write_may_as_stored(k, ENTITY_MAY_WRITE, &s->now)) {
        return entities_write_unknown(k, i, w->id);
    }
    struct entity_type *newest = newest_for(k, s->now.type, w->id);
    bool same = is_short || str_eq(w->type, s->now.type);
    same = same && (w->type_version.len == 0 || str_eq(w->type_version, s->now.type_version) ||
                    (upsert && s->type == newest &&
                     entities_write_may_as_stored(k, ENTITY_MAY_WRITE, &s->now)));
    if (!same) {
        k->problem->type = s->now.type;
        k->problem->version = s->now.type_version;
        bool is_upgraded = str_eq(w->type, s->now.type);
        return REFUSE(k, i, ENTITY_OTHER_TYPE, TIDINGS_E_NOTFOUND, "'%.*s' is a '%.*s@%.*s'%s",
                      STR_ARG(w->id), STR_ARG(s->now.type), STR_ARG(s->now.type_version),
                      is_upgraded ? " now: read it as that, and write it as that" : "");
    }
    s->type =
        upsert && newest ? newest : s->type; /* a write brings an entity to the newest version */
    return 0;
}

static int check_baseline(struct write_context *k, size_t i)
{
    struct step *s = &k->steps[i];
    const struct entity_write *w = s->w;
    if (w->baseline == TIMELINE_NEVER || w->baseline == s->now.from) {
        return 0;
    }
    struct entity_version base;
    int rc = k->e->rows->ops->find(k->e->rows, w->id, w->baseline, &base, k->err);
    if (rc < 0) {
        return entities_write_unreadable(k, i, rc);
    }
    char text[TIMELINE_TEXT];
    if (rc == 0 || base.from != w->baseline) {
        return REFUSE(k, i, ENTITY_UNKNOWN_BASELINE, TIDINGS_E_INVALID,
                      "no version of '%.*s' begins at %s", STR_ARG(w->id),
                      timeline_text(w->baseline, text).ptr);
    }
    if (w->patch && w->rebase) {
        return 0;
    }
    k->problem->current = s->now.from;
    rc = entity_diff(base.value, s->now.value, k->arena, &k->problem->patch, k->err);
    if (rc < 0) {
        return entities_write_medium(k, i, rc);
    }
    return REFUSE(k, i, ENTITY_CONFLICT, TIDINGS_E_CONFLICT,
                  "'%.*s' has changed since its baseline: the current version begins at %s",
                  STR_ARG(w->id), timeline_text(s->now.from, text).ptr);
}

static int check_existence(struct write_context *k, size_t i)
{
    struct step *s = &k->steps[i];
    const struct entity_write *w = s->w;
    bool has_baseline = w->baseline != TIMELINE_NEVER;
    bool needs_one = w->op != ENTITY_UPSERT || w->patch || has_baseline || w->must_exist;
    if (!s->exists && needs_one) {
        return entities_write_unknown(k, i, w->id);
    }
    if (s->exists && w->op == ENTITY_UPSERT && w->must_be_new) {
        k->problem->current = s->now.from;
        return REFUSE(k, i, ENTITY_EXISTS, TIDINGS_E_EXISTS, "'%.*s' exists already",
                      STR_ARG(w->id));
    }
    if (s->exists && w->op == ENTITY_UPSERT && s->now.deleted) {
        k->problem->current = s->now.from;
        return REFUSE(k, i, ENTITY_DELETED, TIDINGS_E_GONE,
                      "'%.*s' has been deleted; undelete it first", STR_ARG(w->id));
    }
    if (s->exists && w->is_careful && !has_baseline && !w->must_exist && !w->rebase) {
        k->problem->current = s->now.from;
        return REFUSE(k, i, ENTITY_CARELESS, TIDINGS_E_CONDITION,
                      "'%.*s' exists: name the version this starts from", STR_ARG(w->id));
    }
    return 0;
}

int entities_write_check_now(struct write_context *k, size_t i)
{
    int rc = entities_write_check_type(k, i);
    rc = rc == 0 ? check_existence(k, i) : rc;
    return rc == 0 ? check_baseline(k, i) : rc;
}
