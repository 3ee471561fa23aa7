/* SPDX-License-Identifier: MIT
 *
 * Our HTTP parser compared with Debian's http-parser, on seeded mutations of valid requests. Our
 * parser may be stricter but never laxer. Both parsers must read an accepted message alike, because
 * request smuggling uses a disagreement about the end of a message.
 *
 * Documented exceptions, where only our parser accepts the input:
 *   - any method (RFC 9110 §9.1); http-parser has a fixed list;
 *   - a tab after `chunked`, a Content-Length or a chunk size, which is a blank (RFC 9110 §5.6.3);
 *   - a header whose name only starts with `Transfer-Encoding`, which http-parser mistakes for it;
 *   - trailers with the name of a header that http-parser interprets; our parser drops trailers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "formats/http.h"

#ifdef __has_include
#if __has_include(<http_parser.h>)
#define CAN_COMPARE 1
#endif
#endif

#ifdef CAN_COMPARE

/* It defines some of our names, so its constants and types are renamed while its header is
 * included. */
#define http_method their_method
#define HTTP_GET THEIR_GET
#define HTTP_HEAD THEIR_HEAD
#define HTTP_POST THEIR_POST
#define HTTP_PUT THEIR_PUT
#define HTTP_PATCH THEIR_PATCH
#define HTTP_DELETE THEIR_DELETE
#define HTTP_OPTIONS THEIR_OPTIONS
#include <http_parser.h>
#undef http_method
#undef HTTP_GET
#undef HTTP_HEAD
#undef HTTP_POST
#undef HTTP_PUT
#undef HTTP_PATCH
#undef HTTP_DELETE
#undef HTTP_OPTIONS

#define ROUNDS 40000
#define SEED UINT64_C(20240607)

struct theirs {
    struct tidings_str url;
    struct http_header headers[HTTP_MAX_HEADERS + 1];
    unsigned count;
    size_t body;
    bool head_done, done;
};

static struct theirs *theirs_of(http_parser *p)
{
    return p->data;
}

static int on_url(http_parser *p, const char *at, size_t len)
{
    theirs_of(p)->url = tidings_strn(at, len);
    return 0;
}

static int on_field(http_parser *p, const char *at, size_t len)
{
    struct theirs *t = theirs_of(p);
    if (!t->head_done && t->count <= HTTP_MAX_HEADERS) {
        t->headers[t->count++] = (struct http_header){.name = tidings_strn(at, len)};
    }
    return 0;
}

static int on_value(http_parser *p, const char *at, size_t len)
{
    struct theirs *t = theirs_of(p);
    if (!t->head_done && t->count > 0) {
        t->headers[t->count - 1].value = str_trim(tidings_strn(at, len), " \t");
    }
    return 0;
}

static int on_head(http_parser *p)
{
    theirs_of(p)->head_done = true;
    return 0;
}

static int on_body(http_parser *p, const char *at, size_t len)
{
    (void)at;
    theirs_of(p)->body += len;
    return 0;
}

static int on_done(http_parser *p)
{
    theirs_of(p)->done = true;
    http_parser_pause(p, 1);
    return 0;
}

/* The length of the first message in bytes. */
static size_t run_theirs(struct tidings_str text, http_parser *p, struct theirs *t)
{
    http_parser_settings s;
    http_parser_settings_init(&s);
    s.on_url = on_url;
    s.on_header_field = on_field;
    s.on_header_value = on_value;
    s.on_headers_complete = on_head;
    s.on_body = on_body;
    s.on_message_complete = on_done;
    memset(t, 0, sizeof *t);
    http_parser_init(p, HTTP_REQUEST);
    p->data = t;
    return http_parser_execute(p, &s, text.ptr, text.len);
}

struct ours {
    struct http_request req;
    size_t body, used;
    int verdict; /* 1 complete message, 0 more needed, -1 rejected */
    bool had_trailer;
};

static void run_ours(struct tidings_str text, struct ours *o)
{
    struct http_fault fault;
    size_t scanned = 0;
    ptrdiff_t head = http_parse_head(text.ptr, text.len, &scanned, &o->req, &fault);
    o->verdict = head > 0 ? 1 : (int)head;
    o->body = o->used = 0;
    o->had_trailer = false;
    if (head <= 0) {
        return;
    }
    struct tidings_str rest = str_skip(text, (size_t)head);
    if (o->req.chunked) {
        struct http_chunked c;
        char copy[4096];
        memcpy(copy, rest.ptr, rest.len);
        http_chunked_init(&c);
        o->verdict = http_chunked_decode(&c, copy, rest.len, &o->body, &o->used);
        o->had_trailer = c.trailer > 0;
    } else if (o->req.content_length > rest.len) {
        o->verdict = 0;
    } else {
        o->body = o->used = (size_t)o->req.content_length;
    }
    o->used += (size_t)head;
}

static uint64_t random_state;

static size_t pick(size_t below) /* splitmix64 */
{
    uint64_t z = random_state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return (size_t)((z ^ z >> 31) % below);
}

static const char *const seeds[] = {
    "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "GET /mcp?a=b&c=%20d HTTP/1.1\r\nHost: localhost:8080\r\nAccept: text/event-stream\r\n\r\n",
    "POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\nhello world",
    "POST /mcp HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nTransfer-Encoding: "
    "chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n",
    "PUT /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\nX-T: "
    "v\r\n\r\n",
    "GET /old HTTP/1.0\r\n\r\n",
    "GET /old HTTP/1.0\r\nConnection: keep-alive\r\nX: y\r\n\r\nGET /next HTTP/1.0\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET http://example.org:80/p?q HTTP/1.1\r\nHost: example.org\r\n\r\n",
    "\r\nDELETE /a/b HTTP/1.1\r\nHost: [::1]:9\r\nMcp-Session-Id: 0123\r\nConnection: "
    "close\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabcGET / "
    "HTTP/1.1\r\nHost: h\r\n\r\n",
};

static const char *const pieces[] = {
    "\r\n",
    "\n",
    "\r",
    "\r\n\r\n",
    " ",
    "\t",
    ":",
    ",",
    ";",
    "0",
    "1",
    "9",
    "f",
    "\x01",
    "\x7f",
    "\x80",
    "\xff",
    "%",
    "#",
    "?",
    "/",
    "*",
    "\"",
    "\\",
    "Content-Length: 5\r\n",
    "Content-Length: 0\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip, chunked\r\n",
    "Content-Length: 5, 5\r\n",
    "Host: evil\r\n",
    "X: a\r\n b\r\n",
    "X : y\r\n",
    ": y\r\n",
    "chunked",
    "chunked ",
    "HTTP/1.0",
    "HTTP/1.1",
    "0\r\n\r\n",
    "5\r\nhello\r\n",
    "-1",
    "+1",
    "0x1",
    "18446744073709551616",
    "identity",
};

static void mutate(struct buf *b)
{
    size_t at = b->len ? pick(b->len) : 0;
    size_t end = at + (b->len - at ? pick(b->len - at < 12 ? b->len - at : 12) : 0);
    struct buf tail;
    buf_init(&tail, 4096);
    switch (pick(5)) {
    case 0: /* change a byte */
        if (b->len) {
            b->ptr[at] = (char)pick(256);
        }
        break;
    case 1: /* flip a bit */
        if (b->len) {
            b->ptr[at] = (char)(b->ptr[at] ^ (1 << pick(8)));
        }
        break;
    case 2: { /* insert a piece */
        const char *piece = pieces[pick(sizeof pieces / sizeof *pieces)];
        /* complete header lines, usually at the start of a line */
        const char *lf = b->ptr ? strchr(b->ptr, '\n') : NULL;
        at = pick(3) && lf ? (size_t)(lf + 1 - b->ptr) : at;
        buf_put(&tail, b->ptr + at, b->len - at);
        b->len = at;
        buf_puts(b, tidings_str(piece));
        buf_puts(b, buf_str(&tail));
        break;
    }
    case 3: /* delete a few */
        buf_put(&tail, b->ptr + end, b->len - end);
        b->len = at;
        buf_puts(b, buf_str(&tail));
        break;
    default: /* repeat a few */
        buf_put(&tail, b->ptr + at, b->len - at);
        b->len = end;
        buf_puts(b, buf_str(&tail));
        break;
    }
    buf_deinit(&tail);
}

static bool is_documented(const struct ours *o, const http_parser *p)
{
    if (o->req.method == HTTP_OTHER && HTTP_PARSER_ERRNO(p) == HPE_INVALID_METHOD) {
        return true;
    }
    static const char *const framing[] = {"Transfer-Encoding", "Content-Length"};
    for (size_t i = 0; i < 2; i++) {
        struct tidings_str value = http_header(&o->req, framing[i], NULL);
        if (value.ptr &&
            memchr(value.ptr + value.len, '\t', strcspn(value.ptr + value.len, "\r"))) {
            return true;
        }
    }
    for (unsigned i = 0; i < o->req.header_count; i++) {
        struct tidings_str name = o->req.headers[i].name, prefix = STR("Transfer-Encoding");
        if (name.len > prefix.len && str_eq_nocase(tidings_strn(name.ptr, prefix.len), prefix)) {
            return true;
        }
    }
    enum http_errno why = HTTP_PARSER_ERRNO(p);
    return o->had_trailer &&
           (why == HPE_INVALID_CONTENT_LENGTH || why == HPE_UNEXPECTED_CONTENT_LENGTH ||
            why == HPE_INVALID_CHUNK_SIZE);
}

static const char *compare(const struct ours *o, const http_parser *p, const struct theirs *t,
                           size_t their_used)
{
    if (o->verdict == 0) {
        return t->done ? "they saw a whole message, we did not" : NULL;
    }
    if (!t->done) {
        return "we accept what they do not";
    }
    if (!str_eq(o->req.method_name, tidings_str(http_method_str(p->method)))) {
        return "another method";
    }
    struct http_parser_url url;
    http_parser_url_init(&url);
    if (!str_eq(o->req.target, t->url)) {
        return "another target";
    }
    if (http_parser_parse_url(t->url.ptr, t->url.len, 0, &url) == 0 &&
        url.field_set & (1 << UF_PATH)) {
        struct tidings_str path =
            tidings_strn(t->url.ptr + url.field_data[UF_PATH].off, url.field_data[UF_PATH].len);
        if (!str_eq(o->req.path, path)) {
            return "another path";
        }
    }
    if (o->req.header_count != t->count) {
        return "another number of headers";
    }
    for (unsigned i = 0; i < t->count; i++) {
        if (!str_eq(o->req.headers[i].name, t->headers[i].name) ||
            !str_eq(o->req.headers[i].value, t->headers[i].value)) {
            return "another header";
        }
    }
    if (o->body != t->body) {
        return "another body length";
    }
    return o->used != their_used ? "another end of the message" : NULL;
}

static void parser_is_never_laxer_than_http_parser(void **state)
{
    (void)state;
    static struct ours o;
    static struct theirs t;
    unsigned whole = 0, refused = 0, mutated_whole = 0;
    struct buf b;
    buf_init(&b, 4000);
    random_state = SEED;
    for (unsigned round = 0; round < ROUNDS; round++) {
        buf_clear(&b);
        buf_puts(&b, tidings_str(seeds[pick(sizeof seeds / sizeof *seeds)]));
        size_t mutations = pick(4);
        for (size_t i = 0; i < mutations; i++) {
            mutate(&b);
        }
        http_parser p;
        run_ours(buf_str(&b), &o);
        size_t their_used = run_theirs(buf_str(&b), &p, &t);
        refused += o.verdict < 0;
        whole += o.verdict > 0;
        mutated_whole += o.verdict > 0 && mutations > 0;
        if (o.verdict < 0 || p.upgrade) {
            continue;
        }
        const char *difference = compare(&o, &p, &t, their_used);
        if (difference && !is_documented(&o, &p)) {
            fail_msg("seed %ju round %u: %s (%s)\n%.*s", (uintmax_t)SEED, round, difference,
                     http_errno_name(HTTP_PARSER_ERRNO(&p)), STR_ARG(buf_str(&b)));
        }
    }
    buf_deinit(&b);
    /* The comparison is meaningful only while both outcomes are common. */
    assert_true(mutated_whole > ROUNDS / 20);
    assert_true(refused > ROUNDS / 20);
    print_message("%u whole requests (%u of them mutated), %u refused\n", whole, mutated_whole,
                  refused);
}

#else

static void parser_is_never_laxer_than_http_parser(void **state)
{
    (void)state;
    print_message("skipped: http-parser (libhttp-parser-dev) is not installed\n");
    skip();
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parser_is_never_laxer_than_http_parser),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
