/* SPDX-License-Identifier: MIT
 *
 * What the parts of the match index share: hashing, the head of everything that is kept in a table,
 * and the table itself.
 *
 * A table holds pointers, found by a 32-bit hash that lies in what they point to. Several items may
 * have the same hash; telling them apart is the caller's. Apart from the pointers there is one byte
 * of each hash, its tag, so that looking for what is not there (most of what a lookup does) reads
 * eight tags at once and follows no pointer.
 */
#ifndef MATCH_MATCH_TABLE_H
#define MATCH_MATCH_TABLE_H

#include <endian.h>

#include <tidings/types.h>

enum match_item_kind {
    ITEM_LITERAL,
    ITEM_CONTAINER, /* ends in '/' */
    ITEM_BARE,      /* container without slash */
    ITEM_STATE,     /* of the tree: somewhere in a pattern */
    ITEM_LEAF,      /* of the tree: the end of a pattern */
    ITEM_CHECKED,   /* the same, with more to ask */
    ITEM_REGEX,
    ITEM_GRAM, /* regexes to be tried */
};

/* The head of everything in a table. */
struct match_item {
    uint32_t hash;
    uint16_t len;   /* of its text */
    uint8_t kind;   /* enum match_item_kind */
    uint8_t detail; /* tree: enum match_shape_kind; gram: its length */
};

struct match_node;

/* An item that nodes are subscribed to. */
struct match_entry {
    struct match_item item;
    struct match_node *nodes;
};

struct match_table {
    struct match_item **slots; /* `cap` pointers, then the tags */
    uint8_t *tags;             /* `cap`, and the first few once more; 0: free slot */
    size_t cap;                /* power of two */
    size_t count;
    uint8_t fill; /* eighths of the slots that may be taken */
};

/* A secret of each index, so that strangers cannot choose collisions. */
struct match_seed {
    uint64_t start, multiplier;
};

/* How full it may become, in eighths: MATCH_TABLE_DENSE or less for quicker misses. */
#define MATCH_TABLE_DENSE 5u
#define MATCH_TABLE_SPARSE 1u
void match_table_init(struct match_table *t, uint8_t fill);
void match_table_deinit(struct match_table *t); /* frees the table, not the items */
int match_table_add(struct match_table *t, struct match_item *item);           /* TIDINGS_E_NOMEM */
void match_table_remove(struct match_table *t, const struct match_item *item); /* it is there */
size_t match_table_bytes(const struct match_table *t);

/* ---- looking for a hash ---------------------------------------------------------------------- */

#define MATCH_TABLE_WINDOW 8u /* tags looked at together */

struct match_cursor {
    const struct match_table *table;
    uint32_t hash;
    size_t at;
    uint64_t hits; /* high bit of each tag of the window that may be ours */
    bool is_last;  /* the window has a free slot: nothing is behind it */
};

static inline uint8_t match_table_tag(uint32_t hash)
{
    uint8_t tag = (uint8_t)(hash >> 24);
    return tag ? tag : 1;
}

/* The high bit of each byte that is 0; of bytes behind such a one, maybe others. */
static inline uint64_t match_zero_bytes(uint64_t word)
{
    return (word - 0x0101010101010101u) & ~word & 0x8080808080808080u;
}

static inline void match_cursor_load(struct match_cursor *c)
{
    uint64_t tags;
    memcpy(&tags, c->table->tags + c->at, sizeof(tags));
    tags = le64toh(tags);
    uint64_t zero = match_zero_bytes(tags);
    uint64_t hits = match_zero_bytes(tags ^ match_table_tag(c->hash) * 0x0101010101010101u);
    c->is_last = zero != 0;
    c->hits = hits & ((zero & -zero) - 1); /* in front of the first free slot */
}

static inline struct match_cursor match_table_seek(const struct match_table *t, uint32_t hash)
{
    struct match_cursor c = {t, hash, hash & (t->cap - 1), 0, false};
    match_cursor_load(&c);
    return c;
}

/* Certain to find nothing more. */
static inline bool match_cursor_is_done(const struct match_cursor *c)
{
    return c->hits == 0 && c->is_last;
}

/* The next item with that hash; NULL at the end. */
static inline struct match_item *match_table_next(struct match_cursor *c)
{
    for (;;) {
        while (c->hits) {
            size_t i = (c->at + (size_t)__builtin_ctzll(c->hits) / 8) & (c->table->cap - 1);
            c->hits &= c->hits - 1;
            if (c->table->slots[i]->hash == c->hash) {
                return c->table->slots[i];
            }
        }
        if (c->is_last) {
            return NULL;
        }
        c->at = (c->at + MATCH_TABLE_WINDOW) & (c->table->cap - 1);
        match_cursor_load(c);
    }
}

/* ---- hashing --------------------------------------------------------------------------------- */

/* Both halves of the 128-bit product: every bit of the input reaches every bit of the result. */
static inline uint64_t match_fold(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t match_load8(const char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof(word));
    return word;
}

static inline uint64_t match_load4(const char *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof(word));
    return word;
}

/* 1 to 7 bytes; some may come twice, but for each length no two texts give the same. */
static inline uint64_t match_load_few(const char *p, size_t n)
{
    if (n >= 4) {
        return match_load4(p) | match_load4(p + n - 4) << 32;
    }
    const unsigned char *byte = (const unsigned char *)p;
    return byte[0] | (uint64_t)byte[n / 2] << 8 | (uint64_t)byte[n - 1] << 16;
}

/* The hash of bytes, after something hashed before. */
static inline uint64_t match_hash_more(struct match_seed seed, uint64_t h, const char *p, size_t n)
{
    h ^= n * 0xA0761D6478BD642Fu;
    for (; n >= 8; n -= 8, p += 8) {
        h = match_fold(h ^ match_load8(p), seed.multiplier);
    }
    return n ? match_fold(h ^ match_load_few(p, n), seed.multiplier) : h;
}

static inline uint64_t match_hash(struct match_seed seed, const char *p, size_t n)
{
    return match_hash_more(seed, seed.start, p, n);
}

/* One more in a sequence. */
static inline uint64_t match_chain(struct match_seed seed, uint64_t sofar, uint64_t next)
{
    return match_fold(sofar ^ next, seed.multiplier) + 1;
}

/* The hash of an item: what kind of thing it is below `parent`, and the hash of its text. */
static inline uint32_t match_key(struct match_seed seed, const void *parent, uint32_t what,
                                 uint64_t text)
{
    uint64_t where = ((uint64_t)(uintptr_t)parent + what) * 0xD1B54A32D192ED03u;
    uint64_t h = match_fold(text + where, seed.multiplier);
    return (uint32_t)(h ^ h >> 32);
}

#endif
