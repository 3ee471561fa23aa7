/* SPDX-License-Identifier: MIT
 *
 * Calls that are tasks, as clients see them: the handle, the result, questions, cancellation,
 * deadlines, handlers that never end, and other principals that know the id.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "base/time.h"
#include "engine/protocol/call.h"
#include "engine/protocol/feature.h"
#include "engine/protocol/tasks.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_tool.h"

#define META                                                                                       \
    "\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{},\"extensions\":{"          \
    "\"io.modelcontextprotocol/tasks\":{}}}"

static struct harness b;
static struct tidings_call *held;
static unsigned cancels;

static void note_cancel(void *user, struct tidings_call *h)
{
    (void)user;
    (void)h;
    cancels++;
}

static void hold(void *user, struct tidings_call *h)
{
    (void)user;
    tidings_call_on_cancel(h, note_cancel, NULL);
    held = h;
}

static void refuse(void *user, struct tidings_call *h)
{
    (void)user;
    struct tidings_error err;
    tidings_fail(&err, TIDINGS_E_INTERNAL, "broken");
    tidings_call_refuse(h, TIDINGS_E_INTERNAL, &err);
}

static void not_work(void *user, struct tidings_call *h)
{
    (void)user;
    struct tidings_error err;
    tidings_fail(&err, TIDINGS_E_INTERNAL, "did not work");
    tidings_call_done(h, TIDINGS_E_INTERNAL, &err);
}

/* Asks twice under one name, and counts the round. */
static void inquire(void *user, struct tidings_call *h)
{
    (void)user;
    struct tidings_error err;
    char text[256];
    struct tidings_str state = tidings_call_state(h), answer = tidings_call_answer(h, "who");
    int rc;
    if (state.len == 2) {
        snprintf(text, sizeof(text), "%.*s", STR_ARG(answer));
        rc = tidings_call_text(h, tidings_str(text), &err);
    } else {
        rc = tidings_call_ask(h, "who", "elicitation/create", STR("{\"message\":\"?\"}"), &err);
        rc = rc < 0 ? rc : tidings_call_keep(h, state.len == 0 ? STR("1") : STR("12"), &err);
    }
    tidings_call_done(h, rc, &err);
}

static void ask_model(void *user, struct tidings_call *h)
{
    (void)user;
    struct tidings_error err;
    int rc = tidings_call_ask(h, "m", "sampling/createMessage", STR("{}"), &err);
    tidings_call_done(h, rc, &err);
}

/* Becomes a task by itself, on any thread. */
static void become(void *user, struct tidings_call *h)
{
    (void)user;
    struct tidings_error err;
    int rc = tidings_call_begin_task(h, &err);
    bool is_task = rc == 0;
    assert_int_equal(tidings_call_is_task(h), is_task);
    tidings_call_progress(h, 1, 2, STR("half way"));
    rc = rc == 0 || rc == TIDINGS_E_UNSUPPORTED
             ? tidings_call_text(h, is_task ? STR("as a task") : STR("at once"), &err)
             : rc;
    tidings_call_done(h, rc, &err);
}

static void add(const char *name, tidings_call_fn handler, enum tidings_task_support task,
                uint64_t timeout_ms)
{
    const struct harness_tool tool = {
        .name = name, .handler = handler, .task = task, .timeout_ms = timeout_ms};
    harness_add_tool(&b, &tool);
}

static int setup(void **state)
{
    (void)state;
    held = NULL;
    cancels = 0;
    harness_init(&b);
    harness_start(&b);
    add("hold", hold, TIDINGS_TASK_OPTIONAL, 0);
    add("brief", hold, TIDINGS_TASK_OPTIONAL, 5);
    add("hello", tool_hello, TIDINGS_TASK_OPTIONAL, 0);
    add("must", tool_hello, TIDINGS_TASK_REQUIRED, 0);
    add("refuse", refuse, TIDINGS_TASK_OPTIONAL, 0);
    add("fail", not_work, TIDINGS_TASK_OPTIONAL, 0);
    add("inquire", inquire, TIDINGS_TASK_OPTIONAL, 0);
    add("model", ask_model, TIDINGS_TASK_OPTIONAL, 0);
    add("plain", tool_hello, TIDINGS_TASK_NEVER, 0);
    harness_add_tool(&b, &(struct harness_tool){.name = "mortal",
                                                .handler = hold,
                                                .task = TIDINGS_TASK_OPTIONAL,
                                                .task_ttl_ms = 5});
    harness_add_tool(&b, &(struct harness_tool){.name = "become",
                                                .handler = become,
                                                .task = TIDINGS_TASK_OPTIONAL,
                                                .begins_task = true});
    harness_add_tool(&b, &(struct harness_tool){.name = "pool",
                                                .handler = become,
                                                .task = TIDINGS_TASK_OPTIONAL,
                                                .begins_task = true,
                                                .is_blocking = true});
    harness_run_until_idle(&b);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_run_until_idle(&b);
    assert_int_equal(limit_in_use(b.worker[0]->limit_counters, LIMIT_CALLS), 0);
    harness_stop_handled(&b);
    return 0;
}

/* ---- clients --------------------------------------------------------------------------------- */

/* A modern request by `who` (empty: anonymous; NULL: the program), with extra members of
 * `_meta`. */
static struct client *sent(const char *who, const char *method, const char *name,
                           const char *params, const char *meta)
{
    struct client *c = client_http(&b);
    const struct dialect_headers headers = {
        .protocol_version = STR("2026-07-28"),
        .method = tidings_str(method),
        .name = tidings_str(name),
    };
    if (who) {
        client_is(c, who[0] ? PRINCIPAL_TOKEN : PRINCIPAL_ANONYMOUS, who, "", 0);
    }
    size_t size = strlen(params) + strlen(meta) + 512;
    char *text = malloc(size);
    assert_non_null(text);
    snprintf(text, size,
             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{%s,\"_meta\":{"
             "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",%s}}}",
             method, params, meta);
    client_say(c, &headers, text);
    free(text);
    return c;
}

static const char *say(const char *who, const char *method, const char *name, const char *params,
                       const char *meta)
{
    struct client *c = sent(who, method, name, params, meta);
    harness_until(&b, client_has_answer, c);
    static char answers[4][4096];
    static unsigned next;
    char *said = answers[next++ % 4];
    assert_true(strlen(client_answer(c)->text) < sizeof(answers[0]));
    snprintf(said, sizeof(answers[0]), "%s", client_answer(c)->text);
    client_free(c);
    return said;
}

/* The id of the task that a call became. */
static const char *begin(const char *who, const char *tool)
{
    const char *answer = say(who, "tools/call", tool, text_of("\"name\":\"%s\"", tool), META);
    assert_json(answer, "result|resultType", "task");
    assert_no_json(answer, "result|requestState");
    static char ids[8][OWNED_ID_LEN + 1];
    static unsigned next;
    char *id = ids[next++ % 8];
    snprintf(id, sizeof(ids[0]), "%s", json_at(answer, "result|taskId"));
    return id;
}

static const char *task(const char *who, const char *verb, const char *id)
{
    harness_run_until_idle(&b);
    return say(who, text_of("tasks/%s", verb), id, text_of("\"taskId\":\"%s\"", id), META);
}

static const char *answer(const char *who, const char *id, const char *answers)
{
    const char *said = say(who, "tasks/update", id,
                           text_of("\"taskId\":\"%s\",\"inputResponses\":%s", id, answers), META);
    harness_run_until_idle(&b);
    return said;
}

static void assert_acknowledged(const char *said)
{
    assert_json(said, "result|resultType", "complete");
    assert_no_json(said, "result|taskId");
    assert_no_json(said, "result|status");
}

static size_t kept(void)
{
    return limit_in_use(b.worker[0]->limit_counters, LIMIT_TASKS);
}

/* ---- results --------------------------------------------------------------------------------- */

static void call_that_becomes_a_task_returns_its_result_later(void **state)
{
    (void)state;
    const char *id = begin("alice", "hold");
    assert_int_equal(limit_in_use(b.worker[0]->limit_counters, LIMIT_CALLS), 0);
    const char *said = task("alice", "get", id);
    assert_json(said, "result|resultType", "complete");
    assert_json(said, "result|status", "working");
    assert_json(said, "result|ttlMs", "3600000");
    assert_no_json(said, "result|result");
    tool_hello(NULL, held);
    said = task("alice", "get", id);
    assert_json(said, "result|status", "completed");
    assert_json(said, "result|result|content|0|text", "hello");
    assert_json(task("alice", "get", id), "result|status", "completed"); /* repeatable */
}

static void tool_failures_are_results_and_refusals_are_errors(void **state)
{
    (void)state;
    const char *said = task(NULL, "get", begin(NULL, "fail"));
    assert_json(said, "result|status", "completed");
    assert_json(said, "result|result|isError", "true");
    assert_json(said, "result|result|content|0|text", "did not work");
    said = task(NULL, "get", begin(NULL, "refuse"));
    assert_json(said, "result|status", "failed");
    assert_json(said, "result|error|code", "-32603");
    assert_json(said, "result|error|message", "broken");
    said = task(NULL, "get", begin(NULL, "model")); /* a capability that this client lacks */
    assert_json(said, "result|status", "failed");
    assert_json(said, "result|error|code", "-32021");
    assert_json(said, "result|error|data|requiredCapabilities|sampling", "{}");
}

#define NO_TASKS "\"io.modelcontextprotocol/clientCapabilities\":{}"
static void client_without_the_extension_receives_no_task(void **state)
{
    (void)state;
    const char *said = say(NULL, "tools/call", "hello", "\"name\":\"hello\"", NO_TASKS);
    assert_json(said, "result|resultType", "complete");
    assert_no_json(said, "result|taskId");
    said = say(NULL, "tools/call", "must", "\"name\":\"must\"", NO_TASKS);
    assert_json(said, "error|code", "-32021");
    assert_json(said, "error|data|requiredCapabilities|extensions|io.modelcontextprotocol/tasks",
                "{}");
    static const char *const verbs[] = {"tasks/get", "tasks/update", "tasks/cancel"};
    for (int i = 0; i < 3; i++) {
        said = say(NULL, verbs[i], "x", "\"taskId\":\"x\",\"inputResponses\":{}", NO_TASKS);
        assert_json(said, "error|code", "-32021");
    }
    said =
        say(NULL, "subscriptions/listen", "", "\"notifications\":{\"taskIds\":[\"x\"]}", NO_TASKS);
    assert_json(said, "error|code", "-32021");
    said = say(NULL, "tools/call", "plain", "\"name\":\"plain\",\"task\":{\"ttl\":1}", META);
    assert_json(said, "result|resultType", "complete");
    assert_int_equal(kept(), 0);
}

static void handler_can_make_its_call_a_task_at_any_time(void **state)
{
    (void)state;
    static const char *const tools[] = {"become", "pool"};
    for (int i = 0; i < 2; i++) {
        const char *id = begin("alice", tools[i]), *said = "";
        for (int n = 0; n < 1000 && !strstr(said, "completed"); n++) {
            said = task("alice", "get", id);
        }
        assert_json(said, "result|result|content|0|text", "as a task");
        said = say(NULL, "tools/call", tools[i], text_of("\"name\":\"%s\"", tools[i]), NO_TASKS);
        assert_json(said, "result|content|0|text", "at once");
    }
}

/* ---- other principals ------------------------------------------------------------------------ */

static void task_is_absent_for_other_principals(void **state)
{
    (void)state;
    const char *id = begin("alice", "inquire");
    static const char *const verbs[] = {"get", "cancel", "update"};
    static const char *const others[] = {"bob", ""};
    for (int i = 0; i < 6; i++) {
        const char *who = others[i / 3], *verb = text_of("tasks/%s", verbs[i % 3]);
#define UPDATE "\"taskId\":\"%s\",\"inputResponses\":{\"1.who\":{\"action\":\"x\"}}"
        const char *unknown = "00000000000000000000000000000000ffffffffffffffff";
        char known[512];
        snprintf(known, sizeof(known), "%s", say(who, verb, id, text_of(UPDATE, id), META));
        assert_json(known, "error|code", "-32602");
        assert_string_equal(known, say(who, verb, unknown, text_of(UPDATE, unknown), META));
    }
    assert_json(task("alice", "get", id), "result|status", "input_required");
    assert_acknowledged(task("alice", "cancel", id));
}

static void invalid_task_id_is_refused(void **state)
{
    (void)state;
    begin(NULL, "hello");
    const char *said = say(NULL, "tasks/get", "", "\"taskId\":7", META);
    assert_json(said, "error|code", "-32602");
    said = task(NULL, "get", "x");
    assert_json(said, "error|code", "-32602");
    const char *id = begin(NULL, "inquire");
    assert_json(answer(NULL, id, "[]"), "error|code", "-32602");
    assert_json(answer(NULL, id, "{\"1.who\":null}"), "error|code", "-32602");
    said = say(NULL, "tasks/get", "another", text_of("\"taskId\":\"%s\"", id), META);
    assert_json(said, "error|code", "-32020");
    assert_acknowledged(task(NULL, "cancel", id));
}

static void client_with_endless_tasks_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < b.limits.max_client_tasks; i++) {
        begin("alice", "hello"); /* it never fetches them */
    }
    const char *said = say("alice", "tools/call", "hello", "\"name\":\"hello\"", META);
    assert_json(said, "error|data|limit", "max-client-tasks");
    assert_non_null(strstr(said, "--max-client-tasks 8"));
    said = say("alice", "tools/call", "become", "\"name\":\"become\"", META);
    assert_json(said, "result|isError", "true");
    assert_non_null(strstr(said, "--max-client-tasks 8"));
    assert_json(task("bob", "get", begin("bob", "hello")), "result|status", "completed");
}

static void arguments_over_the_memory_limit_are_refused(void **state)
{
    (void)state;
    size_t count = TASKS_BYTES / 4 / 16; /* numbers, of two bytes in the message */
    char *params = malloc(2 * count + 64);
    assert_non_null(params);
    int at = snprintf(params, 64, "\"name\":\"hold\",\"arguments\":{\"x\":[0");
    for (size_t i = 0; i < count; i++) {
        memcpy(params + at + 2 * i, ",0", 2);
    }
    snprintf(params + at + 2 * count, 8, "]}");
    const char *said = say("alice", "tools/call", "hold", params, META);
    free(params);
    assert_json(said, "error|data|limit", "task-bytes");
    assert_int_equal(kept(), 0);
    assert_null(held);
}

/* ---- questions ------------------------------------------------------------------------------- */

static void task_asks_and_continues_with_the_answers(void **state)
{
    (void)state;
    const char *id = begin("alice", "inquire");
    const char *said = task("alice", "get", id);
    assert_json(said, "result|status", "input_required");
    assert_json(said, "result|inputRequests|1.who|method", "elicitation/create");
    assert_no_json(said, "result|requestState");
    assert_acknowledged(answer("alice", id, "{\"unknown\":{\"a\":1}}"));
    assert_json(task("alice", "get", id), "result|status", "input_required");
    assert_acknowledged(answer("alice", id, "{\"1.who\":{\"action\":\"decline\"}}"));
    said = task("alice", "get", id);
    assert_json(said, "result|inputRequests|2.who|method", "elicitation/create");
    assert_no_json(said, "result|inputRequests|1.who");
    assert_acknowledged(answer("alice", id, "{\"1.who\":{\"action\":\"again\"}}"));
    assert_acknowledged(answer("alice", id, "{\"2.who\":{\"action\":\"accept\"}}"));
    said = task("alice", "get", id);
    assert_json(said, "result|status", "completed");
    assert_json(said, "result|result|content|0|text", "{\"action\":\"accept\"}");
    assert_acknowledged(answer("alice", id, "{\"2.who\":{\"action\":\"late\"}}"));
    assert_json(task("alice", "get", id), "result|result|content|0|text",
                "{\"action\":\"accept\"}");
}

/* ---- cancelling ------------------------------------------------------------------------------ */

static void cancelled_task_stays_cancelled(void **state)
{
    (void)state;
    const char *id = begin("alice", "hold");
    assert_acknowledged(task("alice", "cancel", id));
    harness_run_until_idle(&b);
    assert_int_equal(cancels, 1);
    assert_true(tidings_call_cancelled(held));
    assert_json(task("alice", "get", id), "result|status", "cancelled");
    tool_hello(NULL, held); /* it was done regardless */
    assert_json(task("alice", "get", id), "result|status", "cancelled");
    assert_acknowledged(task("alice", "cancel", id));
    id = begin("alice", "inquire");
    assert_acknowledged(task("alice", "cancel", id));
    assert_acknowledged(answer("alice", id, "{\"1.who\":{}}"));
    assert_json(task("alice", "get", id), "result|status", "cancelled");
}

static void cancellation_races_with_the_end(void **state)
{
    (void)state;
    const char *id = begin("alice", "hold");
    struct task *t = tasks_find(b.worker[0]->handlers->tasks, tidings_str(id), NULL);
    assert_non_null(t);
    task_cancel(t);         /* the letter is pending … */
    tool_hello(NULL, held); /* … when the handler finishes */
    harness_run_until_idle(&b);
    assert_int_equal(cancels, 0);
    assert_json(task("alice", "get", id), "result|status", "cancelled");
    task_unref(t);
}

/* ---- deadlines ------------------------------------------------------------------------------- */

static bool has_cancelled(void *user)
{
    (void)user;
    return cancels > 0;
}

static void handler_is_cancelled_when_the_task_expires(void **state)
{
    (void)state;
    const char *id = begin("alice", "mortal");
    harness_until(&b, has_cancelled, NULL);
    const char *said = task("alice", "get", id);
    assert_json(said, "result|status", "failed");
    assert_json(said, "result|error|code", "-32603");
    assert_non_null(strstr(said, "did not finish within 5 ms (its time to live)"));
    assert_int_equal(held->base.code, 0); /* data that its handler may write is not touched */
    assert_string_equal(held->base.err.text, "");
    assert_int_equal(held->outcome, CALL_RESULT);
    assert_int_equal(kept(), 1);
    tidings_call_done(held, 0, NULL);
    assert_json(task("alice", "get", id), "result|status", "failed");
}

static void tool_timeout_applies_to_its_tasks(void **state)
{
    (void)state;
    const char *id = begin("alice", "brief");
    harness_until(&b, has_cancelled, NULL);
    const char *said = task("alice", "get", id);
    assert_json(said, "result|status", "completed");
    assert_json(said, "result|result|isError", "true");
    assert_non_null(strstr(said, "within 5 ms (the tool's own limit)"));
    tidings_call_done(held, 0, NULL);
}

static void ended_task_expires(void **state)
{
    (void)state;
    struct clock_fake now = {.monotonic_ns = clock_monotonic_ns(), .wall_ms = clock_wall_ms()};
    clock_set_fake(&now);
    const char *id = begin("alice", "hello");
    assert_json(task("alice", "get", id), "result|status", "completed");
    now.monotonic_ns += 3600ull * 1000000000;
    for (int i = 0; i < 3; i++) {
        harness_run_until_idle(&b);
        now.monotonic_ns += 1000000000;
    }
    assert_int_equal(kept(), 0); /* no question is open */
    clock_set_fake(NULL);
    begin("alice", "hello"); /* else the method would be missing */
    assert_json(task("alice", "get", id), "error|code", "-32602");
}

/* ---- disconnected clients -------------------------------------------------------------------- */

static void task_outlives_its_connection_and_does_not_delay_the_server(void **state)
{
    (void)state;
    const char *id = begin("alice", "inquire");
    (void)begin("alice", "hold");
    harness_run_until_idle(&b);
    calls_cancel(b.worker[0]); /* the server stops */
    assert_int_equal(cancels, 1);
    tool_hello(NULL, held);
    harness_run_until_idle(&b);
    assert_true(list_empty(&b.worker[0]->handlers->calls));
    assert_int_equal(kept(), 0);
    begin("alice", "hello");
    assert_json(task("alice", "get", id), "error|code", "-32602");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(call_that_becomes_a_task_returns_its_result_later),
        TEST(tool_failures_are_results_and_refusals_are_errors),
        TEST(client_without_the_extension_receives_no_task),
        TEST(handler_can_make_its_call_a_task_at_any_time),
        TEST(task_is_absent_for_other_principals),
        TEST(invalid_task_id_is_refused),
        TEST(client_with_endless_tasks_is_refused),
        TEST(arguments_over_the_memory_limit_are_refused),
        TEST(task_asks_and_continues_with_the_answers),
        TEST(cancelled_task_stays_cancelled),
        TEST(cancellation_races_with_the_end),
        TEST(handler_is_cancelled_when_the_task_expires),
        TEST(tool_timeout_applies_to_its_tasks),
        TEST(ended_task_expires),
        TEST(task_outlives_its_connection_and_does_not_delay_the_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
