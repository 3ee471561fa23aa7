/* SPDX-License-Identifier: MIT
 *
 * Tables that a newer program upgrades: beside nodes of the previous version, and not while
 * incompatible nodes are alive. The newer programs here are simulated: steps after ours. Also the
 * lag of nodes, in milliseconds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/log.h"
#include "cluster/postgres_internal.h"
#include "cluster/postgres_nodes.h"
#include "support/postgres.h"
#include "support/store_steps.h"

#define LEASE_MS 60000

static struct postgres_server *server;
static char url[POSTGRES_URL], schema[32];

static void new_schema(void)
{
    postgres_server_fresh(server, url);
    (void)snprintf(schema, sizeof schema, "%s", postgres_url_schema(url));
}

static void enter(struct store *store, const char *name)
{
    const struct node_row row = {.name = tidings_str(name),
                                 .version = STR("0.9"),
                                 .state = STR("{}"),
                                 .followed = store->ops->followed(store)};
    assert_int_equal(postgres_put_node(store, &row, LEASE_MS, NULL), 0);
}

/* A newer program. */
static int lay_out_as(struct store *store, int64_t made, int64_t oldest, struct tidings_error *err)
{
    const char *steps[8] = {NULL};
    for (int64_t i = 0; i < postgres_layout.made; i++) {
        steps[i] = postgres_layout.steps[i];
    }
    steps[postgres_layout.made] = "ALTER TABLE tidings_nodes ADD COLUMN third int8";
    steps[postgres_layout.made + 1] = "ALTER TABLE tidings_nodes ADD COLUMN fourth int8";
    const struct postgres_layout newer = {.made = made, .oldest = oldest, .steps = steps};
    return postgres_store_lay_out(postgres_store_of(store), &newer, err);
}

static long long layout_now(void)
{
    return postgres_server_number(server, schema, "SELECT layout*100+oldest FROM tidings_cluster");
}

static void newer_node_upgrades_while_older_node_runs(void **state)
{
    (void)state;
    new_schema();
    struct store *a = store_open(url), *b = store_open(url);
    enter(a, "a");
    store_put_alone(a, "x", 1, "1");
    assert_int_equal(layout_now(), 101);
    assert_int_equal(lay_out_as(b, 2, 1, NULL), 0);
    assert_int_equal(layout_now(), 201);
    enter(a, "a");
    store_put_alone(a, "x", 2, "2");
    store_close(b);
    b = store_open(url); /* and this one may connect again */
    assert_int_equal(store_value(b, "x"), 2);
    assert_int_equal(layout_now(), 201);
    store_close(a);
    store_close(b);
}

static void upgrade_is_rejected_while_incompatible_nodes_run(void **state)
{
    (void)state;
    new_schema();
    struct store *a = store_open(url), *b = store_open(url);
    struct tidings_error err = {0};
    enter(a, "a");
    assert_int_equal(lay_out_as(b, 3, 2, &err), TIDINGS_E_BUSY);
    assert_non_null(strstr(err.text, "the node 'a' of version 0.9 still runs"));
    assert_int_equal(layout_now(), 101); /* nothing is half done */
    assert_int_equal(postgres_server_number(server, schema,
                                            "SELECT count(*) FROM information_schema.columns WHERE"
                                            " table_schema=current_schema() AND column_name IN"
                                            " ('third', 'fourth')"),
                     0);
    store_put_alone(a, "x", 1, "1");
    assert_int_equal(postgres_drop_node(a, STR("a"), NULL), 0);
    assert_int_equal(lay_out_as(b, 3, 2, &err), 0);
    assert_int_equal(layout_now(), 302);
    store_close(a);
    store_close(b);
    struct store *late = NULL;
    assert_int_equal(postgres_store_open(url, STR("tidings"), &late, &err), TIDINGS_E_UNSUPPORTED);
    assert_non_null(strstr(err.text, "start the newer one"));
}

/* ---- a stranger holds the lock --------------------------------------------------------------- */

static char said[1024];

static void hear_log(void *user, enum tidings_log_level level, struct tidings_str line)
{
    (void)user;
    (void)level;
    char text[1024];
    (void)snprintf(text, sizeof text, "%.*s", STR_ARG(line));
    if (strstr(text, "without the lock")) {
        memcpy(said, text, sizeof said);
    }
}

/* Its own session. */
static struct postgres *stranger(const char *statement)
{
    static const char *const none[POSTGRES_MAX_STATEMENTS] = {"SELECT 1"};
    struct postgres *c = NULL;
    assert_int_equal(postgres_create(url, none, &c, NULL), 0);
    assert_int_equal(postgres_ready(c, 5000, NULL), 1);
    assert_int_equal(postgres_exec(c, "SET application_name='a stranger'", NULL), 0);
    assert_int_equal(postgres_exec(c, statement, NULL), 0);
    return c;
}

static void tables_are_created_while_another_program_holds_the_lock(void **state)
{
    (void)state;
    new_schema();
    struct postgres *c = stranger("SELECT pg_advisory_lock(hashtextextended("
                                  "'tables of the tidings cluster tidings'||current_schema(), 0))");
    said[0] = '\0';
    log_set_level(TIDINGS_LOG_WARNING);
    log_set_sink(hear_log, NULL);
    struct store *a = store_open(url);
    log_set_sink(NULL, NULL);
    log_set_level(TIDINGS_LOG_OFF);
    assert_non_null(strstr(said, "user=tidings application=\"a stranger\""));
    assert_non_null(strstr(said, "pid="));
    store_put_alone(a, "x", 1, "1");
    store_close(a);
    postgres_destroy(c);
}

/* Locks of another cluster, of another schema, and with the key of earlier programs. */
static void unrelated_locks_are_ignored(void **state)
{
    (void)state;
    new_schema();
    struct postgres *c = stranger("SELECT pg_advisory_lock(8391203047719502964),"
                                  "pg_advisory_lock(hashtextextended("
                                  "'tables of the tidings cluster other'||current_schema(), 0)),"
                                  "pg_advisory_lock(hashtextextended("
                                  "'tables of the tidings cluster tidings'||'other', 0))");
    said[0] = '\0';
    log_set_level(TIDINGS_LOG_WARNING);
    log_set_sink(hear_log, NULL);
    struct store *a = store_open(url);
    log_set_sink(NULL, NULL);
    log_set_level(TIDINGS_LOG_OFF);
    assert_string_equal(said, "");
    store_close(a);
    postgres_destroy(c);
}

/* ---- how far behind -------------------------------------------------------------------------- */

struct seen {
    const char *name;
    int64_t behind_ms, behind_now_ms;
};

static bool see(void *user, const struct node_row *row)
{
    struct seen *s = user;
    if (str_eq(row->name, tidings_str(s->name))) {
        s->behind_ms = row->behind_ms;
        s->behind_now_ms = row->behind_now_ms;
    }
    return true;
}

static struct seen look_at(struct store *store, const char *name)
{
    struct seen s = {.name = name, .behind_ms = -7, .behind_now_ms = -7};
    assert_int_equal(postgres_each_node(store, see, &s, NULL), 0);
    return s;
}

static void node_reports_age_of_oldest_unfollowed_change(void **state)
{
    (void)state;
    new_schema();
    struct store *a = store_open(url), *b = store_open(url);
    const struct entity_type_row type = {.name = STR("T"), .version = STR("1")};
    enter(b, "b");
    struct seen s = look_at(a, "b");
    assert_int_equal(s.behind_ms, 0);
    assert_int_equal(s.behind_now_ms, 0);
    for (int kind = 0; kind < 4; kind++) {
        if (kind == 0) {
            store_put_alone(a, "x", 1, "1");
        } else if (kind == 1) {
            store_publish_alone(a, "p:///1", "hello");
        } else if (kind == 2) {
            store_announce_alone(a, "n:///1");
        } else {
            store_begin(a);
            assert_int_equal(a->ops->put_type(a, &type, NULL), 0);
            store_commit(a);
        }
        store_announce_alone(a, "n:///2"); /* the oldest counts */
        /* An hour ago, by the database clock. */
        postgres_server_exec(server, schema,
                             "UPDATE tidings_versions SET at=at-3600000;"
                             "UPDATE tidings_log SET at=at-3600000;"
                             "UPDATE tidings_announced SET at=at-3600000 WHERE position("
                             "'n:///1'::bytea IN record)>0");
        s = look_at(a, "b");
        assert_int_equal(s.behind_ms, 0); /* as of when it wrote */
        assert_in_range(s.behind_now_ms, 3600000, 3700000);
        enter(b, "b");
        assert_in_range(look_at(a, "b").behind_ms, 3600000, 3700000);
        store_followed(b, false);
        enter(b, "b");
        s = look_at(a, "b");
        assert_int_equal(s.behind_ms, 0);
        assert_int_equal(s.behind_now_ms, 0);
    }
    store_close(a);
    store_close(b);
}

/* Entities get the database's time, regardless of the clock of this machine. */
static void timestamps_use_the_database_clock(void **state)
{
    (void)state;
    new_schema();
    struct store *a = store_open(url);
    int64_t there = postgres_server_number(
        server, schema, "SELECT (extract(epoch FROM clock_timestamp())*1000)::int8");
    int64_t now = a->ops->now(a);
    assert_in_range(now - there + 60000, 60000 - 1000, 60000 + 60000);
    assert_int_equal(postgres_clock_off(a), 0);
    store_close(a);
}

static int run(struct postgres_server *p)
{
    server = p;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newer_node_upgrades_while_older_node_runs),
        cmocka_unit_test(upgrade_is_rejected_while_incompatible_nodes_run),
        cmocka_unit_test(tables_are_created_while_another_program_holds_the_lock),
        cmocka_unit_test(unrelated_locks_are_ignored),
        cmocka_unit_test(node_reports_age_of_oldest_unfollowed_change),
        cmocka_unit_test(timestamps_use_the_database_clock),
    };
    return cmocka_run_group_tests_name("layouts of the tables", tests, NULL, NULL);
}

int main(void)
{
    return postgres_server_run(run);
}
