/* SPDX-License-Identifier: MIT
 *
 * Where versions of entities are kept: the interface between what writing an entity means
 * (store/entities.h) and a medium (memory, SQLite, PostgreSQL). It knows no rules but this one: the
 * versions of an entity rise, and are only ever added at the end.
 *
 * One owner, one thread. Changes are made between `begin` and `commit` and are seen by reads at
 * once; they are kept for good when commit has returned 0, all of them, and are gone after
 * rollback, or when the program ends before the commit. Slices that a read hands out live until the
 * next call.
 */
#ifndef STORE_ENTITY_ROWS_H
#define STORE_ENTITY_ROWS_H

#include "store/timeline.h"

/* One version of one entity. */
struct entity_version {
    struct tidings_str id;
    struct tidings_str type, type_version;
    struct tidings_str parent;     /* an entity's id, or empty */
    struct tidings_str value;      /* JSON text */
    struct tidings_str changed_by; /* JSON text: who the writer says it was */
    struct tidings_str principal;  /* JSON text: who the writer was proved to be; or empty */
    struct tidings_str
        previous;     /* merge patch back to the version before; empty: none can say it */
    int64_t from, to; /* [from, to); the current one: TIMELINE_FOREVER */
    int64_t since;    /* when the first began of those whose place it took; none: `from` */
    bool deleted;
    bool created; /* the first version, or the first after a deletion */
    /* To `put` alone: the version of the type before this one, when that was another. */
    struct tidings_str old_type_version;
};

struct entity_type_row {
    struct tidings_str name, version;
    struct tidings_str schema;      /* JSON text */
    struct tidings_str description; /* or empty */
    struct tidings_str options;     /* JSON text, or empty */
};

/* What was done under a key, so that it is not done twice. */
struct entity_key {
    struct tidings_str owner;  /* who used it: keys of different owners are different */
    struct tidings_str key;    /* not empty */
    struct tidings_str digest; /* of what was asked */
    struct tidings_str text;   /* what came of it */
    int64_t at;                /* when, Unix time in milliseconds */
};

/* Which current versions are wanted; empty slices do not matter. Deleted entities are left out
 * unless asked for. */
struct entity_scope {
    struct tidings_str type, type_version, parent;
    bool by_parent; /* `parent` matters, also when empty */
    bool deleted;   /* the deleted too */
};

/* Return false to stop. */
typedef bool (*entity_version_fn)(void *user, const struct entity_version *version);
typedef bool (*entity_type_fn)(void *user, const struct entity_type_row *row);

struct entity_rows;

struct entity_rows_ops {
    const char *name;
    void (*destroy)(struct entity_rows *rows); /* what was not committed is gone */

    int (*begin)(struct entity_rows *rows, struct tidings_error *err);
    /* After a failure everything since `begin` is gone, as after rollback. TIDINGS_E_UNKNOWN: for
     * now; it may be there when the program is started again. */
    int (*commit)(struct entity_rows *rows, struct tidings_error *err);
    void (*rollback)(struct entity_rows *rows);
    /* Of the newest change (put, put_type): each has a higher one than all before, also after the
     * program was started again. 0: nothing outlives the program. */
    uint64_t (*position)(struct entity_rows *rows);

    /* Add a version later than all of its entity (`to` is ignored). `replaces_current`: it takes
     * the place of the current one, which is forgotten. After a failure only rollback is possible.
     */
    int (*put)(struct entity_rows *rows, const struct entity_version *version,
               bool replaces_current, struct tidings_error *err);
    /* Forget the versions of `id` that ended at or before `end`. */
    int (*forget)(struct entity_rows *rows, struct tidings_str id, int64_t end,
                  struct tidings_error *err);

    /* The version valid at `at` (TIMELINE_FOREVER: the current one). 1, or 0 when there is none.
     * TIDINGS_E_INTERNAL (history too): it is not what was written; `ret` is filled as it is. */
    int (*find)(struct entity_rows *rows, struct tidings_str id, int64_t at,
                struct entity_version *ret, struct tidings_error *err);
    /* When the `n`th newest version of `id` began (1: the current one). 1, or 0 when it has fewer.
     */
    int (*nth)(struct entity_rows *rows, struct tidings_str id, int64_t n, int64_t *ret_from,
               struct tidings_error *err);
    /* The versions of `id` with from >= `first`, oldest first. */
    int (*history)(struct entity_rows *rows, struct tidings_str id, int64_t first,
                   entity_version_fn fn, void *user, struct tidings_error *err);
    /* Current versions with an id greater than `after`, by id (bytes). */
    int (*list)(struct entity_rows *rows, const struct entity_scope *scope,
                struct tidings_str after, entity_version_fn fn, void *user,
                struct tidings_error *err);

    /* TIDINGS_E_EXISTS. */
    int (*put_type)(struct entity_rows *rows, const struct entity_type_row *row,
                    struct tidings_error *err);
    /* By name, then in the order they were added. */
    int (*types)(struct entity_rows *rows, entity_type_fn fn, void *user,
                 struct tidings_error *err);

    /* One of that owner and key goes, for good: it is too old. Others may go then, at once or with
     * the commit, and are gone after it: of this owner's the oldest beyond ENTITY_KEYS_OF_ONE, and
     * those that are older than ENTITY_KEY_AGE_MS (some may stay for a while); while there are more
     * than ENTITY_KEYS, the oldest of whoever has most, so that nobody who has fewer loses any to
     * others. */
    int (*put_key)(struct entity_rows *rows, const struct entity_key *key,
                   struct tidings_error *err);
    /* 1, or 0 when it is not known. */
    int (*find_key)(struct entity_rows *rows, struct tidings_str owner, struct tidings_str key,
                    struct entity_key *ret, struct tidings_error *err);

    /* Outside begin … commit, when nothing else is to be done: work that was put off. 1: there is
     * more of it. A failure costs speed and nothing else. */
    int (*idle)(struct entity_rows *rows, struct tidings_error *err);
};

#define ENTITY_KEYS 10000u
#define ENTITY_KEYS_OF_ONE 1000u
#define ENTITY_KEY_AGE_MS (24 * 60 * 60 * INT64_C(1000))
/* When there are too many: of the largest owner, which has so many, so many go at once. */
#define ENTITY_KEYS_DROPPED(count) ((count) / 8 > 0 ? (count) / 8 : 1)

struct kept_ops;   /* store/kept.h */
struct shared_ops; /* store/shared.h */
struct entity_rows {
    const struct entity_rows_ops *ops;
    const struct kept_ops *kept;     /* NULL: nothing outlives the program */
    const struct shared_ops *shared; /* NULL: nobody else writes here */
};

struct entity_rows *entity_memory_create(struct tidings_error *err);

#endif
