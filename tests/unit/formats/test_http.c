/* SPDX-License-Identifier: MIT
 *
 * The head parser, rule by rule. Every row is also parsed byte by byte, with the same result. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "formats/http.h"

static bool same(const struct http_request *a, const struct http_request *b)
{
    if (a->header_count != b->header_count || !str_eq(a->path, b->path) ||
        !str_eq(a->query, b->query) || !str_eq(a->host, b->host) || a->method != b->method) {
        return false;
    }
    for (unsigned i = 0; i < a->header_count; i++) {
        if (!str_eq(a->headers[i].name, b->headers[i].name) ||
            !str_eq(a->headers[i].value, b->headers[i].value)) {
            return false;
        }
    }
    return a->chunked == b->chunked && a->content_length == b->content_length &&
           a->keep_alive == b->keep_alive;
}

/* Parse everything at once, then one byte at a time; both must agree. */
static ptrdiff_t parse(struct tidings_str text, struct http_request *req, struct http_fault *fault)
{
    static struct http_request dribbled;
    struct http_fault dribbled_fault = {0};
    size_t scanned = 0;
    *fault = (struct http_fault){0};
    ptrdiff_t whole = http_parse_head(text.ptr, text.len, &scanned, req, fault);
    ptrdiff_t rc = 0;
    scanned = 0;
    for (size_t n = 0; rc == 0 && n <= text.len; n++) {
        rc = http_parse_head(text.ptr, n, &scanned, &dribbled, &dribbled_fault);
    }
    assert_int_equal(rc, whole);
    assert_int_equal(fault->status, dribbled_fault.status);
    if (whole < 0) {
        assert_string_equal(fault->text, dribbled_fault.text);
    }
    if (whole > 0) {
        assert_true(same(req, &dribbled));
        assert_int_equal(scanned, 0);
    }
    return whole;
}

#define LINE "GET / HTTP/1.1\r\n"
#define HOST "Host: h\r\n"

static void malformed_heads_are_rejected(void **state)
{
    (void)state;
    static const struct {
        struct tidings_str text;
        int status;
        const char *says; /* part of the message */
    } rows[] = {
#define ROW(text, status, says) {{text, sizeof(text) - 1}, status, says}
        /* the request line */
        ROW("\r\n\r\n\r\n" LINE HOST "\r\n", 400, "request line is empty"),
        ROW("GET /\r\n" HOST "\r\n", 400, "METHOD target"),
        ROW("GET\r\n" HOST "\r\n", 400, "METHOD target"),
        ROW("GET  / HTTP/1.1\r\n" HOST "\r\n", 400, "METHOD target"),
        ROW("GET /  HTTP/1.1\r\n" HOST "\r\n", 400, "METHOD target"),
        ROW("GET / HTTP/1.1 \r\n" HOST "\r\n", 400, "METHOD target"),
        ROW("GET / a HTTP/1.1\r\n" HOST "\r\n", 400, "METHOD target"),
        ROW("GET\t/ HTTP/1.1\r\n" HOST "\r\n", 400, "malformed method"),
        ROW("GET /\tHTTP/1.1\r\n" HOST "\r\n", 400, "METHOD target"),
        ROW(" GET / HTTP/1.1\r\n" HOST "\r\n", 400, "malformed method"),
        ROW("G(T / HTTP/1.1\r\n" HOST "\r\n", 400, "malformed method"),
        ROW("G\xc3\x89T / HTTP/1.1\r\n" HOST "\r\n", 400, "malformed method"),
        ROW("ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG / HTTP/1.1\r\n" HOST "\r\n", 501, "method"),
        /* the version */
        ROW("GET / http/1.1\r\n" HOST "\r\n", 400, "METHOD target"),
        ROW("GET / HTTP/11\r\n" HOST "\r\n", 400, "METHOD target"),
        ROW("GET / HTTP/1.10\r\n" HOST "\r\n", 400, "METHOD target"),
        ROW("GET / HTTP/1.\r\n" HOST "\r\n", 400, "METHOD target"),
        ROW("GET / HTTP/a.1\r\n" HOST "\r\n", 400, "METHOD target"),
        ROW("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "HTTP/1.1"),
        ROW("GET / HTTP/0.9\r\n" HOST "\r\n", 505, "HTTP/1.1"),
        ROW("GET / HTTP/1.2\r\n" HOST "\r\n", 505, "HTTP/1.1"),
        /* the target */
        ROW("GET * HTTP/1.1\r\n" HOST "\r\n", 400, "OPTIONS only"),
        ROW("CONNECT h:80 HTTP/1.1\r\n" HOST "\r\n", 501, "CONNECT"),
        ROW("GET h:80 HTTP/1.1\r\n" HOST "\r\n", 400, "must be a path"),
        ROW("GET path HTTP/1.1\r\n" HOST "\r\n", 400, "must be a path"),
        ROW("GET ?q HTTP/1.1\r\n" HOST "\r\n", 400, "must be a path"),
        ROW("GET ftp://h/ HTTP/1.1\r\n" HOST "\r\n", 400, "must be a path"),
        ROW("GET http:// HTTP/1.1\r\n" HOST "\r\n", 400, "malformed host"),
        ROW("GET http:///x HTTP/1.1\r\n" HOST "\r\n", 400, "malformed host"),
        ROW("GET http://u@h/ HTTP/1.1\r\n" HOST "\r\n", 400, "malformed host"),
        ROW("GET http://h:99999/ HTTP/1.1\r\n" HOST "\r\n", 400, "malformed host"),
        ROW("GET /a#b HTTP/1.1\r\n" HOST "\r\n", 400, "character not allowed"),
        ROW("GET /?a#b HTTP/1.1\r\n" HOST "\r\n", 400, "character not allowed"),
        ROW("GET /a\"b HTTP/1.1\r\n" HOST "\r\n", 400, "character not allowed"),
        ROW("GET /a\\b HTTP/1.1\r\n" HOST "\r\n", 400, "character not allowed"),
        ROW("GET /\xc3\xa9 HTTP/1.1\r\n" HOST "\r\n", 400, "character not allowed"),
        ROW("GET /%zz HTTP/1.1\r\n" HOST "\r\n", 400, "percent-escape"),
        ROW("GET /?%a HTTP/1.1\r\n" HOST "\r\n", 400, "percent-escape"),
        /* line ends and control characters */
        ROW("GET / HTTP/1.1\nHost: h\n\n", 400, "LF without CR"),
        ROW("\n" LINE HOST "\r\n", 400, "LF without CR"),
        ROW(LINE "Host: h\n\r\n", 400, "LF without CR"),
        ROW(LINE HOST "X: a\r\n\n", 400, "LF without CR"),
        ROW(LINE "Host: h\rX: y\r\n\r\n", 400, "CR without LF"),
        ROW(LINE HOST "X: a\r\r\n\r\n", 400, "CR without LF"),
        ROW(LINE HOST "X: a\0b\r\n\r\n", 400, "control character"),
        ROW(LINE HOST "X: a\x01\r\n\r\n", 400, "control character"),
        ROW(LINE HOST "X: a\x7f\r\n\r\n", 400, "control character"),
        ROW("GET /\x0b HTTP/1.1\r\n" HOST "\r\n", 400, "control character"),
        ROW("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, "control character"), /* TLS */
        /* header lines */
        ROW(LINE HOST "X: a\r\n b\r\n\r\n", 400, "folded"),
        ROW(LINE HOST "X: a\r\n\tb\r\n\r\n", 400, "folded"),
        ROW(LINE " Host: h\r\n\r\n", 400, "folded"),
        ROW(LINE HOST " \r\n\r\n", 400, "folded"),
        ROW(LINE "Host : h\r\n\r\n", 400, "blank between"),
        ROW(LINE HOST "X\t: h\r\n\r\n", 400, "blank between"),
        ROW(LINE HOST "X y: h\r\n\r\n", 400, "header name"),
        ROW(LINE HOST "X\xc3\xa9: h\r\n\r\n", 400, "header name"),
        ROW(LINE HOST "X[]: h\r\n\r\n", 400, "header name"),
        ROW(LINE HOST "garbage\r\n\r\n", 400, "no colon"),
        ROW(LINE HOST ": v\r\n\r\n", 400, "no name"),
        /* Host */
        ROW(LINE "\r\n", 400, "Host header is missing"),
        ROW(LINE "X-Host: h\r\n\r\n", 400, "Host header is missing"),
        ROW(LINE HOST "host: h\r\n\r\n", 400, "more than one Host"),
        ROW("GET / HTTP/1.0\r\n" HOST HOST "\r\n", 400, "more than one Host"),
        ROW("GET http://h/ HTTP/1.1\r\n\r\n", 400, "Host header is missing"),
        ROW(LINE "Host:\r\n\r\n", 400, "malformed Host"),
        ROW(LINE "Host: a b\r\n\r\n", 400, "malformed Host"),
        ROW(LINE "Host: a, b\r\n\r\n", 400, "malformed Host"),
        ROW(LINE "Host: a/b\r\n\r\n", 400, "malformed Host"),
        ROW(LINE "Host: u@h\r\n\r\n", 400, "malformed Host"),
        ROW(LINE "Host: h:x\r\n\r\n", 400, "malformed Host"),
        ROW(LINE "Host: h:65536\r\n\r\n", 400, "malformed Host"),
        ROW(LINE "Host: h:1:2\r\n\r\n", 400, "malformed Host"),
        ROW(LINE "Host: :80\r\n\r\n", 400, "malformed Host"),
        ROW(LINE "Host: [::1\r\n\r\n", 400, "malformed Host"),
        ROW(LINE "Host: []\r\n\r\n", 400, "malformed Host"),
        ROW(LINE "Host: [::1]x\r\n\r\n", 400, "malformed Host"),
        ROW(LINE "Host: [::g]\r\n\r\n", 400, "malformed Host"),
        ROW(LINE "Host: h%2\r\n\r\n", 400, "malformed Host"),
        /* the body length */
        ROW(LINE HOST "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", 400, "more than one"),
        ROW(LINE HOST "Content-Length: 5\r\ncontent-length: 6\r\n\r\n", 400, "more than one"),
        ROW(LINE HOST "Content-Length: 5, 5\r\n\r\n", 400, "one decimal number"),
        ROW(LINE HOST "Content-Length:\r\n\r\n", 400, "one decimal number"),
        ROW(LINE HOST "Content-Length: -1\r\n\r\n", 400, "one decimal number"),
        ROW(LINE HOST "Content-Length: +1\r\n\r\n", 400, "one decimal number"),
        ROW(LINE HOST "Content-Length: 0x10\r\n\r\n", 400, "one decimal number"),
        ROW(LINE HOST "Content-Length: 1 2\r\n\r\n", 400, "one decimal number"),
        ROW(LINE HOST "Content-Length: 9223372036854775808\r\n\r\n", 400, "one decimal number"),
        ROW(LINE HOST "Content-Length: 18446744073709551617\r\n\r\n", 400, "one decimal number"),
        ROW(LINE HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "both"),
        ROW(LINE HOST "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n", 400, "both"),
        ROW(LINE HOST "Transfer-Encoding: gzip, chunked\r\n\r\n", 501, "only transfer coding"),
        ROW(LINE HOST "Transfer-Encoding: chunked, chunked\r\n\r\n", 501, "only transfer coding"),
        ROW(LINE HOST "Transfer-Encoding: chunked, gzip\r\n\r\n", 400, "must be 'chunked'"),
        ROW(LINE HOST "Transfer-Encoding: identity\r\n\r\n", 400, "must be 'chunked'"),
        ROW(LINE HOST "Transfer-Encoding: xchunked\r\n\r\n", 400, "must be 'chunked'"),
        ROW(LINE HOST "Transfer-Encoding: chunked;a=b\r\n\r\n", 400, "must be 'chunked'"),
        ROW(LINE HOST "Transfer-Encoding:\r\n\r\n", 400, "must be 'chunked'"),
        ROW(LINE HOST "Transfer-Encoding: chunked,\r\n\r\n", 400, "must be 'chunked'"),
        ROW(LINE HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400,
            "more than one"),
        ROW("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "HTTP/1.0"),
        /* expectations */
        ROW(LINE HOST "Expect: 200-ok\r\n\r\n", 417, "100-continue"),
        ROW(LINE HOST "Expect:\r\n\r\n", 417, "100-continue"),
        ROW(LINE HOST "Expect: 100-continue\r\nExpect: tea\r\n\r\n", 417, "100-continue"),
#undef ROW
    };
    static struct http_request req;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct http_fault fault;
        ptrdiff_t rc = parse(rows[i].text, &req, &fault);
        if (rc != -1 || fault.status != rows[i].status || !strstr(fault.text, rows[i].says)) {
            fail_msg("row %zu: %td, %d %s\n%s", i, rc, fault.status, fault.text ? fault.text : "",
                     rows[i].text.ptr);
        }
    }
}

static void targets_are_split_into_their_parts(void **state)
{
    (void)state;
    static const struct {
        const char *line, *path, *query, *host;
    } rows[] = {
        {"GET / HTTP/1.1", "/", "", "h"},
        {"GET /mcp?a=b&c={x|y}\\^` HTTP/1.1", "/mcp", "a=b&c={x|y}\\^`", "h"},
        {"GET /a?b?c HTTP/1.1", "/a", "b?c", "h"},
        {"GET /? HTTP/1.1", "/", "", "h"},
        {"GET //x/[1]|;:@!$&'()*+,=~ HTTP/1.1", "//x/[1]|;:@!$&'()*+,=~", "", "h"},
        {"GET /%C3%a9 HTTP/1.1", "/%C3%a9", "", "h"},
        {"OPTIONS * HTTP/1.1", "*", "", "h"},
        {"GET http://example.org:8080/p?q HTTP/1.1", "/p", "q", "example.org:8080"},
        {"GET HTTPS://x HTTP/1.1", "/", "", "x"},
        {"GET http://h HTTP/1.1", "/", "", "h"},
        {"GET http://[::1]:80?q HTTP/1.1", "/", "q", "[::1]:80"},
        {"FROB-2 /x HTTP/1.1", "/x", "", "h"},
    };
    static struct http_request req;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256];
        struct http_fault fault;
        int len = snprintf(text, sizeof text, "%s\r\nHost: h\r\n\r\n", rows[i].line);
        assert_int_equal(parse(tidings_strn(text, (size_t)len), &req, &fault), len);
        assert_true(str_eq(req.path, tidings_str(rows[i].path)));
        assert_true(str_eq(req.query, tidings_str(rows[i].query)));
        assert_true(str_eq(req.host, tidings_str(rows[i].host)));
    }
}

static void methods_match_only_their_exact_name(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum http_method method;
    } rows[] = {{"GET", HTTP_GET},        {"HEAD", HTTP_HEAD},   {"POST", HTTP_POST},
                {"PUT", HTTP_PUT},        {"PATCH", HTTP_PATCH}, {"DELETE", HTTP_DELETE},
                {"get", HTTP_OTHER},      {"GETS", HTTP_OTHER},  {"!#$%&'*+-.^_`|~", HTTP_OTHER},
                {"OPTIONS", HTTP_OPTIONS}};
    static struct http_request req;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[128];
        struct http_fault fault;
        int len = snprintf(text, sizeof text, "%s / HTTP/1.1\r\nHost: h\r\n\r\n", rows[i].name);
        assert_int_equal(parse(tidings_strn(text, (size_t)len), &req, &fault), len);
        assert_int_equal(req.method, rows[i].method);
        assert_true(str_eq(req.method_name, tidings_str(rows[i].name)));
    }
}

static void headers_decide_how_the_connection_continues(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool keep_alive, expect, chunked, has_length;
        uint64_t length;
    } rows[] = {
        {LINE HOST, true, false, false, false, 0},
        {LINE HOST "Connection: close\r\n", false, false, false, false, 0},
        {LINE HOST "Connection: foo, CLOSE ,bar\r\n", false, false, false, false, 0},
        {LINE HOST "Connection: foo\r\nConnection: close\r\n", false, false, false, false, 0},
        {LINE HOST "Connection: keep-alive, close\r\n", false, false, false, false, 0},
        {LINE HOST "Connection: closed, xclose\r\n", true, false, false, false, 0},
        {"GET / HTTP/1.0\r\n", false, false, false, false, 0},
        {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n", true, false, false, false, 0},
        {"GET / HTTP/1.0\r\nConnection: keep-alive\r\nConnection: close\r\n", false, false, false,
         false, 0},
        {LINE HOST "Expect: 100-Continue\r\n", true, true, false, false, 0},
        {"GET / HTTP/1.0\r\nExpect: 100-continue\r\n", false, false, false, false, 0},
        {LINE HOST "Transfer-Encoding: Chunked\r\n", true, false, true, false, 0},
        {LINE HOST "Content-Length: 0\r\n", true, false, false, true, 0},
        {LINE HOST "content-length:\t 0042 \r\n", true, false, false, true, 42},
        {LINE HOST "Content-Length: 9223372036854775807\r\n", true, false, false, true, INT64_MAX},
    };
    static struct http_request req;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256];
        struct http_fault fault;
        int len = snprintf(text, sizeof text, "%s\r\n", rows[i].text);
        assert_int_equal(parse(tidings_strn(text, (size_t)len), &req, &fault), len);
        assert_int_equal(req.keep_alive, rows[i].keep_alive);
        assert_int_equal(req.expect_continue, rows[i].expect);
        assert_int_equal(req.chunked, rows[i].chunked);
        assert_int_equal(req.has_length, rows[i].has_length);
        assert_true(req.content_length == rows[i].length);
    }
}

static void hosts_are_names_or_addresses_with_a_port(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "localhost", "LOCALHOST:8080",        "127.0.0.1:1", "[::1]", "[::ffff:1.2.3.4]:65535",
        "a-b_c.d~",  "xn--bcher-kva.example", "h:",          "%41"};
    static struct http_request req;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[128];
        struct http_fault fault;
        int len = snprintf(text, sizeof text, LINE "hOST:%s\r\n\r\n", rows[i]);
        assert_int_equal(parse(tidings_strn(text, (size_t)len), &req, &fault), len);
        assert_true(str_eq(req.host, tidings_str(rows[i])));
    }
}

static void header_values_are_trimmed_and_found_in_any_case(void **state)
{
    (void)state;
    static struct http_request req;
    struct http_fault fault;
    unsigned count;
    parse(STR(LINE HOST "A: \t x y\t \r\na:second\r\nEmpty:\r\nB:  \r\nUtf: \xc3\xa9\r\n\r\n"),
          &req, &fault);
    assert_int_equal(req.header_count, 6);
    assert_true(str_eq(http_header(&req, "a", &count), STR("x y")));
    assert_int_equal(count, 2);
    assert_true(str_eq(http_header(&req, "EMPTY", &count), STR("")));
    assert_int_equal(count, 1);
    assert_non_null(http_header(&req, "b", NULL).ptr);
    assert_true(str_eq(http_header(&req, "utf", NULL), STR("\xc3\xa9")));
    assert_null(http_header(&req, "none", &count).ptr);
    assert_int_equal(count, 0);
}

static void pipelined_requests_are_separated(void **state)
{
    (void)state;
    static struct http_request req;
    struct http_fault fault;
    static const char text[] =
        "\r\n\r\nPOST /1 HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n\n\n\n\n"
        "\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\nGET /3 HT";
    struct tidings_str rest = STR(text);
    ptrdiff_t n = parse(rest, &req, &fault);
    assert_true(n > 0 && str_eq(req.path, STR("/1")));
    rest = str_skip(rest, (size_t)n + (size_t)req.content_length);
    n = parse(rest, &req, &fault);
    assert_true(n > 0 && str_eq(req.path, STR("/2")));
    rest = str_skip(rest, (size_t)n);
    assert_int_equal(parse(rest, &req, &fault), 0);
    assert_true(str_eq(rest, STR("GET /3 HT")));
}

/* A head of `lines` header lines, each `width` bytes long, and a target of `target` bytes. */
static void put_head(struct buf *b, size_t target, size_t lines, size_t width)
{
    buf_clear(b);
    buf_puts(b, STR("GET /"));
    for (size_t i = 1; i < target; i++) {
        buf_putc(b, 'a');
    }
    buf_puts(b, STR(" HTTP/1.1\r\nHost: h\r\n"));
    for (size_t i = 0; i < lines; i++) {
        buf_puts(b, STR("X: "));
        for (size_t j = 5; j < width; j++) {
            buf_putc(b, 'y');
        }
        buf_puts(b, STR("\r\n"));
    }
    buf_puts(b, STR("\r\n"));
}

static void limits_are_exact(void **state)
{
    (void)state;
    enum { FIXED = 14 + 2 + 9 + 2 }; /* "GET / HTTP/1.1", its CRLF, Host, the empty line */
    static const struct {
        size_t target, lines, width;
        int status; /* 0: accepted */
    } rows[] = {
        {HTTP_MAX_TARGET, 0, 0, 0},
        {HTTP_MAX_TARGET + 1, 0, 0, 414},
        {HTTP_MAX_HEAD, 0, 0, 414},
        {1000000, 0, 0, 414},
        {1, HTTP_MAX_HEADERS - 1, 10, 0},
        {1, HTTP_MAX_HEADERS, 10, 431},
        {1, 5000, 10, 431},
        {1, 1, HTTP_MAX_HEAD - FIXED, 0},
        {1, 1, HTTP_MAX_HEAD - FIXED + 1, 431},
        {1, 1, 1000000, 431},
        {HTTP_MAX_TARGET, 1, HTTP_MAX_HEAD - FIXED - HTTP_MAX_TARGET + 1, 0},
        {HTTP_MAX_TARGET, 1, HTTP_MAX_HEAD - FIXED - HTTP_MAX_TARGET + 2, 431},
    };
    static struct http_request req;
    struct buf b;
    buf_init(&b, 1u << 21);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct http_fault fault;
        put_head(&b, rows[i].target, rows[i].lines, rows[i].width);
        ptrdiff_t rc = parse(buf_str(&b), &req, &fault);
        assert_int_equal(fault.status, rows[i].status);
        assert_int_equal(rc, rows[i].status ? -1 : (ptrdiff_t)b.len);
    }
    buf_deinit(&b);
}

static void lists_are_searched_by_item(void **state)
{
    (void)state;
    static const struct {
        const char *value, *token;
        bool has;
    } rows[] = {
        {"application/json, text/event-stream", "text/event-stream", true},
        {"application/json, text/event-stream", "application/json", true},
        {"Application/JSON;q=0.5,x", "application/json", true},
        {"a ; q=1 , b", "a", true},
        {"a, b", "c", false},
        {"text/event-streams", "text/event-stream", false},
        {"", "a", false},
        {",,a", "a", true},
        {"x;p=\"a,b\",c", "b\"", false},
        {"x;p=\"a,b\",c", "c", true},
        {"x;p=\"\\\",c\"", "c\"", false},
        {"x;p=\"open, a", "a", false},
        {"\"\\", "a", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(http_list_has(tidings_str(rows[i].value), rows[i].token), rows[i].has);
    }
}

static void response_heads_cannot_be_split(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 100);
    http_put_status(&b, 404);
    assert_int_equal(http_put_header(&b, "X", STR("a\tb \xc3\xa9")), 0);
    assert_int_equal(http_put_header(&b, "X", STR("a\r\nSet-Cookie: b")), TIDINGS_E_INVALID);
    assert_int_equal(http_put_header(&b, "X", STR("a\nb")), TIDINGS_E_INVALID);
    assert_int_equal(http_put_header(&b, "X", tidings_strn("\0", 1)), TIDINGS_E_INVALID);
    assert_string_equal(b.ptr, "HTTP/1.1 404 Not Found\r\nX: a\tb \xc3\xa9\r\n");
    assert_string_equal(http_reason(200), "OK");
    assert_string_equal(http_reason(299), "Unknown");
    size_t before = b.len;
    while (http_put_header(&b, "Some-Name", STR("some value")) == 0) {
        before = b.len;
    }
    assert_int_equal(b.failed, TIDINGS_E_LIMIT);
    assert_int_equal(b.len, before);
    buf_deinit(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_heads_are_rejected),
        cmocka_unit_test(targets_are_split_into_their_parts),
        cmocka_unit_test(methods_match_only_their_exact_name),
        cmocka_unit_test(headers_decide_how_the_connection_continues),
        cmocka_unit_test(hosts_are_names_or_addresses_with_a_port),
        cmocka_unit_test(header_values_are_trimmed_and_found_in_any_case),
        cmocka_unit_test(pipelined_requests_are_separated),
        cmocka_unit_test(limits_are_exact),
        cmocka_unit_test(lists_are_searched_by_item),
        cmocka_unit_test(response_heads_cannot_be_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
