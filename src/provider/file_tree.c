/* SPDX-License-Identifier: MIT
 *
 * The remembered tree of a file watch. Names are found through one hash table over (parent, name)
 * for the whole tree, because a directory may hold 100,000 names or none; siblings form a list for
 * walking.
 */
#include "provider/file_tree.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"

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
