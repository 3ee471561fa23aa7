/* SPDX-License-Identifier: MIT
 *
 * Reading a small file whole whose content decides what the program does (a configuration, keys):
 * <tidings/file.h> says which are refused, because others could have written them.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <sys/stat.h>

#include <tidings/file.h>
#include <tidings/types.h>

#include "base/str.h"

/* Append what is in `path`, which must be a regular file, also through links, of at most `max`
 * bytes, and which somebody named. Errors begin with the path in quotes; what was appended before
 * one is not taken back. */
int whole_file_read(const char *path, size_t max, struct buf *out, struct tidings_error *err);
/* The same for a file that was found. */
int whole_file_read_found(const char *path, size_t max, struct buf *out, struct tidings_error *err);

/* May this file be trusted so? For files that a library reads by their path. */
int whole_file_check(const struct stat *st, enum tidings_file_from from, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * Files of the configuration. A process that confined itself may no longer open them; it sets an
 * opener that still can (security/helper.h).
 *
 * Libraries that want a path get one that works for them: the file's own, or that of a copy in
 * memory, which is gone when it is closed.
 */

struct file_opener {
    int (*open)(const char *path);     /* for reading; a descriptor, or a negative errno */
    int (*open_log)(const char *path); /* as file_open_log */
};
/* Before there are other threads. `opener` must stay valid. */
void file_set_opener(const struct file_opener *opener);

/* Create a log file, or open it at its end. Returns a descriptor, or a negative errno. */
int file_open_log(const char *path);
#define FILE_LOG_FLAGS (O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)
#define FILE_LOG_MODE 0640 /* less what the umask takes */

#define CONFINED_PATH_MAX 32u
#define CONFINED_FILE_MAX (8u << 20)

struct confined_file {
    int fd; /* of the copy; -1: none is needed */
    const char *path;
    char room[CONFINED_PATH_MAX];
};

/* open(2) for reading, without waiting; by the opener if this process may not. A descriptor, or a
 * negative errno. */
int confined_file_descriptor(const char *path);
/* Have `f->path` name what `path` does. 0, or a negative errno: -EFBIG for more than
 * CONFINED_FILE_MAX. `path` is borrowed. */
int confined_file_open(struct confined_file *f, const char *path);
void confined_file_close(struct confined_file *f); /* all zero, or closed before: fine */

#endif
