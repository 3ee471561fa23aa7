/* SPDX-License-Identifier: MIT
 *
 * Bump allocator. Invariant: `used` is the sum of what was handed out, rounded up to the alignment,
 * and never exceeds `max`; the head is the block that is being filled, so a piece too large to
 * share a block goes behind it. Deliberately no freeing of single pieces.
 */
#include "base/arena.h"

#include <stddef.h>
#include <string.h>

#include "base/mem.h"

#define ARENA_ALIGN _Alignof(max_align_t)
#define ARENA_SMALL_BLOCK 4000u /* with its header and malloc's it stays below one page */
#define ARENA_LARGE_BLOCK 64000u

struct arena_block {
    struct arena_block *next;
    size_t used;
    size_t cap;
    _Alignas(max_align_t) unsigned char bytes[];
};

void arena_init(struct arena *a, size_t max_bytes)
{
    *a = (struct arena){.max = max_bytes};
}

static void free_blocks(struct arena_block *block)
{
    while (block) {
        struct arena_block *next = block->next;
        mem_free(block);
        block = next;
    }
}

void arena_reset(struct arena *a)
{
    struct arena_block *kept = NULL;
    for (struct arena_block **at = &a->head; *at; at = &(*at)->next) {
        if ((*at)->cap == ARENA_SMALL_BLOCK) {
            kept = *at;
            *at = kept->next;
            kept->next = NULL;
            kept->used = 0;
            break;
        }
    }
    free_blocks(a->head);
    a->head = kept;
    a->used = 0;
}

void arena_deinit(struct arena *a)
{
    free_blocks(a->head);
    *a = (struct arena){.max = a->max};
}

static struct arena_block *block_create(size_t cap)
{
    struct arena_block *block = mem_alloc(sizeof *block + cap);
    if (block) {
        block->next = NULL;
        block->used = 0;
        block->cap = cap;
    }
    return block;
}

/* A block with room for `size` bytes. */
static struct arena_block *arena_room(struct arena *a, size_t size)
{
    struct arena_block *head = a->head;
    if (head && head->cap - head->used >= size) {
        return head;
    }
    size_t cap = !head || a->used < ARENA_LARGE_BLOCK ? ARENA_SMALL_BLOCK : ARENA_LARGE_BLOCK;
    if (size > cap / 2) {
        struct arena_block *own = block_create(size);
        if (own && head) {
            own->next = head->next;
            head->next = own;
        } else if (own) {
            a->head = own;
        }
        return own;
    }
    struct arena_block *block = block_create(cap);
    if (block) {
        block->next = head;
        a->head = block;
    }
    return block;
}

void *arena_alloc(struct arena *a, size_t size)
{
    size_t left = a->max - a->used;
    if (size == 0) {
        size = 1;
    }
    if (size > left || size > PTRDIFF_MAX - 2 * ARENA_ALIGN - sizeof(struct arena_block)) {
        return NULL;
    }
    size_t rounded = (size + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    struct arena_block *block = arena_room(a, rounded);
    if (!block) {
        return NULL;
    }
    void *p = block->bytes + block->used;
    block->used += rounded;
    a->used += rounded < left ? rounded : left;
    memset(p, 0, size);
    return p;
}

struct tidings_str arena_dup(struct arena *a, struct tidings_str s)
{
    char *copy = s.len < SIZE_MAX ? arena_alloc(a, s.len + 1) : NULL;
    if (!copy) {
        return tidings_strn(NULL, 0);
    }
    if (s.len) {
        memcpy(copy, s.ptr, s.len);
    }
    return tidings_strn(copy, s.len);
}
