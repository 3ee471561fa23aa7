/* SPDX-License-Identifier: MIT
 *
 * Parses and formats sizes and durations with a unit: "16m", "1.5s", "250ms".
 */
#include "base/text.h"

#include <assert.h>
#include <inttypes.h>

#include "base/str.h"
#include "base/time.h"

/* -------------------------------------------------------------------------------------------------
 * Levenshtein distance by the table of distances between all prefixes of the two words, row by row;
 * of each row only the cells at most `most` away from the diagonal, because all others exceed
 * `most` anyway.
 */

static unsigned least_of(unsigned a, unsigned b, unsigned c)
{
    unsigned m = a < b ? a : b;
    return m < c ? m : c;
}

unsigned edit_distance(struct tidings_str a, struct tidings_str b, unsigned most)
{
    assert(most <= EDIT_DISTANCE_MAX);
    const unsigned beyond = most + 1;
    unsigned row[2 * EDIT_DISTANCE_MAX + 3]; /* cell k: i letters of a, i + k - most - 1 of b … */
    if (a.len > b.len + most || b.len > a.len + most) {
        return beyond;
    }
    for (unsigned k = 0; k <= 2 * most + 2; k++) { /* … with an excluded cell on each side */
        row[k] =
            k >= most + 1 && k <= 2 * most + 1 && k - most - 1 <= b.len ? k - most - 1 : beyond;
    }
    for (size_t i = 1; i <= a.len; i++) {
        unsigned nearest = beyond;
        for (unsigned k = 1; k <= 2 * most + 1; k++) {
            size_t j = i + k; /* prefix length of b, plus most + 1 */
            if (j < most + 1 || j - most - 1 > b.len) {
                row[k] = beyond;
                continue;
            }
            j -= most + 1;
            unsigned replaced = j == 0 ? beyond : row[k] + (a.ptr[i - 1] == b.ptr[j - 1] ? 0 : 1);
            unsigned d = least_of(replaced, row[k + 1] + 1, row[k - 1] + 1);
            row[k] = d < beyond ? d : beyond;
            nearest = row[k] < nearest ? row[k] : nearest;
        }
        if (nearest == beyond) {
            return beyond;
        }
    }
    return row[b.len + most + 1 - a.len];
}

/* -------------------------------------------------------------------------------------------------
 * Compares versions. Runs of digits stay text, so that their length is unlimited.
 */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int version_sign(int n)
{
    return (n > 0) - (n < 0);
}

/* Compares digits as numbers: without leading zeros the longer one is larger. */
static int compare_digits(struct tidings_str a, struct tidings_str b)
{
    while (a.len > 0 && a.ptr[0] == '0') {
        a = str_skip(a, 1);
    }
    while (b.len > 0 && b.ptr[0] == '0') {
        b = str_skip(b, 1);
    }
    return a.len != b.len ? (a.len < b.len ? -1 : 1) : version_sign(str_cmp(a, b));
}

/* The longest prefix of only digits or of only other characters; `rest` is what follows. */
static struct tidings_str take_run(struct tidings_str text, struct tidings_str *rest)
{
    size_t n = 1;
    while (n < text.len && is_digit(text.ptr[n]) == is_digit(text.ptr[0])) {
        n++;
    }
    *rest = str_skip(text, n);
    return tidings_strn(text.ptr, n);
}

/* Run by run: numbers before words, the end before everything. */
static int compare_runs(struct tidings_str a, struct tidings_str b)
{
    while (a.len > 0 && b.len > 0) {
        struct tidings_str x = take_run(a, &a), y = take_run(b, &b);
        bool m = is_digit(x.ptr[0]), n = is_digit(y.ptr[0]);
        int order = m != n ? (m ? -1 : 1) : m ? compare_digits(x, y) : version_sign(str_cmp(x, y));
        if (order != 0) {
            return order;
        }
    }
    return (a.len > 0) - (b.len > 0);
}

int version_sort(struct tidings_str a, struct tidings_str b)
{
    int order = compare_runs(a, b);
    return order != 0 ? order : str_cmp(a, b);
}

/* ---- parsing --------------------------------------------------------------------------------- */

enum version_kind { VERSION_NONE, VERSION_RELEASE, VERSION_TIME };

struct parsed {
    struct tidings_str numbers; /* "2.1.0" */
    struct tidings_str before;  /* "rc.2", the pre-release; empty: a release */
    struct tidings_str build;
    struct instant instant;
};

/* Letters, digits, dots and hyphens. */
static bool is_words(struct tidings_str s)
{
    bool good = s.len > 0;
    for (size_t i = 0; i < s.len && good; i++) {
        char c = s.ptr[i];
        good =
            is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-';
    }
    return good;
}

/* Numbers with single dots between them. */
static bool is_numbers(struct tidings_str s)
{
    bool was_digit = false;
    for (size_t i = 0; i < s.len; i++) {
        if (!is_digit(s.ptr[i]) && (s.ptr[i] != '.' || !was_digit)) {
            return false;
        }
        was_digit = is_digit(s.ptr[i]);
    }
    return was_digit;
}

static enum version_kind version_parse(struct tidings_str text, struct parsed *ret)
{
    *ret = (struct parsed){0};
    if (text.len == 0 || text.len > VERSION_MAX) {
        return VERSION_NONE;
    }
    if (instant_parse(text, &ret->instant)) {
        return VERSION_TIME;
    }
    bool has_v = text.ptr[0] == 'v' || text.ptr[0] == 'V', has_build = false, has_before = false;
    text = str_skip(text, has_v ? 1 : 0);
    text = str_cut(text, '+', &ret->build, &has_build);
    ret->numbers = str_cut(text, '-', &ret->before, &has_before);
    bool good = is_numbers(ret->numbers) && (!has_build || is_words(ret->build)) &&
                (!has_before || is_words(ret->before));
    return good && (!has_before || has_v || str_find(ret->numbers, '.') >= 0) ? VERSION_RELEASE
                                                                              : VERSION_NONE;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static int compare_numbers(struct tidings_str a, struct tidings_str b)
{
    int order = 0;
    while (order == 0 && (a.len > 0 || b.len > 0)) { /* missing numbers count as 0 */
        struct tidings_str x = str_cut(a, '.', &a, NULL), y = str_cut(b, '.', &b, NULL);
        order = compare_digits(x, y);
    }
    return order;
}

static enum version_order compare_releases(const struct parsed *a, const struct parsed *b)
{
    int order = compare_numbers(a->numbers, b->numbers);
    if (order == 0 && (a->before.len == 0) != (b->before.len == 0)) {
        order = a->before.len > 0 ? -1 : 1;
    }
    order = order == 0 ? compare_runs(a->before, b->before) : order;
    return order == 0 && !str_eq(a->build, b->build) ? VERSION_UNKNOWN : (enum version_order)order;
}

static int64_t day_of(int64_t second)
{
    return second >= 0 ? second / 86400 : -((86399 - second) / 86400);
}

static enum version_order compare_times(const struct instant *a, const struct instant *b)
{
    if (a->has_time != b->has_time) {
        int64_t x = day_of(a->second), y = day_of(b->second);
        return x == y ? VERSION_UNKNOWN : x < y ? VERSION_OLDER : VERSION_NEWER;
    }
    int order = (a->second > b->second) - (a->second < b->second);
    if (order == 0) {
        order = (a->nanosecond > b->nanosecond) - (a->nanosecond < b->nanosecond);
    }
    return (enum version_order)order;
}

enum version_order version_compare(struct tidings_str a, struct tidings_str b)
{
    struct parsed x, y;
    enum version_kind kind = version_parse(a, &x);
    if (kind == VERSION_NONE || version_parse(b, &y) != kind) {
        return VERSION_UNKNOWN;
    }
    return kind == VERSION_TIME ? compare_times(&x.instant, &y.instant) : compare_releases(&x, &y);
}

/* ---------------------------------------------------------------------------------------------- */

struct unit {
    const char *suffix;
    uint64_t factor;
};

static const struct unit size_units[] = {
    {"g", 1024ull * 1024 * 1024}, {"m", 1024ull * 1024}, {"k", 1024ull}, {"", 1}};
static const struct unit duration_units[] = {
    {"h", 3600000ull}, {"m", 60000ull}, {"ms", 1}, {"s", 1000ull}, {"", 1000ull}};

#define COUNT(units) (sizeof(units) / sizeof((units)[0]))

/* Digits after a point, at least one and at most nine, as billionths; false: invalid. */
static bool units_parse_fraction(struct tidings_str *s, uint64_t *ret)
{
    uint64_t scale = 1000000000;
    size_t digits = 0;
    *ret = 0;
    if (s->len == 0 || s->ptr[0] != '.') {
        return true;
    }
    *s = str_skip(*s, 1);
    for (; digits < s->len && s->ptr[digits] >= '0' && s->ptr[digits] <= '9' && scale > 1;
         digits++) {
        scale /= 10;
        *ret += (uint64_t)(s->ptr[digits] - '0') * scale;
    }
    *s = str_skip(*s, digits);
    return digits > 0;
}

/* Rounds a fraction up, so that no duration becomes 0; the smallest unit allows no fraction. */
static bool parse_scaled(struct tidings_str s, const struct unit *units, size_t count,
                         uint64_t *ret)
{
    size_t digits = 0;
    while (digits < s.len && s.ptr[digits] >= '0' && s.ptr[digits] <= '9') {
        digits++;
    }
    uint64_t n, billionths;
    if (digits == 0 || !str_to_u64(tidings_strn(s.ptr, digits), &n)) {
        return false;
    }
    struct tidings_str suffix = str_skip(s, digits);
    bool is_whole = suffix.len == 0 || suffix.ptr[0] != '.';
    if (!units_parse_fraction(&suffix, &billionths)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (str_eq_nocase(suffix, tidings_str(units[i].suffix))) {
            uint64_t factor = units[i].factor;
            uint64_t part = (billionths * factor + 999999999) / 1000000000;
            if (n > (UINT64_MAX - part) / factor || (factor == 1 && !is_whole)) {
                return false;
            }
            *ret = n * factor + part;
            return true;
        }
    }
    return false;
}

bool units_parse_size(struct tidings_str s, uint64_t *ret_bytes)
{
    return parse_scaled(s, size_units, COUNT(size_units), ret_bytes);
}

bool units_parse_duration(struct tidings_str s, uint64_t *ret_ms)
{
    return parse_scaled(s, duration_units, COUNT(duration_units), ret_ms);
}

int units_put_size(struct buf *out, uint64_t bytes)
{
    for (size_t i = 0; i < COUNT(size_units); i++) {
        const struct unit *u = &size_units[i];
        if (bytes % u->factor == 0 && (bytes > 0 || u->factor == 1)) {
            return buf_putf(out, "%" PRIu64 "%s", bytes / u->factor, u->suffix);
        }
    }
    return 0;
}

int units_put_duration(struct buf *out, uint64_t ms)
{
    if (ms % 1000 != 0) {
        return buf_putf(out, "%" PRIu64 "ms", ms);
    }
    if (ms == 0 || ms % 60000 != 0 || ms == 60000) {
        return buf_putf(out, "%" PRIu64 "s", ms / 1000);
    }
    bool hours = ms % 3600000 == 0;
    return buf_putf(out, "%" PRIu64 "%s", ms / (hours ? 3600000 : 60000), hours ? "h" : "m");
}
