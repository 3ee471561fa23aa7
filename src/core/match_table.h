/* SPDX-License-Identifier: MIT
 *
 * What the parts of the match index share: hashing, the head of everything that is kept in a table,
 * and the table itself.
 *
 * A table holds pointers, found by a 32-bit hash that lies in what they point to. Several items may
 * have the same hash; telling them apart is the caller's. One byte of the hash lies beside each
 * pointer, so that looking for what is not there (most of what a lookup does) reads a few bytes of
 * one cache line and follows no pointer.
 */
#ifndef CORE_MATCH_TABLE_H
#define CORE_MATCH_TABLE_H

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
    struct match_item **slots; /* `cap` pointers, then `cap` tags; 0: free slot */
    size_t cap;                /* power of two, 0 while empty */
    size_t count;
};

/* A secret of each index, so that strangers cannot choose collisions. */
struct match_seed {
    uint64_t start, multiplier;
};

void match_table_init(struct match_table *t);
void match_table_deinit(struct match_table *t); /* frees the table, not the items */
int match_table_add(struct match_table *t, struct match_item *item);           /* TIDINGS_E_NOMEM */
void match_table_remove(struct match_table *t, const struct match_item *item); /* it is there */
size_t match_table_bytes(const struct match_table *t);

/* ---- looking for a hash: start anywhere with match_table_seek, NULL at the end -----------------
 */

struct match_cursor {
    const struct match_table *table;
    uint32_t hash;
    size_t at;
};

static inline uint8_t match_table_tag(uint32_t hash)
{
    uint8_t tag = (uint8_t)(hash >> 24);
    return tag ? tag : 1;
}

static inline uint8_t *match_table_tags(const struct match_table *t)
{
    return (uint8_t *)(t->slots + t->cap);
}

static inline struct match_cursor match_table_seek(const struct match_table *t, uint32_t hash)
{
    return (struct match_cursor){t, hash, t->cap ? hash & (t->cap - 1) : 0};
}

static inline struct match_item *match_table_next(struct match_cursor *c)
{
    const struct match_table *t = c->table;
    if (t->cap == 0) {
        return NULL;
    }
    const uint8_t *tags = match_table_tags(t);
    uint8_t tag = match_table_tag(c->hash);
    for (;; c->at = (c->at + 1) & (t->cap - 1)) {
        if (tags[c->at] == 0) {
            return NULL;
        }
        struct match_item *item = tags[c->at] == tag ? t->slots[c->at] : NULL;
        if (item && item->hash == c->hash) {
            c->at = (c->at + 1) & (t->cap - 1);
            return item;
        }
    }
}

/* ---- hashing -----------------------------------------------------------------------------------
 */

/* Both halves of the 128-bit product: every bit of the input reaches every bit of the result. */
static inline uint64_t match_fold(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t match_load(const char *p, size_t n)
{
    uint64_t word = 0;
    memcpy(&word, p, n);
    return word;
}

static inline uint64_t match_hash(struct match_seed seed, const char *p, size_t n)
{
    uint64_t h = seed.start ^ n * 0xA0761D6478BD642Fu;
    for (; n >= 8; n -= 8, p += 8) {
        h = match_fold(h ^ match_load(p, 8), seed.multiplier);
    }
    return n ? match_fold(h ^ match_load(p, n), seed.multiplier) : h;
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
    uint64_t where = (uint64_t)(uintptr_t)parent * 0xD1B54A32D192ED03u + what;
    uint64_t h =
        match_fold(text ^ match_fold(where ^ seed.start, 0x9E3779B97F4A7C15u), seed.multiplier);
    return (uint32_t)(h ^ h >> 32);
}

#endif
