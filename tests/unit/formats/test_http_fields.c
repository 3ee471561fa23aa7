/* SPDX-License-Identifier: MIT
 *
 * Range, entity tags, Accept and queries: the accepted and the ignored forms. */
#include "formats/http_fields.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static void only_one_byte_range_is_accepted(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        bool counts;
        int64_t from, to, last;
    } rows[] = {
        {"bytes=0-99", true, 0, 100, 0},
        {"bytes=5-5", true, 5, 6, 0},
        {"bytes=100-", true, 100, -1, 0},
        {"bytes=-500", true, 0, -1, 500},
        {"Bytes = 1-2 ", true, 1, 3, 0},
        {"bytes=9223372036854775806-9223372036854775806", true, INT64_MAX - 1, INT64_MAX, 0},
        {"bytes=0-9223372036854775807", false, 0, 0, 0},
        {"bytes=0-99999999999999999999", false, 0, 0, 0},
        {"bytes=2-1", false, 0, 0, 0},
        {"bytes=-0", false, 0, 0, 0},
        {"bytes=-", false, 0, 0, 0},
        {"bytes=--1", false, 0, 0, 0},
        {"bytes=1--2", false, 0, 0, 0},
        {"bytes=0-1,3-4", false, 0, 0, 0},
        {"bytes=a-b", false, 0, 0, 0},
        {"bytes=1", false, 0, 0, 0},
        {"lines=0-1", false, 0, 0, 0},
        {"bytes", false, 0, 0, 0},
        {"", false, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct http_range r = {0};
        bool counts = http_parse_range(tidings_str(rows[i].value), &r);
        if (counts != rows[i].counts ||
            (counts && (r.from != rows[i].from || r.to != rows[i].to || r.last != rows[i].last))) {
            fail_msg("%s: %d %lld %lld %lld", rows[i].value, counts, (long long)r.from,
                     (long long)r.to, (long long)r.last);
        }
    }
}

static void check_etags(const char *list, const char *expected)
{
    struct tidings_str s = tidings_str(list), tag;
    char text[200] = "";
    size_t n = 0;
    bool weak = false;
    while (http_next_etag(&s, &tag, &weak)) {
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%.*s;", weak ? "~" : "", STR_ARG(tag));
    }
    if (s.len > 0) {
        snprintf(text + n, sizeof(text) - n, "!");
    }
    assert_string_equal(text, expected);
}

static void entity_tags_are_read_one_by_one(void **state)
{
    (void)state;
    check_etags("\"a\"", "a;");
    check_etags("\"a\", W/\"b\" ,, \"\"", "a;~b;;");
    check_etags("\"a,b\"", "a,b;");
    check_etags(" * ", "*;");
    check_etags("", "");
    check_etags("a", "!");
    check_etags("\"a", "!");
    check_etags("\"a\", w/\"b\"", "a;!");
    check_etags("\"a b\"", "!");
    check_etags("W/", "!");
}

static void etag_is_written_in_its_strong_or_weak_form(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 200);
    http_put_etag(&out, "ETag", STR("abc"));
    http_put_etag(&out, "ETag", STR("W/abc"));
    http_put_etag(&out, "ETag", STR("a\"b"));
    http_put_etag(&out, "ETag", STR("a\r\nb"));
    http_put_etag(&out, "ETag", STR(""));
    assert_string_equal(out.ptr, "ETag: \"abc\"\r\nETag: W/\"abc\"\r\n");
    buf_deinit(&out);
}

static void check_accept(const char *value, size_t max, const char *expected)
{
    struct tidings_str ranges[40];
    char text[400] = "";
    size_t n = 0, count = http_parse_accept(tidings_str(value), ranges, max);
    assert_true(count <= max);
    for (size_t i = 0; i < count; i++) {
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%.*s", i ? " " : "",
                              STR_ARG(ranges[i]));
    }
    assert_string_equal(text, expected);
}

static void best_media_range_comes_first(void **state)
{
    (void)state;
    check_accept("", 8, "");
    check_accept("text/html", 8, "text/html");
    check_accept("text/plain;q=0.5, text/html", 8, "text/html text/plain");
    check_accept("*/*, text/*, text/html", 8, "text/html text/* */*");
    check_accept("a/b;q=0, c/d;Q=0.001, e/f;q=1.000", 8, "e/f c/d");
    check_accept("a/b;q=0.05,c/d;q=0.5", 8, "c/d a/b");
    check_accept("a/b;level=1;q=0.2, c/d;q=nonsense", 8, "c/d a/b");
    check_accept("text, /x, x/, a b/c, ok/ok", 8, "ok/ok");
    check_accept("a/a,b/b,c/c,*/*;q=0.1", 3, "a/a b/b */*");
    check_accept("a/a,b/b,c/c", 2, "a/a b/b");
}

static void media_type_has_two_tokens(void **state)
{
    (void)state;
    char large[300];
    memset(large, 'a', sizeof(large) - 1);
    large[1] = '/';
    large[sizeof(large) - 1] = '\0';
    static const char *const good[] = {"text/plain", "text/plain; charset=utf-8", "a/b ;x",
                                       "image/svg+xml"};
    static const char *const bad[] = {"",      "text",     "text/",         "/x",        "te xt/x",
                                      "a/b/c", "a/b;\x01", "a/b; \xc3\xbc", "a/\xc3\xbc"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(http_is_media_type(tidings_str(good[i])));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(http_is_media_type(tidings_str(bad[i])));
    }
    assert_false(http_is_media_type(tidings_str(large)));
}

static void parameter_is_found_once_and_decoded(void **state)
{
    (void)state;
    static const struct {
        const char *query;
        int code;
        const char *value;
    } rows[] = {
        {"uri=file:///a", 1, "file:///a"},
        {"x=1&uri=a%20b%26c+d&y", 1, "a b&c+d"},
        {"uri=a=b?c", 1, "a=b?c"},
        {"uri=", 1, ""},
        {"uri", 1, ""},
        {"uri=%c3%BC", 1, "\xc3\xbc"},
        {"", 0, ""},
        {"ur=1&uri2=2&%75ri=3", 0, ""},
        {"uri=a&uri=a", TIDINGS_E_INVALID, NULL},
        {"uri=%", TIDINGS_E_INVALID, NULL},
        {"uri=%4", TIDINGS_E_INVALID, NULL},
        {"uri=%4&x=1", TIDINGS_E_INVALID, NULL},
        {"uri=%zz", TIDINGS_E_INVALID, NULL},
        {"uri=12345678901234567890", TIDINGS_E_INVALID, NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf out;
        buf_init(&out, 16);
        assert_int_equal(http_query_get(tidings_str(rows[i].query), "uri", &out), rows[i].code);
        if (rows[i].value) {
            assert_true(str_eq(buf_str(&out), tidings_str(rows[i].value)));
        }
        buf_deinit(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_one_byte_range_is_accepted),
        cmocka_unit_test(entity_tags_are_read_one_by_one),
        cmocka_unit_test(etag_is_written_in_its_strong_or_weak_form),
        cmocka_unit_test(best_media_range_comes_first),
        cmocka_unit_test(media_type_has_two_tokens),
        cmocka_unit_test(parameter_is_found_once_and_decoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
