/* SPDX-License-Identifier: MIT
 *
 * Counts what malloc really gives, rounding included.
 */
#include "support/counted.h"

#include <malloc.h>
#include <stdlib.h>

#include <tidings/types.h>

static size_t held;

static void add(void *p)
{
    __atomic_add_fetch(&held, p ? malloc_usable_size(p) : 0, __ATOMIC_SEQ_CST);
}

static void subtract(void *p)
{
    __atomic_sub_fetch(&held, p ? malloc_usable_size(p) : 0, __ATOMIC_SEQ_CST);
}

static void *take(size_t size)
{
    void *p = malloc(size);
    add(p);
    return p;
}

static void *resize(void *old, size_t size)
{
    size_t before = old ? malloc_usable_size(old) : 0;
    void *p = realloc(old, size);
    if (p) {
        __atomic_sub_fetch(&held, before, __ATOMIC_SEQ_CST);
        add(p);
    }
    return p;
}

static void release(void *p)
{
    subtract(p);
    free(p);
}

void counted_start(void)
{
    tidings_set_allocator(take, resize, release);
}

size_t counted_bytes(void)
{
    return __atomic_load_n(&held, __ATOMIC_SEQ_CST);
}
