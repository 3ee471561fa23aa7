/* SPDX-License-Identifier: MIT
 *
 * Calls that become tasks while their store is slow, hangs, or does not know its result. Waiting
 * clients are answered, and no unknown task remains.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/protocol/call.h"
#include "engine/protocol/feature.h"
#include "engine/protocol/tasks.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_tool.h"

static struct harness b;
static struct tidings_call *held;

static void hold(void *user, struct tidings_call *h)
{
    (void)user;
    held = h;
}

static size_t kept(void)
{
    return limit_in_use(b.worker[0]->limit_counters, LIMIT_TASKS);
}

/* A request of the modern era that becomes a task. */
static struct client *begin(const char *tool)
{
    struct client *c = client_http(&b);
    const struct dialect_headers headers = {
        .protocol_version = STR("2026-07-28"),
        .method = STR("tools/call"),
        .name = tidings_str(tool),
    };
    client_is(c, PRINCIPAL_TOKEN, "alice", "", 0);
    client_say(c, &headers,
               text_of("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{"
                       "\"name\":\"%s\",\"_meta\":{"
                       "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                       "\"io.modelcontextprotocol/clientCapabilities\":{\"extensions\":{"
                       "\"io.modelcontextprotocol/tasks\":{}}}}}}",
                       tool));
    return c;
}

static struct {
    struct task_store base;
    uint64_t ttl_ms; /* members of the last row */
    void (*done)(void *user, int code);
    void *user;
    unsigned puts, sweeps;
} store;

static void store_put(struct task_store *base, const struct task_row *row,
                      void (*done)(void *user, int code), void *user)
{
    (void)base;
    store.ttl_ms = row->ttl_ms;
    store.done = done;
    store.user = user;
    store.puts++;
}

static void store_sweep(struct task_store *base, int64_t now_ms)
{
    (void)base;
    (void)now_ms;
    store.sweeps++;
}

static int setup(void **state)
{
    (void)state;
    held = NULL;
    harness_init(&b);
    harness_start(&b);
    harness_add_tool(
        &b, &(struct harness_tool){.name = "hold", .handler = hold, .task = TIDINGS_TASK_OPTIONAL});
    harness_add_tool(&b, &(struct harness_tool){.name = "hello",
                                                .handler = tool_hello,
                                                .task = TIDINGS_TASK_OPTIONAL});
    harness_run_until_idle(&b);
    memset(&store, 0, sizeof(store));
    store.base = (struct task_store){.put = store_put, .sweep = store_sweep};
    tasks_set_store(b.worker[0]->handlers->tasks, &store.base);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_run_until_idle(&b);
    tasks_set_store(b.worker[0]->handlers->tasks, NULL);
    assert_int_equal(limit_in_use(b.worker[0]->limit_counters, LIMIT_CALLS), 0);
    harness_stop_handled(&b);
    return 0;
}

static void client_that_leaves_before_the_task_is_stored_leaves_no_row(void **state)
{
    (void)state;
    client_free(begin("hello"));
    assert_int_equal(store.puts, 1);
    assert_true(store.ttl_ms > 0);
    store.done(store.user, 0);
    harness_run_until_idle(&b);
    assert_int_equal(kept(), 0);
    assert_int_equal(store.puts, 2); /* a row that is over */
    assert_int_equal(store.ttl_ms, 0);
    assert_int_equal(store.sweeps, 1);
}

/* The result of the store is unknown: the task is removed. */
static void task_with_unknown_store_result_is_removed(void **state)
{
    (void)state;
    struct client *c = begin("hello");
    store.done(store.user, TIDINGS_E_UNKNOWN);
    harness_until(&b, client_has_answer, c);
    assert_non_null(strstr(client_answer(c)->text, "the task cannot be kept"));
    assert_int_equal(store.puts, 2);
    assert_int_equal(store.ttl_ms, 0);
    client_free(c);
}

/* The store answers when no client waits: nothing remains of the task. */
static void hung_store_does_not_hang_clients_that_start_tasks(void **state)
{
    (void)state;
    b.limits.call_timeout_ms = 5;
    struct client *c = begin("hold");
    harness_until(&b, client_has_answer, c);
    const char *said = client_answer(c)->text;
    assert_json(said, "error|code", "-32603");
    assert_non_null(strstr(said, "the store does not answer; try again later"));
    assert_int_equal(kept(), 1); /* it counts while the store may keep it */
    store.done(store.user, 0);
    harness_run_until_idle(&b);
    assert_null(held);
    assert_int_equal(kept(), 0);
    assert_int_equal(store.ttl_ms, 0); /* the row is removed too */
    assert_int_equal(store.sweeps, 1);
    client_free(c);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(client_that_leaves_before_the_task_is_stored_leaves_no_row),
        TEST(task_with_unknown_store_result_is_removed),
        TEST(hung_store_does_not_hang_clients_that_start_tasks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
