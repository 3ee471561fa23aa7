/* SPDX-License-Identifier: MIT
 *
 * Reading a small, trusted file completely (a configuration, keys): <tidings/file.h> lists which
 * files are rejected because other users could have written them.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <sys/stat.h>

#include <tidings/file.h>
#include <tidings/types.h>

#include "base/str.h"

/* Appends the contents of `path`, which must be a regular file (links are followed) of at most
 * `max` bytes, and which a user named. Error messages start with the path in quotes; bytes appended
 * before an error remain. */
int whole_file_read(const char *path, size_t max, struct buf *out, struct tidings_error *err);
/* The same for a file that the program found by itself. */
int whole_file_read_found(const char *path, size_t max, struct buf *out, struct tidings_error *err);

/* Checks that this file can be trusted. For files that a library reads by path. */
int whole_file_check(const struct stat *st, enum tidings_file_from from, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * Configuration files. A confined process may no longer open them; it sets an opener that still can
 * (security/helper.h).
 *
 * A library that needs a path gets a usable one: the file's own, or that of a copy in memory, which
 * is removed on close.
 */

struct file_opener {
    int (*open)(const char *path);     /* for reading; a descriptor, or a negative errno */
    int (*open_log)(const char *path); /* like file_open_log */
};
/* Call it before threads start. `opener` must stay valid. */
void file_set_opener(const struct file_opener *opener);

/* Opens a log file at its end, or creates it. Returns a descriptor, or a negative errno. */
int file_open_log(const char *path);
#define FILE_LOG_FLAGS (O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
#define FILE_LOG_MODE 0640 /* minus the umask */

#define CONFINED_PATH_MAX 32u
#define CONFINED_FILE_MAX (8u << 20)

struct confined_file {
    int fd; /* of the copy; -1: none is needed */
    const char *path;
    char room[CONFINED_PATH_MAX];
};

/* Like open(2) for reading, non-blocking; uses the opener if this process may not. Returns a
 * descriptor, or a negative errno. */
int confined_file_descriptor(const char *path);
/* Sets `f->path` to a usable path of the file `path`. Returns 0, or a negative errno: -EFBIG for
 * more than CONFINED_FILE_MAX. `path` is borrowed. */
int confined_file_open(struct confined_file *f, const char *path);
void confined_file_close(struct confined_file *f); /* all zero, or already closed: fine */

#endif
