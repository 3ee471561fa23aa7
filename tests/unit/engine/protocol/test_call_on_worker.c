/* SPDX-License-Identifier: MIT
 *
 * Internal handlers that finish on another thread and return their result on the worker's thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_tool.h"

static struct harness b;
static struct tidings_call *held;

static int setup(void **state)
{
    (void)state;
    harness_init(&b);
    harness_start(&b);
    held = NULL;
    harness_add_tool(&b,
                     &(struct harness_tool){.name = "hold", .handler = tool_hold, .user = &held});
    harness_run_until_idle(&b);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_stop_handled(&b);
    return 0;
}

struct given {
    pthread_t thread;
    unsigned calls;
    int code;
};

static int give_on_worker(void *user, struct tidings_call *h, struct tidings_error *err)
{
    struct given *given = user;
    struct buf json;
    given->thread = pthread_self();
    given->calls++;
    buf_init(&json, 64);
    buf_puts(&json, STR("{\"n\":1}"));
    int rc = given->code < 0 ? tidings_fail(err, given->code, "it went wrong on the worker")
                             : call_take_structured(h, &json, err);
    buf_deinit(&json);
    return rc;
}

static struct given on_worker;

static void *finish_on_worker(void *h)
{
    call_done_on_worker(h, give_on_worker, &on_worker);
    return NULL;
}

static void hold_and_finish_on_worker(struct client *c)
{
    pthread_t thread;
    client_call(c, "1", "hold", NULL, NULL);
    assert_non_null(held);
    assert_int_equal(pthread_create(&thread, NULL, finish_on_worker, held), 0);
    pthread_join(thread, NULL);
}

static void worker_callback_runs_on_the_worker_thread(void **state)
{
    (void)state;
    struct client *c = client_http(&b);
    on_worker = (struct given){.code = 0};
    hold_and_finish_on_worker(c);
    assert_int_equal(on_worker.calls, 0);
    harness_until(&b, client_has_answer, c);
    assert_int_equal(on_worker.calls, 1);
    assert_true(pthread_equal(on_worker.thread, pthread_self()));
    assert_json(client_answer(c)->text, "result|structuredContent|n", "1");
    assert_json(client_answer(c)->text, "result|content|0|text", "{\"n\":1}");
    client_free(c);
}

static void worker_callback_failure_is_an_error_result(void **state)
{
    (void)state;
    struct client *c = client_http(&b);
    on_worker = (struct given){.code = TIDINGS_E_IO};
    hold_and_finish_on_worker(c);
    harness_until(&b, client_has_answer, c);
    assert_json(client_answer(c)->text, "result|isError", "true");
    assert_json(client_answer(c)->text, "result|content|0|text", "it went wrong on the worker");
    client_free(c);
}

static bool was_called(void *user)
{
    return ((struct given *)user)->calls > 0;
}

static void worker_callback_runs_without_a_waiting_client(void **state)
{
    (void)state;
    struct client *c = client_http(&b);
    on_worker = (struct given){.code = 0};
    hold_and_finish_on_worker(c);
    client_free(c);
    harness_until(&b, was_called, &on_worker);
    assert_int_equal(on_worker.calls, 1);
}

#define WITH_BENCH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_BENCH(worker_callback_runs_on_the_worker_thread),
        WITH_BENCH(worker_callback_failure_is_an_error_result),
        WITH_BENCH(worker_callback_runs_without_a_waiting_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
