/* SPDX-License-Identifier: MIT
 *
 * Regexes: compilation from the tree to a program of ops, and search. A regex is one block of
 * memory: the struct, then ops, lookarounds, rows, and the intervals of characters.
 *
 * Every visit to the tree is counted, because nested repetitions of nothing would never end without
 * producing ops.
 */
#include "formats/regex.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/mem.h"
#include "formats/regex_internal.h"

/* -------------------------------------------------------------------------------------------------
 * Sets of characters during parsing: ranges in an arena, in any order until finished.
 */

bool regex_set_add(struct arena *a, struct regex_set *set, uint32_t first, uint32_t last)
{
    if (set->count == set->cap) {
        size_t cap = set->cap ? 2 * set->cap : 4;
        struct regex_range *more = arena_alloc(a, cap * sizeof(*more));
        if (!more) {
            return false;
        }
        if (set->count > 0) {
            memcpy(more, set->at, set->count * sizeof(*more));
        }
        set->at = more;
        set->cap = cap;
    }
    set->at[set->count++] = (struct regex_range){first, last};
    return true;
}

bool regex_set_add_all(struct arena *a, struct regex_set *set, const struct regex_set *more)
{
    bool ok = true;
    for (size_t i = 0; ok && i < more->count; i++) {
        ok = regex_set_add(a, set, more->at[i].first, more->at[i].last);
    }
    return ok;
}

static int by_first(const void *a, const void *b)
{
    uint32_t x = ((const struct regex_range *)a)->first, y = ((const struct regex_range *)b)->first;
    return x < y ? -1 : x > y;
}

void regex_set_finish(struct regex_set *set)
{
    bool is_sorted = true;
    for (size_t i = 1; is_sorted && i < set->count; i++) {
        is_sorted = set->at[i - 1].first <= set->at[i].first;
    }
    if (!is_sorted) {
        qsort(set->at, set->count, sizeof(*set->at), by_first);
    }
    size_t n = 0;
    for (size_t i = 0; i < set->count; i++) {
        struct regex_range *r = &set->at[i];
        if (n > 0 && r->first <= set->at[n - 1].last + 1) {
            if (r->last > set->at[n - 1].last) {
                set->at[n - 1].last = r->last;
            }
        } else {
            set->at[n++] = *r;
        }
    }
    set->count = n;
}

bool regex_set_invert(struct arena *a, struct regex_set *set, uint32_t last)
{
    struct regex_set other = {0};
    uint32_t next = 0;
    bool ok = true;
    regex_set_finish(set);
    for (size_t i = 0; ok && i < set->count; i++) {
        if (set->at[i].first > next) {
            ok = regex_set_add(a, &other, next, set->at[i].first - 1);
        }
        next = set->at[i].last + 1;
    }
    if (ok && next <= last) {
        ok = regex_set_add(a, &other, next, last);
    }
    *set = other;
    return ok;
}

bool regex_set_fold(struct arena *a, struct regex_set *set)
{
    bool ok = true;
    for (size_t i = 0, count = set->count; ok && i < count; i++) {
        for (int is_small = 0; ok && is_small <= 1; is_small++) {
            uint32_t low = is_small ? 'a' : 'A', high = low + 25;
            uint32_t first = set->at[i].first > low ? set->at[i].first : low;
            uint32_t last = set->at[i].last < high ? set->at[i].last : high;
            if (first <= last) {
                ok = regex_set_add(a, set, first ^ 0x20u, last ^ 0x20u);
            }
        }
    }
    return ok;
}

/* Pairs of first and last. */
static bool add_pairs(struct arena *a, struct regex_set *set, const char *pairs)
{
    bool ok = true;
    for (; ok && *pairs; pairs += 2) {
        ok = regex_set_add(a, set, (unsigned char)pairs[0], (unsigned char)pairs[1]);
    }
    return ok;
}

#define DIGITS "09"
#define WORDS "09AZ__az"

bool regex_set_letter(struct arena *a, struct regex_set *set, char letter, uint32_t last,
                      bool *ret_full)
{
    static const char *const pairs[] = {
        ['d'] = DIGITS,           ['w'] = WORDS,          ['s'] = "\t\r  ",
        ['h'] = "\t\t  \xa0\xa0", ['v'] = "\n\r\x85\x85",
    };
    char small = (char)(letter | 0x20);
    bool is_inverted = letter != small;
    struct regex_set own = {0};
    const char *p = letter == 'N'                  ? "\n\n"
                    : small >= 'd' && small <= 'w' ? pairs[(size_t)small]
                                                   : NULL;
    if (!p) {
        return false;
    }
    bool ok = add_pairs(a, &own, p) && (!is_inverted || regex_set_invert(a, &own, last)) &&
              regex_set_add_all(a, set, &own);
    *ret_full = *ret_full || !ok;
    return true;
}

bool regex_set_posix(struct arena *a, struct regex_set *set, struct tidings_str name,
                     bool *ret_full)
{
    static const struct {
        const char *name, *pairs;
    } classes[] = {
        {"alpha", "AZaz"},     {"digit", DIGITS},
        {"alnum", "09AZaz"},   {"upper", "AZ"},
        {"lower", "az"},       {"space", "\t\r  "},
        {"blank", "\t\t  "},   {"cntrl", "\x01\x1f\x7f\x7f"},
        {"graph", "!~"},       {"print", " ~"},
        {"punct", "!/:@[`{~"}, {"xdigit", "09AFaf"},
        {"word", WORDS},       {"ascii", "\x01\x7f"},
    };
    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
        if (str_eq(name, tidings_str(classes[i].name))) {
            bool has_nul = name.ptr[0] == 'c' || str_eq(name, STR("ascii"));
            bool ok =
                add_pairs(a, set, classes[i].pairs) && (!has_nul || regex_set_add(a, set, 0, 0));
            *ret_full = *ret_full || !ok;
            return true;
        }
    }
    return false;
}

/* ---------------------------------------------------------------------------------------------- */

#define ARENA_MAX ((size_t)1 << 20)
#define MAX_VISITS (8u * REGEX_MAX_OPS)
#define TOO_LARGE "regex refused: it is too large (repetitions count as often as they may repeat)"
#define MAX_MARKS 262144u /* sets times intervals they cover */

int regex_arena_failed(const struct arena *a, struct tidings_error *err)
{
    /* A single allocation is at most a few times as large as the memory in use, so a nearly empty
     * arena means that there is no memory. */
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
    uint16_t ends = UINT16_MAX; /* jumps to the end, each with the previous one in `to` */
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

/* Its program is at its first use, and is skipped by a jump. It does not depend on the search
 * direction, so one is enough. */
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
    uint64_t mark; /* the sets that contain it, as a hash */
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

/* Boundaries of all sets, for bytes. */
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

/* … for characters. False: no room. */
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

/* Two intervals that are in the same sets get the same mark. (Others share one only by a collision
 * of 64-bit hashes; it would affect only the author of the regex.) */
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

/* Every match starts with the sets of one byte at the start of the program. */
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

/* ---- assembly -------------------------------------------------------------------------------- */

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
    /* In the order of their alignment. */
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

/* The cost in steps: ops are written; ranges are collected, sorted and compared. */
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

/* -------------------------------------------------------------------------------------------------
 * Searches text for a regex: all paths through the program at once, one character after the other
 * (Thompson's simulation). Each op is tried at most once at each position of the text, however many
 * paths lead to it.
 */

/* The cost of finding the column of a non-ASCII character. */
#define WIDE_STEPS 4u

static void regex_front_clear(struct regex_front *f);

static void regex_front_init(struct regex_front *f, const struct regex *r)
{
    f->r = r;
    f->spent = 0;
    f->now = 0;
    f->lookarounds = 0;
    memset(f->seen, 0, r->n_ops * sizeof(*f->seen));
    regex_front_clear(f);
}

static void regex_front_clear(struct regex_front *f)
{
    f->now++;
    f->count = 0;
    f->is_found = false;
    f->is_end_refused = false;
}

/* Returns true if the assertion at `at` holds at this position of the text. */
static bool regex_search_holds(struct regex_front *f, uint16_t at)
{
    const struct regex_op *op = &f->r->ops[at];
    switch ((enum regex_code)op->code) {
    case CODE_BEGIN:
        return f->is_begin;
    case CODE_END:
        if (f->is_end_open) {
            f->list[f->count++] = at;
        }
        f->is_end_refused = f->is_end_refused || !f->is_end;
        return f->is_end;
    case CODE_LINE_BEGIN:
        return f->is_line_begin;
    case CODE_LINE_END:
        return f->is_line_end;
    case CODE_WORD:
        return f->is_word;
    case CODE_NOT_WORD:
        return !f->is_word;
    case CODE_LOOKAROUND:
        return (f->lookarounds >> op->to & 1) != f->r->lookarounds[op->to].is_negative;
    case CODE_SET:
    case CODE_JUMP:
    case CODE_SPLIT:
    case CODE_FOUND:
        break;
    }
    return false;
}

/* And all ops it leads to. */
static void regex_front_add(struct regex_front *f, uint16_t at)
{
    const struct regex_op *ops = f->r->ops;
    size_t waiting = 0; /* never more than the number of splits */
    for (;;) {
        bool goes_on = f->seen[at] != f->now;
        f->spent++;
        f->seen[at] = f->now;
        if (goes_on) {
            switch ((enum regex_code)ops[at].code) {
            case CODE_SET:
                f->list[f->count++] = at;
                goes_on = false;
                break;
            case CODE_FOUND:
                f->is_found = true;
                goes_on = false;
                break;
            case CODE_JUMP:
                at = ops[at].to;
                continue;
            case CODE_SPLIT:
                f->stack[waiting++] = ops[at].to;
                break;
            case CODE_BEGIN:
            case CODE_END:
            case CODE_LINE_BEGIN:
            case CODE_LINE_END:
            case CODE_WORD:
            case CODE_NOT_WORD:
            case CODE_LOOKAROUND:
                goes_on = regex_search_holds(f, at);
                break;
            }
        }
        if (goes_on) {
            at++;
        } else if (waiting > 0) {
            at = f->stack[--waiting];
        } else {
            return;
        }
    }
}

/* ---- a text ---------------------------------------------------------------------------------- */

struct walk {
    const struct regex *r;
    struct tidings_str text;
    uint64_t *steps;
    uint16_t *holds_at; /* a bit for each lookaround at every position; NULL: none */
    struct regex_front front;
    uint16_t before[REGEX_MAX_OPS]; /* the list of the previous position */
};

static bool is_word_at(struct tidings_str text, size_t at)
{
    char c = at < text.len ? text.ptr[at] : ' ';
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static void note_context(struct walk *w, size_t at)
{
    struct regex_front *f = &w->front;
    f->is_begin = at == 0;
    f->is_end = at == w->text.len;
    f->is_end_open = false;
    if (!w->r->is_plain) {
        f->is_line_begin = at == 0 || (at < w->text.len && w->text.ptr[at - 1] == '\n');
        f->is_line_end = at == w->text.len || w->text.ptr[at] == '\n';
        f->is_word = (at > 0 && is_word_at(w->text, at - 1)) != is_word_at(w->text, at);
        f->lookarounds = w->holds_at ? w->holds_at[at] : 0;
    }
}

/* Moves one character forward or back from `at`; returns its column. */
static uint8_t regex_search_step(struct walk *w, size_t *at, bool backwards)
{
    const struct regex *r = w->r;
    size_t len = 1;
    if (r->units == REGEX_BYTES) {
        size_t here = backwards ? --*at : (*at)++;
        return r->columns[(unsigned char)w->text.ptr[here]];
    }
    size_t here = *at;
    if (backwards) {
        for (here--; here > 0 && *at - here < 4 && (w->text.ptr[here] & 0xc0) == 0x80; here--) {
        }
    }
    uint32_t c = regex_decode(w->text, here, &len);
    if (backwards && here + len != *at) { /* invalid UTF-8 */
        here = *at - 1;
        c = (unsigned char)w->text.ptr[here];
    }
    *at = backwards ? here : here + len;
    w->front.spent += c < 128 ? 0 : WIDE_STEPS;
    return regex_column(r, c);
}

/* Runs the program at `start`, which can match anywhere. With `lookaround` >= 0, records at every
 * position whether that one holds there; otherwise stops at the first match. */
static enum regex_result regex_search_walk(struct walk *w, uint16_t start, bool backwards,
                                           int lookaround)
{
    struct regex_front *f = &w->front;
    const struct regex *r = w->r;
    size_t at = backwards ? w->text.len : 0, last = backwards ? 0 : w->text.len;
    regex_front_init(f, r);
    note_context(w, at);
    regex_front_add(f, start);
    for (bool is_first = true;; is_first = false) {
        if (f->is_found && lookaround < 0) {
            break;
        }
        if (f->is_found) {
            w->holds_at[at] |= (uint16_t)(1u << lookaround);
        }
        bool is_dead = !is_first && f->count == 0 && !f->is_end_refused && r->is_plain;
        if (at == last || is_dead || f->spent > *w->steps) {
            break;
        }
        size_t count = f->count;
        memcpy(w->before, f->list, count * sizeof(*f->list));
        regex_front_clear(f);
        const uint8_t *cell = r->rows + regex_search_step(w, &at, backwards);
        note_context(w, at);
        f->spent += count;
        for (size_t i = 0; i < count; i++) {
            if (cell[r->ops[w->before[i]].to * r->n_columns]) {
                regex_front_add(f, (uint16_t)(w->before[i] + 1));
            }
        }
        regex_front_add(f, start);
    }
    bool is_over = f->spent > *w->steps;
    *w->steps = is_over ? 0 : *w->steps - f->spent;
    return is_over                         ? REGEX_OUT_OF_STEPS
           : f->is_found && lookaround < 0 ? REGEX_FOUND
                                           : REGEX_ABSENT;
}

static enum regex_result search_around(struct walk *w)
{
    enum regex_result result = REGEX_ABSENT;
    w->holds_at = mem_zalloc((w->text.len + 1) * sizeof(*w->holds_at));
    if (!w->holds_at) {
        return REGEX_NOMEM;
    }
    for (int i = 0; result != REGEX_OUT_OF_STEPS && i < w->r->n_lookarounds; i++) {
        const struct regex_lookaround *lookaround = &w->r->lookarounds[i];
        result = regex_search_walk(w, lookaround->start, !lookaround->is_behind, i);
    }
    if (result != REGEX_OUT_OF_STEPS) {
        result = regex_search_walk(w, 0, false, -1);
    }
    mem_free(w->holds_at);
    return result;
}

static bool regex_table_search(struct regex_table *t, const struct regex *r,
                               struct tidings_str text, uint64_t *steps, enum regex_result *ret);

enum regex_result regex_search(const struct regex *r, struct regex_table *table,
                               struct tidings_str text, uint64_t *steps)
{
    enum regex_result result;
    if (table && regex_table_search(table, r, text, steps, &result)) {
        return result;
    }
    if (r->prefix_len > 0 && r->is_plain) { /* with most regexes, no walk is needed */
        uint64_t cost = text.len / 8 + 1;
        if (cost > *steps) {
            *steps = 0;
            return REGEX_OUT_OF_STEPS;
        }
        *steps -= cost;
        if (regex_skip_prefix(r, text) > text.len) {
            return REGEX_ABSENT;
        }
    }
    struct walk w;
    w.r = r;
    w.text = text.len > 0 ? text : STR_EMPTY;
    w.steps = steps;
    w.holds_at = NULL;
    return r->n_lookarounds > 0 ? search_around(&w) : regex_search_walk(&w, 0, false, -1);
}

/* -------------------------------------------------------------------------------------------------
 * The table in which searches for a regex cache their results: a *state* is a list of ops of the
 * program, and the table has the next state for each state and column. States are created when a
 * search first needs them; when there is no room for another, the search continues without a table.
 *
 * Only for plain programs: a match at a position of the text depends only on the characters before
 * it, and on whether the text ends there.
 */

#define MAX_STATES 240u
#define MAX_POSITIONS 64u /* per state */
#define POSITIONS_PER_STATE 6u
#define MAX_COLUMNS 128u

/* The contents of a cell; values from CELL_STATE on are the start of a state's cells, so that a
 * character costs an addition and a lookup. */
enum {
    CELL_UNKNOWN,
    CELL_FOUND,
    CELL_DEAD, /* no match, whatever follows */
    CELL_STATE,
};

struct state {
    uint16_t first, count; /* its positions */
    bool is_found_at_end;
};

struct regex_table {
    size_t bytes, n_columns;
    size_t n_states, max_states, n_positions, max_positions;
    bool is_full;
    bool has_begin;  /* the first state is one of the start of the text */
    uint16_t begin;  /* the cell at the start of the text */
    uint16_t *cells; /* state * n_columns + column */
    struct state *states;
    uint16_t *positions;
};

static bool regex_takes_table(const struct regex *r)
{
    return r->is_plain && r->n_columns <= MAX_COLUMNS;
}

struct regex_table *regex_table_create(const struct regex *r)
{
    if (!regex_takes_table(r)) {
        return NULL;
    }
    size_t ops = (size_t)r->n_ops - r->prefix_len;
    size_t states = ops + 8 < MAX_STATES ? ops + 8 : MAX_STATES;
    size_t positions = states * POSITIONS_PER_STATE;
    size_t bytes = sizeof(struct regex_table) + states * sizeof(struct state) +
                   (positions + states * r->n_columns) * sizeof(uint16_t);
    struct regex_table *t = mem_alloc(bytes);
    if (!t) {
        return NULL;
    }
    *t = (struct regex_table){
        .bytes = bytes,
        .n_columns = r->n_columns,
        .max_states = states,
        .max_positions = positions,
    };
    t->states = (struct state *)(t + 1);
    t->positions = (uint16_t *)(t->states + states);
    t->cells = t->positions + positions;
    memset(t->cells, CELL_UNKNOWN, states * r->n_columns * sizeof(*t->cells));
    return t;
}

void regex_table_destroy(struct regex_table *table)
{
    mem_free(table);
}

size_t regex_table_bytes(const struct regex_table *table)
{
    return table ? table->bytes : 0;
}

/* In ascending order, so that the same positions are the same state, however they were reached. */
static void sort(uint16_t *list, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        uint16_t position = list[i];
        size_t k = i;
        for (; k > 0 && list[k - 1] > position; k--) {
            list[k] = list[k - 1];
        }
        list[k] = position;
    }
}

/* Returns true if it would match if the text ended here. */
static bool is_found_at_end(struct regex_front *f, const uint16_t *positions, size_t count,
                            bool is_begin)
{
    regex_front_clear(f);
    f->is_begin = is_begin;
    f->is_end = true;
    f->is_end_open = false;
    for (size_t i = 0; i < count; i++) {
        if (f->r->ops[positions[i]].code == CODE_END) {
            regex_front_add(f, (uint16_t)(positions[i] + 1));
        }
    }
    return f->is_found;
}

/* The cell for the positions in f->list; CELL_UNKNOWN: no room. */
static uint16_t find_state(struct regex_table *t, struct regex_front *f, bool is_begin)
{
    size_t count = f->count;
    if (f->is_found) {
        return CELL_FOUND;
    }
    if (count == 0) {
        return CELL_DEAD;
    }
    if (count > MAX_POSITIONS) {
        t->is_full = true;
        return CELL_UNKNOWN;
    }
    sort(f->list, count);
    /* Only the first state belongs to the start of the text. */
    for (size_t i = is_begin ? t->n_states : t->has_begin; i < t->n_states; i++) {
        f->spent++;
        if (t->states[i].count == count &&
            memcmp(t->positions + t->states[i].first, f->list, count * sizeof(*f->list)) == 0) {
            return (uint16_t)(CELL_STATE + i * t->n_columns);
        }
    }
    if (t->n_states == t->max_states || t->n_positions + count > t->max_positions) {
        t->is_full = true;
        return CELL_UNKNOWN;
    }
    struct state *s = &t->states[t->n_states];
    uint16_t *positions = t->positions + t->n_positions;
    memcpy(positions, f->list, count * sizeof(*positions));
    *s = (struct state){.first = (uint16_t)t->n_positions, .count = (uint16_t)count};
    s->is_found_at_end = is_found_at_end(f, positions, count, is_begin);
    t->n_positions += count;
    t->has_begin = t->has_begin || is_begin;
    return (uint16_t)(CELL_STATE + t->n_states++ * t->n_columns);
}

static void open_end(struct regex_front *f, bool is_begin)
{
    f->is_begin = is_begin;
    f->is_end = false;
    f->is_end_open = true;
}

/* The first state, or a result known immediately; with a prefix, the state after it. */
static uint16_t regex_table_begin(struct regex_table *t, struct regex_front *f)
{
    const struct regex *r = f->r;
    open_end(f, true);
    regex_front_add(f, 0);
    for (size_t i = 0; i < r->prefix_len; i++) {
        /* within a prefix, a search either continues or restarts */
        uint16_t before[sizeof(r->prefix) + 2];
        size_t count = f->count;
        const uint8_t *cell = r->rows + r->columns[(unsigned char)r->prefix[i]];
        memcpy(before, f->list, count * sizeof(*before));
        regex_front_clear(f);
        open_end(f, false);
        for (size_t k = 0; k < count; k++) {
            if (cell[r->ops[before[k]].to * r->n_columns]) {
                regex_front_add(f, (uint16_t)(before[k] + 1));
            }
        }
        regex_front_add(f, 0);
    }
    return find_state(t, f, r->prefix_len == 0);
}

/* The next state from a state with a character of the column. */
static uint16_t regex_table_follow(struct regex_table *t, struct regex_front *f, size_t from,
                                   uint8_t column)
{
    const struct regex *r = f->r;
    const uint16_t *positions = t->positions + t->states[from].first;
    open_end(f, false);
    for (size_t i = 0; i < t->states[from].count; i++) {
        const struct regex_op *op = &r->ops[positions[i]];
        f->spent++;
        if (op->code == CODE_SET && r->rows[op->to * r->n_columns + column]) {
            regex_front_add(f, (uint16_t)(positions[i] + 1));
        }
    }
    regex_front_add(f, 0);
    uint16_t cell = find_state(t, f, false);
    t->cells[from * t->n_columns + column] = cell;
    return cell;
}

/* A separate function, because a front is large. */
static uint16_t work_out(struct regex_table *t, const struct regex *r, int from, uint8_t column,
                         uint64_t *spent)
{
    struct regex_front f;
    if (t->is_full) {
        return CELL_UNKNOWN;
    }
    regex_front_init(&f, r);
    uint16_t cell =
        from < 0 ? regex_table_begin(t, &f) : regex_table_follow(t, &f, (size_t)from, column);
    *spent += f.spent;
    return cell;
}

/* The column of a non-ASCII character; moves *at after it. */
static uint8_t next_column(const struct regex *r, struct tidings_str text, size_t *at,
                           uint64_t *spent)
{
    size_t len;
    uint32_t c = regex_decode(text, *at, &len);
    *at += len;
    *spent += WIDE_STEPS;
    return regex_column(r, c);
}

/* Follows known states from *at on; returns the cell that stops it. */
static inline uint16_t regex_table_run(const struct regex_table *t, const uint8_t columns[256],
                                       struct tidings_str text, size_t *at, uint16_t cell,
                                       unsigned char limit)
{
    const uint16_t *cells = t->cells - CELL_STATE;
    const unsigned char *p = (const unsigned char *)text.ptr + *at;
    const unsigned char *end = (const unsigned char *)text.ptr + text.len;
    while (cell >= CELL_STATE && p < end && *p <= limit) {
        uint16_t next = cells[cell + columns[*p++]];
        /* The branch predictor expects the same state, so characters do not wait for one another.
         */
        while (next == cell && p < end && *p <= limit) {
            next = cells[cell + columns[*p++]];
        }
        if (next == CELL_UNKNOWN) {
            p--;
            break;
        }
        cell = next;
    }
    *at = (size_t)(p - (const unsigned char *)text.ptr);
    return cell;
}

/* False: no result, because the table is full. */
static bool regex_table_search(struct regex_table *t, const struct regex *r,
                               struct tidings_str text, uint64_t *steps, enum regex_result *ret)
{
    uint64_t spent = 0;
    uint16_t cell = t->begin ? t->begin : (t->begin = work_out(t, r, -1, 0, &spent));
    unsigned char limit = r->units == REGEX_BYTES ? 255 : 127;
    bool is_short = text.len > *steps, is_lost = false;
    size_t at = 0;
    text.len = is_short ? (size_t)*steps : text.len;
    if (r->prefix_len > 0 && (at = regex_skip_prefix(r, text)) > text.len) {
        at = text.len;
        cell = is_short ? t->begin : CELL_DEAD;
        is_lost = is_short;
    }
    while (cell >= CELL_STATE && spent + at <= *steps) {
        cell = regex_table_run(t, r->columns, text, &at, cell, limit);
        if (cell < CELL_STATE || at >= text.len) {
            break;
        }
        unsigned char c = (unsigned char)text.ptr[at];
        uint8_t column = r->columns[c];
        if (c <= limit) {
            at++;
        } else {
            column = next_column(r, text, &at, &spent);
        }
        size_t from = (cell - (size_t)CELL_STATE) / t->n_columns;
        cell = t->cells[from * t->n_columns + column];
        if (cell == CELL_UNKNOWN) {
            cell = work_out(t, r, (int)from, column, &spent);
        }
    }
    spent += at;
    bool is_over = spent > *steps || is_lost || (cell >= CELL_STATE && is_short);
    bool is_found = cell == CELL_FOUND;
    if (cell >= CELL_STATE && !is_over) {
        is_found = t->states[(cell - (size_t)CELL_STATE) / t->n_columns].is_found_at_end;
    }
    *steps = is_over ? 0 : *steps - spent;
    *ret = is_over ? REGEX_OUT_OF_STEPS : is_found ? REGEX_FOUND : REGEX_ABSENT;
    return is_over || cell != CELL_UNKNOWN;
}
