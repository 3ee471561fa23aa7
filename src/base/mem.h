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

/* The same two for providers; <tidings/provider.h> declares them for the public. */
TIDINGS_API void *tidings_alloc(size_t bytes);
TIDINGS_API void tidings_free(void *memory);

#endif
