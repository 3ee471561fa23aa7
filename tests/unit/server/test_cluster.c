/* SPDX-License-Identifier: MIT
 *
 * Several servers on one store: what is written at one of them is seen and told at the others, in
 * one order; cursors of one are good at the others; what was lost is said.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "server/server_private.h"
#include "support/postgres.h"
#include "support/served.h"
#include "support/shared_memory.h"

#define NODES 2u

static struct postgres_server *postgres; /* NULL: in memory */
static char url[POSTGRES_URL];
static struct shared_memory *db;
static struct entity_rows *rows[NODES]; /* borrowed */
static struct ears ears;

static void begin_node(unsigned i)
{
    void *none = NULL;
    served_select(i);
    served_begin(&none);
    rows[i] = postgres ? NULL : shared_memory_connect(db);
    served()->given_rows = rows[i];
    served_set("entities", postgres ? url : "postgres://in-memory");
    served_set("self", "true");
    served_set("allow-write", "true");
    served_set("change-tools", "on");
}

static int cluster_begin(void **state)
{
    (void)state;
    db = shared_memory_create();
    if (postgres) {
        (void)postgres_server_fresh(postgres, url);
    }
    ears_init(&ears);
    for (unsigned i = 0; i < NODES; i++) {
        begin_node(i);
    }
    return 0;
}

static int cluster_end(void **state)
{
    for (unsigned i = 0; i < NODES; i++) {
        served_select(i);
        served_end(state);
    }
    served_select(0);
    shared_memory_destroy(db);
    return 0;
}

static void run(unsigned i)
{
    served_select(i);
    served_run();
}

static void run_all(void)
{
    for (unsigned i = 0; i < NODES; i++) {
        run(i);
    }
}

static const char *at(unsigned node, const char *tool, const char *arguments)
{
    served_select(node);
    return served_call(tool, arguments);
}

static void must_say(const char *answer, const char *says)
{
    if (!strstr(answer, says)) {
        fail_msg("%s does not say '%s'", answer, says);
    }
}

static void must_not_say(const char *answer, const char *says)
{
    if (strstr(answer, says)) {
        fail_msg("%s says '%s'", answer, says);
    }
}

static void add_type(unsigned node)
{
    must_say(at(node, "add-entity-type", "\"name\":\"T\",\"version\":1,\"jsonSchema\":{}"),
             "\"success\":true");
}

static const char *upsert(unsigned node, const char *id, int n)
{
    char arguments[160];
    snprintf(arguments, sizeof arguments, "\"uri\":\"entity:///T@1/%s\",\"value\":{\"n\":%d}", id,
             n);
    return at(node, "upsert-entity", arguments);
}

static const char *read_at(unsigned node, const char *uri)
{
    served_select(node);
    return served_modern("resources/read", uri);
}

static void publish(unsigned node, const char *uri, const char *text)
{
    char arguments[256];
    snprintf(arguments, sizeof arguments, "\"uri\":\"%s\",\"text\":\"%s\"", uri, text);
    must_say(at(node, "publish", arguments), "\"etag\":");
}

/* The next update is of that kind, and the resource reads as `says` then. */
static void hear(size_t n, unsigned node, enum tidings_change_kind kind, const char *says)
{
    struct told t = ears_await(&ears, n);
    assert_string_equal(t.refused, "");
    assert_int_equal(t.kind, kind);
    must_say(read_at(node, "published:///x"), says);
}

/* The node has come to everything that was written so far: who writes follows first. */
static void settle(unsigned node)
{
    static unsigned n;
    char text[16];
    snprintf(text, sizeof text, "%u", n++);
    publish(node, "published:///settled", text);
}

/* A cursor of `node` about `uri`. */
static void cursor_of(unsigned node, const char *cursor, const char *uri, char out[256],
                      const char **answer)
{
    char arguments[512];
    snprintf(arguments, sizeof arguments, "\"uris\":[\"%s\"]%s%s%s", uri,
             cursor ? ",\"cursor\":\"" : "", cursor ? cursor : "", cursor ? "\"" : "");
    *answer = at(node, "changes_since", arguments);
    const char *found = strstr(*answer, "\"structuredContent\":{\"cursor\":\"");
    assert_non_null(found);
    assert_int_equal(sscanf(found, "\"structuredContent\":{\"cursor\":\"%255[^\"]", out), 1);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void what_one_writes_is_told_and_read_at_the_others(void **state)
{
    (void)state;
    run_all();
    add_type(0);
    must_say(upsert(0, "a", 1), "\"changed\":true");
    settle(1);
    assert_non_null(served_subscribe("entity:///T@1/a", "{\"initial\":true}", &ears));
    assert_true(ears_await(&ears, 0).initial);
    must_say(upsert(0, "a", 2), "\"changed\":true");
    struct told t = ears_await(&ears, 1);
    assert_string_equal(t.uri, "entity:///T@1/a");
    must_say(t.value, "\\\"n\\\": 2");
    must_say(read_at(1, "entity:///T@1/a"), "\\\"n\\\": 2");
    /* Types were read again: it can be written there too. */
    must_say(upsert(1, "a", 3), "\"changed\":true");
    settle(0);
    must_say(read_at(0, "entity:///T@1/a"), "\\\"n\\\": 3");
}

static void two_nodes_never_both_win(void **state)
{
    (void)state;
    run_all();
    add_type(0);
    must_say(upsert(1, "a", 1), "\"changed\":true");
    const char *create = "\"uri\":\"entity:///T@1/a\",\"value\":{\"n\":9},\"ifAbsent\":true";
    must_not_say(at(0, "upsert-entity", create), "\"changed\":true");
    must_say(read_at(0, "entity:///T@1/a"), "\\\"n\\\": 1");
    shared_memory_set_quiet(db, true); /* what it does not know yet it learns before it decides */
    publish(1, "published:///x", "one");
    must_say(at(0, "publish", "\"uri\":\"published:///x\",\"text\":\"two\",\"ifAbsent\":true"),
             "\"isError\":true");
    must_say(read_at(0, "published:///x"), "one");
    must_say(at(1, "add-entity-type", "\"name\":\"U\",\"version\":1,\"jsonSchema\":{}"),
             "\"success\":true");
    must_say(at(0, "upsert-entity", "\"uri\":\"entity:///U@1/u\",\"value\":{}"),
             "\"changed\":true");
}

static void what_one_publishes_is_served_by_the_others(void **state)
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

static void what_was_written_before_a_node_began_is_there(void **state)
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

/* As much as one takes of what the other publishes; also when that grew. */
static void what_does_not_fit_is_not_served(void **state)
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
    publish(0, "published:///x", "five"); /* there is no room for it now */
    must_say(at(0, "unpublish", "\"uri\":\"published:///y\""), "removed");
    publish(0, "published:///x", "six");
    assert_int_not_equal(ears_await(&ears, 3).kind, TIDINGS_CHANGE_DELETED);
    must_say(read_at(1, "published:///x"), "six");
    assert_int_equal(ears_count(&ears), 4); /* what is not served is not told */
}

static void a_cursor_of_one_is_good_at_the_others(void **state)
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
    settle(0);
    cursor_of(0, next, "entity:///T@1/", cursor, &answer);
    must_not_say(answer, "\"gap\"");
    must_not_say(answer, "T@1/c");
    must_say(answer, "T@1/d");
}

/* Nobody is woken, so the second node is behind when the cursor comes. */
static void a_cursor_waits_for_a_node_that_is_behind(void **state)
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

static void an_entity_that_moves_is_told_as_a_move(void **state)
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
    settle(1);
    (void)served_subscribe("entity:///T@1/a", "{\"initial\":true}", &ears);
    (void)served_subscribe("entity:///T@1/b", "{\"initial\":true}", &other);
    assert_true(ears_await(&ears, 0).initial);
    assert_true(ears_await(&other, 0).initial);
    must_say(at(0, "upsert-entity", "\"uri\":\"entity:///T@2/a\",\"value\":{\"n\":2}"),
             "\"changed\":true");
    struct told t = ears_await(&ears, 1);
    assert_string_equal(t.uri, "entity:///T@2/a");
    assert_string_equal(t.from, "entity:///T@1/a");
    must_say(upsert(0, "b", 2), "\"changed\":true"); /* which brings it to the newest version too */
    assert_string_equal(ears_await(&other, 1).uri, "entity:///T@2/b");
    assert_int_equal(ears_count(&ears), 2);
}

static void a_store_that_lost_changes_makes_everybody_look_again(void **state)
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

static void a_commit_that_was_not_answered_is_followed_if_it_happened(void **state)
{
    (void)state;
    run_all();
    publish(0, "published:///x", "zero");
    (void)served_subscribe("published:///x", "{\"initial\":true}", &ears);
    hear(0, 0, TIDINGS_CHANGE_UPDATED, "zero");
    shared_memory_lose_answer(db, rows[0], true);
    must_say(at(0, "publish", "\"uri\":\"published:///x\",\"text\":\"one\""), "\"isError\":true");
    hear(1, 0, TIDINGS_CHANGE_UPDATED, "one");
    shared_memory_lose_answer(db, rows[0], false);
    must_say(at(0, "publish", "\"uri\":\"published:///x\",\"text\":\"two\""), "\"isError\":true");
    must_say(read_at(0, "published:///x"), "one");
    publish(0, "published:///x", "three");
    hear(2, 0, TIDINGS_CHANGE_UPDATED, "three");
    assert_int_equal(ears_count(&ears), 3);
}

static void nodes_tell_of_one_another(void **state)
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
    must_not_say(read_at(1, "tidings://self/nodes"), "\\\"one\\\""); /* it left in order */
}

static void a_name_that_lives_elsewhere_is_refused(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    for (unsigned i = 0; i < NODES; i++) {
        served_select(i);
        served_set("node", "one");
    }
    run(0);
    shared_memory_advance(db, 5990); /* of 6 s: so long does it wait */
    served_select(1);
    assert_int_equal(tidings_server_run(served(), &err), TIDINGS_E_EXISTS);
    must_say(err.text, "'one' lives elsewhere");
}

/* Read with these members of `_meta`. */
static const char *read_with(unsigned node, const char *uri, const char *meta)
{
    char head[512], body[1024];
    served_select(node);
    snprintf(head, sizeof head,
             "POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\n"
             "Accept: application/json, text/event-stream\r\n"
             "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: resources/read\r\nMcp-Name: %s",
             uri);
    snprintf(
        body, sizeof body,
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/read\",\"params\":{\"uri\":\"%s\","
        "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
        "\"io.modelcontextprotocol/clientCapabilities\":{},%s}}}",
        uri, meta);
    return served_http(head, body);
}

static void a_read_waits_for_the_cursor_it_names(void **state)
{
    (void)state;
    char cursor[256], meta[320], head[512];
    const char *answer;
    run_all();
    shared_memory_set_quiet(db, true); /* it looks every second */
    publish(0, "published:///x", "one");
    cursor_of(0, NULL, "published:///", cursor, &answer);
    snprintf(meta, sizeof meta, "\"dev.tidings/atLeast\":\"%s\"", cursor);
    must_say(read_with(1, "published:///x", meta), "one");
    publish(0, "published:///x", "two");
    cursor_of(0, NULL, "published:///", cursor, &answer);
    snprintf(head, sizeof head,
             "GET /resource?uri=published%%3A%%2F%%2F%%2Fx HTTP/1.1\r\nTidings-At-Least: %s",
             cursor);
    served_select(1);
    must_say(served_http(head, ""), "two");
    snprintf(meta, sizeof meta, "\"dev.tidings/atLeast\":\"%s\"", cursor); /* its own */
    must_say(read_with(0, "published:///x", meta), "two");
    must_say(read_with(1, "published:///x", "\"dev.tidings/atLeast\":\"1.2.3\""),
             "nothing is known here of the cursor");
    must_say(read_with(1, "published:///x", "\"dev.tidings/atLeast\":\"nonsense\""),
             "must be a cursor that you were given");
    must_say(read_with(1, "published:///x", "\"dev.tidings/atLeast\":7"), "must be a cursor");
}

static void a_node_that_does_not_come_so_far_says_how_far_it_is(void **state)
{
    (void)state;
    char cursor[256], meta[320];
    const char *answer;
    run_all();
    shared_memory_set_away(db, rows[1], true);
    publish(0, "published:///x", "one");
    cursor_of(0, NULL, "published:///", cursor, &answer);
    snprintf(meta, sizeof meta, "\"dev.tidings/atLeast\":\"%s\"", cursor);
    answer = read_with(1, "published:///", meta);
    must_say(answer, "this node has come to position ");
    shared_memory_set_away(db, rows[1], false);
    must_say(read_with(1, "published:///x", meta), "one");
}

/* The node has noticed: a write is refused. */
static void answer_until_stale(unsigned node)
{
    must_say(at(node, "publish", "\"uri\":\"published:///x\",\"text\":\"no\""), "\"isError\":true");
}

/* What was read, or is in memory anyway. */
static void what_is_known_is_read_while_the_store_is_away(void **state)
{
    (void)state;
    run_all();
    add_type(0);
    must_say(upsert(0, "a", 1), "\"changed\":true");
    must_say(upsert(0, "b", 1), "\"changed\":true");
    publish(0, "published:///x", "one");
    settle(1);
    must_not_say(read_at(1, "entity:///T@1/a"), "dev.tidings/stale");
    (void)served_subscribe("entity:///T@1/a", "{\"initial\":true}", &ears);
    assert_true(ears_await(&ears, 0).initial);
    shared_memory_set_away(db, rows[1], true);
    must_say(upsert(0, "a", 2), "\"changed\":true");
    answer_until_stale(1);
    const char *answer = read_at(1, "entity:///T@1/a");
    must_say(answer, "\\\"n\\\": 1");
    must_say(answer, "\"dev.tidings/stale\":true");
    must_say(read_at(1, "published:///x"), "\"dev.tidings/stale\":true");
    must_say(read_at(1, "entity:///T@1/b"), "cannot be reached"); /* it was never read here */
    must_not_say(read_at(1, "app:///a"), "dev.tidings/stale");
    answer = upsert(1, "a", 3);
    must_say(answer, "\\\"reason\\\":\\\"unavailable\\\",\\\"retryAfterMs\\\":1000");
    served_select(1);
    answer = served_http("GET /resource?uri=published%3A%2F%2F%2Fx HTTP/1.1", "");
    must_say(answer, "Tidings-Stale: true");
    answer = served_http("PUT /resource?uri=published%3A%2F%2F%2Fx HTTP/1.1\r\n"
                         "Content-Type: text/plain",
                         "two");
    must_say(answer, "503 ");
    must_say(answer, "Retry-After: 1");
    shared_memory_set_away(db, rows[1], false);
    struct told t = ears_await(&ears, 1); /* it has caught up */
    must_say(t.value, "\\\"n\\\": 2");
    answer = read_at(1, "entity:///T@1/a");
    must_say(answer, "\\\"n\\\": 2");
    must_not_say(answer, "dev.tidings/stale");
}

static void what_may_be_old_is_refused_where_that_is_wanted(void **state)
{
    (void)state;
    served_select(1);
    served_set("stale-reads", "refuse");
    run_all();
    publish(1, "published:///x", "one");
    shared_memory_set_away(db, rows[1], true);
    must_say(at(1, "publish", "\"uri\":\"published:///x\",\"text\":\"two\""), "\"isError\":true");
    must_say(read_at(1, "published:///x"), "\"reason\":\"stale\"");
    must_say(read_at(1, "app:///a"), "app:///a");
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, cluster_begin, cluster_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_one_writes_is_told_and_read_at_the_others),
        CASE(two_nodes_never_both_win),
        CASE(what_one_publishes_is_served_by_the_others),
        CASE(what_was_written_before_a_node_began_is_there),
        CASE(what_does_not_fit_is_not_served),
        CASE(a_cursor_of_one_is_good_at_the_others),
        CASE(a_cursor_waits_for_a_node_that_is_behind),
        CASE(an_entity_that_moves_is_told_as_a_move),
        CASE(a_store_that_lost_changes_makes_everybody_look_again),
        CASE(a_commit_that_was_not_answered_is_followed_if_it_happened),
        CASE(a_read_waits_for_the_cursor_it_names),
        CASE(a_node_that_does_not_come_so_far_says_how_far_it_is),
        CASE(what_is_known_is_read_while_the_store_is_away),
        CASE(what_may_be_old_is_refused_where_that_is_wanted),
        CASE(nodes_tell_of_one_another),
        CASE(a_name_that_lives_elsewhere_is_refused),
    };
    const struct CMUnitTest on_postgres[] = {
        CASE(what_one_writes_is_told_and_read_at_the_others),
        CASE(two_nodes_never_both_win),
        CASE(what_one_publishes_is_served_by_the_others),
        CASE(what_was_written_before_a_node_began_is_there),
        CASE(what_does_not_fit_is_not_served),
        CASE(a_cursor_of_one_is_good_at_the_others),
        CASE(an_entity_that_moves_is_told_as_a_move),
        CASE(nodes_tell_of_one_another),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    postgres = postgres_server_start();
    failed += postgres ? cmocka_run_group_tests(on_postgres, NULL, NULL) : 0;
    postgres_server_stop(postgres);
    return failed;
}
