/* SPDX-License-Identifier: MIT
 *
 * One open instance of the file provider, as its parts (file*.c) see it.
 *
 * Everything but `watch` is fixed by open and immutable until close, so reads and listings need no
 * lock on any thread. `watch` belongs to the hub thread.
 */
#ifndef SOURCES_FILE_INTERNAL_H
#define SOURCES_FILE_INTERNAL_H

#include <tidings/provider.h>

#include "formats/json.h"
#include "sources/file.h"
#include "sources/file_path.h"

struct file_watch;
struct mime_table;
struct pool;

struct file_provider {
    struct file_root root;
    struct file_settings settings;
    struct mime_table *mime;
    struct pool *pool;
    struct pool *readers;         /* of pieces: they do not wait for whole reads */
    struct file_watch *watch;     /* NULL until the first watch */
    struct file_keeping *keeping; /* NULL: there is no store */
    bool is_open;
};

/* Returns true if the policy allows the path that links led to. */
bool file_policy_allows(const struct file_provider *f, const struct file_policy *policy,
                        const struct buf *target, bool is_directory);

/* Finds the path and file state of `uri`. It accepts only regular files and directories, and a
 * trailing '/' only for a directory. A link to a hidden target counts as missing. */
int file_resolve(const struct file_provider *f, struct tidings_str uri, struct buf *path,
                 struct file_info *ret, const struct file_policy *policy,
                 struct tidings_error *err);

/* Describes the resource at `uri` (spelled as the kind requires). `name` is the last segment, raw.
 * The row borrows all three. Returns false if the name does not determine the type of a file, which
 * then is application/octet-stream. */
bool file_describe(const struct file_provider *f, struct tidings_str uri, struct tidings_str name,
                   const struct file_info *info, char etag[FILE_ETAG_SIZE],
                   struct tidings_resource *row);

/* If `row` describes, at `path` below `dir` (file_open_beneath), the SKILL.md of a skill: sets its
 * name and description. Returns the owner of these strings, for jv_unref; or NULL. */
struct json *file_skill_describe(const struct file_provider *f, int dir, const char *path,
                                 struct tidings_resource *row);

/* Operations of the table in separate files. */
void provider_file_read(struct tidings_provider *p, struct tidings_read *read,
                        struct tidings_str uri);
void provider_file_list(struct tidings_provider *p, struct tidings_list *list);
void provider_file_children(struct tidings_provider *p, struct tidings_list *list,
                            struct tidings_str uri);

void provider_file_complete(struct tidings_provider *p, struct tidings_complete *complete,
                            struct tidings_str uri_template);

#endif
