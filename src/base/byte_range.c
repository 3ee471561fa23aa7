/* SPDX-License-Identifier: MIT
 *
 * Finding the bytes that a range of bytes or lines means. Nothing here looks at more of the content
 * than it must: lines are found by memchr and memrchr.
 */
#include "base/byte_range.h"

#include "base/str.h"

int byte_range_check(const struct tidings_range *range, struct tidings_error *err)
{
    if (range->last < 0 || range->from < 0 || range->to < -1) {
        return tidings_fail(err, TIDINGS_E_INVALID, "a range must not be negative");
    }
    if (range->last > 0 && (range->from != 0 || range->to != -1)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "a range is either 'last' or 'from' and 'to', not both");
    }
    if (range->to >= 0 && range->to < range->from) {
        return tidings_fail(err, TIDINGS_E_INVALID, "the range ends (%lld) before it begins (%lld)",
                            (long long)range->to, (long long)range->from);
    }
    return 0;
}

static int behind_the_end(int64_t from, int64_t count, const char *unit, struct tidings_error *err)
{
    return tidings_fail(err, TIDINGS_E_INVALID, "the range begins at %s %lld, there are %lld", unit,
                        (long long)from, (long long)count);
}

int byte_range_clip(const struct tidings_range *range, int64_t total, int64_t *ret_from,
                    int64_t *ret_to, struct tidings_error *err)
{
    int rc = byte_range_check(range, err);
    if (rc < 0) {
        return rc;
    }
    if (range->last > 0) {
        *ret_from = range->last < total ? total - range->last : 0;
        *ret_to = total;
        return 0;
    }
    if (range->from > total) {
        return behind_the_end(range->from, total, "byte", err);
    }
    *ret_from = range->from;
    *ret_to = range->to < 0 || range->to > total ? total : range->to;
    return 0;
}

size_t byte_range_skip_lines(struct tidings_str piece, int64_t *lines)
{
    size_t at = 0;
    while (*lines > 0 && at < piece.len) {
        const char *end = memchr(piece.ptr + at, '\n', piece.len - at);
        if (!end) {
            return piece.len;
        }
        at = (size_t)(end - piece.ptr) + 1;
        --*lines;
    }
    return at;
}

size_t byte_range_back_lines(struct tidings_str piece, int64_t *lines)
{
    size_t end = piece.len;
    while (end > 0) {
        const char *feed = memrchr(piece.ptr, '\n', end);
        if (!feed) {
            return 0;
        }
        end = (size_t)(feed - piece.ptr);
        if (--*lines == 0) {
            return end + 1;
        }
    }
    return 0;
}

static int find_lines(const struct tidings_range *range, struct tidings_str whole, size_t *ret_from,
                      size_t *ret_to, struct tidings_error *err)
{
    bool is_open = whole.len > 0 && whole.ptr[whole.len - 1] != '\n';
    if (range->last > 0) {
        int64_t lines = range->last;
        /* The line feed of the last line ends it and begins none. */
        struct tidings_str body = {whole.ptr, whole.len - (whole.len > 0 && !is_open)};
        *ret_from = byte_range_back_lines(body, &lines);
        *ret_to = whole.len;
        return 0;
    }
    int64_t lines = range->from;
    size_t from = byte_range_skip_lines(whole, &lines);
    lines -= lines > 0 && is_open;
    if (lines > 0) {
        return behind_the_end(range->from, range->from - lines, "line", err);
    }
    *ret_from = from;
    *ret_to = whole.len;
    if (range->to >= 0) {
        lines = range->to - range->from;
        *ret_to = from + byte_range_skip_lines(str_skip(whole, from), &lines);
    }
    return 0;
}

int byte_range_find(const struct tidings_range *range, struct tidings_str whole, size_t *ret_from,
                    size_t *ret_to, struct tidings_error *err)
{
    int rc = byte_range_check(range, err);
    if (rc < 0) {
        return rc;
    }
    if (range->unit == TIDINGS_UNIT_LINES) {
        return find_lines(range, whole, ret_from, ret_to, err);
    }
    int64_t from = 0, to = 0;
    rc = byte_range_clip(range, (int64_t)whole.len, &from, &to, err);
    if (rc == 0) {
        *ret_from = (size_t)from;
        *ret_to = (size_t)to;
    }
    return rc;
}

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xC0u) == 0x80u;
}

size_t byte_range_border(struct tidings_str text, size_t at)
{
    if (at >= text.len) {
        return text.len;
    }
    size_t begin = at;
    while (begin > 0 && at - begin < BYTE_RANGE_MARGIN && is_continuation(text.ptr[begin])) {
        begin--;
    }
    return is_continuation(text.ptr[begin]) ? at : begin;
}

bool byte_range_fit_text(struct tidings_str bytes, size_t *from, size_t *to)
{
    size_t begin = byte_range_border(bytes, *from);
    size_t end = byte_range_border(bytes, *to);
    if (!str_is_utf8(tidings_strn(bytes.ptr + begin, end - begin))) {
        return false;
    }
    *from = begin;
    *to = end;
    return true;
}
