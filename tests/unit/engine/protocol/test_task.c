/* SPDX-License-Identifier: MIT
 *
 * The task table: owners, limits, ends, expiry, and stored rows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/thread.h"
#include "base/time.h"
#include "engine/protocol/tasks.h"
#include "formats/json.h"
#include "security/limits.h"
#include "security/principal.h"
#include "support/fail_alloc.h"

#define HOUR_MS UINT64_C(3600000)

static struct clock_fake now;
static struct limit_counters counters;
static struct tasks *all;
static struct loop *loop;
static struct mailbox *home;
static unsigned changes, gone, answered, cancelled;
static char heard[256];

static const struct principal alice = {.kind = PRINCIPAL_TOKEN, .name = {"alice", 5}};
static const struct principal bob = {.kind = PRINCIPAL_TOKEN, .name = {"bob", 3}};
static const struct principal uid_alice = {.kind = PRINCIPAL_USER, .name = {"alice", 5}};

static void on_change(void *user, struct tidings_str uri, bool is_gone)
{
    (void)user;
    assert_true(owned_uri_is(uri));
    changes += !is_gone;
    gone += is_gone;
}

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

static int setup(void **state)
{
    (void)state;
    now = (struct clock_fake){.monotonic_ns = 1000000000000, .wall_ms = 1700000000000};
    clock_set_fake(&now);
    changes = gone = answered = cancelled = 0;
    limit_counters_init(&counters);
    loop = loop_create(NULL);
    home = mailbox_create(loop, &all, NULL);
    all = tasks_create(&counters);
    tasks_on_change(all, on_change, NULL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tasks_destroy(all);
    mailbox_close(home);
    mailbox_unref(home);
    loop_destroy(loop);
    clock_set_fake(NULL);
    return 0;
}

static void later(uint64_t ms)
{
    now.monotonic_ns += ms * 1000000;
    now.wall_ms += (int64_t)ms;
}

static void opened(void *user, int code)
{
    *(int *)user = code;
}

static int try_open(const struct principal *p, const char *client, size_t max_client,
                    struct task **ret, struct refusal *why)
{
    const struct task_spec spec = {
        .principal = p,
        .client = tidings_str(client),
        .max = 5, /* the last task, for operators */
        .max_client = max_client,
        .ttl_ms = HOUR_MS,
        .home = home,
        .call = (struct tidings_call *)(uintptr_t)&spec,
    };
    return tasks_open(all, &spec, &ops, ret, why);
}

static struct task *begin(const struct principal *p)
{
    struct task *t = NULL;
    int code = -1;
    assert_int_equal(try_open(p, "c", 0, &t, NULL), 0);
    task_publish(t, opened, &code);
    assert_int_equal(code, 0);
    return t;
}

/* The result of tasks/get. */
static const char *shown(struct task *t)
{
    static char text[4096];
    struct buf out;
    struct jw w;
    buf_init(&out, sizeof(text) - 1);
    jw_init(&w, &out);
    jw_begin_object(&w);
    task_write(t, &w, true);
    jw_end_object(&w);
    assert_int_equal(out.failed, 0);
    memcpy(text, out.ptr, out.len + 1);
    buf_deinit(&out);
    return text;
}

static void assert_shows(struct task *t, const char *piece)
{
    if (!strstr(shown(t), piece)) {
        fail_msg("%s is not in %s", piece, shown(t));
    }
}

static bool is_found(struct task *t, const struct principal *p)
{
    struct task *found = tasks_find(all, task_id(t), p);
    task_unref(found);
    return found != NULL;
}

static struct json *parsed(const char *text)
{
    struct json *v = NULL;
    assert_int_equal(jv_parse(tidings_str(text), JSON_MAX_DEPTH, &v, NULL), 0);
    return v;
}

/* ---- owners ---------------------------------------------------------------------------------- */

static void task_is_found_only_by_its_owner(void **state)
{
    (void)state;
    struct task *t = begin(&alice);
    assert_true(is_found(t, &alice));
    assert_false(is_found(t, &bob));
    assert_false(is_found(t, &uid_alice)); /* authenticated in another way: another principal */
    assert_true(is_found(t, NULL));        /* the program */
    assert_null(tasks_find(all, STR("nothing"), &alice));
    assert_null(tasks_find(all, STR(""), NULL));
    task_detach(t);
}

static void task_is_not_found_before_it_is_published(void **state)
{
    (void)state;
    struct task *t = NULL;
    assert_int_equal(try_open(&alice, "c", 0, &t, NULL), 0);
    assert_false(is_found(t, &alice));
    task_discard(t);
    task_detach(t);
    assert_int_equal(limit_in_use(&counters, LIMIT_TASKS), 0);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void client_limit_leaves_space_for_others(void **state)
{
    (void)state;
    struct task *t[4] = {NULL};
    struct refusal why;
    assert_int_equal(try_open(&alice, "a", 2, &t[0], &why), 0);
    assert_int_equal(try_open(&alice, "a", 2, &t[1], &why), 0);
    assert_int_equal(try_open(&alice, "a", 2, &t[2], &why), TIDINGS_E_LIMIT);
    assert_int_equal(why.limit, LIMIT_CLIENT_TASKS);
    assert_true(why.is_own);
    assert_int_equal(try_open(&bob, "b", 2, &t[2], &why), 0);
    task_discard(t[0]);
    task_detach(t[0]);
    assert_int_equal(try_open(&alice, "a", 2, &t[0], &why), 0);
    for (int i = 0; i < 3; i++) {
        task_discard(t[i]);
        task_detach(t[i]);
    }
}

static void tasks_of_all_clients_are_limited(void **state)
{
    (void)state;
    struct task *t[5] = {NULL};
    struct refusal why;
    for (int i = 0; i < 4; i++) {
        t[i] = begin(&alice);
    }
    assert_int_equal(try_open(&bob, "b", 0, &t[4], &why), TIDINGS_E_LIMIT);
    assert_int_equal(why.limit, LIMIT_TASKS);
    assert_false(why.is_own);
    /* An ended task counts while it is kept, and while its handler runs. */
    assert_true(task_end(t[0], TASK_COMPLETED, STR_EMPTY, STR("{}")));
    assert_int_equal(try_open(&bob, "b", 0, &t[4], &why), TIDINGS_E_LIMIT);
    later(HOUR_MS);
    assert_int_equal(try_open(&bob, "b", 0, &t[4], &why), TIDINGS_E_LIMIT);
    assert_int_equal(gone, 1);
    task_detach(t[0]);
    assert_int_equal(try_open(&bob, "b", 0, &t[4], &why), 0);
    for (int i = 1; i < 5; i++) {
        task_discard(t[i]);
        task_detach(t[i]);
    }
}

static void result_over_budget_becomes_error(void **state)
{
    (void)state;
    size_t len = TASKS_BYTES - TASKS_BYTES / SHARE_RESERVE - 100; /* all but the reserve */
    char *large = malloc(len);
    assert_non_null(large);
    memset(large, ' ', len);
    struct task *first = begin(&alice), *second = begin(&alice);
    assert_true(task_end(first, TASK_COMPLETED, STR_EMPTY, tidings_strn(large, len)));
    assert_true(task_end(second, TASK_COMPLETED, STR_EMPTY, tidings_strn(large, 1000)));
    assert_shows(second, "\"failed\"");
    assert_shows(second, "task-bytes");
    assert_int_equal(counters.hits[LIMIT_TASK_BYTES], 1);
    task_detach(first);
    task_detach(second);
    free(large);
}

/* ---- the end --------------------------------------------------------------------------------- */

static void first_end_wins(void **state)
{
    (void)state;
    struct task *t = begin(&alice);
    assert_shows(t, "\"status\":\"working\"");
    assert_true(task_end(t, TASK_COMPLETED, STR_EMPTY, STR("{\"content\":[]}")));
    assert_false(task_end(t, TASK_FAILED, STR("late"), STR("{\"code\":1}")));
    task_cancel(t);
    loop_turn(loop);
    assert_int_equal(cancelled, 0);
    assert_shows(t, "\"status\":\"completed\"");
    assert_shows(t, "\"result\":{\"content\":[]}");
    task_detach(t);
    t = begin(&alice);
    task_cancel(t);
    assert_false(task_end(t, TASK_COMPLETED, STR_EMPTY, STR("{}")));
    assert_shows(t, "\"status\":\"cancelled\"");
    assert_null(strstr(shown(t), "result"));
    loop_turn(loop);
    assert_int_equal(cancelled, 1);
    task_detach(t);
}

static void task_is_kept_for_its_time_to_live(void **state)
{
    (void)state;
    struct task *t = begin(&alice), *other = begin(&alice);
    assert_true(tasks_due_ms(all) == UINT64_MAX); /* running tasks have no expiry */
    assert_true(task_end(t, TASK_COMPLETED, STR_EMPTY, STR("{}")));
    later(HOUR_MS - 1);
    tasks_sweep(all);
    assert_true(is_found(t, &alice));
    later(1);
    assert_false(is_found(t, &alice)); /* before and after the sweep */
    tasks_sweep(all);
    assert_int_equal(gone, 1);
    assert_true(is_found(other, &alice));
    size_t count[TASK_CANCELLED + 1];
    tasks_count(all, count);
    assert_int_equal(count[TASK_WORKING], 1);
    assert_int_equal(count[TASK_COMPLETED], 0);
    task_detach(t);
    task_detach(other);
}

static void late_result_is_readable_for_a_minute(void **state)
{
    (void)state;
    struct task *t = begin(&alice);
    later(HOUR_MS - 1000);
    assert_true(task_end(t, TASK_COMPLETED, STR_EMPTY, STR("{}")));
    assert_shows(t, "\"ttlMs\":3659000");
    later(TASK_KEPT_MS - 1);
    assert_true(is_found(t, &alice));
    later(1);
    assert_false(is_found(t, &alice));
    task_detach(t);
}

static void ended_tasks_expire_in_order(void **state)
{
    (void)state;
    struct task *t[4];
    for (int i = 0; i < 4; i++) {
        t[i] = begin(&alice);
        later(1000);
    }
    static const int order[] = {2, 0, 3, 1}; /* the order of their ends */
    for (int i = 0; i < 4; i++) {
        assert_true(task_end(t[order[i]], TASK_CANCELLED, STR_EMPTY, STR_EMPTY));
    }
    later(HOUR_MS - 4000);
    for (int i = 0; i < 4; i++) {
        tasks_sweep(all);
        assert_int_equal(gone, i + 1);
        assert_false(is_found(t[i], &alice));
        assert_true(i == 3 || is_found(t[i + 1], &alice));
        later(1000);
    }
    for (int i = 0; i < 4; i++) {
        task_detach(t[i]);
    }
}

/* ---- questions ------------------------------------------------------------------------------- */

static void ask(struct task *t, unsigned round, const char *questions)
{
    struct json *asked = parsed(questions);
    assert_int_equal(task_ask(t, round, asked, NULL), 0);
    jv_unref(asked);
}

static void answer(struct task *t, const char *answers)
{
    struct json *given = parsed(answers);
    assert_int_equal(task_answer(t, given, NULL), 0);
    jv_unref(given);
    loop_turn(loop);
}

static void task_continues_when_all_questions_are_answered(void **state)
{
    (void)state;
    struct task *t = begin(&alice);
    answer(t, "{\"1.a\":{\"x\":0}}"); /* not waiting: ignored */
    ask(t, 1, "{\"a\":{\"method\":\"m\"},\"b\":{\"method\":\"n\"}}");
    assert_shows(t, "\"inputRequests\":{\"1.a\":{\"method\":\"m\"},\"1.b\":{\"method\":\"n\"}}");
    answer(t, "{\"1.c\":{},\"a\":{},\"1.a\":{\"x\":1}}");
    assert_shows(t, "\"inputRequests\":{\"1.b\":{\"method\":\"n\"}}");
    answer(t, "{\"1.a\":{\"x\":2}}"); /* a repeated answer: the first wins */
    assert_int_equal(answered, 0);
    answer(t, "{\"1.b\":{\"y\":1}}");
    assert_int_equal(answered, 1);
    assert_string_equal(heard, "{\"a\":{\"x\":1},\"b\":{\"y\":1}}");
    assert_shows(t, "\"status\":\"working\"");
    answer(t, "{\"1.b\":{\"y\":2}}");
    assert_int_equal(answered, 1);
    ask(t, 2, "{\"a\":{\"method\":\"m\"}}"); /* the same name is a new key */
    answer(t, "{\"1.a\":{\"x\":3}}");
    assert_shows(t, "\"2.a\"");
    task_cancel(t);
    answer(t, "{\"2.a\":{\"x\":4}}");
    assert_int_equal(answered, 1);
    assert_null(strstr(shown(t), "inputRequests"));
    task_detach(t);
}

static void oversized_answers_are_refused(void **state)
{
    (void)state;
    struct task *t = begin(&alice);
    struct tidings_error err;
    char *text = malloc(TASK_MAX_ANSWERS + 64);
    assert_non_null(text);
    int at = snprintf(text, 64, "{\"1.a\":{\"x\":\"");
    memset(text + at, 'x', TASK_MAX_ANSWERS);
    snprintf(text + at + TASK_MAX_ANSWERS, 8, "\"}}");
    ask(t, 1, "{\"a\":{\"method\":\"m\"}}");
    struct json *given = parsed(text);
    assert_int_equal(task_answer(t, given, &err), TIDINGS_E_LIMIT);
    jv_unref(given);
    assert_shows(t, "\"1.a\"");
    answer(t, "{\"1.a\":{\"x\":1}}");
    assert_int_equal(answered, 1);
    task_detach(t);
    free(text);
}

static void long_message_is_cut_between_letters(void **state)
{
    (void)state;
    char text[2 * TASK_MAX_MESSAGE];
    struct task *t = begin(&alice);
    unsigned before = changes;
    for (size_t i = 0; i < sizeof(text); i += 2) {
        memcpy(text + i, "\xc3\xa9", 2);
    }
    task_set_message(t, tidings_strn(text, sizeof(text)));
    assert_int_equal(changes, before + 1);
    assert_true(str_is_utf8(tidings_str(shown(t))));
    assert_null(strstr(shown(t), "\xef\xbf\xbd"));
    task_set_message(t, tidings_strn(text, sizeof(text)));
    assert_int_equal(changes, before + 1); /* equal content */
    task_detach(t);
}

/* ---- the store ------------------------------------------------------------------------------- */

static struct {
    struct task_store base;
    char id[64], status[16], payload[128];
    struct task_row row;
    void (*done)(void *user, int code);
    void *user;
    unsigned puts, sweeps;
} kept;

static void store_put(struct task_store *store, const struct task_row *row,
                      void (*done)(void *user, int code), void *user)
{
    (void)store;
    snprintf(kept.id, sizeof(kept.id), "%.*s", STR_ARG(row->id));
    snprintf(kept.payload, sizeof(kept.payload), "%.*s", STR_ARG(row->payload));
    kept.row = *row;
    kept.row.id = tidings_str(kept.id);
    kept.row.payload = tidings_str(kept.payload);
    kept.row.client = STR("c");
    kept.row.message = STR_EMPTY;
    kept.done = done;
    kept.user = user;
    kept.puts++;
}

static void store_sweep(struct task_store *store, int64_t now_ms)
{
    (void)store;
    (void)now_ms;
    kept.sweeps++;
}

static void use_store(void)
{
    memset(&kept, 0, sizeof(kept));
    kept.base = (struct task_store){.put = store_put, .sweep = store_sweep};
    tasks_set_store(all, &kept.base);
}

static void task_is_visible_once_stored(void **state)
{
    (void)state;
    struct task *t = NULL;
    int code = 1;
    use_store();
    assert_int_equal(try_open(&alice, "c", 0, &t, NULL), 0);
    task_publish(t, opened, &code);
    assert_false(is_found(t, &alice));
    assert_int_equal(code, 1);
    kept.done(kept.user, 0);
    assert_int_equal(code, 0);
    assert_true(is_found(t, &alice));
    assert_true(task_end(t, TASK_COMPLETED, STR_EMPTY, STR("{\"content\":[]}")));
    assert_shows(t, "\"working\"");
    assert_int_equal(kept.row.status, TASK_COMPLETED);
    kept.done(kept.user, TIDINGS_E_IO); /* the disk is full: it ends regardless */
    assert_shows(t, "\"completed\"");
    later(HOUR_MS);
    tasks_sweep(all);
    assert_int_equal(kept.sweeps, 1);
    task_detach(t);
}

static void task_is_discarded_if_the_store_fails(void **state)
{
    (void)state;
    struct task *t = NULL;
    int code = 1;
    use_store();
    assert_int_equal(try_open(&alice, "c", 0, &t, NULL), 0);
    task_publish(t, opened, &code);
    kept.done(kept.user, TIDINGS_E_IO);
    assert_int_equal(code, TIDINGS_E_IO);
    task_discard(t);
    assert_false(is_found(t, &alice));
    task_detach(t);
    assert_int_equal(limit_in_use(&counters, LIMIT_TASKS), 0);
}

static void results_survive_a_restart_and_running_tasks_fail(void **state)
{
    (void)state;
    char id[OWNED_ID_LEN + 1];
    assert_int_equal(owned_id_create(&alice, id), 0);
    struct task_row row = {
        .id = tidings_str(id),
        .client = STR("c"),
        .status = TASK_COMPLETED,
        .created_ms = now.wall_ms - 1000,
        .updated_ms = now.wall_ms - 500,
        .ttl_ms = HOUR_MS,
        .payload = STR("{\"content\":[1]}"),
    };
    assert_true(tasks_restore(all, &row));
    assert_false(tasks_restore(all, &row)); /* once */
    struct task *t = tasks_find(all, row.id, &alice);
    assert_non_null(t);
    assert_shows(t, "\"result\":{\"content\":[1]}");
    task_cancel(t); /* nothing happens */
    assert_shows(t, "\"completed\"");
    assert_null(tasks_find(all, row.id, &bob));
    task_unref(t);
    assert_int_equal(owned_id_create(&alice, id), 0);
    row.status = TASK_INPUT_REQUIRED;
    row.payload = STR_EMPTY;
    assert_true(tasks_restore(all, &row));
    t = tasks_find(all, row.id, &alice);
    assert_shows(t, "\"failed\"");
    assert_shows(t, "the server was stopped while the task ran");
    task_unref(t);
    later(HOUR_MS - 1000);
    tasks_sweep(all);
    assert_int_equal(gone, 2);
    row.created_ms -= HOUR_MS;
    assert_false(tasks_restore(all, &row)); /* too old */
    row.created_ms = INT64_MIN;             /* a damaged row */
    assert_false(tasks_restore(all, &row));
    row.created_ms = INT64_MAX; /* or the clock was set back: it counts from the current time */
    assert_true(tasks_restore(all, &row));
    later(HOUR_MS);
    tasks_sweep(all);
    assert_int_equal(gone, 3);
    assert_int_equal(limit_in_use(&counters, LIMIT_TASKS), 0);
}

static void failed_allocation_starts_no_task_and_leaks_nothing(void **state)
{
    bool is_reached = true;
    for (long n = 1; is_reached; n++) {
        struct refusal why;
        struct task *t = NULL;
        fail_alloc_start(0);
        (void)setup(state);
        fail_alloc_start(n);
        int rc = try_open(&alice, "c", 0, &t, &why);
        is_reached = fail_alloc_stop();
        assert_int_equal(rc, is_reached ? TIDINGS_E_NOMEM : 0);
        assert_int_equal(limit_in_use(&counters, LIMIT_TASKS), rc == 0);
        if (rc == 0) {
            task_discard(t);
            task_detach(t);
        }
        (void)teardown(state);
        assert_int_equal(fail_alloc_live(), 0);
        assert_true(is_reached || n > 3);
    }
    fail_alloc_end();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(task_is_found_only_by_its_owner),
        TEST(task_is_not_found_before_it_is_published),
        TEST(client_limit_leaves_space_for_others),
        TEST(tasks_of_all_clients_are_limited),
        TEST(result_over_budget_becomes_error),
        TEST(first_end_wins),
        TEST(task_is_kept_for_its_time_to_live),
        TEST(late_result_is_readable_for_a_minute),
        TEST(ended_tasks_expire_in_order),
        TEST(task_continues_when_all_questions_are_answered),
        TEST(oversized_answers_are_refused),
        TEST(long_message_is_cut_between_letters),
        TEST(task_is_visible_once_stored),
        TEST(task_is_discarded_if_the_store_fails),
        TEST(results_survive_a_restart_and_running_tasks_fail),
        cmocka_unit_test(failed_allocation_starts_no_task_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
