/* SPDX-License-Identifier: MIT
 *
 * resources/subscribe and unsubscribe, limits of both eras, and list_changed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/delivery/subscriber.h"
#include "engine/delivery/subscription.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_provider.h"
#include "support/harness_subs.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define URI_PARAM(uri) "\"uri\":\"" uri "\""

static struct harness b;
static struct fake fake;

static int setup(void **state)
{
    (void)state;
    harness_init(&b);
    b.limits.max_subscriptions = 3;
    b.limits.max_uris_per_listen = 4;
    b.limits.max_listens = 2;
    b.options.list_changed_ms = 300; /* longer than a few turns take on a busy machine */
    harness_start(&b);
    fake_mount(&fake, &b);
    fake_add(&fake, "mem://x/a");
    fake_add(&fake, "mem://x/b");
    fake_add(&fake, "mem://x/c");
    fake_add(&fake, "mem://x/d");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_run_until_idle(&b);
    assert_int_equal(b.worker[0]->stats.subscribers, b.worker[0]->stats.sessions);
    harness_stop(&b);
    return 0;
}

static struct client *handshaken_pipe(void)
{
    struct client *c = client_pipe(&b);
    client_handshake(c, "2025-06-18");
    harness_run_until_idle(&b);
    return c;
}

static const struct utterance *last_said(const struct client *c)
{
    assert_true(c->count > 0);
    return &c->said[c->count - 1];
}

static void subscribe(struct client *pipe, const char *id, const char *uri)
{
    client_legacy(pipe, NULL, id, "resources/subscribe", text_of(URI_PARAM("%s"), uri));
}

static void unsubscribe(struct client *pipe, const char *id, const char *uri)
{
    client_legacy(pipe, NULL, id, "resources/unsubscribe", text_of(URI_PARAM("%s"), uri));
}

static void update(const char *uri)
{
    harness_update(&b, uri);
    harness_run_until_idle(&b);
}

static void subscribe_is_answered_after_watch_starts(void **state)
{
    (void)state;
    struct client *c = handshaken_pipe();
    unsigned before = fake.watches;
    fake.holds_watches = true;
    size_t count = c->count;
    subscribe(c, "1", "mem://x/a");
    harness_run_until_idle(&b);
    assert_int_equal(c->count, count);
    fake_finish_watches(&fake, 0, NULL);
    harness_run_until_idle(&b);
    assert_empty_result(last_said(c)->text);
    assert_int_equal(fake.watches, before + 1);
    update("mem://x/a");
    assert_int_equal(client_count(c, SAID_UPDATED), 1);
    const char *u = client_nth(c, SAID_UPDATED, 0);
    assert_json(u, "params|uri", "mem://x/a");
    assert_no_json(u, "params|_meta|io.modelcontextprotocol/subscriptionId");
    unsubscribe(c, "2", "mem://x/a");
    harness_run_until_idle(&b);
    assert_empty_result(last_said(c)->text);
    assert_int_equal(fake.unwatches, 1);
    update("mem://x/a");
    assert_int_equal(client_count(c, SAID_UPDATED), 1);
    client_free(c);
}

static void refusals_are_errors_with_the_uri(void **state)
{
    (void)state;
    static const struct {
        const char *uri, *code;
    } rows[] = {
        {"nope:1", "-32002"},
        {"mem://x/mute", "-32602"},
        {"not a uri", "-32602"},
        {"mem://x/full", "-32602"},
    };
    fake_add(&fake, "mem://x/mute")->is_mute = true;
    fake_add(&fake, "mem://x/full");
    struct client *c = handshaken_pipe();
    fake.refuses = "no more watches";
    for (size_t i = 0; i < COUNT(rows); i++) {
        subscribe(c, "3", rows[i].uri);
        harness_run_until_idle(&b);
        const char *text = last_said(c)->text;
        assert_json(text, "id", "3");
        assert_json(text, "error|code", rows[i].code);
        assert_json(text, "error|data|uri", rows[i].uri);
    }
    assert_json(last_said(c)->text, "error|message", "no more watches");
    client_legacy(c, NULL, "4", "resources/subscribe", "\"uri\":7");
    assert_json(last_said(c)->text, "error|code", "-32602");
    assert_int_equal(b.worker[0]->stats.subscriptions, 0);
    client_free(c);
}

static void subscriptions_to_the_same_uri_count_once(void **state)
{
    (void)state;
    struct client *c = handshaken_pipe();
    subscribe(c, "1", "mem://x/a");
    harness_run_until_idle(&b);
    subscribe(c, "2", "mem://x/a");
    harness_run_until_idle(&b);
    assert_empty_result(last_said(c)->text);
    assert_json(last_said(c)->text, "id", "2");
    assert_int_equal(b.worker[0]->stats.subscriptions, 1);
    update("mem://x/a");
    assert_int_equal(client_count(c, SAID_UPDATED), 1);
    unsubscribe(c, "3", "mem://x/a");
    harness_run_until_idle(&b);
    assert_int_equal(b.worker[0]->stats.subscriptions, 0);
    unsubscribe(c, "4", "mem://x/a"); /* no longer exists: success regardless */
    assert_empty_result(last_said(c)->text);
    client_free(c);
}

static void concurrent_subscriptions_to_the_same_uri_count_once(void **state)
{
    (void)state;
    struct client *c = handshaken_pipe();
    unsigned armed = fake.armed;
    for (int i = 0; i < 3; i++) {
        subscribe(c, text_of("%d", i), "mem://x/a"); /* none of them is answered yet */
    }
    harness_run_until_idle(&b);
    assert_int_equal(client_count_kind(c, SAID_ANSWER), 1 + 3);
    assert_empty_result(last_said(c)->text);
    assert_int_equal(b.worker[0]->stats.subscriptions, 1);
    update("mem://x/a");
    assert_int_equal(client_count(c, SAID_UPDATED), 1);
    unsubscribe(c, "9", "mem://x/a");
    harness_run_until_idle(&b);
    update("mem://x/a");
    assert_int_equal(client_count(c, SAID_UPDATED), 1);
    assert_int_equal(b.worker[0]->stats.subscriptions, 0);
    assert_int_equal(fake.armed, armed);
    client_free(c);
}

static void unsubscription_overtakes_nothing(void **state)
{
    (void)state;
    struct client *c = handshaken_pipe();
    unsigned armed = fake.armed;
    subscribe(c, "1", "mem://x/a");
    unsubscribe(c, "2", "mem://x/a");
    subscribe(c, "3", "mem://x/b");
    unsubscribe(c, "4", "mem://x/b");
    subscribe(c, "5", "mem://x/b");
    harness_run_until_idle(&b);
    assert_int_equal(client_count_kind(c, SAID_ANSWER), 1 + 5);
    update("mem://x/a");
    assert_int_equal(client_count(c, SAID_UPDATED), 0);
    update("mem://x/b");
    assert_int_equal(client_count(c, SAID_UPDATED), 1);
    assert_int_equal(fake.armed, armed + 1);
    client_free(c);
}

static void spellings_of_one_uri_are_separate_subscriptions(void **state)
{
    (void)state;
    struct client *c = handshaken_pipe();
    subscribe(c, "1", "mem://x/a");
    subscribe(c, "2", "MEM://x/a");
    harness_run_until_idle(&b);
    update("mem://x/a");
    assert_int_equal(client_count(c, SAID_UPDATED), 2);
    /* One each, in any order. */
    const char *one = json_at(client_nth(c, SAID_UPDATED, 0), "params|subscribedUri");
    const char *two = json_at(client_nth(c, SAID_UPDATED, 1), "params|subscribedUri");
    bool in_order = strcmp(one, "mem://x/a") == 0;
    assert_string_equal(in_order ? one : two, "mem://x/a");
    assert_string_equal(in_order ? two : one, "MEM://x/a");
    unsubscribe(c, "3", "mem://x/a");
    harness_run_until_idle(&b);
    update("mem://x/a");
    assert_int_equal(client_count(c, SAID_UPDATED), 3);
    client_free(c);
}

static void unsubscription_without_a_subscription_keeps_the_watch(void **state)
{
    (void)state;
    /* Registered resources need no watch; the mount below one does. */
    harness_add(&b, "mem://x/a");
    struct client *early = client_http(&b), *late = client_http(&b);
    client_listen(early, "1", "[\"mem://x/a\"]");
    harness_run_until_idle(&b);
    assert_int_equal(fake.watches, 0);
    harness_remove(&b, "mem://x/a");
    client_listen(late, "2", "[\"mem://x/a\"]");
    harness_run_until_idle(&b);
    assert_int_equal(fake.watches, 1);
    client_free(early);
    harness_run_until_idle(&b);
    assert_int_equal(fake.unwatches, 0);
    client_free(late);
    harness_run_until_idle(&b);
    assert_int_equal(fake.unwatches, 1);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void subscriptions_per_client_are_limited(void **state)
{
    (void)state;
    struct client *c = handshaken_pipe();
    static const char *const uris[] = {"mem://x/a", "mem://x/b", "mem://x/c", "mem://x/d"};
    for (size_t i = 0; i < COUNT(uris); i++) {
        subscribe(c, text_of("%zu", i), uris[i]); /* all at once */
    }
    harness_run_until_idle(&b);
    assert_int_equal(b.worker[0]->stats.subscriptions, 3);
    size_t refused = 0;
    for (size_t i = 0; i < c->count; i++) {
        const char *code = json_at(c->said[i].text, "error|code");
        refused += code && strcmp(code, "-32602") == 0;
    }
    assert_int_equal(refused, 1);
    /* A listen on the same pipe gets the rest: nothing. */
    client_listen(c, "\"l\"", "[\"mem://x/d\"]");
    harness_run_until_idle(&b);
    assert_json(client_nth(c, SAID_ACK, 0), "params|notifications", "{}");
    assert_json(client_nth(c, SAID_ACK, 0), "params|_meta|dev.tidings/refused|0|uri", "mem://x/d");
    unsubscribe(c, "8", "mem://x/a");
    harness_run_until_idle(&b);
    subscribe(c, "9", "mem://x/d");
    harness_run_until_idle(&b);
    assert_empty_result(last_said(c)->text);
    client_free(c);
}

static void listen_rejects_too_many_uris(void **state)
{
    (void)state;
    struct client *c = client_http(&b);
    client_listen(c, "1", "[\"a:1\",\"a:2\",\"a:3\",\"a:4\",\"a:5\"]");
    harness_run_until_idle(&b);
    assert_json(client_answer(c)->text, "error|code", "-32602");
    client_free(c);
}

static void pipe_rejects_too_many_listens(void **state)
{
    (void)state;
    for (int with_handshake = 0; with_handshake < 2; with_handshake++) {
        struct client *c = with_handshake ? handshaken_pipe() : client_pipe(&b);
        for (int i = 0; i < 3; i++) {
            client_listen(c, text_of("%d", i), "[\"mem://x/a\"]");
            harness_run_until_idle(&b);
        }
        assert_int_equal(client_count(c, SAID_ACK), 2);
        assert_json(last_said(c)->text, "id", "2");
        assert_non_null(json_at(last_said(c)->text, "error|code"));
        client_notify(c, NULL, "notifications/cancelled", "\"requestId\":1");
        client_listen(c, "3", "[\"mem://x/a\"]");
        harness_run_until_idle(&b);
        assert_int_equal(client_count(c, SAID_ACK), 3);
        client_free(c);
        harness_run_until_idle(&b);
    }
}

static void oversized_uris_are_refused_as_such(void **state)
{
    (void)state;
    static char uri[6000], uris[6004];
    memset(uri, 'a', sizeof(uri) - 1);
    memcpy(uri, "mem://x/", 8);
    snprintf(uris, sizeof(uris), "[\"%s\"]", uri);
    struct client *c = handshaken_pipe();
    subscribe(c, "1", uri);
    harness_run_until_idle(&b);
    assert_json(last_said(c)->text, "error|code", "-32602");
    client_listen(c, "2", uris);
    harness_run_until_idle(&b);
    const char *text = last_said(c)->text;
    /* Both outcomes are valid if they concern this URI and not memory. */
    const char *code = json_at(text, "error|code");
    assert_true(code ? strcmp(code, "-32602") == 0
                     : json_at(text, "params|_meta|dev.tidings/refused|0|reason") != NULL);
    client_free(c);
}

static void id_opens_one_listen_at_a_time(void **state)
{
    (void)state;
    struct client *c = client_pipe(&b);
    client_listen(c, "1", "[\"mem://x/a\"]");
    client_listen(c, "1", "[\"mem://x/b\"]");
    harness_run_until_idle(&b);
    assert_json(client_answer(c)->text, "error|code", "-32600");
    client_listen(c, "\"1\"", "[\"mem://x/b\"]"); /* another id */
    harness_run_until_idle(&b);
    assert_int_equal(client_count(c, SAID_ACK), 2);
    /* Cancelled: nothing further, and the id is free. */
    client_notify(c, NULL, "notifications/cancelled", "\"requestId\":1");
    harness_run_until_idle(&b);
    update("mem://x/a");
    assert_int_equal(client_count(c, SAID_UPDATED), 0);
    update("mem://x/b");
    assert_int_equal(client_count(c, SAID_UPDATED), 1);
    client_listen(c, "1", "[\"mem://x/a\"]");
    harness_run_until_idle(&b);
    assert_int_equal(client_count(c, SAID_ACK), 3);
    client_free(c);
}

/* ---- list_changed ---------------------------------------------------------------------------- */

static bool has_a_list_change(void *user)
{
    return client_count(user, SAID_LIST) >= 1;
}

static bool has_two_list_changes(void *user)
{
    return client_count(user, SAID_LIST) >= 2;
}

static bool time_has_passed(void *user)
{
    return loop_now_ms(b.loop) >= *(uint64_t *)user;
}

static void list_changes_are_coalesced_and_the_last_is_sent(void **state)
{
    (void)state;
    struct client *modern = client_http(&b), *pipe = handshaken_pipe(), *deaf = client_http(&b);
    client_modern(modern, "\"l\"", "subscriptions/listen",
                  "\"notifications\":{\"resourcesListChanged\":true}");
    client_listen(deaf, "1", "[\"mem://x/a\"]");
    harness_run_until_idle(&b);
    assert_json(client_nth(modern, SAID_ACK, 0), "params|notifications|resourcesListChanged",
                "true");
    assert_true(fake.watches > 0); /* the mount itself, so that its list is watched */
    for (int i = 0; i < 10; i++) {
        harness_change(&b, text_of("mem://x/new%d", i), TIDINGS_CHANGE_CREATED);
    }
    harness_run_until_idle(&b);
    assert_int_equal(client_count(modern, SAID_LIST), 1);
    harness_until(&b, has_two_list_changes, modern);
    harness_run_until_idle(&b);
    assert_json(client_nth(modern, SAID_LIST, 0),
                "params|_meta|io.modelcontextprotocol/subscriptionId", "l");
    assert_int_equal(client_count(pipe, SAID_LIST), 2);
    assert_no_json(client_nth(pipe, SAID_LIST, 0), "params");
    assert_int_equal(client_count(deaf, SAID_LIST), 0);
    /* Then no more follow. */
    uint64_t until = loop_now_ms(b.loop) + 3 * b.options.list_changed_ms;
    harness_until(&b, time_has_passed, &until);
    assert_int_equal(client_count(modern, SAID_LIST), 2);
    update("mem://x/a"); /* an update does not change the list */
    assert_int_equal(client_count(modern, SAID_LIST), 2);
    client_free(modern);
    client_free(pipe);
    client_free(deaf);
    harness_run_until_idle(&b);
    assert_int_equal(fake.armed, 0);
}

static void registration_and_removal_change_the_list(void **state)
{
    (void)state;
    struct client *c = client_http(&b);
    client_modern(c, "1", "subscriptions/listen",
                  "\"notifications\":{\"resourcesListChanged\":true}");
    harness_run_until_idle(&b);
    harness_add(&b, "app:new");
    assert_int_equal(client_count(c, SAID_LIST), 1);
    harness_remove(&b, "app:new");
    harness_until(&b, has_two_list_changes, c);
    client_free(c);
}

static void removals_change_the_list_once_or_twice(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        harness_add(&b, text_of("app:%d", i));
    }
    uint64_t until = loop_now_ms(b.loop) + 3 * b.options.list_changed_ms;
    harness_until(&b, time_has_passed, &until);
    struct client *c = client_http(&b);
    client_modern(c, "1", "subscriptions/listen",
                  "\"notifications\":{\"resourcesListChanged\":true}");
    harness_run_until_idle(&b);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(hub_remove_entry(b.hub, tidings_str(text_of("app:%d", i)), NULL), 0);
    }
    harness_until(&b, has_a_list_change, c); /* the first at once, the rest as one */
    until = loop_now_ms(b.loop) + 3 * b.options.list_changed_ms;
    harness_until(&b, time_has_passed, &until);
    assert_in_range(client_count(c, SAID_LIST), 1, 2);
    client_free(c);
}

static void longest_listen_id_still_makes_a_whole_message(void **state)
{
    (void)state;
    static char id[6 * 1024 + 3] = "\"";
    for (size_t i = 0; i < 1024; i++) {
        memcpy(id + 1 + 6 * i, "\\u0001", 6);
    }
    memcpy(id + 1 + 6 * 1024, "\"", 2);
    struct client *c = client_http(&b);
    client_modern(c, id, "subscriptions/listen",
                  "\"notifications\":{\"resourcesListChanged\":true}");
    harness_run_until_idle(&b);
    harness_add(&b, "app:new");
    assert_int_equal(client_count(c, SAID_LIST), 1);
    client_free(c);
}

static void truncation_survives_resubscription(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    (void)session_subscribe_with(&s, "mem://x/a", "{\"since\":\"5eed.1\"}");
    (void)session_subscribe_with(&s, "mem://x/a", "{\"windowMs\":0}");
    struct client *c = session_stream(&s, NULL);
    harness_run_until_idle(&b);
    assert_int_equal(update_count(c, "mem://x/a"), 1);
    assert_json(update_nth(c, "mem://x/a", 0), "params|_meta|dev.tidings/truncated", "true");
    client_free(c);
    assert_int_equal(session_delete(&s), 204);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(truncation_survives_resubscription),
        TEST(subscribe_is_answered_after_watch_starts),
        TEST(refusals_are_errors_with_the_uri),
        TEST(subscriptions_to_the_same_uri_count_once),
        TEST(concurrent_subscriptions_to_the_same_uri_count_once),
        TEST(unsubscription_overtakes_nothing),
        TEST(spellings_of_one_uri_are_separate_subscriptions),
        TEST(unsubscription_without_a_subscription_keeps_the_watch),
        TEST(subscriptions_per_client_are_limited),
        TEST(listen_rejects_too_many_uris),
        TEST(pipe_rejects_too_many_listens),
        TEST(oversized_uris_are_refused_as_such),
        TEST(id_opens_one_listen_at_a_time),
        TEST(list_changes_are_coalesced_and_the_last_is_sent),
        TEST(registration_and_removal_change_the_list),
        TEST(removals_change_the_list_once_or_twice),
        TEST(longest_listen_id_still_makes_a_whole_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
