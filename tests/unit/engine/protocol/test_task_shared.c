/* SPDX-License-Identifier: MIT
 *
 * Tasks in a store that nodes share, simulated here. Every state is written, one at a time. An end
 * is visible once stored, and the first stored end wins. Answers at another node are applied.
 * Failed writes are repeated.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "base/thread.h"
#include "engine/protocol/tasks.h"
#include "formats/json.h"
#include "security/principal.h"

static struct limit_counters counters;
static struct tasks *all;
static struct loop *loop;
static struct mailbox *home;
static unsigned answered, cancelled, changes;
static char heard[256];

static const struct principal alice = {.kind = PRINCIPAL_TOKEN, .name = {"alice", 5}};
static const struct principal bob = {.kind = PRINCIPAL_TOKEN, .name = {"bob", 3}};

static void on_answered(struct tidings_call *call, struct buf *answers)
{
    assert_non_null(call);
    snprintf(heard, sizeof(heard), "%.*s", (int)answers->len, answers->ptr);
    answered++;
}

static void on_cancelled(struct tidings_call *call)
{
    assert_non_null(call);
    cancelled++;
}

static const struct task_ops ops = {.answered = on_answered, .cancelled = on_cancelled};

static void on_change(void *user, struct tidings_str uri, bool is_gone)
{
    (void)user;
    (void)uri;
    (void)is_gone;
    changes++;
}

/* ---- the store ------------------------------------------------------------------------------- */

static struct {
    struct task_store base;
    unsigned puts, asks;
    enum task_status status; /* members of the last row */
    char message[64], questions[256], payload[64];
    void (*done)(void *user, int code); /* NULL: answered */
    void *user;
} store;

static void copy(char *out, size_t size, struct tidings_str text)
{
    assert_true(text.len < size);
    (void)snprintf(out, size, "%.*s", (int)text.len, text.len > 0 ? text.ptr : "");
}

static void store_put(struct task_store *base, const struct task_row *row,
                      void (*done)(void *user, int code), void *user)
{
    (void)base;
    assert_null(store.done); /* one at a time */
    store.puts++;
    store.status = row->status;
    copy(store.message, sizeof store.message, row->message);
    copy(store.questions, sizeof store.questions, row->questions);
    copy(store.payload, sizeof store.payload, row->payload);
    store.done = done;
    store.user = user;
}

static void store_answer(int code)
{
    void (*done)(void *user, int code) = store.done;
    store.done = NULL;
    done(store.user, code);
}

static void store_sweep(struct task_store *base, int64_t now_ms)
{
    (void)base;
    (void)now_ms;
}

static void store_ask(struct task_store *base, struct task_asking *asking)
{
    (void)base;
    (void)asking;
    store.asks++;
}

static int setup(void **state)
{
    (void)state;
    answered = cancelled = changes = 0;
    limit_counters_init(&counters);
    loop = loop_create(NULL);
    home = mailbox_create(loop, &all, NULL);
    all = tasks_create(&counters);
    tasks_on_change(all, on_change, NULL);
    memset(&store, 0, sizeof store);
    store.base = (struct task_store){
        .is_shared = true, .put = store_put, .sweep = store_sweep, .ask = store_ask};
    tasks_set_store(all, &store.base);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_null(store.done);
    assert_int_equal(changes, 0); /* the store notifies */
    tasks_destroy(all);
    mailbox_close(home);
    mailbox_unref(home);
    loop_destroy(loop);
    return 0;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void opened(void *user, int code)
{
    *(int *)user = code;
}

static struct task *begin(void)
{
    struct task *t = NULL;
    struct refusal why;
    int code = -1;
    const struct task_spec spec = {
        .principal = &alice,
        .client = STR("c"),
        .max = 4,
        .ttl_ms = 3600000,
        .home = home,
        .call = (struct tidings_call *)(uintptr_t)&spec,
    };
    assert_int_equal(tasks_open(all, &spec, &ops, &t, &why), 0);
    task_publish(t, opened, &code);
    store_answer(0);
    assert_int_equal(code, 0);
    return t;
}

static void turn(void)
{
    (void)mailbox_drain(home);
}

static void assert_shows(struct task *t, const char *piece)
{
    struct buf out;
    struct jw w;
    buf_init(&out, 4096);
    jw_init(&w, &out);
    jw_begin_object(&w);
    task_write(t, &w, true);
    jw_end_object(&w);
    if (!strstr(out.ptr, piece)) {
        fail_msg("%s is not in %s", piece, out.ptr);
    }
    buf_deinit(&out);
}

static struct json *parsed(const char *text)
{
    struct json *v = NULL;
    assert_int_equal(jv_parse(tidings_str(text), JSON_MAX_DEPTH, &v, NULL), 0);
    return v;
}

static void ask(struct task *t, const char *questions)
{
    struct json *v = parsed(questions);
    assert_int_equal(task_ask(t, 1, v, NULL), 0);
    jv_unref(v);
}

/* ---- storing --------------------------------------------------------------------------------- */

static void states_are_all_stored_with_intermediate_ones_merged(void **state)
{
    (void)state;
    struct task *t = begin();
    task_set_message(t, STR("one"));
    assert_string_equal(store.message, "one");
    task_set_message(t, STR("two"));
    task_set_message(t, STR("three"));
    ask(t, "{\"who\":{}}");
    assert_int_equal(store.puts, 2);
    store_answer(0);
    assert_int_equal(store.puts, 3);
    assert_string_equal(store.message, "three");
    assert_int_equal(store.status, TASK_INPUT_REQUIRED);
    assert_string_equal(store.questions, "{\"1.who\":{}}");
    store_answer(0);
    assert_int_equal(store.puts, 3);
    task_detach(t);
}

static void end_is_visible_once_stored(void **state)
{
    (void)state;
    struct task *t = begin();
    assert_true(task_end(t, TASK_COMPLETED, STR_EMPTY, STR("{\"a\":1}")));
    assert_shows(t, "\"working\"");
    store_answer(TIDINGS_E_BUSY);
    assert_shows(t, "\"working\"");
    assert_true(tasks_runs(all, task_id(t)));
    tasks_keep_again(all);
    assert_int_equal(store.puts, 3);
    assert_string_equal(store.payload, "{\"a\":1}");
    store_answer(0);
    assert_shows(t, "\"result\":{\"a\":1}");
    assert_false(tasks_runs(all, task_id(t)));
    tasks_keep_again(all);
    assert_int_equal(store.puts, 3);
    tasks_doubt(all); /* the store may have lost it */
    tasks_keep_again(all);
    assert_int_equal(store.puts, 4);
    assert_int_equal(store.status, TASK_COMPLETED);
    store_answer(TIDINGS_E_CONFLICT);
    assert_shows(t, "\"result\":{\"a\":1}");
    task_detach(t);
}

static void failed_state_write_is_retried(void **state)
{
    (void)state;
    struct task *t = begin();
    task_set_message(t, STR("one"));
    store_answer(TIDINGS_E_BUSY);
    task_set_message(t, STR("two"));
    store_answer(TIDINGS_E_BUSY);
    tasks_keep_again(all);
    assert_string_equal(store.message, "two");
    store_answer(0);
    task_detach(t);
}

/* ---- rows of other nodes --------------------------------------------------------------------- */

static void end_at_another_node_ends_the_task_here(void **state)
{
    (void)state;
    struct task *t = begin();
    const struct task_row row = {
        .id = task_id(t), .status = TASK_CANCELLED, .message = STR("there"), .updated_ms = 7};
    assert_false(tasks_follow(all, &row));
    assert_shows(t, "\"cancelled\",\"statusMessage\":\"there\"");
    assert_shows(t, "1970-01-01T00:00:00.007Z");
    turn();
    assert_int_equal(cancelled, 1);
    assert_false(task_end(t, TASK_COMPLETED, STR_EMPTY, STR("{}")));
    assert_int_equal(store.puts, 1);
    task_detach(t);
}

/* Both end it: the first row wins. */
static void second_end_is_replaced_by_the_first(void **state)
{
    (void)state;
    struct task *t = begin();
    assert_true(task_end(t, TASK_COMPLETED, STR_EMPTY, STR("{\"mine\":1}")));
    const struct task_row row = {
        .id = task_id(t), .status = TASK_FAILED, .payload = STR("{\"e\":1}")};
    assert_false(tasks_follow(all, &row));
    store_answer(TIDINGS_E_CONFLICT);
    assert_shows(t, "\"failed\"");
    assert_shows(t, "\"error\":{\"e\":1}");
    turn();
    assert_int_equal(cancelled, 0); /* its call is finished */
    task_detach(t);
}

static void answers_given_at_another_node_are_applied_once(void **state)
{
    (void)state;
    struct task *t = begin();
    ask(t, "{\"a\":{},\"b\":{}}");
    store_answer(0);
    struct task_row row = {
        .id = task_id(t), .status = TASK_INPUT_REQUIRED, .answers = STR("{\"1.a\":{\"n\":1}}")};
    assert_true(tasks_follow(all, &row));
    assert_string_equal(store.questions, "{\"1.b\":{}}");
    store_answer(0);
    assert_true(tasks_follow(all, &row)); /* once more, since that write failed */
    assert_int_equal(answered, 0);
    row.answers = STR("{\"1.b\":{\"n\":2}}");
    assert_true(tasks_follow(all, &row));
    assert_int_equal(store.status, TASK_WORKING);
    store_answer(0);
    turn();
    assert_int_equal(answered, 1);
    assert_string_equal(heard, "{\"a\":{\"n\":1},\"b\":{\"n\":2}}");
    row.answers = STR("[1]"); /* a task of another principal */
    assert_true(tasks_follow(all, &row));
    row.id = STR("unknown");
    assert_false(tasks_follow(all, &row));
    task_detach(t);
}

/* ---- tasks of other nodes -------------------------------------------------------------------- */

static void ids_are_queried_only_for_their_principal(void **state)
{
    (void)state;
    struct task *t = begin();
    assert_true(tasks_may_ask(all, task_id(t), &alice));
    assert_false(tasks_may_ask(all, task_id(t), &bob));
    assert_false(tasks_may_ask(all, STR("short"), NULL));
    task_detach(t);
    tasks_set_store(all, NULL);
    assert_false(tasks_may_ask(all, STR("short"), NULL));
}

static void answered_questions_are_not_repeated(void **state)
{
    (void)state;
    struct task *t = begin();
    struct task_row row = {.id = task_id(t),
                           .status = TASK_INPUT_REQUIRED,
                           .ttl_ms = 5,
                           .questions = STR("{\"1.a\":{\"q\":1},\"1.b\":{}}")};
    struct json *given = parsed("{\"1.b\":{\"n\":2},\"1.c\":{}}"), *none = parsed("{\"1.c\":{}}");
    struct buf merged;
    assert_int_equal(task_merge_answers(&row, none, &merged, NULL), 0);
    buf_deinit(&merged);
    assert_int_equal(task_merge_answers(&row, given, &merged, NULL), 1);
    assert_string_equal(merged.ptr, "{\"1.b\":{\"n\":2}}");
    row.answers = buf_str(&merged);
    struct task *other = task_of_row(all, &row);
    assert_shows(other, "\"inputRequests\":{\"1.a\":{\"q\":1}}");
    task_unref(other);
    row.answers = STR("{\"1.a\":{},\"1.b\":{}}");
    other = task_of_row(all, &row);
    assert_shows(other, "\"working\""); /* its node is about to continue */
    task_unref(other);
    buf_deinit(&merged);
    row.status = TASK_WORKING;
    assert_int_equal(task_merge_answers(&row, given, &merged, NULL), 0);
    buf_deinit(&merged);
    jv_unref(given);
    jv_unref(none);
    task_detach(t);
}

static void invalid_rows_are_rejected(void **state)
{
    (void)state;
    struct task *t = begin();
    char many[512] = "{";
    for (int i = 0; i < 17; i++) {
        size_t len = strlen(many);
        (void)snprintf(many + len, sizeof many - len, "\"%d\":{}%s", i, i < 16 ? "," : "}");
    }
    struct task_row row = {
        .id = task_id(t), .status = TASK_INPUT_REQUIRED, .questions = tidings_str(many)};
    assert_null(task_of_row(all, &row)); /* more than the question count */
    row.questions = STR("{\"a\":1}");
    struct task *other = task_of_row(all, &row);
    assert_shows(other, "\"working\"");
    task_unref(other);
    row.id = STR("short");
    assert_null(task_of_row(all, &row));
    task_detach(t);
    assert_int_equal(limit_in_use(&counters, LIMIT_TASKS), 1); /* other nodes' tasks do not count */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(states_are_all_stored_with_intermediate_ones_merged),
        TEST(end_is_visible_once_stored),
        TEST(failed_state_write_is_retried),
        TEST(end_at_another_node_ends_the_task_here),
        TEST(second_end_is_replaced_by_the_first),
        TEST(answers_given_at_another_node_are_applied_once),
        TEST(ids_are_queried_only_for_their_principal),
        TEST(answered_questions_are_not_repeated),
        TEST(invalid_rows_are_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
