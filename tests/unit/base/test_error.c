/* SPDX-License-Identifier: MIT
 *
 * Errors: codes, wrapping, and the cut when the message is full. */
#include "base/error.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"

static void code_names_follow_the_table(void **state)
{
    (void)state;
    static const struct {
        int code;
        const char *name, *text;
        int exit, http;
    } rows[] = {
        {TIDINGS_OK, "TIDINGS_OK", "success", 0, 200},
        {TIDINGS_E_INVALID, "TIDINGS_E_INVALID", "invalid argument", 64, 400},
        {TIDINGS_E_NOTFOUND, "TIDINGS_E_NOTFOUND", "not found", 66, 404},
        {TIDINGS_E_INTERNAL, "TIDINGS_E_INTERNAL", "internal error", 70, 500},
        {-999, "not a TIDINGS_E_ code", "unknown error", 70, 500},
        {17, "not a TIDINGS_E_ code", "unknown error", 0, 200},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_string_equal(tidings_code_name(rows[i].code), rows[i].name);
        assert_string_equal(tidings_code_text(rows[i].code), rows[i].text);
        assert_int_equal(tidings_code_exit(rows[i].code), rows[i].exit);
        assert_int_equal(error_http_status(rows[i].code), rows[i].http);
    }
}

static void fail_sets_code_and_message(void **state)
{
    (void)state;
    struct tidings_error err = {0};
    assert_int_equal(tidings_fail(&err, TIDINGS_E_DENIED, "read '%s'", "a"), TIDINGS_E_DENIED);
    assert_int_equal(err.code, TIDINGS_E_DENIED);
    assert_string_equal(err.text, "read 'a'");
    assert_int_equal(tidings_fail(NULL, TIDINGS_E_IO, "x"), TIDINGS_E_IO);
}

static void fail_may_quote_the_error_it_replaces(void **state)
{
    (void)state;
    struct tidings_error err = {.text = "inner"};
    (void)tidings_fail(&err, TIDINGS_E_IO, "outer (%s)", err.text);
    assert_string_equal(err.text, "outer (inner)");
}

static void fail_cuts_between_characters(void **state)
{
    (void)state;
    struct tidings_error err = {0};
    char text[400];
    /* Two-byte characters at odd positions: byte 251 would be the first half of one. */
    for (size_t i = 0; i + 1 < sizeof text; i += 2) {
        memcpy(text + i, "\xC3\xA9", 2);
    }
    text[sizeof text - 2] = '\0';
    (void)tidings_fail(&err, TIDINGS_E_IO, "%s", text);
    assert_int_equal(strlen(err.text), 250);
    assert_true(str_is_utf8(tidings_str(err.text)));
}

static void wrap_puts_context_in_front(void **state)
{
    (void)state;
    struct tidings_error err = {0};
    (void)tidings_fail(&err, TIDINGS_E_NOTFOUND, "open '%s': no such directory", "/srv/n");
    int rc = error_wrap(&err, TIDINGS_E_INVALID, "provider '%s'", "notes");
    assert_int_equal(rc, TIDINGS_E_INVALID);
    assert_int_equal(err.code, TIDINGS_E_INVALID);
    assert_string_equal(err.text, "provider 'notes': open '/srv/n': no such directory");
    assert_int_equal(error_wrap(NULL, TIDINGS_E_IO, "x"), TIDINGS_E_IO);
}

static void wrap_without_cause_is_the_message(void **state)
{
    (void)state;
    struct tidings_error err = {0};
    (void)error_wrap(&err, TIDINGS_E_IO, "context");
    assert_string_equal(err.text, "context");
}

static void wrap_keeps_cause_when_context_does_not_fit(void **state)
{
    (void)state;
    static const struct {
        int context, cause;
        bool fits;
    } rows[] = {
        {100, 149, true}, /* 100 + 2 + 149 = 251 bytes and a NUL */
        {100, 150, false},
        {300, 5, false},
        {1, 251, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tidings_error err = {0};
        (void)tidings_fail(&err, TIDINGS_E_IO, "%0*d", rows[i].cause, 1);
        struct tidings_error before = err;
        (void)error_wrap(&err, TIDINGS_E_LIMIT, "%0*d", rows[i].context, 2);
        assert_int_equal(err.code, TIDINGS_E_LIMIT);
        if (rows[i].fits) {
            assert_int_equal(strlen(err.text), rows[i].context + 2 + rows[i].cause);
            assert_string_equal(err.text + rows[i].context + 2, before.text);
        } else {
            assert_string_equal(err.text, before.text);
        }
    }
}

static void errno_gives_code_and_reason(void **state)
{
    (void)state;
    static const struct {
        int errnum, code;
    } rows[] = {
        {ENOENT, TIDINGS_E_NOTFOUND},    {EACCES, TIDINGS_E_DENIED}, {ENOMEM, TIDINGS_E_NOMEM},
        {EMFILE, TIDINGS_E_BUSY},        {ENOSPC, TIDINGS_E_FULL},   {EAGAIN, TIDINGS_E_BUSY},
        {ETIMEDOUT, TIDINGS_E_TIMEOUT},  {EPIPE, TIDINGS_E_CLOSED},  {EEXIST, TIDINGS_E_EXISTS},
        {ENOSYS, TIDINGS_E_UNSUPPORTED}, {EIO, TIDINGS_E_IO},        {123456, TIDINGS_E_IO},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tidings_error err = {0};
        assert_int_equal(error_errno(&err, rows[i].errnum, "open '%s'", "f"), rows[i].code);
        assert_int_equal(err.code, rows[i].code);
        assert_int_equal(error_code_from_errno(rows[i].errnum), rows[i].code);
        assert_true(str_starts(tidings_str(err.text), STR("open 'f': ")));
        assert_true(strlen(err.text) > strlen("open 'f': "));
    }
    assert_int_equal(error_errno(NULL, ENOENT, "x"), TIDINGS_E_NOTFOUND);
}

static void errno_reason_stays_when_the_rest_is_cut(void **state)
{
    (void)state;
    struct tidings_error err = {0};
    (void)error_errno(&err, ENOENT, "%0*d", 400, 1);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_true(str_ends(tidings_str(err.text), STR(": No such file or directory")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_names_follow_the_table),
        cmocka_unit_test(fail_sets_code_and_message),
        cmocka_unit_test(fail_may_quote_the_error_it_replaces),
        cmocka_unit_test(fail_cuts_between_characters),
        cmocka_unit_test(wrap_puts_context_in_front),
        cmocka_unit_test(wrap_without_cause_is_the_message),
        cmocka_unit_test(wrap_keeps_cause_when_context_does_not_fit),
        cmocka_unit_test(errno_gives_code_and_reason),
        cmocka_unit_test(errno_reason_stays_when_the_rest_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
