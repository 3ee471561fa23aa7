/* SPDX-License-Identifier: MIT
 *
 * The table of allocation functions, and the version.
 *
 * Invariant: a successful call never returns NULL, also for size 0, so that NULL always means
 * failure. The table is set before anything else runs, hence no lock. It deliberately keeps no
 * statistics: a test or a host counts in its own functions.
 */
#include "base/mem.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include <tidings/types.h>

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
    /* Half a table would free with one allocator what another gave: all three, or libc's. */
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
        return calloc(1, size ? size : 1); /* knows which pages are zero already */
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
#define KEPT_AFTER_TRIM (128 * 1024)
#define CONSOLIDATED (96 * 1024) /* freeing so much makes libc look at the end of its memory */

static bool is_bounded;

void mem_bound_kept(void)
{
    is_bounded = mallopt(M_MMAP_THRESHOLD, KEPT) == 1 && mallopt(M_TRIM_THRESHOLD, KEPT) == 1;
}

/* malloc_trim leaves alone the end of every thread's memory but the first's. */
void mem_trim(void)
{
    if (table.alloc != malloc) {
        return;
    }
    if (is_bounded) {
        mallopt(M_TRIM_THRESHOLD, KEPT_AFTER_TRIM);
        mem_free(mem_alloc(CONSOLIDATED));
        mallopt(M_TRIM_THRESHOLD, KEPT);
    }
    (void)malloc_trim(0);
}
#else
void mem_bound_kept(void)
{
}

void mem_trim(void)
{
}
#endif
