/* SPDX-License-Identifier: MIT
 *
 * An allocator that looks for a secret in whatever is given back to it.
 *
 *     secret_alloc_start(STR("the secret"));
 *     …
 *     assert_int_equal(secret_alloc_stop(), 0);   // so many blocks still held it
 *
 * To be included before <cmocka.h>, whose own functions in the place of malloc know no threads.
 */
#ifndef SUPPORT_SECRET_ALLOC_H
#define SUPPORT_SECRET_ALLOC_H

#include <stdlib.h>
#include <string.h>

#include <tidings/types.h>

#define SECRET_ALLOC_HEAD 16u /* the size precedes the block */

static struct {
    struct tidings_str secret; /* empty: no search yet */
    long found;                /* atomic */
} secret_alloc;

static inline size_t secret_alloc_size(const void *p)
{
    size_t size;
    memcpy(&size, (const char *)p - SECRET_ALLOC_HEAD, sizeof size);
    return size;
}

static inline void *secret_alloc_alloc(size_t size)
{
    char *p = malloc(size + SECRET_ALLOC_HEAD);
    if (!p) {
        return NULL;
    }
    memcpy(p, &size, sizeof size);
    memset(p + SECRET_ALLOC_HEAD, 0x5a, size); /* its earlier contents are not ours */
    return p + SECRET_ALLOC_HEAD;
}

static inline void secret_alloc_release(void *p)
{
    if (p) {
        const struct tidings_str *secret = &secret_alloc.secret;
        if (secret->len > 0 && memmem(p, secret_alloc_size(p), secret->ptr, secret->len)) {
            __atomic_add_fetch(&secret_alloc.found, 1, __ATOMIC_RELAXED);
        }
        free((char *)p - SECRET_ALLOC_HEAD);
    }
}

static inline void *secret_alloc_resize(void *p, size_t size)
{
    void *fresh = secret_alloc_alloc(size);
    if (fresh && p) {
        size_t old = secret_alloc_size(p);
        memcpy(fresh, p, old < size ? old : size);
        secret_alloc_release(p);
    }
    return fresh;
}

/* Nothing may be live. */
static inline void secret_alloc_start(struct tidings_str secret)
{
    secret_alloc.secret = secret;
    secret_alloc.found = 0;
    tidings_set_allocator(secret_alloc_alloc, secret_alloc_resize, secret_alloc_release);
}

/* Back to malloc; likewise. Returns how many blocks held it when they were freed. */
static inline long secret_alloc_stop(void)
{
    tidings_set_allocator(NULL, NULL, NULL);
    return __atomic_load_n(&secret_alloc.found, __ATOMIC_RELAXED);
}

#endif
