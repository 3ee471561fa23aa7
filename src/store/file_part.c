/* SPDX-License-Identifier: MIT
 *
 * Making, filling and reading a part of what a file mount knows of its tree.
 */
#include "store/file_part.h"

#include "base/mem.h"
#include "store/change.h"

#define DIRECTORIES_MAX (1u << 30) /* one directory may be larger than a part should be */
#define GONE_MAX (1u << 30)

struct part_lengths {
    uint32_t path, record;
};

struct file_part *file_part_create(struct tidings_str prefix)
{
    struct file_part *part = mem_zalloc(sizeof(*part));
    if (part) {
        part->prefix = prefix;
        buf_init(&part->gone, GONE_MAX);
        buf_init(&part->directories, DIRECTORIES_MAX);
    }
    return part;
}

void file_part_free(struct file_part *part)
{
    if (!part) {
        return;
    }
    for (size_t i = 0; i < part->change_count; i++) {
        change_unref(part->changes[i].change);
    }
    for (size_t i = 0; i < part->scope_count; i++) {
        mem_free((char *)(uintptr_t)part->scopes[i].uri.ptr);
    }
    mem_free(part->changes);
    mem_free(part->scopes);
    buf_deinit(&part->gone);
    buf_deinit(&part->directories);
    mem_free(part);
}

size_t file_part_begin(struct file_part *part, struct tidings_str path)
{
    struct part_lengths lengths = {.path = (uint32_t)path.len};
    size_t begun = part->directories.len;
    buf_put(&part->directories, &lengths, sizeof lengths);
    buf_puts(&part->directories, path);
    return begun;
}

void file_part_end(struct file_part *part, size_t begun)
{
    struct buf *out = &part->directories;
    struct part_lengths lengths;
    if (!out->failed) {
        memcpy(&lengths, out->ptr + begun, sizeof lengths);
        lengths.record = (uint32_t)(out->len - begun - sizeof lengths - lengths.path);
        memcpy(out->ptr + begun, &lengths, sizeof lengths);
    }
}

bool file_part_next(const struct file_part *part, size_t *at, struct tidings_str *ret_path,
                    struct tidings_str *ret_record)
{
    struct tidings_str all = buf_str(&part->directories);
    struct part_lengths lengths;
    if (*at >= all.len) {
        return false;
    }
    memcpy(&lengths, all.ptr + *at, sizeof lengths);
    *ret_path = tidings_strn(all.ptr + *at + sizeof lengths, lengths.path);
    *ret_record = tidings_strn(ret_path->ptr + lengths.path, lengths.record);
    *at += sizeof lengths + lengths.path + lengths.record;
    return true;
}
