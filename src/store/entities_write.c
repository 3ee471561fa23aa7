/* SPDX-License-Identifier: MIT
 *
 * Writing entities, one or several in a transaction: each write is computed first, against the
 * current state, and the versions are put only if all are valid. After the first version is put, no
 * error of the caller and no allocation from the caller's budget can occur: a transaction that
 * needs more than its budget is refused by itself.
 *
 * All versions of a transaction begin at the same time, the first one later than every version they
 * follow, unless a write gives its own.
 */
#include "base/error.h"
#include "base/str.h"
#include "formats/json.h"
#include "formats/json_write.h"
#include "formats/schema_patch.h"
#include "store/entities.h"

/* -------------------------------------------------------------------------------------------------
 * A transaction of entity writes while it is being computed.
 */

/* One write of the transaction. */
struct step {
    const struct entity_write *w;
    struct entity_version now; /* the current version, in the arena */
    bool exists;
    bool is_taken;              /* the id belongs to an entity that the caller may not know of */
    struct entity_type *type;   /* of the new version */
    struct entity_version next; /* in the arena */
    bool changed;
    bool replaces_current; /* it replaces the current version */
    uint64_t position;     /* after the put */
};

/* The state of a transaction while it is checked and put. */
struct write_context {
    struct entities *e;
    const struct entity_transaction *t;
    struct arena *arena;
    struct step *steps;
    struct entity_problem *problem;
    struct tidings_error *err;
    uint64_t *judging; /* steps left for validation: all writes together */
};

static int entities_write_refuse(struct write_context *k, size_t index, enum entity_reason reason,
                                 int code);

#define REFUSE(k, index, reason, code, ...)                                                        \
    entities_write_refuse(k, index, reason, tidings_fail((k)->err, code, __VA_ARGS__))

/* ---------------------------------------------------------------------------------------------- */

/* The largest allocation of a transaction: a value, or the steps. */
#define LARGEST_PIECE (2u * ENTITY_VALUE_MAX)
_Static_assert(ENTITY_TRANSACTION_MAX * sizeof(struct step) < LARGEST_PIECE, "all steps");

/* Records why write `index` is refused; returns `code`. */
static int entities_write_refuse(struct write_context *k, size_t index, enum entity_reason reason,
                                 int code)
{
    k->problem->reason = reason;
    k->problem->index = index;
    return code;
}

static int entities_write_medium(struct write_context *k, size_t index, int code)
{
    return entities_write_refuse(k, index, ENTITY_MEDIUM, code);
}

/* Nothing was put yet, so damaged data fails only this transaction, not its batch. */
static int entities_write_unreadable(struct write_context *k, size_t index, int code)
{
    return entities_write_refuse(k, index,
                                 code == TIDINGS_E_INTERNAL ? ENTITY_DAMAGED : ENTITY_MEDIUM, code);
}

static int entities_write_unknown(struct write_context *k, size_t index, struct tidings_str id)
{
    return REFUSE(k, index, ENTITY_UNKNOWN, TIDINGS_E_NOTFOUND, "there is no entity '%.*s'",
                  STR_ARG(id));
}

/* ---- values ---------------------------------------------------------------------------------- */

/* `pointers` are those of a patch schema, or NULL. */
static int check_schema(struct write_context *k, size_t i, const struct json_schema *schema,
                        struct json *pointers, struct json *value, const char *what)
{
    struct schema_error why;
    enum schema_verdict verdict = schema_check_within(schema, value, &why, k->judging);
    if (verdict == SCHEMA_VALID) {
        return 0;
    }
    k->problem->is_out_of_steps = verdict == SCHEMA_GAVE_UP && *k->judging == 0;
    if (pointers) {
        schema_patch_explain(pointers, &why);
    }
    k->problem->where = arena_dup(k->arena, tidings_str(why.instance_path));
    k->problem->rule = arena_dup(k->arena, tidings_str(why.schema_path));
    return REFUSE(k, i, ENTITY_BAD_VALUE, TIDINGS_E_INVALID, "%s '%s': %s", what, why.instance_path,
                  why.text);
}

/* Rejects values above the size limit before any schema validates them. */
static int entities_write_put_text(struct write_context *k, size_t i, const struct json *v,
                                   struct tidings_str *ret)
{
    int rc = entity_text(v, k->arena, ret, k->err);
    return rc < 0 ? entities_write_refuse(
                        k, i, rc == TIDINGS_E_LIMIT ? ENTITY_INVALID : ENTITY_MEDIUM, rc)
                  : 0;
}

static int check_value(struct write_context *k, size_t i, struct json *value, const char *what)
{
    struct step *s = &k->steps[i];
    int rc = entities_write_put_text(k, i, value, &s->next.value);
    return rc == 0 ? check_schema(k, i, s->type->full, NULL, value, what) : rc;
}

/* Computes the new value, a new reference. */
static int entities_write_next_value(struct write_context *k, size_t i, struct json *now,
                                     struct json **ret)
{
    struct step *s = &k->steps[i];
    if (s->type->unusable) {
        return REFUSE(k, i, ENTITY_UNSUPPORTED, TIDINGS_E_INVALID,
                      "%s: add a version of the type with another schema, and write that",
                      s->type->unusable);
    }
    if (s->w->value) {
        *ret = jv_ref(s->w->value);
        return check_value(k, i, *ret, "value");
    }
    struct tidings_str text;
    int rc = entities_write_put_text(k, i, s->w->patch, &text);
    rc = rc == 0 ? check_schema(k, i, s->type->patch, s->type->patch_pointers, s->w->patch, "patch")
                 : rc;
    if (rc < 0) {
        return rc;
    }
    *ret = merge_apply(now, s->w->patch);
    return *ret ? check_value(k, i, *ret, "patched value")
                : entities_write_medium(k, i,
                                        tidings_fail(k->err, TIDINGS_E_NOMEM, "out of memory"));
}

static int put_previous(struct write_context *k, size_t i, struct json *now, struct json *next)
{
    struct step *s = &k->steps[i];
    struct json *back = NULL;
    s->next.previous = STR_EMPTY;
    int rc = now ? merge_diff(next, now, &back) : 0;
    rc = rc == 1 ? entity_text(back, k->arena, &s->next.previous, k->err) : rc;
    jv_unref(back);
    return rc < 0 ? entities_write_medium(k, i, rc) : 0;
}

static int prepare_upsert(struct write_context *k, size_t i)
{
    struct step *s = &k->steps[i];
    struct json *now = NULL, *next = NULL;
    int rc = s->exists ? jv_parse(s->now.value, JSON_MAX_DEPTH, &now, k->err) : 0;
    rc = rc < 0 ? entities_write_medium(k, i, rc) : entities_write_next_value(k, i, now, &next);
    s->next.type = s->type->row.name;
    s->next.type_version = s->type->row.version;
    s->next.parent = s->w->has_parent ? s->w->parent : s->exists ? s->now.parent : STR_EMPTY;
    if (rc == 0) {
        s->changed = !s->exists || !jv_equal(now, next) || !str_eq(s->next.parent, s->now.parent) ||
                     !str_eq(s->next.type_version, s->now.type_version);
        rc = s->changed ? put_previous(k, i, now, next) : 0;
    }
    jv_unref(next);
    jv_unref(now);
    return rc;
}

static void prepare_mark(struct step *s)
{
    bool deleted = s->w->op == ENTITY_DELETE;
    s->changed = s->now.deleted != deleted;
    s->next = s->now;
    s->next.previous = STR("{}");
    s->next.deleted = deleted;
}

static int entities_write_check_now(struct write_context *k, size_t i);

static int entities_write_check(struct write_context *k, size_t i);

static bool entities_write_may_as_stored(const struct write_context *k, enum entity_right right,
                                         const struct entity_version *v);

static int entities_write_prepare(struct write_context *k, size_t i)
{
    struct step *s = &k->steps[i];
    int rc = entities_write_check(k, i);
    if (rc < 0) {
        return rc;
    }
    rc = k->e->store->ops->find(k->e->store, s->w->id, TIMELINE_FOREVER, &s->now, k->err);
    s->exists = rc == 1;
    if (rc < 0) {
        return entities_write_unreadable(k, i, rc);
    }
    if (s->exists && !entity_version_keep(&s->now, k->arena)) {
        return entities_write_medium(k, i, tidings_fail(k->err, TIDINGS_E_NOMEM, "out of memory"));
    }
    if (s->exists && !entities_write_may_as_stored(k, ENTITY_MAY_KNOW, &s->now)) {
        s->exists = false;
        s->is_taken = true;
        s->now = (struct entity_version){.from = TIMELINE_NEVER};
    }
    rc = entities_write_check_now(k, i);
    if (rc < 0) {
        return rc;
    }
    if (s->w->op == ENTITY_UPSERT) {
        rc = prepare_upsert(k, i);
    } else {
        prepare_mark(s);
    }
    s->next.id = s->w->id;
    s->next.changed_by = s->w->changed_by;
    s->next.principal = k->t->principal;
    s->next.to = TIMELINE_FOREVER;
    s->next.created = !s->exists || s->w->op == ENTITY_UNDELETE;
    s->next.old_type_version = s->exists && !str_eq(s->now.type_version, s->next.type_version)
                                   ? s->now.type_version
                                   : STR_EMPTY;
    s->next.old_parent =
        s->exists && !str_eq(s->now.parent, s->next.parent) ? s->now.parent : STR_EMPTY;
    return rc;
}

/* ---- putting --------------------------------------------------------------------------------- */

static int date_steps(struct write_context *k)
{
    int64_t shared = k->t->now;
    for (size_t i = 0; i < k->t->count; i++) {
        const struct step *s = &k->steps[i];
        if (s->changed && s->w->valid_from == TIMELINE_NEVER && s->exists &&
            s->now.from >= shared) {
            shared = s->now.from + 1;
        }
    }
    for (size_t i = 0; i < k->t->count; i++) {
        struct step *s = &k->steps[i];
        int64_t wanted = s->w->valid_from == TIMELINE_NEVER ? shared : s->w->valid_from;
        int64_t newest = s->exists ? s->now.from : TIMELINE_NEVER;
        if (timeline_next(newest, wanted, &s->next.from, k->err) < 0) {
            return entities_write_refuse(k, i, ENTITY_INVALID, TIDINGS_E_LIMIT);
        }
    }
    return 0;
}

/* The last check, so that other errors are the same as for a missing entity. */
static int check_taken(struct write_context *k)
{
    for (size_t i = 0; i < k->t->count; i++) {
        if (k->steps[i].is_taken) {
            return REFUSE(k, i, ENTITY_TAKEN, TIDINGS_E_EXISTS, "the id '%.*s' cannot be used",
                          STR_ARG(k->steps[i].w->id));
        }
    }
    return 0;
}

/* Returns true if the new version replaces the current one. The debounce time runs from the first
 * merged write: even with continuous writes, one version per `debounceMs` is kept. */
static bool replaces_current(const struct write_context *k, const struct step *s)
{
    const struct entity_type *t = entity_types_find(k->e, s->next.type, s->next.type_version);
    if (!s->exists || !t || entity_holds_has(&k->e->holds, s->w->id, s->now.from)) {
        return false;
    }
    bool soon = s->next.from - s->now.since < t->keeping.debounce_ms;
    return !t->keeping.history ||
           (soon && s->w->valid_from == TIMELINE_NEVER && s->w->op == ENTITY_UPSERT &&
            !s->now.deleted && str_eq(s->now.changed_by, s->next.changed_by) &&
            str_eq(s->now.principal, s->next.principal));
}

/* Its previous version is then that of the replaced version. */
static int set_previous(struct write_context *k, struct step *s)
{
    s->replaces_current = replaces_current(k, s);
    s->next.since = s->replaces_current ? s->now.since : s->next.from;
    if (!s->replaces_current) {
        return 0;
    }
    struct entity_version before;
    int rc = k->e->store->ops->find(k->e->store, s->w->id, s->now.from - 1, &before, k->err);
    s->next.previous = STR_EMPTY;
    rc = rc == TIDINGS_E_INTERNAL ? 0 : rc; /* damaged: it has no previous version */
    return rc == 1 ? entity_diff(s->next.value, before.value, k->arena, &s->next.previous, k->err)
                   : rc;
}

/* The value and the previous version's patch are in the arena; the other strings are in the
 * caller's memory or in types, which can be read again. All returned strings must be in the arena.
 */
static bool keep_names(struct entity_version *v, struct arena *arena)
{
    struct tidings_str *texts[] = {&v->id,     &v->type,       &v->type_version,
                                   &v->parent, &v->changed_by, &v->principal};
    bool fits = true;
    for (size_t i = 0; fits && i < sizeof texts / sizeof *texts; i++) {
        *texts[i] = arena_dup(arena, *texts[i]);
        fits = texts[i]->ptr != NULL;
    }
    return fits;
}

static int finish_steps(struct write_context *k)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < k->t->count; i++) {
        struct step *s = &k->steps[i];
        rc = s->changed ? set_previous(k, s) : 0;
        if (rc == 0 && s->changed && !keep_names(&s->next, k->arena)) {
            rc = tidings_fail(k->err, TIDINGS_E_NOMEM, "out of memory");
        }
        rc = rc < 0 ? entities_write_medium(k, i, rc) : 0;
    }
    return rc;
}

static int forget_old(struct write_context *k, const struct step *s)
{
    const struct entity_type *t = entity_types_find(k->e, s->next.type, s->next.type_version);
    const struct store_ops *ops = k->e->store->ops;
    int rc = 0;
    if (t && !t->keeping.history) {
        return entity_forget(k->e, s->w->id, s->next.from, k->err);
    }
    if (t && t->keeping.max_age_ms > 0) {
        rc = entity_forget(k->e, s->w->id, k->t->now - t->keeping.max_age_ms, k->err);
    }
    if (rc == 0 && t && t->keeping.max_versions > 0) {
        int64_t oldest = 0; /* among the versions that are kept */
        rc = ops->nth(k->e->store, s->w->id, t->keeping.max_versions, &oldest, k->err);
        rc = rc == 1 ? entity_forget(k->e, s->w->id, oldest, k->err) : rc;
    }
    return rc;
}

static int entities_write_put_key(struct write_context *k)
{
    struct buf text;
    struct jw w;
    buf_init(&text, ENTITY_TRANSACTION_MAX * (ENTITY_ID_MAX + 32u));
    jw_init(&w, &text);
    jw_begin_array(&w);
    for (size_t i = 0; i < k->t->count; i++) {
        const struct step *s = &k->steps[i];
        jw_string(&w, s->w->id);
        jw_integer(&w, s->changed ? s->next.from : s->now.from);
    }
    jw_end_array(&w);
    const struct entity_key key = {
        .owner = k->t->owner,
        .key = k->t->key,
        .digest = k->t->digest,
        .text = buf_str(&text),
        .at = k->t->now,
    };
    int rc = text.failed ? tidings_fail(k->err, text.failed, "out of memory")
                         : k->e->store->ops->put_key(k->e->store, &key, k->err);
    buf_deinit(&text);
    return rc;
}

static int put_steps(struct write_context *k)
{
    for (size_t i = 0; i < k->t->count; i++) {
        struct step *s = &k->steps[i];
        int rc = 0;
        if (s->changed) {
            rc = k->e->store->ops->put(k->e->store, &s->next, s->replaces_current, k->err);
            entity_read_cache_drop(&k->e->read_cache, s->next.id);
            entity_recent_drop(k->e->recent, s->next.id, TIMELINE_FOREVER);
            s->position = entities_position(k->e);
            rc = rc == 0 ? forget_old(k, s) : rc;
        }
        if (rc < 0) {
            return entities_write_medium(k, i, rc);
        }
    }
    int rc = k->t->key.len > 0 ? entities_write_put_key(k) : 0;
    return rc < 0 ? entities_write_medium(k, 0, rc) : 0;
}

static void entities_write_report(const struct write_context *k, struct entity_done *done)
{
    for (size_t i = 0; i < k->t->count; i++) {
        const struct step *s = &k->steps[i];
        done[i] = (struct entity_done){
            .version = s->changed ? s->next : s->now,
            .before = s->exists && s->changed ? s->now.from : TIMELINE_NEVER,
            .old_type_version = s->exists && s->changed ? s->now.type_version : STR_EMPTY,
            .old_parent = s->exists && s->changed ? s->now.parent : STR_EMPTY,
            .changed = s->changed,
            .created = s->changed && s->next.created,
            .position = s->position,
        };
    }
}

/* Finds the result of an earlier write: its version, or the current one if that was removed. Access
 * may have changed since. */
static int find_again(struct write_context *k, size_t i, struct tidings_str id, int64_t from,
                      struct entity_done *done)
{
    *done = (struct entity_done){.before = TIMELINE_NEVER};
    int rc = entities_find(k->e, id, from, k->arena, &done->version, k->err);
    rc = rc == 0 ? entities_find(k->e, id, TIMELINE_FOREVER, k->arena, &done->version, k->err) : rc;
    if (rc < 0) {
        return entities_write_unreadable(k, i, rc);
    }
    return rc == 1 && entities_write_may_as_stored(k, ENTITY_MAY_KNOW, &done->version)
               ? 0
               : entities_write_unknown(k, i, id);
}

/* Finds the result of the earlier transaction with this key. 1; 0: the key is new. */
static int find_done(struct write_context *k, struct entity_done *done)
{
    const struct entity_transaction *t = k->t;
    struct entity_key found;
    struct json *list = NULL;
    int rc = k->e->store->ops->find_key(k->e->store, t->owner, t->key, &found, k->err);
    if (rc <= 0 || found.at <= t->now - ENTITY_KEY_AGE_MS) {
        return rc < 0 ? entities_write_medium(k, 0, rc) : 0;
    }
    if (!str_eq(found.digest, t->digest)) {
        return REFUSE(k, 0, ENTITY_KEY_REUSED, TIDINGS_E_INVALID,
                      "the key '%.*s' was used for another request; repeat that one, or take "
                      "another key",
                      STR_ARG(t->key));
    }
    rc = jv_parse(found.text, JSON_MAX_DEPTH, &list, k->err);
    if (rc < 0 || jv_count(list) != 2 * t->count) {
        jv_unref(list);
        return REFUSE(k, 0, ENTITY_INVALID, TIDINGS_E_INTERNAL,
                      "the stored result of the key '%.*s' is damaged", STR_ARG(t->key));
    }
    for (size_t i = 0; rc == 0 && i < t->count; i++) {
        rc = find_again(k, i, jv_str(jv_at(list, 2 * i)), jv_int(jv_at(list, 2 * i + 1)), &done[i]);
    }
    jv_unref(list);
    return rc < 0 ? rc : 1;
}

/* All checks, and all allocations from the caller's budget. */
static int entities_write_work_out(struct write_context *k)
{
    const struct entity_transaction *t = k->t;
    k->steps = arena_alloc(k->arena, t->count * sizeof(*k->steps));
    if (!k->steps) {
        return entities_write_medium(k, 0, tidings_fail(k->err, TIDINGS_E_NOMEM, "out of memory"));
    }
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < t->count; i++) {
        k->steps[i].w = &t->writes[i];
        rc = entities_write_prepare(k, i);
    }
    rc = rc == 0 ? date_steps(k) : rc;
    rc = rc == 0 ? check_taken(k) : rc;
    return rc == 0 ? finish_steps(k) : rc;
}

int entities_transact(struct entities *e, const struct entity_transaction *t, struct arena *arena,
                      struct entity_done *done, struct entity_problem *problem,
                      struct tidings_error *err)
{
    uint64_t own = ENTITY_STEPS;
    struct write_context k = {.e = e,
                              .t = t,
                              .arena = arena,
                              .problem = problem,
                              .err = err,
                              .judging = t->steps ? t->steps : &own};
    *problem = (struct entity_problem){.current = TIMELINE_NEVER};
    if (t->count == 0 || t->count > ENTITY_TRANSACTION_MAX) {
        return REFUSE(&k, 0, ENTITY_INVALID, TIDINGS_E_INVALID,
                      "a transaction has 1 to %u writes, not %zu", ENTITY_TRANSACTION_MAX,
                      t->count);
    }
    if (t->key.len > ENTITY_KEY_MAX) {
        return REFUSE(&k, 0, ENTITY_INVALID, TIDINGS_E_INVALID, "a key has at most %u bytes",
                      ENTITY_KEY_MAX);
    }
    int rc = t->key.len > 0 ? find_done(&k, done) : 0;
    rc = rc == 0 ? entities_write_work_out(&k) : rc;
    if (rc == TIDINGS_E_NOMEM && arena->max - arena->used < LARGEST_PIECE) { /* nothing was put */
        return REFUSE(&k, problem->index, ENTITY_INVALID, TIDINGS_E_LIMIT,
                      "it reads and writes more than %zu bytes; write fewer entities at once",
                      arena->max);
    }
    rc = rc == 0 ? put_steps(&k) : rc;
    if (rc == 0) {
        entities_write_report(&k, done);
    }
    return rc;
}

/* -------------------------------------------------------------------------------------------------
 * Checks a write of an entity before it is put: the request itself, the caller's access, and the
 * stored entity.
 */

/* ---- the request ----------------------------------------------------------------------------- */

static int entities_write_check(struct write_context *k, size_t i)
{
    const struct entity_write *w = k->steps[i].w;
    if (!entity_id_is_valid(w->id)) {
        return REFUSE(k, i, ENTITY_INVALID, TIDINGS_E_INVALID,
                      "an entity's id has 1 to %u letters, digits, '-', '_' and '.'",
                      ENTITY_ID_MAX);
    }
    if (w->has_parent && w->parent.len > 0 && !entity_id_is_valid(w->parent)) {
        return REFUSE(k, i, ENTITY_INVALID, TIDINGS_E_INVALID, "invalid parent id");
    }
    if (w->has_parent && str_eq(w->parent, w->id)) {
        return REFUSE(k, i, ENTITY_INVALID, TIDINGS_E_INVALID, "an entity is not its own parent");
    }
    for (size_t j = 0; j < i; j++) {
        if (str_eq(k->steps[j].w->id, w->id)) {
            return REFUSE(k, i, ENTITY_INVALID, TIDINGS_E_INVALID,
                          "'%.*s' occurs twice in one transaction", STR_ARG(w->id));
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

/* ---- access ---------------------------------------------------------------------------------- */

static bool check_may(const struct write_context *k, enum entity_right right,
                      const struct entity_type_row *type, struct tidings_str id)
{
    return !k->t->may || k->t->may(k->t->may_user, right, type, id);
}

/* Returns true if the caller may do that with a stored version. */
static bool entities_write_may_as_stored(const struct write_context *k, enum entity_right right,
                                         const struct entity_version *v)
{
    return check_may(k, right,
                     &(struct entity_type_row){.name = v->type, .version = v->type_version}, v->id);
}

/* The newest version of the type that the caller may write the entity as. NULL: none. */
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

/* Checks that the type equals the stored one. Upserts may also name the newest version. */
static int entities_write_check_type(struct write_context *k, size_t i)
{
    struct step *s = &k->steps[i];
    const struct entity_write *w = s->w;
    bool upsert = w->op == ENTITY_UPSERT;
    bool is_short = w->type.len == 0; /* any type; access to named types was checked before */
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
    int rc = k->e->store->ops->find(k->e->store, w->id, w->baseline, &base, k->err);
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

/* Checks the request itself; then, with `now` of the step set, the caller's access and the stored
 * version. */
static int entities_write_check_now(struct write_context *k, size_t i)
{
    int rc = entities_write_check_type(k, i);
    rc = rc == 0 ? check_existence(k, i) : rc;
    return rc == 0 ? check_baseline(k, i) : rc;
}
