/* SPDX-License-Identifier: MIT
 *
 * Sets of characters while a regex is parsed: ranges in an arena, in any order until finished.
 */
#include <stdlib.h>

#include "base/regex_private.h"

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
