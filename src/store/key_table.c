/* SPDX-License-Identifier: MIT
 *
 * Idempotency keys in memory, by the principal that owns them. Invariant: an owner is in the table
 * exactly while it has keys.
 */
#include "store/key_table.h"

#include "base/mem.h"
#include "base/str.h"

struct key_owner {
    struct list enlarged; /* in table->enlarged, or by itself */
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

void key_table_init(struct key_table *t)
{
    map_init(&t->by_owner);
    list_init(&t->enlarged);
    list_init(&t->all);
    t->count = 0;
}

void key_table_deinit(struct key_table *t)
{
    while (!list_empty(&t->all)) {
        key_table_remove(t, list_entry(t->all.next, struct key_row, aged));
    }
    map_deinit(&t->by_owner);
}

/* The one that is there, or a new one without keys. */
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

struct key_row *key_table_put(struct key_table *t, const struct entity_key *key)
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

void key_table_remove(struct key_table *t, struct key_row *row)
{
    struct key_owner *owner = row->owner;
    map_remove(&owner->by_key, row->key.key);
    list_remove(&row->link);
    list_remove(&row->aged);
    t->count--;
    mem_free(row);
    key_table_drop_if_empty(t, owner);
}

const struct entity_key *key_table_find(const struct key_table *t, struct tidings_str owner,
                                        struct tidings_str key)
{
    const struct key_row *row = find_row(t, owner, key);
    return row ? &row->key : NULL;
}

/* ---- what is too much ------------------------------------------------------------------------ */

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

/* Of those who have equally many: whose oldest key is the oldest, and thus comes first. */
static struct key_owner *find_largest(const struct key_table *t)
{
    struct key_owner *largest = NULL;
    list_each (it, next, &t->all) {
        struct key_owner *o = list_entry(it, struct key_row, aged)->owner;
        largest = !largest || o->by_key.count > largest->by_key.count ? o : largest;
    }
    return largest;
}

void key_table_trim(struct key_table *t)
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
