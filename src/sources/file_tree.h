/* SPDX-License-Identifier: MIT
 *
 * The remembered tree of a file watch: what was there when we last looked, so that looking again
 * says what changed.
 *
 * A node is one name in one directory: present (with the print of its state) or known to be absent.
 * A file's print changes with every change of the file; a directory's only says which directory it
 * is. Two flags carry the meaning of a look:
 *   KNOWN     the node's state was established by an earlier look; a difference is then a change,
 *             while for a node that is not KNOWN the first look is only the baseline.
 *   COMPLETE  (directories) every name in it has a node; a name without one is then new.
 *
 * What has to be saved (sources/file_tree.h) is found without a search: whoever changes what is
 * known of a name marks its directory UNSAVED, and those above it as having one below.
 *
 * Pure: no system calls, no threads, no idea of watches; `extra` belongs to the owner. A node costs
 * 68 bytes, its name, and a hash slot.
 */
#ifndef SOURCES_FILE_TREE_H
#define SOURCES_FILE_TREE_H

#include "base/str.h"

enum file_node_flag {
    FILE_NODE_PRESENT = 1,
    FILE_NODE_KNOWN = 2,
    FILE_NODE_DIRECTORY = 4, /* of a present node */
    FILE_NODE_LINK = 8,      /* a symbolic link; a directory behind it is not entered */
    FILE_NODE_COMPLETE = 16,
    FILE_NODE_SEEN = 32,     /* by the scan under way */
    FILE_NODE_RACY = 64,     /* looked at so soon that a further write may not show in the print */
    FILE_NODE_UNSAVED = 128, /* (directories) what is known of its names is not in the store */
    FILE_NODE_UNSAVED_BELOW = 256, /* the same of a directory further down */
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

/* What a look found. */
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
    FILE_REPLACED, /* another kind of thing or another directory: deleted, then created */
};

/* At most `max` nodes. TIDINGS_E_NOMEM. */
int file_tree_init(struct file_tree *t, size_t max);
/* Frees all nodes; `extra` is the owner's to free first. */
void file_tree_deinit(struct file_tree *t);
/* The same, but for the root, which is as after init. */
void file_tree_clear(struct file_tree *t);

struct file_node *file_tree_find(const struct file_tree *t, const struct file_node *dir,
                                 struct tidings_str name);
/* Find or add (absent and not KNOWN). NULL when out of memory or full. */
struct file_node *file_tree_add(struct file_tree *t, struct file_node *dir,
                                struct tidings_str name);
/* Remove a node without children; never the root. */
void file_tree_remove(struct file_tree *t, struct file_node *node);
/* The node of a path, as far as there are nodes: NULL when one is missing. */
struct file_node *file_tree_walk(const struct file_tree *t, struct tidings_str path);

struct tidings_str file_node_name(const struct file_node *node);
/* Append the path of `node` to `out`: "" for the root. */
void file_node_path(const struct file_node *node, struct buf *out);
size_t file_node_depth(const struct file_node *node); /* root: 0 */

/* What differs between the node and what a look found. `node` NULL: the name had no node in `dir`.
 * Changes nothing. */
enum file_verdict file_tree_compare(const struct file_node *dir, const struct file_node *node,
                                    const struct file_state *found);
/* Remember what was found. Children are not touched. */
void file_node_set(struct file_node *node, const struct file_state *found);
/* Every name in the directory has a node now, or that is not certain any more. */
void file_node_set_complete(struct file_node *dir, bool is_complete);
/* What is known of the names in `dir` is not as it was saved. */
void file_node_set_unsaved(struct file_node *dir);

/* -------------------------------------------------------------------------------------------------
 * What is known of one directory of a watched tree, as bytes that outlive the program: its names,
 * and of each what sources/file_tree.h remembers.
 *
 *     version (1 byte), flags (1: COMPLETE), then for each name that is KNOWN
 *         kind: PRESENT, DIRECTORY, LINK as in enum file_node_flag (1 byte)
 *         length of the name (1), print (8), inode (4), the name
 *         of a link: length of its target (2), the target
 *     and a sum (8): the hash of all before it, with that of the directory's path as its seed
 *
 * Numbers are little-endian. The bytes come from a file that anybody may have written to: a reader
 * accepts what a writer can have written and nothing else, so that what is damaged is noticed.
 */

#define FILE_RECORD_SEED 0x7469646e67732e31u /* of the hash of the path */

/* Where a link leads, as far as it is known; else empty. */
typedef struct tidings_str (*file_record_target_fn)(const struct file_node *node);
/* It leads there. A failure ends reading. */
typedef int (*file_record_lead_fn)(void *user, struct file_node *node, struct tidings_str target);

/* Append the record of `dir`, whose path is `path`. Errors stick in `out`. */
void file_record_write(const struct file_node *dir, struct tidings_str path,
                       file_record_target_fn target, struct buf *out);
/* Take a record into `dir`, which has no children yet. TIDINGS_E_PARSE: it is damaged;
 * TIDINGS_E_NOMEM, TIDINGS_E_LIMIT: there is no room. Then some of it was taken in. */
int file_record_read(struct file_tree *t, struct file_node *dir, struct tidings_str path,
                     struct tidings_str record, file_record_lead_fn lead, void *user);

#endif
