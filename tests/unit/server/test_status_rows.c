/* SPDX-License-Identifier: MIT
 *
 * The start of a page in the server's own state.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "server/self.h"

static void row_contains_peer_and_optional_location(void **state)
{
    (void)state;
    struct status_after after;
    assert_true(status_after_parse(STR("4294967297"), &after));
    assert_int_equal(after.peer, 4294967297u);
    assert_true(after.index == UINT64_MAX); /* the whole row was parsed */
    assert_true(status_after_parse(STR("4294967297.0"), &after));
    assert_int_equal(after.index, 0);
    assert_true(status_after_parse(STR("18446744073709551615.18446744073709551615"), &after));
    assert_true(after.peer == UINT64_MAX && after.index == UINT64_MAX);
}

static void malformed_row_is_rejected(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",   ".",  "1.",  ".1",    "-1",
                                        "1x", " 1", "1.x", "1.1.1", "18446744073709551616"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct status_after after = {7, 7};
        assert_false(status_after_parse(tidings_str(wrong[i]), &after));
        assert_true(after.peer == 7 && after.index == 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_contains_peer_and_optional_location),
        cmocka_unit_test(malformed_row_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
