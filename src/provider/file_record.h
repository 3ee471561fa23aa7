/* SPDX-License-Identifier: MIT
 *
 * What is known of one directory of a watched tree, as bytes that outlive the program: its names,
 * and of each what provider/file_tree.h remembers.
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
#ifndef PROVIDER_FILE_RECORD_H
#define PROVIDER_FILE_RECORD_H

#include "provider/file_tree.h"

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
