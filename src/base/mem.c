/* SPDX-License-Identifier: MIT
 *
 * Memory: the table of allocation functions; and the version.
 *
 * Invariant: a successful call never returns NULL, not even for size 0, so NULL always means
 * failure. The table is set before anything else runs, hence no lock. It deliberately keeps no
 * statistics: a test or a host counts in its own functions.
 */
#include "base/mem.h"

#include <malloc.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <tidings/types.h>

/* ---------------------------------------------------------------------------------------------- */

static struct {
    void *(*alloc)(size_t);
    void *(*resize)(void *, size_t);
    void (*release)(void *);
} table = {malloc, realloc, free};

const char *tidings_version(void)
{
#define TEXT(x) #x
#define TEXT_OF(x) TEXT(x)
    return TEXT_OF(TIDINGS_VERSION_MAJOR) "." TEXT_OF(TIDINGS_VERSION_MINOR) "." TEXT_OF(
        TIDINGS_VERSION_PATCH);
#undef TEXT_OF
#undef TEXT
}

void tidings_set_allocator(void *(*alloc)(size_t), void *(*resize)(void *, size_t),
                           void (*release)(void *))
{
    /* A partial table would free memory with the wrong allocator: all three functions, or libc's.
     */
    bool whole = alloc && resize && release;
    table.alloc = whole ? alloc : malloc;
    table.resize = whole ? resize : realloc;
    table.release = whole ? release : free;
}

void *tidings_alloc(size_t bytes)
{
    return mem_alloc(bytes);
}

void tidings_free(void *memory)
{
    mem_free(memory);
}

void *mem_alloc(size_t size)
{
    return table.alloc(size ? size : 1);
}

void *mem_zalloc(size_t size)
{
    if (table.alloc == malloc) {
        return calloc(1, size ? size : 1); /* calloc knows which pages are zero already */
    }
    void *p = mem_alloc(size);
    if (p) {
        memset(p, 0, size ? size : 1);
    }
    return p;
}

void *mem_realloc(void *p, size_t size)
{
    return table.resize(p, size ? size : 1);
}

void mem_free(void *p)
{
    if (p) {
        table.release(p);
    }
}

void mem_free_secret(void *p, size_t size)
{
    if (p) {
        explicit_bzero(p, size);
        table.release(p);
    }
}

#ifdef __GLIBC__
#define KEPT (8 * 1024 * 1024)
#define RETAINED_AFTER_TRIM (128 * 1024)
#define CONSOLIDATED (96 * 1024) /* freeing this much makes libc check the end of its heap */

static bool is_bounded;

void mem_bound_retained(void)
{
    is_bounded = mallopt(M_MMAP_THRESHOLD, KEPT) == 1 && mallopt(M_TRIM_THRESHOLD, KEPT) == 1;
}

/* malloc_trim releases the end of the heap only for the first thread. */
void mem_trim(void)
{
    if (table.alloc != malloc) {
        return;
    }
    if (is_bounded) {
        mallopt(M_TRIM_THRESHOLD, RETAINED_AFTER_TRIM);
        mem_free(mem_alloc(CONSOLIDATED));
        mallopt(M_TRIM_THRESHOLD, KEPT);
    }
    (void)malloc_trim(0);
}
#else
void mem_bound_retained(void)
{
}

void mem_trim(void)
{
}
#endif

/* -------------------------------------------------------------------------------------------------
 * Bump allocator. Invariant: `used` is the sum of the allocations, rounded up to the alignment, and
 * never exceeds `max`; the head is the block that is being filled, so an allocation too large to
 * share a block goes after it. Deliberately cannot free single allocations.
 */

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

/* Adds a block with room for `size` bytes. */
static struct arena_block *arena_reserve(struct arena *a, size_t size)
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
    struct arena_block *block = arena_reserve(a, rounded);
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
