/* SPDX-License-Identifier: MIT
 *
 * HTTP/1.1 heads: strict parsing of request heads (RFC 9112, RFC 9110), and writing of response
 * heads.
 *
 * Two passes. The first checks each byte once, however the bytes arrive: it rejects invalid bytes
 * (control characters, bare CR, bare LF, too many bytes) and finds the empty line. Only then does
 * the second split the lines and parse them. So the result depends only on the bytes, never on how
 * the network split them. Nothing is repaired: parsers that repair differently enable request
 * smuggling. Chunked bodies are decoded below; the caller counts the bytes of others.
 */
#include "formats/http.h"

#include "formats/http_fields.h"

/* -------------------------------------------------------------------------------------------------
 * The character table of HTTP. One row has sixteen bytes; bytes above 0x7F are allowed only in
 * field values, which http_is_text checks.
 */

#define T HTTP_IS_TOKEN
#define P HTTP_IS_PATH
#define Q HTTP_IS_QUERY
#define H HTTP_IS_HOST
#define TPQ (T | P | Q)
#define LET (T | P | Q | H)
#define HEX (LET | HTTP_IS_HEX)
#define PQ (P | Q)
#define TQ (T | Q)

/* clang-format off */
const unsigned char http_chars[256] = {
    [0x20] = 0, TPQ, 0, T, TPQ, LET, TPQ, TPQ, PQ, PQ, TPQ, TPQ, PQ, LET, LET, PQ, /* SP to / */
    HEX, HEX, HEX, HEX, HEX, HEX, HEX, HEX, HEX, HEX, PQ, PQ, 0, PQ, 0, Q,         /* 0-9 :;<=>? */
    PQ, HEX, HEX, HEX, HEX, HEX, HEX, LET, LET, LET, LET, LET, LET, LET, LET, LET, /* @ A-O */
    LET, LET, LET, LET, LET, LET, LET, LET, LET, LET, LET, PQ, Q, PQ, TQ, LET,     /* P-Z [\]^_ */
    TQ, HEX, HEX, HEX, HEX, HEX, HEX, LET, LET, LET, LET, LET, LET, LET, LET, LET, /* ` a-o */
    LET, LET, LET, LET, LET, LET, LET, LET, LET, LET, LET, Q, TPQ, Q, LET, 0,      /* p-z {|}~ */
};
/* clang-format on */

/* -------------------------------------------------------------------------------------------------
 * Chunked bodies (RFC 9112 §7.1), decoded in place, strictly: CRLF only, at most 16 hex digits, no
 * blank after the size but before ';', trailers that look like headers. Invariant: the writing
 * position never passes the reading one. Extensions and trailers are checked and discarded.
 *
 *                    ,------------------------------ CRLF -----------------------------.
 *                    v                                                                 |
 *   SIZE_FIRST -> SIZE -+-> BLANK -> EXTENSION -+-> SIZE_LF -> DATA -> DATA_CR -> DATA_LF
 *                       `-----------------------'     |
 *                                                     | size 0
 *                                                     v
 *                  .----------------------> TRAILER_FIRST -> END_LF -> DONE
 *                  |                              |
 *                  `- TRAILER_LF <- TRAILER_VALUE <- TRAILER_NAME        (any) -> BAD
 */

#define MAX_SIZE_DIGITS 16u
#define MAX_LINE 256u      /* one extension or trailer line */
#define MAX_TOGETHER 4096u /* all of them together */

enum state {
    SIZE_FIRST,
    SIZE,
    BLANK,
    EXTENSION,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER_FIRST,
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    END_LF,
    DONE,
    BAD,
};

void http_chunked_init(struct http_chunked *c)
{
    *c = (struct http_chunked){.state = SIZE_FIRST};
}

static unsigned http_chunked_hex_value(char c)
{
    return (unsigned)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
}

static enum state add_digit(struct http_chunked *c, char digit)
{
    c->left = c->left << 4 | http_chunked_hex_value(digit);
    c->line++;
    /* The sum fits an int64_t, so that callers that add up bodies cannot overflow. */
    bool fits = c->line <= MAX_SIZE_DIGITS && c->left <= (uint64_t)INT64_MAX - c->total;
    return fits ? SIZE : BAD;
}

/* Discards one more byte; returns the next state. */
static enum state discard(struct http_chunked *c, enum state next)
{
    c->line++;
    c->trailer++;
    return c->line <= MAX_LINE && c->trailer <= MAX_TOGETHER ? next : BAD;
}

static enum state http_chunked_expect(bool ok, enum state next)
{
    return ok ? next : BAD;
}

static enum state step_size(struct http_chunked *c, char b)
{
    switch (c->state) {
    case SIZE_FIRST:
        c->left = 0;
        c->line = 0;
        return http_is(b, HTTP_IS_HEX) ? add_digit(c, b) : BAD;
    case SIZE:
        if (http_is(b, HTTP_IS_HEX)) {
            return add_digit(c, b);
        }
        c->line = 0;
        if (b == ';') {
            return discard(c, EXTENSION);
        }
        return b == '\r' ? SIZE_LF : discard(c, http_chunked_expect(b == ' ' || b == '\t', BLANK));
    case BLANK: /* RFC 9112 §7.1.1: "bad" blanks, only before a ';' */
        return discard(c, b == ';' ? EXTENSION : http_chunked_expect(b == ' ' || b == '\t', BLANK));
    case EXTENSION:
        return b == '\r' ? SIZE_LF : discard(c, http_chunked_expect(http_is_text(b), EXTENSION));
    default: /* SIZE_LF */
        c->line = 0;
        return http_chunked_expect(b == '\n', c->left > 0 ? DATA : TRAILER_FIRST);
    }
}

static enum state step_trailer(struct http_chunked *c, char b)
{
    switch (c->state) {
    case TRAILER_FIRST:
        c->line = 0;
        return b == '\r' ? END_LF
                         : discard(c, http_chunked_expect(http_is(b, HTTP_IS_TOKEN), TRAILER_NAME));
    case TRAILER_NAME:
        return discard(c, b == ':' ? TRAILER_VALUE
                                   : http_chunked_expect(http_is(b, HTTP_IS_TOKEN), TRAILER_NAME));
    case TRAILER_VALUE:
        return b == '\r' ? TRAILER_LF
                         : discard(c, http_chunked_expect(http_is_text(b), TRAILER_VALUE));
    case TRAILER_LF:
        return http_chunked_expect(b == '\n', TRAILER_FIRST);
    default: /* END_LF */
        return http_chunked_expect(b == '\n', DONE);
    }
}

static enum state http_chunked_step(struct http_chunked *c, char b)
{
    if (c->state <= SIZE_LF) {
        return step_size(c, b);
    }
    if (c->state == DATA_CR) {
        return http_chunked_expect(b == '\r', DATA_LF);
    }
    if (c->state == DATA_LF) {
        return http_chunked_expect(b == '\n', SIZE_FIRST);
    }
    return step_trailer(c, b);
}

enum http_chunked_result http_chunked_decode(struct http_chunked *c, char *bytes, size_t len,
                                             size_t *decoded, size_t *used)
{
    size_t in = 0, out = 0;
    while (in < len && c->state != DONE && c->state != BAD) {
        if (c->state != DATA) {
            c->state = http_chunked_step(c, bytes[in++]);
            continue;
        }
        size_t n = len - in < c->left ? len - in : (size_t)c->left;
        if (out != in) {
            memmove(bytes + out, bytes + in, n);
        }
        in += n;
        out += n;
        c->left -= n;
        c->total += n;
        if (c->left == 0) {
            c->state = DATA_CR;
        }
    }
    *decoded = out;
    *used = in;
    if (c->state == BAD) {
        return HTTP_CHUNKED_BAD;
    }
    return c->state == DONE ? HTTP_CHUNKED_DONE : HTTP_CHUNKED_MORE;
}

/* -------------------------------------------------------------------------------------------------
 * HTTP dates: a cursor over the text, and the calendar in days since 1970.
 */

#define DAY_S 86400
#define FIRST_S (-62167219200) /* 0000-01-01 */
#define LAST_S 253402300799    /* 9999-12-31 23:59:59 */

static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                   "Thursday", "Friday", "Saturday"};
static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

struct http_date {
    int64_t year;
    unsigned month, day; /* from 1 */
    unsigned hour, minute, second;
    unsigned weekday; /* 0: Sunday */
};

/* Days since 1970-01-01 in the Gregorian calendar; years start in March, so that a leap day is the
 * last day of its year. */
static int64_t http_date_days(int64_t year, unsigned month, unsigned day)
{
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t of_era = year - era * 400;
    int64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static void http_date_of_days(int64_t count, struct http_date *d)
{
    count += 719468;
    int64_t era = (count >= 0 ? count : count - 146096) / 146097;
    int64_t of_era = count - era * 146097;
    int64_t years = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * years + years / 4 - years / 100);
    int64_t month = (5 * of_year + 2) / 153;
    d->day = (unsigned)(of_year - (153 * month + 2) / 5 + 1);
    d->month = (unsigned)(month < 10 ? month + 3 : month - 9);
    d->year = years + era * 400 + (d->month <= 2);
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool date_take_text(struct tidings_str *s, struct tidings_str text)
{
    bool found = str_starts(*s, text);
    *s = found ? str_skip(*s, text.len) : *s;
    return found;
}

/* Exactly this number of digits. */
static bool take_digits(struct tidings_str *s, unsigned count, unsigned *ret)
{
    unsigned n = 0;
    for (unsigned i = 0; i < count; i++) {
        if (i >= s->len || s->ptr[i] < '0' || s->ptr[i] > '9') {
            return false;
        }
        n = n * 10 + (unsigned)(s->ptr[i] - '0');
    }
    *ret = n;
    *s = str_skip(*s, count);
    return true;
}

static bool take_month(struct tidings_str *s, unsigned *ret)
{
    for (unsigned i = 0; i < 12; i++) {
        if (date_take_text(s, tidings_strn(months + (size_t)i * 3, 3))) {
            *ret = i + 1;
            return true;
        }
    }
    return false;
}

static bool take_time(struct tidings_str *s, struct http_date *d)
{
    return take_digits(s, 2, &d->hour) && date_take_text(s, STR(":")) &&
           take_digits(s, 2, &d->minute) && date_take_text(s, STR(":")) &&
           take_digits(s, 2, &d->second);
}

/* The full name or the first three letters. */
static bool take_weekday(struct tidings_str *s, struct http_date *d, bool *ret_full)
{
    for (unsigned i = 0; i < 7; i++) {
        d->weekday = i;
        *ret_full = date_take_text(s, tidings_str(days[i]));
        if (*ret_full || date_take_text(s, tidings_strn(days[i], 3))) {
            return true;
        }
    }
    return false;
}

/* Reads the rest after "Sun, ". */
static bool take_fixdate(struct tidings_str *s, struct http_date *d)
{
    unsigned year = 0;
    bool good = take_digits(s, 2, &d->day) && date_take_text(s, STR(" ")) &&
                take_month(s, &d->month) && date_take_text(s, STR(" ")) &&
                take_digits(s, 4, &year) && date_take_text(s, STR(" ")) && take_time(s, d) &&
                date_take_text(s, STR(" GMT"));
    d->year = year;
    return good;
}

/* Reads the rest after "Sunday, ". */
static bool take_rfc850(struct tidings_str *s, int64_t now, struct http_date *d)
{
    unsigned year = 0;
    bool good = take_digits(s, 2, &d->day) && date_take_text(s, STR("-")) &&
                take_month(s, &d->month) && date_take_text(s, STR("-")) &&
                take_digits(s, 2, &year) && date_take_text(s, STR(" ")) && take_time(s, d) &&
                date_take_text(s, STR(" GMT"));
    struct http_date today;
    http_date_of_days(now / DAY_S, &today);
    d->year = today.year - today.year % 100 + year;
    d->year -= d->year > today.year + 50 ? 100 : 0;
    return good;
}

/* Reads the rest after "Sun ". */
static bool take_asctime(struct tidings_str *s, struct http_date *d)
{
    unsigned year = 0;
    bool good =
        take_month(s, &d->month) && date_take_text(s, STR(" ")) &&
        (date_take_text(s, STR(" ")) ? take_digits(s, 1, &d->day) : take_digits(s, 2, &d->day)) &&
        date_take_text(s, STR(" ")) && take_time(s, d) && date_take_text(s, STR(" ")) &&
        take_digits(s, 4, &year);
    d->year = year;
    return good;
}

bool http_parse_date(struct tidings_str text, int64_t now, int64_t *ret)
{
    struct http_date d = {0}, back;
    struct tidings_str s = text;
    bool is_full = false;
    bool good = take_weekday(&s, &d, &is_full);
    if (good && date_take_text(&s, STR(", "))) {
        good = is_full ? take_rfc850(&s, now, &d) : take_fixdate(&s, &d);
    } else {
        good = good && !is_full && date_take_text(&s, STR(" ")) && take_asctime(&s, &d);
    }
    /* A leap second counts as the next second. */
    if (!good || s.len > 0 || d.day == 0 || d.day > 31 || d.hour > 23 || d.minute > 59 ||
        d.second > 60) {
        return false;
    }
    int64_t count = http_date_days(d.year, d.month, d.day);
    http_date_of_days(count, &back);
    unsigned weekday = (unsigned)(((count + 4) % 7 + 7) % 7);
    if (back.day != d.day || back.month != d.month || weekday != d.weekday) {
        return false;
    }
    *ret = count * DAY_S + (int64_t)d.hour * 3600 + (int64_t)d.minute * 60 + d.second;
    return true;
}

/* ---- writing --------------------------------------------------------------------------------- */

void http_put_date(struct buf *out, int64_t seconds)
{
    int64_t at = seconds < FIRST_S ? FIRST_S : seconds > LAST_S ? LAST_S : seconds;
    int64_t count = at >= 0 ? at / DAY_S : -((DAY_S - 1 - at) / DAY_S);
    int64_t rest = at - count * DAY_S;
    struct http_date d;
    http_date_of_days(count, &d);
    buf_putf(out, "%.3s, %02u %.3s %04d %02d:%02d:%02d GMT", days[((count + 4) % 7 + 7) % 7], d.day,
             months + (size_t)(d.month - 1) * 3, (int)d.year, (int)(rest / 3600),
             (int)(rest / 60 % 60), (int)(rest % 60));
}

/* ---------------------------------------------------------------------------------------------- */

#define MAX_METHOD 32u
#define MAX_EMPTY_BYTES 4u /* two empty lines */
#define MAX_REQUEST_LINE (MAX_METHOD + 1 + HTTP_MAX_TARGET + 1 + 8)

static int http_refuse(struct http_fault *fault, int status, const char *text)
{
    *fault = (struct http_fault){.status = status, .text = text};
    return -1;
}

/* The offset of the request line: after at most two empty lines (RFC 9112 §2.2). */
static size_t skip_empty_lines(const char *bytes, size_t len)
{
    size_t at = 0;
    while (at < MAX_EMPTY_BYTES && len - at >= 2 && bytes[at] == '\r' && bytes[at + 1] == '\n') {
        at += 2;
    }
    return at;
}

static int refuse_too_long(const char *head, struct http_fault *fault)
{
    if (!memchr(head, '\r', MAX_REQUEST_LINE + 1)) {
        return http_refuse(fault, 414, "the request line is too long");
    }
    return http_refuse(fault, 431, "the request head is longer than 32768 bytes");
}
_Static_assert(HTTP_MAX_HEAD == 32768u && HTTP_MAX_HEADERS == 100u, "the sentences say so");
_Static_assert(MAX_REQUEST_LINE < HTTP_MAX_HEAD, "a request line that is allowed fits");

/* The first pass: 1 when the head is complete (*end gets the offset after it), 0, -1. */
static int scan_head(const char *bytes, size_t len, size_t *scanned, size_t *end,
                     struct http_fault *fault)
{
    size_t start = skip_empty_lines(bytes, len);
    size_t limit = start + HTTP_MAX_HEAD < len ? start + HTTP_MAX_HEAD : len;
    size_t i = *scanned < start ? start : *scanned;
    for (; i < limit; i++) {
        if (http_is_text(bytes[i])) {
            continue;
        }
        if (bytes[i] == '\n') {
            return http_refuse(fault, 400, "a line ends in LF without CR");
        }
        if (bytes[i] != '\r') {
            return http_refuse(fault, 400, "control character in the request head");
        }
        if (i + 1 == limit) {
            break; /* the LF has not arrived */
        }
        if (bytes[i + 1] != '\n') {
            return http_refuse(fault, 400, "CR without LF in the request head");
        }
        if (i == start || bytes[i - 1] == '\n') {
            *end = i + 2;
            return 1;
        }
        i++;
    }
    *scanned = i;
    if (limit == start + HTTP_MAX_HEAD) {
        return refuse_too_long(bytes + start, fault);
    }
    return 0;
}

/* Cuts the next line, known to end in CRLF. */
static struct tidings_str cut_line(struct tidings_str *text)
{
    size_t len = (size_t)((const char *)memchr(text->ptr, '\r', text->len) - text->ptr);
    struct tidings_str line = tidings_strn(text->ptr, len);
    *text = str_skip(*text, len + 2);
    return line;
}

static enum http_method find_method(struct tidings_str name)
{
    static const char *const names[] = {
        [HTTP_OTHER] = "",        [HTTP_GET] = "GET",         [HTTP_HEAD] = "HEAD",
        [HTTP_POST] = "POST",     [HTTP_PUT] = "PUT",         [HTTP_PATCH] = "PATCH",
        [HTTP_DELETE] = "DELETE", [HTTP_OPTIONS] = "OPTIONS",
    };
    for (size_t i = 1; i < sizeof names / sizeof *names; i++) {
        if (str_eq(name, tidings_str(names[i]))) {
            return (enum http_method)i;
        }
    }
    return HTTP_OTHER;
}

static bool has_sound_escapes(struct tidings_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] == '%' &&
            (s.len - i < 3 || !http_all_are(tidings_strn(s.ptr + i + 1, 2), HTTP_IS_HEX))) {
            return false;
        }
    }
    return true;
}

/* uri-host [ ":" port ], without user information. */
static bool http_is_host(struct tidings_str s)
{
    struct tidings_str port;
    bool has_port;
    uint64_t number;
    if (s.len > 0 && s.ptr[0] == '[') {
        bool closed;
        struct tidings_str inside = str_cut(str_skip(s, 1), ']', &port, &closed);
        for (size_t i = 0; i < inside.len; i++) {
            if (!http_is(inside.ptr[i], HTTP_IS_HEX) && inside.ptr[i] != ':' &&
                inside.ptr[i] != '.') {
                return false;
            }
        }
        if (!closed || inside.len == 0 || (port.len > 0 && port.ptr[0] != ':')) {
            return false;
        }
        port = str_skip(port, 1);
    } else {
        struct tidings_str name = str_cut(s, ':', &port, &has_port);
        if (name.len == 0 || !http_all_are(name, HTTP_IS_HOST) || !has_sound_escapes(name)) {
            return false;
        }
    }
    return port.len == 0 || (port.len <= 5 && str_to_u64(port, &number) && number <= 65535);
}

/* The length of "http://" or "https://" at the start of a target, or 0. */
static size_t scheme_length(struct tidings_str target)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < 2; i++) {
        struct tidings_str scheme = tidings_str(schemes[i]);
        if (target.len >= scheme.len &&
            str_eq_nocase(tidings_strn(target.ptr, scheme.len), scheme)) {
            return scheme.len;
        }
    }
    return 0;
}

/* Splits req->target into path, query and (absolute-form) host. RFC 9112 §3.2. */
static int parse_target(struct http_request *req, struct http_fault *fault)
{
    struct tidings_str t = req->target;
    if (str_eq(t, STR("*"))) {
        req->path = t;
        return req->method == HTTP_OPTIONS
                   ? 0
                   : http_refuse(fault, 400, "the request target '*' is for OPTIONS only");
    }
    size_t scheme = scheme_length(t);
    if (scheme > 0) {
        t = str_skip(t, scheme);
        size_t end = 0;
        while (end < t.len && t.ptr[end] != '/' && t.ptr[end] != '?') {
            end++;
        }
        req->host = tidings_strn(t.ptr, end);
        t = str_skip(t, end);
        if (!http_is_host(req->host)) {
            return http_refuse(fault, 400, "malformed host in the request target");
        }
    } else if (t.len == 0 || t.ptr[0] != '/') {
        return http_refuse(fault, 400, "the request target must be a path or an absolute http URL");
    }
    req->path = str_cut(t, '?', &req->query, NULL);
    if (!http_all_are(req->path, HTTP_IS_PATH) || !http_all_are(req->query, HTTP_IS_QUERY)) {
        return http_refuse(fault, 400, "character not allowed in the request target");
    }
    if (!has_sound_escapes(req->path) || !has_sound_escapes(req->query)) {
        return http_refuse(fault, 400, "malformed percent-escape in the request target");
    }
    if (req->path.len == 0) {
        req->path = STR("/"); /* RFC 9110 §4.2.3 */
    }
    return 0;
}

static int parse_request_line(struct tidings_str line, struct http_request *req,
                              struct http_fault *fault)
{
    struct tidings_str rest, version;
    bool has_target, has_version;
    req->method_name = str_cut(line, ' ', &rest, &has_target);
    req->target = str_cut(rest, ' ', &version, &has_version);
    if (req->method_name.len == 0 || !http_all_are(req->method_name, HTTP_IS_TOKEN)) {
        return http_refuse(fault, 400, "malformed method");
    }
    if (req->method_name.len > MAX_METHOD) {
        return http_refuse(fault, 501, "the method is longer than any that is known");
    }
    if (req->target.len > HTTP_MAX_TARGET) {
        return http_refuse(fault, 414, "the request target is too long");
    }
    if (!has_version || version.len != 8 || !str_starts(version, STR("HTTP/")) ||
        version.ptr[5] < '0' || version.ptr[5] > '9' || version.ptr[6] != '.' ||
        version.ptr[7] < '0' || version.ptr[7] > '9') {
        return http_refuse(fault, 400, "the request line must be 'METHOD target HTTP/1.1'");
    }
    if (version.ptr[5] != '1' || version.ptr[7] > '1') {
        return http_refuse(fault, 505, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    }
    req->minor = version.ptr[7] - '0';
    req->method = find_method(req->method_name);
    if (str_eq(req->method_name, STR("CONNECT"))) {
        return http_refuse(fault, 501, "CONNECT is not supported");
    }
    return parse_target(req, fault);
}

static int parse_header_line(struct tidings_str line, struct http_request *req,
                             struct http_fault *fault)
{
    struct tidings_str value;
    bool has_colon;
    if (line.ptr[0] == ' ' || line.ptr[0] == '\t') {
        return http_refuse(fault, 400, "folded header lines are obsolete and refused");
    }
    struct tidings_str name = str_cut(line, ':', &value, &has_colon);
    if (!has_colon) {
        return http_refuse(fault, 400, "a header line has no colon");
    }
    if (name.len == 0) {
        return http_refuse(fault, 400, "a header line has no name");
    }
    if (name.ptr[name.len - 1] == ' ' || name.ptr[name.len - 1] == '\t') {
        return http_refuse(fault, 400, "blank between a header name and its colon");
    }
    if (!http_all_are(name, HTTP_IS_TOKEN)) {
        return http_refuse(fault, 400, "character not allowed in a header name");
    }
    if (req->header_count == HTTP_MAX_HEADERS) {
        return http_refuse(fault, 431, "more than 100 header lines");
    }
    struct http_header *h = &req->headers[req->header_count++];
    h->name = name;
    h->value = str_trim(value, " \t");
    return 0;
}

static int check_host(struct http_request *req, struct http_fault *fault)
{
    unsigned count;
    struct tidings_str host = http_header(req, "Host", &count);
    if (count > 1) {
        return http_refuse(fault, 400, "more than one Host header");
    }
    if (count == 0 && req->minor == 1) {
        return http_refuse(fault, 400, "the Host header is missing");
    }
    if (count == 1 && !http_is_host(host)) {
        return http_refuse(fault, 400, "malformed Host header");
    }
    /* the authority of an absolute target takes precedence (RFC 9112 §3.2.2) */
    if (!req->host.ptr) {
        req->host = count == 1 ? host : STR_EMPTY;
    }
    return 0;
}

/* Determines the body length (RFC 9112 §6), without its optional leniency. */
static int check_content_length(struct http_request *req, struct http_fault *fault)
{
    unsigned codings, lengths;
    struct tidings_str coding = http_header(req, "Transfer-Encoding", &codings);
    struct tidings_str length = http_header(req, "Content-Length", &lengths);
    if (codings > 0 && lengths > 0) {
        return http_refuse(fault, 400, "both Content-Length and Transfer-Encoding");
    }
    if (codings > 0 && req->minor == 0) {
        return http_refuse(fault, 400, "Transfer-Encoding in an HTTP/1.0 request");
    }
    if (codings > 1 || lengths > 1) {
        return http_refuse(fault, 400, "more than one Content-Length or Transfer-Encoding header");
    }
    if (codings == 1 && !str_eq_nocase(coding, STR("chunked"))) {
        struct tidings_str last = coding;
        for (bool more = true; more;) {
            struct tidings_str rest;
            last = str_trim(str_cut(coding, ',', &rest, &more), " \t");
            coding = rest;
        }
        return str_eq_nocase(last, STR("chunked"))
                   ? http_refuse(fault, 501, "the only transfer coding understood is 'chunked'")
                   : http_refuse(fault, 400, "the last transfer coding must be 'chunked'");
    }
    req->chunked = codings == 1;
    if (lengths == 1) {
        if (!str_to_u64(length, &req->content_length) || req->content_length > INT64_MAX) {
            return http_refuse(fault, 400, "Content-Length must be one decimal number");
        }
        req->has_length = true;
    }
    return 0;
}

static int check_connection(struct http_request *req, struct http_fault *fault)
{
    bool close = false, keep = req->minor == 1;
    for (unsigned i = 0; i < req->header_count; i++) {
        const struct http_header *h = &req->headers[i];
        if (str_eq_nocase(h->name, STR("Connection"))) {
            close = close || http_list_has(h->value, "close");
            keep = keep || http_list_has(h->value, "keep-alive");
        } else if (str_eq_nocase(h->name, STR("Expect"))) {
            if (!str_eq_nocase(h->value, STR("100-continue"))) {
                return http_refuse(fault, 417, "the only expectation understood is '100-continue'");
            }
            req->expect_continue = req->minor == 1; /* RFC 9110 §10.1.1: otherwise ignored */
        }
    }
    req->keep_alive = keep && !close;
    return 0;
}

ptrdiff_t http_parse_head(const char *bytes, size_t len, size_t *scanned, struct http_request *req,
                          struct http_fault *fault)
{
    size_t end = 0;
    int rc = scan_head(bytes, len, scanned, &end, fault);
    if (rc <= 0) {
        return rc;
    }
    memset(req, 0, offsetof(struct http_request, headers));
    req->query = STR_EMPTY;
    struct tidings_str text = str_skip(tidings_strn(bytes, end), skip_empty_lines(bytes, end));
    if (text.len == 0 || text.ptr[0] == '\r') {
        return http_refuse(fault, 400, "the request line is empty");
    }
    rc = parse_request_line(cut_line(&text), req, fault);
    while (rc == 0 && text.ptr[0] != '\r') {
        rc = parse_header_line(cut_line(&text), req, fault);
    }
    if (rc < 0 || check_host(req, fault) < 0 || check_content_length(req, fault) < 0 ||
        check_connection(req, fault) < 0) {
        return -1;
    }
    *scanned = 0;
    return (ptrdiff_t)end;
}

struct tidings_str http_header(const struct http_request *req, const char *name, unsigned *count)
{
    struct tidings_str wanted = tidings_str(name), found = {NULL, 0};
    unsigned n = 0;
    for (unsigned i = 0; i < req->header_count; i++) {
        const struct http_header *h = &req->headers[i];
        if (h->name.len == wanted.len && str_eq_nocase(h->name, wanted)) {
            found = n == 0 ? h->value : found;
            n++;
        }
    }
    if (count) {
        *count = n;
    }
    return found;
}

bool http_list_has(struct tidings_str value, const char *token)
{
    struct tidings_str wanted = tidings_str(token);
    size_t i = 0;
    while (i < value.len) {
        size_t start = i;
        bool quoted = false;
        for (; i < value.len && (quoted || value.ptr[i] != ','); i++) {
            if (value.ptr[i] == '"') {
                quoted = !quoted;
            } else if (quoted && value.ptr[i] == '\\' && i + 1 < value.len) {
                i++;
            }
        }
        struct tidings_str item = tidings_strn(value.ptr + start, i - start);
        struct tidings_str parameters;
        item = str_trim(str_cut(item, ';', &parameters, NULL), " \t");
        if (str_eq_nocase(item, wanted)) {
            return true;
        }
        i++; /* the comma */
    }
    return false;
}

const char *http_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        {100, "Continue"},
        {101, "Switching Protocols"},
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {206, "Partial Content"},
        {207, "Multi-Status"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {411, "Length Required"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {416, "Range Not Satisfiable"},
        {417, "Expectation Failed"},
        {421, "Misdirected Request"},
        {422, "Unprocessable Content"},
        {426, "Upgrade Required"},
        {428, "Precondition Required"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        if (reasons[i].status == status) {
            return reasons[i].reason;
        }
    }
    return "Unknown";
}

void http_put_status(struct buf *out, int status)
{
    buf_puts(out, STR("HTTP/1.1 "));
    buf_puti(out, status);
    buf_putc(out, ' ');
    buf_puts(out, tidings_str(http_reason(status)));
    buf_puts(out, STR("\r\n"));
}

int http_put_header(struct buf *out, const char *name, struct tidings_str value)
{
    struct tidings_str n = tidings_str(name);
    for (size_t i = 0; i < value.len; i++) {
        if (!http_is_text(value.ptr[i])) {
            return TIDINGS_E_INVALID; /* a line break here would let a value inject headers */
        }
    }
    int rc = buf_reserve(out, n.len + value.len + 4); /* all or nothing */
    if (rc < 0) {
        return rc;
    }
    buf_puts(out, n);
    buf_puts(out, STR(": "));
    buf_puts(out, value);
    return buf_puts(out, STR("\r\n"));
}

/* -------------------------------------------------------------------------------------------------
 * Evaluates If-Match, If-Unmodified-Since and If-Modified-Since.
 */

static bool conditions_read_date(const struct http_request *req, const char *name, int64_t now_ms,
                                 int64_t *ret)
{
    unsigned count = 0;
    struct tidings_str value = http_header(req, name, &count);
    return count == 1 && http_parse_date(value, now_ms / 1000, ret);
}

void http_conditions_read(struct http_conditions *c, const struct http_request *req, int64_t now_ms)
{
    bool reads = req->method == HTTP_GET || req->method == HTTP_HEAD;
    *c = (struct http_conditions){.if_match = http_header(req, "if-match", NULL)};
    c->has_unmodified_since =
        !c->if_match.ptr &&
        conditions_read_date(req, "if-unmodified-since", now_ms, &c->unmodified_since);
    c->has_modified_since =
        reads && !http_header(req, "if-none-match", NULL).ptr &&
        conditions_read_date(req, "if-modified-since", now_ms, &c->modified_since) &&
        c->modified_since <= now_ms / 1000;
}

/* Strong comparison: RFC 9110 §8.8.3.2. */
static bool etag_is_among(struct tidings_str list, struct tidings_str etag)
{
    struct tidings_str one;
    bool weak = false;
    while (http_next_etag(&list, &one, &weak)) {
        if (str_eq(one, STR("*")) || (!weak && str_eq(one, etag))) {
            return true;
        }
    }
    return false;
}

static bool is_modified_after(int64_t modified_ms, int64_t seconds)
{
    return modified_ms > 0 && modified_ms / 1000 > seconds;
}

enum http_condition http_conditions_decide(const struct http_conditions *c, struct tidings_str etag,
                                           int64_t modified_ms)
{
    bool fails = c->if_match.ptr ? !etag_is_among(c->if_match, etag)
                                 : c->has_unmodified_since &&
                                       is_modified_after(modified_ms, c->unmodified_since);
    if (fails) {
        return HTTP_CONDITION_FAILED;
    }
    bool is_held = c->has_modified_since && modified_ms > 0 && !str_starts(etag, STR("W/")) &&
                   !is_modified_after(modified_ms, c->modified_since);
    return is_held ? HTTP_CONDITION_UNCHANGED : HTTP_CONDITION_HOLDS;
}

int64_t http_last_modified(int64_t modified_ms, int64_t now_ms)
{
    int64_t seconds = modified_ms / 1000, now = now_ms / 1000;
    return seconds < now ? seconds : now - 1;
}
