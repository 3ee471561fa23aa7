/* SPDX-License-Identifier: MIT
 *
 * The options of a server as `--help` prints them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "server/config.h"
#include "server/config_internal.h"

static void help_lists_every_option_by_topic_within_width(void **state)
{
    (void)state;
    static const struct {
        size_t asked, most;
    } widths[] = {{0, 80}, {60, 60}, {10, 50}, {1000, 100}};
    for (size_t w = 0; w < sizeof(widths) / sizeof(widths[0]); w++) {
        struct buf b;
        buf_init(&b, 1u << 20);
        assert_int_equal(config_help(&b, widths[w].asked), 0);
        buf_putc(&b, '\0');
        for (size_t i = 0; i < config_row_count; i++) {
            char flag[CONFIG_NAME_MAX + 8];
            snprintf(flag, sizeof(flag), "\n  --%s", config_rows[i].name);
            bool is_on = strcmp(config_rows[i].value, "true") == 0;
            if (!is_on && !strstr(b.ptr, flag)) {
                fail_msg("not in the help: %s", flag + 1);
            }
        }
        for (const char *line = b.ptr, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
            if ((size_t)(end - line) > widths[w].most) {
                fail_msg("longer than %zu: %.*s", widths[w].most, (int)(end - line), line);
            }
        }
        buf_deinit(&b);
    }
    /* Every title precedes an existing row, in row order, and the first precedes all rows.
     */
    size_t row = 0;
    assert_string_equal(config_topics[0].first, config_rows[0].name);
    for (const struct config_topic *t = config_topics; t->first; t++) {
        while (row < config_row_count && strcmp(config_rows[row].name, t->first) != 0) {
            row++;
        }
        if (row == config_row_count) {
            fail_msg("'%s': no row '%s' behind the one before", t->title, t->first);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_lists_every_option_by_topic_within_width),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
