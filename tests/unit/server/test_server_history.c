/* SPDX-License-Identifier: MIT
 *
 * The samples of the last 15 minutes: their format, and eviction of the oldest.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "server/stats.h"

static size_t count_of(const char *text, const char *word)
{
    size_t count = 0;
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word)) {
        count++;
    }
    return count;
}

static void check_text(struct server_history *h, const char *expected)
{
    struct buf text;
    buf_init(&text, 1u << 20);
    server_history_write(h, &text);
    buf_putc(&text, '\0');
    assert_string_equal(text.ptr, expected);
    buf_deinit(&text);
}

static void history_sample_matches_status(void **state)
{
    (void)state;
    struct server_history *h = server_history_create();
    const struct history_sample quiet = {.at_ms = 1000, .streams = 2, .memory_bytes = 4096};
    const struct history_sample busy = {.at_ms = 6000,
                                        .changes = 7,
                                        .deliveries = 8,
                                        .requests = 9,
                                        .oldest_us = 1500,
                                        .p99_us = 250,
                                        .has_written = true};
    server_history_add(h, &quiet);
    server_history_add(h, &busy);
    check_text(h, "{\"everyMs\":5000,\"samples\":["
                  "{\"nowMs\":1000,\"changes\":0,\"deliveries\":0,\"requests\":0,\"streams\":2,"
                  "\"memoryBytes\":4096,\"lagMs\":{\"now\":0.000,\"p99\":null}},"
                  "{\"nowMs\":6000,\"changes\":7,\"deliveries\":8,\"requests\":9,\"streams\":0,"
                  "\"memoryBytes\":0,\"lagMs\":{\"now\":1.500,\"p99\":0.250}}]}");
    server_history_destroy(h);
    check_text(NULL, "{\"everyMs\":5000,\"samples\":[]}");
}

static void history_evicts_oldest_samples(void **state)
{
    (void)state;
    struct server_history *h = server_history_create();
    for (unsigned i = 0; i < HISTORY_SAMPLES + 20; i++) {
        server_history_add(h, &(struct history_sample){.at_ms = 100000 + i});
    }
    struct buf text;
    buf_init(&text, 1u << 20);
    server_history_write(h, &text);
    buf_putc(&text, '\0');
    assert_int_equal(count_of(text.ptr, "\"nowMs\""), HISTORY_SAMPLES);
    assert_non_null(strstr(text.ptr, "[{\"nowMs\":100020,"));
    assert_non_null(strstr(text.ptr, "\"nowMs\":100199,"));
    buf_deinit(&text);
    server_history_destroy(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(history_sample_matches_status),
        cmocka_unit_test(history_evicts_oldest_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
