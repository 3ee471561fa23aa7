/* SPDX-License-Identifier: MIT
 *
 * Cursors of the change log: reading and writing them, and the durable numbers a worker remembers.
 */
#include "engine/protocol/cursor.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/str.h"

#define POSITIONS 4096u

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

uint32_t cursor_order(struct tidings_str as_requested)
{
    return 1 + (uint32_t)((str_hash(as_requested, 0) >> 32) % (CURSOR_ALL_NOTIFIED - 1));
}

bool cursor_has_gap(const struct log_cursor *c, uint32_t order)
{
    return c->gap > 0 && order >= c->gap && (c->gap_to == 0 || order <= c->gap_to);
}

void cursor_join_gap(struct log_cursor *into, const struct log_cursor *from)
{
    bool has_both = into->gap > 0 && from->gap > 0 && from->gap != CURSOR_ALL_NOTIFIED;
    if (into->gap == 0 || into->gap == CURSOR_ALL_NOTIFIED) {
        into->gap = from->gap > 0 ? from->gap : into->gap;
        into->gap_to = from->gap > 0 ? from->gap_to : into->gap_to;
    } else if (has_both) {
        bool is_open = into->gap_to == 0 || from->gap_to == 0;
        into->gap = from->gap < into->gap ? from->gap : into->gap;
        into->gap_to = is_open ? 0 : from->gap_to > into->gap_to ? from->gap_to : into->gap_to;
    }
}

/* At most `max` digits. */
static bool parse_order(struct tidings_str text, size_t max, uint32_t *ret)
{
    *ret = 0;
    for (size_t i = 0; i < text.len; i++) {
        int digit = hex_digit(text.ptr[i]);
        if (digit < 0 || i >= max) {
            return false;
        }
        *ret = *ret * 16 + (uint32_t)digit;
    }
    return text.len > 0;
}

/* Only the upper half of the last position is written, because a seal has no room for more
 * bytes. */
bool cursor_parse_gap(struct tidings_str text, struct log_cursor *ret)
{
    struct tidings_str to;
    bool has_to = false;
    uint32_t high = 0;
    struct tidings_str from = str_cut(text, '-', &to, &has_to);
    if (!parse_order(from, 8, &ret->gap) || (has_to && !parse_order(to, 4, &high))) {
        return false;
    }
    ret->gap_to = has_to ? high << 16 | 0xffffu : 0;
    return ret->gap > 0 && (!has_to || ret->gap_to >= ret->gap);
}

struct tidings_str cursor_print_gap(const struct log_cursor *c, char out[CURSOR_GAP_TEXT])
{
    int n =
        snprintf(out, CURSOR_GAP_TEXT, c->gap_to > 0 ? "~%x-%x" : "~%x", c->gap, c->gap_to >> 16);
    return tidings_strn(out, n > 0 ? (size_t)n : 0);
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
    struct tidings_str gap;
    bool has_gap = false;
    rest = str_cut(rest, '~', &gap, &has_gap);
    if (has_gap && !cursor_parse_gap(gap, &c)) {
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
    size_t len = n > 0 ? (size_t)n : 0;
    if (len > 0 && c->gap > 0) {
        len += cursor_print_gap(c, out + len).len;
    }
    return tidings_strn(out, len);
}

/* ---- numbers and positions ------------------------------------------------------------------- */

bool position_map_init(struct position_map *m, uint64_t first)
{
    *m = (struct position_map){.first = first};
    m->ring = mem_zalloc(POSITIONS * sizeof(*m->ring));
    return m->ring != NULL;
}

void position_map_deinit(struct position_map *m)
{
    mem_free(m->ring);
    *m = (struct position_map){0};
}

void position_map_add(struct position_map *m, uint64_t seq, uint64_t position)
{
    if (!m->ring) {
        return;
    }
    m->ring[(m->at + m->count) % POSITIONS] = (struct position_map_entry){seq, position};
    if (m->count < POSITIONS) {
        m->count++;
    } else {
        m->at = (m->at + 1) % POSITIONS;
    }
}

uint64_t position_map_find(const struct position_map *m, uint64_t seq)
{
    if (seq <= m->first) {
        return seq;
    }
    size_t low = 0, high = m->count; /* the first mark with a higher number is in [low, high] */
    if (m->count > 0 && m->ring[(m->at + m->count - 1) % POSITIONS].seq <= seq) {
        low = high; /* nearly always */
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (m->ring[(m->at + middle) % POSITIONS].seq <= seq) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > 0 ? m->ring[(m->at + low - 1) % POSITIONS].position : m->first;
}
