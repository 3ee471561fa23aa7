/* SPDX-License-Identifier: MIT
 *
 * The resume position of a client, and the changes it received before.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "client/subscriptions.h"

static int set_up(void **state)
{
    static struct resume r;
    resume_init(&r);
    *state = &r;
    return 0;
}

static int tear_down(void **state)
{
    resume_deinit(*state);
    return 0;
}

static bool is_new(struct resume *r, uint64_t watch, const char *uri, const char *version)
{
    return resume_is_new(r, watch, tidings_str(uri), tidings_str(version), true);
}

static bool is_new_plain(struct resume *r, const char *version)
{
    return resume_is_new(r, 1, STR("x://a"), tidings_str(version), false);
}

static void version_is_reported_once_and_in_order(void **state)
{
    struct resume *r = *state;
    assert_true(is_new(r, 1, "x://a", "e1.9"));
    assert_false(is_new(r, 1, "x://a", "e1.9"));
    assert_true(is_new(r, 1, "x://a", "e1.10"));
    assert_false(is_new(r, 1, "x://a", "e1.9"));
    assert_true(is_new(r, 1, "x://b", "e1.9"));
    assert_true(is_new(r, 2, "x://a", "e1.9")); /* another watch, another handler */
}

static void new_epoch_resets_versions(void **state)
{
    struct resume *r = *state;
    assert_true(is_new(r, 1, "x://a", "e1.9"));
    assert_true(is_new(r, 1, "x://a", "e2.1"));
    assert_false(is_new(r, 1, "x://a", "e2.1"));
    assert_true(is_new(r, 1, "x://a", "e.2")); /* a prefix of the word does not count */
}

static void incomparable_version_counts_as_new(void **state)
{
    static const char *const texts[] = {
        "", "1.2.3", "v7", ".5", "e1.", "e1.5x", "-3", "e1.99999999999999999999", "a.b",
    };
    static const char *const plain[] = {
        "", ".5", "e1.", "-3", "a.b", "9f86d081884c7d65", "550e8400-e29b-41d4-a716-446655440000",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_true(is_new(*state, 1, "x://a", texts[i]));
        assert_true(is_new(*state, 1, "x://a", texts[i]));
    }
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        assert_true(is_new_plain(*state, plain[i]));
        assert_true(is_new_plain(*state, plain[i]));
    }
    char text[300];
    memset(text, '7', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_true(is_new_plain(*state, text));
    assert_true(is_new_plain(*state, text));
    assert_true(is_new(*state, 1, "x://a", "e1.5"));
    assert_true(is_new_plain(*state, "4")); /* another kind of version than the last one */
}

/* base/text.h; the test only needs the older one to be ignored. */
static void foreign_versions_compare_in_common_formats(void **state)
{
    static const char *const rows[][2] = {
        {"2.1.0", "2.0.9"},
        {"v3", "v2"},
        {"2.10", "2.9"},
        {"1.0.0", "1.0.0-rc.1"},
        {"2024-06-01", "2024-05-31"},
        {"2024-06-01T10:00:00Z", "2024-06-01T11:59:00+02:00"},
        {"10", "9"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        resume_interrupted(*state);
        assert_true(is_new_plain(*state, rows[i][1]));
        assert_true(is_new_plain(*state, rows[i][0]));
        assert_false(is_new_plain(*state, rows[i][0]));
        assert_false(is_new_plain(*state, rows[i][1]));
    }
}

static void plain_versions_count_until_the_connection_is_lost(void **state)
{
    struct resume *r = *state;
    assert_true(is_new_plain(r, "7"));
    assert_false(is_new_plain(r, "7"));
    assert_false(is_new_plain(r, "6"));
    resume_interrupted(r);
    assert_true(is_new_plain(r, "1")); /* the server may have restarted */
    assert_true(is_new(r, 1, "x://b", "e.7"));
    resume_interrupted(r);
    assert_false(is_new(r, 1, "x://b", "e.7"));
}

static void table_evicts_least_recently_reported(void **state)
{
    struct resume *r = *state;
    char uri[32];
    for (unsigned i = 0; i <= RESUME_MAX_SEEN; i++) {
        snprintf(uri, sizeof(uri), "x://%u", i);
        assert_true(is_new(r, 1, uri, "e.5"));
        if (i == 1) {
            assert_true(is_new(r, 1, "x://0", "e.6")); /* reported again: x://1 is older now */
        }
    }
    assert_int_equal(r->seen.count, RESUME_MAX_SEEN);
    assert_false(is_new(r, 1, "x://0", "e.6"));
    assert_true(is_new(r, 1, "x://1", "e.5"));
}

static void put(const char *options, const char *since, const char *expected)
{
    struct buf out;
    buf_init(&out, 4096);
    resume_put_options(options, since, false, &out);
    assert_int_equal(out.len, strlen(expected));
    assert_memory_equal(out.len > 0 ? buf_str(&out).ptr : "", expected, out.len);
    buf_deinit(&out);
}

static void options_contain_resume_position(void **state)
{
    (void)state;
    put(NULL, "", "");
    put(NULL, "e.5.2", "{\"since\":\"e.5.2\"}");
    put("{\"since\":\"u.1\"}", "", "{\"since\":\"u.1\"}");
    put("{\"windowMs\":0,\"since\":\"u.1\",\"initial\":true}", "e.5.2",
        "{\"windowMs\":0,\"since\":\"e.5.2\"}");
    put("{\"baseline\":\"t\"}", "e.5.2", "{\"baseline\":\"t\"}");
}

static void options_request_bookmarks(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        {NULL, "", "{\"bookmarks\":true}"},
        {NULL, "e.5", "{\"since\":\"e.5\",\"bookmarks\":true}"},
        {"{\"since\":\"u.1\",\"initial\":true}", "",
         "{\"since\":\"u.1\",\"initial\":true,\"bookmarks\":true}"},
        {"{\"bookmarks\":false}", "", "{\"bookmarks\":true}"},
        {"{\"baseline\":\"t\"}", "e.5", "{\"baseline\":\"t\",\"bookmarks\":true}"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf out;
        buf_init(&out, 4096);
        resume_put_options(rows[i][0], rows[i][1], true, &out);
        assert_int_equal(out.len, strlen(rows[i][2]));
        assert_memory_equal(buf_str(&out).ptr, rows[i][2], out.len);
        buf_deinit(&out);
    }
}

static void cursor_is_the_last_received(void **state)
{
    struct resume *r = *state;
    char text[RESUME_MAX_CURSOR + 1];
    memset(text, 'a', sizeof(text));
    resume_take(r, STR("e.5"));
    resume_take(r, STR("e.4")); /* another stream, which still exists */
    assert_string_equal(r->cursor, "e.4");
    resume_take(r, STR_EMPTY);
    resume_take(r, tidings_strn(text, RESUME_MAX_CURSOR));
    resume_take(r, tidings_strn("a\0b", 3));
    assert_string_equal(r->cursor, "e.4");
    resume_take(r, tidings_strn(text, RESUME_MAX_CURSOR - 1));
    assert_int_equal(strlen(r->cursor), RESUME_MAX_CURSOR - 1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(version_is_reported_once_and_in_order),
        CASE(new_epoch_resets_versions),
        CASE(incomparable_version_counts_as_new),
        CASE(foreign_versions_compare_in_common_formats),
        CASE(plain_versions_count_until_the_connection_is_lost),
        CASE(table_evicts_least_recently_reported),
        CASE(options_contain_resume_position),
        CASE(options_request_bookmarks),
        CASE(cursor_is_the_last_received),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
