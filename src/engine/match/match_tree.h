/* SPDX-License-Identifier: MIT
 *
 * The globs and templates of the match index, all in one automaton over segments. Private to
 * engine/match/match.
 *
 * A *state* is a position in patterns: the text read up to a slash of the URI. An edge leads from a
 * state to the next one, or to a *leaf*, where patterns end. Edges are in one hash table, under
 * their state and the text they read; a state only knows the *shapes* of its edges: "two literal
 * segments", "a segment that begins with 4 and ends with 3 known bytes". A lookup cuts the URI to
 * each shape and searches the table, so its cost depends on the number of shapes, not of edges.
 *
 *     x:///a/ star .log      root --run of 4--> state --part (0,4)--> leaf
 *     x:///a/ {v}            root --run of 4--> state --part (0,0)--> leaf    (the same state)
 *
 * Each state is reached at most once per position in the URI: it has one parent and one edge, whose
 * length is fixed; a loop (`**`) is entered once. So there is no backtracking, and a lookup makes
 * at most states × segments steps.
 */
#ifndef ENGINE_MATCH_MATCH_TREE_H
#define ENGINE_MATCH_MATCH_TREE_H

#include <endian.h>

#include <tidings/types.h>

#include "formats/pattern.h"

/* -------------------------------------------------------------------------------------------------
 * Shared by the parts of the match index: hashing, the header of every table item, and the hash
 * table.
 *
 * A table holds pointers, found by a 32-bit hash stored in the items. Several items may have the
 * same hash; the caller tells them apart. Besides the pointers there is one byte of each hash, its
 * tag, so that a search for an absent item (most of the work of a lookup) reads eight tags at once
 * and follows no pointer.
 */

enum match_item_kind {
    ITEM_LITERAL,
    ITEM_CONTAINER, /* ends in '/' */
    ITEM_BARE,      /* container without slash */
    ITEM_STATE,     /* of the tree: somewhere in a pattern */
    ITEM_LEAF,      /* of the tree: the end of a pattern */
    ITEM_CHECKED,   /* the same, with an additional check */
    ITEM_REGEX,
    ITEM_GRAM, /* regexes to try */
};

/* The header of every table item. */
struct match_item {
    uint32_t hash;
    uint16_t len;   /* of its text */
    uint8_t kind;   /* enum match_item_kind */
    uint8_t detail; /* tree: enum match_shape_kind; gram: its length */
};

struct match_node;

/* An item that has nodes. */
struct match_entry {
    struct match_item item;
    struct match_node *nodes;
};

struct match_table {
    struct match_item **slots; /* `cap` pointers, then the tags */
    uint8_t *tags;             /* `cap`, and the first few once more; 0: free slot */
    size_t cap;                /* power of two */
    size_t count;
    uint8_t fill; /* maximum fill, in eighths of the slots */
};

/* A secret of each index, so that untrusted clients cannot choose collisions. */
struct match_seed {
    uint64_t start, multiplier;
};

/* Maximum fill, in eighths: MATCH_TABLE_DENSE, or less for quicker misses. */
#define MATCH_TABLE_DENSE 5u
#define MATCH_TABLE_SPARSE 1u
void match_table_init(struct match_table *t, uint8_t fill);
void match_table_deinit(struct match_table *t); /* frees the table, not the items */
int match_table_add(struct match_table *t, struct match_item *item);           /* TIDINGS_E_NOMEM */
void match_table_remove(struct match_table *t, const struct match_item *item); /* must be in it */
size_t match_table_bytes(const struct match_table *t);

/* ---- finding a hash -------------------------------------------------------------------------- */

#define MATCH_TABLE_WINDOW 8u /* tags compared together */

struct match_cursor {
    const struct match_table *table;
    uint32_t hash;
    size_t at;
    uint64_t hits; /* high bit of each tag of the window that may match */
    bool is_last;  /* the window has a free slot: the search ends here */
};

static inline uint8_t match_table_tag(uint32_t hash)
{
    uint8_t tag = (uint8_t)(hash >> 24);
    return tag ? tag : 1;
}

/* The high bit of each zero byte; bytes after a zero byte may be false positives. */
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
    c->hits = hits & ((zero & -zero) - 1); /* before the first free slot */
}

static inline struct match_cursor match_table_seek(const struct match_table *t, uint32_t hash)
{
    struct match_cursor c = {t, hash, hash & (t->cap - 1), 0, false};
    match_cursor_load(&c);
    return c;
}

/* Returns true if nothing more can be found. */
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

/* Hashes 1 to 7 bytes; some may be read twice, but two different strings of one length give
 * different results. */
static inline uint64_t match_load_few(const char *p, size_t n)
{
    if (n >= 4) {
        return match_load4(p) | match_load4(p + n - 4) << 32;
    }
    const unsigned char *byte = (const unsigned char *)p;
    return byte[0] | (uint64_t)byte[n / 2] << 8 | (uint64_t)byte[n - 1] << 16;
}

/* The hash of bytes, chained to an earlier hash. */
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

/* Adds one more hash to a sequence. */
static inline uint64_t match_chain(struct match_seed seed, uint64_t sofar, uint64_t next)
{
    return match_fold(sofar ^ next, seed.multiplier) + 1;
}

/* The hash of an item: its kind below `parent`, and the hash of its text. */
static inline uint32_t match_key(struct match_seed seed, const void *parent, uint32_t what,
                                 uint64_t text)
{
    uint64_t where = ((uint64_t)(uintptr_t)parent + what) * 0xD1B54A32D192ED03u;
    uint64_t h = match_fold(text + where, seed.multiplier);
    return (uint32_t)(h ^ h >> 32);
}

/* Maximum number of patterns at one state that only trial can tell apart. */
#define MATCH_MAX_ALIKE 64u

enum match_shape_kind {
    SHAPE_RUN,     /* `head` literal segments */
    SHAPE_SEGMENT, /* a segment with `head` known bytes at its start and `tail` at its end */
    SHAPE_GRAM8,   /* a segment that holds 8 known bytes somewhere */
    SHAPE_GRAM4,   /* the same with 4 */
    SHAPE_LOOP,    /* any number of segments */
    SHAPE_LAST,    /* from here on: edges to leaves */
    SHAPE_END = SHAPE_LAST,
    SHAPE_SEGMENT_END,
    SHAPE_GRAM8_END,
    SHAPE_GRAM4_END,
    SHAPE_ALL,
    SHAPE_REST, /* `head` known bytes, then anything */
};

struct match_edge;
struct match_state;

struct match_shape {
    uint8_t kind; /* enum match_shape_kind */
    uint8_t head, tail;
    uint8_t filter;          /* the marks of its edges, and of some removed ones */
    uint32_t count;          /* edges of this shape */
    struct match_edge *only; /* the only edge, until a second one is added */
};

/* A state or a leaf, identified by the edge that leads to it. Its text follows the struct. */
struct match_edge {
    union {
        struct match_entry entry; /* leaf */
        struct {
            struct match_item item;
            uint64_t stamp; /* state of a loop: the last lookup that entered it */
        };
    };
    struct match_state *parent;
    uint8_t head, tail;  /* of the edge's shape */
    uint8_t shape_count; /* state */
};

struct match_state {
    struct match_edge edge;
    union {
        struct match_shape shape;   /* one */
        struct match_shape *shapes; /* several; room for the next power of two */
    };
};

/* A leaf that is tried once per lookup and may have an additional check. */
struct match_checked {
    struct match_edge edge;
    uint64_t stamp;                /* the last lookup that tried it */
    struct uri_template *compiled; /* a template: owned */
    uint16_t glob_len;             /* a glob: its text follows that of the edge */
    bool question;
};

struct match_tree {
    struct match_table table;
    struct match_state root;
    size_t bytes;
};

/* A changed URI, cut at its slashes. */
struct match_segment {
    uint64_t hash;
    uint16_t at, len;
};

/* Whether a regex search is paid for. */
enum match_payment {
    MATCH_PAID,     /* a node pays */
    MATCH_UNPAID,   /* no node can pay */
    MATCH_UNWANTED, /* no node wants the result */
};

struct match_view {
    struct match_seed seed;
    struct tidings_str text;
    const struct match_segment *segments;
    size_t count;
    uint64_t runs[PLAN_MAX_RUN + 1]; /* hashes of the first N segments */
    uint64_t stamp;                  /* of this lookup; never 0 */
    void (*found)(void *user, struct match_entry *entry);
    void (*unsure)(void *user, struct match_entry *entry); /* a regex that was not searched */
    /* MATCH_PAID: *ret_payer can pay *ret_steps; `spent` reports the steps used. */
    enum match_payment (*pay)(void *user, struct match_entry *entry, struct match_node **ret_payer,
                              uint64_t *ret_steps);
    void (*spent)(void *user, struct match_node *payer, uint64_t steps);
    void *user;
};

void match_tree_init(struct match_tree *tree);
void match_tree_deinit(struct match_tree *tree); /* must be empty */
/* Returns the leaf of the pattern; creates it if needed. `kind` is a glob or a template.
 * TIDINGS_E_INVALID: not a template; TIDINGS_E_LIMIT: more than MATCH_MAX_ALIKE at one state;
 * TIDINGS_E_NOMEM. On failure the tree is unchanged. */
int match_tree_add(struct match_tree *tree, struct match_seed seed, enum pattern_kind kind,
                   struct tidings_str text, struct match_entry **ret, struct tidings_error *err);
/* Removes a leaf that has no nodes, and the states that lead only to it. */
void match_tree_remove(struct match_tree *tree, struct match_entry *leaf);
/* Calls view->found for each leaf whose pattern matches, once. */
void match_tree_find(struct match_tree *tree, const struct match_view *view);
size_t match_tree_bytes(const struct match_tree *tree);

/* ---- private to the files of the tree -------------------------------------------------------- */

static inline struct tidings_str match_edge_text(const struct match_edge *e)
{
    size_t size = e->item.kind == ITEM_STATE  ? sizeof(struct match_state)
                  : e->item.kind == ITEM_LEAF ? sizeof(struct match_edge)
                                              : sizeof(struct match_checked);
    return tidings_strn((const char *)e + size, e->item.len);
}

static inline struct tidings_str match_checked_glob(const struct match_checked *c)
{
    return tidings_strn((const char *)(c + 1) + c->edge.item.len, c->glob_len);
}

static inline struct match_shape *match_state_shapes(struct match_state *s)
{
    return s->edge.shape_count > 1 ? s->shapes : &s->shape;
}

/* The hash of an edge below `parent`; `text` is the hash of the text that its shape cuts out. */
static inline uint32_t match_edge_key(struct match_seed seed, const struct match_state *parent,
                                      const struct match_shape *shape, uint64_t text)
{
    uint32_t what = shape->kind | shape->head << 8u | (uint32_t)shape->tail << 16u;
    return match_key(seed, parent, what, text);
}

/* A mark is one of eight bits; an edge cannot read text with a different mark. It spares most
 * states the table search. For a run, the mark depends on its hash. */
static inline uint8_t match_run_mark(uint64_t hash)
{
    return (uint8_t)(1u << (hash >> 61));
}

/* For a part, or a segment compared with parts, it depends on the two bytes next to the unknown
 * text. */
static inline uint8_t match_segment_mark(struct tidings_str text, const struct match_shape *shape)
{
    unsigned head = shape->head ? (unsigned char)text.ptr[shape->head - 1] : 0;
    unsigned tail = shape->tail ? (unsigned char)text.ptr[text.len - shape->tail] : 0;
    return (uint8_t)(1u << ((head * 0x9Eu + tail * 0x4Fu) >> 3 & 7u));
}

/* The text that a part's shape cuts out of a segment. */
static inline uint64_t match_affix(struct match_seed seed, struct tidings_str segment,
                                   const struct match_shape *shape)
{
    uint64_t head = match_hash(seed, segment.ptr, shape->head);
    return match_hash_more(seed, head, segment.ptr + segment.len - shape->tail, shape->tail);
}

#endif
