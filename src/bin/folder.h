/* SPDX-License-Identifier: MIT
 *
 * Files below a directory, by paths of local_name.h. No symbolic link inside it is ever followed,
 * whoever puts it there and when. Functions return 0 or an errno.
 */
#ifndef BIN_FOLDER_H
#define BIN_FOLDER_H

#include <stdbool.h>
#include <sys/stat.h>

#include <tidings/types.h>

/* The directory, made if it is not there (its parent has to be), and held against others who do the
 * same: EWOULDBLOCK. Close the descriptor. */
int folder_open(const char *dir, int *ret_fd);

int folder_stat(int root, const char *path, struct stat *ret);
/* Does the regular file hold exactly these bytes? */
bool folder_holds(int root, const char *path, struct tidings_str bytes);
/* Put a file there in one step: whoever looks sees what was there, or all of it. Its directory has
 * to be there. */
int folder_write(int root, const char *path, struct tidings_str bytes, struct stat *ret);
int folder_make(int root, const char *path);
int folder_remove(int root, const char *path, bool is_directory);

#endif
