/* SPDX-License-Identifier: MIT
 *
 * Tasks in a database that several nodes share: each node finds those of the others, a result stays
 * regardless of its writer, tasks of dead nodes fail, their number is limited; and rows that
 * another program wrote into the table.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/time.h"
#include "support/postgres.h"
#include "support/store_steps.h"

#define HOUR_MS 3600000

static struct postgres_server *server;
static char url[POSTGRES_URL], schema[32];
static const struct changelog_limits limits = {.max_entries = 1000, .max_bytes = 1u << 20};

/* A node: a store with its own run. */
struct task_node {
    struct store *rows;
    struct changelog *log;
};

static struct task_node node_open(void)
{
    struct task_node n = {.rows = store_open(url)};
    assert_int_equal(n.rows->ops->create_changelog(n.rows, &limits, &n.log, NULL), 0);
    return n;
}

static void node_close(struct task_node *n)
{
    n->log->ops->destroy(n->log);
    store_close(n->rows);
}

static void fresh(void)
{
    postgres_server_fresh(server, url);
    (void)snprintf(schema, sizeof schema, "%s", postgres_url_schema(url));
}

static int put(struct task_node *n, const char *id, const char *status, const char *questions,
               struct stored_task_limits *room)
{
    const int64_t now = clock_wall_ms();
    const struct stored_task task = {
        .id = tidings_str(id),
        .client = STR("alice"),
        .status = tidings_str(status),
        .payload = tidings_str(str_eq(tidings_str(status), STR("completed")) ? "{\"a\":1}" : ""),
        .questions = tidings_str(questions),
        .created_ms = now,
        .updated_ms = now,
        .ttl_ms = HOUR_MS,
        .room = room,
    };
    store_begin(n->rows);
    int rc = n->rows->ops->put_task(n->rows, &task, NULL);
    store_commit(n->rows);
    return rc;
}

/* "status payload questions answers lost", or "". */
static const char *found(struct task_node *n, const char *id)
{
    static char text[256];
    struct stored_task t;
    text[0] = '\0';
    int rc = n->rows->ops->find_task(n->rows, tidings_str(id), &t, NULL);
    assert_true(rc >= 0);
    if (rc == 1) {
        assert_true(str_eq(t.client, STR("alice")));
        (void)snprintf(text, sizeof text, "%.*s %.*s %.*s %.*s%s", STR_ARG(t.status),
                       STR_ARG(t.payload), STR_ARG(t.questions), STR_ARG(t.answers),
                       t.is_lost ? " lost" : "");
    }
    return text;
}

static void task_of_one_node_is_found_on_another(void **state)
{
    (void)state;
    fresh();
    struct task_node a = node_open(), b = node_open();
    assert_string_equal(found(&b, "t"), "");
    assert_int_equal(put(&a, "t", "working", "", NULL), 0);
    assert_string_equal(found(&b, "t"), "working   ");
    assert_int_equal(put(&a, "t", "input_required", "{\"1.q\":{}}", NULL), 0);
    store_begin(b.rows);
    assert_string_equal(found(&b, "t"), "input_required  {\"1.q\":{}} ");
    assert_int_equal(
        b.rows->ops->put_task_answers(b.rows, STR("t"), STR("{\"1.q\":{\"n\":1}}"), NULL), 0);
    store_commit(b.rows);
    assert_int_equal(put(&a, "t", "input_required", "{\"1.q\":{}}", NULL), 0); /* keeps them */
    assert_string_equal(found(&a, "t"), "input_required  {\"1.q\":{}} {\"1.q\":{\"n\":1}}");
    assert_int_equal(put(&b, "t", "cancelled", "", NULL), 0);
    assert_int_equal(put(&a, "t", "completed", "", NULL), TIDINGS_E_CONFLICT);
    assert_string_equal(found(&a, "t"), "cancelled   {\"1.q\":{\"n\":1}}");
    node_close(&a);
    node_close(&b);
}

static struct {
    char text[256];
    unsigned count;
} ended;

static void note_ended(void *user, struct tidings_str id, bool is_gone)
{
    (void)user;
    ended.count++;
    size_t len = strlen(ended.text);
    (void)snprintf(ended.text + len, sizeof ended.text - len, "%.*s %s\n", STR_ARG(id),
                   is_gone ? "gone" : "failed");
}

static const char *end_stale(struct task_node *n)
{
    const struct stored_task end = {
        .status = STR("failed"), .message = STR("gone"), .payload = STR("{}")};
    memset(&ended, 0, sizeof ended);
    store_begin(n->rows);
    assert_int_equal(n->rows->ops->end_stale_tasks(n->rows, &end, note_ended, NULL, NULL), 0);
    store_commit(n->rows);
    return ended.text;
}

static void tasks_fail_if_their_node_dies(void **state)
{
    (void)state;
    fresh();
    struct task_node a = node_open(), b = node_open();
    assert_int_equal(put(&a, "ran", "working", "", NULL), 0);
    assert_int_equal(put(&a, "asked", "input_required", "{\"1.q\":{}}", NULL), 0);
    assert_int_equal(put(&a, "done", "completed", "", NULL), 0);
    assert_int_equal(put(&b, "other", "working", "", NULL), 0);
    assert_int_equal(b.rows->ops->has_stale_tasks(b.rows, NULL), 0);
    /* It did not report that it lives. */
    postgres_server_exec(server, schema,
                         "UPDATE tidings_runs SET until=1 WHERE epoch=(SELECT run FROM"
                         " tidings_tasks WHERE id='ran')");
    assert_string_equal(found(&b, "ran"), "working    lost"); /* at once */
    assert_string_equal(found(&b, "done"), "completed {\"a\":1}  ");
    assert_int_equal(b.rows->ops->has_stale_tasks(b.rows, NULL), 1);
    (void)end_stale(&b);
    assert_int_equal(ended.count, 2);
    assert_non_null(strstr(ended.text, "ran failed\n"));
    assert_non_null(strstr(ended.text, "asked failed\n"));
    assert_string_equal(found(&b, "asked"), "failed {}  ");
    assert_string_equal(found(&b, "other"), "working   ");
    assert_int_equal(b.rows->ops->has_stale_tasks(b.rows, NULL), 0);
    assert_int_equal(put(&a, "ran", "completed", "", NULL), TIDINGS_E_CONFLICT); /* too late */
    node_close(&a);
    node_close(&b);
}

static void stopped_node_leaves_no_running_tasks(void **state)
{
    (void)state;
    fresh();
    struct task_node a = node_open(), b = node_open();
    assert_int_equal(put(&a, "ran", "working", "", NULL), 0);
    node_close(&a);
    assert_string_equal(found(&b, "ran"), "working    lost");
    assert_string_equal(end_stale(&b), "ran failed\n");
    node_close(&b);
}

static void expired_task_is_removed_and_reported_once(void **state)
{
    (void)state;
    fresh();
    struct task_node a = node_open(), b = node_open();
    assert_int_equal(put(&a, "t", "completed", "", NULL), 0);
    postgres_server_exec(server, schema, "UPDATE tidings_tasks SET until=1");
    assert_string_equal(found(&a, "t"), "");
    assert_int_equal(b.rows->ops->has_stale_tasks(b.rows, NULL), 1);
    assert_string_equal(end_stale(&b), "t gone\n");
    assert_string_equal(end_stale(&a), "");
    assert_int_equal(b.rows->ops->has_stale_tasks(b.rows, NULL), 0);
    node_close(&a);
    node_close(&b);
}

/* The clock of the canceling node is hours ahead. */
static void skewed_clock_does_not_expire_tasks(void **state)
{
    (void)state;
    fresh();
    struct task_node a = node_open(), b = node_open();
    assert_int_equal(put(&a, "t", "working", "", NULL), 0);
    const struct stored_task late = {.id = STR("t"),
                                     .client = STR("alice"),
                                     .status = STR("cancelled"),
                                     .created_ms = clock_wall_ms() - 5 * HOUR_MS,
                                     .updated_ms = 1,
                                     .ttl_ms = HOUR_MS};
    store_begin(b.rows);
    assert_int_equal(b.rows->ops->put_task(b.rows, &late, NULL), 0);
    store_commit(b.rows);
    assert_string_equal(found(&b, "t"), "cancelled   ");
    assert_string_equal(end_stale(&a), "");
    node_close(&a);
    node_close(&b);
}

static void task_limit_covers_all_nodes(void **state)
{
    (void)state;
    fresh();
    struct task_node a = node_open(), b = node_open();
    struct stored_task_limits room = {.max = 3, .max_client = 2, .max_bytes = 100};
    assert_int_equal(put(&a, "1", "working", "", &room), 0);
    assert_int_equal(put(&b, "2", "working", "", &room), 0);
    assert_int_equal(put(&b, "3", "working", "", &room), TIDINGS_E_LIMIT);
    assert_int_equal(room.full, STORED_TASKS_MANY);
    assert_true(room.is_client);
    assert_string_equal(found(&a, "3"), "");
    room = (struct stored_task_limits){.max = 2};
    assert_int_equal(put(&b, "3", "working", "", &room), TIDINGS_E_LIMIT);
    assert_int_equal(room.full, STORED_TASKS_MANY);
    assert_false(room.is_client);
    assert_int_equal(put(&a, "1", "completed", "", NULL), 0); /* 7 bytes */
    room = (struct stored_task_limits){.max_bytes = 24};
    assert_int_equal(put(&b, "3", "working", "", &room), TIDINGS_E_LIMIT);
    assert_int_equal(room.full, STORED_TASKS_LARGE);
    assert_true(room.is_client);
    room = (struct stored_task_limits){.max = 3, .max_client = 3, .max_bytes = 28};
    assert_int_equal(put(&b, "3", "working", "", &room), 0);
    node_close(&a);
    node_close(&b);
}

static void fail_if_called(void *user, const struct stored_task *task)
{
    (void)user;
    fail_msg("a row of %zu bytes", task->id.len);
}

static void oversized_untrusted_rows_are_ignored(void **state)
{
    (void)state;
    static const char *const forged[] = {
        "repeat('x', 129), 1, '', '', 'working', 1, 1, 1, 9e18::int8, 1, '', '', '', ''",
        "'t', 1, '', repeat('x', 4097)::bytea, 'working', 1, 1, 1, 9e18::int8, 1, '', '', '', ''",
        "'t', 1, '', '', repeat('w', 33), 1, 1, 1, 9e18::int8, 1, '', '', '', ''",
        "'t', 1, '', '', 'working', 1, 1, 1, 9e18::int8, 1, repeat('x', 4097)::bytea, '', '', ''",
        /* The cheapest of the three that may be larger. */
        ("'t', 1, '', '', 'working', 1, 1, 1, 9e18::int8, 1, '', '', '', repeat('x',"
         " 41943041)::bytea"),
    };
    fresh();
    struct task_node a = node_open();
    for (size_t i = 0; i < sizeof forged / sizeof *forged; i++) {
        char sql[512];
        (void)snprintf(sql, sizeof sql,
                       "DELETE FROM tidings_tasks;INSERT INTO tidings_tasks VALUES(%s)", forged[i]);
        postgres_server_exec(server, schema, sql);
        struct stored_task t;
        assert_int_equal(a.rows->ops->find_task(a.rows, STR("t"), &t, NULL), 0);
        assert_int_equal(a.rows->ops->each_task(a.rows, fail_if_called, NULL, NULL), 0);
        (void)end_stale(&a); /* which has failed, if it was running, with a limited id */
    }
    node_close(&a);
}

static void unstorable_task_is_rejected(void **state)
{
    (void)state;
    fresh();
    struct task_node a = node_open();
    struct stored_task task = {.id = STR("a\0b"), .status = STR("working"), .ttl_ms = 1};
    struct tidings_error err = {0};
    store_begin(a.rows);
    assert_int_equal(a.rows->ops->put_task(a.rows, &task, &err), TIDINGS_E_INVALID);
    char name[SHARED_TASK_CLIENT_MAX + 1];
    memset(name, 'x', sizeof name);
    task.id = STR("a");
    task.client = tidings_strn(name, sizeof name);
    assert_int_equal(a.rows->ops->put_task(a.rows, &task, &err), TIDINGS_E_INVALID);
    task.client = tidings_strn("a\0b", 3);
    assert_int_equal(a.rows->ops->put_task(a.rows, &task, &err), 0);
    store_commit(a.rows);
    node_close(&a);
}

static int run(struct postgres_server *p)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(task_of_one_node_is_found_on_another),
        cmocka_unit_test(tasks_fail_if_their_node_dies),
        cmocka_unit_test(stopped_node_leaves_no_running_tasks),
        cmocka_unit_test(expired_task_is_removed_and_reported_once),
        cmocka_unit_test(skewed_clock_does_not_expire_tasks),
        cmocka_unit_test(task_limit_covers_all_nodes),
        cmocka_unit_test(oversized_untrusted_rows_are_ignored),
        cmocka_unit_test(unstorable_task_is_rejected),
    };
    server = p;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
    return postgres_server_run(run);
}
