/* SPDX-License-Identifier: MIT
 *
 * The table in which searches for a regex keep what they have found out: a *state* is a list of
 * ops of the program, and the table says which state a character of a column leads to from each.
 * States are made when a search first needs them; when there is no room for another, the search
 * goes on without a table.
 *
 * Only for plain programs: what is found at a position of the text depends on nothing but the
 * characters before it, and on whether the text ends there.
 */
#include "base/mem.h"
#include "base/regex_private.h"

#define MAX_STATES 240u
#define MAX_POSITIONS 64u /* of one state */
#define POSITIONS_PER_STATE 6u
#define MAX_COLUMNS 128u
#define WIDE_STEPS 4u /* as in regex_search.c */

/* What is in a cell; from CELL_STATE on, where the cells of a state begin, so that a character
 * costs an addition and a look. */
enum {
    CELL_UNKNOWN,
    CELL_FOUND,
    CELL_DEAD, /* whatever follows, it is not found */
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
    bool has_begin;  /* the first state is one of the beginning of a text */
    uint16_t begin;  /* the cell a text begins at */
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

/* In ascending order: the same positions are the same state, however they were reached. */
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

/* Would it be found if the text ended here? */
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

/* The cell for the positions in f->list; CELL_UNKNOWN: there is no room. */
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
    /* A state of the beginning is the first, and no other. */
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

/* The first state, or what is known at once; with a prefix that is behind it. */
static uint16_t regex_table_begin(struct regex_table *t, struct regex_front *f)
{
    const struct regex *r = f->r;
    open_end(f, true);
    regex_front_add(f, 0);
    for (size_t i = 0; i < r->prefix_len; i++) {
        uint16_t before[sizeof(r->prefix) + 2]; /* a prefix has no other way but on, or anew */
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

/* Where a character of the column leads from a state. */
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

/* Apart, because a front is large. */
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

/* The column of a character beyond ASCII; *at moves behind it. */
static uint8_t next_column(const struct regex *r, struct tidings_str text, size_t *at,
                           uint64_t *spent)
{
    size_t len;
    uint32_t c = regex_decode(text, *at, &len);
    *at += len;
    *spent += WIDE_STEPS;
    return regex_column(r, c);
}

/* As far as the table knows the way without asking, from *at on; the cell that stops it. */
static inline uint16_t regex_table_run(const struct regex_table *t, const uint8_t columns[256],
                                       struct tidings_str text, size_t *at, uint16_t cell,
                                       unsigned char limit)
{
    const uint16_t *cells = t->cells - CELL_STATE;
    const unsigned char *p = (const unsigned char *)text.ptr + *at;
    const unsigned char *end = (const unsigned char *)text.ptr + text.len;
    while (cell >= CELL_STATE && p < end && *p <= limit) {
        uint16_t next = cells[cell + columns[*p++]];
        /* Staying in a state is guessed right, so characters do not wait for one another. */
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

bool regex_table_search(struct regex_table *t, const struct regex *r, struct tidings_str text,
                        uint64_t *steps, enum regex_result *ret)
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
