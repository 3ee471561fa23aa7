/* SPDX-License-Identifier: MIT
 *
 * Every allocation of ours goes through this table, so that a host can replace it
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
/* The same for what held a secret: its `size` bytes are wiped first. */
void mem_free_secret(void *p, size_t size);
/* What this thread has freed goes back to the system, and what others have as far as it is whole
 * pages inside: libc keeps it otherwise. Takes some milliseconds for 100 MB in small pieces.
 * Nothing with an allocator of the host's. */
void mem_trim(void);
/* For a program of our own, once, before threads: what libc keeps of freed memory is bounded (8 MiB
 * for each thread), and mem_trim may have all of it. libc would learn to keep more with every large
 * block that is freed. */
void mem_bound_retained(void);

/* The same two for providers; <tidings/provider.h> declares them for the public. */
TIDINGS_API void *tidings_alloc(size_t bytes);
TIDINGS_API void tidings_free(void *memory);

/* -------------------------------------------------------------------------------------------------
 * Bump allocator freed whole: scratch memory of one request, one parse, one compilation. Blocks
 * come from mem_alloc; a bound on the total makes hostile input fail with NULL instead of growing
 * without end.
 */

struct arena_block;

struct arena {
    struct arena_block *head;
    size_t used;
    size_t max;
};

void arena_init(struct arena *a, size_t max_bytes);
void arena_reset(struct arena *a); /* frees everything but one small block */
void arena_deinit(struct arena *a);
void *arena_alloc(struct arena *a, size_t size); /* zeroed, aligned for anything; NULL when full */
/* A NUL-terminated copy; ptr NULL when full. */
struct tidings_str arena_dup(struct arena *a, struct tidings_str s);

#endif
