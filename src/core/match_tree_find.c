/* SPDX-License-Identifier: MIT
 *
 * Walking the tree along one URI. At a state, the URI is cut to each shape the state has, and the
 * table is asked for edges of that shape. Recursion follows the steps of a pattern, hence its depth
 * is bounded by PLAN_MAX_STEPS.
 */
#include "core/match_tree.h"

#include "base/str.h"
#include "uri/pattern_part.h"

struct walk {
    const struct match_table *table;
    const struct match_view *view;
};

static void visit(const struct walk *w, struct match_state *s, size_t at);
static void visit_from(const struct walk *w, struct match_state *s, size_t at);

static struct tidings_str segment_text(const struct walk *w, size_t at)
{
    const struct match_segment *segment = &w->view->segments[at];
    return tidings_strn(w->view->text.ptr + segment->at, segment->len);
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

/* `at` is a segment behind the edge. */
static void arrive(const struct walk *w, struct match_edge *e, size_t at)
{
    if (e->item.kind == ITEM_STATE) {
        visit(w, (struct match_state *)e, at);
        return;
    }
    if (e->item.kind == ITEM_CHECKED) {
        struct match_checked *c = (struct match_checked *)e;
        if (c->stamp == w->view->stamp) {
            return;
        }
        c->stamp = w->view->stamp;
        if (c->compiled ? !template_match(c->compiled, w->view->text, NULL, NULL)
                        : c->glob_len > 0 && !glob_matches_uri(match_checked_glob(c), w->view->text,
                                                               c->question)) {
            return;
        }
    }
    w->view->found(w->view->user, &e->entry);
}

static void follow_run(const struct walk *w, struct match_state *s, const struct match_shape *shape,
                       size_t at)
{
    const struct match_view *v = w->view;
    uint64_t h = v->seed.start;
    size_t end = at + shape->head;
    if (at == 0) {
        h = v->runs[shape->head];
    }
    for (size_t i = at == 0 ? end : at; i < end; i++) {
        h = match_chain(v->seed, h, v->segments[i].hash);
    }
    size_t from = v->segments[at].at;
    size_t to = end < v->count ? v->segments[end].at : v->text.len;
    struct tidings_str text = tidings_strn(v->text.ptr + from, to - from);
    struct match_cursor cursor = match_table_seek(w->table, match_edge_key(v->seed, s, *shape, h));
    for (struct match_edge *e; (e = next_edge(&cursor, s, shape));) {
        if (str_eq(match_edge_text(e), text)) {
            arrive(w, e, end);
        }
    }
}

static void follow_part(const struct walk *w, struct match_state *s,
                        const struct match_shape *shape, size_t at)
{
    struct tidings_str segment = segment_text(w, at);
    if (segment.len < (size_t)shape->head + shape->tail) {
        return;
    }
    uint64_t h = match_affix(w->view->seed, segment, *shape);
    struct match_cursor cursor =
        match_table_seek(w->table, match_edge_key(w->view->seed, s, *shape, h));
    for (struct match_edge *e; (e = next_edge(&cursor, s, shape));) {
        if (part_matches(match_edge_text(e), segment)) {
            arrive(w, e, at + 1);
        }
    }
}

/* Is what the part lies under really at `i`, and for the first time? */
static bool is_first_gram(struct tidings_str part, struct tidings_str segment, size_t i, size_t len)
{
    struct tidings_str inner = part_inner(part);
    const char *gram = inner.ptr + inner.len - len;
    return memcmp(segment.ptr + i, gram, len) == 0 && !memmem(segment.ptr, i + len - 1, gram, len);
}

static void follow_gram(const struct walk *w, struct match_state *s,
                        const struct match_shape *shape, size_t at)
{
    struct tidings_str segment = segment_text(w, at);
    bool is_long = shape->kind == SHAPE_GRAM8 || shape->kind == SHAPE_GRAM8_END;
    size_t len = is_long ? 8 : 4;
    for (size_t i = 0; i + len <= segment.len; i++) {
        uint64_t h = match_hash(w->view->seed, segment.ptr + i, len);
        struct match_cursor cursor =
            match_table_seek(w->table, match_edge_key(w->view->seed, s, *shape, h));
        for (struct match_edge *e; (e = next_edge(&cursor, s, shape));) {
            if (is_first_gram(match_edge_text(e), segment, i, len) &&
                part_matches(match_edge_text(e), segment)) {
                arrive(w, e, at + 1);
            }
        }
    }
}

static void follow_rest(const struct walk *w, struct match_state *s,
                        const struct match_shape *shape, size_t at)
{
    struct tidings_str text = str_skip(w->view->text, w->view->segments[at].at);
    if (text.len < shape->head) {
        return;
    }
    uint64_t h = shape->kind == SHAPE_ALL ? 0 : match_hash(w->view->seed, text.ptr, shape->head);
    struct match_cursor cursor =
        match_table_seek(w->table, match_edge_key(w->view->seed, s, *shape, h));
    for (struct match_edge *e; (e = next_edge(&cursor, s, shape));) {
        if (str_starts(text, match_edge_text(e))) {
            arrive(w, e, at);
        }
    }
}

static void follow_loop(const struct walk *w, struct match_state *s,
                        const struct match_shape *shape, size_t at)
{
    struct match_cursor cursor =
        match_table_seek(w->table, match_edge_key(w->view->seed, s, *shape, 0));
    struct match_edge *e = next_edge(&cursor, s, shape);
    /* A state is reached at rising positions only: who came before us has seen all we would. */
    if (e && e->stamp != w->view->stamp) {
        e->stamp = w->view->stamp;
        visit_from(w, (struct match_state *)e, at);
    }
}

/* All edges of one shape, from the segment `at` on. */
static void follow(const struct walk *w, struct match_state *s, const struct match_shape *shape,
                   size_t at)
{
    size_t left = w->view->count - at;
    switch ((enum match_shape_kind)shape->kind) {
    case SHAPE_RUN:
        if (shape->head < left) {
            follow_run(w, s, shape, at);
        }
        break;
    case SHAPE_END:
        if (shape->head == left) {
            follow_run(w, s, shape, at);
        }
        break;
    case SHAPE_PART:
    case SHAPE_PART_END:
        if ((shape->kind == SHAPE_PART_END) == (left == 1)) {
            follow_part(w, s, shape, at);
        }
        break;
    case SHAPE_GRAM8:
    case SHAPE_GRAM4:
        if (left > 1) {
            follow_gram(w, s, shape, at);
        }
        break;
    case SHAPE_GRAM8_END:
    case SHAPE_GRAM4_END:
        if (left == 1) {
            follow_gram(w, s, shape, at);
        }
        break;
    case SHAPE_LOOP:
        follow_loop(w, s, shape, at);
        break;
    case SHAPE_ALL:
    case SHAPE_REST:
        follow_rest(w, s, shape, at);
        break;
    }
}

static void visit(const struct walk *w, struct match_state *s, size_t at)
{
    const struct match_shape *shapes = match_state_shapes(s);
    for (size_t i = 0; i < s->edge.shape_count; i++) {
        follow(w, s, &shapes[i], at);
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
            follow(w, s, shape, k);
        }
    }
}

void match_tree_find(struct match_tree *tree, const struct match_view *view)
{
    struct walk w = {&tree->table, view};
    if (tree->root.edge.shape_count > 0) {
        visit(&w, &tree->root, 0);
    }
}
