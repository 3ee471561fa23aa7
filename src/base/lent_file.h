/* SPDX-License-Identifier: MIT
 *
 * Files of the configuration, opened by this process or, once it is confined, by its helper.
 *
 * Libraries that want a path get one that works for them: the file's own, or that of a copy in
 * memory, which is gone when it is given back.
 */
#ifndef BASE_LENT_FILE_H
#define BASE_LENT_FILE_H

#include <tidings/types.h>

#define LENT_PATH_MAX 32u
#define LENT_FILE_MAX (8u << 20)

struct lent_file {
    int fd; /* of the copy; -1: none is needed */
    const char *path;
    char room[LENT_PATH_MAX];
};

/* open(2) for reading, without waiting. A descriptor, or a negative errno. */
int file_open_named(const char *path);
/* 0, or a negative errno: -EFBIG for more than LENT_FILE_MAX. `path` is borrowed. */
int lent_file_open(struct lent_file *f, const char *path);
void lent_file_close(struct lent_file *f); /* all zero, or closed before: fine */

#endif
