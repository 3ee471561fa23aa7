/* SPDX-License-Identifier: MIT
 *
 * The remembered tree of a file watch: the state at the last scan, so that the next scan finds
 * changes.
 *
 * A node is one name in one directory: present (with the print of its state) or known to be absent.
 * A file's print changes with every change of the file; a directory's print only identifies the
 * directory. Two flags define the meaning of a scan:
 * - KNOWN: an earlier scan established the node's state, so a difference is a change. For a node
 *   that is not KNOWN the first scan is only the baseline.
 * - COMPLETE (directories): every name in it has a node; a name without a node is therefore new.
 *
 * Unsaved state is found without a search: each change of a name's state marks its directory
 * UNSAVED, and the directories above as UNSAVED_BELOW.
 *
 * Pure: no system calls, no threads, no knowledge of watches; `extra` belongs to the owner. A node
 * costs 68 bytes, its name, and a hash slot.
 */
#ifndef SOURCES_FILE_TREE_H
#define SOURCES_FILE_TREE_H

#include "base/str.h"

enum file_node_flag {
    FILE_NODE_PRESENT = 1,
    FILE_NODE_KNOWN = 2,
    FILE_NODE_DIRECTORY = 4, /* of a present node */
    FILE_NODE_LINK = 8,      /* a symbolic link; its target directory is not entered */
    FILE_NODE_COMPLETE = 16,
    FILE_NODE_SEEN = 32,     /* by the current scan */
    FILE_NODE_RACY = 64,     /* scanned so soon that a further write may not show in the print */
    FILE_NODE_UNSAVED = 128, /* (directories) the state of its names is not in the store */
    FILE_NODE_UNSAVED_BELOW = 256, /* the same for a directory further down */
};

struct file_node {
    struct file_node *parent;
    struct file_node *prev, *next; /* siblings */
    struct file_node *children;
    struct file_node *chain; /* hash table */
    void *extra;
    uint64_t print;
    uint32_t hash;
    uint16_t name_len;
    uint16_t flags;
    uint32_t inode; /* of a file: the low half of its number */
    char name[];
};

struct file_tree {
    struct file_node *root;
    struct file_node **slots;
    size_t slot_count; /* a power of two, 0 while empty */
    size_t count;      /* nodes, without the root */
    size_t max;
    uint64_t seed;
};

/* The result of a scan of a name. */
struct file_state {
    uint64_t print;
    uint32_t inode;
    bool is_present;
    bool is_directory;
    bool is_link;
};

enum file_verdict {
    FILE_SAME, /* or a baseline */
    FILE_CREATED,
    FILE_UPDATED,
    FILE_DELETED,
    FILE_REPLACED, /* another kind of file or another directory: deleted, then created */
};

/* At most `max` nodes. TIDINGS_E_NOMEM. */
int file_tree_init(struct file_tree *t, size_t max);
/* Frees all nodes. The owner frees `extra` first. */
void file_tree_deinit(struct file_tree *t);
/* The same, except the root, which is as after init. */
void file_tree_clear(struct file_tree *t);

struct file_node *file_tree_find(const struct file_tree *t, const struct file_node *dir,
                                 struct tidings_str name);
/* Finds or adds a node (absent and not KNOWN). NULL if out of memory or full. */
struct file_node *file_tree_add(struct file_tree *t, struct file_node *dir,
                                struct tidings_str name);
/* Removes a node without children; never the root. */
void file_tree_remove(struct file_tree *t, struct file_node *node);
/* Returns the node of a path, or NULL if a node is missing. */
struct file_node *file_tree_walk(const struct file_tree *t, struct tidings_str path);

struct tidings_str file_node_name(const struct file_node *node);
/* Appends the path of `node` to `out`: "" for the root. */
void file_node_path(const struct file_node *node, struct buf *out);
size_t file_node_depth(const struct file_node *node); /* root: 0 */

/* Compares the node with a scan result. `node` NULL: the name had no node in `dir`. Changes
 * nothing. */
enum file_verdict file_tree_compare(const struct file_node *dir, const struct file_node *node,
                                    const struct file_state *found);
/* Records the result. Children are unchanged. */
void file_node_set(struct file_node *node, const struct file_state *found);
/* Every name in the directory has a node now, or that is no longer certain. */
void file_node_set_complete(struct file_node *dir, bool is_complete);
/* The state of the names in `dir` differs from the saved one. */
void file_node_set_unsaved(struct file_node *dir);

/* -------------------------------------------------------------------------------------------------
 * The state of one directory of a watched tree, as bytes that outlive the program: its names, with
 * the data that the tree remembers for each.
 *
 *     version (1 byte), flags (1: COMPLETE), then for each name that is KNOWN
 *         kind: PRESENT, DIRECTORY, LINK as in enum file_node_flag (1 byte)
 *         length of the name (1), print (8), inode (4), the name
 *         of a link: length of its target (2), the target
 *     and a sum (8): the hash of all before it, with that of the directory's path as its seed
 *
 * Numbers are little-endian. The bytes come from a file that any user may have modified: a reader
 * accepts only output that a writer can produce, so that damage is detected.
 */

#define FILE_RECORD_SEED 0x7469646e67732e31u /* of the hash of the path */

/* Returns the target of a link, if known; otherwise empty. */
typedef struct tidings_str (*file_record_target_fn)(const struct file_node *node);
/* Sets the target of a link. A failure aborts reading. */
typedef int (*file_record_lead_fn)(void *user, struct file_node *node, struct tidings_str target);

/* Appends the record of `dir`, whose path is `path`. Errors stick in `out`. */
void file_record_write(const struct file_node *dir, struct tidings_str path,
                       file_record_target_fn target, struct buf *out);
/* Reads a record into `dir`, which has no children yet. TIDINGS_E_PARSE: it is damaged;
 * TIDINGS_E_NOMEM, TIDINGS_E_LIMIT: there is no room. Then part of it was added. */
int file_record_read(struct file_tree *t, struct file_node *dir, struct tidings_str path,
                     struct tidings_str record, file_record_lead_fn lead, void *user);

#endif
