/* SPDX-License-Identifier: MIT
 *
 * Copying a store into another, row by row with its positions: entities with their whole history,
 * types, published resources, the runs whose cursors stay good, and tasks: of one that ran the copy
 * says so, and whoever serves from it tells it as failed, as after any restart. What is known of
 * watched files is not copied, since they belong to a machine; nor are idempotency keys, which are
 * forgotten after a day.
 *
 * The rows of a store come in one order: by kind, and within it by number. So a copy that was
 * interrupted goes on behind the last row that was committed, and two stores with the same rows
 * have the same digest.
 */
#ifndef STORE_COPY_H
#define STORE_COPY_H

#include "store/store.h"

enum transfer_kind {
    TRANSFER_TYPE,
    TRANSFER_VERSION,
    TRANSFER_MOVED,     /* an entity that left the URI it had with its type's version before */
    TRANSFER_PUBLISHED, /* removed ones too */
    TRANSFER_RUN,       /* an epoch of the change log */
    TRANSFER_TASK,
    TRANSFER_KINDS,
};

/* One row. `number` is its position; runs are counted, in the order in which they began, and tasks
 * by their ids: of these a copy that goes on begins with the first again. Types that are older than
 * positions have numbers below 0. */
struct transfer_row {
    enum transfer_kind kind;
    int64_t number;
    int64_t at_ms;                  /* when it was written; 0: not known */
    struct entity_type_row type;    /* TRANSFER_TYPE */
    struct entity_version version;  /* TRANSFER_VERSION; TRANSFER_MOVED: id, type, type_version,
                                     * from, and `old_type_version` */
    struct published_row published; /* TRANSFER_PUBLISHED */
    bool removed;                   /* … it says that it is gone */
    uint64_t epoch;                 /* TRANSFER_RUN: … */
    int64_t first, last;            /* … positions that it began and ended with; last below 0: it
                                     * was not ended in order, and came as far as the store */
    struct kept_task task;          /* TRANSFER_TASK: without questions and answers */
};
/* A negative code ends the reading and is what that returns. */
typedef int (*transfer_row_fn)(void *user, const struct transfer_row *row,
                               struct tidings_error *err);

/* Where a copy stands: behind this row. */
struct transfer_mark {
    enum transfer_kind kind;
    int64_t number; /* INT64_MIN: before all of its kind */
};
#define TRANSFER_BEGINNING ((struct transfer_mark){TRANSFER_TYPE, INT64_MIN})

struct transfer_state {
    uint64_t position, floor; /* of the newest change; up to which changes are forgotten */
};

/* What a store does for it: `transfer` of struct store_ops (store/store.h). Outside of batches, but
 * for `put`.
 */
struct transfer_ops {
    /* Every row behind `after`, in order. */
    int (*each)(struct store *rows, struct transfer_mark after, transfer_row_fn fn, void *user,
                struct tidings_error *err);
    int (*state)(struct store *rows, struct transfer_state *ret, struct tidings_error *err);
    /* Be the target of a copy from `source` (a text that names it): 0 when the store is empty, 1
     * when such a copy was begun before (*ret: how far it came). TIDINGS_E_EXISTS: there is
     * something else in it. Until `end` nobody can open the store but to go on with the copy. */
    int (*begin)(struct store *rows, struct tidings_str source, struct transfer_mark *ret,
                 struct tidings_error *err);
    /* Inside a batch: add the row as it is. The commit remembers how far the copy has come. */
    int (*put)(struct store *rows, const struct transfer_row *row, struct tidings_error *err);
    /* Everything is there: the store is one like others. */
    int (*end)(struct store *rows, const struct transfer_state *state, struct tidings_error *err);
};

struct transfer_figures {
    uint64_t rows[TRANSFER_KINDS];
    uint64_t position;
    bool was_resumed;
    unsigned char digest[32];
};

/* Called after each batch; return false to stop (TIDINGS_E_CANCELLED): the copy can go on later. */
typedef bool (*transfer_progress_fn)(void *user, const struct transfer_figures *done);

/* Write all rows of `from` into `to`. `source` names `from`. */
int transfer_copy(struct store *from, struct store *to, struct tidings_str source,
                  transfer_progress_fn progress, void *user, struct tidings_error *err);
/* Count and digest the rows of a store: two that hold the same have the same digest. */
int transfer_count(struct store *store, struct transfer_figures *ret, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * Copying a store of SQLite: operations of store/copy.h.
 */

extern const struct transfer_ops sqlite_transfer;

struct sqlite_store;
/* Was a copy into this file begun and not ended? *ret: 1. */
int sqlite_transfer_is_copying(struct sqlite_store *s, int64_t *ret, struct tidings_error *err);

#endif
