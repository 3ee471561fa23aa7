/* SPDX-License-Identifier: MIT
 *
 * The names of one directory, read at once and handed out one by one in the order of their URIs.
 */
#ifndef PROVIDER_FILE_NAMES_H
#define PROVIDER_FILE_NAMES_H

#include "provider/file_path.h"

struct file_provider;

/* Offsets into the text; both strings are NUL-terminated there. `begin` is the first bytes of the
 * encoded name as a number, whose order mostly decides. */
struct file_name {
    uint64_t begin;
    uint32_t raw;
    uint32_t encoded;
    uint16_t raw_len;
    uint16_t encoded_len; /* with the '/' of a directory */
    bool is_directory;
    bool is_link;
};

struct file_names {
    struct buf text;
    struct file_name *heap; /* smallest encoded name first */
    size_t count;
    size_t cap;
    size_t budget; /* how many more may be looked at */
};

void file_names_init(struct file_names *n, size_t budget);
void file_names_deinit(struct file_names *n);
/* Read the directory `dir`, whose path is in `path`. What comes after `after` only. 1 when the
 * budget does not suffice; the names are then, as after a failure, not all there and in no order.
 */
int file_names_read(struct file_names *n, const struct file_root *root, int dir, struct buf *path,
                    struct tidings_str after);
bool file_names_pop(struct file_names *n, struct file_name *ret);
struct tidings_str file_name_encoded(const struct file_names *n, const struct file_name *e);

/* Append a segment to a path or forget it again. */
void file_path_push(struct buf *path, struct tidings_str name);
void file_path_cut(struct buf *path, size_t len);
/* The target (see file_open_beneath) of `name` in a directory that has one itself. */
void file_target_below(struct buf *target, const struct buf *dir_target, struct tidings_str name);

/* What is in a directory, in the order of the URIs: each name as it is and as a segment of a URI, a
 * directory's with its '/', until false is returned. Without names that lead to what may not be
 * seen. */
typedef bool (*file_name_fn)(void *user, struct tidings_str name, struct tidings_str segment);
int file_each_name(const struct file_provider *f, struct tidings_str path,
                   const struct file_judge *judge, file_name_fn fn, void *user,
                   struct tidings_error *err);

#endif
