/* SPDX-License-Identifier: MIT
 *
 * notifications/tools/list_changed and the same for prompts and resources: recipients, rate, and
 * clients without a stream.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/delivery/hub.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_tool.h"

#define SAID_TOOLS "notifications/tools/list_changed"
#define SAID_PROMPTS "notifications/prompts/list_changed"

static struct harness b;

static int setup(void **state)
{
    (void)state;
    harness_init(&b);
    b.worker_count = 2;
    harness_start(&b);
    harness_add_tool(&b, &(struct harness_tool){.name = "a", .handler = tool_hello});
    harness_run_until_idle(&b);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_run_until_idle(&b);
    harness_stop(&b);
    return 0;
}

static bool no_timer_runs(void *user)
{
    (void)user;
    static uint64_t until;
    if (until == 0) {
        until = loop_now_ms(b.loop) + 3 * b.options.list_changed_ms;
    }
    bool passed = loop_now_ms(b.loop) >= until;
    until = passed ? 0 : until;
    return passed;
}

/* Lets the period pass in which a second change would wait. */
static void let_the_period_pass(void)
{
    harness_run_until_idle(&b);
    harness_until(&b, no_timer_runs, NULL);
    harness_run_until_idle(&b);
}

static bool has_two(void *client)
{
    return client_count(client, SAID_TOOLS) == 2;
}

static void listen_receives_requested_list_changes(void **state)
{
    (void)state;
    let_the_period_pass();
    struct client *c = client_http(&b), *other = client_http_at(&b, 1), *both = client_pipe(&b);
    client_modern(c, "1", "subscriptions/listen", "\"notifications\":{\"toolsListChanged\":true}");
    client_modern(other, "2", "subscriptions/listen",
                  "\"notifications\":{\"resourcesListChanged\":true,\"promptsListChanged\":true}");
    client_modern(both, "3", "subscriptions/listen",
                  "\"notifications\":{\"resourcesListChanged\":true,\"toolsListChanged\":true}");
    harness_run_until_idle(&b);
    assert_json(client_nth(c, SAID_ACK, 0), "params|notifications|toolsListChanged", "true");
    assert_no_json(client_nth(c, SAID_ACK, 0), "params|notifications|resourcesListChanged");
    /* There are no prompts, so the server offers none. */
    assert_no_json(client_nth(other, SAID_ACK, 0), "params|notifications|promptsListChanged");
    harness_add_tool(&b, &(struct harness_tool){.name = "b", .handler = tool_hello});
    harness_run_until_idle(&b);
    assert_int_equal(client_count(c, SAID_TOOLS), 1);
    assert_json(client_nth(c, SAID_TOOLS, 0), "params|_meta|io.modelcontextprotocol/subscriptionId",
                "1");
    assert_int_equal(client_count(other, SAID_TOOLS), 0);
    assert_int_equal(client_count(both, SAID_TOOLS), 1);
    assert_int_equal(client_count(both, SAID_LIST), 0);
    harness_add(&b, "mem:///r");
    harness_run_until_idle(&b);
    assert_int_equal(client_count(both, SAID_LIST), 1);
    assert_int_equal(client_count(other, SAID_LIST), 1);
    assert_int_equal(client_count(c, SAID_LIST), 0);
    client_free(c);
    client_free(other);
    client_free(both);
}

static void missed_changes_count_as_list_changes(void **state)
{
    (void)state;
    let_the_period_pass();
    struct client *c = client_http(&b), *other = client_http(&b);
    client_modern(c, "1", "subscriptions/listen",
                  "\"notifications\":{\"resourcesListChanged\":true}");
    client_modern(other, "2", "subscriptions/listen",
                  "\"notifications\":{\"toolsListChanged\":true}");
    harness_run_until_idle(&b);
    hub_announce_missed(b.hub, STR("mem:///"));
    harness_run_until_idle(&b);
    assert_int_equal(client_count(c, SAID_LIST), 1);
    assert_int_equal(client_count(other, SAID_LIST), 0);
    client_free(c);
    client_free(other);
}

static void list_changes_are_coalesced_into_two(void **state)
{
    (void)state;
    let_the_period_pass();
    struct client *c = client_http(&b);
    client_modern(c, "1", "subscriptions/listen", "\"notifications\":{\"toolsListChanged\":true}");
    harness_run_until_idle(&b);
    for (int i = 0; i < 100; i++) {
        harness_add_tool(&b, &(struct harness_tool){.name = "b", .handler = tool_hello});
        harness_remove_tool(&b, "b");
    }
    harness_run_until_idle(&b);
    harness_until(&b, has_two, c); /* the first at once, the rest merged */
    let_the_period_pass();
    assert_int_equal(client_count(c, SAID_TOOLS), 2);
    client_free(c);
}

static void session_receives_list_changes_on_its_stream_and_catches_up(void **state)
{
    (void)state;
    let_the_period_pass();
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    harness_run_until_idle(&b);
    harness_add_tool(&b, &(struct harness_tool){.name = "b", .handler = tool_hello});
    let_the_period_pass();
    struct client *stream = session_stream(&s, NULL);
    harness_run_until_idle(&b);
    assert_int_equal(client_count(stream, SAID_TOOLS), 1);
    assert_no_json(client_nth(stream, SAID_TOOLS, 0), "params");
    harness_remove_tool(&b, "b");
    harness_run_until_idle(&b);
    assert_int_equal(client_count(stream, SAID_TOOLS), 2);
    client_free(stream);
    (void)session_delete(&s);
}

static void pipe_receives_list_changes_after_its_handshake(void **state)
{
    (void)state;
    let_the_period_pass();
    struct client *c = client_pipe(&b);
    client_handshake(c, "2025-06-18");
    harness_run_until_idle(&b);
    harness_add_tool(&b, &(struct harness_tool){.name = "b", .handler = tool_hello});
    harness_run_until_idle(&b);
    assert_int_equal(client_count(c, SAID_TOOLS), 1);
    client_free(c);
}

static void client_without_the_capability_receives_no_list_change(void **state)
{
    (void)state;
    harness_remove_tool(&b, "a");
    let_the_period_pass();
    struct client *c = client_pipe(&b);
    client_handshake(c, "2025-06-18"); /* without any tool */
    harness_run_until_idle(&b);
    assert_no_json(c->said[0].text, "result|capabilities|tools");
    harness_add_tool(&b, &(struct harness_tool){.name = "b", .handler = tool_hello});
    harness_run_until_idle(&b);
    assert_int_equal(client_count(c, SAID_TOOLS), 0);
    client_free(c);
}

static void list_changed_is_not_offered_if_disabled(void **state)
{
    (void)state;
    b.self.list_changed = false;
    struct client *c = client_pipe(&b);
    client_handshake(c, "2025-06-18");
    harness_run_until_idle(&b);
    assert_json(c->said[0].text, "result|capabilities|tools", "{}");
    client_free(c);
}

int main(void)
{
#define WITH_BENCH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_BENCH(listen_receives_requested_list_changes),
        WITH_BENCH(missed_changes_count_as_list_changes),
        WITH_BENCH(list_changes_are_coalesced_into_two),
        WITH_BENCH(session_receives_list_changes_on_its_stream_and_catches_up),
        WITH_BENCH(pipe_receives_list_changes_after_its_handshake),
        WITH_BENCH(client_without_the_capability_receives_no_list_change),
        WITH_BENCH(list_changed_is_not_offered_if_disabled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
