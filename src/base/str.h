/* SPDX-License-Identifier: MIT
 *
 * Slices (struct tidings_str, passed by value) and the growing buffer.
 *
 * struct buf owns its bytes, is always NUL-terminated unless empty, and has a maximum size: growing
 * past it fails with TIDINGS_E_LIMIT instead of using up the machine's memory. A failed append
 * leaves the contents unchanged and sets `failed`, which sticks: a writer can append many pieces
 * and check once at the end. Appending is inline: a response consists of hundreds of small pieces,
 * nearly all of which fit.
 */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <string.h>

#include <tidings/types.h>

#define STR(literal) ((struct tidings_str){(literal), sizeof(literal) - 1})
#define STR_ARG(s) (int)(s).len, (s).ptr /* for "%.*s" */
/* The same, truncated after `max` bytes. */
#define STR_ARG_MAX(s, max) (int)((s).len < (max) ? (s).len : (max)), (s).ptr
#define STR_EMPTY ((struct tidings_str){"", 0})

bool str_eq(struct tidings_str a, struct tidings_str b);
bool str_eq_nocase(struct tidings_str a, struct tidings_str b); /* ASCII */
int str_cmp(struct tidings_str a, struct tidings_str b);        /* by bytes, shorter first */
bool str_starts(struct tidings_str s, struct tidings_str prefix);
bool str_ends(struct tidings_str s, struct tidings_str suffix);
struct tidings_str str_trim(struct tidings_str s, const char *set); /* both ends */
struct tidings_str str_skip(struct tidings_str s, size_t n);        /* n > len: empty */
/* Splits at the first `c`: returns the part before it and sets *rest to the part after it. Without
 * `c`: returns everything, with *rest empty and *found false (found may be NULL). */
struct tidings_str str_cut(struct tidings_str s, char c, struct tidings_str *rest, bool *found);
/* Position of the first `c`, or -1. */
ptrdiff_t str_find(struct tidings_str s, char c);
/* A heap copy, NUL-terminated, freed with mem_free; NULL: out of memory. */
char *str_dup(struct tidings_str s);
/* Frees a secret string; NULL is fine. */
void str_free_secret(char *s);
/* Copies `s` to *at, moves *at after it and returns the copy: for strings in one block with their
 * owner. */
struct tidings_str str_pack(char **at, struct tidings_str s);
/* Strict decimal: digits only (one leading '-' for the signed variant), no overflow. */
bool str_to_u64(struct tidings_str s, uint64_t *out);
bool str_to_i64(struct tidings_str s, int64_t *out);
/* 64 bits, fast, the same for the same seed on every run; not cryptographic. A table with untrusted
 * keys draws a secret seed. */
uint64_t str_hash(struct tidings_str s, uint64_t seed);
bool str_is_utf8(struct tidings_str s); /* strict: no overlong forms, surrogates, > U+10FFFF */

struct buf {
    char *ptr; /* NULL until it grows */
    size_t len;
    size_t cap;
    size_t max;
    int failed; /* 0, TIDINGS_E_LIMIT or TIDINGS_E_NOMEM */
    bool is_secret;
};

void buf_init(struct buf *b, size_t max_bytes);
/* For secrets: wipes memory when it is released, including on growth (but not detached memory). */
void buf_init_secret(struct buf *b, size_t max_bytes);
void buf_deinit(struct buf *b);                  /* frees; the buffer may be reused */
void buf_clear(struct buf *b);                   /* len 0 and failed 0, keeps the memory */
int buf_reserve_one(struct buf *b, size_t more); /* for buf_reserve */

/* Room for `more` bytes beyond len. */
static inline int buf_reserve(struct buf *b, size_t more)
{
    return !b->failed && more < b->cap - b->len ? 0 : buf_reserve_one(b, more);
}

static inline int buf_put(struct buf *b, const void *bytes, size_t len)
{
    int rc = buf_reserve(b, len);
    if (rc < 0) {
        return rc;
    }
    if (len) {
        memcpy(b->ptr + b->len, bytes, len);
        b->len += len;
    }
    b->ptr[b->len] = '\0';
    return 0;
}

static inline int buf_puts(struct buf *b, struct tidings_str s)
{
    return buf_put(b, s.ptr, s.len);
}

static inline int buf_putc(struct buf *b, char c)
{
    int rc = buf_reserve(b, 1);
    if (rc < 0) {
        return rc;
    }
    b->ptr[b->len++] = c;
    b->ptr[b->len] = '\0';
    return 0;
}

int buf_putf(struct buf *b, const char *fmt, ...) TIDINGS_PRINTF(2, 3);
int buf_putu(struct buf *b, uint64_t n); /* decimal */
int buf_puti(struct buf *b, int64_t n);
void buf_consume(struct buf *b, size_t n); /* drop n bytes from the front (memmove) */
static inline struct tidings_str buf_str(const struct buf *b)
{
    return b->ptr ? tidings_strn(b->ptr, b->len) : STR_EMPTY;
}

/* 0 if no append failed. Otherwise the error with the reason: TIDINGS_E_NOMEM, "WHAT ran out of
 * memory; try again later", or TIDINGS_E_LIMIT, "WHAT is larger than 1024 bytes; ADVICE" (NULL: no
 * advice). */
int buf_check(const struct buf *b, const char *what, const char *advice, struct tidings_error *err);

/* Transfers the memory to the caller (mem_free it); the buffer is then empty. NULL if nothing was
 * ever added. `len` may be NULL. */
char *buf_detach(struct buf *b, size_t *len);

/* -------------------------------------------------------------------------------------------------
 * Checks text in pieces for valid UTF-8. Detects an error at the first invalid byte, wherever
 * pieces end. As strict as str_is_utf8.
 */

/* Zeroed: initial state. */
struct utf8_pieces {
    unsigned char missing;   /* missing bytes of the last character */
    unsigned char low, high; /* range of the next byte */
};

/* Adds a piece. False: the text is not valid UTF-8, whatever follows; then add no more. */
bool utf8_pieces_add(struct utf8_pieces *u, struct tidings_str piece);
/* Returns true if no character is incomplete. */
static inline bool utf8_pieces_end(const struct utf8_pieces *u)
{
    return u->missing == 0;
}

#endif
