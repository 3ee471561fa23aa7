/* SPDX-License-Identifier: MIT
 *
 * Reading and writing sizes and durations with a unit: "16m", "1.5s", "250ms".
 */
#include "base/units.h"

#include <inttypes.h>

struct unit {
    const char *suffix;
    uint64_t factor;
};

static const struct unit size_units[] = {
    {"g", 1024ull * 1024 * 1024}, {"m", 1024ull * 1024}, {"k", 1024ull}, {"", 1}};
static const struct unit duration_units[] = {
    {"h", 3600000ull}, {"m", 60000ull}, {"ms", 1}, {"s", 1000ull}, {"", 1000ull}};

#define COUNT(units) (sizeof(units) / sizeof((units)[0]))

/* Digits after a point, at least one and at most nine, as billionths; false: something else. */
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

/* A fraction is rounded up, so that no duration becomes none; the smallest unit takes none. */
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
