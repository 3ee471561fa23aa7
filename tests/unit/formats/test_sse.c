/* SPDX-License-Identifier: MIT
 *
 * Server-sent events. Output: exact frames. Input: the examples of the standard and hostile cases,
 * each read at once, in every two pieces, and byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "formats/sse.h"
#include "support/fail_alloc.h"

static struct buf seen; /* "[event|data|id|retry]" for each event */

static void on_event(const struct sse_event *e, void *user)
{
    assert_ptr_equal(user, &seen);
    buf_putf(&seen, "[%.*s|%.*s|%.*s|%jd]", STR_ARG(e->event), STR_ARG(e->data), STR_ARG(e->id),
             (intmax_t)e->retry_ms);
}

static int run(struct tidings_str text, size_t max, size_t cut, size_t step)
{
    struct sse_parser p;
    int rc = 0;
    sse_parser_init(&p, max);
    buf_clear(&seen);
    buf_puts(&seen, STR(""));
    for (size_t at = 0, n = cut; at < text.len && rc == 0; n = step) {
        n = n < text.len - at ? n : text.len - at;
        rc = sse_parser_feed(&p, text.ptr + at, n, on_event, &seen);
        at += n;
    }
    if (rc < 0) {
        assert_int_equal(sse_parser_feed(&p, "\n\n", 2, on_event, &seen), rc);
    }
    sse_parser_deinit(&p);
    return rc;
}

static void events_are_the_same_for_every_split(void **state)
{
    (void)state;
    static const struct {
        struct tidings_str text;
        const char *out;
    } rows[] = {
#define ROW(text, out) {{text, sizeof(text) - 1}, out}
        ROW("", ""),
        ROW("data: x\n\n", "[message|x||-1]"),
        ROW("data:x\n\n", "[message|x||-1]"),
        ROW("data:  x\n\n", "[message| x||-1]"),
        ROW("data: x\r\n\r\n", "[message|x||-1]"),
        ROW("data: x\r\rdata: y\r\r", "[message|x||-1][message|y||-1]"),
        ROW("data: x\r\n\ndata: y\n\r", "[message|x||-1][message|y||-1]"),
        ROW("data: a\ndata: b\ndata\ndata: c\n\n", "[message|a\nb\n\nc||-1]"),
        ROW("data\n\n", "[message|||-1]"),
        ROW("data:\n\n", "[message|||-1]"),
        ROW("data\ndata\n\n", "[message|\n||-1]"),
        ROW("data: unfinished", ""),
        ROW("data: unfinished\n", ""),
        ROW("event: add\ndata: 7\n\ndata: 8\n\n", "[add|7||-1][message|8||-1]"),
        ROW("event: no-data\n\ndata: x\n\n", "[message|x||-1]"),
        ROW("event:\ndata: x\n\n", "[message|x||-1]"),
        ROW("id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n",
            "[message|a|1|-1][message|b|1|-1][message|c||-1]"),
        ROW("id: 7\nretry: 3000\ndata:\n\n", "[message||7|3000]"),
        ROW("id: 7\n\n", "[message||7|-1]"),
        ROW("retry: 10\n\n", "[message|||10]"),
        ROW("retry: 10\n\ndata: x\n\n", "[message|||10][message|x||-1]"),
        ROW("retry: -1\nretry: 1.5\nretry:\nretry: 99999999999999999999\ndata: x\n\n",
            "[message|x||-1]"),
        ROW("id: a\0b\ndata: x\n\n", "[message|x||-1]"),
        ROW(": comment\n\n:\n\ndata: x\n:c\n\n", "[message|x||-1]"),
        ROW("unknown: y\nDATA: n\ndata : n\n data: n\ndata: x\n\n", "[message|x||-1]"),
        ROW("\xef\xbb\xbf"
            "data: x\n\n",
            "[message|x||-1]"),
        ROW("\xef\xbb\xbf\n\xef\xbb\xbf"
            "data: x\n\n",
            ""),
        ROW("\n\n\n\ndata: x\n\n\n\n", "[message|x||-1]"),
        ROW("data: a:b: c\n\n", "[message|a:b: c||-1]"),
        ROW("data: test\n\ndata:test\n\n", "[message|test||-1][message|test||-1]"),
        ROW("event: message\nid: s.1\ndata: {}\n\n", "[message|{}|s.1|-1]"),
#undef ROW
    };
    buf_init(&seen, 4096);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t cut = 0; cut <= rows[i].text.len; cut++) {
            size_t step = cut == 0 ? 1 : rows[i].text.len;
            assert_int_equal(run(rows[i].text, 1000, cut ? cut : 1, step), 0);
            if (strcmp(seen.ptr, rows[i].out) != 0) {
                fail_msg("row %zu cut %zu: %s, expected %s", i, cut, seen.ptr, rows[i].out);
            }
        }
    }
    buf_deinit(&seen);
}

static void oversized_event_ends_the_stream(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int rc;
        const char *out;
    } rows[] = {
        {"data: 1234567890\n\n", 0, "[message|1234567890||-1]"},
        {"data: 12345678901\n\ndata: x\n\n", TIDINGS_E_LIMIT, ""},
        {"data: x\n\ndata: 12345\ndata: 12345\n\n", TIDINGS_E_LIMIT, "[message|x||-1]"},
        {"data: 12345\ndata: 1234\n\n", 0, "[message|12345\n1234||-1]"},
        {"id: 12345678901\n\n", TIDINGS_E_LIMIT, ""},
        {"event: 12345678901\n\n", TIDINGS_E_LIMIT, ""},
        {":1234567890123456789012345678901234567890123456789012345678901234567890123456789012345"
         "67890\n\n",
         TIDINGS_E_LIMIT, ""},
    };
    buf_init(&seen, 4096);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tidings_str text = tidings_str(rows[i].text);
        for (size_t cut = 0; cut <= text.len; cut++) {
            assert_int_equal(run(text, 10, cut ? cut : 1, cut ? text.len : 1), rows[i].rc);
            assert_string_equal(seen.ptr, rows[i].out);
        }
    }
    buf_deinit(&seen);
}

static void frames_are_written_exactly(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 1000);
    assert_int_equal(sse_put_priming(&b, STR("s.0"), 500), 0);
    assert_string_equal(b.ptr, "id: s.0\nretry: 500\ndata:\n\n");
    buf_clear(&b);
    assert_int_equal(sse_put_priming(&b, STR("s.0"), -1), 0);
    assert_string_equal(b.ptr, "id: s.0\ndata:\n\n");
    buf_deinit(&b);
}

static void written_frames_read_back(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 1000);
    buf_init(&seen, 1000);
    sse_put_priming(&b, STR("s.0"), 0);
    buf_puts(&b, STR(SSE_COMMENT));
    buf_puts(&b, STR("event: message\ndata:  spaced: \xc3\xa9\n\n"));
    buf_puts(&b, STR("event: message\nid: s.1\ndata: x\n\n"));
    assert_int_equal(run(buf_str(&b), 100, b.len, b.len), 0);
    assert_string_equal(seen.ptr, "[message||s.0|0][message| spaced: \xc3\xa9|s.0|-1]"
                                  "[message|x|s.1|-1]");
    buf_deinit(&b);
    buf_deinit(&seen);
}

static void line_breaks_and_full_buffers_write_nothing(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 40);
    assert_int_equal(sse_put_priming(&b, STR("1\ndata: evil"), 1), TIDINGS_E_INVALID);
    assert_int_equal(sse_put_priming(&b, STR("1\r"), 1), TIDINGS_E_INVALID);
    assert_int_equal(b.len, 0);
    assert_int_equal(b.failed, 0);
    assert_int_equal(sse_put_priming(&b, STR("1"), 1), TIDINGS_E_LIMIT);
    assert_int_equal(b.len, 0);
    buf_deinit(&b);
}

static void count_event(const struct sse_event *e, void *user)
{
    (void)e;
    ++*(int *)user;
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    static const char text[] = "event: e\nid: 1\ndata: a\ndata: b\n\ndata: x\n\n";
    bool reached = true;
    long n = 0;
    while (reached) {
        struct sse_parser p;
        int events = 0, rc;
        fail_alloc_start(++n);
        sse_parser_init(&p, 1000);
        rc = sse_parser_feed(&p, text, 20, count_event, &events);
        if (rc == 0) {
            rc = sse_parser_feed(&p, text + 20, sizeof text - 21, count_event, &events);
        }
        reached = fail_alloc_stop();
        assert_int_equal(rc, reached ? TIDINGS_E_NOMEM : 0);
        assert_true(reached || events == 2);
        sse_parser_deinit(&p);
        assert_int_equal(fail_alloc_live(), 0);
    }
    assert_true(n > 4);
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_the_same_for_every_split),
        cmocka_unit_test(oversized_event_ends_the_stream),
        cmocka_unit_test(frames_are_written_exactly),
        cmocka_unit_test(written_frames_read_back),
        cmocka_unit_test(line_breaks_and_full_buffers_write_nothing),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
