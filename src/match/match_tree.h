/* SPDX-License-Identifier: MIT
 *
 * The globs and templates of the match index, all in one automaton over segments. Private to
 * match/match.
 *
 * A *state* is a position in patterns: what has been read up to a slash of the URI. An edge leads
 * from a state to the next one, or to a *leaf*, where patterns end. Edges lie in one hash table,
 * under their state and what they read; a state only knows the *shapes* of its edges: "two literal
 * segments", "a segment that begins with 4 and ends with 3 known bytes". A lookup cuts the URI to
 * each shape and asks the table, so it costs by the number of shapes, not of edges.
 *
 *     x:///a/ star .log      root --run of 4--> state --part (0,4)--> leaf
 *     x:///a/ {v}            root --run of 4--> state --part (0,0)--> leaf    (the same state)
 *
 * Each state is reached once at most per position in the URI: it has one parent and one edge, whose
 * length is fixed; a loop (`**`) is entered once. So there is nothing to go back to, and a lookup
 * makes at most states × segments steps.
 */
#ifndef MATCH_MATCH_TREE_H
#define MATCH_MATCH_TREE_H

#include "match/match_table.h"
#include "uri/pattern_plan.h"

/* Patterns that nothing tells apart but trying them: that many of them at one state. */
#define MATCH_MAX_ALIKE 64u

enum match_shape_kind {
    SHAPE_RUN,   /* `head` literal segments */
    SHAPE_PART,  /* a segment with `head` known bytes at its start and `tail` at its end */
    SHAPE_GRAM8, /* a segment that holds 8 known bytes somewhere */
    SHAPE_GRAM4, /* the same with 4 */
    SHAPE_LOOP,  /* any number of segments */
    SHAPE_LAST,  /* from here on: edges to leaves */
    SHAPE_END = SHAPE_LAST,
    SHAPE_PART_END,
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
    uint8_t filter;          /* the marks of its edges, and of some that are gone */
    uint32_t count;          /* edges of this shape */
    struct match_edge *only; /* the one edge, if it never had a second */
};

/* A state or a leaf, by the edge that leads to it. Its text lies behind it. */
struct match_edge {
    union {
        struct match_entry entry; /* leaf */
        struct {
            struct match_item item;
            uint64_t stamp; /* state of a loop: the lookup that entered it */
        };
    };
    struct match_state *parent;
    uint8_t head, tail;  /* of the shape it lies under */
    uint8_t shape_count; /* state */
};

struct match_state {
    struct match_edge edge;
    union {
        struct match_shape shape;   /* one */
        struct match_shape *shapes; /* several; room for the next power of two */
    };
};

/* A leaf that is tried once per lookup, and may have more to ask. */
struct match_checked {
    struct match_edge edge;
    uint64_t stamp;                /* the lookup that tried it */
    struct uri_template *compiled; /* a template: owned */
    uint16_t glob_len;             /* a glob: its text lies behind that of the edge */
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

/* Who pays for the search of a regex. */
enum match_payment {
    MATCH_PAID,     /* somebody */
    MATCH_UNPAID,   /* nobody can */
    MATCH_UNWANTED, /* nobody wants to know */
};

struct match_view {
    struct match_seed seed;
    struct tidings_str text;
    const struct match_segment *segments;
    size_t count;
    uint64_t runs[PLAN_MAX_RUN + 1]; /* hashes of the first so many segments */
    uint64_t stamp;                  /* of this lookup; never 0 */
    void (*found)(void *user, struct match_entry *entry);
    void (*unsure)(void *user, struct match_entry *entry); /* a regex that was not searched */
    /* MATCH_PAID: a node that can pay so many steps, and is told what they were. */
    enum match_payment (*pay)(void *user, struct match_entry *entry, struct match_node **ret_payer,
                              uint64_t *ret_steps);
    void (*spent)(void *user, struct match_node *payer, uint64_t steps);
    void *user;
};

void match_tree_init(struct match_tree *tree);
void match_tree_deinit(struct match_tree *tree); /* nothing is in it */
/* The leaf of the pattern, made when there is none. `kind` is a glob or a template, `text` what
 * `plan` was made of. TIDINGS_E_INVALID: no template; TIDINGS_E_LIMIT: more than MATCH_MAX_ALIKE at
 * one state; TIDINGS_E_NOMEM. Failure leaves the tree as it was. */
int match_tree_add(struct match_tree *tree, struct match_seed seed, enum pattern_kind kind,
                   struct tidings_str text, struct match_entry **ret, struct tidings_error *err);
/* Take away a leaf that has no nodes, and what leads only there. */
void match_tree_remove(struct match_tree *tree, struct match_entry *leaf);
/* Calls view->found for each leaf whose pattern matches, once. */
void match_tree_find(struct match_tree *tree, const struct match_view *view);
size_t match_tree_bytes(const struct match_tree *tree);

/* ---- for the files of the tree --------------------------------------------------------------- */

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

/* The hash of an edge below `parent`; `text` is the hash of what its shape cuts out. */
static inline uint32_t match_edge_key(struct match_seed seed, const struct match_state *parent,
                                      const struct match_shape *shape, uint64_t text)
{
    uint32_t what = shape->kind | shape->head << 8u | (uint32_t)shape->tail << 16u;
    return match_key(seed, parent, what, text);
}

/* A mark is one of eight bits; an edge cannot read what has another mark. Spares most states the
 * question whether there is such an edge. Of a run, by its hash. */
static inline uint8_t match_run_mark(uint64_t hash)
{
    return (uint8_t)(1u << (hash >> 61));
}

/* Of a part, or of a segment that is compared with parts: by the two bytes next to the unknown. */
static inline uint8_t match_part_mark(struct tidings_str text, const struct match_shape *shape)
{
    unsigned head = shape->head ? (unsigned char)text.ptr[shape->head - 1] : 0;
    unsigned tail = shape->tail ? (unsigned char)text.ptr[text.len - shape->tail] : 0;
    return (uint8_t)(1u << ((head * 0x9Eu + tail * 0x4Fu) >> 3 & 7u));
}

/* What a part's shape cuts out of a segment. */
static inline uint64_t match_affix(struct match_seed seed, struct tidings_str segment,
                                   const struct match_shape *shape)
{
    uint64_t head = match_hash(seed, segment.ptr, shape->head);
    return match_hash_more(seed, head, segment.ptr + segment.len - shape->tail, shape->tail);
}

#endif
