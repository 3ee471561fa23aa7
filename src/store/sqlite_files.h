/* SPDX-License-Identifier: MIT
 *
 * File mount state, in the same file as the entities and written in the same batches: the directory
 * trees; the known subtrees, with times; and the announced changes of files, for
 * resuming clients.
 *
 * `rows` are those of sqlite_store_open. Announcing a change of a file does not wait for the store:
 * changes get their positions when they are written, in the order of their numbers.
 */
#ifndef STORE_SQLITE_FILES_H
#define STORE_SQLITE_FILES_H

#include "base/str.h"
#include "store/commit_thread.h"
#include "store/store.h"

/* -------------------------------------------------------------------------------------------------
 * The file history: the state of file mounts when the program started. It has the known subtrees
 * and their times, the last number of each earlier epoch, and the positions of its changes. They
 * determine whether a client with a cursor of an earlier epoch can receive exactly the files that
 * changed since, and from which position on.
 *
 * Immutable and thread-safe.
 */

struct file_history;

/* Call it outside of batches; `epoch` is the new one. */
int file_history_read(struct store *store, uint64_t epoch, struct file_history **ret,
                      struct tidings_error *err);
void file_history_destroy(struct file_history *h); /* NULL is fine */

/* The number of known subtrees and files. */
size_t file_history_scopes(const struct file_history *h);
bool file_history_has_scope(const struct file_history *h, struct tidings_str uri);

/* A cursor: the client has received everything up to `number` of that epoch, and up to `position`
 * in the store. */
struct file_cursor {
    uint64_t epoch, number, position;
};

/* The position after which all changes of files below `scope` since the cursor follow, once the
 * mount has been compared. false: unknown. `scope` is the URI of a file, or of a directory with
 * everything below it (ends with '/'). */
bool file_history_resume(const struct file_history *h, struct tidings_str scope,
                         const struct file_cursor *at, uint64_t *ret);

/* -------------------------------------------------------------------------------------------------
 * A chunk of a file mount's state on its way to the store: the file watch creates it, the hub adds
 * the changes announced so far, and the commit thread writes both in one commit. Thus the store
 * never has the state of a file without the change that led to it.
 *
 * Passing a chunk on transfers ownership. A mount has at most one chunk in progress.
 */

struct change;

#define FILE_CHUNK_BYTES (4u << 20) /* a chunk of this size is sent */

/* A subtree or file for which all changes are detected. */
struct file_scope_mark {
    struct tidings_str uri;
    uint64_t number; /* the newest change at that time */
};

/* A change of a file, and its kind: an update of a file that was created in the same group counts
 * as created. */
struct file_chunk_change {
    const struct change *change; /* a reference */
    enum tidings_change_kind kind;
};

struct file_chunk {
    /* Set by the file watch: */
    struct tidings_str prefix; /* of the mount; borrowed, outlives it */
    bool is_reset;             /* the saved state of this mount is invalid */
    bool is_whole;             /* after this chunk, the complete state is saved */
    /* file_identity of the root (0: the root is missing), its device */
    uint64_t root_print, device;
    struct buf gone;        /* paths that are no longer directories, each NUL-terminated */
    struct buf directories; /* file_chunk_begin */
    /* Called on the commit thread after the write, with its code; returns ownership. */
    void (*done)(struct file_chunk *chunk, int code);
    void *user;
    /* Set by the hub: */
    uint64_t epoch, number;            /* all of this mount's changes up to here were announced */
    struct file_chunk_change *changes; /* by ascending number */
    size_t change_count;
    size_t change_max; /* keep changes at this many positions */
    struct file_scope_mark *scopes;
    size_t scope_count;
    void *owner; /* data of the creator */
    struct thread_message message;
    struct store_job job;
};

/* NULL: out of memory. */
struct file_chunk *file_chunk_create(struct tidings_str prefix);
/* Releases its references. NULL is fine. */
void file_chunk_free(struct file_chunk *chunk);

/* Starts and ends a directory; between the two calls the caller appends its record
 * (sources/file_tree.h) to `chunk->directories`. Errors stick there. */
size_t file_chunk_begin(struct file_chunk *chunk, struct tidings_str path);
void file_chunk_end(struct file_chunk *chunk, size_t begun);

/* The receiver of chunks. Call both functions from any thread. */
struct file_keeping {
    /* Everything below that URI is known from now on: every change is announced. */
    void (*known)(struct file_keeping *k, struct tidings_str prefix, struct tidings_str uri);
    void (*save)(struct file_keeping *k, struct file_chunk *chunk);
    struct commit_thread *commit_thread; /* to read the saved state */
};

/* A mount: its location, and the settings that determine its contents. */
struct file_mount_row {
    struct tidings_str prefix, settings;
};

/* At the start, inside a batch: removes mounts that are not in the list or had other settings. */
int sqlite_files_set_mounts(struct store *store, const struct file_mount_row *mounts, size_t count,
                            struct tidings_error *err);

/* Call it inside a batch. After a failure, only rollback is possible. */
int sqlite_files_write(struct store *store, const struct file_chunk *chunk,
                       struct tidings_error *err);

/* The saved root of a mount. */
struct saved_root {
    uint64_t print, device;
    bool is_known; /* false: nothing was saved */
};
int sqlite_files_root(struct store *store, struct tidings_str prefix, struct saved_root *ret,
                      struct tidings_error *err);
/* Reads its directories, in the order of their paths, the root ("") first. A negative code of `fn`
 * stops this and is returned. */
typedef int (*saved_directory_fn)(void *user, struct tidings_str path, struct tidings_str record);
int sqlite_files_each(struct store *store, struct tidings_str prefix, saved_directory_fn fn,
                      void *user, struct tidings_error *err);

#endif
