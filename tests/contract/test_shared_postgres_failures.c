/* SPDX-License-Identifier: MIT
 *
 * Batches, cursors and followers when the database or its connection fails: a connection cut at
 * every step, a missing answer, a node that stalls with the lock, and a database that is restarted,
 * killed, or rolled back to an older state.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/time.h"
#include "cluster/postgres_nodes.h"
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

/* Closes every connection but the caller's. */
static void cut_all(void)
{
    (void)postgres_server_number(server, schema,
                                 "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                                 " WHERE backend_type='client backend' AND pid<>pg_backend_pid()");
}

/* Operations recover on their own, but not at once. */
static void recover(struct store *store)
{
    struct tidings_error err = {0};
    uint64_t until = clock_monotonic_ms() + 20000;
    while (store->ops->begin(store, &err) < 0) {
        assert_true(clock_monotonic_ms() < until);
        (void)poll(NULL, 0, 20);
    }
    store->ops->rollback(store);
}

static struct entity_version version(const char *id, int64_t from)
{
    return (struct entity_version){.id = tidings_str(id),
                                   .from = from,
                                   .type = STR("T"),
                                   .type_version = STR("1"),
                                   .value = STR("1"),
                                   .changed_by = STR("[]")};
}

/* ---- cut at every step ----------------------------------------------------------------------- */

static void batch_interrupted_at_any_step_leaves_nothing(void **state)
{
    (void)state;
    new_schema();
    struct store *a = store_open(url), *b = store_open(url);
    store_put_alone(a, "kept", 1, "1");
    for (int step = 1; step < 4; step++) {
        struct tidings_error err = {0};
        const struct entity_version v = version("cut", 1), w = version("cut", 2);
        struct entity_version found;
        int rc = a->ops->begin(a, &err);
        if (rc == 0 && step == 1) {
            cut_all();
        }
        bool begun = rc == 0;
        rc = rc == 0 ? a->ops->put(a, &v, false, &err) : rc;
        if (rc == 0 && step == 2) {
            cut_all();
            rc = a->ops->find(a, STR("other"), TIMELINE_FOREVER, &found, &err);
            assert_int_equal(rc, TIDINGS_E_BUSY);
        }
        rc = rc == 0 ? a->ops->put(a, &w, false, &err) : rc;
        if (rc == 0 && step == 3) {
            cut_all();
        }
        if (rc == 0) {
            rc = a->ops->commit(a, &err);
        } else if (begun) {
            a->ops->rollback(a);
        }
        assert_true(rc == TIDINGS_E_BUSY || rc == TIDINGS_E_UNKNOWN);
        assert_non_null(strstr(err.text, "database '"));
        recover(a);
        recover(b);
        assert_int_equal(store_value(a, "cut"), -1);
        assert_int_equal(store_value(a, "kept"), 1);
        assert_int_equal(a->ops->position(a), 1);
        assert_string_equal(store_followed(b, true), step == 1 ? "1 entity kept\n" : "");
    }
    cut_all(); /* between batches, undetected */
    assert_int_equal(store_put_alone(a, "after", 1, "1"), 2);
    cut_all();
    assert_int_equal(store_value(a, "kept"), 1);
    cut_all();
    assert_string_equal(store_followed(b, true), "2 entity after\n");
    store_close(a);
    store_close(b);
}

/* ---- an answer that never comes -------------------------------------------------------------- */

static struct store *open_through(const struct postgres_proxy *p)
{
    char through[POSTGRES_URL];
    return store_open(postgres_proxy_url(p, url, through));
}

static void unanswered_commit_is_resolved_by_following(void **state)
{
    (void)state;
    new_schema();
    struct postgres_proxy *p = postgres_proxy_start(server);
    struct store *a = open_through(p);
    struct tidings_error err = {0};
    store_put_alone(a, "x", 1, "1");
    store_begin(a);
    store_put(a, "x", 2, "2");
    postgres_proxy_be(p, PROXY_LOSE_ANSWER);
    assert_int_equal(a->ops->commit(a, &err), TIDINGS_E_UNKNOWN);
    assert_non_null(strstr(err.text, "not known"));
    postgres_proxy_be(p, PROXY_PASS);
    recover(a);
    assert_string_equal(store_followed(a, true), "2 entity x\n"); /* like another's */
    assert_int_equal(store_value(a, "x"), 2);
    store_begin(a);
    store_put(a, "x", 3, "3");
    postgres_proxy_be(p, PROXY_LOSE_QUESTION);
    assert_int_equal(a->ops->commit(a, &err), TIDINGS_E_UNKNOWN);
    postgres_proxy_be(p, PROXY_PASS);
    recover(a);
    assert_string_equal(store_followed(a, true), "");
    assert_int_equal(store_value(a, "x"), 2);
    assert_int_equal(store_put_alone(a, "y", 1, "1"), 3);
    store_close(a);
    postgres_proxy_stop(p);
}

static void silent_database_times_out_soon(void **state)
{
    (void)state;
    new_schema();
    struct postgres_proxy *p = postgres_proxy_start(server);
    struct store *a = open_through(p);
    struct tidings_error err = {0};
    store_put_alone(a, "x", 1, "1");
    postgres_proxy_be(p, PROXY_SILENT);
    uint64_t before = clock_monotonic_ms();
    assert_int_equal(a->ops->begin(a, &err), TIDINGS_E_BUSY);
    assert_in_range(clock_monotonic_ms() - before, 4000, 9000);
    before = clock_monotonic_ms(); /* and then no operation waits longer than a second */
    assert_int_equal(a->ops->begin(a, &err), TIDINGS_E_BUSY);
    assert_in_range(clock_monotonic_ms() - before, 0, 3000);
    postgres_proxy_be(p, PROXY_PASS);
    recover(a);
    assert_int_equal(store_value(a, "x"), 1);
    store_close(a);
    postgres_proxy_stop(p);
}

/* ---- standing still with the lock ------------------------------------------------------------ */

static void stalled_node_loses_the_lock(void **state)
{
    (void)state;
    new_schema();
    struct store *a = store_open(url), *b = store_open(url);
    struct tidings_error err = {0};
    store_begin(a);
    store_put(a, "x", 1, "1");
    uint64_t before = clock_monotonic_ms();
    store_begin(b); /* waits for the lock */
    assert_in_range(clock_monotonic_ms() - before, 1000, 10000);
    store_put(b, "y", 1, "1");
    store_commit(b);
    assert_int_equal(a->ops->commit(a, &err), TIDINGS_E_BUSY); /* certainly not kept */
    assert_non_null(strstr(err.text, "after a stall"));
    recover(a);
    assert_string_equal(store_followed(a, true), "1 entity y\n");
    assert_int_equal(store_value(a, "x"), -1);
    store_close(a);
    store_close(b);
}

/* ---- the database goes and comes ------------------------------------------------------------- */

static const struct changelog_limits limits = {.max_entries = 1000, .max_bytes = 1u << 20};

static void database_restart_loses_nothing(void **state)
{
    (void)state;
    new_schema();
    struct store *a = store_open(url), *b = store_open(url);
    struct tidings_error err = {0};
    store_put_alone(a, "x", 1, "1");
    store_announce_alone(a, "n:///1");
    postgres_server_down(server);
    assert_int_equal(a->ops->begin(a, &err), TIDINGS_E_BUSY);
    assert_int_equal(b->ops->follow(b, store_print, NULL, &err), TIDINGS_E_BUSY);
    assert_int_equal(b->ops->wake(b), 1);
    postgres_server_up(server);
    recover(a);
    recover(b);
    assert_string_equal(store_followed(b, true), "1 entity x\n2 announced n:///1 e o 7\n");
    assert_int_equal(store_put_alone(a, "y", 1, "1"), 3);
    store_close(a);
    store_close(b);
}

/* The node knows all entity ids, so a request for another id needs no database query. */
static void missing_entity_is_known_without_database(void **state)
{
    (void)state;
    new_schema();
    struct store *a = store_open(url), *b = store_open(url);
    struct entity_version v;
    struct tidings_error err = {0};
    store_put_alone(a, "x", 1, "1");
    while (b->ops->idle(b, &err) == 1) {
    }
    store_put_alone(a, "y", 1, "1");
    store_followed(b, false);
    postgres_server_down(server);
    assert_int_equal(b->ops->find(b, STR("z"), TIMELINE_FOREVER, &v, &err), 0);
    assert_int_equal(b->ops->find(b, STR("x"), TIMELINE_FOREVER, &v, &err), TIDINGS_E_BUSY);
    assert_int_equal(b->ops->find(b, STR("y"), TIMELINE_FOREVER, &v, &err), TIDINGS_E_BUSY);
    assert_int_equal(a->ops->find(a, STR("z"), TIMELINE_FOREVER, &v, &err), TIDINGS_E_BUSY);
    postgres_server_up(server);
    recover(a);
    recover(b);
    store_put_alone(a, "z", 1, "3");
    store_begin(b); /* not followed yet: the node queries the database */
    assert_int_equal(store_value(b, "z"), 3);
    b->ops->rollback(b);
    store_followed(b, false);
    assert_int_equal(store_value(b, "z"), 3);
    store_close(a);
    store_close(b);
}

static void database_crash_is_reported_to_every_node(void **state)
{
    (void)state;
    new_schema();
    struct store *a = store_open(url), *b = store_open(url);
    struct changelog *log = NULL;
    uint64_t number = 0;
    assert_int_equal(b->ops->create_changelog(b, &limits, &log, NULL), 0);
    uint64_t epoch = log->ops->epoch(log);
    store_followed(a, false);
    uint64_t kept = store_put_alone(a, "x", 1, "1");
    uint64_t announced = store_announce_alone(a, "n:///1");
    store_followed(b, false);
    assert_true(log->ops->resume(log, epoch, announced, true, &number));
    postgres_server_kill(server);
    postgres_server_up(server);
    recover(a);
    recover(b);
    /* One node records it, both follow it; the announcements are gone. */
    assert_string_equal(store_followed(a, false), "broken\n");
    assert_string_equal(store_followed(b, false), "broken\n");
    assert_true(a->ops->followed(a) > UINT64_C(1) << 40);
    assert_true(log->ops->resume(log, epoch, kept, true, &number)); /* the durable data exists */
    uint64_t next = store_put_alone(a, "y", 1, "1");
    assert_true(next > announced + (UINT64_C(1) << 40));
    assert_string_equal(store_followed(b, false), "entity y\n");
    assert_int_equal(postgres_server_number(server, schema, "SELECT count(*) FROM tidings_breaks"),
                     1);
    log->ops->destroy(log);
    store_close(a);
    store_close(b);
}

/* Writes until a write fails; `done` is the number of acknowledged writes. */
struct steady {
    pthread_t thread;
    unsigned round, done;
};

static void *write_steadily(void *user)
{
    struct steady *w = user;
    struct store *store = store_open(url);
    for (int rc = 0; rc == 0;) {
        char id[32];
        (void)snprintf(id, sizeof id, "r%u-%u", w->round, w->done);
        struct entity_version v = version(id, 1);
        rc = store->ops->begin(store, NULL);
        if (rc < 0) {
            break;
        }
        rc = store->ops->put(store, &v, false, NULL);
        if (rc < 0) {
            store->ops->rollback(store);
            break;
        }
        rc = store->ops->commit(store, NULL);
        __atomic_add_fetch(&w->done, rc == 0, __ATOMIC_RELEASE);
    }
    store_close(store);
    return NULL;
}

static void acknowledged_writes_survive_every_crash(void **state)
{
    (void)state;
    new_schema();
    struct store *reader = store_open(url);
    for (unsigned round = 0; round < 3; round++) {
        struct steady w = {.round = round};
        assert_int_equal(pthread_create(&w.thread, NULL, write_steadily, &w), 0);
        while (__atomic_load_n(&w.done, __ATOMIC_ACQUIRE) < 10 + 7 * round) {
            (void)poll(NULL, 0, 1);
        }
        postgres_server_kill(server);
        pthread_join(w.thread, NULL);
        postgres_server_up(server);
        recover(reader);
        store_followed(reader, false);
        for (unsigned i = 0; i < w.done; i++) {
            char id[32];
            (void)snprintf(id, sizeof id, "r%u-%u", round, i);
            assert_int_equal(store_value(reader, id), 1);
        }
    }
    store_close(reader);
}

static void database_rollback_to_backup_is_detected(void **state)
{
    (void)state;
    new_schema();
    struct store *a = store_open(url);
    struct changelog *log = NULL;
    uint64_t number = 0;
    struct tidings_error err = {0};
    assert_int_equal(a->ops->create_changelog(a, &limits, &log, NULL), 0);
    uint64_t first = store_put_alone(a, "x", 1, "1");
    uint64_t second = store_put_alone(a, "x", 2, "2");
    char sql[128];
    (void)snprintf(sql, sizeof sql,
                   "DELETE FROM tidings_versions WHERE position=%llu;UPDATE tidings_state SET"
                   " position=%llu",
                   (unsigned long long)second, (unsigned long long)first);
    postgres_server_exec(server, schema, sql); /* as on a standby that had not received it */
    assert_int_equal(a->ops->begin(a, &err), TIDINGS_E_BUSY);
    assert_non_null(strstr(err.text, "went back"));
    recover(a);
    assert_string_equal(store_followed(a, false), "broken\n");
    assert_int_equal(store_value(a, "x"), 1);
    assert_false(log->ops->resume(log, log->ops->epoch(log), first, true, &number));
    assert_int_equal(postgres_take_lease(a, STR("m"), STR("A"), 1000, NULL, &err), 0); /* not yet */
    log->ops->destroy(log);
    store_close(a);
}

/* A new node counts long-silent nodes as dead. A live node corrects that when it notices; until
 * then its cursors wait. */
static void node_counted_as_dead_reports_that_it_lives(void **state)
{
    (void)state;
    new_schema();
    struct store *a = store_open(url), *b = store_open(url);
    struct changelog *of_a = NULL, *of_b = NULL;
    uint64_t number = 0;
    assert_int_equal(a->ops->create_changelog(a, &limits, &of_a, NULL), 0);
    uint64_t epoch = of_a->ops->epoch(of_a);
    postgres_server_exec(server, schema, "UPDATE tidings_runs SET until=1");
    assert_int_equal(b->ops->create_changelog(b, &limits, &of_b, NULL), 0);
    uint64_t later = store_put_alone(b, "x", 1, "1");
    (void)store_followed(b, true);
    assert_false(of_b->ops->knows(of_b, epoch, later));
    assert_false(of_b->ops->resume(of_b, epoch, later, true, &number));
    assert_string_equal(store_followed(a, true), "2 run\n3 run\n4 entity x\n5 run\n");
    assert_string_equal(store_followed(b, true), "5 run\n");
    assert_true(of_b->ops->knows(of_b, epoch, later));
    assert_true(of_b->ops->resume(of_b, epoch, later, true, &number));
    of_a->ops->destroy(of_a);
    of_b->ops->destroy(of_b);
    store_close(a);
    store_close(b);
}

static void replaced_database_server_is_detected(void **state)
{
    (void)state;
    new_schema();
    struct store *a = store_open(url);
    store_put_alone(a, "x", 1, "1");
    store_close(a);
    postgres_server_exec(server, schema, "UPDATE tidings_state SET server=server+4");
    a = store_open(url); /* as after a failover: the timeline differs */
    assert_true(a->ops->position(a) > UINT64_C(1) << 40);
    assert_int_equal(
        postgres_server_number(server, schema, "SELECT count(*) FROM tidings_breaks WHERE lossy=1"),
        1);
    store_close(a);
    a = store_open(url); /* once */
    assert_int_equal(postgres_server_number(server, schema, "SELECT count(*) FROM tidings_breaks"),
                     1);
    store_close(a);
}

static void replaced_store_is_rejected(void **state)
{
    (void)state;
    new_schema();
    struct store *a = store_open(url);
    struct tidings_error err = {0};
    store_put_alone(a, "x", 1, "1");
    postgres_server_exec(server, schema, "UPDATE tidings_cluster SET id=id+1");
    cut_all();
    uint64_t until = clock_monotonic_ms() + 20000;
    while (a->ops->begin(a, &err) == TIDINGS_E_BUSY) {
        assert_true(clock_monotonic_ms() < until);
    }
    assert_int_equal(err.code, TIDINGS_E_INVALID);
    assert_non_null(strstr(err.text, "another one than before"));
    store_close(a);
}

static int run(struct postgres_server *p)
{
    server = p;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_interrupted_at_any_step_leaves_nothing),
        cmocka_unit_test(unanswered_commit_is_resolved_by_following),
        cmocka_unit_test(silent_database_times_out_soon),
        cmocka_unit_test(stalled_node_loses_the_lock),
        cmocka_unit_test(database_restart_loses_nothing),
        cmocka_unit_test(missing_entity_is_known_without_database),
        cmocka_unit_test(database_crash_is_reported_to_every_node),
        cmocka_unit_test(acknowledged_writes_survive_every_crash),
        cmocka_unit_test(database_rollback_to_backup_is_detected),
        cmocka_unit_test(node_counted_as_dead_reports_that_it_lives),
        cmocka_unit_test(replaced_database_server_is_detected),
        cmocka_unit_test(replaced_store_is_rejected),
    };
    return cmocka_run_group_tests_name("a database that fails", tests, NULL, NULL);
}

int main(void)
{
    return postgres_server_run(run);
}
