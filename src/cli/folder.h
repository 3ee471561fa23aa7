/* SPDX-License-Identifier: MIT
 *
 * Writes and removes files below a directory, by their local paths (below). No symbolic link inside
 * it is ever followed, whoever puts it there and when. Functions return 0 or an errno.
 */
#ifndef CLI_FOLDER_H
#define CLI_FOLDER_H

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

/* -------------------------------------------------------------------------------------------------
 * Names of files from URIs. What a server calls its resources is a stranger's text: a name never
 * leads out of the directory it is meant for.
 */

#define LOCAL_NAME_MAX 4096u /* with its NUL */
#define LOCAL_SEGMENT_MAX 255u
#define LOCAL_DEPTH_MAX 64u
/* Names at the top that begin so are not given away: they are those of the mirror itself. */
#define LOCAL_RESERVED ".tidings-"

/* The path below a directory that stands for `base`, which ends with a slash: what is behind it in
 * `uri`, percent-decoded, without a slash at either end. NULL, or why there is none: it is not
 * below `base`, has a query or a fragment, an empty segment, "." or "..", a slash or NUL that was
 * encoded, a percent sign that encodes nothing, a reserved name, or is too long or deep. */
const char *local_name(struct tidings_str base, struct tidings_str uri, char out[LOCAL_NAME_MAX]);

/* -------------------------------------------------------------------------------------------------
 * Names of files that other tools follow without being asked: whoever works in a directory where
 * one of them turns up has a stranger's commands run or settings used, by entering it, opening it
 * in an editor, or by any git command. What a person has to start by name (a Makefile, a script) is
 * ordinary content and not in the list.
 */

/* Does a part of the path, which has one slash between names, have such a name, in the eyes of any
 * file system (case, characters that are not seen, trailing dots)? NULL, or who follows it: a
 * sentence. */
const char *control_file(const char *path);

#endif
