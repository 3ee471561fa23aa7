/* SPDX-License-Identifier: MIT
 *
 * Writes and removes files below a directory, by their local paths (below). Symbolic links inside
 * the directory are never followed, even if another process creates one at any time. Functions
 * return 0 or an errno.
 */
#ifndef CLI_FOLDER_H
#define CLI_FOLDER_H

#include <stdbool.h>
#include <sys/stat.h>

#include <tidings/types.h>

/* Opens the directory, creating it if missing (its parent must exist), and locks it against other
 * mirrors: EWOULDBLOCK. Close the descriptor. */
int folder_open(const char *dir, int *ret_fd);
/* The same, read-only: no directory is created or locked. If it does not exist, returns a private
 * empty directory. */
int folder_open_existing(const char *dir, int *ret_fd);

int folder_stat(int root, const char *path, struct stat *ret);

/* Puts a file in place atomically: readers see the old file or the complete new one. Begin a file,
 * which has no visible name in the mirror, add data to it, then put it in place or drop it. The
 * descriptor may also be written and read directly; close it with one of the two. */
int folder_begin(int root, int *ret_fd);
int folder_add(int fd, struct tidings_str bytes);
/* Returns true if the regular file has the same content as `fd`. */
bool folder_holds(int root, const char *path, int fd);
/* `seen` is the file to replace, NULL: none. If the path holds another file by then, that file
 * stays: EEXIST. The directory of `path` must exist. */
int folder_put(int root, const char *path, int fd, const struct stat *seen);
void folder_drop(int root, int fd);

int folder_make(int root, const char *path);
int folder_remove(int root, const char *path, bool is_directory);

/* -------------------------------------------------------------------------------------------------
 * File names from URIs. The resource names of a server are untrusted: a name never leads out of the
 * target directory.
 */

#define LOCAL_NAME_MAX 4096u /* with its NUL */
#define LOCAL_SEGMENT_MAX 255u
#define LOCAL_DEPTH_MAX 64u
/* Reserved prefix for files of the mirror itself at the top level. */
#define LOCAL_RESERVED ".tidings-"

/* The path below a directory that represents `base`, which ends with a slash: the rest of `uri`
 * after `base`, percent-decoded, without a leading or trailing slash. NULL, or the reason for a
 * rejection: the URI is not below `base`, has a query or a fragment, an empty segment, "." or "..",
 * an encoded slash or NUL, an invalid percent sign, a reserved name, or is too long or deep. */
const char *local_name(struct tidings_str base, struct tidings_str uri, char out[LOCAL_NAME_MAX]);

/* -------------------------------------------------------------------------------------------------
 * Names of files that other tools execute or apply automatically. A user who enters a directory
 * with such a file, opens it in an editor, or runs any git command there would run untrusted
 * commands or use untrusted settings. Files that a user must start by name (a Makefile, a script)
 * are ordinary content and not in the list.
 */

/* Checks each part of the path, which has one slash between names, in the way the laxest file
 * systems compare names (case, ignorable characters, trailing dots). Returns NULL, or an error
 * message with the tool that follows the file. */
const char *control_file(const char *path);

#endif
