/* SPDX-License-Identifier: MIT
 *
 * The border between URIs and the file system: the mapping between URIs and paths, exclusions, and
 * the only functions that open anything below a root.
 *
 * Paths are relative to the root, without a leading or trailing slash; the root itself is "". A
 * path has exactly one URI: prefix + percent-encoded path, with a trailing '/' for a directory.
 * Other spellings of the same bytes are not found, so that they cannot bypass checks of URIs
 * (access rules, subscriptions).
 *
 * The kernel enforces containment: openat2(2) with RESOLVE_BENEATH resolves every path below the
 * root's descriptor and rejects links that lead outside, even if the tree changes at the same time.
 * Entries other than regular files and directories are accessed only through O_PATH and never
 * opened.
 *
 * The target of a link is also judged by its own name: by exclusions here, by access rules in the
 * core, which receives it (see `target`).
 */
#ifndef SOURCES_FILE_PATH_H
#define SOURCES_FILE_PATH_H

#include <sys/stat.h>

#include "base/str.h"

#define FILE_MAX_DEPTH 64u
#define FILE_MAX_PATH 4096u
#define FILE_MAX_ENCODED 12288u /* three bytes for each */
#define FILE_ETAG_SIZE 19u      /* perhaps "W/", 16 digits, NUL */

/* A served directory. Immutable while in use, so all threads share it. The directory of the
 * descriptor can change at any time (file_root_follow). */
struct file_root {
    int fd;           /* O_PATH */
    char *where;      /* its path */
    uid_t owner;      /* of the first directory */
    bool has_owner;   /* false: it was not opened yet, and links of any user are followed */
    bool *has_warned; /* atomic: logged that the current directory is not served */
    char *prefix;     /* ends in '/' */
    size_t prefix_len;
    struct tidings_str *exclude; /* globs, see formats/pattern.h */
    size_t exclude_count;
    bool excludes_git;
};

/* Opens the directory at `path` for the first time: from now on only directories with the same
 * owner are served there. */
int file_root_start(struct file_root *root, struct tidings_str path, struct tidings_error *err);
void file_root_close(struct file_root *root);
/* Serves the directory that is at the path now. Two system calls if it is unchanged. Call it at the
 * beginning of every request, unless file_open_regular has answered it. Any thread. */
void file_root_follow(const struct file_root *root);
/* Returns true if there is a directory, and gets its state. */
bool file_root_stat(const struct file_root *root, struct stat *ret);
/* Receives each name before it is looked up in the directory `dir` (O_PATH). */
typedef void (*file_step_fn)(void *user, int dir, const char *name);
/* Opens the directory that the path means now (O_PATH): the only function that opens anything
 * outside a root. Returns a negative errno on failure: -EPERM if it must not be served. `fn` may be
 * NULL. */
int file_root_open(const struct file_root *root, file_step_fn fn, void *user);

/* ---- file_path.c ----------------------------------------------------------------------------- */

enum file_kind {
    FILE_OTHER, /* device, FIFO, socket */
    FILE_REGULAR,
    FILE_DIRECTORY,
};

/* The state of the file at a path, after links. */
struct file_info {
    struct stat st;
    bool is_link; /* the last segment is a symbolic link */
};

/* Appends the path of a canonical URI to `path`; *ret_slash: true if it ended in '/'. NOTFOUND if
 * no file can have this URI, or the path is excluded. */
int file_path_from_uri(const struct file_root *root, struct tidings_str uri, struct buf *path,
                       bool *ret_slash, struct tidings_error *err);
/* Appends the URI of a path. Errors stick in `out`. */
void file_path_to_uri(const struct file_root *root, struct tidings_str path, bool is_directory,
                      struct buf *out);

/* Returns true if the path is hidden, given that its parent is not. */
bool file_is_excluded(const struct file_root *root, struct tidings_str path);

/* Opens `path` ("" is the directory itself) below `dir`, which is the root or below it. Links are
 * followed only inside the root, and not to paths that are excluded under their own names, which
 * count as missing (needs /proc). Returns a descriptor, or a negative errno.
 *
 * `target` becomes the path that links led to, of the opened file: a path below the root with a
 * leading '/', or empty if there were no links. NULL: not needed. A file that is hidden under its
 * own name is hidden under this one, too. */
int file_open_beneath(const struct file_root *root, int dir, const char *path, int flags,
                      struct buf *target);
/* Appends the URI of a target. */
void file_target_uri(const struct file_root *root, const struct buf *target, bool is_directory,
                     struct buf *out);
/* Gets the state of the file at `path`, without opening it. Returns 0, or a negative errno: -EXDEV
 * if a link leads out of the root. */
int file_stat(const struct file_root *root, const char *path, struct file_info *ret,
              struct buf *target);
/* The same for the last name of `path`, in the open directory `dir`. It is cheaper, because most
 * names are not links. `target` covers that name only: `dir` itself may have been reached through
 * links. */
int file_stat_in(const struct file_root *root, int dir, const char *path, struct file_info *ret,
                 struct buf *target);
/* Opens the regular file at `path` for reading and gets its state, with as few system calls as
 * possible. It is opened below the root's descriptor and compared with the current path of the
 * root, so no file_root_follow is necessary. Returns -1 if the caller must use file_root_follow and
 * file_stat: to find the error, because it is not a regular file or is a link, because it is not
 * directly in the root, or because the root has changed. */
int file_open_regular(const struct file_root *root, const char *path, struct file_info *ret);
/* Returns true if it failed because of a lack of descriptors or memory, which says nothing about
 * the file. */
bool file_is_short(int negative_errno);
/* Converts the negative errno of the above to an error about `uri`. */
int file_refuse(struct tidings_error *err, int negative_errno, struct tidings_str uri);

#define FILE_WHERE_SIZE 4096u
/* Returns the path of a descriptor according to the kernel (needs /proc); empty if unknown. */
struct tidings_str file_where(int fd, char out[FILE_WHERE_SIZE]);

enum file_kind file_kind(const struct file_info *info);

/* Distinguishes the states of a file by device, inode, change time and size. It omits mtime on
 * purpose, because that goes backwards under `cp -p`, rsync and git. */
uint64_t file_print(const struct stat *st);
/* Identifies the directory, whatever its content. */
uint64_t file_identity(const struct stat *st);
/* The contribution of the device to both, by exclusive or. A file system can get another number
 * when the machine starts; the saved state is then converted to that number. */
uint64_t file_device_print(dev_t device);
/* Formats the print. The prefix "W/" (weak) is added while a further change might not alter it (the
 * change time is less than two seconds old and clocks are coarse). */
void file_etag(const struct stat *st, char out[FILE_ETAG_SIZE]);
int64_t file_modified_ms(const struct stat *st);

/* Also checks whether the client may see `uri`, the target of a link. */
struct file_policy {
    bool (*may)(const void *request, struct tidings_str uri);
    const void *request;
};

#endif
