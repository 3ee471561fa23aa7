/* SPDX-License-Identifier: MIT
 *
 * Searching a text for a regex: all paths through the program at once, one character after the
 * other (Thompson's simulation). Each op is tried at most once at each position of the text,
 * however many paths lead to it.
 */
#include "base/mem.h"
#include "base/regex_private.h"

/* What finding the column of a character beyond ASCII costs. */
#define WIDE_STEPS 4u

void regex_front_init(struct regex_front *f, const struct regex *r)
{
    f->r = r;
    f->spent = 0;
    f->now = 0;
    f->lookarounds = 0;
    memset(f->seen, 0, r->n_ops * sizeof(*f->seen));
    regex_front_clear(f);
}

void regex_front_clear(struct regex_front *f)
{
    f->now++;
    f->count = 0;
    f->is_found = false;
    f->is_end_refused = false;
}

/* Does the assertion at `at` hold at this position of the text? */
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

void regex_front_add(struct regex_front *f, uint16_t at)
{
    const struct regex_op *ops = f->r->ops;
    size_t waiting = 0; /* never more than there are splits */
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
    uint16_t *holds_at; /* at every position a bit for each lookaround; NULL: there are none */
    struct regex_front front;
    uint16_t before[REGEX_MAX_OPS]; /* the list of the position before */
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

/* From `at` one character on, or back: its column. */
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
    if (backwards && here + len != *at) { /* no UTF-8 */
        here = *at - 1;
        c = (unsigned char)w->text.ptr[here];
    }
    *at = backwards ? here : here + len;
    w->front.spent += c < 128 ? 0 : WIDE_STEPS;
    return regex_column(r, c);
}

/* Run the program at `start`, which may begin anywhere. With `lookaround` >= 0 note at every
 * position whether that one holds there; without, stop where the regex is first found. */
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

enum regex_result regex_search(const struct regex *r, struct regex_table *table,
                               struct tidings_str text, uint64_t *steps)
{
    enum regex_result result;
    if (table && regex_table_search(table, r, text, steps, &result)) {
        return result;
    }
    if (r->prefix_len > 0 && r->is_plain) { /* most regexes need not be walked at all */
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
