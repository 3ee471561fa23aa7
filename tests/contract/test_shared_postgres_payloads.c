/* SPDX-License-Identifier: MIT
 *
 * Rows in NOTIFY payloads (cluster/log_record.h), against PostgreSQL: a node that receives them
 * does not query; a node that missed some does; uncommitted rows are not sent.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/listeners.h"
#include "support/postgres.h"
#include "support/store_steps.h"

static struct postgres_server *server;
static char url[POSTGRES_URL];

/* ---- without asking -------------------------------------------------------------------------- */

static void node_uses_notified_rows_without_query(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct store *a = store_open(url), *b = hearer_open(url);
    struct notification_counts before = hearer_heard(b);
    store_put_alone(a, "x", 1, "1");
    hearer_await(b);
    hearer_follows(b, "1 entity x\n", 1, 0, 0, &before);
    store_announce_alone(a, "n:///1");
    hearer_await(b);
    hearer_follows(b, "2 announced n:///1 e o 7\n", 2, 0, 0, &before);
    store_begin(a);
    store_put(a, "x", 2, "2");
    store_announce_mounted(a, "n:///2");
    store_put(a, "y", 1, "1");
    store_commit(a);
    hearer_await(b);
    hearer_follows(b, "3 entity x\n4 mounted n:///2 e o 7\n5 entity y\n", 3, 0, 0, &before);
    assert_int_equal(hearer_heard(b).changes, 5);
    assert_int_equal(store_value(b, "x"), 2);
    assert_int_equal(store_value(b, "y"), 1);
    /* From this point it is cached as current here, and renewed by notifications: no read could
     * refresh it. */
    store_put_alone(a, "x", 3, "3");
    hearer_await(b);
    hearer_follows(b, "6 entity x\n", 4, 0, 0, &before);
    postgres_server_exec(server, postgres_url_schema(url),
                         "ALTER TABLE tidings_versions RENAME TO gone");
    assert_int_equal(store_value(b, "x"), 3);
    postgres_server_exec(server, postgres_url_schema(url),
                         "ALTER TABLE gone RENAME TO tidings_versions");
    store_announce_alone(a, "n:///dark");
    hearer_await(b);
    hearer_follows(b, "7 announced n:///dark e o 7 mute\n", 5, 0, 0, &before);
    /* A node is not woken by its own notification. */
    assert_int_equal(hearer_heard(a).applied, 0);
    store_close(a);
    store_close(b);
}

static void rows_notified_together_are_followed_together(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct store *a = store_open(url), *b = hearer_open(url);
    struct stranger w;
    stranger_open(&w, server, postgres_url_schema(url));
    struct notification_counts before = hearer_heard(b);
    for (int i = 1; i <= 20; i++) {
        store_put_alone(a, "x", i, "1");
        stranger_hears(&w); /* it has arrived there now, or is about to */
    }
    struct buf told;
    buf_init(&told, 4096);
    while (b->ops->followed(b) < 20) {
        hearer_await(b);
        buf_puts(&told, tidings_str(store_followed(b, true)));
    }
    struct buf expected;
    buf_init(&expected, 4096);
    for (int i = 1; i <= 20; i++) {
        buf_putf(&expected, "%d entity x\n", i);
    }
    assert_string_equal(told.ptr, expected.ptr);
    assert_int_equal(hearer_heard(b).asked, before.asked);
    assert_int_equal(hearer_heard(b).applied - before.applied, 20);
    /* More rows at once than the buffer keeps: the node queries them. */
    for (int i = 21; i <= 20 + (int)NOTIFICATIONS_MAX + 5; i++) {
        store_put_alone(a, "x", i, "1");
    }
    while (b->ops->followed(b) < 20 + NOTIFICATIONS_MAX + 5) {
        hearer_await(b);
        store_followed(b, true);
    }
    assert_int_equal(hearer_heard(b).changes, hearer_heard(b).applied);
    buf_deinit(&told);
    buf_deinit(&expected);
    stranger_close(&w);
    store_close(a);
    store_close(b);
}

static void node_queries_after_missed_notification(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct store *a = store_open(url), *b = hearer_open(url);
    struct notification_counts before = hearer_heard(b);
    store_put_alone(a, "x", 1, "1");
    hearer_await(b); /* and does not follow */
    store_put_alone(a, "y", 1, "1");
    hearer_await(b);
    hearer_follows(b, "1 entity x\n2 entity y\n", 0, 1, 0, &before);
    /* A poll without a wakeup always queries. */
    before = hearer_heard(b);
    hearer_follows(b, "", 0, 1, 0, &before);
    /* For rows that are not sent, the position is sent, and likewise for a batch that contains
     * some. */
    before = hearer_heard(b);
    store_publish_alone(a, "p:///1", "x");
    hearer_await(b);
    assert_string_equal(store_followed(b, true), "3 published p:///1=x\n");
    assert_true(hearer_heard(b).asked > before.asked && hearer_heard(b).applied == before.applied);
    store_put_alone(a, "x", 2, "2");
    hearer_await(b);
    before = hearer_heard(b);
    hearer_follows(b, "4 entity x\n", 1, 0, 0, &before);
    store_close(a);
    store_close(b);
}

static void oversized_rows_are_queried(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct store *a = store_open(url), *b = hearer_open(url);
    char *large = mem_alloc(7001), id[16];
    memset(large, '0', 7000); /* digits: a valid JSON number */
    large[6999] = '7';
    large[7000] = '\0';
    struct notification_counts before = hearer_heard(b);
    store_put_alone(a, "x", 1, "1");
    hearer_await(b);
    hearer_follows(b, "1 entity x\n", 1, 0, 0, &before);
    assert_int_equal(store_value(b, "x"), 1); /* cached as current, from this point on */
    store_put_alone(a, "x", 2, large);
    hearer_await(b);
    before = hearer_heard(b);
    hearer_follows(b, "2 entity x\n", 1, 0, 0, &before); /* told, without its value */
    assert_int_equal(store_value(b, "x"), 7);
    store_begin(a);
    for (int i = 0; i < 300; i++) {
        (void)snprintf(id, sizeof id, "e%d", i);
        store_put(a, id, 1, "1");
    }
    store_commit(a);
    hearer_await(b);
    before = hearer_heard(b);
    assert_non_null(strstr(store_followed(b, true), "\n302 entity e299\n"));
    assert_int_equal(hearer_heard(b).applied, before.applied);
    mem_free(large);
    store_close(a);
    store_close(b);
}

/* ---- what was not committed ------------------------------------------------------------------ */

static void uncommitted_rows_are_not_notified(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct store *a = store_open(url), *b = hearer_open(url);
    struct stranger w;
    struct tidings_error err = {0};
    stranger_open(&w, server, postgres_url_schema(url));
    store_put_alone(a, "x", 1, "1");
    stranger_hears(&w);
    hearer_await(b);
    assert_string_equal(store_followed(b, true), "1 entity x\n");
    /* A batch that fails at its commit, and one before. */
    postgres_server_exec(
        server, postgres_url_schema(url),
        "CREATE TABLE allowed(id text PRIMARY KEY);"
        "INSERT INTO allowed VALUES ('x'), ('good'), ('worse');"
        "ALTER TABLE tidings_versions ADD CONSTRAINT late FOREIGN KEY (id) REFERENCES allowed(id)"
        " DEFERRABLE INITIALLY DEFERRED;"
        "ALTER TABLE tidings_versions ADD CONSTRAINT early CHECK (id<>'worse')");
    for (int i = 0; i < 2; i++) {
        store_begin(a);
        store_put(a, i == 0 ? "bad" : "worse", 1, "1");
        assert_true(a->ops->commit(a, &err) < 0);
    }
    assert_int_equal(store_put_alone(a, "good", 1, "1"), 2);
    struct tidings_str payload = stranger_hears(&w);
    assert_true(str_starts(payload, STR("2 2 ")));
    assert_int_equal(str_find(payload, '\n'), -1); /* nothing else */
    hearer_await(b);
    struct notification_counts before = hearer_heard(b);
    hearer_follows(b, "2 entity good\n", 1, 0, 0, &before);
    assert_int_equal(store_value(b, "bad"), -1);
    stranger_close(&w);
    store_close(a);
    store_close(b);
}

/* Without the lock: an overtaken batch has sent none of its rows. */
static void overtaken_batch_is_not_notified(void **state)
{
    (void)state;
    postgres_server_fresh(server, url);
    struct store *a = store_open(url), *b = store_open(url), *c = hearer_open(url);
    struct tidings_error err = {0};
    struct notification_counts before = hearer_heard(c);
    store_put_alone(a, "x", 1, "1");
    hearer_await(c);
    hearer_follows(c, "1 entity x\n", 1, 0, 0, &before);
    assert_true(a->ops->begin_unlocked(a));
    store_put(a, "bad", 1, "1");
    store_put_alone(b, "good", 1, "1");
    assert_true(a->ops->commit(a, &err) < 0);
    assert_true(a->ops->must_run_again(a));
    hearer_await(c);
    hearer_follows(c, "2 entity good\n", 2, 0, 0, &before);
    store_followed(a, false);
    store_put_alone(a, "again", 1, "1");
    hearer_await(c);
    hearer_follows(c, "3 entity again\n", 3, 0, 0, &before);
    /* A batch that is not overtaken sends its rows like any other. */
    while (!a->ops->begin_unlocked(a)) { /* after some batches with the lock */
        store_begin(a);
        store_commit(a);
    }
    store_put(a, "alone", 1, "1");
    store_commit(a);
    hearer_await(c);
    hearer_follows(c, "4 entity alone\n", 4, 0, 0, &before);
    store_close(a);
    store_close(b);
    store_close(c);
}

static int run(struct postgres_server *p)
{
    server = p;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(node_uses_notified_rows_without_query),
        cmocka_unit_test(rows_notified_together_are_followed_together),
        cmocka_unit_test(node_queries_after_missed_notification),
        cmocka_unit_test(oversized_rows_are_queried),
        cmocka_unit_test(uncommitted_rows_are_not_notified),
        cmocka_unit_test(overtaken_batch_is_not_notified),
    };
    return cmocka_run_group_tests_name("rows told with NOTIFY", tests, NULL, NULL);
}

int main(void)
{
    return postgres_server_run(run);
}
