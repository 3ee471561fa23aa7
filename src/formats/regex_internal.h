/* SPDX-License-Identifier: MIT
 *
 * Internal structure of a compiled regex, and the steps of compilation. Private to
 * formats/regex*.c.
 *
 *     source --regex_parse--> tree --regex_create--> program --regex_search--> found or not
 *
 * Characters that the regex does not distinguish share a *column*, and a set of characters is a row
 * of one byte per column.
 */
#ifndef FORMATS_REGEX_INTERNAL_H
#define FORMATS_REGEX_INTERNAL_H

#include "base/mem.h"
#include "base/str.h"
#include "formats/regex.h"

#define REGEX_LAST_BYTE 0xffu
#define REGEX_LAST_CHARACTER 0x10ffffu

/* ---- sets of characters (regex.c) -------------------------------------------------------- */

struct regex_range {
    uint32_t first, last;
};

/* Sorted and disjoint once finished. */
struct regex_set {
    struct regex_range *at;
    size_t count, cap;
};

/* Adds a range in the arena; false: it is full. */
bool regex_set_add(struct arena *a, struct regex_set *set, uint32_t first, uint32_t last);
bool regex_set_add_all(struct arena *a, struct regex_set *set, const struct regex_set *more);
void regex_set_finish(struct regex_set *set); /* sorts and merges */
/* Inverts the set, up to `last`; finishes it. */
bool regex_set_invert(struct arena *a, struct regex_set *set, uint32_t last);
bool regex_set_fold(struct arena *a, struct regex_set *set); /* ASCII letters in both cases */
/* Adds the class of a letter (d w s h v, N; upper case inverts). False: unknown letter; *ret_full
 * reports a full arena. */
bool regex_set_letter(struct arena *a, struct regex_set *set, char letter, uint32_t last,
                      bool *ret_full);
/* [:name:] */
bool regex_set_posix(struct arena *a, struct regex_set *set, struct tidings_str name,
                     bool *ret_full);
/* \p{name}: a general category, by its short or long name (regex_unicode.c), or a script. */
bool regex_set_property(struct arena *a, struct regex_set *set, struct tidings_str name,
                        uint32_t last, bool *ret_full);

/* Why the arena failed: it is full, or out of memory (then it is far from full). */
int regex_arena_failed(const struct arena *a, struct tidings_error *err);

/* ---- the tree (regex_parse.c) ---------------------------------------------------------------- */

enum regex_kind {
    REGEX_EMPTY,
    REGEX_SET,
    REGEX_SEQUENCE,     /* has children */
    REGEX_ALTERNATIVES, /* has children */
    REGEX_REPEAT,       /* one child */
    REGEX_LOOKAROUND,   /* one child */
    REGEX_BEGIN,
    REGEX_END,
    REGEX_LINE_BEGIN,
    REGEX_LINE_END,
    REGEX_WORD, /* boundary */
    REGEX_NOT_WORD,
};

#define REGEX_NO_MAXIMUM UINT32_MAX

struct regex_tree {
    enum regex_kind kind;
    size_t set;                  /* REGEX_SET */
    uint32_t min, max;           /* REGEX_REPEAT */
    bool is_behind, is_negative; /* REGEX_LOOKAROUND */
    struct regex_tree *first, *last;
    struct regex_tree *next, *prev; /* siblings */
};

struct regex_sets {
    struct regex_set *at; /* distinct sets */
    size_t count, cap;
    uint64_t cost; /* total so far, in steps */
};

int regex_parse(struct arena *a, struct tidings_str source, enum regex_units units,
                struct regex_tree **ret, struct regex_sets *ret_sets, struct tidings_error *err);

/* ---- the program (regex.c) ------------------------------------------------------------------- */

enum regex_code {
    CODE_SET,   /* a character of set `to`, then what follows */
    CODE_JUMP,  /* continue at `to` */
    CODE_SPLIT, /* continue at `to`, and with the next op */
    CODE_FOUND,
    /* Continue with the next op if … */
    CODE_BEGIN,
    CODE_END,
    CODE_LINE_BEGIN,
    CODE_LINE_END,
    CODE_WORD,
    CODE_NOT_WORD,
    CODE_LOOKAROUND, /* … lookaround `to` holds */
};

struct regex_op {
    uint8_t code;
    uint16_t to;
};

/* A lookahead or lookbehind is a separate program. The positions where it holds are computed before
 * the main program runs: lookbehinds from the front, lookaheads (compiled to run backwards) from
 * the end. */
struct regex_lookaround {
    uint16_t start;
    bool is_behind, is_negative;
};

struct regex {
    enum regex_units units;
    bool is_plain;    /* its only assertions are BEGIN and END, so a table is possible */
    bool is_anchored; /* matches only at the start of the text */
    uint8_t prefix_len;
    char prefix[48]; /* every match starts with this, in ASCII */
    uint16_t n_ops;
    uint16_t n_lookarounds; /* inner ones first */
    size_t n_columns;
    size_t bytes;
    size_t n_intervals; /* for REGEX_CHARACTERS */
    const struct regex_op *ops;
    const struct regex_lookaround *lookarounds;
    const uint8_t *rows;      /* set * n_columns + column: 1 if the set contains it */
    const uint32_t *starts;   /* start of each interval, ascending; the first is 0 */
    const uint8_t *intervals; /* column of each interval */
    uint8_t columns[256];     /* column of each byte, or of each character below 256 */
};

static inline uint8_t regex_column(const struct regex *r, uint32_t c)
{
    if (c < 256) {
        return r->columns[c];
    }
    size_t low = 0, high = r->n_intervals;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (r->starts[middle] <= c) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return r->intervals[low];
}

/* The character at `at`, of `*ret_len` bytes. Invalid UTF-8 is read byte by byte. */
static inline uint32_t regex_decode(struct tidings_str text, size_t at, size_t *ret_len)
{
    const unsigned char *p = (const unsigned char *)text.ptr + at;
    size_t left = text.len - at;
    *ret_len = 1;
    if (p[0] < 0xc2 || left < 2 || (p[1] & 0xc0) != 0x80) {
        return p[0];
    }
    if (p[0] < 0xe0) {
        *ret_len = 2;
        return (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
    }
    if (left < 3 || (p[2] & 0xc0) != 0x80) {
        return p[0];
    }
    if (p[0] < 0xf0) {
        *ret_len = 3;
        return (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
    }
    if (left < 4 || (p[3] & 0xc0) != 0x80 || p[0] > 0xf4) {
        return p[0];
    }
    *ret_len = 4;
    return (p[0] & 0x07u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
}

/* The position after the first prefix; beyond the end of the text: none. */
static inline size_t regex_skip_prefix(const struct regex *r, struct tidings_str text)
{
    if (r->is_anchored) {
        bool is_there =
            text.len >= r->prefix_len && memcmp(text.ptr, r->prefix, r->prefix_len) == 0;
        return is_there ? r->prefix_len : text.len + 1;
    }
    const char *p = text.ptr, *end = text.ptr + text.len;
    if (text.len > 256) {
        p = memmem(text.ptr, text.len, r->prefix, r->prefix_len);
    } else { /* memmem does not pay for short texts */
        while (p && (size_t)(end - p) >= r->prefix_len &&
               memcmp(p, r->prefix, r->prefix_len) != 0) {
            p = memchr(p + 1, r->prefix[0], (size_t)(end - p) - 1);
        }
        p = p && (size_t)(end - p) >= r->prefix_len ? p : NULL;
    }
    return p ? (size_t)(p - text.ptr) + r->prefix_len : text.len + 1;
}

/* ---- running (regex.c) ---------------------------------------------------------------- */

/* All ops of the program that are reachable without another character. */
struct regex_front {
    const struct regex *r;
    uint64_t spent; /* steps */
    size_t count;
    bool is_found;       /* CODE_FOUND is among them */
    bool is_end_refused; /* a path would match here if the text ended */
    /* Which assertions hold at this position; is_end_open: not known yet, END stays in the list */
    bool is_begin, is_end, is_end_open, is_line_begin, is_line_end, is_word;
    uint32_t lookarounds; /* a bit for each that holds here */
    uint32_t now;         /* the mark of reached ops */
    uint32_t seen[REGEX_MAX_OPS];
    uint16_t list[REGEX_MAX_OPS]; /* SET, and END while it is open */
    uint16_t stack[REGEX_MAX_OPS];
};

/* ---- the table (regex.c) --------------------------------------------------------------- */

#endif
