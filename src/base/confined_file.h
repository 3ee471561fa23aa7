/* SPDX-License-Identifier: MIT
 *
 * Files of the configuration, opened by this process or, once it is confined, by its helper
 * (base/helper.h).
 *
 * Libraries that want a path get one that works for them: the file's own, or that of a copy in
 * memory, which is gone when it is closed.
 */
#ifndef BASE_CONFINED_FILE_H
#define BASE_CONFINED_FILE_H

#include <tidings/types.h>

#define CONFINED_PATH_MAX 32u
#define CONFINED_FILE_MAX (8u << 20)

struct confined_file {
    int fd; /* of the copy; -1: none is needed */
    const char *path;
    char room[CONFINED_PATH_MAX];
};

/* open(2) for reading, without waiting; by the helper if this process may not. A descriptor, or a
 * negative errno. */
int confined_file_descriptor(const char *path);
/* Have `f->path` name what `path` does. 0, or a negative errno: -EFBIG for more than
 * CONFINED_FILE_MAX. `path` is borrowed. */
int confined_file_open(struct confined_file *f, const char *path);
void confined_file_close(struct confined_file *f); /* all zero, or closed before: fine */

#endif
