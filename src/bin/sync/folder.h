/* SPDX-License-Identifier: MIT
 *
 * Writes and removes files below a directory, by paths of local_name.h. No symbolic link inside it
 * is ever followed, whoever puts it there and when. Functions return 0 or an errno.
 */
#ifndef BIN_FOLDER_H
#define BIN_FOLDER_H

#include <stdbool.h>
#include <sys/stat.h>

#include <tidings/types.h>

/* The directory, made if it is not there (its parent has to be), and held against others who do the
 * same: EWOULDBLOCK. Close the descriptor. */
int folder_open(const char *dir, int *ret_fd);
/* The same to look only: nothing is made or held. Where nothing is, an empty one that nobody else
 * sees. */
int folder_open_existing(const char *dir, int *ret_fd);

int folder_stat(int root, const char *path, struct stat *ret);

/* A file is put there in one step: whoever looks sees what was there, or all of it. Begin one,
 * which nobody sees under any name of the mirror's, add to it, then put it in its place or drop it.
 * The descriptor may also be written and read otherwise; close it with one of the two. */
int folder_begin(int root, int *ret_fd);
int folder_add(int fd, struct tidings_str bytes);
/* Does the regular file hold exactly what `fd` does? */
bool folder_holds(int root, const char *path, int fd);
/* `seen` is what is to be replaced, NULL: nothing. Where something else is found there in the end,
 * it stays: EEXIST. The directory of `path` has to be there. */
int folder_put(int root, const char *path, int fd, const struct stat *seen);
void folder_drop(int root, int fd);

int folder_make(int root, const char *path);
int folder_remove(int root, const char *path, bool is_directory);

#endif
