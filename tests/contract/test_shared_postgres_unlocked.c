/* SPDX-License-Identifier: MIT
 *
 * Batches without the database lock (cluster/postgres_commit.c): committed by one statement if no
 * other node committed since, otherwise rerun. If the connection is lost, the node determines
 * whether the commit succeeded.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/time.h"
#include "store/entities.h"
#include "support/postgres.h"
#include "support/postgres_proxy.h"
#include "support/store_steps.h"

static struct postgres_server *server;
static char url[POSTGRES_URL], schema[32];

static void new_schema(void)
{
    postgres_server_fresh(server, url);
    (void)snprintf(schema, sizeof schema, "%s", postgres_url_schema(url));
}

/* A node that has had the lock, and is up to date. */
static struct store *open_settled(const char *at)
{
    struct store *store = store_open(at);
    store_begin(store);
    (void)store_followed(store, true);
    store_commit(store);
    return store;
}

static void begin_unlocked(struct store *store)
{
    assert_true(store->ops->begin_unlocked(store));
}

/* Like the commit thread: from the start, with the lock, and after the others. */
static const char *begin_again(struct store *store)
{
    assert_true(store->ops->must_run_again(store));
    store->ops->rollback(store);
    store_begin(store);
    return store_followed(store, true);
}

static int commit_fails(struct store *store)
{
    struct tidings_error err = {0};
    int rc = store->ops->commit(store, &err);
    assert_true(rc < 0);
    return rc;
}

static long long number(const char *sql)
{
    return postgres_server_number(server, schema, sql);
}

/* ---- alone ----------------------------------------------------------------------------------- */

static void batch_without_lock_is_stored_normally(void **state)
{
    (void)state;
    new_schema();
    struct store *a = open_settled(url), *b = open_settled(url);
    begin_unlocked(a);
    store_put(a, "x", 1, "1");
    assert_int_equal(store_value(a, "x"), 1); /* it sees what it wrote */
    assert_int_equal(store_value(b, "x"), -1);
    store_commit(a);
    begin_unlocked(a);
    store_put(a, "x", 2, "2");
    store_put(a, "y", 1, "7");
    store_commit(a);
    begin_unlocked(a);
    (void)store_announce(a, "n:///1");
    store_commit(a);
    begin_unlocked(a);
    (void)store_announce(a, "n:///2");
    (void)store_announce(a, "n:///3");
    store_commit(a);
    assert_string_equal(store_followed(a, true), ""); /* its own */
    assert_string_equal(store_followed(b, true),
                        "1 entity x\n2 entity x\n3 entity y\n4 announced n:///1 e o 7\n"
                        "5 announced n:///2 e o 7\n6 announced n:///3 e o 7\n");
    assert_int_equal(store_value(b, "x"), 2);
    assert_int_equal(store_value(b, "y"), 7);
    assert_int_equal(number("SELECT position FROM tidings_state"), 6);
    assert_int_equal(number("SELECT count(*) FROM tidings_current"), 2);
    assert_int_equal(a->ops->followed(a), 6);
    store_close(a);
    store_close(b);
}

static void rolled_back_batch_leaves_nothing(void **state)
{
    (void)state;
    new_schema();
    struct store *a = open_settled(url), *b = open_settled(url);
    begin_unlocked(a);
    store_put(a, "x", 1, "1");
    a->ops->rollback(a);
    assert_false(a->ops->must_run_again(a));
    assert_int_equal(store_value(a, "x"), -1);
    begin_unlocked(a);
    store_put(a, "x", 1, "2");
    store_commit(a);
    assert_int_equal(store_value(a, "x"), 2);
    assert_string_equal(store_followed(b, true), "1 entity x\n");
    store_close(a);
    store_close(b);
}

/* ---- overtaken ------------------------------------------------------------------------------- */

static void overtaken_batch_reruns_after_the_winner(void **state)
{
    (void)state;
    new_schema();
    struct store *a = open_settled(url), *b = open_settled(url), *c = open_settled(url);
    begin_unlocked(a);
    store_put(a, "x", 1, "1");
    store_put(a, "z", 1, "1");
    store_put_alone(b, "x", 1, "9"); /* no node delays it */
    assert_int_equal(commit_fails(a), TIDINGS_E_BUSY);
    assert_int_equal(store_value(a, "x"), 9); /* this node keeps none of the batch */
    assert_int_equal(store_value(a, "z"), -1);
    assert_string_equal(begin_again(a), "1 entity x\n");
    assert_int_equal(store_value(a, "x"), 9);
    store_put(a, "x", 2, "10");
    store_commit(a);
    assert_string_equal(store_followed(b, true), "2 entity x\n");
    assert_string_equal(store_followed(c, true), "1 entity x\n2 entity x\n");
    assert_int_equal(number("SELECT count(*) FROM tidings_versions"), 2);
    store_close(a);
    store_close(b);
    store_close(c);
}

/* Rejections and unchanged values count only if no other node wrote. */
static void readonly_batch_can_be_overtaken(void **state)
{
    (void)state;
    new_schema();
    struct store *a = open_settled(url), *b = open_settled(url);
    begin_unlocked(a);
    assert_int_equal(store_value(a, "x"), -1);
    store_commit(a);
    begin_unlocked(a);
    assert_int_equal(store_value(a, "x"), -1);
    store_put_alone(b, "x", 1, "9");
    assert_int_equal(commit_fails(a), TIDINGS_E_BUSY);
    assert_string_equal(begin_again(a), "1 entity x\n");
    assert_int_equal(store_value(a, "x"), 9);
    store_commit(a);
    store_close(a);
    store_close(b);
}

/* The first version in a transaction is the base of the second. */
static int compare_and_set(struct entities *e, struct arena *arena, int64_t baseline,
                           const char *value)
{
    struct tidings_error err = {0};
    struct entity_problem problem;
    struct entity_done done;
    struct json *v = NULL;
    assert_int_equal(jv_parse(tidings_str(value), JSON_MAX_DEPTH, &v, &err), 0);
    const struct entity_write w = {.op = ENTITY_UPSERT,
                                   .id = STR("x"),
                                   .type = STR("T"),
                                   .type_version = STR("1"),
                                   .value = v,
                                   .baseline = baseline,
                                   .valid_from = TIMELINE_NEVER,
                                   .changed_by = STR("[]")};
    const struct entity_transaction t = {.writes = &w, .count = 1, .now = entities_now(e)};
    int rc = entities_transact(e, &t, arena, &done, &problem, &err);
    jv_unref(v);
    return rc;
}

static void compare_and_set_uses_value_at_commit(void **state)
{
    (void)state;
    new_schema();
    struct tidings_error err = {0};
    struct arena arena;
    struct store *a = open_settled(url), *b = open_settled(url);
    struct entities *e = NULL;
    const struct entity_type_row type = {
        .name = STR("T"), .version = STR("1"), .schema = STR("{}")};
    store_begin(b);
    assert_int_equal(b->ops->put_type(b, &type, NULL), 0);
    store_put(b, "x", 1, "1");
    store_commit(b);
    (void)store_followed(a, true);
    arena_init(&arena, 1u << 20);
    assert_int_equal(entities_open(a, &e, &err), 0);
    assert_int_equal(store_value(a, "x"), 1); /* known here */
    assert_true(entities_begin_unlocked(e));
    assert_int_equal(compare_and_set(e, &arena, 1, "2"), 0); /* as far as is known here */
    store_put_alone(b, "x", 2, "9");
    assert_true(entities_commit(e, &err) < 0);
    assert_true(a->ops->must_run_again(a));
    assert_int_equal(entities_begin(e, &err), 0);
    assert_string_equal(store_followed(a, true), "3 entity x\n");
    assert_int_equal(compare_and_set(e, &arena, 1, "2"), TIDINGS_E_CONFLICT);
    assert_int_equal(compare_and_set(e, &arena, 2, "3"), 0);
    assert_int_equal(entities_commit(e, &err), 0);
    assert_string_equal(store_followed(b, true), "4 entity x\n");
    assert_int_equal(store_value(b, "x"), 3);
    arena_deinit(&arena);
    entities_close(e);
    store_close(b);
}

/* ---- over to the lock ------------------------------------------------------------------------ */

static void store_put_type(struct store *store, const char *version)
{
    const struct entity_type_row type = {.name = STR("T"), .version = tidings_str(version)};
    assert_int_equal(store->ops->put_type(store, &type, NULL), 0);
}

static void urgent_batch_takes_the_lock(void **state)
{
    (void)state;
    new_schema();
    struct store *a = open_settled(url), *b = open_settled(url);
    begin_unlocked(a);
    store_put(a, "x", 1, "1");
    store_put(a, "x", 2, "2"); /* a second version of the same entity */
    store_commit(a);
    begin_unlocked(a);
    store_put(a, "y", 1, "1");
    store_put_type(a, "1");
    (void)store_announce(a, "n:///1");
    store_commit(a);
    begin_unlocked(a);
    store_put(a, "y", 2, "2");
    (void)store_announce(a, "n:///2"); /* both kinds */
    store_commit(a);
    begin_unlocked(a);
    const struct entity_key key = {.owner = STR("o"), .key = STR("k"), .digest = STR("d")};
    assert_int_equal(a->ops->put_key(a, &key, NULL), 0);
    store_commit(a);
    assert_string_equal(store_followed(b, true),
                        "1 entity x\n2 entity x\n3 entity y\n4 types\n5 announced n:///1 e o 7\n"
                        "6 entity y\n7 announced n:///2 e o 7\n");
    assert_int_equal(number("SELECT keys FROM tidings_state"), 1);
    store_close(a);
    store_close(b);
}

static void batch_reruns_if_it_locks_too_late(void **state)
{
    (void)state;
    new_schema();
    struct store *a = open_settled(url), *b = open_settled(url);
    struct tidings_error err = {0};
    const struct entity_type_row type = {.name = STR("T"), .version = STR("1")};
    begin_unlocked(a);
    store_put(a, "x", 1, "1");
    store_put_alone(b, "y", 1, "1");
    assert_int_equal(a->ops->put_type(a, &type, &err), TIDINGS_E_BUSY);
    assert_string_equal(begin_again(a), "1 entity y\n");
    store_put(a, "x", 1, "1");
    store_put_type(a, "1");
    store_commit(a);
    assert_string_equal(store_followed(b, true), "2 entity x\n3 types\n");
    assert_int_equal(number("SELECT count(*) FROM tidings_versions WHERE id='x'"), 1);
    store_close(a);
    store_close(b);
}

/* Counters that rise without a position (keys) are read with the lock. */
static void keys_of_other_nodes_are_counted(void **state)
{
    (void)state;
    new_schema();
    struct store *a = open_settled(url), *b = open_settled(url);
    const struct entity_key of_b = {.owner = STR("o"), .key = STR("b"), .digest = STR("d")};
    const struct entity_key of_a = {.owner = STR("o"), .key = STR("a"), .digest = STR("d")};
    store_begin(b);
    assert_int_equal(b->ops->put_key(b, &of_b, NULL), 0);
    store_commit(b);
    begin_unlocked(a);
    store_put(a, "x", 1, "1");
    assert_int_equal(a->ops->put_key(a, &of_a, NULL), 0);
    store_commit(a);
    assert_int_equal(number("SELECT keys FROM tidings_state"), 2);
    assert_int_equal(number("SELECT count(DISTINCT number) FROM tidings_keys"), 2);
    store_close(a);
    store_close(b);
}

/* ---- how often ------------------------------------------------------------------------------- */

static void overtake(struct store *a, struct store *b, int64_t from)
{
    begin_unlocked(a);
    store_put_alone(b, "x", from, "1");
    assert_int_equal(commit_fails(a), TIDINGS_E_BUSY);
    (void)begin_again(a);
    store_commit(a);
    (void)store_followed(b, true);
}

/* Runs batches with the lock until one may run without. */
static unsigned count_locked(struct store *a)
{
    unsigned count = 0;
    while (!a->ops->begin_unlocked(a)) {
        store_begin(a);
        store_commit(a);
        assert_true(++count < 1000);
    }
    a->ops->rollback(a);
    return count;
}

static void repeatedly_overtaken_node_tries_less_often(void **state)
{
    (void)state;
    new_schema();
    struct store *a = open_settled(url), *b = open_settled(url);
    unsigned before = 0;
    for (int64_t i = 1; i <= 8; i++) {
        overtake(a, b, i);
        unsigned count = count_locked(a);
        assert_true(count > before || count == 64);
        before = count;
    }
    assert_int_equal(before, 64);
    overtake(a, b, 9); /* other nodes' changes arrive with the lock: it does not start counting */
    for (int64_t i = 10; i < 100; i++) {
        store_put_alone(b, "x", i, "1");
        store_begin(a);
        (void)store_followed(a, true);
        store_commit(a);
        assert_false(a->ops->begin_unlocked(a));
    }
    assert_int_equal(count_locked(a), 64);
    for (int i = 0; i < 64; i++) { /* and it resets without conflicts */
        begin_unlocked(a);
        store_commit(a);
    }
    (void)store_followed(b, true);
    overtake(a, b, 100);
    assert_in_range(count_locked(a), 1, 8);
    store_close(a);
    store_close(b);
}

/* ---- the connection is lost ------------------------------------------------------------------ */

static struct store *open_through(const struct postgres_proxy *p)
{
    char through[POSTGRES_URL];
    return open_settled(postgres_proxy_url(p, url, through));
}

static int begin_soon(struct store *store)
{
    struct tidings_error err = {0};
    store->ops->rollback(store);
    return store->ops->begin(store, &err);
}

static void unanswered_commit_is_detected_as_lost(void **state)
{
    (void)state;
    new_schema();
    struct postgres_proxy *p = postgres_proxy_start(server);
    struct store *a = open_through(p), *b = open_settled(url);
    begin_unlocked(a);
    store_put(a, "x", 1, "1");
    postgres_proxy_be(p, PROXY_LOSE_QUESTION);
    assert_int_equal(commit_fails(a), TIDINGS_E_UNKNOWN);
    assert_true(a->ops->must_run_again(a));
    postgres_proxy_be(p, PROXY_PASS);
    assert_int_equal(begin_soon(a), 0);
    store_put(a, "x", 1, "1");
    store_commit(a);
    assert_string_equal(store_followed(a, true), "");
    assert_string_equal(store_followed(b, true), "1 entity x\n");
    store_close(a);
    store_close(b);
    postgres_proxy_stop(p);
}

static void unanswered_commit_is_unknown_if_kept(void **state)
{
    (void)state;
    new_schema();
    struct postgres_proxy *p = postgres_proxy_start(server);
    struct store *a = open_through(p), *b = open_settled(url);
    begin_unlocked(a);
    store_put(a, "x", 1, "1");
    postgres_proxy_be(p, PROXY_LOSE_ANSWER);
    assert_int_equal(commit_fails(a), TIDINGS_E_UNKNOWN);
    assert_true(a->ops->must_run_again(a));
    postgres_proxy_be(p, PROXY_PASS);
    assert_int_equal(begin_soon(a),
                     TIDINGS_E_UNKNOWN); /* another node wrote: this one, or a third */
    assert_false(a->ops->must_run_again(a));
    assert_string_equal(store_followed(a, true), "1 entity x\n"); /* like another's */
    assert_string_equal(store_followed(b, true), "1 entity x\n");
    store_put_alone(a, "x", 2, "2");
    assert_string_equal(store_followed(b, true), "2 entity x\n");
    store_close(a);
    store_close(b);
    postgres_proxy_stop(p);
}

/* The statement arrives too late, after the rerun of the batch. */
static void late_commit_changes_nothing_after_rerun(void **state)
{
    (void)state;
    for (int writes = 0; writes < 2; writes++) {
        new_schema();
        struct postgres_proxy *p = postgres_proxy_start(server);
        struct store *a = open_through(p), *b = open_settled(url);
        begin_unlocked(a); /* its statements are prepared */
        store_put(a, "w", 1, "1");
        store_commit(a);
        begin_unlocked(a);
        store_put(a, "x", 1, "1");
        postgres_proxy_be(p, PROXY_HOLD_QUESTION);
        assert_int_equal(commit_fails(a), TIDINGS_E_UNKNOWN);
        postgres_proxy_be(p, PROXY_PASS);
        assert_int_equal(begin_soon(a), 0);
        if (writes) {
            store_put(a, "x", 1, "2");
        }
        store_commit(a);
        postgres_proxy_let_go(p);
        assert_int_equal(store_value(b, "x"), writes ? 2 : -1);
        assert_int_equal(number("SELECT position FROM tidings_state"), 2);
        assert_int_equal(number("SELECT count(*) FROM tidings_versions WHERE id='x'"), writes);
        assert_string_equal(store_followed(b, true),
                            writes ? "1 entity w\n2 entity x\n" : "1 entity w\n");
        assert_int_equal(b->ops->followed(b), 2);
        store_close(a);
        store_close(b);
        postgres_proxy_stop(p);
    }
}

/* Lost between two uses, undetected. */
static void connection_lost_between_batches_is_reopened(void **state)
{
    (void)state;
    new_schema();
    struct store *a = open_settled(url);
    for (int step = 0; step < 3; step++) {
        int rc = 0;
        struct tidings_error err = {0};
        struct entity_version found;
        store_put_alone(a, "w", step + 1, "1"); /* the connection is ready */
        (void)postgres_server_number(
            server, schema,
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE backend_type='client backend' AND pid<>pg_backend_pid()");
        while (!a->ops->begin_unlocked(a)) {
            store_begin(a);
            store_commit(a);
        }
        if (step == 0) { /* by reading */
            rc = a->ops->find(a, STR("other"), TIMELINE_FOREVER, &found, &err);
        } else if (step == 1) { /* by the lock */
            rc = a->ops->forget(a, STR("other"), 1, &err);
        } else {
            store_put(a, "x", 1, "1");
            rc = a->ops->commit(a, &err);
        }
        if (rc >= 0) {
            a->ops->rollback(a); /* the node noticed it before */
            continue;
        }
        assert_true(a->ops->must_run_again(a));
        assert_int_equal(begin_soon(a), 0);
        store_commit(a);
    }
    store_close(a);
}

static int run(struct postgres_server *p)
{
    server = p;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_without_lock_is_stored_normally),
        cmocka_unit_test(rolled_back_batch_leaves_nothing),
        cmocka_unit_test(overtaken_batch_reruns_after_the_winner),
        cmocka_unit_test(readonly_batch_can_be_overtaken),
        cmocka_unit_test(compare_and_set_uses_value_at_commit),
        cmocka_unit_test(urgent_batch_takes_the_lock),
        cmocka_unit_test(batch_reruns_if_it_locks_too_late),
        cmocka_unit_test(keys_of_other_nodes_are_counted),
        cmocka_unit_test(repeatedly_overtaken_node_tries_less_often),
        cmocka_unit_test(unanswered_commit_is_detected_as_lost),
        cmocka_unit_test(unanswered_commit_is_unknown_if_kept),
        cmocka_unit_test(late_commit_changes_nothing_after_rerun),
        cmocka_unit_test(connection_lost_between_batches_is_reopened),
    };
    return cmocka_run_group_tests_name("without the lock", tests, NULL, NULL);
}

int main(void)
{
    return postgres_server_run(run);
}
