/* SPDX-License-Identifier: MIT
 *
 * Copies a store into another one, row by row with its positions: entities with their history,
 * types, published resources, the runs whose cursors stay valid, and tasks. A task that was running
 * is reported as failed by the next server on the copy, as after a restart. The state of watched
 * files belongs to a machine, and idempotency keys expire after a day; neither is copied.
 *
 * Rows have one order: by kind, then by number. An interrupted copy therefore resumes after the
 * last committed row, and two stores with the same rows have the same digest. Tasks have no
 * positions, so they are read and written through struct store_ops; the rest needs struct
 * transfer_ops.
 */
#ifndef STORE_COPY_H
#define STORE_COPY_H

#include "store/store.h"

enum transfer_kind {
    TRANSFER_TYPE,
    TRANSFER_VERSION,
    TRANSFER_MOVED,     /* an entity that left the URI with the earlier version of its type */
    TRANSFER_PUBLISHED, /* including removed resources */
    TRANSFER_RUN,       /* an epoch of the change log */
    TRANSFER_TASK,
    TRANSFER_KINDS,
};

/* One row. `number` is its position. Runs are counted in the order in which they began, tasks by
 * their ids; a resumed copy starts with the first run again. */
struct transfer_row {
    enum transfer_kind kind;
    int64_t number;
    int64_t at_ms;                  /* Unix time of the write; 0: unknown */
    struct entity_type_row type;    /* TRANSFER_TYPE */
    struct entity_version version;  /* TRANSFER_VERSION; TRANSFER_MOVED: id, type, type_version,
                                     * from, and `old_type_version` */
    struct published_row published; /* TRANSFER_PUBLISHED */
    bool removed;                   /* TRANSFER_PUBLISHED: the resource was removed */
    uint64_t epoch;                 /* TRANSFER_RUN */
    int64_t first, last;            /* TRANSFER_RUN: its first and last position; last below 0: it
                                     * did not end cleanly, and reached the end of the store */
    struct stored_task task;        /* TRANSFER_TASK: without questions and answers */
};
/* A negative code stops the reading, which returns it. */
typedef int (*transfer_row_fn)(void *user, const struct transfer_row *row,
                               struct tidings_error *err);

/* The last row that was copied. */
struct transfer_mark {
    enum transfer_kind kind;
    int64_t number; /* INT64_MIN: none of its kind */
};
#define TRANSFER_BEGINNING ((struct transfer_mark){TRANSFER_TYPE, INT64_MIN})

struct transfer_state {
    uint64_t position, floor; /* the newest change; changes up to `floor` are forgotten */
};

/* What a medium does for a copy (`transfer` in struct store_ops), except for tasks. Outside of
 * batches, unless it says otherwise. */
struct transfer_ops {
    /* Read every row after `after`, in order. */
    int (*each)(struct store *store, struct transfer_mark after, transfer_row_fn fn, void *user,
                struct tidings_error *err);
    int (*state)(struct store *store, struct transfer_state *ret, struct tidings_error *err);
    /* Become the target of a copy from `source` (a name of that store). Returns 0 if the store is
     * empty, 1 if it contains an interrupted copy from `source`, up to *ret. TIDINGS_E_EXISTS: it
     * contains something else. Until `end`, the store can be opened only to resume the copy. */
    int (*begin)(struct store *store, struct tidings_str source, struct transfer_mark *ret,
                 struct tidings_error *err);
    /* Inside a batch: add the row with its position and time. The commit also stores the mark. */
    int (*put)(struct store *store, const struct transfer_row *row, struct tidings_error *err);
    /* The copy is complete: the store can be opened normally. */
    int (*end)(struct store *store, const struct transfer_state *state, struct tidings_error *err);
};

struct transfer_stats {
    uint64_t rows[TRANSFER_KINDS];
    uint64_t position;
    bool was_resumed;
    unsigned char digest[32];
};

/* Called after each batch. Return false to stop (TIDINGS_E_CANCELLED); the copy can resume later.
 */
typedef bool (*transfer_progress_fn)(void *user, const struct transfer_stats *done);

/* Write all rows of `from` into `to`. `source` names `from`. */
int transfer_copy(struct store *from, struct store *to, struct tidings_str source,
                  transfer_progress_fn progress, void *user, struct tidings_error *err);
/* Count the rows of a store and compute their digest. */
int transfer_count(struct store *store, struct transfer_stats *ret, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * The operations of SQLite.
 */

extern const struct transfer_ops sqlite_transfer;

struct sqlite_store;
/* *ret: 1 if the file contains an interrupted copy, else 0. */
int sqlite_transfer_is_copying(struct sqlite_store *s, int64_t *ret, struct tidings_error *err);

#endif
