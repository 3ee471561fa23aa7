/* SPDX-License-Identifier: MIT
 *
 * Fields of an HTTP request about conditions, parts and formats, read strictly and once; all costs
 * are linear in their length, but for the few media ranges that are kept in order.
 */
#include "wire/http_fields.h"

#include "wire/http_chars.h"

#define BLANK " \t"
#define MEDIA_TYPE_MAX 255u

/* ---- Range ----------------------------------------------------------------------------------- */

static bool read_position(struct tidings_str s, int64_t *ret)
{
    return s.len > 0 && s.ptr[0] != '-' && str_to_i64(s, ret);
}

bool http_parse_range(struct tidings_str value, struct http_range *ret)
{
    bool found = false;
    struct tidings_str set, last;
    struct tidings_str unit = str_trim(str_cut(value, '=', &set, &found), BLANK);
    set = str_trim(set, BLANK);
    if (!found || !str_eq_nocase(unit, STR("bytes")) || str_find(set, ',') >= 0) {
        return false;
    }
    *ret = (struct http_range){.to = -1};
    struct tidings_str first = str_cut(set, '-', &last, &found);
    if (!found || (first.len == 0 && last.len == 0)) {
        return false;
    }
    if (first.len == 0) {
        return read_position(last, &ret->last) && ret->last > 0;
    }
    if (!read_position(first, &ret->from)) {
        return false;
    }
    if (last.len == 0) {
        return true;
    }
    if (!read_position(last, &ret->to) || ret->to < ret->from || ret->to == INT64_MAX) {
        return false;
    }
    ret->to++;
    return true;
}

/* ---- entity tags ----------------------------------------------------------------------------- */

static bool is_etag_char(char c)
{
    unsigned char u = (unsigned char)c;
    return u > ' ' && u != '"' && u != 0x7F;
}

bool http_next_etag(struct tidings_str *list, struct tidings_str *ret, bool *ret_weak)
{
    struct tidings_str s = str_trim(*list, BLANK ",");
    *list = s;
    *ret_weak = false;
    if (str_eq(s, STR("*"))) {
        *ret = s;
        *list = STR_EMPTY;
        return true;
    }
    if (str_starts(s, STR("W/"))) {
        *ret_weak = true;
        s = str_skip(s, 2);
    }
    size_t n = 1;
    if (s.len < 2 || s.ptr[0] != '"') {
        return false;
    }
    while (n < s.len && is_etag_char(s.ptr[n])) {
        n++;
    }
    if (n == s.len || s.ptr[n] != '"') {
        return false;
    }
    *ret = tidings_strn(s.ptr + 1, n - 1);
    *list = str_skip(s, n + 1);
    return true;
}

int http_put_etag(struct buf *out, const char *name, struct tidings_str etag)
{
    bool weak = str_starts(etag, STR("W/"));
    etag = str_skip(etag, weak ? 2 : 0);
    for (size_t i = 0; i < etag.len; i++) {
        if (!is_etag_char(etag.ptr[i])) {
            return 0;
        }
    }
    return etag.len == 0
               ? 0
               : buf_putf(out, "%s: %s\"%.*s\"\r\n", name, weak ? "W/" : "", STR_ARG(etag));
}

/* ---- Accept ---------------------------------------------------------------------------------- */

bool http_is_media_type(struct tidings_str s)
{
    struct tidings_str parameters, subtype;
    bool found = false;
    if (s.len > MEDIA_TYPE_MAX) {
        return false;
    }
    struct tidings_str essence = str_trim(str_cut(s, ';', &parameters, NULL), BLANK);
    struct tidings_str type = str_cut(essence, '/', &subtype, &found);
    for (size_t i = 0; i < parameters.len; i++) {
        unsigned char u = (unsigned char)parameters.ptr[i];
        if (u < 0x20 || u >= 0x7F) {
            return false;
        }
    }
    return found && type.len > 0 && subtype.len > 0 && http_all_are(type, HTTP_IS_TOKEN) &&
           http_all_are(subtype, HTTP_IS_TOKEN);
}

/* "0.8" as 800; 1000 when there is none or it is malformed. */
static unsigned weight_of(struct tidings_str parameters)
{
    while (parameters.len > 0) {
        struct tidings_str value;
        bool found = false;
        struct tidings_str one = str_trim(str_cut(parameters, ';', &parameters, NULL), BLANK);
        struct tidings_str name = str_trim(str_cut(one, '=', &value, &found), BLANK);
        if (!found || !str_eq_nocase(name, STR("q"))) {
            continue;
        }
        struct tidings_str fraction;
        uint64_t whole = 0, part = 0;
        value = str_cut(str_trim(value, BLANK), '.', &fraction, NULL);
        if (!str_to_u64(value, &whole) || whole > 1 || fraction.len > 3 ||
            (fraction.len > 0 && !str_to_u64(fraction, &part))) {
            return 1000;
        }
        for (size_t i = fraction.len; i < 3; i++) {
            part *= 10;
        }
        return whole == 1 ? 1000 : (unsigned)part;
    }
    return 1000;
}

/* More is more specific: any < a type < a subtype. */
static unsigned precision_of(struct tidings_str range)
{
    return str_eq(range, STR("*/*")) ? 0 : str_ends(range, STR("/*")) ? 1 : 2;
}

#define ACCEPT_MAX 32u /* looked at; a client that lists more means "anything" */

size_t http_parse_accept(struct tidings_str value, struct tidings_str *ranges, size_t max)
{
    struct {
        struct tidings_str range;
        unsigned rank;
    } kept[ACCEPT_MAX];
    size_t count = 0;
    while (value.len > 0 && count < ACCEPT_MAX) {
        struct tidings_str parameters;
        struct tidings_str one = str_cut(value, ',', &value, NULL);
        struct tidings_str range = str_trim(str_cut(one, ';', &parameters, NULL), BLANK);
        unsigned weight = weight_of(parameters);
        if (weight == 0 || !http_is_media_type(range)) {
            continue;
        }
        unsigned rank = weight * 3 + precision_of(range);
        size_t at = count++;
        for (; at > 0 && kept[at - 1].rank < rank; at--) {
            kept[at] = kept[at - 1];
        }
        kept[at].range = range;
        kept[at].rank = rank;
    }
    size_t n = count < max ? count : max;
    bool anything = false;
    for (size_t i = 0; i < count; i++) {
        anything = anything || (i >= n && precision_of(kept[i].range) == 0);
        if (i < n) {
            ranges[i] = kept[i].range;
        }
    }
    if (anything && n > 0) {
        ranges[n - 1] = STR("*/*");
    }
    return n;
}

/* ---- queries --------------------------------------------------------------------------------- */

static int hex_of(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int decode(struct tidings_str s, struct buf *out)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c == '%') {
            int high = i + 2 < s.len ? hex_of(s.ptr[i + 1]) : -1;
            int low = i + 2 < s.len ? hex_of(s.ptr[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return TIDINGS_E_INVALID;
            }
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (buf_putc(out, c) < 0) {
            return out->failed == TIDINGS_E_NOMEM ? TIDINGS_E_NOMEM : TIDINGS_E_INVALID;
        }
    }
    return 1;
}

int http_query_get(struct tidings_str query, const char *name, struct buf *out)
{
    int rc = 0;
    while (query.len > 0) {
        struct tidings_str value;
        struct tidings_str pair = str_cut(query, '&', &query, NULL);
        struct tidings_str key = str_cut(pair, '=', &value, NULL);
        if (!str_eq(key, tidings_str(name))) {
            continue;
        }
        if (rc != 0) {
            return TIDINGS_E_INVALID;
        }
        rc = decode(value, out);
    }
    return rc;
}
