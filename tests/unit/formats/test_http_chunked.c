/* SPDX-License-Identifier: MIT
 *
 * Chunked bodies: the decoded body is the same however the input is split. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "formats/http.h"

struct outcome {
    enum http_chunked_result result;
    size_t used;
    struct buf body;
};

/* Parse up to `cut` bytes, then pieces of `step` bytes. */
static void decode(struct tidings_str raw, size_t cut, size_t step, struct outcome *o)
{
    struct http_chunked c;
    http_chunked_init(&c);
    buf_init(&o->body, 1u << 20);
    o->result = HTTP_CHUNKED_MORE;
    o->used = 0;
    for (size_t at = 0, n = cut; at < raw.len && o->result == HTTP_CHUNKED_MORE; n = step) {
        n = n < raw.len - at ? n : raw.len - at;
        char *piece = malloc(n + 1); /* exact, so that the sanitizer sees an overrun */
        assert_non_null(piece);
        memcpy(piece, raw.ptr + at, n);
        size_t decoded = 0, used = 0;
        o->result = http_chunked_decode(&c, piece, n, &decoded, &used);
        assert_true(decoded <= used && used <= n);
        if (o->result == HTTP_CHUNKED_MORE) {
            assert_int_equal(used, n);
        }
        assert_int_equal(buf_put(&o->body, piece, decoded), 0);
        free(piece);
        at += n;
        o->used += used;
    }
    if (o->result != HTTP_CHUNKED_BAD) {
        assert_true(c.total == o->body.len);
    }
}

#define ROW(raw, result, used, body)                                                               \
    {                                                                                              \
        {raw, sizeof(raw) - 1}, result, used, body                                                 \
    }
#define E32 "abcdefghijklmnopqrstuvwxyz012345"
#define E256 E32 E32 E32 E32 E32 E32 E32 E32

static const struct {
    struct tidings_str raw;
    enum http_chunked_result result;
    size_t used; /* unless BAD */
    const char *body;
} rows[] = {
    ROW("0\r\n\r\n", HTTP_CHUNKED_DONE, 5, ""),
    ROW("5\r\nhello\r\n0\r\n\r\n", HTTP_CHUNKED_DONE, 15, "hello"),
    ROW("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\nGET /", HTTP_CHUNKED_DONE, 26, "hello world"),
    ROW("0000000000000001\r\n\n\r\n0\r\n\r\n", HTTP_CHUNKED_DONE, 26, "\n"),
    ROW("a\r\n0123456789\r\nA\r\n0123456789\r\n00\r\n\r\n", HTTP_CHUNKED_DONE, 36,
        "01234567890123456789"),
    ROW("2;a=b;c=\"d\"\r\nab\r\n0;x\r\n\r\n", HTTP_CHUNKED_DONE, 24, "ab"),
    ROW("2 \t;a\r\nab\r\n0\r\n\r\n", HTTP_CHUNKED_DONE, 16, "ab"),
    ROW("2\r\nab\r\n0\r\nX: y\r\nZ:\r\n\r\nrest", HTTP_CHUNKED_DONE, 22, "ab"),
    ROW("2\r\na", HTTP_CHUNKED_MORE, 4, "a"),
    ROW("2\r\nab\r\n0\r\n\r", HTTP_CHUNKED_MORE, 11, "ab"),
    ROW("2\r\nab\r\n0\r\nX: y\r\n", HTTP_CHUNKED_MORE, 16, "ab"),
    /* sizes */
    ROW("\r\n", HTTP_CHUNKED_BAD, 0, ""),
    ROW("g\r\n", HTTP_CHUNKED_BAD, 0, ""),
    ROW("-1\r\n", HTTP_CHUNKED_BAD, 0, ""),
    ROW("+1\r\n", HTTP_CHUNKED_BAD, 0, ""),
    ROW("0x1\r\n", HTTP_CHUNKED_BAD, 0, ""),
    ROW(" 1\r\n", HTTP_CHUNKED_BAD, 0, ""),
    ROW("1 \r\n", HTTP_CHUNKED_BAD, 0, ""),
    ROW("1_0\r\n", HTTP_CHUNKED_BAD, 0, ""),
    ROW("8000000000000000\r\n", HTTP_CHUNKED_BAD, 0, ""),
    ROW("ffffffffffffffff\r\n", HTTP_CHUNKED_BAD, 0, ""),
    ROW("10000000000000001\r\n", HTTP_CHUNKED_BAD, 0, ""),
    ROW("00000000000000001\r\n", HTTP_CHUNKED_BAD, 0, ""),
    ROW("7fffffffffffffff\r\n", HTTP_CHUNKED_MORE, 18, ""),
    ROW("1\r\na\r\n7fffffffffffffff\r\n", HTTP_CHUNKED_BAD, 0, "a"),
    /* line ends */
    ROW("1\na\r\n0\r\n\r\n", HTTP_CHUNKED_BAD, 0, ""),
    ROW("1\r\r\n", HTTP_CHUNKED_BAD, 0, ""),
    ROW("1\ra", HTTP_CHUNKED_BAD, 0, ""),
    ROW("1\r\nab\r\n", HTTP_CHUNKED_BAD, 0, "a"),
    ROW("1\r\na\n0\r\n\r\n", HTTP_CHUNKED_BAD, 0, "a"),
    ROW("1\r\na\rx", HTTP_CHUNKED_BAD, 0, "a"),
    ROW("0\r\n\n", HTTP_CHUNKED_BAD, 0, ""),
    ROW("0\r\n\rx", HTTP_CHUNKED_BAD, 0, ""),
    /* extensions and trailers */
    ROW("1;a\nb\r\n", HTTP_CHUNKED_BAD, 0, ""),
    ROW("1;a\x01\r\n", HTTP_CHUNKED_BAD, 0, ""),
    ROW("1;a\rb", HTTP_CHUNKED_BAD, 0, ""),
    ROW("0\r\nX y: z\r\n\r\n", HTTP_CHUNKED_BAD, 0, ""),
    ROW("0\r\nX : z\r\n\r\n", HTTP_CHUNKED_BAD, 0, ""),
    ROW("0\r\n: z\r\n\r\n", HTTP_CHUNKED_BAD, 0, ""),
    ROW("0\r\nX\r\n\r\n", HTTP_CHUNKED_BAD, 0, ""),
    ROW("0\r\nX: a\r\n b\r\n\r\n", HTTP_CHUNKED_BAD, 0, ""),
    ROW("0\r\nX: a\nY: b\r\n\r\n", HTTP_CHUNKED_BAD, 0, ""),
    ROW("0\r\nX: a\0\r\n\r\n", HTTP_CHUNKED_BAD, 0, ""),
    ROW("1;" E256 "\r\n", HTTP_CHUNKED_BAD, 0, ""),
    ROW("0\r\n" E256 ":\r\n", HTTP_CHUNKED_BAD, 0, ""),
};

static void body_is_the_same_for_every_split(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t cut = 0; cut <= rows[i].raw.len; cut++) {
            struct outcome o;
            /* cut 0: byte by byte; otherwise one cut there */
            decode(rows[i].raw, cut ? cut : 1, cut ? rows[i].raw.len : 1, &o);
            if (o.result != rows[i].result ||
                !str_eq(buf_str(&o.body), tidings_str(rows[i].body)) ||
                (o.result != HTTP_CHUNKED_BAD && o.used != rows[i].used)) {
                fail_msg("row %zu cut %zu: result %d used %zu body '%s'", i, cut, (int)o.result,
                         o.used, o.body.ptr ? o.body.ptr : "");
            }
            buf_deinit(&o.body);
        }
    }
}

static void discarded_bytes_share_one_limit(void **state)
{
    (void)state;
    struct http_chunked c;
    http_chunked_init(&c);
    size_t lines = 0;
    for (enum http_chunked_result r = HTTP_CHUNKED_MORE; r == HTTP_CHUNKED_MORE; lines++) {
        char piece[] = "1;" E32 "\r\nx\r\n";
        size_t decoded, used;
        r = http_chunked_decode(&c, piece, sizeof piece - 1, &decoded, &used);
        assert_true(lines < 1000);
    }
    assert_int_equal(lines, 4096 / 33 + 1);
}

static void finished_body_stays_finished(void **state)
{
    (void)state;
    static const struct {
        const char *raw;
        enum http_chunked_result result;
    } ends[] = {{"0\r\n\r\n", HTTP_CHUNKED_DONE}, {"x", HTTP_CHUNKED_BAD}};
    for (size_t i = 0; i < 2; i++) {
        struct http_chunked c;
        http_chunked_init(&c);
        char text[16] = "";
        size_t decoded = 9, used = 9, len = strlen(ends[i].raw);
        memcpy(text, ends[i].raw, len);
        assert_int_equal(http_chunked_decode(&c, text, len, &decoded, &used), ends[i].result);
        memcpy(text, "1\r\na", 4);
        assert_int_equal(http_chunked_decode(&c, text, 4, &decoded, &used), ends[i].result);
        assert_int_equal(decoded + used, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(body_is_the_same_for_every_split),
        cmocka_unit_test(discarded_bytes_share_one_limit),
        cmocka_unit_test(finished_body_stays_finished),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
