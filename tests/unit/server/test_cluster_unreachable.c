/* SPDX-License-Identifier: MIT
 *
 * Several servers on one store: reads that wait for a cursor, announcements on every node, and the
 * work that continues during a store outage.
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

static void read_waits_for_its_cursor(void **state)
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
             "does not know the cursor");
    must_say(read_with(1, "published:///x", "\"dev.tidings/atLeast\":\"nonsense\""),
             "must be a cursor that you were given");
    must_say(read_with(1, "published:///x", "\"dev.tidings/atLeast\":7"), "must be a cursor");
}

static void read_is_rejected_if_store_position_is_unknown(void **state)
{
    (void)state;
    char cursor[256], meta[320];
    const char *answer;
    run_all();
    shared_memory_set_unreachable(db, stores[1], true);
    publish(0, "published:///x", "one");
    cursor_of(0, NULL, "published:///", cursor, &answer);
    snprintf(meta, sizeof meta, "\"dev.tidings/atLeast\":\"%s\"", cursor);
    answer = read_with(1, "published:///", meta);
    must_say(answer, "the store cannot be reached");
    must_say(answer, "\"reason\":\"stale\"");
    shared_memory_set_unreachable(db, stores[1], false);
    must_say(read_with(1, "published:///x", meta), "one");
}

/* The node has noticed: it rejects a write. */
static void answer_until_stale(unsigned node)
{
    must_say(at(node, "publish", "\"uri\":\"published:///x\",\"text\":\"no\""), "\"isError\":true");
}

/* Data that was read before, or is in memory. */
static void cached_data_is_readable_during_store_outage(void **state)
{
    (void)state;
    run_all();
    add_type(0);
    must_say(upsert(0, "a", 1), "\"changed\":true");
    must_say(upsert(0, "b", 1), "\"changed\":true");
    publish(0, "published:///x", "one");
    await_followed(1);
    must_not_say(read_at(1, "entity:///T@1/a"), "dev.tidings/stale");
    (void)served_subscribe("entity:///T@1/a", "{\"initial\":true}", &ears);
    assert_true(ears_await(&ears, 0).initial);
    shared_memory_set_unreachable(db, stores[1], true);
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
    shared_memory_set_unreachable(db, stores[1], false);
    struct told t = ears_await(&ears, 1); /* it has caught up */
    must_say(t.value, "\\\"n\\\": 2");
    answer = read_at(1, "entity:///T@1/a");
    must_say(answer, "\\\"n\\\": 2");
    must_not_say(answer, "dev.tidings/stale");
}

static void stale_read_is_rejected_if_configured(void **state)
{
    (void)state;
    served_select(1);
    served_set("stale-reads", "refuse");
    run_all();
    publish(1, "published:///x", "one");
    shared_memory_set_unreachable(db, stores[1], true);
    must_say(at(1, "publish", "\"uri\":\"published:///x\",\"text\":\"two\""), "\"isError\":true");
    must_say(read_at(1, "published:///x"), "\"reason\":\"stale\"");
    must_say(read_at(1, "app:///a"), "app:///a");
}

/* The program of each node registers app:///a. */
static void announcement_is_delivered_on_other_nodes(void **state)
{
    (void)state;
    run_all();
    served_select(1);
    (void)served_subscribe("app:///a", "{\"initial\":true}", &ears);
    assert_true(ears_await(&ears, 0).initial);
    served_select(0);
    served_announce("app:///a", "{\"type\":\"x\"}", TIDINGS_CHANGE_UPDATED);
    struct told t = ears_await(&ears, 1);
    assert_string_equal(t.uri, "app:///a");
    must_say(t.metadata, "\"type\":\"x\"");
}

static void cursor_of_registered_resource_is_valid_on_other_nodes(void **state)
{
    (void)state;
    char cursor[256], next[256];
    const char *answer;
    run_all();
    served_select(1);
    (void)served_subscribe("app:///a", "{\"initial\":true}", &ears);
    assert_true(ears_await(&ears, 0).initial);
    cursor_of(0, NULL, "app:///a", cursor, &answer);
    served_select(0);
    served_announce("app:///a", "{\"n\":1}", TIDINGS_CHANGE_UPDATED);
    assert_false(ears_await(&ears, 1).truncated);
    cursor_of(1, cursor, "app:///a", next, &answer);
    must_not_say(answer, "\"gap\"");
    must_say(answer, "\"n\":1");
    cursor_of(0, next, "app:///a", cursor, &answer); /* and nothing twice */
    must_not_say(answer, "\"gap\"");
    must_not_say(answer, "\"n\":1");
    if (!cluster_postgres) {
        return;
    }
    /* A database crash discards announcements, so no node knows the earlier ones. */
    postgres_server_kill(cluster_postgres);
    postgres_server_up(cluster_postgres);
    assert_true(ears_await(&ears, 2).truncated);
    cursor_of(1, cursor, "app:///a", next, &answer);
    must_say(answer, "\"gap\"");
}

static void client_notification_is_delivered_on_other_nodes(void **state)
{
    (void)state;
    run_all();
    publish(1, "published:///x", "one");
    (void)served_subscribe("published:///x", "{\"initial\":true}", &ears);
    assert_true(ears_await(&ears, 0).initial);
    must_say(at(0, "notify", "\"changes\":[{\"uri\":\"published:///x\",\"metadata\":{\"k\":1}}]"),
             "\"told\":1");
    must_say(ears_await(&ears, 1).metadata, "\"k\":1");
}

/* The client gets an uncertain answer; subscribers get the update if it was committed. */
static void notify_answers_unknown_if_commit_is_unanswered(void **state)
{
    (void)state;
    char arguments[160];
    run_all();
    publish(1, "published:///x", "one");
    (void)served_subscribe("published:///x", "{\"initial\":true}", &ears);
    assert_true(ears_await(&ears, 0).initial);
    for (int k = 1; k <= 2; k++) { /* the second is committed */
        await_followed(0);
        shared_memory_lose_answer(db, stores[0], k == 2);
        snprintf(arguments, sizeof arguments,
                 "\"changes\":[{\"uri\":\"published:///x\",\"metadata\":{\"k\":%d}}]", k);
        const char *answer = at(0, "notify", arguments);
        must_say(answer, "\"told\":0,\"refused\":1");
        must_say(answer, "\"reason\":\"unknown\"");
    }
    must_say(ears_await(&ears, 1).metadata, "\"k\":2");
}

/* The server asks clients to retry; the program's announcements wait. */
static void announcements_wait_during_store_outage(void **state)
{
    (void)state;
    run_all();
    publish(1, "published:///x", "one");
    served_select(1);
    (void)served_subscribe("app:///a", "{\"initial\":true}", &ears);
    assert_true(ears_await(&ears, 0).initial);
    await_followed(0);
    shared_memory_set_unreachable(db, stores[0], true);
    answer_until_stale(0);
    must_say(at(0, "notify", "\"changes\":[{\"uri\":\"published:///x\"}]"),
             "the store cannot be reached");
    served_select(0);
    served_announce("app:///a", "{\"n\":1}", TIDINGS_CHANGE_UPDATED);
    served_announce("app:///a", "{\"n\":2}", TIDINGS_CHANGE_UPDATED);
    must_say(at(0, "notify", "\"changes\":[{\"uri\":\"published:///x\"}]"), "\"told\":0");
    shared_memory_set_unreachable(db, stores[0], false);
    size_t n = 1;
    while (!strstr(ears_await(&ears, n).metadata, "\"n\":2")) {
        n++;
    }
    assert_in_range(n, 1, 2); /* in order, or become one */
}

/* No wakeup follows the store's return: the next announcement discovers it. */
static void waiting_announcements_are_sent_before_next_one(void **state)
{
    (void)state;
    run_all();
    served_select(1);
    (void)served_subscribe("app:///a", "{\"initial\":true}", &ears);
    (void)served_subscribe("app:///b", "{\"initial\":true}", &ears);
    assert_true(ears_await(&ears, 0).initial && ears_await(&ears, 1).initial);
    shared_memory_set_unreachable(db, stores[0], true);
    answer_until_stale(0);
    served_announce("app:///a", "{}", TIDINGS_CHANGE_UPDATED);
    answer_until_stale(0); /* the server has tried, and it waits */
    shared_memory_set_quiet(db, true);
    shared_memory_set_unreachable(db, stores[0], false);
    served_announce("app:///b", "{}", TIDINGS_CHANGE_UPDATED);
    assert_string_equal(ears_await(&ears, 2).uri, "app:///a");
    assert_string_equal(ears_await(&ears, 3).uri, "app:///b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(read_waits_for_its_cursor),
        CASE(read_is_rejected_if_store_position_is_unknown),
        CASE(cached_data_is_readable_during_store_outage),
        CASE(stale_read_is_rejected_if_configured),
        CASE(announcement_is_delivered_on_other_nodes),
        CASE(cursor_of_registered_resource_is_valid_on_other_nodes),
        CASE(client_notification_is_delivered_on_other_nodes),
        CASE(notify_answers_unknown_if_commit_is_unanswered),
        CASE(announcements_wait_during_store_outage),
        CASE(waiting_announcements_are_sent_before_next_one),
    };
    const struct CMUnitTest on_postgres[] = {
        CASE(announcement_is_delivered_on_other_nodes),
        CASE(client_notification_is_delivered_on_other_nodes),
        CASE(cursor_of_registered_resource_is_valid_on_other_nodes),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    cluster_postgres = postgres_server_start();
    failed += cluster_postgres ? cmocka_run_group_tests(on_postgres, NULL, NULL) : 0;
    postgres_server_stop(cluster_postgres);
    return failed;
}
