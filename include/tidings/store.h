/* SPDX-License-Identifier: MIT
 *
 * Copy, check, back up and compact the store of a server (`tidings serve --store`). A store is the
 * path of a SQLite file, or the URL (`postgres://…`) of a PostgreSQL database. Only files can be
 * checked, backed up and compacted.
 *
 * Since 0.1.
 */
#ifndef TIDINGS_STORE_H
#define TIDINGS_STORE_H

#include <tidings/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The contents of a store, or the progress of a copy. */
struct tidings_store_figures {
    uint64_t types;     /* of entities */
    uint64_t versions;  /* entity versions: their whole history */
    uint64_t published; /* published resources, including removed ones */
    uint64_t position;  /* of the newest change; set at the end */
    bool was_resumed;   /* an interrupted copy was resumed */
    uint64_t tasks;     /* stored tool calls, running or ended */
    void *reserved[3];
};

/* Receives the progress of a copy from time to time. Returns false to stop; the same call resumes
 * the copy later. */
typedef bool (*tidings_store_progress_fn)(void *user, const struct tidings_store_figures *done);

struct tidings_store_copying {
    const char *from, *to;              /* the stores; both are required */
    const char *cluster;                /* cluster name in a database; NULL: "tidings" */
    tidings_store_progress_fn progress; /* or NULL */
    void *user;                         /* for `progress` */
    void *reserved[4];
};

/* Copy the store of a server into a new one. The function copies entities with their history,
 * types, published resources, tasks, and the positions of all changes, so that clients' cursors
 * stay valid. It marks running tasks as failed. It leaves out the state of watched files and
 * idempotency keys. At the end it reads both stores again and compares them. No program may use
 * either store during the copy.
 *
 * To resume an interrupted copy, call the function again with the same names. No server starts on
 * the new store before the copy is complete. `ret` (may be NULL) receives the figures. The function
 * blocks. Thread-safe.
 *
 * TIDINGS_E_EXISTS: the new store is not empty. TIDINGS_E_BUSY: a program uses one of the stores,
 * or the database is unreachable. TIDINGS_E_CANCELLED: `progress` returned false.
 * TIDINGS_E_CONFLICT: the stores differ at the end, which should not happen. TIDINGS_E_INVALID,
 * TIDINGS_E_IO and others: `err` explains the cause. */
TIDINGS_API int tidings_store_copy(const struct tidings_store_copying *copy,
                                   struct tidings_store_figures *ret, struct tidings_error *err);

/* Check the store of a server, a file, and report damage. SQLite verifies every page and index. The
 * function compares the tables with each other, and every version and published content with its
 * checksum. No server may use the file. The function upgrades a file of an older tidings. `ret`
 * (may be NULL) receives the figures. The function blocks. Thread-safe.
 *
 * TIDINGS_E_NOTFOUND: the file does not exist. TIDINGS_E_BUSY: a program uses it.
 * TIDINGS_E_INVALID: another program created the database, or its tables were changed.
 * TIDINGS_E_IO, TIDINGS_E_INTERNAL: it is damaged or has lost acknowledged data; `err` says where.
 * TIDINGS_E_UNSUPPORTED: a newer tidings created it, or it is the URL of a database. */
TIDINGS_API int tidings_store_check(const char *store, struct tidings_store_figures *ret,
                                    struct tidings_error *err);

/* Make a backup of the store of a server, a file, even while a server in another process writes it.
 * The backup is a new file. It contains everything that was acknowledged before the call, and no
 * partial writes. The server continues to work, and its write-ahead log grows during the backup.
 * The function verifies the backup, which gets its name only when it is complete. `ret_bytes` (may
 * be NULL) receives its size. The function blocks. Thread-safe.
 *
 * TIDINGS_E_EXISTS: `to` exists, or another backup to it is under way. TIDINGS_E_NOTFOUND: the
 * store does not exist. TIDINGS_E_BUSY: this process, or a program other than a server, uses it.
 * TIDINGS_E_INVALID: another program created the database. TIDINGS_E_IO and others: `err` explains
 * the cause. */
TIDINGS_API int tidings_store_backup(const char *store, const char *to, uint64_t *ret_bytes,
                                     struct tidings_error *err);

/* Compact the store of a server, a file, to the space of its current content. The function rewrites
 * the file, and needs space for a second copy. If it is interrupted, the file is unchanged. No
 * server may use the file. `ret_before` and `ret_after` (may be NULL) receive the sizes in bytes.
 * The function blocks. Thread-safe.
 *
 * TIDINGS_E_NOTFOUND, TIDINGS_E_BUSY, TIDINGS_E_INVALID, TIDINGS_E_UNSUPPORTED: as for
 * tidings_store_check. TIDINGS_E_FULL: there is not enough space. */
TIDINGS_API int tidings_store_compact(const char *store, uint64_t *ret_before, uint64_t *ret_after,
                                      struct tidings_error *err);

#ifdef __cplusplus
}
#endif

#endif
