/* SPDX-License-Identifier: MIT
 *
 * Reading the bytes of one open file: which of them a range means, and fetching them. Blocking;
 * used where the request is for small files and on the pool for large ones.
 */
#ifndef PROVIDER_FILE_CONTENT_H
#define PROVIDER_FILE_CONTENT_H

#include <tidings/provider.h>

#include "provider/file_path.h"

struct file_provider;

/* So many bytes are looked through for the beginning of a line, counted from the first: a tenth of
 * a second that anybody may ask for. */
#define FILE_SCAN_MAX (INT64_C(256) << 20)

/* Some bytes of an open file. */
struct file_part {
    int fd;       /* borrowed */
    int64_t size; /* of the file */
    int64_t from, to;
};

/* Find from and to, which must not be more than `cap` bytes apart. Only a range of lines looks into
 * the file: from the beginning, or for the last ones from the end, and no further than it must.
 * TIDINGS_E_INVALID when it begins behind the end, TIDINGS_E_LIMIT. */
int file_find_range(struct file_part *part, const struct tidings_range *range, int64_t cap,
                    struct tidings_read *read, struct tidings_error *err);

/* Read [from, to) into `bytes`; fewer at the end of the file. The count, or a negative code; stops
 * when the read is cancelled. */
int64_t file_read_bytes(const struct file_part *part, char *bytes, struct tidings_read *read,
                        struct tidings_error *err);

/* Open the regular file at `path` the long way: look first, so that nothing else is ever opened. A
 * descriptor, or a negative code with a sentence about `uri`. What was opened is judged once more:
 * a link may have been switched since the look. */
int file_open_checked(const struct file_provider *f, const char *path, struct tidings_str uri,
                      struct file_info *info, const struct file_judge *judge,
                      struct tidings_error *err);
/* May whoever reads read what a link leads to? */
struct file_judge file_read_judge(const struct tidings_read *read);

/* The last segment of a path. */
struct tidings_str file_last_name(struct tidings_str path);

/* Read a directory: the names in it and, as far as there is room, its children. On the pool.
 * Finishes the read. `path` is the directory's. */
void file_read_directory(const struct file_provider *f, struct tidings_read *read,
                         struct tidings_str path, const struct file_info *info);

#endif
