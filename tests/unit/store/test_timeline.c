/* SPDX-License-Identifier: MIT
 *
 * Valid time: the spellings of each instant, versions that always rise strictly, and one version
 * for each instant. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "store/store.h"

static void spellings_of_an_instant_are_equal(void **state)
{
    (void)state;
    static const struct {
        const char *text, *canonical;
    } rows[] = {
        {"2024-01-01T10:00:00Z", "2024-01-01T10:00:00.000Z"},
        {"2024-01-01t10:00:00.5z", "2024-01-01T10:00:00.500Z"},
        {"2024-01-01T10:00:00.123000Z", "2024-01-01T10:00:00.123Z"},
        {"2024-01-01T00:30:00+02:00", "2023-12-31T22:30:00.000Z"},
        {"2023-12-31T22:30:00-01:30", "2024-01-01T00:00:00.000Z"},
        {"1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"},
        {"2000-02-29T00:00:00Z", "2000-02-29T00:00:00.000Z"},
        {"0000-01-01T00:00:00Z", "0000-01-01T00:00:00.000Z"},
        {"9998-12-31T23:59:59.999Z", "9998-12-31T23:59:59.999Z"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tidings_error err = {0};
        int64_t ms = 0;
        char text[TIMELINE_TEXT];
        if (timeline_parse(tidings_str(rows[i].text), &ms, &err) < 0) {
            fail_msg("%s: %s", rows[i].text, err.text);
        }
        assert_string_equal(timeline_text(ms, text).ptr, rows[i].canonical);
    }
    char text[TIMELINE_TEXT];
    assert_string_equal(timeline_text(TIMELINE_FOREVER, text).ptr, "9999-01-01T00:00:00.000Z");
}

static void invalid_instants_are_rejected(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",
        "2024",
        "2024-01-01",
        "2024-01-01T10:00:00",
        "2024-01-01 10:00:00Z",
        "2024-13-01T10:00:00Z",
        "2024-00-01T10:00:00Z",
        "2023-02-29T10:00:00Z",
        "2100-02-29T00:00:00Z",
        "2024-01-01T24:00:00Z",
        "2024-01-01T10:60:00Z",
        "2024-01-01T10:00:60Z",
        "2024-01-01T10:00:00.Z",
        "2024-01-01T10:00:00.0001Z",
        "2024-01-01T10:00:00.0000000000Z",
        "2024-01-01T10:00:00+24:00",
        "2024-01-01T10:00:00+2:00",
        "2024-01-01T10:00:00Zx",
        "9999-01-01T00:00:00Z",
        "0000-01-01T00:00:00+01:00",
        "+024-01-01T10:00:00Z",
        "2024-01-01T10:00:00%2B00:00",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct tidings_error err = {0};
        int64_t ms = 42;
        if (timeline_parse(tidings_str(rows[i]), &ms, &err) != TIDINGS_E_INVALID) {
            fail_msg("'%s' was taken as %lld", rows[i], (long long)ms);
        }
        assert_int_equal(ms, 42);
    }
}

static void every_day_of_eight_centuries_reads_back(void **state)
{
    (void)state;
    for (int64_t day = -150000; day < 150000; day++) {
        char text[TIMELINE_TEXT];
        int64_t ms = day * 86400000 + 1, back = 0;
        assert_int_equal(timeline_parse(timeline_text(ms, text), &back, NULL), 0);
        assert_true(back == ms);
    }
}

static void versions_rise_by_at_least_a_millisecond(void **state)
{
    (void)state;
    int64_t next = 0;
    assert_int_equal(timeline_next(TIMELINE_NEVER, 5, &next, NULL), 0);
    assert_int_equal(next, 5);
    assert_int_equal(timeline_next(5, 9, &next, NULL), 0);
    assert_int_equal(next, 9);
    assert_int_equal(timeline_next(9, 9, &next, NULL), 0);
    assert_int_equal(next, 10);
    assert_int_equal(timeline_next(10, 3, &next, NULL), 0);
    assert_int_equal(next, 11);
    assert_int_equal(timeline_next(TIMELINE_FOREVER - 1, 3, &next, NULL), TIDINGS_E_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spellings_of_an_instant_are_equal),
        cmocka_unit_test(invalid_instants_are_rejected),
        cmocka_unit_test(every_day_of_eight_centuries_reads_back),
        cmocka_unit_test(versions_rise_by_at_least_a_millisecond),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
