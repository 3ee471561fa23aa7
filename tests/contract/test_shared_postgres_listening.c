/* SPDX-License-Identifier: MIT
 *
 * Wakeups from other nodes on PostgreSQL: on a node's only connection, which also carries its
 * queries and writes.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/time.h"
#include "support/postgres.h"
#include "support/store_steps.h"

static struct postgres_server *server;
static char url[POSTGRES_URL];

static void listening_node_wakes_for_other_nodes_only(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct store *a = store_open(url), *b = store_open(url);
    assert_int_equal(a->ops->descriptor(a), -1);
    store_followed(a, false);
    store_followed(b, false);
    assert_int_equal(b->ops->descriptor(b), -1); /* once: the other's number may be equal */
    struct pollfd p = {.fd = b->ops->descriptor(b), .events = POLLIN};
    assert_true(p.fd >= 0);
    store_put_alone(a, "x", 1, "1");
    assert_int_equal(poll(&p, 1, 10000), 1);
    assert_int_equal(b->ops->wake(b), 1);
    assert_string_equal(store_followed(b, true), "1 entity x\n");
    assert_int_equal(poll(&p, 1, 0), 0);
    for (int i = 1; i <= 10; i++) {
        store_put_alone(b, "y", i, "1"); /* the answer to the notification may arrive later */
        (void)poll(&p, 1, 0);
        assert_int_equal(b->ops->wake(b), 0);
        assert_false(b->ops->has_news(b));
    }
    store_close(a);
    store_close(b);
}

/* Notifications share the connection with queries: if a notification arrives with an answer, the
 * connection does not become readable again. */
static void notification_during_query_is_received(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct store *a = store_open(url), *b = store_open(url);
    store_followed(b, false);
    assert_false(b->ops->has_news(b));
    for (int i = 1; i <= 10; i++) {
        char line[64];
        store_put_alone(a, "x", i, "1");
        uint64_t until = clock_monotonic_ms() + 10000;
        do { /* no loop polls the descriptor */
            assert_int_equal(store_value(b, "other"), -1);
            assert_true(clock_monotonic_ms() < until);
        } while (!b->ops->has_news(b));
        (void)snprintf(line, sizeof line, "%d entity x\n", i);
        assert_string_equal(store_followed(b, true), line);
        assert_false(b->ops->has_news(b));
    }
    store_close(a);
    store_close(b);
}

/* A node's only connection, even if it listens, and after it was cut. */
static void node_uses_one_connection(void **state)
{
    (void)state;
    char schema[32];
    postgres_server_fresh(server, url);
    (void)snprintf(schema, sizeof schema, "%s", postgres_url_schema(url));
    struct store *a = store_open(url), *b = store_open(url);
    static const char all[] = "SELECT count(*) FROM pg_stat_activity WHERE"
                              " application_name='tidings' AND pid<>pg_backend_pid()";
    store_put_alone(a, "x", 1, "1");
    store_followed(b, false);
    long long connections = postgres_server_number(server, schema, all);
    assert_int_equal(connections, 2);
    (void)postgres_server_number(server, schema,
                                 "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                                 " WHERE application_name='tidings' AND pid<>pg_backend_pid()");
    uint64_t until = clock_monotonic_ms() + 20000;
    struct tidings_error err = {0};
    struct buf unused;
    buf_init(&unused, 4096);
    while (b->ops->follow(b, store_print, &unused, &err) < 0) {
        assert_true(clock_monotonic_ms() < until);
        (void)poll(NULL, 0, 20);
    }
    buf_deinit(&unused);
    store_put_alone(a, "x", 2, "1"); /* it listens again */
    do {
        assert_int_equal(store_value(b, "other"), -1);
        assert_true(clock_monotonic_ms() < until);
    } while (!b->ops->has_news(b));
    assert_string_equal(store_followed(b, true), "2 entity x\n");
    assert_int_equal(postgres_server_number(server, schema, all), 2);
    store_close(a);
    store_close(b);
}

/* Unread notifications are not kept indefinitely: once the queue of all nodes is full, no node
 * receives any. */
static void stalled_listener_is_disconnected(void **state)
{
    (void)state;
    static const char all[] = "SELECT count(*) FROM pg_stat_activity WHERE"
                              " application_name='tidings' AND pid<>pg_backend_pid()";
    char schema[32], over_tcp[POSTGRES_URL];
    postgres_server_fresh(server, url);
    (void)sscanf(strstr(url, "search_path%3D") + 14, "%31s", schema);
    (void)snprintf(over_tcp, sizeof over_tcp,
                   "postgres://tidings@127.0.0.1:%d/tidings?options=-csearch_path%%3D%s",
                   postgres_server_port(server), schema);
    struct store *a = store_open(over_tcp);
    store_followed(a, false);
    assert_true(postgres_server_number(server, schema, all) >= 1);
    (void)postgres_server_number(
        server, schema,
        "SELECT count(pg_notify('tidings_'||lpad(to_hex(id), 16, '0'), i||repeat('x', 7900)))"
        " FROM tidings_cluster, generate_series(1, 6000) i");
    uint64_t until = clock_monotonic_ms() + 60000;
    while (postgres_server_number(server, schema, all) > 0) {
        assert_true(clock_monotonic_ms() < until);
        (void)poll(NULL, 0, 50);
    }
    assert_int_equal(
        postgres_server_number(server, schema, "SELECT (pg_notification_queue_usage()*8192)::int8"),
        0);
    store_close(a);
}

static int run(struct postgres_server *p)
{
    server = p;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listening_node_wakes_for_other_nodes_only),
        cmocka_unit_test(notification_during_query_is_received),
        cmocka_unit_test(node_uses_one_connection),
        cmocka_unit_test(stalled_listener_is_disconnected),
    };
    return cmocka_run_group_tests_name("listening", tests, NULL, NULL);
}

int main(void)
{
    return postgres_server_run(run);
}
