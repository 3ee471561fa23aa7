/* SPDX-License-Identifier: MIT
 *
 * Reading a small file whole whose content decides what the program does (a configuration, keys):
 * <tidings/file.h> says which are refused, because others could have written them.
 */
#ifndef BASE_WHOLE_FILE_H
#define BASE_WHOLE_FILE_H

#include <sys/stat.h>

#include <tidings/file.h>

#include "base/str.h"

/* Append what is in `path`, which must be a regular file, also through links, of at most `max`
 * bytes, and which somebody named. Errors begin with the path in quotes; what was appended before
 * one is not taken back. */
int whole_file_read(const char *path, size_t max, struct buf *out, struct tidings_error *err);
/* The same for a file that was found. */
int whole_file_read_found(const char *path, size_t max, struct buf *out, struct tidings_error *err);

/* May this file be trusted so? For files that a library reads by their path. */
int whole_file_check(const struct stat *st, enum tidings_file_from from, struct tidings_error *err);

#endif
