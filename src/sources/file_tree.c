/* SPDX-License-Identifier: MIT
 *
 * The remembered tree of a file watch. One hash table over (parent, name) for the whole tree finds
 * names, because a directory may hold 100,000 names or none; siblings form a list for iteration.
 */
#include "sources/file_tree.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "base/time.h"
#include "sources/file_path.h"

/* ---------------------------------------------------------------------------------------------- */

#define FIRST_SLOTS 64u

int file_tree_init(struct file_tree *t, size_t max)
{
    *t = (struct file_tree){.max = max};
    if (random_bytes(&t->seed, sizeof t->seed) < 0) {
        t->seed = clock_monotonic_ns();
    }
    t->root = mem_zalloc(sizeof *t->root + 1);
    if (!t->root) {
        return TIDINGS_E_NOMEM;
    }
    file_tree_clear(t);
    return 0;
}

void file_tree_clear(struct file_tree *t)
{
    for (size_t i = 0; i < t->slot_count; i++) {
        struct file_node *node = t->slots[i];
        while (node) {
            struct file_node *chain = node->chain;
            mem_free(node);
            node = chain;
        }
    }
    mem_free(t->slots);
    t->slots = NULL;
    t->slot_count = t->count = 0;
    *t->root =
        (struct file_node){.flags = FILE_NODE_PRESENT | FILE_NODE_KNOWN | FILE_NODE_DIRECTORY};
}

void file_tree_deinit(struct file_tree *t)
{
    if (t->root) {
        file_tree_clear(t);
    }
    mem_free(t->root);
    *t = (struct file_tree){0};
}

static uint32_t hash_of(const struct file_tree *t, const struct file_node *dir,
                        struct tidings_str name)
{
    return (uint32_t)str_hash(name, t->seed ^ (uint64_t)(uintptr_t)dir * 0x9E3779B97F4A7C15u);
}

static int file_tree_grow(struct file_tree *t)
{
    size_t count = t->slot_count ? t->slot_count * 2 : FIRST_SLOTS;
    struct file_node **slots = mem_zalloc(count * sizeof(struct file_node *));
    if (!slots) {
        return TIDINGS_E_NOMEM;
    }
    for (size_t i = 0; i < t->slot_count; i++) {
        struct file_node *node = t->slots[i];
        while (node) {
            struct file_node *chain = node->chain;
            struct file_node **slot = &slots[node->hash & (count - 1)];
            node->chain = *slot;
            *slot = node;
            node = chain;
        }
    }
    mem_free(t->slots);
    t->slots = slots;
    t->slot_count = count;
    return 0;
}

static struct file_node *file_tree_find_hashed(const struct file_tree *t,
                                               const struct file_node *dir, struct tidings_str name,
                                               uint32_t hash)
{
    struct file_node *node = t->slot_count ? t->slots[hash & (t->slot_count - 1)] : NULL;
    while (node &&
           (node->hash != hash || node->parent != dir || !str_eq(file_node_name(node), name))) {
        node = node->chain;
    }
    return node;
}

struct file_node *file_tree_find(const struct file_tree *t, const struct file_node *dir,
                                 struct tidings_str name)
{
    return file_tree_find_hashed(t, dir, name, hash_of(t, dir, name));
}

struct file_node *file_tree_add(struct file_tree *t, struct file_node *dir, struct tidings_str name)
{
    uint32_t hash = hash_of(t, dir, name);
    struct file_node *node = file_tree_find_hashed(t, dir, name, hash);
    if (node) {
        return node;
    }
    if (t->count >= t->max || name.len == 0 || name.len > 255 ||
        (t->count >= t->slot_count && file_tree_grow(t) < 0)) {
        return NULL;
    }
    node = mem_alloc(sizeof *node + name.len + 1);
    if (!node) {
        return NULL;
    }
    *node = (struct file_node){
        .parent = dir,
        .next = dir->children,
        .hash = hash,
        .name_len = (uint16_t)name.len,
    };
    memcpy(node->name, name.ptr, name.len);
    node->name[name.len] = '\0';
    if (dir->children) {
        dir->children->prev = node;
    }
    dir->children = node;
    struct file_node **slot = &t->slots[hash & (t->slot_count - 1)];
    node->chain = *slot;
    *slot = node;
    t->count++;
    return node;
}

void file_tree_remove(struct file_tree *t, struct file_node *node)
{
    assert(node->parent && !node->children && !node->extra);
    struct file_node **slot = &t->slots[node->hash & (t->slot_count - 1)];
    while (*slot != node) {
        slot = &(*slot)->chain;
    }
    *slot = node->chain;
    if (node->prev) {
        node->prev->next = node->next;
    } else {
        node->parent->children = node->next;
    }
    if (node->next) {
        node->next->prev = node->prev;
    }
    if (node->flags & FILE_NODE_KNOWN) {
        file_node_set_unsaved(node->parent);
    }
    t->count--;
    mem_free(node);
}

struct file_node *file_tree_walk(const struct file_tree *t, struct tidings_str path)
{
    struct file_node *node = t->root;
    while (node && path.len > 0) {
        struct tidings_str name = str_cut(path, '/', &path, NULL);
        node = file_tree_find(t, node, name);
    }
    return node;
}

struct tidings_str file_node_name(const struct file_node *node)
{
    return tidings_strn(node->name, node->name_len);
}

void file_node_path(const struct file_node *node, struct buf *out)
{
    const struct file_node *chain[256];
    size_t depth = 0;
    for (; node->parent; node = node->parent) {
        assert(depth < sizeof chain / sizeof chain[0]);
        chain[depth++] = node;
    }
    size_t start = out->len;
    buf_reserve(out, 0);
    while (depth > 0) {
        if (out->len > start) {
            buf_putc(out, '/');
        }
        buf_puts(out, file_node_name(chain[--depth]));
    }
}

size_t file_node_depth(const struct file_node *node)
{
    size_t depth = 0;
    for (; node->parent; node = node->parent) {
        depth++;
    }
    return depth;
}

enum file_verdict file_tree_compare(const struct file_node *dir, const struct file_node *node,
                                    const struct file_state *found)
{
    if (!node) {
        return found->is_present && (dir->flags & FILE_NODE_COMPLETE) ? FILE_CREATED : FILE_SAME;
    }
    if (!(node->flags & FILE_NODE_KNOWN)) {
        return FILE_SAME;
    }
    bool was_present = (node->flags & FILE_NODE_PRESENT) != 0;
    if (!was_present || !found->is_present) {
        return was_present == found->is_present ? FILE_SAME
               : was_present                    ? FILE_DELETED
                                                : FILE_CREATED;
    }
    bool was_directory = (node->flags & FILE_NODE_DIRECTORY) != 0;
    bool was_link = (node->flags & FILE_NODE_LINK) != 0;
    if (was_directory != found->is_directory) {
        return FILE_REPLACED;
    }
    if (node->print == found->print && was_link == found->is_link) {
        return FILE_SAME;
    }
    return found->is_directory ? FILE_REPLACED : FILE_UPDATED;
}

void file_node_set_unsaved(struct file_node *dir)
{
    dir->flags |= FILE_NODE_UNSAVED;
    for (dir = dir->parent; dir && !(dir->flags & FILE_NODE_UNSAVED_BELOW); dir = dir->parent) {
        dir->flags |= FILE_NODE_UNSAVED_BELOW;
    }
}

void file_node_set_complete(struct file_node *dir, bool is_complete)
{
    if (is_complete != ((dir->flags & FILE_NODE_COMPLETE) != 0)) {
        dir->flags ^= FILE_NODE_COMPLETE;
        file_node_set_unsaved(dir);
    }
}

void file_node_set(struct file_node *node, const struct file_state *found)
{
    const unsigned kept =
        FILE_NODE_COMPLETE | FILE_NODE_SEEN | FILE_NODE_UNSAVED | FILE_NODE_UNSAVED_BELOW;
    unsigned flags = (node->flags & kept) | FILE_NODE_KNOWN;
    if (found->is_present) {
        flags |= FILE_NODE_PRESENT;
        flags |= found->is_directory ? FILE_NODE_DIRECTORY : 0;
        flags |= found->is_link ? FILE_NODE_LINK : 0;
    }
    uint64_t print = found->is_present ? found->print : 0;
    bool is_same = node->print == print && (node->flags & ~FILE_NODE_RACY) == flags;
    node->print = print;
    node->inode = found->inode;
    node->flags = (uint16_t)flags;
    if (!is_same && node->parent) {
        file_node_set_unsaved(node->parent);
    }
}

/* -------------------------------------------------------------------------------------------------
 * Writes and reads the records of directories (sources/file_tree.h).
 */

#define RECORD_VERSION 1
#define RECORD_COMPLETE 1
#define HEAD_BYTES 2u
#define CHECKSUM_BYTES 8u
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

static uint64_t record_checksum(struct tidings_str path, struct tidings_str body)
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
        record_put(out, record_checksum(path, str_skip(buf_str(out), begun)), CHECKSUM_BYTES);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool record_name_is_valid(struct tidings_str name)
{
    return name.len > 0 && !memchr(name.ptr, '/', name.len) && !memchr(name.ptr, '\0', name.len) &&
           !str_eq(name, STR(".")) && !str_eq(name, STR(".."));
}

/* Only present nodes have a kind and a print. */
static bool record_kind_is_valid(unsigned kind, uint64_t print)
{
    return (kind & ~record_kinds) == 0 && ((kind & FILE_NODE_PRESENT) || (kind == 0 && print == 0));
}

/* Takes the first `len` bytes off `rest`. */
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
    if (record.len < HEAD_BYTES + CHECKSUM_BYTES || record.ptr[0] != RECORD_VERSION ||
        (record.ptr[1] & ~RECORD_COMPLETE) != 0) {
        return TIDINGS_E_PARSE;
    }
    struct tidings_str body = tidings_strn(record.ptr, record.len - CHECKSUM_BYTES);
    if (record_get(body.ptr + body.len, CHECKSUM_BYTES) != record_checksum(path, body)) {
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
