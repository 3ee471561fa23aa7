/* SPDX-License-Identifier: MIT
 *
 * Memory: all allocations go through this table, so that a host can replace it
 * (tidings_set_allocator) and a test can fail the n-th call. Failure is NULL, never an abort.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>

#include <tidings/types.h>

void *mem_alloc(size_t size);
void *mem_zalloc(size_t size);
void *mem_realloc(void *p, size_t size);
void mem_free(void *p); /* NULL is fine */
/* The same for secrets: wipes its `size` bytes first. */
void mem_free_secret(void *p, size_t size);
/* Returns this thread's freed memory to the system, and whole free pages of other threads:
 * otherwise libc keeps it. Takes some milliseconds for 100 MB in small blocks. Does nothing with a
 * host's allocator. */
void mem_trim(void);
/* For our own programs, once, before threads start: bounds the freed memory that libc keeps (8 MiB
 * per thread), and lets mem_trim release all of it. By default, libc keeps more after each large
 * block that is freed. */
void mem_bound_retained(void);

/* The same two for providers; <tidings/provider.h> declares them publicly. */
TIDINGS_API void *tidings_alloc(size_t bytes);
TIDINGS_API void tidings_free(void *memory);

/* -------------------------------------------------------------------------------------------------
 * Bump allocator, freed as a whole: scratch memory of one request, parse or compilation. Blocks
 * come from mem_alloc; with a limit on the total, hostile input fails with NULL instead of growing
 * without bound.
 */

struct arena_block;

struct arena {
    struct arena_block *head;
    size_t used;
    size_t max;
};

void arena_init(struct arena *a, size_t max_bytes);
void arena_reset(struct arena *a); /* frees everything except one small block */
void arena_deinit(struct arena *a);
void *arena_alloc(struct arena *a, size_t size); /* zeroed, aligned for any type; NULL when full */
/* A NUL-terminated copy; ptr NULL when full. */
struct tidings_str arena_dup(struct arena *a, struct tidings_str s);

#endif
