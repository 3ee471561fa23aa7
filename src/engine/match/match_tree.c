/* SPDX-License-Identifier: MIT
 *
 * Adds patterns to the match index's tree of globs and templates, and removes them.
 *
 * Invariant: a state has at least one edge, except the root; a leaf has at least one node, from the
 * caller's next step on. A state counts its edges by shape, and drops a shape with its last edge.
 * Objects never move after creation.
 */
#include "engine/match/match_tree.h"

#include "base/mem.h"
#include "base/str.h"
#include "formats/pattern.h"

/* -------------------------------------------------------------------------------------------------
 * Looks a URI up in the tree of globs and templates. At a state, the URI is cut to each shape of
 * the state, and the table is searched for edges of that shape; most of the time there is none, and
 * the inlined search calls no function. Recursion follows the steps of a pattern, so PLAN_MAX_STEPS
 * limits its depth.
 */

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

/* The text of `count` segments from `at` on, including a following slash. */
static struct tidings_str run_text(const struct match_view *v, size_t at, size_t count)
{
    size_t from = v->segments[at].at;
    size_t to = at + count < v->count ? v->segments[at + count].at : v->text.len;
    return tidings_strn(v->text.ptr + from, to - from);
}

/* `at` is the segment after the edge. */
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

/* Follows an edge found by the hash of its cut if it really matches the text. */
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
        /* A state is only reached at ascending positions: the first visit saw every later
         * position. */
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
    case SHAPE_SEGMENT:
    case SHAPE_SEGMENT_END:
    case SHAPE_GRAM8:
    case SHAPE_GRAM4:
    case SHAPE_GRAM8_END:
    case SHAPE_GRAM4_END:
        if (segment_matches(text, segment_text(w, at))) {
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

/* Returns true if the gram of the part is really at `i`, and not earlier in the segment. */
static bool is_first_gram(struct tidings_str part, struct tidings_str segment, size_t i, size_t len)
{
    struct tidings_str inner = segment_inner(part);
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

/* Returns true if an edge of that shape may read the segments from `at` on. */
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
    case SHAPE_SEGMENT:
    case SHAPE_SEGMENT_END:
        return (shape->kind == SHAPE_SEGMENT_END) == (left == 1) &&
               segment->len >= shape->head + shape->tail &&
               (shape->filter &
                match_segment_mark(tidings_strn(v->text.ptr + segment->at, segment->len), shape));
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
    case SHAPE_SEGMENT:
    case SHAPE_SEGMENT_END:
        return match_affix(v->seed, tidings_strn(text, segment->len), shape);
    case SHAPE_REST:
        return match_hash(v->seed, text, shape->head);
    default:
        return 0;
    }
}

/* Follows several edges of that shape. */
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

/* Follows all edges of one shape, from the segment `at` on. */
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

/* Visits a loop at each segment from `at` on, shape by shape: some need only the end. */
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
        } else if (shape->kind >= SHAPE_SEGMENT_END && shape->kind <= SHAPE_GRAM4_END) {
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

/* -------------------------------------------------------------------------------------------------
 * The hash table of the match index: linear probing over tags.
 *
 * Invariant: at most `fill` eighths of the slots are taken, and there is no free slot between an
 * item's home slot and its actual slot. Removal moves later items back instead of leaving
 * tombstones. Pointers and tags are one block. An empty table has a single window of free tags.
 */

#define MIN_CAP 8u

static uint8_t no_tags[MATCH_TABLE_WINDOW]; /* never written */

static size_t block_bytes(size_t cap)
{
    return cap * (sizeof(struct match_item *) + 1) + MATCH_TABLE_WINDOW;
}

void match_table_init(struct match_table *t, uint8_t fill)
{
    *t = (struct match_table){.tags = no_tags, .cap = 1, .fill = fill};
}

void match_table_deinit(struct match_table *t)
{
    mem_free(t->slots);
    match_table_init(t, t->fill);
}

static void set_tag(struct match_table *t, size_t at, uint8_t tag)
{
    t->tags[at] = tag;
    if (at < MATCH_TABLE_WINDOW) {
        t->tags[t->cap + at] = tag;
    }
}

static void match_table_insert(struct match_table *t, struct match_item *item)
{
    size_t at = item->hash & (t->cap - 1);
    while (t->tags[at]) {
        at = (at + 1) & (t->cap - 1);
    }
    set_tag(t, at, match_table_tag(item->hash));
    t->slots[at] = item;
}

static int match_table_resize(struct match_table *t, size_t cap)
{
    struct match_table bigger = {.cap = cap, .count = t->count, .fill = t->fill};
    if (cap > UINT32_MAX || !(bigger.slots = mem_alloc(block_bytes(cap)))) {
        return TIDINGS_E_NOMEM;
    }
    bigger.tags = (uint8_t *)(bigger.slots + cap);
    memset(bigger.tags, 0, cap + MATCH_TABLE_WINDOW);
    for (size_t i = 0; i < t->cap; i++) {
        if (t->tags[i]) {
            match_table_insert(&bigger, t->slots[i]);
        }
    }
    mem_free(t->slots);
    *t = bigger;
    return 0;
}

int match_table_add(struct match_table *t, struct match_item *item)
{
    if (t->count + 1 > t->cap * t->fill / 8) {
        int rc = match_table_resize(t, t->slots ? t->cap * 2 : MIN_CAP);
        if (rc < 0) {
            return rc;
        }
    }
    match_table_insert(t, item);
    t->count++;
    return 0;
}

/* Closes the gap at `gap`: moves back every later item of the run that may move. */
static void match_table_close_gap(struct match_table *t, size_t gap)
{
    size_t mask = t->cap - 1;
    for (size_t i = (gap + 1) & mask; t->tags[i]; i = (i + 1) & mask) {
        size_t home = t->slots[i]->hash & mask;
        if (((i - home) & mask) >= ((i - gap) & mask)) {
            t->slots[gap] = t->slots[i];
            set_tag(t, gap, t->tags[i]);
            gap = i;
        }
    }
    set_tag(t, gap, 0);
}

void match_table_remove(struct match_table *t, const struct match_item *item)
{
    size_t at = item->hash & (t->cap - 1);
    while (t->tags[at] == 0 || t->slots[at] != item) {
        at = (at + 1) & (t->cap - 1);
    }
    match_table_close_gap(t, at);
    t->count--;
    if (t->count == 0) {
        match_table_deinit(t);
    } else if (t->cap > MIN_CAP && t->count < t->cap * t->fill / 40) {
        (void)match_table_resize(t, t->cap / 2); /* if it fails, the larger table works too */
    }
}

size_t match_table_bytes(const struct match_table *t)
{
    return t->slots ? block_bytes(t->cap) : 0;
}

/* ---------------------------------------------------------------------------------------------- */

/* Parts by exact lengths while a state has few shapes; then by rounded ones, of which there are 7
 * for each end. With runs and the rest that is less than 256 in all. */
#define EXACT_SHAPES 64u

/* A pattern that is being added. */
struct pattern_insert {
    struct match_tree *tree;
    struct match_seed seed;
    enum pattern_kind kind;
    struct tidings_str text;
    bool exact;
    struct tidings_error *err;
};

void match_tree_init(struct match_tree *tree)
{
    *tree = (struct match_tree){.root.edge.item.kind = ITEM_STATE};
    match_table_init(&tree->table, MATCH_TABLE_DENSE);
}

void match_tree_deinit(struct match_tree *tree)
{
    match_table_deinit(&tree->table);
}

size_t match_tree_bytes(const struct match_tree *tree)
{
    return tree->bytes + match_table_bytes(&tree->table);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static size_t room_for(size_t shapes)
{
    size_t room = 2;
    while (room < shapes) {
        room *= 2;
    }
    return room;
}

static struct match_shape *find_shape(struct match_state *s, const struct match_shape *like)
{
    struct match_shape *all = match_state_shapes(s);
    for (size_t i = 0; i < s->edge.shape_count; i++) {
        if (all[i].kind == like->kind && all[i].head == like->head && all[i].tail == like->tail) {
            return &all[i];
        }
    }
    return NULL;
}

/* Counts one more edge; `like` has the mark of that edge as its filter. */
static int add_shape(struct match_tree *tree, struct match_state *s, struct match_shape like,
                     struct match_edge *e)
{
    struct match_shape *found = find_shape(s, &like);
    if (found) {
        found->count++;
        found->filter |= like.filter;
        found->only = NULL;
        return 0;
    }
    size_t n = s->edge.shape_count;
    like.count = 1;
    like.only = e;
    if (n == 0) {
        s->shape = like;
    } else {
        size_t room = n == 1 ? 0 : room_for(n);
        struct match_shape *all = n == 1 ? NULL : s->shapes;
        if (n + 1 > room) {
            size_t bigger = room_for(n + 1);
            all = mem_realloc(all, bigger * sizeof(*all));
            if (!all) {
                return TIDINGS_E_NOMEM;
            }
            tree->bytes += (bigger - room) * sizeof(*all);
        }
        if (n == 1) {
            all[0] = s->shape;
        }
        all[n] = like;
        s->shapes = all;
    }
    s->edge.shape_count++;
    return 0;
}

static void remove_shape(struct match_tree *tree, struct match_state *s, struct match_shape like)
{
    struct match_shape *found = find_shape(s, &like);
    if (!found || --found->count > 0) {
        return;
    }
    size_t n = s->edge.shape_count--;
    if (n == 1) {
        return;
    }
    struct match_shape *all = s->shapes;
    *found = all[n - 1];
    size_t room = room_for(n);
    if (n == 2) {
        struct match_shape only = all[0];
        mem_free(all);
        s->shape = only;
        tree->bytes -= room * sizeof(*all);
    } else if (room_for(n - 1) < room) {
        struct match_shape *smaller = mem_realloc(all, room_for(n - 1) * sizeof(*all));
        s->shapes = smaller ? smaller : all; /* a larger array works too */
        tree->bytes -= (room - room_for(n - 1)) * sizeof(*all);
    }
}

static size_t match_tree_clipped(size_t n)
{
    return n > UINT8_MAX ? UINT8_MAX : n;
}

static uint8_t match_tree_rounded(uint8_t n)
{
    uint8_t power = 32;
    while (power > n) {
        power /= 2;
    }
    return power;
}

/* The end of the longest literal between wildcards, because the ends of names differ most. */
static struct tidings_str gram_of(struct tidings_str part, size_t len)
{
    struct tidings_str inner = segment_inner(part);
    return str_skip(inner, inner.len - len);
}

static struct match_shape shape_of(const struct plan_step *step)
{
    struct match_shape shape = {0};
    bool ends = step->kind == PLAN_SEGMENT_END;
    size_t inner;
    switch ((enum plan_kind)step->kind) {
    case PLAN_RUN:
    case PLAN_END:
        shape.kind = step->kind == PLAN_RUN ? SHAPE_RUN : SHAPE_END;
        shape.head = step->segments;
        break;
    case PLAN_LOOP:
        shape.kind = SHAPE_LOOP;
        break;
    case PLAN_ALL:
        shape.kind = SHAPE_ALL;
        break;
    case PLAN_REST:
        shape.kind = SHAPE_REST;
        shape.head = (uint8_t)match_tree_clipped(step->text.len);
        break;
    case PLAN_SEGMENT:
    case PLAN_SEGMENT_END:
        shape.kind = ends ? SHAPE_SEGMENT_END : SHAPE_SEGMENT;
        shape.head = (uint8_t)match_tree_clipped(segment_head(step->text));
        shape.tail = (uint8_t)match_tree_clipped(segment_tail(step->text));
        inner = shape.head + shape.tail > 0 ? 0 : segment_inner(step->text).len;
        if (inner >= 8) {
            shape.kind = ends ? SHAPE_GRAM8_END : SHAPE_GRAM8;
        } else if (inner >= 4) {
            shape.kind = ends ? SHAPE_GRAM4_END : SHAPE_GRAM4;
        }
        break;
    }
    return shape;
}

/* ---- edges ----------------------------------------------------------------------------------- */

static uint64_t match_tree_hash_run(struct match_seed seed, struct tidings_str text,
                                    size_t segments)
{
    uint64_t h = seed.start;
    for (size_t i = 0; i < segments; i++) {
        struct tidings_str segment = str_cut(text, '/', &text, NULL);
        h = match_chain(seed, h, match_hash(seed, segment.ptr, segment.len));
    }
    return h;
}

/* The hash of the part of an edge's text that the shape cuts out. */
static uint64_t match_tree_cut_hash(struct match_seed seed, const struct match_shape *shape,
                                    struct tidings_str text)
{
    switch ((enum match_shape_kind)shape->kind) {
    case SHAPE_RUN:
    case SHAPE_END:
        return match_tree_hash_run(seed, text, shape->head);
    case SHAPE_SEGMENT:
    case SHAPE_SEGMENT_END:
        return match_affix(seed, text, shape);
    case SHAPE_GRAM8:
    case SHAPE_GRAM8_END:
        return match_hash(seed, gram_of(text, 8).ptr, 8);
    case SHAPE_GRAM4:
    case SHAPE_GRAM4_END:
        return match_hash(seed, gram_of(text, 4).ptr, 4);
    case SHAPE_REST:
        return match_hash(seed, text.ptr, shape->head);
    case SHAPE_LOOP:
    case SHAPE_ALL:
        break;
    }
    return 0;
}

static uint8_t match_tree_mark_of(struct match_seed seed, const struct match_shape *shape,
                                  struct tidings_str text)
{
    switch (shape->kind) {
    case SHAPE_RUN:
    case SHAPE_END:
        return match_run_mark(match_tree_hash_run(seed, text, shape->head));
    case SHAPE_SEGMENT:
    case SHAPE_SEGMENT_END:
        return match_segment_mark(text, shape);
    default:
        return UINT8_MAX;
    }
}

static uint32_t match_tree_key_of(const struct pattern_insert *p, const struct match_state *parent,
                                  const struct match_shape *shape, struct tidings_str text)
{
    return match_edge_key(p->seed, parent, shape, match_tree_cut_hash(p->seed, shape, text));
}

/* Returns true if the leaf has the same additional check as this pattern. */
static bool asks_the_same(const struct match_edge *e, const struct pattern_insert *p)
{
    if (e->item.kind != ITEM_CHECKED) {
        return p->exact;
    }
    const struct match_checked *c = (const struct match_checked *)e;
    if (c->compiled) {
        return !p->exact && p->kind == PATTERN_TEMPLATE &&
               str_eq(template_text(c->compiled), p->text);
    }
    if (p->exact || c->glob_len == 0) {
        return p->exact && c->glob_len == 0;
    }
    return p->kind != PATTERN_TEMPLATE && c->question == (p->kind == PATTERN_GLOB_Q) &&
           str_eq(match_checked_glob(c), p->text);
}

/* Returns the edge under that shape, or NULL and the number of other edges with its hash. */
static struct match_edge *find_edge(const struct pattern_insert *p,
                                    const struct match_state *parent, struct match_shape shape,
                                    struct tidings_str text, size_t *ret_alike)
{
    struct match_cursor at =
        match_table_seek(&p->tree->table, match_tree_key_of(p, parent, &shape, text));
    *ret_alike = 0;
    for (struct match_item *item; (item = match_table_next(&at));) {
        struct match_edge *e = (struct match_edge *)item;
        if (e->parent != parent || item->detail != shape.kind || e->head != shape.head ||
            e->tail != shape.tail) {
            continue;
        }
        ++*ret_alike;
        if (str_eq(match_edge_text(e), text) && (item->kind == ITEM_STATE || asks_the_same(e, p))) {
            return e;
        }
    }
    return NULL;
}

/* The approximate memory use of template_create. */
static size_t template_bytes(const struct uri_template *t)
{
    return 2 * template_text(t).len + 200 + 170 * template_variable_count(t);
}

static size_t edge_bytes(const struct match_edge *e)
{
    size_t bytes = (size_t)(match_edge_text(e).ptr - (const char *)e) + e->item.len;
    if (e->item.kind == ITEM_CHECKED) {
        const struct match_checked *c = (const struct match_checked *)e;
        bytes += c->glob_len + (c->compiled ? template_bytes(c->compiled) : 0);
    }
    return bytes;
}

static void free_edge(struct match_tree *tree, struct match_edge *e)
{
    tree->bytes -= edge_bytes(e);
    if (e->item.kind == ITEM_CHECKED) {
        template_destroy(((struct match_checked *)e)->compiled);
    }
    mem_free(e);
}

/* Allocates an edge with its additional check. Returns NULL with the reason in *ret_code. */
static struct match_edge *make_edge(const struct pattern_insert *p, uint8_t kind,
                                    struct tidings_str text, int *ret_code)
{
    bool keeps_glob = kind == ITEM_CHECKED && !p->exact && p->kind != PATTERN_TEMPLATE;
    size_t size = kind == ITEM_STATE  ? sizeof(struct match_state)
                  : kind == ITEM_LEAF ? sizeof(struct match_edge)
                                      : sizeof(struct match_checked);
    char *memory = mem_alloc(size + text.len + (keeps_glob ? p->text.len : 0));
    if (!memory) {
        *ret_code = tidings_fail(p->err, TIDINGS_E_NOMEM, "pattern: out of memory");
        return NULL;
    }
    memset(memory, 0, size);
    memcpy(memory + size, text.ptr, text.len);
    struct match_edge *e = (struct match_edge *)(void *)memory;
    e->item.kind = kind;
    e->item.len = (uint16_t)text.len;
    struct match_checked *c = (struct match_checked *)e;
    if (keeps_glob) {
        c->glob_len = (uint16_t)p->text.len;
        c->question = p->kind == PATTERN_GLOB_Q;
        memcpy(memory + size + text.len, p->text.ptr, p->text.len);
    } else if (kind == ITEM_CHECKED && !p->exact) {
        *ret_code = template_create(p->text, &c->compiled, p->err);
        if (*ret_code < 0) {
            mem_free(memory);
            return NULL;
        }
    }
    p->tree->bytes += edge_bytes(e);
    return e;
}

/* Adds a new edge under `shape`. Returns NULL with the reason in *ret_code. */
static struct match_edge *add_edge(const struct pattern_insert *p, struct match_state *parent,
                                   struct match_shape shape, struct tidings_str text, int *ret_code)
{
    bool is_checked = !p->exact || shape.kind == SHAPE_ALL;
    uint8_t kind = shape.kind < SHAPE_LAST ? ITEM_STATE : is_checked ? ITEM_CHECKED : ITEM_LEAF;
    struct match_edge *e = make_edge(p, kind, text, ret_code);
    if (!e) {
        return NULL;
    }
    e->item.hash = match_tree_key_of(p, parent, &shape, text);
    e->item.detail = shape.kind;
    e->parent = parent;
    e->head = shape.head;
    e->tail = shape.tail;
    shape.filter = match_tree_mark_of(p->seed, &shape, text);
    if (add_shape(p->tree, parent, shape, e) < 0) {
        goto fail_shape;
    }
    if (match_table_add(&p->tree->table, &e->item) < 0) {
        goto fail_table;
    }
    return e;

fail_table:
    remove_shape(p->tree, parent, shape);
fail_shape:
    free_edge(p->tree, e);
    *ret_code = tidings_fail(p->err, TIDINGS_E_NOMEM, "pattern: out of memory");
    return NULL;
}

/* Returns the target of the step from `parent`. NULL with the reason in *ret_code. */
static struct match_edge *take_step(const struct pattern_insert *p, struct match_state *parent,
                                    const struct plan_step *step, int *ret_code)
{
    struct match_shape shape = shape_of(step);
    size_t alike;
    struct match_edge *e = find_edge(p, parent, shape, step->text, &alike);
    if (e) {
        return e;
    }
    struct match_shape round = shape;
    if (shape.kind == SHAPE_SEGMENT || shape.kind == SHAPE_SEGMENT_END ||
        shape.kind == SHAPE_REST) {
        round.head = match_tree_rounded(shape.head);
        round.tail = match_tree_rounded(shape.tail);
    }
    if (round.head != shape.head || round.tail != shape.tail) {
        size_t alike_round;
        e = find_edge(p, parent, round, step->text, &alike_round);
        if (e) {
            return e;
        }
        if (parent->edge.shape_count >= EXACT_SHAPES && !find_shape(parent, &shape)) {
            shape = round;
            alike = alike_round;
        }
    }
    if (alike >= MATCH_MAX_ALIKE) {
        *ret_code = tidings_fail(p->err, TIDINGS_E_LIMIT,
                                 "pattern refused: %zu others differ from it only between their "
                                 "wildcards, at most %u accepted",
                                 alike, MATCH_MAX_ALIKE);
        return NULL;
    }
    return add_edge(p, parent, shape, step->text, ret_code);
}

static void remove_edge(struct match_tree *tree, struct match_edge *e)
{
    struct match_shape shape = {.kind = e->item.detail, .head = e->head, .tail = e->tail};
    match_table_remove(&tree->table, &e->item);
    remove_shape(tree, e->parent, shape);
    free_edge(tree, e);
}

/* Removes the state and its ancestors that no longer lead to a leaf. */
static void match_tree_prune(struct match_tree *tree, struct match_state *s)
{
    while (s != &tree->root && s->edge.shape_count == 0) {
        struct match_state *parent = s->edge.parent;
        remove_edge(tree, &s->edge);
        s = parent;
    }
}

int match_tree_add(struct match_tree *tree, struct match_seed seed, enum pattern_kind kind,
                   struct tidings_str text, struct match_entry **ret, struct tidings_error *err)
{
    struct pattern_plan plan;
    int rc = kind == PATTERN_TEMPLATE ? plan_template(&plan, text, err)
                                      : plan_glob(&plan, text, kind == PATTERN_GLOB_Q, err);
    if (rc < 0) {
        return rc;
    }
    struct pattern_insert p = {tree, seed, kind, text, plan.exact, err};
    struct match_state *s = &tree->root;
    for (size_t i = 0; i < plan.count; i++) {
        struct match_edge *e = take_step(&p, s, &plan.steps[i], &rc);
        if (!e) {
            match_tree_prune(tree, s);
            return rc;
        }
        if (i + 1 == plan.count) {
            *ret = &e->entry;
            break;
        }
        s = (struct match_state *)e;
    }
    return 0;
}

void match_tree_remove(struct match_tree *tree, struct match_entry *leaf)
{
    struct match_edge *e = (struct match_edge *)leaf;
    struct match_state *parent = e->parent;
    remove_edge(tree, e);
    match_tree_prune(tree, parent);
}
