/* SPDX-License-Identifier: MIT
 *
 * Several servers on one store: a write on one node is visible and delivered on the others in one
 * order, cursors are valid on every node, and lost changes are reported.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/cluster.h"
#include "support/postgres.h"
#include "support/served.h"
#include "support/shared_memory.h"

static void write_is_delivered_and_readable_on_other_nodes(void **state)
{
    (void)state;
    run_all();
    add_type(0);
    must_say(upsert(0, "a", 1), "\"changed\":true");
    await_followed(1);
    assert_non_null(served_subscribe("entity:///T@1/a", "{\"initial\":true}", &ears));
    assert_true(ears_await(&ears, 0).initial);
    must_say(upsert(0, "a", 2), "\"changed\":true");
    struct told t = ears_await(&ears, 1);
    assert_string_equal(t.uri, "entity:///T@1/a");
    must_say(t.value, "\\\"n\\\": 2");
    must_say(read_at(1, "entity:///T@1/a"), "\\\"n\\\": 2");
    /* The node read the types again, so clients can write there too. */
    must_say(upsert(1, "a", 3), "\"changed\":true");
    await_followed(0);
    must_say(read_at(0, "entity:///T@1/a"), "\\\"n\\\": 3");
}

static void conflicting_writes_succeed_on_one_node_only(void **state)
{
    (void)state;
    run_all();
    add_type(0);
    must_say(upsert(1, "a", 1), "\"changed\":true");
    const char *create = "\"uri\":\"entity:///T@1/a\",\"value\":{\"n\":9},\"ifAbsent\":true";
    must_not_say(at(0, "upsert-entity", create), "\"changed\":true");
    must_say(read_at(0, "entity:///T@1/a"), "\\\"n\\\": 1");
    shared_memory_set_quiet(db, true); /* the node learns unknown types before it decides */
    publish(1, "published:///x", "one");
    must_say(at(0, "publish", "\"uri\":\"published:///x\",\"text\":\"two\",\"ifAbsent\":true"),
             "\"isError\":true");
    must_say(read_at(0, "published:///x"), "one");
    must_say(at(1, "add-entity-type", "\"name\":\"U\",\"version\":1,\"jsonSchema\":{}"),
             "\"success\":true");
    must_say(at(0, "upsert-entity", "\"uri\":\"entity:///U@1/u\",\"value\":{}"),
             "\"changed\":true");
}

static void publication_is_served_by_other_nodes(void **state)
{
    (void)state;
    run_all();
    publish(1, "published:///x", "zero");
    (void)served_subscribe("published:///x", "{\"initial\":true}", &ears);
    hear(0, 1, TIDINGS_CHANGE_UPDATED, "zero");
    publish(0, "published:///x", "one");
    hear(1, 1, TIDINGS_CHANGE_UPDATED, "one");
    publish(1, "published:///x", "two");
    hear(2, 1, TIDINGS_CHANGE_UPDATED, "two");
    must_say(at(0, "unpublish", "\"uri\":\"published:///x\""), "removed");
    hear(3, 1, TIDINGS_CHANGE_DELETED, "not_found");
    publish(0, "published:///x", "three");
    hear(4, 1, TIDINGS_CHANGE_CREATED, "three");
    assert_int_equal(ears_count(&ears), 5);
}

static void earlier_writes_are_readable_on_new_node(void **state)
{
    (void)state;
    run(0);
    add_type(0);
    must_say(upsert(0, "a", 1), "\"changed\":true");
    publish(0, "published:///x", "one");
    run(1);
    must_say(read_at(1, "published:///x"), "one");
    must_say(read_at(1, "entity:///T@1/a"), "\\\"n\\\": 1");
}

/* The node serves only publications that fit, even after one grows. */
static void publication_over_limit_is_not_served(void **state)
{
    (void)state;
    served_select(1);
    served_set("published-max", "1");
    run_all();
    publish(1, "published:///x", "one");
    (void)served_subscribe("published:///x", "{\"initial\":true}", &ears);
    hear(0, 1, TIDINGS_CHANGE_UPDATED, "one");
    publish(0, "published:///y", "two");
    publish(0, "published:///x", "three");
    hear(1, 1, TIDINGS_CHANGE_UPDATED, "three");
    must_say(read_at(1, "published:///y"), "not_found");
    must_say(read_at(0, "published:///y"), "two");
    must_say(at(0, "unpublish", "\"uri\":\"published:///x\""), "removed");
    hear(2, 1, TIDINGS_CHANGE_DELETED, "not_found");
    publish(0, "published:///y", "four");
    publish(0, "published:///x", "five"); /* the space is in use now */
    must_say(at(0, "unpublish", "\"uri\":\"published:///y\""), "removed");
    publish(0, "published:///x", "six");
    /* A late node no longer finds the publication that had no space: it reports "five" then. */
    unsigned told = 3;
    while (true) {
        assert_int_not_equal(ears_await(&ears, told++).kind, TIDINGS_CHANGE_DELETED);
        const char *answer = read_at(1, "published:///x");
        if (strstr(answer, "six")) {
            break;
        }
        assert_true(told == 4);
        must_say(answer, "five");
    }
    assert_in_range(ears_count(&ears), 4, 5); /* unserved publications are not reported */
}

static void cursor_of_one_node_is_valid_on_others(void **state)
{
    (void)state;
    char cursor[256], next[256];
    const char *answer;
    run_all();
    add_type(0);
    must_say(upsert(0, "a", 1), "\"changed\":true");
    cursor_of(0, NULL, "entity:///T@1/", cursor, &answer);
    must_say(upsert(0, "b", 1), "\"changed\":true");
    must_say(upsert(1, "c", 1), "\"changed\":true");
    cursor_of(1, cursor, "entity:///T@1/", next, &answer);
    must_not_say(answer, "\"gap\"");
    must_not_say(answer, "T@1/a");
    must_say(answer, "T@1/b");
    must_say(answer, "T@1/c");
    must_say(upsert(1, "d", 1), "\"changed\":true");
    await_followed(0);
    cursor_of(0, next, "entity:///T@1/", cursor, &answer);
    must_not_say(answer, "\"gap\"");
    must_not_say(answer, "T@1/c");
    must_say(answer, "T@1/d");
}

/* The second node gets no wakeup, so it lags when the cursor arrives. */
static void request_with_cursor_waits_for_lagging_node(void **state)
{
    (void)state;
    char cursor[256], next[256];
    const char *answer;
    run_all();
    add_type(0);
    shared_memory_set_quiet(db, true);
    must_say(upsert(0, "a", 1), "\"changed\":true");
    cursor_of(0, NULL, "entity:///T@1/", cursor, &answer);
    cursor_of(1, cursor, "entity:///T@1/", next, &answer);
    must_not_say(answer, "\"gap\"");
    must_not_say(answer, "T@1/a");
    must_say(upsert(1, "b", 1), "\"changed\":true");
    cursor_of(1, next, "entity:///T@1/", cursor, &answer);
    must_not_say(answer, "T@1/a");
    must_say(answer, "T@1/b");
}

static void entity_move_is_reported_as_move(void **state)
{
    (void)state;
    run_all();
    add_type(0);
    must_say(at(0, "add-entity-type", "\"name\":\"T\",\"version\":2,\"jsonSchema\":{}"),
             "\"success\":true");
    must_say(upsert(0, "a", 1), "\"changed\":true");
    must_say(upsert(0, "b", 1), "\"changed\":true");
    struct ears other;
    ears_init(&other);
    await_followed(1);
    (void)served_subscribe("entity:///T@1/a", "{\"initial\":true}", &ears);
    (void)served_subscribe("entity:///T@1/b", "{\"initial\":true}", &other);
    assert_true(ears_await(&ears, 0).initial);
    assert_true(ears_await(&other, 0).initial);
    must_say(at(0, "upsert-entity", "\"uri\":\"entity:///T@2/a\",\"value\":{\"n\":2}"),
             "\"changed\":true");
    struct told t = ears_await(&ears, 1);
    assert_string_equal(t.uri, "entity:///T@2/a");
    assert_string_equal(t.from, "entity:///T@1/a");
    must_say(upsert(0, "b", 2), "\"changed\":true"); /* this also brings it to the newest version */
    assert_string_equal(ears_await(&other, 1).uri, "entity:///T@2/b");
    assert_int_equal(ears_count(&ears), 2);
}

static void lost_store_changes_truncate_every_subscription(void **state)
{
    (void)state;
    run_all();
    add_type(0);
    must_say(upsert(0, "a", 1), "\"changed\":true");
    served_select(1);
    assert_non_null(served_subscribe("entity:///T@1/a", "{\"initial\":true}", &ears));
    assert_true(ears_await(&ears, 0).initial);
    shared_memory_break(db, 1);
    assert_true(ears_await(&ears, 1).truncated);
    must_say(upsert(0, "a", 2), "\"changed\":true");
    assert_false(ears_await(&ears, 2).truncated);
}

/* A database crash discards announcements, and a node started afterwards never saw them. A client
 * that resumes there with an older cursor gets `truncated`. */
static void database_crash_truncates_clients_of_later_nodes(void **state)
{
    (void)state;
    char before[256], next[256];
    const char *answer;
    run(0);
    publish(0, "published:///x", "one");
    (void)served_subscribe("published:///x", "{\"initial\":true}", &ears);
    assert_true(ears_await(&ears, 0).initial);
    cursor_of(0, NULL, "published:///", before, &answer);
    must_say(at(0, "notify", "\"changes\":[{\"uri\":\"published:///x\"}]"), "\"told\":1");
    assert_false(ears_await(&ears, 1).truncated);
    postgres_server_kill(cluster_postgres);
    postgres_server_up(cluster_postgres);
    assert_true(ears_await(&ears, 2).truncated);
    run(1);
    cursor_of(1, before, "published:///", next, &answer);
    must_say(answer, "\"gap\"");
    cursor_of(1, next, "published:///", before, &answer);
    must_not_say(answer, "\"gap\"");
}

static void unanswered_commit_is_followed_if_it_succeeded(void **state)
{
    (void)state;
    run_all();
    publish(0, "published:///x", "zero");
    (void)served_subscribe("published:///x", "{\"initial\":true}", &ears);
    hear(0, 0, TIDINGS_CHANGE_UPDATED, "zero");
    shared_memory_lose_answer(db, stores[0], true);
    must_say(at(0, "publish", "\"uri\":\"published:///x\",\"text\":\"one\""), "\"isError\":true");
    hear(1, 0, TIDINGS_CHANGE_UPDATED, "one");
    shared_memory_lose_answer(db, stores[0], false);
    must_say(at(0, "publish", "\"uri\":\"published:///x\",\"text\":\"two\""), "\"isError\":true");
    must_say(read_at(0, "published:///x"), "one");
    publish(0, "published:///x", "three");
    hear(2, 0, TIDINGS_CHANGE_UPDATED, "three");
    assert_int_equal(ears_count(&ears), 3);
}

static void nodes_report_each_other(void **state)
{
    (void)state;
    served_select(0);
    served_set("node", "one");
    served_select(1);
    served_set("node", "two");
    run_all();
    const char *answer = read_at(1, "tidings://self/nodes");
    must_say(answer, "\\\"name\\\":\\\"one\\\"");
    must_say(answer, "\\\"name\\\":\\\"two\\\"");
    must_say(answer, "\\\"lives\\\":true,\\\"self\\\":true");
    served_select(0);
    served_end(state);
    served_begin(state);
    must_not_say(read_at(1, "tidings://self/nodes"), "\\\"one\\\""); /* it left cleanly */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(write_is_delivered_and_readable_on_other_nodes),
        CASE(conflicting_writes_succeed_on_one_node_only),
        CASE(publication_is_served_by_other_nodes),
        CASE(earlier_writes_are_readable_on_new_node),
        CASE(publication_over_limit_is_not_served),
        CASE(cursor_of_one_node_is_valid_on_others),
        CASE(request_with_cursor_waits_for_lagging_node),
        CASE(entity_move_is_reported_as_move),
        CASE(lost_store_changes_truncate_every_subscription),
        CASE(unanswered_commit_is_followed_if_it_succeeded),
    };
    const struct CMUnitTest on_postgres[] = {
        CASE(write_is_delivered_and_readable_on_other_nodes),
        CASE(conflicting_writes_succeed_on_one_node_only),
        CASE(publication_is_served_by_other_nodes),
        CASE(earlier_writes_are_readable_on_new_node),
        CASE(publication_over_limit_is_not_served),
        CASE(cursor_of_one_node_is_valid_on_others),
        CASE(entity_move_is_reported_as_move),
        CASE(database_crash_truncates_clients_of_later_nodes),
        CASE(nodes_report_each_other),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    cluster_postgres = postgres_server_start();
    failed += cluster_postgres ? cmocka_run_group_tests(on_postgres, NULL, NULL) : 0;
    postgres_server_stop(cluster_postgres);
    return failed;
}
