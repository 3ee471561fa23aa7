/* SPDX-License-Identifier: MIT
 *
 * Handler output is booked at once: the budget for answers holds while many handlers run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_tool.h"

static struct harness b;
static struct tidings_call *held;

/* Each of them is running and has produced output of this size. */
#define GIVEN (1u << 20)

static void handler_output_is_booked_before_the_call_finishes(void **state)
{
    (void)state;
    enum { CALLS = 40 };
    struct tidings_call *calls[CALLS];
    struct client *clients[CALLS];
    char *text = malloc(GIVEN + 1);
    memset(text, 'x', GIVEN);
    text[GIVEN] = '\0';
    harness_init(&b);
    b.limits.max_calls = CALLS * 8;
    b.limits.max_read_bytes = GIVEN;
    harness_start(&b);
    harness_add_tool(&b,
                     &(struct harness_tool){.name = "hold", .handler = tool_hold, .user = &held});
    harness_run_until_idle(&b);
    struct limit_counters *counters = b.worker[0]->limit_counters;
    counters->values[LIMIT_OUTPUT] = 8 * GIVEN;
    unsigned given = 0;
    for (unsigned i = 0; i < CALLS; i++) {
        struct tidings_error err = {0};
        clients[i] = client_http(&b);
        client_call(clients[i], "1", "hold", NULL, NULL);
        calls[i] = held;
        int rc = tidings_call_text(held, tidings_str(text), &err);
        assert_true(rc == 0 || err.code == TIDINGS_E_BUSY);
        given += rc == 0;
        assert_true(counters->in_use[LIMIT_OUTPUT] >= given * GIVEN);
        assert_true(counters->in_use[LIMIT_OUTPUT] <= 8 * GIVEN);
    }
    assert_in_range(given, 2, 7);
    for (unsigned i = CALLS; i-- > 0;) {      /* first the calls that found no room */
        tidings_call_done(calls[i], 0, NULL); /* whatever result it got */
        harness_until(&b, client_has_answer, clients[i]);
        const char *answer = client_answer(clients[i])->text;
        if (i < given) {
            assert_non_null(strstr(answer, text));
        } else {
            assert_json(answer, "error|data|limit", "max-output");
            assert_int_equal(client_answer(clients[i])->status, 503);
        }
        client_free(clients[i]);
    }
    assert_int_equal(counters->in_use[LIMIT_OUTPUT], 0);
    free(text);
    harness_stop_handled(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handler_output_is_booked_before_the_call_finishes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
