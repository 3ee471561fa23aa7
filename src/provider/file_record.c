/* SPDX-License-Identifier: MIT
 *
 * Writes and reads the records of directories (provider/file_record.h).
 */
#include "provider/file_record.h"

#include <string.h>

#include "provider/file_path.h"

#define RECORD_VERSION 1
#define RECORD_COMPLETE 1
#define HEAD_BYTES 2u
#define SUM_BYTES 8u
#define ENTRY_BYTES 14u /* before the name */

static const unsigned record_kinds = FILE_NODE_PRESENT | FILE_NODE_DIRECTORY | FILE_NODE_LINK;

static void record_put(struct buf *out, uint64_t n, size_t bytes)
{
    char text[8];
    for (size_t i = 0; i < bytes; i++, n >>= 8) {
        text[i] = (char)(n & 0xff);
    }
    buf_put(out, text, bytes);
}

static uint64_t record_get(const char *at, size_t bytes)
{
    uint64_t n = 0;
    while (bytes > 0) {
        n = n << 8 | (unsigned char)at[--bytes];
    }
    return n;
}

static uint64_t record_sum(struct tidings_str path, struct tidings_str body)
{
    return str_hash(body, str_hash(path, FILE_RECORD_SEED));
}

/* ---- writing --------------------------------------------------------------------------------- */

static void write_entry(const struct file_node *node, file_record_target_fn target, struct buf *out)
{
    record_put(out, node->flags & record_kinds, 1);
    record_put(out, node->name_len, 1);
    record_put(out, node->print, 8);
    record_put(out, node->inode, 4);
    buf_puts(out, file_node_name(node));
    if (node->flags & FILE_NODE_LINK) {
        struct tidings_str to = target(node);
        to.len = to.len < FILE_WHERE_SIZE ? to.len : 0;
        record_put(out, to.len, 2);
        buf_puts(out, to);
    }
}

void file_record_write(const struct file_node *dir, struct tidings_str path,
                       file_record_target_fn target, struct buf *out)
{
    size_t begun = out->len;
    record_put(out, RECORD_VERSION, 1);
    record_put(out, dir->flags & FILE_NODE_COMPLETE ? RECORD_COMPLETE : 0, 1);
    for (const struct file_node *child = dir->children; child; child = child->next) {
        if (child->flags & FILE_NODE_KNOWN) {
            write_entry(child, target, out);
        }
    }
    if (!out->failed) {
        record_put(out, record_sum(path, str_skip(buf_str(out), begun)), SUM_BYTES);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool record_name_is_valid(struct tidings_str name)
{
    return name.len > 0 && !memchr(name.ptr, '/', name.len) && !memchr(name.ptr, '\0', name.len) &&
           !str_eq(name, STR(".")) && !str_eq(name, STR(".."));
}

/* Only what is there is of a kind and has a print. */
static bool record_kind_is_valid(unsigned kind, uint64_t print)
{
    return (kind & ~record_kinds) == 0 && ((kind & FILE_NODE_PRESENT) || (kind == 0 && print == 0));
}

/* Take the first `len` bytes off `rest`. */
static bool record_take(struct tidings_str *rest, size_t len, struct tidings_str *ret)
{
    if (rest->len < len) {
        return false;
    }
    *ret = tidings_strn(rest->ptr, len);
    *rest = str_skip(*rest, len);
    return true;
}

static int read_entry(struct file_tree *t, struct file_node *dir, struct tidings_str *rest,
                      file_record_lead_fn lead, void *user)
{
    struct tidings_str head, name, len, target = STR_EMPTY;
    if (!record_take(rest, ENTRY_BYTES, &head) ||
        !record_take(rest, (unsigned char)head.ptr[1], &name)) {
        return TIDINGS_E_PARSE;
    }
    unsigned kind = (unsigned char)head.ptr[0];
    uint64_t print = record_get(head.ptr + 2, 8);
    bool is_link = (kind & FILE_NODE_LINK) != 0;
    if (!record_name_is_valid(name) || !record_kind_is_valid(kind, print) ||
        (is_link && (!record_take(rest, 2, &len) ||
                     !record_take(rest, (size_t)record_get(len.ptr, 2), &target))) ||
        target.len >= FILE_WHERE_SIZE || (target.len > 0 && memchr(target.ptr, 0, target.len)) ||
        file_tree_find(t, dir, name)) {
        return TIDINGS_E_PARSE;
    }
    struct file_node *node = file_tree_add(t, dir, name);
    if (!node) {
        return t->count >= t->max ? TIDINGS_E_LIMIT : TIDINGS_E_NOMEM;
    }
    node->flags = (uint16_t)(FILE_NODE_KNOWN | kind);
    node->print = print;
    node->inode = (uint32_t)record_get(head.ptr + 10, 4);
    return is_link ? lead(user, node, target) : 0;
}

int file_record_read(struct file_tree *t, struct file_node *dir, struct tidings_str path,
                     struct tidings_str record, file_record_lead_fn lead, void *user)
{
    if (record.len < HEAD_BYTES + SUM_BYTES || record.ptr[0] != RECORD_VERSION ||
        (record.ptr[1] & ~RECORD_COMPLETE) != 0) {
        return TIDINGS_E_PARSE;
    }
    struct tidings_str body = tidings_strn(record.ptr, record.len - SUM_BYTES);
    if (record_get(body.ptr + body.len, SUM_BYTES) != record_sum(path, body)) {
        return TIDINGS_E_PARSE;
    }
    struct tidings_str rest = str_skip(body, HEAD_BYTES);
    int rc = 0;
    while (rc == 0 && rest.len > 0) {
        rc = read_entry(t, dir, &rest, lead, user);
    }
    if (rc == 0 && (record.ptr[1] & RECORD_COMPLETE)) {
        dir->flags |= FILE_NODE_COMPLETE;
    }
    return rc;
}
