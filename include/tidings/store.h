/* SPDX-License-Identifier: MIT
 *
 * Copying the store of a server (`tidings serve --store`) that does not run. A store is the path of
 * a SQLite file, or a URL (`postgres://…`) of a PostgreSQL database.
 *
 * Since 0.1.
 */
#ifndef TIDINGS_STORE_H
#define TIDINGS_STORE_H

#include <tidings/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What was copied, so far or in all. */
struct tidings_store_figures {
    uint64_t types;     /* of entities */
    uint64_t versions;  /* of entities: their whole history */
    uint64_t published; /* resources, those that were removed too */
    uint64_t position;  /* of the newest change; known at the end */
    bool was_resumed;   /* a copy that was interrupted went on */
    void *reserved[4];
};

/* A function that is told how far a copy has come, now and then. Return false to stop: the same
 * call goes on from there later. */
typedef bool (*tidings_store_progress_fn)(void *user, const struct tidings_store_figures *done);

struct tidings_store_copying {
    const char *from, *to;              /* the stores; both must be said */
    const char *cluster;                /* name of the cluster in a database; NULL: "tidings" */
    tidings_store_progress_fn progress; /* or NULL */
    void *user;                         /* for `progress` */
    void *reserved[4];
};

/* Copy the store of a server into a new one. Entities with their history, types, published
 * resources and the positions of all changes are copied, so that cursors which clients hold stay
 * good. At the end both are read again and compared. Nobody may use either meanwhile. What is known
 * of watched files, and idempotency keys, stay behind.
 *
 * A copy that was interrupted goes on when it is called again with the same names; until it has
 * ended no server starts on the new store. `ret` (may be NULL) gets the figures. Blocks; any
 * thread.
 *
 * TIDINGS_E_EXISTS: the new store is not empty. TIDINGS_E_BUSY: a program uses one of them, or the
 * database cannot be reached. TIDINGS_E_CANCELLED: `progress` said so. TIDINGS_E_CONFLICT: the two
 * differ at the end, which should not happen. TIDINGS_E_INVALID, TIDINGS_E_IO and others: the
 * sentence says why. */
TIDINGS_API int tidings_store_copy(const struct tidings_store_copying *copy,
                                   struct tidings_store_figures *ret, struct tidings_error *err);

#ifdef __cplusplus
}
#endif

#endif
