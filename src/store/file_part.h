/* SPDX-License-Identifier: MIT
 *
 * A part of what a file mount knows of its tree, on its way to the store: whoever watches the files
 * makes it, whoever numbers changes adds which were announced up to then, the keeper writes both in
 * one commit. Thus the store never knows of the state of a file without the change that led to it.
 *
 * Whoever passes it on gives up ownership. One part of a mount is under way at a time.
 */
#ifndef STORE_FILE_PART_H
#define STORE_FILE_PART_H

#include "base/str.h"
#include "store/keeper.h"

struct change;

#define FILE_PART_BYTES (4u << 20) /* when it is as large as this it goes */

/* A subtree or file whose changes are noticed. */
struct file_scope_mark {
    struct tidings_str uri;
    uint64_t number; /* of the newest change when that began */
};

/* A change of a file, and what it counts as: one that was created in the same group and then
 * updated was created. */
struct file_part_change {
    const struct change *change; /* a reference */
    enum tidings_change_kind kind;
};

struct file_part {
    /* From whoever watches: */
    struct tidings_str prefix;   /* of the mount; borrowed, outlives it */
    bool is_reset;               /* nothing that was saved of this mount counts any more */
    bool is_whole;               /* with it everything known is saved */
    uint64_t root_print, device; /* file_identity of the root (0: there is none), its device */
    struct buf gone;             /* paths of what is no directory any more, each with its NUL */
    struct buf directories;      /* file_part_begin */
    /* Called on the keeper's thread when it was written or not (a code): it is theirs again. */
    void (*done)(struct file_part *part, int code);
    void *user;
    /* From whoever numbers: */
    uint64_t epoch, number; /* all of this mount's changes up to here were announced before it */
    struct file_part_change *changes; /* by number ascending */
    size_t change_count;
    size_t change_max; /* changes older than that many positions are forgotten */
    struct file_scope_mark *scopes;
    size_t scope_count;
    void *owner; /* theirs */
    struct letter letter;
    struct keeper_job job;
};

/* NULL: out of memory. */
struct file_part *file_part_create(struct tidings_str prefix);
/* Gives up its references. NULL is fine. */
void file_part_free(struct file_part *part);

/* A directory and its record (provider/file_record.h), which is appended to `part->directories`
 * between these two. Errors stick there. */
size_t file_part_begin(struct file_part *part, struct tidings_str path);
void file_part_end(struct file_part *part, size_t begun);
/* The next one; false: that was the last. *at begins with 0. */
bool file_part_next(const struct file_part *part, size_t *at, struct tidings_str *ret_path,
                    struct tidings_str *ret_record);

/* Where parts go. Both from any thread. */
struct file_keeping {
    /* What is below that URI is known from now on: every change is announced. */
    void (*known)(struct file_keeping *k, struct tidings_str prefix, struct tidings_str uri);
    void (*save)(struct file_keeping *k, struct file_part *part);
    struct keeper *keeper; /* to read what was saved */
};

#endif
