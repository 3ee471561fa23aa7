/* SPDX-License-Identifier: MIT
 *
 * A session that moves without memory: with any failed allocation each request is answered, nothing
 * leaks, and the session is at one node or can be moved to a node.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/str.h"
#include "support/fail_alloc.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"
#include "support/nodes.h"

#define A 0u
#define B 1u
#define LIVES 3000

static struct nodes all;
static struct harness_session s;

/* Refused or not, the request is answered. */
static void ask(const char *method, const char *params)
{
    struct client *c = session_request(&s, "5", method, params);
    nodes_run_until_idle(&all);
    assert_int_equal(client_count_kind(c, SAID_ANSWER), 1);
    client_free(c);
}

static void live(void)
{
    ask("resources/subscribe", "\"uri\":\"kept://x/a\",\"_meta\":{\"dev.tidings/options\":"
                               "{\"filter\":{\"type\":\"object\"},\"include\":\"metadata\"}}");
    ask("resources/subscribe", "\"uri\":\"mem://x/a\"");
    (void)nodes_bring(&all, B, &s);
    ask("resources/subscribe", "\"uri\":\"kept://x/b\"");
    struct session_wait wait;
    int code = 0;
    nodes_bring_stream(&all, B, &s, "1.1.ea.1.1", &wait, &code);
    nodes_run_until_idle(&all);
    if (code == SESSION_AWAITED) { /* a session that left is not claimed at once */
        session_await_cancel(&wait);
    }
    struct client *c = session_stream(&s, NULL);
    nodes_run_until_idle(&all);
    client_free(c);
    nodes_tick(&all, B);
}

/* A session whose options could not be stored does not move and stays valid. */
static bool answers_at(size_t node)
{
    int code = nodes_bring(&all, node, &s);
    struct client *c = session_request(&s, "1", "ping", NULL);
    bool is_there = code == 0 && client_answer(c)->status == 200;
    client_free(c);
    return is_there;
}

static void session_is_on_one_node_after_any_failed_allocation(void **state)
{
    (void)state;
    bool is_reached = true;
    long n = 0;
    while (is_reached) {
        fail_alloc_start(0);
        long before = fail_alloc_live();
        nodes_init(&all);
        nodes_start(&all);
        nodes_session(&all, A, &s);
        fail_alloc_start(++n);
        live();
        is_reached = fail_alloc_stop();
        fail_alloc_start(0);
        nodes_forget_losses(&all);
        assert_true(answers_at(A) || answers_at(B));
        nodes_stop(&all);
        assert_int_equal(fail_alloc_live(), before);
        assert_true(n < LIVES);
    }
    assert_true(n > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(session_is_on_one_node_after_any_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
