/* SPDX-License-Identifier: MIT
 *
 * HTTP dates: three input formats, one output format, and invalid dates. */
#include "formats/http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#define NOW 1785232800 /* 2026-07-28 10:00:00 */

static void dates_are_read_in_three_formats(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t seconds;
    } rows[] = {
        {"Sun, 06 Nov 1994 08:49:37 GMT", 784111777},
        {"Sunday, 06-Nov-94 08:49:37 GMT", 784111777},
        {"Sun Nov  6 08:49:37 1994", 784111777},
        {"Wed Nov 16 08:49:37 1994", 784975777},
        {"Thu, 01 Jan 1970 00:00:00 GMT", 0},
        {"Wed, 31 Dec 1969 23:59:59 GMT", -1},
        {"Thu, 29 Feb 2024 12:00:00 GMT", 1709208000},
        {"Tue, 29 Feb 2000 12:00:00 GMT", 951825600},
        {"Sat, 31 Dec 2016 23:59:60 GMT", 1483228800}, /* a leap second */
        {"Fri, 31 Dec 9999 23:59:59 GMT", 253402300799},
        {"Sat, 01 Jan 0000 00:00:00 GMT", -62167219200},
        {"Tue, 29 Feb 0000 00:00:01 GMT", -62162121599},
        {"Wed, 01 Mar 0000 00:00:00 GMT", -62162035200},
        /* Two digits: at most 50 years ahead. */
        {"Tuesday, 28-Jul-76 10:00:00 GMT", 3363156000},
        {"Thursday, 28-Jul-77 10:00:00 GMT", 238932000},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t got = 77;
        if (!http_parse_date(tidings_str(rows[i].text), NOW, &got) || got != rows[i].seconds) {
            fail_msg("'%s' is %lld instead of %lld", rows[i].text, (long long)got,
                     (long long)rows[i].seconds);
        }
    }
}

static void invalid_dates_are_ignored(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",
        "0",
        "now",
        "Sun",
        "Sun, ",
        "sun, 06 Nov 1994 08:49:37 GMT",
        "Mon, 06 Nov 1994 08:49:37 GMT", /* it was a Sunday */
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun,  06 Nov 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 +0000",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        "Sun, 06 Nov 1994 08:49:37 GMTx",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:00 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 06 Nov 1994 8:49:37 GMT",
        "Fri, 00 Nov 1994 08:49:37 GMT",
        "Thu, 31 Nov 1994 08:49:37 GMT",
        "Thu, 29 Feb 2023 12:00:00 GMT",
        "Thu, 29 Feb 1900 12:00:00 GMT",
        "Sun, 06 Now 1994 08:49:37 GMT",
        "Sunday, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06-Nov-94 08:49:37 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sunday Nov  6 08:49:37 1994",
        "Sun Nov 6 08:49:37 1994",
        "Sun Nov  6 08:49:37 94",
        "Sun Nov 06 08:49:37 1994 GMT",
        "1994-11-06T08:49:37Z",
        "Sun, -6 Nov 1994 08:49:37 GMT",
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t got = 77;
        if (http_parse_date(tidings_str(rows[i]), NOW, &got)) {
            fail_msg("'%s' is taken for %lld", rows[i], (long long)got);
        }
        assert_int_equal(got, 77);
    }
    int64_t got = 77;
    assert_false(http_parse_date(tidings_strn("Sun, 06 Nov 1994 08:49:37 GMT\0", 30), NOW, &got));
}

/* Every day of 800 years, by the C library's calendar. */
static void dates_match_the_c_library(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 64);
    for (int64_t day = -135140; day < 160000; day++) {
        int64_t got = 0, at = day * 86400 + (day & 0xffff);
        time_t t = (time_t)at;
        char text[40];
        struct tm tm;
        assert_non_null(gmtime_r(&t, &tm));
        assert_int_equal(strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &tm),
                         HTTP_DATE_LEN);
        buf_clear(&out);
        http_put_date(&out, at);
        assert_string_equal(out.ptr, text);
        assert_true(http_parse_date(buf_str(&out), NOW, &got));
        assert_true(got == at);
    }
    static const int64_t far[] = {INT64_MIN, INT64_MAX};
    for (size_t i = 0; i < 2; i++) {
        buf_clear(&out);
        http_put_date(&out, far[i]);
        assert_int_equal(out.len, HTTP_DATE_LEN);
    }
    buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dates_are_read_in_three_formats),
        cmocka_unit_test(invalid_dates_are_ignored),
        cmocka_unit_test(dates_match_the_c_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
