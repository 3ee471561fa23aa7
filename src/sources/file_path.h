/* SPDX-License-Identifier: MIT
 *
 * The border between URIs and the file system: which path a URI means, which URI a path has, what
 * is left out, and the only functions that open anything below a root.
 *
 * Paths are relative to the root, without a leading or trailing slash; the root itself is "". A
 * path has exactly one URI: prefix + percent-encoded path, with a trailing '/' for a directory.
 * Another spelling of the same bytes is not found, so that nothing that reasons about URIs (access
 * rules, subscriptions) can be walked around.
 *
 * Containment is the kernel's work: openat2(2) with RESOLVE_BENEATH resolves every path below the
 * root's descriptor and refuses links that lead out, whatever happens to the tree meanwhile. What
 * is no regular file and no directory is looked at through O_PATH only and never opened.
 *
 * What a link leads to is judged by the name it has there, too: by exclusions here, by access rules
 * in the core, which is told (see `target`).
 */
#ifndef SOURCES_FILE_PATH_H
#define SOURCES_FILE_PATH_H

#include <sys/stat.h>

#include "base/str.h"

#define FILE_MAX_DEPTH 64u
#define FILE_MAX_PATH 4096u
#define FILE_MAX_ENCODED 12288u /* three bytes for each */
#define FILE_ETAG_SIZE 19u      /* perhaps "W/", 16 digits, NUL */

/* A directory that is served. Immutable while in use, hence shared by all threads; which directory
 * is behind the descriptor may change at any moment (file_root_follow). */
struct file_root {
    int fd;           /* O_PATH */
    char *where;      /* its path */
    uid_t owner;      /* of what was there first */
    bool has_owner;   /* false: it was not opened yet, and links of everybody are followed */
    bool *has_warned; /* atomic: that what is there now is not served */
    char *prefix;     /* ends in '/' */
    size_t prefix_len;
    struct tidings_str *exclude; /* globs, see formats/pattern.h */
    size_t exclude_count;
    bool excludes_git;
};

/* Open the directory at `path` for the first time: from now on only what has the same owner is
 * served there. */
int file_root_start(struct file_root *root, struct tidings_str path, struct tidings_error *err);
void file_root_close(struct file_root *root);
/* Serve what is at the path now. Two system calls when it is the same as before; at the beginning
 * of every request, unless file_open_regular has answered it. Any thread. */
void file_root_follow(const struct file_root *root);
/* Is there a directory, and which? */
bool file_root_stat(const struct file_root *root, struct stat *ret);
/* Each name that is looked up on the way, in the directory open (O_PATH) as `dir`; before it is. */
typedef void (*file_step_fn)(void *user, int dir, const char *name);
/* The directory the path means now, opened (O_PATH): the only function that opens anything outside
 * a root. Or a negative errno: -EPERM when it is not to be served. `fn` may be NULL. */
int file_root_open(const struct file_root *root, file_step_fn fn, void *user);

/* ---- file_path.c ----------------------------------------------------------------------------- */

enum file_kind {
    FILE_OTHER, /* device, FIFO, socket */
    FILE_REGULAR,
    FILE_DIRECTORY,
};

/* What there is at a path, links followed. */
struct file_info {
    struct stat st;
    bool is_link; /* the last segment is a symbolic link */
};

/* The path of a canonical URI, appended to `path`; *ret_slash: did it end in '/'? NOTFOUND when no
 * file can have this URI or the path is excluded. */
int file_path_from_uri(const struct file_root *root, struct tidings_str uri, struct buf *path,
                       bool *ret_slash, struct tidings_error *err);
/* Append the URI of a path. Errors stick in `out`. */
void file_path_to_uri(const struct file_root *root, struct tidings_str path, bool is_directory,
                      struct buf *out);

/* Is this path hidden, given that its parent is not? */
bool file_is_excluded(const struct file_root *root, struct tidings_str path);

/* Open `path` ("" is the directory itself) below `dir`, which is the root or below it. Links are
 * followed as far as they stay in there, and not to what is excluded under its own name: that is
 * not there (needs /proc). A descriptor, or a negative errno.
 *
 * `target` becomes where links led, of what was really opened: a path below the root with a '/'
 * before it, or nothing when there were none. NULL: whoever asks need not know. What may not be
 * seen under the name it has there may not be seen under this one either. */
int file_open_beneath(const struct file_root *root, int dir, const char *path, int flags,
                      struct buf *target);
/* Append the URI of a target. */
void file_target_uri(const struct file_root *root, const struct buf *target, bool is_directory,
                     struct buf *out);
/* What there is at `path`, without opening it. 0, or a negative errno: -EXDEV when a link leads out
 * of the root. */
int file_stat(const struct file_root *root, const char *path, struct file_info *ret,
              struct buf *target);
/* The same for the last name of `path`, in the open directory `dir`; cheaper, as most names are no
 * links. `target` tells of that name only: `dir` itself may have been reached through links. */
int file_stat_in(const struct file_root *root, int dir, const char *path, struct file_info *ret,
                 struct buf *target);
/* Open the regular file at `path` for reading and look at it, with as few system calls as that
 * takes: it is opened below the root's descriptor, and is what the path of the root leads to now,
 * so that there is no need to follow that. -1 when the long way (file_root_follow, file_stat) is to
 * be taken: to say what is wrong, because it is something else or a link, because it does not lie
 * in the root itself, or because the root is another by now. */
int file_open_regular(const struct file_root *root, const char *path, struct file_info *ret);
/* Did it fail for want of descriptors or memory? That says nothing about what is there. */
bool file_is_short(int negative_errno);
/* Turn the negative errno of the above into an error about `uri`. */
int file_refuse(struct tidings_error *err, int negative_errno, struct tidings_str uri);

#define FILE_WHERE_SIZE 4096u
/* Where a descriptor leads, as the kernel says (needs /proc); empty: it does not. */
struct tidings_str file_where(int fd, char out[FILE_WHERE_SIZE]);

enum file_kind file_kind(const struct file_info *info);

/* What tells one state of a file from another: device, inode, change time, size. mtime is left out
 * on purpose, it goes backwards under `cp -p`, rsync and git. */
uint64_t file_print(const struct stat *st);
/* Which directory it is, whatever it holds. */
uint64_t file_identity(const struct stat *st);
/* What the device adds to both, by exclusive or: a file system may get another number when the
 * machine starts, and what was known of it is then known of that one. */
uint64_t file_device_print(dev_t device);
/* The print as text; "W/" comes before it (weak) while a further change might leave it the same
 * (the change time is less than two seconds old and clocks are coarse). */
void file_etag(const struct stat *st, char out[FILE_ETAG_SIZE]);
int64_t file_modified_ms(const struct stat *st);

/* Asks whether whoever makes the request may see `uri`, too: what a link leads to. */
struct file_policy {
    bool (*may)(const void *request, struct tidings_str uri);
    const void *request;
};

#endif
