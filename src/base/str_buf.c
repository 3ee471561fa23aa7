/* SPDX-License-Identifier: MIT
 *
 * The growing buffer (struct buf of base/str.h).
 *
 * Invariant: ptr is NULL and cap 0, or len < cap, cap <= max + 1 and ptr[len] is NUL. Growth
 * doubles, so that appending is linear in total. Deliberately not safe for bytes that lie inside
 * the buffer itself.
 */
#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define BUF_FIRST_CAP 64u

void buf_init(struct buf *b, size_t max_bytes)
{
    *b = (struct buf){.max = max_bytes < PTRDIFF_MAX ? max_bytes : PTRDIFF_MAX - 1};
}

void buf_init_secret(struct buf *b, size_t max_bytes)
{
    buf_init(b, max_bytes);
    b->is_secret = true;
}

static void buf_release(struct buf *b)
{
    if (b->is_secret) {
        mem_free_secret(b->ptr, b->cap);
    } else {
        mem_free(b->ptr);
    }
}

void buf_deinit(struct buf *b)
{
    buf_release(b);
    *b = (struct buf){.max = b->max, .is_secret = b->is_secret};
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->failed = 0;
    if (b->ptr) {
        b->ptr[0] = '\0';
    }
}

static int buf_grow(struct buf *b, size_t need)
{
    size_t cap = b->cap < BUF_FIRST_CAP ? BUF_FIRST_CAP : b->cap * 2;
    if (cap < need) {
        cap = need;
    }
    if (cap > b->max + 1) {
        cap = b->max + 1;
    }
    /* realloc would leave a copy behind where nobody can wipe it. */
    char *ptr = b->is_secret ? mem_alloc(cap) : mem_realloc(b->ptr, cap);
    if (!ptr) {
        return b->failed = TIDINGS_E_NOMEM;
    }
    if (b->is_secret && b->ptr) {
        memcpy(ptr, b->ptr, b->len);
        buf_release(b);
    }
    ptr[b->len] = '\0';
    b->ptr = ptr;
    b->cap = cap;
    return 0;
}

int buf_make_room(struct buf *b, size_t more)
{
    if (b->failed) {
        return b->failed;
    }
    if (more > b->max - b->len) {
        return b->failed = TIDINGS_E_LIMIT;
    }
    size_t need = b->len + more + 1;
    return need <= b->cap ? 0 : buf_grow(b, need);
}

int buf_putf(struct buf *b, const char *fmt, ...)
{
    int rc = buf_reserve(b, 0);
    if (rc < 0) {
        return rc;
    }
    size_t room = b->cap - b->len;
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(b->ptr + b->len, room, fmt, args);
    va_end(args);
    if (n >= 0 && (size_t)n < room) {
        b->len += (size_t)n;
        return 0;
    }
    b->ptr[b->len] = '\0';
    if (n < 0) {
        return b->failed = TIDINGS_E_LIMIT; /* longer than an int can say */
    }
    rc = buf_reserve(b, (size_t)n);
    if (rc < 0) {
        return rc;
    }
    va_start(args, fmt);
    (void)vsnprintf(b->ptr + b->len, (size_t)n + 1, fmt, args);
    va_end(args);
    b->len += (size_t)n;
    return 0;
}

/* Writes the digits before `end` and returns their start. */
static char *decimal(char *end, uint64_t n)
{
    do {
        *--end = (char)('0' + n % 10);
        n /= 10;
    } while (n);
    return end;
}

int buf_putu(struct buf *b, uint64_t n)
{
    char digits[20];
    char *start = decimal(digits + sizeof digits, n);
    return buf_put(b, start, (size_t)(digits + sizeof digits - start));
}

int buf_puti(struct buf *b, int64_t n)
{
    char digits[21];
    char *start = decimal(digits + sizeof digits, n < 0 ? 0 - (uint64_t)n : (uint64_t)n);
    if (n < 0) {
        *--start = '-';
    }
    return buf_put(b, start, (size_t)(digits + sizeof digits - start));
}

void buf_consume(struct buf *b, size_t n)
{
    if (n >= b->len) {
        n = b->len;
    }
    if (n == 0) {
        return;
    }
    b->len -= n;
    memmove(b->ptr, b->ptr + n, b->len);
    b->ptr[b->len] = '\0';
}

char *buf_detach(struct buf *b, size_t *len)
{
    char *ptr = b->ptr;
    if (len) {
        *len = b->len;
    }
    *b = (struct buf){.max = b->max, .is_secret = b->is_secret};
    return ptr;
}

int buf_check(const struct buf *b, const char *what, const char *advice, struct tidings_error *err)
{
    if (!b->failed) {
        return 0;
    }
    if (b->failed == TIDINGS_E_LIMIT) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "%s is larger than %zu bytes%s%s", what, b->max,
                            advice ? "; " : "", advice ? advice : "");
    }
    return tidings_fail(err, b->failed, "%s ran out of memory; try again later", what);
}
