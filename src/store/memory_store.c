/* SPDX-License-Identifier: MIT
 *
 * The store in memory: for tests, and for servers without persistent data.
 *
 * Invariant: `sorted` holds the entities by id, each with at least one version outside a batch;
 * `undo` holds the operations since `begin`, newest last, and owns the data they removed.
 */
#include "store/memory_store.h"

#include <assert.h>
#include <string.h>

#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/store.h"

/* -------------------------------------------------------------------------------------------------
 * Idempotency keys in memory (see store/store.h). A put can be undone (key_table_remove); keys
 * beyond the limits are removed only by key_table_trim.
 */

struct key_row;

struct key_table {
    struct map by_owner;  /* struct key_owner */
    struct list enlarged; /* owners with new keys since the last trim */
    struct list all;      /* of rows, oldest first */
    size_t count;         /* number of rows */
};

/* -------------------------------------------------------------------------------------------------
 * Idempotency keys in memory, by the principal that owns them. Invariant: an owner is in the table
 * exactly while it has keys.
 */

struct key_owner {
    struct list enlarged; /* in table->enlarged, or unlinked */
    struct list rows;     /* oldest first */
    struct map by_key;
    struct tidings_str name;
    char text[];
};

struct key_row {
    struct list link; /* in owner->rows */
    struct list aged; /* in table->all */
    struct key_owner *owner;
    struct entity_key key;
    char text[];
};

static void key_table_init(struct key_table *t)
{
    map_init(&t->by_owner);
    list_init(&t->enlarged);
    list_init(&t->all);
    t->count = 0;
}

static void key_table_remove(struct key_table *t, struct key_row *row);

static void key_table_deinit(struct key_table *t)
{
    while (!list_empty(&t->all)) {
        key_table_remove(t, list_entry(t->all.next, struct key_row, aged));
    }
    map_deinit(&t->by_owner);
}

/* The existing owner, or a new one without keys. */
static struct key_owner *find_owner(struct key_table *t, struct tidings_str name)
{
    struct key_owner *o = map_find(&t->by_owner, name);
    if (o) {
        return o;
    }
    o = mem_zalloc(sizeof(*o) + name.len);
    if (!o) {
        return NULL;
    }
    char *at = o->text;
    o->name = str_pack(&at, name);
    if (map_put(&t->by_owner, o->name, o, NULL) < 0) {
        mem_free(o);
        return NULL;
    }
    map_init(&o->by_key);
    list_init(&o->rows);
    list_init(&o->enlarged);
    return o;
}

static void key_table_drop_if_empty(struct key_table *t, struct key_owner *o)
{
    if (o && o->by_key.count == 0) {
        map_remove(&t->by_owner, o->name);
        list_remove(&o->enlarged);
        map_deinit(&o->by_key);
        mem_free(o);
    }
}

static struct key_row *find_row(const struct key_table *t, struct tidings_str owner,
                                struct tidings_str key)
{
    const struct key_owner *o = map_find(&t->by_owner, owner);
    return o ? map_find(&o->by_key, key) : NULL;
}

static struct key_row *key_table_put(struct key_table *t, const struct entity_key *key)
{
    struct key_row *old = find_row(t, key->owner, key->key);
    if (old) {
        key_table_remove(t, old);
    }
    struct key_row *row = mem_zalloc(sizeof(*row) + key->key.len + key->digest.len + key->text.len);
    struct key_owner *owner = row ? find_owner(t, key->owner) : NULL;
    if (row) {
        char *at = row->text;
        row->key.key = str_pack(&at, key->key);
        row->key.digest = str_pack(&at, key->digest);
        row->key.text = str_pack(&at, key->text);
        row->key.at = key->at;
    }
    if (!owner || map_put(&owner->by_key, row->key.key, row, NULL) < 0) {
        key_table_drop_if_empty(t, owner);
        mem_free(row);
        return NULL;
    }
    row->owner = owner;
    row->key.owner = owner->name;
    t->count++;
    list_append(&owner->rows, &row->link);
    list_append(&t->all, &row->aged);
    list_remove(&owner->enlarged);
    list_append(&t->enlarged, &owner->enlarged);
    return row;
}

static void key_table_remove(struct key_table *t, struct key_row *row)
{
    struct key_owner *owner = row->owner;
    map_remove(&owner->by_key, row->key.key);
    list_remove(&row->link);
    list_remove(&row->aged);
    t->count--;
    mem_free(row);
    key_table_drop_if_empty(t, owner);
}

/* Or NULL. */
static const struct entity_key *key_table_find(const struct key_table *t, struct tidings_str owner,
                                               struct tidings_str key)
{
    const struct key_row *row = find_row(t, owner, key);
    return row ? &row->key : NULL;
}

/* ---- trimming -------------------------------------------------------------------------------- */

static void drop_oldest(struct key_table *t, struct key_owner *o, size_t count)
{
    while (count-- > 0) {
        bool is_last = o->by_key.count == 1;
        key_table_remove(t, list_entry(o->rows.next, struct key_row, link));
        if (is_last) {
            return; /* and the owner with it */
        }
    }
}

/* Among owners with equally many keys: the one with the oldest key, which comes first. */
static struct key_owner *find_largest(const struct key_table *t)
{
    struct key_owner *largest = NULL;
    list_each (it, next, &t->all) {
        struct key_owner *o = list_entry(it, struct key_row, aged)->owner;
        largest = !largest || o->by_key.count > largest->by_key.count ? o : largest;
    }
    return largest;
}

/* Adds a key; replaces one of the same owner and name. NULL: out of memory. */
static void key_table_trim(struct key_table *t)
{
    struct key_owner *o;
    while (!list_empty(&t->enlarged)) {
        o = list_entry(t->enlarged.next, struct key_owner, enlarged);
        size_t has = o->by_key.count;
        list_remove(&o->enlarged);
        int64_t newest = list_entry(o->rows.prev, struct key_row, link)->key.at;
        drop_oldest(t, o, has > ENTITY_KEYS_OF_ONE ? has - ENTITY_KEYS_OF_ONE : 0);
        while (list_entry(t->all.next, struct key_row, aged)->key.at <=
               newest - ENTITY_KEY_AGE_MS) {
            key_table_remove(t, list_entry(t->all.next, struct key_row, aged));
        }
    }
    while (t->count > ENTITY_KEYS && (o = find_largest(t)) != NULL) {
        drop_oldest(t, o, ENTITY_KEYS_DROPPED(o->by_key.count));
    }
}

/* ---------------------------------------------------------------------------------------------- */

struct stored {
    struct entity_version v;
    char text[];
};

struct entity {
    struct stored **versions;
    size_t count, room;
    struct tidings_str id; /* in the string that follows */
    char text[];
};

struct type {
    struct list link;
    struct entity_type_row row;
    char text[];
};

enum undo_kind {
    UNDO_PUT,
    UNDO_FORGET,
    UNDO_TYPE,
    UNDO_KEY,
};

struct undo {
    struct list link;
    enum undo_kind kind;
    struct entity *entity;
    struct type *type;
    struct key_row *key;
    bool replaces_current;
    size_t count;           /* of removed versions */
    struct stored *taken[]; /* oldest first */
};

struct memory {
    struct store base;
    struct map by_id;
    struct key_table keys;
    struct entity **sorted;
    size_t count, room;
    struct list types, undo;
    bool in_batch;
};

static const struct store_ops memory_ops;

static struct memory *memory_store_of(struct store *store)
{
    assert(store->ops == &memory_ops);
    return (struct memory *)(void *)store;
}

static int memory_store_no_memory(struct tidings_error *err)
{
    return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

/* Makes room for one more pointer in an array that doubles. */
static bool make_room(void *array, size_t count, size_t *room)
{
    if (count < *room) {
        return true;
    }
    size_t wanted = *room ? 2 * *room : 4;
    void *old, *grown;
    memcpy(&old, array, sizeof old);
    grown = mem_realloc(old, wanted * sizeof(void *));
    if (!grown) {
        return false;
    }
    memcpy(array, &grown, sizeof grown);
    *room = wanted;
    return true;
}

/* ---- batches --------------------------------------------------------------------------------- */

static void drop_entity(struct entity *e)
{
    for (size_t i = 0; i < e->count; i++) {
        mem_free(e->versions[i]);
    }
    mem_free(e->versions);
    mem_free(e);
}

/* The first entity whose id is greater than `id`. */
static size_t index_after(const struct memory *m, struct tidings_str id)
{
    size_t low = 0, high = m->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (str_cmp(m->sorted[middle]->id, id) <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void remove_entity(struct memory *m, struct entity *e)
{
    size_t at = index_after(m, e->id) - 1;
    memmove(&m->sorted[at], &m->sorted[at + 1], (m->count - at - 1) * sizeof(*m->sorted));
    m->count--;
    map_remove(&m->by_id, e->id);
    drop_entity(e);
}

static void undo_one(struct memory *m, struct undo *u)
{
    struct entity *e = u->entity;
    switch (u->kind) {
    case UNDO_PUT:
        mem_free(e->versions[--e->count]);
        if (u->replaces_current) {
            e->versions[e->count++] = u->taken[0];
        } else if (e->count == 0) {
            remove_entity(m, e);
        }
        break;
    case UNDO_FORGET: /* there was room for them before */
        memmove(e->versions + u->count, e->versions, e->count * sizeof(*e->versions));
        memcpy(e->versions, u->taken, u->count * sizeof(*e->versions));
        e->count += u->count;
        break;
    case UNDO_TYPE:
        list_remove(&u->type->link);
        mem_free(u->type);
        break;
    case UNDO_KEY:
        key_table_remove(&m->keys, u->key);
        break;
    }
}

static int memory_begin(struct store *store, struct tidings_error *err)
{
    (void)err;
    struct memory *m = memory_store_of(store);
    assert(!m->in_batch);
    m->in_batch = true;
    return 0;
}

static int memory_commit(struct store *store, struct tidings_error *err)
{
    (void)err;
    struct memory *m = memory_store_of(store);
    assert(m->in_batch);
    list_each (it, next, &m->undo) {
        struct undo *u = list_entry(it, struct undo, link);
        for (size_t i = 0; i < u->count; i++) {
            mem_free(u->taken[i]);
        }
        list_remove(&u->link);
        mem_free(u);
    }
    key_table_trim(&m->keys);
    m->in_batch = false;
    return 0;
}

static void memory_rollback(struct store *store)
{
    struct memory *m = memory_store_of(store);
    while (!list_empty(&m->undo)) {
        struct undo *newest = list_entry(m->undo.prev, struct undo, link);
        list_remove(&newest->link);
        undo_one(m, newest);
        mem_free(newest);
    }
    m->in_batch = false;
}

static struct undo *undo_create(enum undo_kind kind, struct entity *e, size_t count)
{
    struct undo *u = mem_zalloc(sizeof(*u) + count * sizeof(*u->taken));
    if (u) {
        u->kind = kind;
        u->entity = e;
        u->count = count;
    }
    return u;
}

/* ---- versions -------------------------------------------------------------------------------- */

static struct stored *copy_version(const struct entity_version *v)
{
    size_t bytes = v->id.len + v->type.len + v->type_version.len + v->parent.len + v->value.len +
                   v->changed_by.len + v->principal.len + v->previous.len + v->old_parent.len;
    struct stored *s = mem_alloc(sizeof(*s) + bytes);
    if (s) {
        char *at = s->text;
        s->v = *v;
        s->v.old_type_version = STR_EMPTY;
        s->v.id = str_pack(&at, v->id);
        s->v.type = str_pack(&at, v->type);
        s->v.type_version = str_pack(&at, v->type_version);
        s->v.parent = str_pack(&at, v->parent);
        s->v.old_parent = str_pack(&at, v->old_parent);
        s->v.value = str_pack(&at, v->value);
        s->v.changed_by = str_pack(&at, v->changed_by);
        s->v.principal = str_pack(&at, v->principal);
        s->v.previous = str_pack(&at, v->previous);
    }
    return s;
}

static struct entity *memory_store_add_entity(struct memory *m, struct tidings_str id)
{
    struct entity *e = mem_zalloc(sizeof(*e) + id.len);
    if (!e || !make_room(&m->sorted, m->count, &m->room)) {
        mem_free(e);
        return NULL;
    }
    char *at = e->text;
    e->id = str_pack(&at, id);
    if (map_put(&m->by_id, e->id, e, NULL) < 0) {
        mem_free(e);
        return NULL;
    }
    size_t index = index_after(m, id);
    memmove(&m->sorted[index + 1], &m->sorted[index], (m->count - index) * sizeof(*m->sorted));
    m->sorted[index] = e;
    m->count++;
    return e;
}

static int memory_put(struct store *store, const struct entity_version *version,
                      bool replaces_current, struct tidings_error *err)
{
    struct memory *m = memory_store_of(store);
    assert(m->in_batch);
    struct entity *e = map_find(&m->by_id, version->id);
    replaces_current = replaces_current && e;
    bool is_new = !e;
    struct stored *s = copy_version(version);
    struct undo *u = undo_create(UNDO_PUT, NULL, replaces_current ? 1 : 0);
    e = e || !s || !u ? e : memory_store_add_entity(m, version->id);
    if (!s || !u || !e || !make_room(&e->versions, e->count, &e->room)) {
        mem_free(s);
        mem_free(u);
        if (is_new && e) {
            remove_entity(m, e);
        }
        return memory_store_no_memory(err);
    }
    if (replaces_current) {
        u->taken[0] = e->versions[--e->count];
    }
    assert(e->count == 0 || e->versions[e->count - 1]->v.from < version->from);
    u->entity = e;
    u->replaces_current = replaces_current;
    e->versions[e->count++] = s;
    list_append(&m->undo, &u->link);
    return 0;
}

static int memory_forget(struct store *store, struct tidings_str id, int64_t end,
                         struct tidings_error *err)
{
    struct memory *m = memory_store_of(store);
    struct entity *e = map_find(&m->by_id, id);
    size_t gone = 0;
    while (e && gone + 1 < e->count && e->versions[gone + 1]->v.from <= end) {
        gone++;
    }
    if (gone == 0) {
        return 0;
    }
    struct undo *u = undo_create(UNDO_FORGET, e, gone);
    if (!u) {
        return memory_store_no_memory(err);
    }
    memcpy(u->taken, e->versions, gone * sizeof(*e->versions));
    e->count -= gone;
    memmove(e->versions, e->versions + gone, e->count * sizeof(*e->versions));
    list_append(&m->undo, &u->link);
    return 0;
}

static struct entity_version version_at(const struct entity *e, size_t i)
{
    struct entity_version v = e->versions[i]->v;
    v.to = i + 1 < e->count ? e->versions[i + 1]->v.from : TIMELINE_FOREVER;
    return v;
}

static int memory_find(struct store *store, struct tidings_str id, int64_t at,
                       struct entity_version *ret, struct tidings_error *err)
{
    (void)err;
    struct entity *e = map_find(&memory_store_of(store)->by_id, id);
    size_t low = 0, high = e ? e->count : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (e->versions[middle]->v.from <= at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0) {
        return 0;
    }
    *ret = version_at(e, low - 1);
    return 1;
}

static int memory_nth(struct store *store, struct tidings_str id, int64_t n, int64_t *ret_from,
                      struct tidings_error *err)
{
    (void)err;
    const struct entity *e = map_find(&memory_store_of(store)->by_id, id);
    if (!e || n < 1 || (uint64_t)n > e->count) {
        return 0;
    }
    *ret_from = e->versions[e->count - (size_t)n]->v.from;
    return 1;
}

static int memory_history(struct store *store, struct tidings_str id, int64_t first,
                          entity_version_fn fn, void *user, struct tidings_error *err)
{
    (void)err;
    struct entity *e = map_find(&memory_store_of(store)->by_id, id);
    for (size_t i = 0; e && i < e->count; i++) {
        struct entity_version v = version_at(e, i);
        if (v.from >= first && !fn(user, &v)) {
            break;
        }
    }
    return 0;
}

static bool memory_store_is_wanted(const struct entity_version *v, const struct entity_scope *scope)
{
    return (scope->deleted || !v->deleted) &&
           (scope->type.len == 0 || str_eq(scope->type, v->type)) &&
           (scope->type_version.len == 0 || str_eq(scope->type_version, v->type_version)) &&
           (!scope->by_parent || str_eq(scope->parent, v->parent));
}

static int memory_list(struct store *store, const struct entity_scope *scope,
                       struct tidings_str after, entity_version_fn fn, void *user,
                       struct tidings_error *err)
{
    (void)err;
    struct memory *m = memory_store_of(store);
    for (size_t i = after.len > 0 ? index_after(m, after) : 0; i < m->count; i++) {
        struct entity_version v = version_at(m->sorted[i], m->sorted[i]->count - 1);
        if (memory_store_is_wanted(&v, scope) && !fn(user, &v)) {
            break;
        }
    }
    return 0;
}

/* ---- types and keys -------------------------------------------------------------------------- */

static int memory_put_type(struct store *store, const struct entity_type_row *row,
                           struct tidings_error *err)
{
    struct memory *m = memory_store_of(store);
    assert(m->in_batch);
    struct list *before = &m->types;
    list_each (it, next, &m->types) {
        const struct type *t = list_entry(it, struct type, link);
        int order = str_cmp(t->row.name, row->name);
        if (order == 0 && str_eq(t->row.version, row->version)) {
            return tidings_fail(err, TIDINGS_E_EXISTS, "entity type '%.*s@%.*s' already exists",
                                STR_ARG(row->name), STR_ARG(row->version));
        }
        before = order <= 0 ? it : before;
    }
    struct type *t = mem_alloc(sizeof(*t) + row->name.len + row->version.len + row->schema.len +
                               row->description.len + row->options.len);
    struct undo *u = undo_create(UNDO_TYPE, NULL, 0);
    if (!t || !u) {
        mem_free(t);
        mem_free(u);
        return memory_store_no_memory(err);
    }
    char *at = t->text;
    t->row.name = str_pack(&at, row->name);
    t->row.version = str_pack(&at, row->version);
    t->row.schema = str_pack(&at, row->schema);
    t->row.description = str_pack(&at, row->description);
    t->row.options = str_pack(&at, row->options);
    list_insert_between(&t->link, before, before->next);
    u->type = t;
    list_append(&m->undo, &u->link);
    return 0;
}

static int memory_types(struct store *store, entity_type_fn fn, void *user,
                        struct tidings_error *err)
{
    (void)err;
    list_each (it, next, &memory_store_of(store)->types) {
        if (!fn(user, &list_entry(it, struct type, link)->row)) {
            break;
        }
    }
    return 0;
}

static int memory_put_key(struct store *store, const struct entity_key *key,
                          struct tidings_error *err)
{
    struct memory *m = memory_store_of(store);
    assert(m->in_batch);
    struct undo *u = undo_create(UNDO_KEY, NULL, 0);
    struct key_row *row = u ? key_table_put(&m->keys, key) : NULL;
    if (!row) {
        mem_free(u);
        return memory_store_no_memory(err);
    }
    u->key = row;
    list_append(&m->undo, &u->link);
    return 0;
}

static int memory_find_key(struct store *store, struct tidings_str owner, struct tidings_str key,
                           struct entity_key *ret, struct tidings_error *err)
{
    (void)err;
    const struct entity_key *found = key_table_find(&memory_store_of(store)->keys, owner, key);
    if (found) {
        *ret = *found;
    }
    return found ? 1 : 0;
}

static int memory_idle(struct store *store, struct tidings_error *err)
{
    (void)store;
    (void)err;
    return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void memory_store_destroy(struct store *store)
{
    if (!store) {
        return;
    }
    struct memory *m = memory_store_of(store);
    memory_rollback(store);
    for (size_t i = 0; i < m->count; i++) {
        drop_entity(m->sorted[i]);
    }
    mem_free(m->sorted);
    list_each (it, next, &m->types) {
        mem_free(list_entry(it, struct type, link));
    }
    key_table_deinit(&m->keys);
    map_deinit(&m->by_id);
    mem_free(m);
}

struct store *memory_store_create(struct tidings_error *err)
{
    struct memory *m = mem_zalloc(sizeof(*m));
    if (!m) {
        memory_store_no_memory(err);
        return NULL;
    }
    m->base.ops = &memory_ops;
    map_init(&m->by_id);
    key_table_init(&m->keys);
    list_init(&m->types);
    list_init(&m->undo);
    return &m->base;
}

static uint64_t memory_position(struct store *store)
{
    (void)store;
    return 0;
}

static const struct store_ops memory_ops = {
    .name = "memory",
    .destroy = memory_store_destroy,
    .begin = memory_begin,
    .commit = memory_commit,
    .rollback = memory_rollback,
    .position = memory_position,
    .put = memory_put,
    .forget = memory_forget,
    .find = memory_find,
    .nth = memory_nth,
    .history = memory_history,
    .list = memory_list,
    .put_type = memory_put_type,
    .types = memory_types,
    .put_key = memory_put_key,
    .find_key = memory_find_key,
    .idle = memory_idle,
};
