/* SPDX-License-Identifier: MIT
 *
 * JSON over several lines.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "formats/json_write.h"

static void values_span_several_lines_but_strings_do_not(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } rows[] = {
        {"1", "1"},
        {"{}", "{}"},
        {"[]", "[]"},
        {"{\"a\":1,\"b\":[]}", "{\n  \"a\": 1,\n  \"b\": []\n}"},
        {"[{\"a\":{}},null]", "[\n  {\n    \"a\": {}\n  },\n  null\n]"},
        {"[\"{[,:\\\"]}\",\"\\\\\"]", "[\n  \"{[,:\\\"]}\",\n  \"\\\\\"\n]"},
        {"\"cut \\", "\"cut \\"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf out;
        buf_init(&out, 1024);
        assert_int_equal(json_pretty(&out, tidings_str(rows[i].in)), 0);
        assert_string_equal(out.ptr, rows[i].out);
        buf_deinit(&out);
    }
}

static void output_that_does_not_fit_is_an_error(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 8);
    assert_int_equal(json_pretty(&out, STR("[1,2,3,4,5]")), TIDINGS_E_LIMIT);
    buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_span_several_lines_but_strings_do_not),
        cmocka_unit_test(output_that_does_not_fit_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
