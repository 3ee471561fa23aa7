/* SPDX-License-Identifier: MIT
 *
 * HTTP fields for conditions, ranges and formats, parsed strictly and in one pass; all costs are
 * linear in their length, except for the few media ranges that are sorted.
 */
#include "formats/http_fields.h"

#include "base/str.h"
#include "formats/http.h"

/* -------------------------------------------------------------------------------------------------
 * Finds bearer tokens in requests and writes challenges. Strict: one field, one scheme, no guesses.
 * If a proxy and a server disagree on which of two tokens counts, an attacker can exploit it.
 */

#define BEARER_BLANK " \t"

static bool is_token_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '.' || c == '_' || c == '~' || c == '+' || c == '/';
}

/* token68 (RFC 9110 §11.2). */
static bool is_token(struct tidings_str s)
{
    size_t i = 0;
    while (i < s.len && is_token_char(s.ptr[i])) {
        i++;
    }
    bool begins = i > 0;
    while (i < s.len && s.ptr[i] == '=') {
        i++;
    }
    return begins && i == s.len;
}

enum bearer_result bearer_parse(struct tidings_str field, struct tidings_str *token,
                                const char **why)
{
    struct tidings_str rest;
    struct tidings_str scheme = str_cut(str_trim(field, BEARER_BLANK), ' ', &rest, NULL);
    bool is_bound = str_eq_nocase(scheme, STR("DPoP"));
    if (!is_bound && !str_eq_nocase(scheme, STR("Bearer"))) {
        *why = "the Authorization field is empty";
        return scheme.len > 0 ? BEARER_NONE : BEARER_BAD; /* RFC 6750 §3.1: the same as no token */
    }
    rest = str_trim(rest, BEARER_BLANK);
    if (rest.len > BEARER_TOKEN_MAX) {
        *why = "the token is too long";
        return BEARER_BAD;
    }
    if (!is_token(rest)) {
        *why = is_bound ? "Authorization must be 'DPoP' and one token"
                        : "Authorization must be 'Bearer' and one token";
        return BEARER_BAD;
    }
    *token = rest;
    return is_bound ? BEARER_BOUND : BEARER_TOKEN;
}

/* The parameter name as a lenient parser would read it: percent-encoded or not. */
static bool is_token_name(struct tidings_str name)
{
    static const struct tidings_str wanted = {"access_token", 12};
    size_t at = 0, i = 0;
    while (i < name.len && at < wanted.len) {
        char c = name.ptr[i];
        if (c == '%' && i + 2 < name.len) {
            static const char digits[] = "0123456789abcdef";
            const char *high = strchr(digits, name.ptr[i + 1] | 0x20);
            const char *low = strchr(digits, name.ptr[i + 2] | 0x20);
            c = high && low ? (char)((high - digits) * 16 + (low - digits)) : c;
            i += 2;
        }
        if (c != wanted.ptr[at]) {
            return false;
        }
        at++;
        i++;
    }
    return at == wanted.len && i == name.len;
}

static bool is_in_query(struct tidings_str query)
{
    while (query.len > 0) {
        struct tidings_str pair = str_cut(query, '&', &query, NULL);
        if (is_token_name(str_cut(pair, '=', &pair, NULL))) {
            return true;
        }
    }
    return false;
}

enum bearer_result bearer_find(const struct http_request *req, struct tidings_str *token,
                               const char **why)
{
    unsigned count = 0;
    struct tidings_str field = http_header(req, "authorization", &count);
    if (is_in_query(req->query)) {
        *why = "a token in the query is not accepted; send it as Authorization: Bearer";
        return BEARER_BAD;
    }
    if (count > 1) {
        *why = "there must be one Authorization field";
        return BEARER_BAD;
    }
    return count == 0 ? BEARER_NONE : bearer_parse(field, token, why);
}

/* ---- challenges ------------------------------------------------------------------------------ */

static void bearer_put_quoted(struct buf *out, const char *name, struct tidings_str value,
                              bool *first)
{
    if (value.len == 0) {
        return;
    }
    buf_puts(out, *first ? STR(" ") : STR(", "));
    *first = false;
    buf_puts(out, tidings_str(name));
    buf_puts(out, STR("=\""));
    for (size_t i = 0; i < value.len; i++) {
        char c = value.ptr[i];
        if (c == '"' || c == '\\') {
            buf_putc(out, '\\');
        }
        buf_putc(out, c < ' ' || c > '~' ? '?' : c);
    }
    buf_putc(out, '"');
}

int bearer_put_challenge(struct buf *out, const struct bearer_challenge *c)
{
    bool first = true;
    buf_puts(out, STR("WWW-Authenticate: "));
    buf_puts(out, c->scheme.len > 0 ? c->scheme : STR("Bearer"));
    bearer_put_quoted(out, "error", c->error, &first);
    bearer_put_quoted(out, "error_description", c->description, &first);
    bearer_put_quoted(out, "scope", c->scope, &first);
    bearer_put_quoted(out, "resource_metadata", c->metadata, &first);
    bearer_put_quoted(out, "algs", c->algs, &first);
    buf_puts(out, STR("\r\n"));
    return out->failed;
}

static void bearer_skip_blanks(struct tidings_str *rest)
{
    while (rest->len > 0 && (rest->ptr[0] == ' ' || rest->ptr[0] == '\t')) {
        *rest = str_skip(*rest, 1);
    }
}

/* Cuts off the token at the start of `rest`, and the blanks around it. */
static struct tidings_str cut_word(struct tidings_str *rest)
{
    size_t n = 0;
    bearer_skip_blanks(rest);
    while (n < rest->len && is_token_char(rest->ptr[n])) {
        n++;
    }
    struct tidings_str word = tidings_strn(rest->ptr, n);
    *rest = str_skip(*rest, n);
    bearer_skip_blanks(rest);
    return word;
}

/* The same for a value, quoted or not. */
static struct tidings_str cut_value(struct tidings_str *rest)
{
    size_t n = 1;
    bearer_skip_blanks(rest);
    if (rest->len == 0 || rest->ptr[0] != '"') {
        return cut_word(rest);
    }
    while (n < rest->len && rest->ptr[n] != '"') {
        n += rest->ptr[n] == '\\' && n + 1 < rest->len ? 2 : 1;
    }
    struct tidings_str value = tidings_strn(rest->ptr + 1, n - 1);
    *rest = str_skip(*rest, n + 1);
    return value;
}

static void keep_parameter(struct bearer_challenge *c, struct tidings_str name,
                           struct tidings_str value)
{
    struct tidings_str *at = str_eq_nocase(name, STR("error"))               ? &c->error
                             : str_eq_nocase(name, STR("error_description")) ? &c->description
                             : str_eq_nocase(name, STR("scope"))             ? &c->scope
                             : str_eq_nocase(name, STR("resource_metadata")) ? &c->metadata
                                                                             : NULL;
    if (at && at->len == 0) {
        *at = value;
    }
}

bool bearer_read_challenge(struct tidings_str field, struct bearer_challenge *ret)
{
    return bearer_read_scheme(field, STR("Bearer"), ret);
}

bool bearer_read_scheme(struct tidings_str field, struct tidings_str scheme,
                        struct bearer_challenge *ret)
{
    struct tidings_str rest = field;
    bool is_wanted = false;
    *ret = (struct bearer_challenge){0};
    while (rest.len > 0) {
        struct tidings_str word = cut_word(&rest);
        if (word.len == 0) {
            rest = str_skip(rest, 1); /* a comma, or unknown input */
        } else if (rest.len > 0 && rest.ptr[0] == '=') {
            rest = str_skip(rest, 1);
            struct tidings_str value = cut_value(&rest);
            if (is_wanted) {
                keep_parameter(ret, word, value);
            }
        } else if (is_wanted) {
            return true; /* the next scheme */
        } else {
            is_wanted = str_eq_nocase(word, scheme);
        }
    }
    return is_wanted;
}

/* Appends `before` and then `quoted` without its backslashes, at most `max` bytes of it. */
static void put_plain(struct buf *out, const char *before, struct tidings_str quoted, size_t max)
{
    if (quoted.len > 0) {
        buf_puts(out, tidings_str(before));
    }
    for (size_t i = 0, n = 0; i < quoted.len && n < max; i++, n++) {
        i += quoted.ptr[i] == '\\' && i + 1 < quoted.len ? 1 : 0;
        char c = quoted.ptr[i];
        buf_putc(out, c < ' ' || c > '~' ? '?' : c);
    }
}

int bearer_refused(long status, struct tidings_str field, struct tidings_error *err)
{
    struct bearer_challenge c;
    struct buf text;
    buf_init(&text, 1024);
    if (bearer_read_challenge(field, &c)) {
        /* A truncated URL is useless, so it comes first. */
        bool is_url = c.metadata.len <= 120 && (str_starts(c.metadata, STR("https://")) ||
                                                str_starts(c.metadata, STR("http://")));
        put_plain(&text, "; see ", is_url ? c.metadata : STR_EMPTY, 120);
        put_plain(&text, "; scope wanted: ", c.scope, 80);
        put_plain(&text, "; ", c.description.len > 0 ? c.description : c.error, 80);
    }
    tidings_fail(err, TIDINGS_E_DENIED, "%s (HTTP %ld)%.*s",
                 status == 401 ? "the server wants a good token" : "the server denies access",
                 status, STR_ARG(buf_str(&text)));
    buf_deinit(&text);
    return TIDINGS_E_DENIED;
}

bool bearer_is_scope(struct tidings_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] <= ' ' || s.ptr[i] > '~' || s.ptr[i] == '"' || s.ptr[i] == '\\') {
            return false;
        }
    }
    return s.len > 0;
}

/* -------------------------------------------------------------------------------------------------
 * Parses traceparent (W3C Trace Context §3.2) and tracestate (§3.3).
 */

#define MEMBERS_MAX 32u

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); /* upper case is invalid */
}

/* Returns true if the first `len` characters are hex digits, not all 0 unless allowed. */
static bool trace_has_hex(const char *at, size_t len, bool may_be_zero)
{
    bool is_zero = true;
    for (size_t i = 0; i < len; i++) {
        if (!is_hex(at[i])) {
            return false;
        }
        is_zero = is_zero && at[i] == '0';
    }
    return may_be_zero || !is_zero;
}

static bool parent_is_valid(struct tidings_str s)
{
    if (s.len < TRACE_PARENT_LEN || !trace_has_hex(s.ptr, 2, true) ||
        (s.ptr[0] == 'f' && s.ptr[1] == 'f')) {
        return false;
    }
    bool is_zero = s.ptr[0] == '0' && s.ptr[1] == '0';
    if (s.len > TRACE_PARENT_LEN && (is_zero || s.ptr[TRACE_PARENT_LEN] != '-')) {
        return false; /* only later versions can be longer */
    }
    return s.ptr[2] == '-' && trace_has_hex(s.ptr + 3, TRACE_ID_LEN, false) && s.ptr[35] == '-' &&
           trace_has_hex(s.ptr + 36, TRACE_SPAN_LEN, false) && s.ptr[52] == '-' &&
           trace_has_hex(s.ptr + 53, 2, true);
}

static bool is_key_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '*' ||
           c == '/' || c == '@';
}

static bool state_member_is_valid(struct tidings_str member)
{
    struct tidings_str value;
    bool has_value;
    struct tidings_str key = str_cut(member, '=', &value, &has_value);
    if (!has_value || key.len == 0 || key.len > 256 || value.len == 0 || value.len > 256) {
        return false;
    }
    for (size_t i = 0; i < key.len; i++) {
        if (!is_key_char(key.ptr[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < value.len; i++) {
        char c = value.ptr[i];
        if (c < 0x20 || c > 0x7E || c == '=') {
            return false;
        }
    }
    return true;
}

static bool state_is_valid(struct tidings_str s)
{
    unsigned count = 0;
    if (s.len == 0 || s.len > TRACE_STATE_MAX) {
        return false;
    }
    while (s.len > 0) {
        struct tidings_str member = str_trim(str_cut(s, ',', &s, NULL), " \t");
        if (member.len > 0 && (++count > MEMBERS_MAX || !state_member_is_valid(member))) {
            return false;
        }
    }
    return count > 0;
}

bool trace_read(struct tidings_str parent, struct tidings_str state, struct trace *ret)
{
    ret->parent[0] = ret->state[0] = '\0';
    if (!parent_is_valid(parent)) {
        return false;
    }
    memcpy(ret->parent, parent.ptr, TRACE_PARENT_LEN);
    ret->parent[0] = ret->parent[1] = '0';
    ret->parent[TRACE_PARENT_LEN] = '\0';
    if (state_is_valid(state)) {
        memcpy(ret->state, state.ptr, state.len);
        ret->state[state.len] = '\0';
    }
    return true;
}

/* -------------------------------------------------------------------------------------------------
 * Finds the bytes of a range of bytes or lines. Reads no more of the content than necessary: memchr
 * and memrchr find the lines.
 */

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
        /* The line feed of the last line ends it and starts no other. */
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

/* ---------------------------------------------------------------------------------------------- */

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

/* "0.8" as 800; 1000 if it is missing or malformed. */
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

/* Higher is more specific: any < a type < a subtype. */
static unsigned precision_of(struct tidings_str range)
{
    return str_eq(range, STR("*/*")) ? 0 : str_ends(range, STR("/*")) ? 1 : 2;
}

#define ACCEPT_MAX 32u /* maximum used; a longer list means "anything" */

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
