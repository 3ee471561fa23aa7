/* SPDX-License-Identifier: MIT
 *
 * What file mounts know, in the same file as the entities and written in the same batches: their
 * trees, directory by directory; since when which of their subtrees are known; and the changes of
 * files that were announced, so that who comes back hears of them.
 *
 * `rows` are those of sqlite_store_open. Announcing a change of a file does not wait for the file:
 * changes get their positions when they are written, in the order of their numbers.
 */
#ifndef STORE_SQLITE_FILES_H
#define STORE_SQLITE_FILES_H

#include "base/str.h"
#include "store/commit_thread.h"
#include "store/store.h"

/* -------------------------------------------------------------------------------------------------
 * What the store knew of file mounts when the program started: which of their subtrees were known
 * since when, how far each earlier epoch came, and where its changes stand. From that follows
 * whether somebody who comes back with a cursor of an earlier epoch can be told exactly which files
 * changed since, and from which position on.
 *
 * Immutable: any thread may ask.
 */

struct file_history;

/* Outside of batches; `epoch` is the one that begins. */
int file_history_read(struct store *store, uint64_t epoch, struct file_history **ret,
                      struct tidings_error *err);
void file_history_destroy(struct file_history *h); /* NULL is fine */

/* How many subtrees and files are known. */
size_t file_history_scopes(const struct file_history *h);
bool file_history_has_scope(const struct file_history *h, struct tidings_str uri);

/* A cursor: everything up to `number` of that epoch was heard, and up to `position` in the store.
 */
struct file_cursor {
    uint64_t epoch, number, position;
};

/* The position from which on all changes of files below `scope` that happened after the cursor
 * follow, once the mount was compared. false: that is not known. `scope` is the URI of a file, or
 * with a '/' at the end of a directory with everything below. */
bool file_history_resume(const struct file_history *h, struct tidings_str scope,
                         const struct file_cursor *at, uint64_t *ret);

/* -------------------------------------------------------------------------------------------------
 * A part of what a file mount knows of its tree, on its way to the store: whoever watches the files
 * makes it, whoever numbers changes adds which were announced up to then, the commit thread writes
 * both in one commit. Thus the store never knows of the state of a file without the change that led
 * to it.
 *
 * Whoever passes it on gives up ownership. One part of a mount is under way at a time.
 */

struct change;

#define FILE_CHUNK_BYTES (4u << 20) /* when it is as large as this it goes */

/* A subtree or file whose changes are noticed. */
struct file_scope_mark {
    struct tidings_str uri;
    uint64_t number; /* of the newest change when that began */
};

/* A change of a file, and what it counts as: one that was created in the same group and then
 * updated was created. */
struct file_chunk_change {
    const struct change *change; /* a reference */
    enum tidings_change_kind kind;
};

struct file_chunk {
    /* From whoever watches: */
    struct tidings_str prefix;   /* of the mount; borrowed, outlives it */
    bool is_reset;               /* nothing that was saved of this mount counts any more */
    bool is_whole;               /* with it everything known is saved */
    uint64_t root_print, device; /* file_identity of the root (0: there is none), its device */
    struct buf gone;             /* paths of what is no directory any more, each with its NUL */
    struct buf directories;      /* file_chunk_begin */
    /* Called on the commit thread when it was written or not (a code): it is theirs again. */
    void (*done)(struct file_chunk *chunk, int code);
    void *user;
    /* From whoever numbers: */
    uint64_t epoch, number; /* all of this mount's changes up to here were announced before it */
    struct file_chunk_change *changes; /* by number ascending */
    size_t change_count;
    size_t change_max; /* changes older than that many positions are forgotten */
    struct file_scope_mark *scopes;
    size_t scope_count;
    void *owner; /* theirs */
    struct thread_message message;
    struct store_job job;
};

/* NULL: out of memory. */
struct file_chunk *file_chunk_create(struct tidings_str prefix);
/* Gives up its references. NULL is fine. */
void file_chunk_free(struct file_chunk *chunk);

/* A directory and its record (sources/file_tree.h), which is appended to `chunk->directories`
 * between these two. Errors stick there. */
size_t file_chunk_begin(struct file_chunk *chunk, struct tidings_str path);
void file_chunk_end(struct file_chunk *chunk, size_t begun);

/* Where parts go. Both from any thread. */
struct file_keeping {
    /* What is below that URI is known from now on: every change is announced. */
    void (*known)(struct file_keeping *k, struct tidings_str prefix, struct tidings_str uri);
    void (*save)(struct file_keeping *k, struct file_chunk *chunk);
    struct commit_thread *commit_thread; /* to read what was saved */
};

/* One mount: where it is, and by what it was made what it is. */
struct file_mount_row {
    struct tidings_str prefix, settings;
};

/* At the start, inside a batch: forget mounts that are not among these or had other settings. */
int sqlite_files_set_mounts(struct store *store, const struct file_mount_row *mounts, size_t count,
                            struct tidings_error *err);

/* Inside a batch. A failure leaves nothing but rollback. */
int sqlite_files_write(struct store *store, const struct file_chunk *chunk,
                       struct tidings_error *err);

/* What was saved of a mount. */
struct saved_root {
    uint64_t print, device;
    bool is_known; /* false: nothing was saved */
};
int sqlite_files_root(struct store *store, struct tidings_str prefix, struct saved_root *ret,
                      struct tidings_error *err);
/* Its directories, in the order of their paths, the root ("") first. A negative code of `fn` ends
 * this and is what this returns. */
typedef int (*saved_directory_fn)(void *user, struct tidings_str path, struct tidings_str record);
int sqlite_files_each(struct store *store, struct tidings_str prefix, saved_directory_fn fn,
                      void *user, struct tidings_error *err);

#endif
