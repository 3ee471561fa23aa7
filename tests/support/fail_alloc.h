/* SPDX-License-Identifier: MIT
 *
 * An allocator that fails on purpose, for "whatever allocation fails, the operation reports it and
 * nothing leaks":
 *
 *     for (long n = 1; ; n++) {
 *         fail_alloc_start(n);           // the n-th allocation from here fails, once
 *         int rc = operation();
 *         bool reached = fail_alloc_stop();
 *         ... check rc; undo the operation ...
 *         assert_int_equal(fail_alloc_live(), 0);
 *         if (!reached) break;           // fewer than n: it succeeded
 *     }
 *
 * One state per program (the functions are static: include it from one file only). If several
 * threads allocate at once, any of them may get the failure.
 */
#ifndef SUPPORT_FAIL_ALLOC_H
#define SUPPORT_FAIL_ALLOC_H

/* cmocka puts its own in front of these when UNIT_TESTING is set; here libc's are meant. */
#undef malloc
#undef calloc
#undef realloc
#undef free
#include <stdlib.h>

#include <tidings/types.h>

#include "support/fail_alloc_hold.h"

static struct {
    long until_failure; /* 0: never */
    bool is_lasting;    /* those after it fail too */
    bool has_failed;
    bool is_installed;
    long live;
} fail_alloc;

static inline bool fail_alloc_is_due(void)
{
    if (__atomic_load_n(&fail_alloc_held, __ATOMIC_RELAXED) > 0) {
        return false;
    }
    if (__atomic_load_n(&fail_alloc.is_lasting, __ATOMIC_RELAXED) &&
        __atomic_load_n(&fail_alloc.has_failed, __ATOMIC_ACQUIRE)) {
        return true;
    }
    if (__atomic_load_n(&fail_alloc.until_failure, __ATOMIC_RELAXED) > 0 &&
        __atomic_sub_fetch(&fail_alloc.until_failure, 1, __ATOMIC_RELAXED) == 0) {
        __atomic_store_n(&fail_alloc.has_failed, true, __ATOMIC_RELEASE);
        return true;
    }
    return false;
}

static inline void *fail_alloc_alloc(size_t size)
{
    void *p = fail_alloc_is_due() ? NULL : malloc(size);
    __atomic_add_fetch(&fail_alloc.live, p != NULL, __ATOMIC_RELAXED);
    return p;
}

static inline void *fail_alloc_resize(void *p, size_t size)
{
    if (!p) {
        return fail_alloc_alloc(size);
    }
    return fail_alloc_is_due() ? NULL : realloc(p, size);
}

static inline void fail_alloc_release(void *p)
{
    __atomic_sub_fetch(&fail_alloc.live, p != NULL, __ATOMIC_RELAXED);
    free(p);
}

/* From now on count, and fail the n-th allocation (0: none). Keeps the count of live ones. */
static inline void fail_alloc_start(long n)
{
    __atomic_store_n(&fail_alloc.until_failure, n, __ATOMIC_RELAXED);
    __atomic_store_n(&fail_alloc.has_failed, false, __ATOMIC_RELAXED);
    __atomic_store_n(&fail_alloc.is_lasting, false, __ATOMIC_RELAXED);
    if (!fail_alloc.is_installed) { /* once: other threads may be allocating by now */
        tidings_set_allocator(fail_alloc_alloc, fail_alloc_resize, fail_alloc_release);
        fail_alloc.is_installed = true;
    }
}

/* The same, and all after it fail too, until fail_alloc_stop. */
static inline void fail_alloc_start_lasting(long n)
{
    fail_alloc_start(n);
    __atomic_store_n(&fail_alloc.is_lasting, true, __ATOMIC_RELAXED);
}

/* No more failures; still counts. Was the n-th allocation reached? */
static inline bool fail_alloc_stop(void)
{
    __atomic_store_n(&fail_alloc.until_failure, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&fail_alloc.is_lasting, false, __ATOMIC_RELAXED);
    return __atomic_load_n(&fail_alloc.has_failed, __ATOMIC_ACQUIRE);
}

/* Allocations since the first start that were not freed. */
static inline long fail_alloc_live(void)
{
    return __atomic_load_n(&fail_alloc.live, __ATOMIC_RELAXED);
}

/* Back to malloc. Nothing may be live. */
static inline void fail_alloc_end(void)
{
    fail_alloc.is_installed = false;
    tidings_set_allocator(NULL, NULL, NULL);
}

#endif
