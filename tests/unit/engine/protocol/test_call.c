/* SPDX-License-Identifier: MIT
 *
 * Slow handlers: they answer later and from other threads, are notified when no client waits, have
 * a deadline and report progress. The number of concurrent calls is limited.
 */
#include <semaphore.h>
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

#define SAID_PROGRESS "notifications/progress"
#define LEVEL "\"io.modelcontextprotocol/logLevel\":"

static struct harness b;
static struct tidings_call *held;

static int setup(void **state)
{
    (void)state;
    harness_init(&b);
    b.limits.max_calls = 2;
    harness_start(&b);
    held = NULL;
    harness_add_tool(&b,
                     &(struct harness_tool){.name = "hold", .handler = tool_hold, .user = &held});
    harness_add_tool(&b, &(struct harness_tool){.name = "hello", .handler = tool_hello});
    harness_add_tool(&b,
                     &(struct harness_tool){
                         .name = "brief", .handler = tool_hold, .user = &held, .timeout_ms = 5});
    harness_run_until_idle(&b);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_stop_handled(&b);
    return 0;
}

static void finish(struct tidings_call *h, const char *text)
{
    struct tidings_error err;
    tidings_call_done(h, tidings_call_text(h, tidings_str(text), &err), &err);
}

static void *finish_elsewhere(void *h)
{
    finish(h, "from another thread");
    return NULL;
}

/* ---- later ----------------------------------------------------------------------------------- */

static void answer_can_arrive_later_from_another_thread(void **state)
{
    (void)state;
    struct client *c = client_http(&b);
    client_call(c, "1", "hold", NULL, NULL);
    assert_non_null(held);
    assert_int_equal(c->count, 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, finish_elsewhere, held), 0);
    harness_until(&b, client_has_answer, c);
    pthread_join(thread, NULL);
    assert_json(client_answer(c)->text, "result|content|0|text", "from another thread");
    client_free(c);
}

static void handler_receives_the_trace_of_its_call(void **state)
{
    (void)state;
    static const char parent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    static const struct {
        const char *meta, *parent, *state;
    } rows[] = {
        {"\"traceparent\":\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\","
         "\"tracestate\":\"a=b\"",
         parent, "a=b"},
        {"\"traceparent\":\"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\"", parent, ""},
        {"\"traceparent\":\"00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\","
         "\"tracestate\":\"a=b\"",
         "", ""},
        {"\"traceparent\":17", "", ""},
        {NULL, "", ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct client *c = client_http(&b);
        client_call(c, "1", "hold", NULL, rows[i].meta);
        assert_true(str_eq(tidings_call_traceparent(held), tidings_str(rows[i].parent)));
        assert_true(str_eq(tidings_call_tracestate(held), tidings_str(rows[i].state)));
        finish(held, "done");
        harness_until(&b, client_has_answer, c);
        client_free(c);
    }
}

static void blocking_handler_runs_on_another_thread(void **state)
{
    (void)state;
    harness_add_tool(
        &b, &(struct harness_tool){.name = "slow", .handler = tool_hello, .is_blocking = true});
    harness_run_until_idle(&b);
    struct client *c = client_http(&b);
    client_call(c, "1", "slow", NULL, NULL);
    assert_int_equal(c->count, 0);
    harness_until(&b, client_has_answer, c);
    assert_json(client_answer(c)->text, "result|content|0|text", "hello");
    client_free(c);
}

static sem_t gate;
static unsigned waiting, ran; /* atomic */

static void wait_at_gate(void *user, struct tidings_call *h)
{
    __atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
    while (sem_wait(&gate) < 0) {
    }
    tool_hello(user, h);
}

static void note_that_it_ran(void *user, struct tidings_call *h)
{
    __atomic_add_fetch(&ran, 1, __ATOMIC_SEQ_CST);
    tool_hello(user, h);
}

static bool all_threads_wait(void *user)
{
    (void)user;
    return __atomic_load_n(&waiting, __ATOMIC_SEQ_CST) == 4;
}

static bool nothing_is_under_way(void *user)
{
    (void)user;
    return list_empty(&b.worker[0]->handlers->calls);
}

static void call_cancelled_before_a_thread_is_free_does_not_run(void **state)
{
    (void)state;
    b.limits.max_calls = 16;
    waiting = ran = 0;
    assert_int_equal(sem_init(&gate, 0, 0), 0);
    struct harness_tool tool = {.name = "gate", .handler = wait_at_gate, .is_blocking = true};
    harness_add_tool(&b, &tool);
    tool.name = "ran";
    tool.handler = note_that_it_ran;
    harness_add_tool(&b, &tool);
    harness_run_until_idle(&b);
    struct client *c[5];
    for (size_t i = 0; i < 5; i++) {
        c[i] = client_http(&b);
        client_call(c[i], "1", i < 4 ? "gate" : "ran", NULL, NULL);
    }
    harness_until(&b, all_threads_wait, NULL);
    client_vanish(c[4]);
    for (size_t i = 0; i < 4; i++) {
        sem_post(&gate);
    }
    harness_until(&b, nothing_is_under_way, NULL);
    assert_int_equal(ran, 0);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(c[i]->count, i < 4);
        client_free(c[i]);
    }
    sem_destroy(&gate);
}

static void removed_tool_finishes_its_calls(void **state)
{
    (void)state;
    struct client *c = client_http(&b);
    client_call(c, "1", "hold", NULL, NULL);
    harness_remove_tool(&b, "hold");
    harness_run_until_idle(&b);
    finish(held, "still");
    assert_json(client_answer(c)->text, "result|content|0|text", "still");
    client_free(c);
}

static void calls_over_the_limit_are_refused_with_its_name(void **state)
{
    (void)state;
    struct client *c[3];
    struct tidings_call *calls[2];
    for (size_t i = 0; i < 3; i++) {
        c[i] = client_http(&b);
        client_call(c[i], "1", "hold", NULL, NULL);
        if (i < 2) {
            calls[i] = held;
        }
    }
    assert_json(client_answer(c[2])->text, "error|code", "-32603");
    assert_non_null(strstr(client_answer(c[2])->text, "--max-calls"));
    finish(calls[0], "x");
    client_free(c[2]);
    c[2] = client_http(&b);
    client_call(c[2], "1", "hello", NULL, NULL);
    assert_json(client_answer(c[2])->text, "result|content|0|text", "hello");
    finish(calls[1], "y");
    for (size_t i = 0; i < 3; i++) {
        client_free(c[i]);
    }
}

/* ---- deadlines ------------------------------------------------------------------------------- */

static void timed_out_call_is_answered_and_its_handler_cancelled(void **state)
{
    (void)state;
    struct client *c = client_http(&b);
    client_call(c, "1", "brief", NULL, NULL);
    assert_false(tidings_call_cancelled(held));
    harness_until(&b, client_has_answer, c);
    assert_json(client_answer(c)->text, "result|isError", "true");
    assert_json(client_answer(c)->text, "result|content|0|text",
                "the tool 'brief' did not finish within 5 ms (its own limit)");
    assert_true(tidings_call_cancelled(held));
    finish(held, "too late"); /* accepted and discarded */
    harness_run_until_idle(&b);
    assert_int_equal(c->count, 1);
    client_free(c);
}

static void server_deadline_applies_to_tools_without_their_own(void **state)
{
    (void)state;
    b.limits.call_timeout_ms = 7;
    struct client *c = client_http(&b);
    client_call(c, "1", "hold", NULL, NULL);
    harness_until(&b, client_has_answer, c);
    assert_json(client_answer(c)->text, "result|content|0|text",
                "the tool 'hold' did not finish within 7 ms (--call-timeout)");
    finish(held, "too late");
    client_free(c);
}

/* ---- cancellation ---------------------------------------------------------------------------- */

static unsigned told;

static void count(void *user, struct tidings_call *h)
{
    (void)user;
    assert_true(tidings_call_cancelled(h));
    told++;
}

static void count_and_finish(void *user, struct tidings_call *h)
{
    count(user, h);
    finish(h, "cancelled");
}

static void modern_client_cancels_by_disconnecting(void **state)
{
    (void)state;
    struct client *c = client_http(&b);
    client_call(c, "1", "hold", NULL, NULL);
    told = 0;
    tidings_call_on_cancel(held, count, NULL);
    client_vanish(c);
    assert_int_equal(told, 1);
    assert_true(tidings_call_cancelled(held));
    finish(held, "nobody hears this");
    client_free(c);
}

static void handler_can_finish_inside_the_callback(void **state)
{
    (void)state;
    struct client *c = client_pipe(&b);
    client_call(c, "1", "hold", NULL, NULL);
    told = 0;
    tidings_call_on_cancel(held, count_and_finish, NULL);
    client_notify(c, NULL, "notifications/cancelled", "\"requestId\":1");
    assert_int_equal(told, 1);
    harness_run_until_idle(&b);
    assert_int_equal(client_count_kind(c, SAID_ANSWER), 0); /* no message after cancelling */
    client_free(c);
}

static void late_listener_is_notified_at_once(void **state)
{
    (void)state;
    struct client *c = client_http(&b);
    client_call(c, "1", "hold", NULL, NULL);
    client_vanish(c);
    told = 0;
    tidings_call_on_cancel(held, count, NULL);
    assert_int_equal(told, 1);
    finish(held, "x");
    client_free(c);
}

static void legacy_client_that_disconnects_does_not_cancel(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    struct client *c = session_request(&s, "7", "tools/call", "\"name\":\"hold\"");
    client_vanish(c);
    assert_false(tidings_call_cancelled(held));
    /* Another connection can still cancel. */
    struct client *other = client_http(&b);
    client_notify(other, s.id, "notifications/cancelled", "\"requestId\":7");
    assert_true(tidings_call_cancelled(held));
    finish(held, "x");
    client_free(c);
    client_free(other);
    c = session_request(&s, "8", "tools/call", "\"name\":\"hold\"");
    client_vanish(c);
    finish(held, "nobody is there, which is fine");
    client_free(c);
    (void)session_delete(&s);
}

static void legacy_client_cancels_with_a_notification(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-06-18", &s);
    struct client *c = session_request(&s, "7", "tools/call", "\"name\":\"hold\"");
    struct client *other = client_http(&b);
    client_notify(other, s.id, "notifications/cancelled", "\"requestId\":7");
    assert_true(tidings_call_cancelled(held));
    assert_int_equal(client_count_kind(c, SAID_ACCEPTED), 1); /* the exchange ends */
    finish(held, "x");
    assert_int_equal(client_count_kind(c, SAID_ANSWER), 0);
    client_free(c);
    client_free(other);
    (void)session_delete(&s);
}

static void server_stop_cancels_every_handler(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    struct client *c = session_request(&s, "7", "tools/call", "\"name\":\"hold\"");
    client_free(c);
    (void)session_delete(&s);
    told = 0;
    tidings_call_on_cancel(held, count_and_finish, NULL);
    assert_true(core_await_jobs(harness_core(&b, 0), 5000));
    assert_int_equal(told, 1);
}

/* ---- progress -------------------------------------------------------------------------------- */

static void progress_rises_until_the_answer_ends_the_stream(void **state)
{
    (void)state;
    struct client *c = client_http(&b);
    client_call(c, "1", "hold", NULL, "\"progressToken\":\"p\"");
    tidings_call_progress(held, 1, 10, STR("begun"));
    assert_true(c->is_streaming);
    tidings_call_progress(held, 0.5, 10, STR_EMPTY); /* does not rise */
    tidings_call_progress(held, 10, 10, STR_EMPTY);  /* the last progress is always sent */
    tidings_call_progress(held, 10, 10, STR_EMPTY);
    assert_int_equal(client_count(c, SAID_PROGRESS), 2);
    assert_json(client_nth(c, SAID_PROGRESS, 0), "params|progressToken", "p");
    assert_json(client_nth(c, SAID_PROGRESS, 0), "params|progress", "1.0");
    assert_json(client_nth(c, SAID_PROGRESS, 0), "params|message", "begun");
    assert_json(client_nth(c, SAID_PROGRESS, 1), "params|progress", "10.0");
    finish(held, "done");
    assert_int_equal(client_count_kind(c, SAID_ANSWER), 0);
    const struct utterance *last = client_nth_kind(c, SAID_EVENT, 2);
    assert_json(last->text, "result|content|0|text", "done");
    assert_int_equal(client_count_kind(c, SAID_END), 1);
    client_free(c);
}

static void progress_notifications_are_throttled(void **state)
{
    (void)state;
    struct client *c = client_pipe(&b);
    client_call(c, "1", "hold", NULL, "\"progressToken\":3");
    for (int i = 0; i < 10000; i++) {
        tidings_call_progress(held, i, 0, STR_EMPTY);
    }
    size_t n = client_count(c, SAID_PROGRESS);
    assert_true(n >= 1 && n < 1000);
    assert_json(client_nth(c, SAID_PROGRESS, 0), "params|progressToken", "3");
    finish(held, "done");
    assert_json(client_answer(c)->text, "result|content|0|text", "done");
    client_free(c);
}

static void progress_is_omitted_without_a_token_or_stream(void **state)
{
    (void)state;
    struct client *c = client_http(&b);
    client_call(c, "1", "hold", NULL, NULL);
    tidings_call_progress(held, 1, 1, STR_EMPTY);
    assert_false(c->is_streaming);
    finish(held, "x");
    assert_json(client_answer(c)->text, "result|content|0|text", "x");
    client_free(c);
    c = client_http(&b);
    c->takes_no_stream = true;
    client_call(c, "1", "hold", NULL, "\"progressToken\":1");
    tidings_call_progress(held, 1, 1, STR_EMPTY);
    finish(held, "y");
    assert_json(client_answer(c)->text, "result|content|0|text", "y");
    client_free(c);
}

static void reports_to_a_stalled_reader_are_dropped(void **state)
{
    (void)state;
    struct client *c = client_pipe(&b);
    client_call(c, "1", "hold", NULL, LEVEL "\"debug\"");
    tidings_call_log(held, TIDINGS_LOG_INFO, NULL, STR("heard"));
    c->pending = 1u << 20;
    tidings_call_log(held, TIDINGS_LOG_INFO, NULL, STR("dropped"));
    c->pending = 0;
    finish(held, "x");
    assert_int_equal(client_count(c, SAID_LOG), 1);
    client_free(c);
}

static void *report_much(void *h)
{
    char text[1000];
    memset(text, 'x', sizeof(text));
    for (int i = 0; i < 1000; i++) {
        tidings_call_log(h, TIDINGS_LOG_ERROR, "many", tidings_strn(text, sizeof(text)));
        tidings_call_progress(h, i, 999, STR_EMPTY);
    }
    finish(h, "after a thousand");
    return NULL;
}

static void reports_from_another_thread_arrive_in_order_and_are_bounded(void **state)
{
    (void)state;
    struct client *c = client_pipe(&b);
    client_call(c, "1", "hold", NULL, LEVEL "\"debug\",\"progressToken\":1");
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, report_much, held), 0);
    pthread_join(thread, NULL); /* nothing was delivered before */
    harness_until(&b, client_has_answer, c);
    assert_int_equal(c->said[c->count - 1].kind, SAID_ANSWER);
    assert_in_range(client_count(c, SAID_LOG) + client_count(c, SAID_PROGRESS), 1, 64);
    client_free(c);
}

/* ---- log messages ---------------------------------------------------------------------------- */

static void log_all(struct tidings_call *h)
{
    for (int level = TIDINGS_LOG_DEBUG; level <= TIDINGS_LOG_EMERGENCY; level++) {
        tidings_call_log(h, (enum tidings_log_level)level, "me", STR("text"));
    }
}

static void modern_request_receives_the_requested_log_levels(void **state)
{
    (void)state;
    static const struct {
        const char *meta;
        size_t count;
    } rows[] = {{NULL, 0}, {LEVEL "\"error\"", 4}, {LEVEL "\"debug\"", 8}};
    for (size_t i = 0; i < 3; i++) {
        struct client *c = client_http(&b);
        client_call(c, "1", "hold", NULL, rows[i].meta);
        log_all(held);
        finish(held, "x");
        assert_int_equal(client_count(c, SAID_LOG), rows[i].count);
        if (rows[i].count > 0) {
            const char *last = client_nth(c, SAID_LOG, rows[i].count - 1);
            assert_json(last, "params|level", "emergency");
            assert_json(last, "params|logger", "me");
            assert_json(last, "params|data", "text");
        }
        client_free(c);
    }
}

static void legacy_session_receives_its_log_level(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    client_free(session_request(&s, "1", "logging/setLevel", "\"level\":\"critical\""));
    struct client *c = session_request(&s, "2", "tools/call", "\"name\":\"hold\"");
    log_all(held);
    finish(held, "x");
    assert_int_equal(client_count(c, SAID_LOG), 3);
    assert_int_equal(client_count_kind(c, SAID_END), 1);
    client_free(c);
    (void)session_delete(&s);
}

static void cancelled_stream_ends_without_another_message(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    struct client *c = session_request(&s, "2", "tools/call", "\"name\":\"hold\"");
    tidings_call_log(held, TIDINGS_LOG_ERROR, NULL, STR("one"));
    struct client *other = client_http(&b);
    client_notify(other, s.id, "notifications/cancelled", "\"requestId\":2");
    tidings_call_log(held, TIDINGS_LOG_ERROR, NULL, STR("two"));
    finish(held, "x");
    assert_int_equal(client_count_kind(c, SAID_EVENT), 1);
    assert_int_equal(client_count_kind(c, SAID_END), 1);
    client_free(c);
    client_free(other);
    (void)session_delete(&s);
}

int main(void)
{
#define WITH_BENCH(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        WITH_BENCH(answer_can_arrive_later_from_another_thread),
        WITH_BENCH(blocking_handler_runs_on_another_thread),
        WITH_BENCH(handler_receives_the_trace_of_its_call),
        WITH_BENCH(call_cancelled_before_a_thread_is_free_does_not_run),
        WITH_BENCH(removed_tool_finishes_its_calls),
        WITH_BENCH(calls_over_the_limit_are_refused_with_its_name),
        WITH_BENCH(timed_out_call_is_answered_and_its_handler_cancelled),
        WITH_BENCH(server_deadline_applies_to_tools_without_their_own),
        WITH_BENCH(modern_client_cancels_by_disconnecting),
        WITH_BENCH(handler_can_finish_inside_the_callback),
        WITH_BENCH(late_listener_is_notified_at_once),
        WITH_BENCH(legacy_client_that_disconnects_does_not_cancel),
        WITH_BENCH(legacy_client_cancels_with_a_notification),
        WITH_BENCH(server_stop_cancels_every_handler),
        WITH_BENCH(progress_rises_until_the_answer_ends_the_stream),
        WITH_BENCH(progress_notifications_are_throttled),
        WITH_BENCH(progress_is_omitted_without_a_token_or_stream),
        WITH_BENCH(reports_to_a_stalled_reader_are_dropped),
        WITH_BENCH(reports_from_another_thread_arrive_in_order_and_are_bounded),
        WITH_BENCH(modern_request_receives_the_requested_log_levels),
        WITH_BENCH(legacy_session_receives_its_log_level),
        WITH_BENCH(cancelled_stream_ends_without_another_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
