/* SPDX-License-Identifier: MIT
 *
 * The head of an HTTP/1.1 request (RFC 9112, RFC 9110), strictly, and the head of a response.
 *
 * Two passes. The first looks at each byte once, however the bytes dribble in: it refuses what no
 * head may hold (control characters, bare CR, bare LF, too many bytes) and finds the empty line.
 * Only then does the second cut lines and judge them. So the verdict depends on the bytes alone,
 * never on how the network cut them. Nothing is repaired: two readers that repair differently are
 * how requests are smuggled. Bodies are http_chunked.c's, or the caller's own counting.
 */
#include "wire/http.h"

#include "wire/http_chars.h"

#define MAX_METHOD 32u
#define MAX_EMPTY_BYTES 4u /* two empty lines */
#define MAX_REQUEST_LINE (MAX_METHOD + 1 + HTTP_MAX_TARGET + 1 + 8)

static int http_refuse(struct http_fault *fault, int status, const char *text)
{
    *fault = (struct http_fault){.status = status, .text = text};
    return -1;
}

/* Where the request line begins: after at most two empty lines (RFC 9112 §2.2). */
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
            break; /* the LF is yet to come */
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

/* Cut the next line, known to end in CRLF. */
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

/* req->target into path, query and (absolute-form) host. RFC 9112 §3.2. */
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

static int judge_host(struct http_request *req, struct http_fault *fault)
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
    if (!req->host.ptr) { /* the authority of an absolute target wins (RFC 9112 §3.2.2) */
        req->host = count == 1 ? host : STR_EMPTY;
    }
    return 0;
}

/* How long is the body? RFC 9112 §6, without any of its second chances. */
static int judge_length(struct http_request *req, struct http_fault *fault)
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

static int judge_connection(struct http_request *req, struct http_fault *fault)
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
            req->expect_continue = req->minor == 1; /* RFC 9110 §10.1.1: else ignored */
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
    if (rc < 0 || judge_host(req, fault) < 0 || judge_length(req, fault) < 0 ||
        judge_connection(req, fault) < 0) {
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
            return TIDINGS_E_INVALID; /* a line break here would let a value write headers */
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
