/* SPDX-License-Identifier: MIT
 *
 * Log lines: form, levels, escaping, the default sink.
 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/str.h"

static char last[LOG_MAX_LINE + 1];
static enum tidings_log_level last_level;
static int lines;

static void keep(void *user, enum tidings_log_level level, struct tidings_str line)
{
    assert_ptr_equal(user, &lines);
    memcpy(last, line.ptr, line.len);
    last[line.len] = '\0';
    last_level = level;
    lines++;
    log_error("from a sink", "k=%d", 1); /* must neither lock up nor recurse */
    errno = EPROTO;
}

static int setup(void **state)
{
    static const struct clock_fake fake = {.wall_ms = 1785232800000};
    (void)state;
    clock_set_fake(&fake);
    log_set_sink(keep, &lines);
    log_set_level(TIDINGS_LOG_DEBUG);
    lines = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    clock_set_fake(NULL);
    log_set_sink(NULL, NULL);
    log_set_level(TIDINGS_LOG_OFF);
    return 0;
}

static void nothing_is_logged_unasked(void **state)
{
    (void)state;
    assert_int_equal(log_get_level(), TIDINGS_LOG_OFF);
    log_set_sink(keep, &lines);
    log_error("event", "k=%d", 1);
    log_set_sink(NULL, NULL);
    assert_int_equal(lines, 0);
}

static void a_line_has_time_level_event_and_pairs(void **state)
{
    (void)state;
    errno = ENOENT;
    log_info("listening", "url=%s", "http://127.0.0.1:7777/mcp");
    assert_int_equal(errno, ENOENT);
    assert_string_equal(last, "2026-07-28T10:00:00.000Z info listening "
                              "url=http://127.0.0.1:7777/mcp");
    assert_int_equal(last_level, TIDINGS_LOG_INFO);
    log_write(TIDINGS_LOG_WARNING, "stopping", NULL);
    assert_string_equal(last, "2026-07-28T10:00:00.000Z warn stopping");
    assert_int_equal(lines, 2);
}

static void levels_below_the_set_one_are_left_out(void **state)
{
    (void)state;
    static const enum tidings_log_level sets[] = {TIDINGS_LOG_OFF, TIDINGS_LOG_ERROR,
                                                  TIDINGS_LOG_WARNING, TIDINGS_LOG_INFO,
                                                  TIDINGS_LOG_DEBUG};
    for (int set = 0; set < 5; set++) {
        log_set_level(sets[set]);
        lines = 0;
        log_error("e", "k=%d", 1);
        log_warn("e", "k=%d", 1);
        log_info("e", "k=%d", 1);
        log_debug("e", "k=%d", 1);
        log_write(TIDINGS_LOG_OFF, "e", NULL);
        assert_int_equal(lines, set);
    }
}

static void strangers_cannot_forge_lines(void **state)
{
    (void)state;
    static const struct {
        const char *value, *shown;
    } rows[] = {
        {"a\nb", "a\\x0ab"},
        {"\x1b[31m", "\\x1b[31m"},
        {"\x7f\t", "\\x7f\\x09"},
        {"caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80", "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"},
        {"\xC2\x9B", "\\xc2\\x9b"}, /* CSI as one character */
        {"\xC2\xA0", "\xC2\xA0"},
        {"\xE2\x80\xAE", "\\xe2\\x80\\xae"}, /* right to left from here */
        {"\xE2\x81\xA7", "\\xe2\\x81\\xa7"},
        {"\xE2\x80\xA8", "\\xe2\\x80\\xa8"}, /* a line separator */
        {"\xE2\x80\xA7", "\xE2\x80\xA7"},
        {"\xFF\xC3", "\\xff\\xc3"},
        {"\xED\xA0\x80", "\\xed\\xa0\\x80"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        log_info("e", "v=%s", rows[i].value);
        assert_string_equal(last + strlen("2026-07-28T10:00:00.000Z info e v="), rows[i].shown);
    }
}

static void long_lines_are_cut_between_characters(void **state)
{
    (void)state;
    static char value[10000];
    for (size_t shift = 0; shift < 4; shift++) {
        memset(value, 'x', sizeof value - 1);
        for (size_t i = shift; i + 4 < sizeof value; i += 4) {
            memcpy(value + i, "\xF0\x9F\x98\x80", 4);
        }
        log_info("e", "v=%s", value);
        assert_in_range(strlen(last), LOG_MAX_LINE - 40, LOG_MAX_LINE);
        log_info("e", "v=%.*s", 3000, value);
        assert_true(str_is_utf8(tidings_str(last)));
    }
    memset(value, '\n', sizeof value - 1);
    log_info("e", "v=%s", value);
    assert_in_range(strlen(last), LOG_MAX_LINE - 3, LOG_MAX_LINE);
}

static void standard_error_gets_whole_lines(void **state)
{
    (void)state;
    int ends[2];
    char got[200] = {0};
    log_set_sink(NULL, NULL);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    int saved = dup(STDERR_FILENO);
    assert_true(saved >= 0 && dup2(ends[1], STDERR_FILENO) >= 0);
    log_error("gone", "why=%s", "x");
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    close(ends[1]);
    ssize_t n = read(ends[0], got, sizeof got - 1);
    close(ends[0]);
    assert_true(n > 0);
    assert_string_equal(got, "2026-07-28T10:00:00.000Z error gone why=x\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_logged_unasked),
        cmocka_unit_test_setup_teardown(a_line_has_time_level_event_and_pairs, setup, teardown),
        cmocka_unit_test_setup_teardown(levels_below_the_set_one_are_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(strangers_cannot_forge_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(long_lines_are_cut_between_characters, setup, teardown),
        cmocka_unit_test_setup_teardown(standard_error_gets_whole_lines, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
