/* SPDX-License-Identifier: MIT
 *
 * Looking a URI up in the tree of globs and templates. At a state, the URI is cut to each shape the
 * state has, and the table is asked for edges of that shape; most of the time there is none, and
 * nothing is called to find that out. Recursion follows the steps of a pattern, hence its depth is
 * bounded by PLAN_MAX_STEPS.
 */
#include "match/match_tree.h"

#include "base/str.h"
#include "uri/pattern_part.h"

struct walk {
    const struct match_table *table;
    const struct match_view *view;
};

static void match_tree_find_visit(const struct walk *w, struct match_state *s, size_t at);
static void visit_from(const struct walk *w, struct match_state *s, size_t at);

static struct tidings_str segment_text(const struct walk *w, size_t at)
{
    const struct match_segment *segment = &w->view->segments[at];
    return tidings_strn(w->view->text.ptr + segment->at, segment->len);
}

/* The hash of `count` segments from `at` on. */
static uint64_t match_tree_find_hash_run(const struct match_view *v, size_t at, size_t count)
{
    if (at == 0) {
        return v->runs[count];
    }
    uint64_t h = v->seed.start;
    for (size_t i = at; i < at + count; i++) {
        h = match_chain(v->seed, h, v->segments[i].hash);
    }
    return h;
}

/* The text of `count` segments from `at` on, with the slash behind them if there is one. */
static struct tidings_str run_text(const struct match_view *v, size_t at, size_t count)
{
    size_t from = v->segments[at].at;
    size_t to = at + count < v->count ? v->segments[at + count].at : v->text.len;
    return tidings_strn(v->text.ptr + from, to - from);
}

/* `at` is the segment behind the edge. */
static void match_tree_arrive(const struct walk *w, struct match_edge *e, size_t at)
{
    if (e->item.kind == ITEM_STATE) {
        match_tree_find_visit(w, (struct match_state *)e, at);
        return;
    }
    if (e->item.kind == ITEM_CHECKED) {
        struct match_checked *c = (struct match_checked *)e;
        if (c->stamp == w->view->stamp) {
            return;
        }
        c->stamp = w->view->stamp;
        struct tidings_str text = w->view->text;
        if (c->compiled
                ? !template_match(c->compiled, text, NULL, NULL)
                : c->glob_len > 0 && !glob_matches_uri(match_checked_glob(c), text, c->question)) {
            return;
        }
    }
    w->view->found(w->view->user, &e->entry);
}

/* An edge that the table has for the cut of its shape: does it read what is there? */
static void match_tree_find_take(const struct walk *w, struct match_edge *e, size_t at)
{
    struct tidings_str text = match_edge_text(e);
    switch ((enum match_shape_kind)e->item.detail) {
    case SHAPE_RUN:
    case SHAPE_END:
        if (str_eq(text, run_text(w->view, at, e->head))) {
            match_tree_arrive(w, e, at + e->head);
        }
        break;
    case SHAPE_LOOP:
        /* A state is reached at rising positions only: who came before us has seen all we would. */
        if (e->stamp != w->view->stamp) {
            e->stamp = w->view->stamp;
            visit_from(w, (struct match_state *)e, at);
        }
        break;
    case SHAPE_ALL:
    case SHAPE_REST:
        if (str_starts(str_skip(w->view->text, w->view->segments[at].at), text)) {
            match_tree_arrive(w, e, at);
        }
        break;
    case SHAPE_PART:
    case SHAPE_PART_END:
    case SHAPE_GRAM8:
    case SHAPE_GRAM4:
    case SHAPE_GRAM8_END:
    case SHAPE_GRAM4_END:
        if (part_matches(text, segment_text(w, at))) {
            match_tree_arrive(w, e, at + 1);
        }
        break;
    }
}

/* The next edge of that shape, and of no other with the same hash. */
static struct match_edge *next_edge(struct match_cursor *at, const struct match_state *s,
                                    const struct match_shape *shape)
{
    struct match_edge *e;
    do {
        e = (struct match_edge *)match_table_next(at);
    } while (e && (e->parent != s || e->item.detail != shape->kind || e->head != shape->head ||
                   e->tail != shape->tail));
    return e;
}

/* Is what the part lies under really at `i`, and for the first time? */
static bool is_first_gram(struct tidings_str part, struct tidings_str segment, size_t i, size_t len)
{
    struct tidings_str inner = part_inner(part);
    const char *gram = inner.ptr + inner.len - len;
    return memcmp(segment.ptr + i, gram, len) == 0 && !memmem(segment.ptr, i + len - 1, gram, len);
}

static void follow_grams(const struct walk *w, struct match_state *s,
                         const struct match_shape *shape, size_t at)
{
    struct tidings_str segment = segment_text(w, at);
    bool is_long = shape->kind == SHAPE_GRAM8 || shape->kind == SHAPE_GRAM8_END;
    size_t len = is_long ? 8 : 4;
    for (size_t i = 0; i + len <= segment.len; i++) {
        uint64_t h = match_hash(w->view->seed, segment.ptr + i, len);
        struct match_cursor cursor =
            match_table_seek(w->table, match_edge_key(w->view->seed, s, shape, h));
        for (struct match_edge *e; (e = next_edge(&cursor, s, shape));) {
            if (is_first_gram(match_edge_text(e), segment, i, len)) {
                match_tree_find_take(w, e, at);
            }
        }
    }
}

/* Can an edge of that shape read the segments from `at` on? */
static inline bool match_tree_find_fits(const struct match_view *v, const struct match_shape *shape,
                                        size_t at)
{
    size_t left = v->count - at;
    const struct match_segment *segment = &v->segments[at];
    switch ((enum match_shape_kind)shape->kind) {
    case SHAPE_RUN:
        return shape->head < left &&
               (shape->filter & match_run_mark(match_tree_find_hash_run(v, at, shape->head)));
    case SHAPE_END:
        return shape->head == left &&
               (shape->filter & match_run_mark(match_tree_find_hash_run(v, at, shape->head)));
    case SHAPE_PART:
    case SHAPE_PART_END:
        return (shape->kind == SHAPE_PART_END) == (left == 1) &&
               segment->len >= shape->head + shape->tail &&
               (shape->filter &
                match_part_mark(tidings_strn(v->text.ptr + segment->at, segment->len), shape));
    case SHAPE_REST:
        return v->text.len - segment->at >= shape->head;
    case SHAPE_GRAM8:
    case SHAPE_GRAM4:
        return left > 1;
    case SHAPE_GRAM8_END:
    case SHAPE_GRAM4_END:
        return left == 1;
    case SHAPE_LOOP:
    case SHAPE_ALL:
        break;
    }
    return true;
}

static uint64_t match_tree_find_cut_hash(const struct match_view *v,
                                         const struct match_shape *shape, size_t at)
{
    const struct match_segment *segment = &v->segments[at];
    const char *text = v->text.ptr + segment->at;
    switch (shape->kind) {
    case SHAPE_RUN:
    case SHAPE_END:
        return match_tree_find_hash_run(v, at, shape->head);
    case SHAPE_PART:
    case SHAPE_PART_END:
        return match_affix(v->seed, tidings_strn(text, segment->len), shape);
    case SHAPE_REST:
        return match_hash(v->seed, text, shape->head);
    default:
        return 0;
    }
}

/* Several edges of that shape. */
static void follow_all(const struct walk *w, struct match_state *s, const struct match_shape *shape,
                       size_t at)
{
    uint32_t key =
        match_edge_key(w->view->seed, s, shape, match_tree_find_cut_hash(w->view, shape, at));
    struct match_cursor cursor = match_table_seek(w->table, key);
    for (struct match_edge *e; (e = next_edge(&cursor, s, shape));) {
        match_tree_find_take(w, e, at);
    }
}

static inline bool is_gram(const struct match_shape *shape)
{
    return shape->kind == SHAPE_GRAM8 || shape->kind == SHAPE_GRAM4 ||
           shape->kind == SHAPE_GRAM8_END || shape->kind == SHAPE_GRAM4_END;
}

/* All edges of one shape, from the segment `at` on. */
static inline void match_tree_find_follow(const struct walk *w, struct match_state *s,
                                          const struct match_shape *shape, size_t at)
{
    if (!match_tree_find_fits(w->view, shape, at)) {
        return;
    }
    if (shape->only) {
        match_tree_find_take(w, shape->only, at);
    } else if (is_gram(shape)) {
        follow_grams(w, s, shape, at);
    } else {
        follow_all(w, s, shape, at);
    }
}

static void match_tree_find_visit(const struct walk *w, struct match_state *s, size_t at)
{
    const struct match_shape *shapes = match_state_shapes(s);
    for (size_t i = 0; i < s->edge.shape_count; i++) {
        match_tree_find_follow(w, s, &shapes[i], at);
    }
}

/* Visit a loop at each segment from `at` on, shape by shape: some need the end only. */
static void visit_from(const struct walk *w, struct match_state *s, size_t at)
{
    const struct match_shape *shapes = match_state_shapes(s);
    size_t count = w->view->count;
    for (size_t i = 0; i < s->edge.shape_count; i++) {
        const struct match_shape *shape = &shapes[i];
        size_t first = at, end = count;
        if (shape->kind == SHAPE_END) {
            first = shape->head <= count ? count - shape->head : count;
            end = first + 1;
        } else if (shape->kind >= SHAPE_PART_END && shape->kind <= SHAPE_GRAM4_END) {
            first = count - 1;
        }
        for (size_t k = first; k >= at && k < end && k < count; k++) {
            match_tree_find_follow(w, s, shape, k);
        }
    }
}

void match_tree_find(struct match_tree *tree, const struct match_view *view)
{
    struct walk w = {&tree->table, view};
    match_tree_find_visit(&w, &tree->root, 0);
}
