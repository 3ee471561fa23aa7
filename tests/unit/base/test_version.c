/* SPDX-License-Identifier: MIT */
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "base/time.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void expect(const char *a, const char *b, enum version_order expected)
{
    enum version_order back =
        expected == VERSION_UNKNOWN ? expected : (enum version_order) - expected;
    if (version_compare(tidings_str(a), tidings_str(b)) != expected ||
        version_compare(tidings_str(b), tidings_str(a)) != back) {
        fail_msg("'%s' and '%s': %d and %d, not %d", a, b,
                 version_compare(tidings_str(a), tidings_str(b)),
                 version_compare(tidings_str(b), tidings_str(a)), expected);
    }
}

static void versions_are_ordered_as_commonly_written(void **state)
{
    (void)state;
    /* Each is newer than all versions before it in its row. */
    static const char *const rows[][16] = {
        {"0", "v1", "2", "9", "V10", "11.0.1", "99999999999999999999999999"},
        {"0.9.9", "1.0.0", "1.9", "1.10", "v1.10.1", "2024.01.15", "2024.2.1"},
        /* semver.org, 11.4 */
        {"1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2",
         "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0"},
        {"2.1-rc9", "2.1-rc10", "2.1", "v3-rc1", "v3"},
        {"0001-01-01", "1969-12-30", "1969-12-31T23:59:59.5Z", "1970-01-01", "2024-02-29",
         "2024-06-01T10:00:00.000000001Z", "2024-06-01T10:00:00.1Z", "2024-06-01T11:00:00+00:30",
         "2024-06-01 10:30:00.5", "2024-06-01T10:31", "2024-06-02"},
    };
    for (size_t r = 0; r < COUNT(rows); r++) {
        for (size_t i = 0; i < COUNT(rows[r]) && rows[r][i]; i++) {
            expect(rows[r][i], rows[r][i], VERSION_SAME);
            for (size_t k = 0; k < i; k++) {
                expect(rows[r][i], rows[r][k], VERSION_NEWER);
            }
        }
    }
}

static void spellings_of_one_version_are_equal(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"v3", "3"},
        {"2.1", "2.1.0.0"},
        {"007", "7"},
        {"1.0-rc1", "v1.0.0-rc01"},
        {"1.0+a.1", "1.0.0+a.1"},
        {"2024-06-01T10:00:00Z", "2024-06-01T12:00:00.000+02:00"},
        {"2024-06-01T10:00:00", "2024-06-01 10:00Z"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        expect(rows[i][0], rows[i][1], VERSION_SAME);
    }
}

static void versions_without_an_order_are_not_compared(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"", ""},
        {"", "1"},
        {"alpha", "beta"},
        {"alpha", "alpha"},
        {"9f86d081884c7d65", "60303ae22b998861"},
        {"12345678-e29b-41d4-a716-446655440000", "87654321-e29b-41d4-a716-446655440000"},
        {"1", "2024-01-01"},
        {"1.0+a", "1.0+b"},
        {"1.0", "1.0+b"},
        {"2024-06-01", "2024-06-01T10:00:00Z"},
        {"2023-02-29", "2024-02-29"},
        {"2024-06-01T24:00:00Z", "2024-06-01T10:00:00Z"},
        {"2024-06-01T10:00:60Z", "2024-06-01T10:00:00Z"},
        {"-1", "1"},
        {"+1", "1"},
        {" 1", "1"},
        {"1 ", "1"},
        {"1.", "1"},
        {".1", "1"},
        {"1..2", "1"},
        {"1.0-", "1.0"},
        {"1.0+", "1.0"},
        {"1.0-r\xc3\xa9", "1.0"},
        {"v", "v1"},
        {"vv1", "v1"},
        {"1e5", "1"},
        {"0x10", "1"},
        {"90835e86ace29e0d.15", "90835e86ace29e0d.16"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        expect(rows[i][0], rows[i][1], VERSION_UNKNOWN);
    }
    char longest[VERSION_MAX + 2];
    memset(longest, '1', sizeof(longest));
    struct tidings_str fits = tidings_strn(longest, VERSION_MAX);
    struct tidings_str beyond = tidings_strn(longest, VERSION_MAX + 1);
    assert_int_equal(version_compare(fits, STR("5")), VERSION_NEWER);
    assert_int_equal(version_compare(beyond, STR("5")), VERSION_UNKNOWN);
    assert_int_equal(version_compare(tidings_strn("1\0", 2), STR("1")), VERSION_UNKNOWN);
}

static void arbitrary_strings_have_an_order_for_lists(void **state)
{
    (void)state;
    static const char *const rising[] = {"",    "0.9", "01", "1",  "1.0", "1.0-beta", "1.9", "1.10",
                                         "1.a", "1a",  "2",  "10", "a",   "a2",       "a10", "b"};
    for (size_t i = 0; i < COUNT(rising); i++) {
        for (size_t k = 0; k < COUNT(rising); k++) {
            int order = version_sort(tidings_str(rising[i]), tidings_str(rising[k]));
            if ((order > 0) - (order < 0) != (i > k) - (i < k)) {
                fail_msg("'%s' and '%s': %d", rising[i], rising[k], order);
            }
        }
    }
}

static void instant_records_its_spelling(void **state)
{
    (void)state;
    struct instant i;
    assert_true(instant_parse(STR("1970-01-02"), &i));
    assert_true(i.second == 86400 && !i.has_time && !i.has_seconds && !i.has_offset);
    assert_true(instant_parse(STR("1970-01-01 00:01"), &i));
    assert_true(i.second == 60 && i.has_time && i.has_space && !i.has_seconds && !i.has_offset);
    assert_true(instant_parse(STR("1970-01-01t00:00:00.25z"), &i));
    assert_true(i.second == 0 && i.nanosecond == 250000000 && i.has_seconds && i.has_offset);
    static const char *const bad[] = {
        "",
        "1970",
        "1970-1-1",
        "1970-01-01T",
        "1970-01-01T00",
        "1970-01-01T00:00:",
        "1970-01-01T00:00:00.",
        "1970-01-01T00:00:00.1234567890",
        "1970-01-01T00:00:00+",
        "1970-01-01T00:00:00+0100",
        "1970-01-01T00:00:00+24:00",
        "1970-01-01T00:00:00ZZ",
        "1970-00-01",
        "1970-04-31",
        "1900-02-29",
    };
    for (size_t k = 0; k < COUNT(bad); k++) {
        assert_false(instant_parse(tidings_str(bad[k]), &i));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_are_ordered_as_commonly_written),
        cmocka_unit_test(spellings_of_one_version_are_equal),
        cmocka_unit_test(versions_without_an_order_are_not_compared),
        cmocka_unit_test(arbitrary_strings_have_an_order_for_lists),
        cmocka_unit_test(instant_records_its_spelling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
