/* SPDX-License-Identifier: MIT
 *
 * Conditions of HTTP requests: field precedence, and dates with a precision of one second. */
#include "formats/http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#define NOW_MS 1000000000500 /* Sun, 09 Sep 2001 01:46:40.500 */
#define EARLIER "Sun, 09 Sep 2001 01:46:38 GMT"
#define THEN "Sun, 09 Sep 2001 01:46:39 GMT"
#define AHEAD "Sun, 09 Sep 2001 01:46:41 GMT"
#define THEN_MS 999999999700

static enum http_condition check(const char *method, const char *fields, const char *etag,
                                 int64_t modified_ms)
{
    static struct http_request req;
    struct http_fault fault;
    struct http_conditions c;
    char head[1024];
    size_t scanned = 0;
    int len = snprintf(head, sizeof(head), "%s / HTTP/1.1\r\nHost: x\r\n%s\r\n", method, fields);
    assert_true(http_parse_head(head, (size_t)len, &scanned, &req, &fault) > 0);
    http_conditions_read(&c, &req, NOW_MS);
    return http_conditions_decide(&c, tidings_str(etag), modified_ms);
}

static void conditions_have_the_specified_precedence(void **state)
{
    (void)state;
    static const struct {
        const char *fields;
        enum http_condition get, put;
    } rows[] = {
        {"", HTTP_CONDITION_HOLDS, HTTP_CONDITION_HOLDS},
        {"If-Modified-Since: " THEN "\r\n", HTTP_CONDITION_UNCHANGED, HTTP_CONDITION_HOLDS},
        {"If-Modified-Since: " EARLIER "\r\n", HTTP_CONDITION_HOLDS, HTTP_CONDITION_HOLDS},
        {"If-Unmodified-Since: " THEN "\r\n", HTTP_CONDITION_HOLDS, HTTP_CONDITION_HOLDS},
        {"If-Unmodified-Since: " EARLIER "\r\n", HTTP_CONDITION_FAILED, HTTP_CONDITION_FAILED},
        /* An etag has precedence over a date. */
        {"If-Match: \"x\"\r\nIf-Unmodified-Since: " EARLIER "\r\n", HTTP_CONDITION_HOLDS,
         HTTP_CONDITION_HOLDS},
        {"If-Match: \"y\"\r\nIf-Unmodified-Since: " THEN "\r\n", HTTP_CONDITION_FAILED,
         HTTP_CONDITION_FAILED},
        {"If-None-Match: \"y\"\r\nIf-Modified-Since: " THEN "\r\n", HTTP_CONDITION_HOLDS,
         HTTP_CONDITION_HOLDS},
        /* A failed condition has precedence over unchanged content. */
        {"If-Match: \"y\"\r\nIf-Modified-Since: " THEN "\r\n", HTTP_CONDITION_FAILED,
         HTTP_CONDITION_FAILED},
        {"If-Match: \"y\", \"x\"\r\nIf-Modified-Since: " THEN "\r\n", HTTP_CONDITION_UNCHANGED,
         HTTP_CONDITION_HOLDS},
        {"If-Match: *\r\n", HTTP_CONDITION_HOLDS, HTTP_CONDITION_HOLDS},
        {"If-Match: W/\"x\"\r\n", HTTP_CONDITION_FAILED, HTTP_CONDITION_FAILED},
        /* No date, two dates, or a date in the future. */
        {"If-Modified-Since: yesterday\r\n", HTTP_CONDITION_HOLDS, HTTP_CONDITION_HOLDS},
        {"If-Unmodified-Since: yesterday\r\n", HTTP_CONDITION_HOLDS, HTTP_CONDITION_HOLDS},
        {"If-Modified-Since: " THEN "\r\nIf-Modified-Since: " THEN "\r\n", HTTP_CONDITION_HOLDS,
         HTTP_CONDITION_HOLDS},
        {"If-Modified-Since: " AHEAD "\r\n", HTTP_CONDITION_HOLDS, HTTP_CONDITION_HOLDS},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (check("GET", rows[i].fields, "x", THEN_MS) != rows[i].get ||
            check("HEAD", rows[i].fields, "x", THEN_MS) != rows[i].get ||
            check("PUT", rows[i].fields, "x", THEN_MS) != rows[i].put) {
            fail_msg("row %zu: %s", i, rows[i].fields);
        }
    }
    const char *since = "If-Modified-Since: " THEN "\r\n";
    assert_int_equal(check("GET", since, "W/x", THEN_MS), HTTP_CONDITION_HOLDS);
    assert_int_equal(check("GET", since, "", THEN_MS), HTTP_CONDITION_UNCHANGED);
    assert_int_equal(check("GET", since, "x", 0), HTTP_CONDITION_HOLDS);
    assert_int_equal(check("PUT", "If-Unmodified-Since: " EARLIER "\r\n", "x", 0),
                     HTTP_CONDITION_HOLDS);
}

/* A client with the announced date must never get "not modified" after a change. */
static void second_change_within_a_second_is_detected(void **state)
{
    (void)state;
    for (int64_t now = NOW_MS; now < NOW_MS + 3000; now += 100) {
        for (int64_t first = now - 2500; first <= now; first += 100) {
            struct http_conditions held = {.has_modified_since = true,
                                           .modified_since = http_last_modified(first, now)};
            assert_true(held.modified_since <= first / 1000);
            for (int64_t second = now; second < now + 1500; second += 100) {
                assert_int_equal(http_conditions_decide(&held, tidings_str("y"), second),
                                 HTTP_CONDITION_HOLDS);
            }
        }
    }
    assert_true(http_last_modified(NOW_MS + 60000, NOW_MS) < NOW_MS / 1000); /* a fast clock */
    assert_int_equal(http_last_modified(1000, NOW_MS), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conditions_have_the_specified_precedence),
        cmocka_unit_test(second_change_within_a_second_is_detected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
