/* SPDX-License-Identifier: MIT
 *
 * The store of a server (`tidings serve --store`): copying it, and checking, backing up and
 * compacting one that is a file. A store is the path of a SQLite file, or a URL (`postgres://…`) of
 * a PostgreSQL database.
 *
 * Since 0.1.
 */
#ifndef TIDINGS_STORE_H
#define TIDINGS_STORE_H

#include <tidings/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What was copied, so far or in all; what there is. */
struct tidings_store_figures {
    uint64_t types;     /* of entities */
    uint64_t versions;  /* of entities: their whole history */
    uint64_t published; /* resources, those that were removed too */
    uint64_t position;  /* of the newest change; known at the end */
    bool was_resumed;   /* a copy that was interrupted went on */
    uint64_t tasks;     /* calls of tools that are kept, running or ended */
    void *reserved[3];
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
 * good, and tasks; of those that ran is told that they failed. At the end both are read again and
 * compared. Nobody may use either meanwhile. What is known of watched files, and idempotency keys,
 * stay behind.
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

/* Read the whole store of a server, a file, and report what is damaged. SQLite looks at every page
 * and index, the tables are compared with each other, and every version and published content is
 * compared with the sum that was written with it. No server may use it. A file of an older tidings
 * is brought up to date. `ret` (may be NULL) gets what there is. Blocks; any thread.
 *
 * TIDINGS_E_NOTFOUND: there is no such file. TIDINGS_E_BUSY: a program uses it. TIDINGS_E_INVALID:
 * it is a database of another program, or its tables were changed. TIDINGS_E_IO,
 * TIDINGS_E_INTERNAL: it is damaged or has lost what was acknowledged, and the sentence says where.
 * TIDINGS_E_UNSUPPORTED: a newer tidings made it, or it is the URL of a database. */
TIDINGS_API int tidings_store_check(const char *store, struct tidings_store_figures *ret,
                                    struct tidings_error *err);

/* Make a backup of the store of a server, a file, also while it is written to. The server is
 * another process. The copy, a new file, has everything that was acknowledged before the call, and
 * nothing by halves. While its files are read the server goes on; its log of writes grows
 * meanwhile. The copy is checked, and has its name only once it is whole. `ret_bytes` (may be NULL)
 * gets its size. Blocks; any thread.
 *
 * TIDINGS_E_EXISTS: there is a file `to`, or one that is being made. TIDINGS_E_NOTFOUND: there is
 * no such store. TIDINGS_E_BUSY: a program that is no server uses it, or this very process does.
 * TIDINGS_E_INVALID: it is a database of another program. TIDINGS_E_IO and others: the sentence
 * says why. */
TIDINGS_API int tidings_store_backup(const char *store, const char *to, uint64_t *ret_bytes,
                                     struct tidings_error *err);

/* Make the store of a server, a file, smaller. It is written anew, without the room that removed
 * content left in it; no server may use it. Needs room for a second copy meanwhile; when it is
 * interrupted the file is as it was. The sizes in bytes, before and after, are for those who ask
 * (NULL: not asked). Blocks; any thread.
 *
 * TIDINGS_E_NOTFOUND, TIDINGS_E_BUSY, TIDINGS_E_INVALID, TIDINGS_E_UNSUPPORTED as for
 * tidings_store_check. TIDINGS_E_FULL: there is not enough room. */
TIDINGS_API int tidings_store_compact(const char *store, uint64_t *ret_before, uint64_t *ret_after,
                                      struct tidings_error *err);

#ifdef __cplusplus
}
#endif

#endif
