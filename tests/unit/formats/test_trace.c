/* SPDX-License-Identifier: MIT
 *
 * traceparent and tracestate: valid values, and ignored ones. */
#include "formats/http_fields.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"

#define ID "0af7651916cd43dd8448eb211c80319c"
#define SPAN "b7ad6b7169203331"
#define PARENT "00-" ID "-" SPAN "-01"

static void valid_parent_gives_trace_and_span(void **state)
{
    (void)state;
    struct trace t;
    assert_true(trace_read(STR(PARENT), STR("congo=t61,rojo@a=1"), &t));
    assert_true(trace_is_there(&t));
    assert_string_equal(t.parent, PARENT);
    assert_string_equal(t.state, "congo=t61,rojo@a=1");
    assert_true(str_eq(trace_id(&t), STR(ID)));
    assert_true(str_eq(trace_span_id(&t), STR(SPAN)));
}

static void invalid_parent_is_ignored(void **state)
{
    static const char *const rows[] = {
        "",
        "00",
        "00-" ID "-" SPAN,
        "00-" ID "-" SPAN "-0",
        "00-" ID "-" SPAN "-0g",
        "00-" ID "-" SPAN "-01-",
        "00-" ID "-" SPAN "-01-more",
        "00-" ID "-" SPAN "-01 ",
        " 00-" ID "-" SPAN "-01",
        "ff-" ID "-" SPAN "-01",
        "0F-" ID "-" SPAN "-01",
        "00-0AF7651916CD43DD8448EB211C80319C-" SPAN "-01",
        "00-00000000000000000000000000000000-" SPAN "-01",
        "00-" ID "-0000000000000000-01",
        "00_" ID "-" SPAN "-01",
        "00-" ID "_" SPAN "-01",
        "cc-" ID "-" SPAN "-01.what",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct trace t;
        assert_false(trace_read(tidings_str(rows[i]), STR("a=b"), &t));
        assert_false(trace_is_there(&t));
        assert_string_equal(t.state, "");
    }
}

static void later_version_is_forwarded_as_the_known_one(void **state)
{
    (void)state;
    struct trace t;
    assert_true(trace_read(STR("cc-" ID "-" SPAN "-01-what-the-future-holds"), STR_EMPTY, &t));
    assert_string_equal(t.parent, PARENT);
    assert_true(trace_read(STR("01-" ID "-" SPAN "-01"), STR_EMPTY, &t));
    assert_string_equal(t.parent, PARENT);
}

static void invalid_state_does_not_affect_its_parent(void **state)
{
    char longer[TRACE_STATE_MAX + 2] = "a=";
    memset(longer + 2, 'x', 255);
    memset(longer + 257, ',', TRACE_STATE_MAX + 1 - 257);
    longer[TRACE_STATE_MAX + 1] = '\0';
    const char *rows[] = {"", "a", "a=", "=b", "A=b", "a=b=c", "a=\x01", "a=\xC3\xA4", ",", longer};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct trace t;
        assert_true(trace_read(STR(PARENT), tidings_str(rows[i]), &t));
        assert_string_equal(t.state, "");
    }
    struct trace t;
    longer[TRACE_STATE_MAX] = '\0';
    assert_true(trace_read(STR(PARENT), tidings_str(longer), &t));
    assert_string_equal(t.state, longer);
    char many[33 * 4 + 1] = "";
    for (size_t i = 0; i < 33; i++) {
        memcpy(many + 4 * i, "a=b,", 5);
    }
    assert_true(trace_read(STR(PARENT), tidings_str(many), &t));
    assert_string_equal(t.state, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_parent_gives_trace_and_span),
        cmocka_unit_test(invalid_parent_is_ignored),
        cmocka_unit_test(later_version_is_forwarded_as_the_known_one),
        cmocka_unit_test(invalid_state_does_not_affect_its_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
