/* SPDX-License-Identifier: MIT
 *
 * Hidden data never shows in a client's output: random scenarios
 * in two worlds that differ only in hidden data (support/twins.h), by number, so that each can be
 * run again:
 *
 *     TIDINGS_SEED=17 build/dev/tests/unit_server_differential
 *     TIDINGS_SEED=1-3000 build/dev/tests/unit_server_differential
 *
 * 40 of them, and a thousand with TIDINGS_LONG; fuzz/fuzz_differential.c runs further ones.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/config.h"
#include "support/twin_call.h"
#include "support/twin_request.h"
#include "support/twin_step.h"
#include "support/twin_wire.h"
#include "support/twin_world.h"
#include "support/twins.h"

#define STEPS 40u
#define FEW_STEPS 8u

static void check_seed(uint64_t seed)
{
    static uint8_t bytes[TWINS_PLAN_BYTES + STEPS * TWINS_STEP_BYTES];
    struct buf report;
    buf_init(&report, 1u << 24);
    twins_make(seed, STEPS, bytes);
    if (!twins_run(bytes, sizeof(bytes), &report)) {
        (void)twins_shrink(bytes, sizeof(bytes), &report);
        buf_putc(&report, '\0');
        fprintf(stderr, "TIDINGS_SEED=%llu\n%s", (unsigned long long)seed, report.ptr);
        fail();
    }
    buf_deinit(&report);
}

static void masked_differences_are_ignored(void **state)
{
    (void)state;
    const char *one = getenv("TIDINGS_SEED");
    char *end = NULL;
    uint64_t first = one ? strtoull(one, &end, 10) : 1;
    uint64_t last = !one          ? (getenv("TIDINGS_LONG") ? 1000 : 40)
                    : *end == '-' ? strtoull(end + 1, NULL, 10)
                                  : first;
    for (uint64_t seed = first; seed <= last; seed++) {
        check_seed(seed);
    }
}

/* A planted leak is found, and it takes few steps to reproduce. */
static void difference_is_found_and_minimized(void **state)
{
    (void)state;
    uint8_t bytes[TWINS_PLAN_BYTES + FEW_STEPS * TWINS_STEP_BYTES];
    struct buf report;
    bool same = true;
    size_t left = 0;
    buf_init(&report, 1u << 24);
    twins_plant(true);
    for (uint64_t seed = 1; seed <= 20 && same; seed++) {
        twins_make(seed, FEW_STEPS, bytes);
        same = twins_run(bytes, sizeof(bytes), &report);
        left = same ? 0 : twins_shrink(bytes, sizeof(bytes), &report);
    }
    twins_plant(false);
    buf_putc(&report, '\0');
    assert_false(same);
    assert_in_range(left, TWINS_PLAN_BYTES, sizeof(bytes) - 1);
    assert_non_null(strstr(report.ptr, "differs on the connection of "));
    buf_deinit(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(difference_is_found_and_minimized),
        cmocka_unit_test(masked_differences_are_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
