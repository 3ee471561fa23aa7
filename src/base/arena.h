/* SPDX-License-Identifier: MIT
 *
 * Bump allocator freed whole: scratch memory of one request, one parse, one compilation. Blocks
 * come from mem_alloc; a bound on the total makes hostile input fail with NULL instead of growing
 * without end.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <tidings/types.h>

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
