/* SPDX-License-Identifier: MIT
 *
 * Compiling a regex: from its tree to a program of ops. The result is one block of memory: the
 * struct, then ops, lookarounds, rows, and of characters the intervals.
 *
 * Every visit to the tree is counted, since nested repetitions of nothing would take for ever and
 * leave no ops behind.
 */
#include "base/regex.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/regex_private.h"

#define ARENA_MAX ((size_t)1 << 20)
#define MAX_VISITS (8u * REGEX_MAX_OPS)
#define TOO_LARGE "regex refused: it is too large (repetitions count as often as they may repeat)"
#define MAX_MARKS 262144u /* sets times intervals they cover */

int regex_arena_failed(const struct arena *a, struct tidings_error *err)
{
    /* Whatever is asked for is at most a few times as large as what is there. */
    return a->used > a->max / 8 ? tidings_fail(err, TIDINGS_E_LIMIT, TOO_LARGE)
                                : tidings_fail(err, TIDINGS_E_NOMEM, "regex: out of memory");
}

struct emitter {
    struct regex_op ops[REGEX_MAX_OPS];
    struct regex_lookaround lookarounds[REGEX_MAX_LOOKAROUNDS];
    size_t n_ops, n_lookarounds, visits;
    bool is_plain, is_full;
};

static void emit(struct emitter *e, struct regex_tree *t, bool backwards);

static uint16_t regex_put(struct emitter *e, enum regex_code code, size_t to)
{
    if (e->n_ops == REGEX_MAX_OPS) {
        e->is_full = true;
        return 0;
    }
    e->ops[e->n_ops] = (struct regex_op){(uint8_t)code, (uint16_t)to};
    return (uint16_t)e->n_ops++;
}

static void emit_alternatives(struct emitter *e, struct regex_tree *t, bool backwards)
{
    uint16_t ends = UINT16_MAX; /* jumps to the end, each with the one before it in `to` */
    for (struct regex_tree *child = t->first; child && !e->is_full; child = child->next) {
        uint16_t split = child->next ? regex_put(e, CODE_SPLIT, 0) : 0;
        emit(e, child, backwards);
        if (child->next) {
            ends = regex_put(e, CODE_JUMP, ends);
            e->ops[split].to = (uint16_t)e->n_ops;
        }
    }
    while (ends != UINT16_MAX && !e->is_full) {
        uint16_t before = e->ops[ends].to;
        e->ops[ends].to = (uint16_t)e->n_ops;
        ends = before;
    }
}

static void emit_repeat(struct emitter *e, struct regex_tree *t, bool backwards)
{
    bool is_endless = t->max == REGEX_NO_MAXIMUM;
    uint32_t alone = is_endless && t->min > 0 ? t->min - 1 : t->min;
    for (uint32_t i = 0; i < alone && !e->is_full; i++) {
        emit(e, t->first, backwards);
    }
    if (is_endless && t->min > 0) {
        size_t again = e->n_ops;
        emit(e, t->first, backwards);
        regex_put(e, CODE_SPLIT, again);
    } else if (is_endless) {
        uint16_t split = regex_put(e, CODE_SPLIT, 0);
        emit(e, t->first, backwards);
        regex_put(e, CODE_JUMP, split);
        e->ops[split].to = (uint16_t)e->n_ops;
    } else {
        uint16_t ends = UINT16_MAX;
        for (uint32_t i = t->min; i < t->max && !e->is_full; i++) {
            ends = regex_put(e, CODE_SPLIT, ends);
            emit(e, t->first, backwards);
        }
        while (ends != UINT16_MAX && !e->is_full) {
            uint16_t before = e->ops[ends].to;
            e->ops[ends].to = (uint16_t)e->n_ops;
            ends = before;
        }
    }
}

/* Its program lies where it is first met, and is jumped over. What it says does not depend on the
 * direction it is asked in, so one is enough. */
static void emit_lookaround(struct emitter *e, struct regex_tree *t)
{
    if (t->set == 0) {
        uint16_t over = regex_put(e, CODE_JUMP, 0);
        size_t start = e->n_ops;
        emit(e, t->first, !t->is_behind);
        regex_put(e, CODE_FOUND, 0);
        e->ops[over].to = (uint16_t)e->n_ops;
        if (e->n_lookarounds == REGEX_MAX_LOOKAROUNDS) {
            e->is_full = true;
            return;
        }
        e->lookarounds[e->n_lookarounds++] =
            (struct regex_lookaround){(uint16_t)start, t->is_behind, t->is_negative};
        t->set = e->n_lookarounds;
    }
    regex_put(e, CODE_LOOKAROUND, t->set - 1);
}

static void emit(struct emitter *e, struct regex_tree *t, bool backwards)
{
    if (e->is_full || ++e->visits > MAX_VISITS) {
        e->is_full = true;
        return;
    }
    e->is_plain =
        e->is_plain && (t->kind <= REGEX_REPEAT || t->kind == REGEX_BEGIN || t->kind == REGEX_END);
    switch (t->kind) {
    case REGEX_EMPTY:
        break;
    case REGEX_SET:
        regex_put(e, CODE_SET, t->set);
        break;
    case REGEX_SEQUENCE:
        for (struct regex_tree *c = backwards ? t->last : t->first; c && !e->is_full;
             c = backwards ? c->prev : c->next) {
            emit(e, c, backwards);
        }
        break;
    case REGEX_ALTERNATIVES:
        emit_alternatives(e, t, backwards);
        break;
    case REGEX_REPEAT:
        emit_repeat(e, t, backwards);
        break;
    case REGEX_LOOKAROUND:
        emit_lookaround(e, t);
        break;
    case REGEX_BEGIN:
    case REGEX_END:
    case REGEX_LINE_BEGIN:
    case REGEX_LINE_END:
    case REGEX_WORD:
    case REGEX_NOT_WORD:
        regex_put(e, (enum regex_code)(CODE_BEGIN + (t->kind - REGEX_BEGIN)), 0);
        break;
    }
}

/* ---- columns --------------------------------------------------------------------------------- */

struct interval {
    uint32_t start;
    uint8_t column;
    uint64_t mark; /* which sets it is in, in short */
};

struct columns {
    struct interval *at;
    size_t count, n_columns;
};

static int by_start(const void *a, const void *b)
{
    uint32_t x = ((const struct interval *)a)->start, y = ((const struct interval *)b)->start;
    return x < y ? -1 : x > y;
}

static size_t find_interval(const struct columns *c, uint32_t start)
{
    size_t low = 0, high = c->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (c->at[middle].start <= start) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Where any set begins or ends, of bytes. */
static bool cut_bytes(struct arena *a, const struct regex_sets *sets, struct columns *c)
{
    bool is_start[257] = {true};
    for (size_t i = 0; i < sets->count; i++) {
        for (size_t k = 0; k < sets->at[i].count; k++) {
            is_start[sets->at[i].at[k].first] = true;
            is_start[sets->at[i].at[k].last + 1] = true;
        }
    }
    for (size_t i = 0; i < 256; i++) {
        c->count += is_start[i];
    }
    c->at = arena_alloc(a, c->count * sizeof(*c->at));
    for (size_t i = 0, n = 0; c->at && i < 256; i++) {
        if (is_start[i]) {
            c->at[n++].start = (uint32_t)i;
        }
    }
    return c->at != NULL;
}

/* … of characters. False: no room. */
static bool regex_cut(struct arena *a, const struct regex_sets *sets, struct columns *c)
{
    size_t most = 1, n = 1;
    for (size_t i = 0; i < sets->count; i++) {
        most += 2 * sets->at[i].count;
    }
    c->at = arena_alloc(a, most * sizeof(*c->at));
    if (!c->at) {
        return false;
    }
    for (size_t i = 0; i < sets->count; i++) {
        for (size_t k = 0; k < sets->at[i].count; k++) {
            c->at[n++].start = sets->at[i].at[k].first;
            c->at[n++].start = sets->at[i].at[k].last + 1;
        }
    }
    qsort(c->at, n, sizeof(*c->at), by_start);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || c->at[i].start != c->at[c->count - 1].start) {
            c->at[c->count++].start = c->at[i].start;
        }
    }
    return true;
}

/* Two intervals that are in the same sets get the same mark. (That others do is as likely as any
 * 64-bit hash; it would concern the author of the regex alone.) */
static bool mark(const struct regex_sets *sets, struct columns *c)
{
    size_t work = 0;
    for (size_t i = 0; i < sets->count; i++) {
        for (size_t k = 0; k < sets->at[i].count; k++) {
            const struct regex_range *range = &sets->at[i].at[k];
            for (size_t n = find_interval(c, range->first);
                 n < c->count && c->at[n].start <= range->last; n++) {
                uint64_t h = (c->at[n].mark ^ (i + 1)) * 0x9e3779b97f4a7c15u;
                c->at[n].mark = h ^ h >> 29;
                work++;
            }
        }
        if (work > MAX_MARKS) {
            return false;
        }
    }
    return true;
}

static bool number(struct columns *c)
{
    uint64_t marks[REGEX_MAX_COLUMNS];
    for (size_t i = 0; i < c->count; i++) {
        size_t n = 0;
        while (n < c->n_columns && marks[n] != c->at[i].mark) {
            n++;
        }
        if (n == REGEX_MAX_COLUMNS) {
            return false;
        }
        if (n == c->n_columns) {
            marks[n] = c->at[i].mark;
            c->n_columns++;
        }
        c->at[i].column = (uint8_t)n;
    }
    return true;
}

static void fill_rows(const struct regex_sets *sets, const struct columns *c, uint8_t *cells)
{
    memset(cells, 0, sets->count * c->n_columns);
    for (size_t i = 0; i < sets->count; i++) {
        for (size_t k = 0; k < sets->at[i].count; k++) {
            const struct regex_range *range = &sets->at[i].at[k];
            for (size_t n = find_interval(c, range->first);
                 n < c->count && c->at[n].start <= range->last; n++) {
                cells[i * c->n_columns + c->at[n].column] = 1;
            }
        }
    }
}

/* Whatever is found begins with the sets of one byte that the program begins with. */
static void find_prefix(struct regex *r, const struct regex_sets *sets)
{
    size_t at = r->ops[0].code == CODE_BEGIN;
    r->is_anchored = at == 1;
    for (; r->prefix_len < sizeof(r->prefix) && r->ops[at].code == CODE_SET; at++) {
        const struct regex_set *set = &sets->at[r->ops[at].to];
        if (set->count != 1 || set->at[0].first != set->at[0].last || set->at[0].first > 127) {
            break;
        }
        r->prefix[r->prefix_len++] = (char)set->at[0].first;
    }
}

/* ---- putting it together --------------------------------------------------------------------- */

static struct regex *assemble(const struct emitter *e, const struct regex_sets *sets,
                              const struct columns *c, enum regex_units units)
{
    size_t n_intervals = units == REGEX_CHARACTERS ? c->count : 0;
    size_t rows = sets->count * c->n_columns;
    size_t bytes = sizeof(struct regex) + n_intervals * (sizeof(uint32_t) + 1) +
                   e->n_ops * sizeof(*e->ops) + e->n_lookarounds * sizeof(*e->lookarounds) + rows;
    struct regex *r = mem_alloc(bytes);
    if (!r) {
        return NULL;
    }
    /* In the order of what they must be aligned for. */
    uint32_t *starts = (uint32_t *)(r + 1);
    struct regex_op *ops = (struct regex_op *)(starts + n_intervals);
    struct regex_lookaround *lookarounds = (struct regex_lookaround *)(ops + e->n_ops);
    uint8_t *cells = (uint8_t *)(lookarounds + e->n_lookarounds);
    *r = (struct regex){
        .units = units,
        .is_plain = e->is_plain,
        .n_ops = (uint16_t)e->n_ops,
        .n_lookarounds = (uint16_t)e->n_lookarounds,
        .n_columns = c->n_columns,
        .bytes = bytes,
        .n_intervals = n_intervals,
        .ops = ops,
        .lookarounds = lookarounds,
        .rows = cells,
        .starts = starts,
        .intervals = cells + rows,
    };
    memcpy(ops, e->ops, e->n_ops * sizeof(*ops));
    if (e->n_lookarounds > 0) {
        memcpy(lookarounds, e->lookarounds, e->n_lookarounds * sizeof(*lookarounds));
    }
    for (size_t i = 0; i < n_intervals; i++) {
        starts[i] = c->at[i].start;
        cells[rows + i] = c->at[i].column;
    }
    for (size_t i = 0, n = 0; i < 256; i++) {
        n += n + 1 < c->count && c->at[n + 1].start <= i;
        r->columns[i] = c->at[n].column;
    }
    fill_rows(sets, c, cells);
    find_prefix(r, sets);
    return r;
}

/* In steps: ops are written, ranges collected, sorted and compared. */
static uint64_t cost_of(const struct emitter *e, const struct regex_sets *sets)
{
    uint64_t ranges = 0;
    for (size_t i = 0; i < sets->count; i++) {
        ranges += sets->at[i].count;
    }
    return 500 + 3 * e->visits + 35 * ranges;
}

static int regex_build(struct arena *a, struct regex_tree *tree, struct regex_sets *sets,
                       enum regex_units units, struct regex **ret, struct tidings_error *err)
{
    struct columns c = {0};
    struct emitter *e = mem_alloc(sizeof(*e));
    if (!e) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "regex: out of memory");
    }
    e->n_ops = 0;
    e->n_lookarounds = 0;
    e->visits = 0;
    e->is_plain = true;
    e->is_full = false;
    emit(e, tree, false);
    regex_put(e, CODE_FOUND, 0);
    bool is_cut =
        !e->is_full && (units == REGEX_BYTES ? cut_bytes(a, sets, &c) : regex_cut(a, sets, &c));
    bool fits =
        is_cut && mark(sets, &c) && number(&c) && sets->count * c.n_columns <= REGEX_MAX_CELLS;
    bool has_failed = !is_cut && !e->is_full;
    *ret = fits ? assemble(e, sets, &c, units) : NULL;
    sets->cost += cost_of(e, sets);
    mem_free(e);
    if (has_failed) {
        return regex_arena_failed(a, err);
    }
    if (!fits) {
        return tidings_fail(err, TIDINGS_E_LIMIT, TOO_LARGE);
    }
    return *ret ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "regex: out of memory");
}

int regex_create(struct tidings_str source, enum regex_units units, size_t max_bytes,
                 struct regex **ret, struct tidings_error *err)
{
    uint64_t cost = 0;
    return regex_create_counted(source, units, max_bytes, &cost, ret, err);
}

int regex_create_counted(struct tidings_str source, enum regex_units units, size_t max_bytes,
                         uint64_t *cost, struct regex **ret, struct tidings_error *err)
{
    if (source.len > max_bytes) {
        return tidings_fail(err, TIDINGS_E_LIMIT,
                            "regex of %zu bytes refused: at most %zu accepted", source.len,
                            max_bytes);
    }
    struct arena arena;
    struct regex_tree *tree = NULL;
    struct regex_sets sets = {.cost = 6 * source.len};
    arena_init(&arena, ARENA_MAX);
    int rc = regex_parse(&arena, source, units, &tree, &sets, err);
    if (rc == 0) {
        rc = regex_build(&arena, tree, &sets, units, ret, err);
    }
    *cost += sets.cost;
    arena_deinit(&arena);
    return rc;
}

void regex_destroy(struct regex *r)
{
    mem_free(r);
}

size_t regex_bytes(const struct regex *r)
{
    return r->bytes;
}
