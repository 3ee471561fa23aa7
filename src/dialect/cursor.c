/* SPDX-License-Identifier: MIT
 *
 * Cursors of the change log: reading and writing them, and the durable numbers a worker remembers.
 */
#include "dialect/cursor.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/str.h"

#define MARKS 4096u

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

uint32_t cursor_order(struct tidings_str spelled)
{
    return 1 + (uint32_t)((str_hash(spelled, 0) >> 32) % (CURSOR_ALL_TOLD - 1));
}

bool cursor_parse_lost(struct tidings_str text, uint32_t *ret)
{
    uint32_t lost = 0;
    for (size_t i = 0; i < text.len; i++) {
        int digit = hex_digit(text.ptr[i]);
        if (digit < 0 || i >= 8) {
            return false;
        }
        lost = lost * 16 + (uint32_t)digit;
    }
    *ret = lost;
    return lost > 0;
}

bool cursor_parse(struct tidings_str text, struct log_cursor *ret)
{
    struct log_cursor c = {0};
    struct tidings_str rest, position;
    bool dotted = false;
    struct tidings_str head = str_cut(text, '.', &rest, &dotted);
    if (!dotted || head.len == 0 || head.len > 16) {
        return false;
    }
    for (size_t i = 0; i < head.len; i++) {
        int digit = hex_digit(head.ptr[i]);
        if (digit < 0) {
            return false;
        }
        c.epoch = c.epoch * 16 + (uint64_t)digit;
    }
    struct tidings_str lost;
    bool has_lost = false;
    rest = str_cut(rest, '~', &lost, &has_lost);
    if (has_lost && !cursor_parse_lost(lost, &c.lost)) {
        return false;
    }
    struct tidings_str seq = str_cut(rest, '.', &position, &c.has_position);
    if (!str_to_u64(seq, &c.seq) || (c.has_position && !str_to_u64(position, &c.position))) {
        return false;
    }
    *ret = c;
    return true;
}

bool cursor_is_sealed(struct tidings_str text)
{
    return str_eq(text, STR("-")) || (text.len > CURSOR_TEXT && text.len <= CURSOR_SEALED);
}

struct tidings_str cursor_print(const struct log_cursor *c, char out[CURSOR_TEXT])
{
    int n = snprintf(out, CURSOR_TEXT, c->has_position ? "%llx.%llu.%llu" : "%llx.%llu",
                     (unsigned long long)c->epoch, (unsigned long long)c->seq,
                     (unsigned long long)c->position);
    if (n > 0 && c->lost > 0) {
        n += snprintf(out + n, CURSOR_TEXT - (size_t)n, "~%x", c->lost);
    }
    return tidings_strn(out, n > 0 ? (size_t)n : 0);
}

/* ---- numbers and positions ------------------------------------------------------------------- */

bool cursor_marks_init(struct cursor_marks *m, uint64_t first)
{
    *m = (struct cursor_marks){.first = first};
    m->ring = mem_zalloc(MARKS * sizeof(*m->ring));
    return m->ring != NULL;
}

void cursor_marks_deinit(struct cursor_marks *m)
{
    mem_free(m->ring);
    *m = (struct cursor_marks){0};
}

void cursor_marks_add(struct cursor_marks *m, uint64_t seq, uint64_t position)
{
    if (!m->ring) {
        return;
    }
    m->ring[(m->at + m->count) % MARKS] = (struct cursor_mark){seq, position};
    if (m->count < MARKS) {
        m->count++;
    } else {
        m->at = (m->at + 1) % MARKS;
    }
}

uint64_t cursor_marks_find(const struct cursor_marks *m, uint64_t seq)
{
    if (seq <= m->first) {
        return seq;
    }
    size_t low = 0, high = m->count; /* the first mark with a higher number is in [low, high] */
    if (m->count > 0 && m->ring[(m->at + m->count - 1) % MARKS].seq <= seq) {
        low = high; /* nearly always */
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (m->ring[(m->at + middle) % MARKS].seq <= seq) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 ? m->ring[(m->at + low - 1) % MARKS].position : m->first;
}
