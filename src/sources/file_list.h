/* SPDX-License-Identifier: MIT
 *
 * The names of one directory, read at once and returned one by one in the order of their URIs.
 */
#ifndef SOURCES_FILE_LIST_H
#define SOURCES_FILE_LIST_H

#include "sources/file_path.h"

struct file_provider;

/* Offsets into the text; both strings are NUL-terminated there. `begin` is the first bytes of the
 * encoded name as a number, which usually decides the order. */
struct file_name {
    uint64_t begin;
    uint32_t raw;
    uint32_t encoded;
    uint16_t raw_len;
    uint16_t encoded_len; /* with the '/' of a directory */
    bool is_directory;
    bool is_link;
};

struct file_names {
    struct buf text;
    struct file_name *heap; /* smallest encoded name first */
    size_t count;
    size_t cap;
    size_t budget; /* how many more may be read */
};

/* Calls for each entry of a directory, in the order of the URIs, with its name and its URI segment
 * (a directory's with its '/'), until it returns false. Omits names with hidden targets. */
typedef bool (*file_name_fn)(void *user, struct tidings_str name, struct tidings_str segment);
int file_each_name(const struct file_provider *f, struct tidings_str path,
                   const struct file_policy *policy, file_name_fn fn, void *user,
                   struct tidings_error *err);

#endif
