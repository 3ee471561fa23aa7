/* SPDX-License-Identifier: MIT
 *
 * From a request to a subscription: the acknowledgement and its time, later updates and their
 * names, and watches that are shared and released.
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

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SUBSCRIPTIONS "params|notifications|resourceSubscriptions"
#define REFUSED "params|_meta|dev.tidings/refused"
#define LISTEN_ID "params|_meta|io.modelcontextprotocol/subscriptionId"
#define META_U "params|_meta|dev.tidings/"

static struct harness b;
static struct fake fake;

static int setup(void **state)
{
    (void)state;
    harness_init(&b);
    harness_start(&b);
    fake_mount(&fake, &b);
    fake_add(&fake, "mem://x/a");
    fake_add(&fake, "mem://x/b");
    harness_add(&b, "app:one");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_run_until_idle(&b);
    assert_int_equal(b.worker[0]->delivery->match.count, 0);
    assert_int_equal(b.worker[0]->stats.subscriptions, 0);
    harness_stop(&b);
    assert_int_equal(fake.closes, 1);
    return 0;
}

static void update(const char *uri)
{
    harness_update(&b, uri);
    harness_run_until_idle(&b);
}

/* ---- listens --------------------------------------------------------------------------------- */

static void listen_is_acknowledged_after_watch_starts(void **state)
{
    (void)state;
    struct client *c = client_http(&b);
    fake.holds_watches = true;
    client_listen(c, "7", "[\"mem://x/a\"]");
    harness_run_until_idle(&b);
    assert_int_equal(fake.watches, 1);
    assert_true(c->is_streaming);
    assert_int_equal(c->count, 0);
    fake_finish_watches(&fake, 0, NULL);
    harness_run_until_idle(&b);
    assert_int_equal(c->count, 1);
    const char *ack = client_nth(c, SAID_ACK, 0);
    assert_json(ack, SUBSCRIPTIONS, "[\"mem://x/a\"]");
    assert_json(ack, LISTEN_ID, "7");
    assert_no_json(ack, "params|notifications|resourcesListChanged");
    assert_no_json(ack, REFUSED);
    assert_no_json(ack, "id");
    client_free(c);
}

static void changes_are_not_sent_before_the_acknowledgement(void **state)
{
    (void)state;
    struct client *c = client_http(&b);
    fake.holds_watches = true;
    client_listen(c, "7", "[\"mem://x/a\",\"app:one\"]");
    harness_run_until_idle(&b);
    update("mem://x/a");
    update("app:one");
    assert_int_equal(c->count, 0);
    fake_finish_watches(&fake, 0, NULL);
    harness_run_until_idle(&b);
    assert_int_equal(c->count, 1);
    assert_json(c->said[0].text, "method", SAID_ACK);
    client_free(c);
}

static void change_before_acknowledgement_is_delivered_after_it(void **state)
{
    (void)state;
    struct client *c = client_http(&b);
    fake.holds_watches = true;
    client_listen(c, "7", "[\"mem://x/a\"]");
    harness_run_until_idle(&b);
    /* Watched; then a change before the hub has read it. */
    fake_finish_watches(&fake, 0, NULL);
    harness_update(&b, "mem://x/a");
    harness_run_until_idle(&b);
    assert_int_equal(c->count, 2);
    assert_json(c->said[0].text, "method", SAID_ACK);
    assert_json(c->said[1].text, "method", SAID_UPDATED);
    assert_true(cursor_of(c->said[0].text) < cursor_of(c->said[1].text));
    client_free(c);
}

static void change_before_watch_starts_is_not_announced(void **state)
{
    (void)state;
    struct client *c = client_http(&b);
    fake.holds_watches = true;
    client_listen(c, "7", "[\"mem://x/a\"]");
    harness_run_until_idle(&b);
    harness_update(&b, "mem://x/a");
    fake_finish_watches(&fake, 0, NULL);
    harness_run_until_idle(&b);
    assert_int_equal(c->count, 1);
    client_free(c);
}

static void refused_uris_are_omitted_and_explained(void **state)
{
    (void)state;
    fake_add(&fake, "mem://x/mute")->is_mute = true;
    fake.refuses = "no more watches";
    struct client *c = client_http(&b);
    client_listen(c, "\"l\"",
                  "[\"mem://x/a\",\"app:one\",\"mem://x/none\",\"mem://x/mute\",\"nope:1\","
                  "\"not a uri\",\"app:one\"]");
    harness_run_until_idle(&b);
    const char *ack = client_nth(c, SAID_ACK, 0);
    assert_json(ack, SUBSCRIPTIONS, "[\"app:one\"]");
    assert_json(ack, LISTEN_ID, "l");
    assert_json(ack, REFUSED "|0|uri", "mem://x/a");
    assert_json(ack, REFUSED "|0|reason", "no more watches");
    assert_json(ack, REFUSED "|1|uri", "mem://x/none");
    assert_json(ack, REFUSED "|2|uri", "mem://x/mute");
    assert_json(ack, REFUSED "|3|uri", "nope:1");
    assert_json(ack, REFUSED "|4|uri", "not a uri");
    assert_no_json(ack, REFUSED "|5");
    for (unsigned i = 0; i < 5; i++) {
        const char *reason = json_at(ack, text_of(REFUSED "|%u|reason", i));
        assert_non_null(reason);
        assert_true(reason[0] != '\0');
    }
    assert_int_equal(b.worker[0]->stats.subscriptions, 1);
    assert_int_equal(fake.unwatches, 0);
    update("app:one");
    update("mem://x/a");
    assert_int_equal(client_count(c, SAID_UPDATED), 1);
    client_free(c);
}

static void empty_listen_is_acknowledged_and_stays_open(void **state)
{
    (void)state;
    struct client *c = client_http(&b);
    client_modern(c, "1", "subscriptions/listen", "\"notifications\":{}");
    harness_run_until_idle(&b);
    assert_json(client_nth(c, SAID_ACK, 0), "params|notifications", "{}");
    assert_int_equal(client_count_kind(c, SAID_END), 0);
    client_free(c);
}

static void malformed_listens_are_refused_before_they_become_streams(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\"a\":1",
        "\"notifications\":[]",
        "\"notifications\":{\"resourceSubscriptions\":{}}",
        "\"notifications\":{\"resourceSubscriptions\":[1]}",
        "\"notifications\":{\"resourceSubscriptions\":\"app:one\"}",
        "\"notifications\":{\"resourcesListChanged\":1}",
        "\"notifications\":{\"toolsListChanged\":\"yes\"}",
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct client *c = client_http(&b);
        client_modern(c, "9", "subscriptions/listen", bad[i]);
        harness_run_until_idle(&b);
        assert_json(client_answer(c)->text, "error|code", "-32602");
        assert_json(client_answer(c)->text, "id", "9");
        assert_false(c->is_streaming);
        client_free(c);
    }
}

static void group_closed_while_watches_start_releases_them(void **state)
{
    (void)state;
    struct client *c = client_http(&b);
    fake.holds_watches = true;
    client_listen(c, "7", "[\"mem://x/a\",\"mem://x/b\"]");
    harness_run_until_idle(&b);
    client_vanish(c);
    harness_run_until_idle(&b);
    fake_finish_watches(&fake, 0, NULL);
    harness_run_until_idle(&b);
    assert_int_equal(fake.watches, 2);
    assert_int_equal(fake.unwatches, 2);
    assert_int_equal(fake.armed, 0);
    assert_int_equal(b.worker[0]->stats.subscribers, 0);
    assert_int_equal(c->count, 0);
    client_free(c);
}

static void group_closed_while_uris_resolve_releases_watches(void **state)
{
    (void)state;
    struct client *c = client_http(&b);
    fake.holds_stats = true;
    client_listen(c, "7", "[\"mem://x/a\",\"mem://x/b\"]");
    harness_run_until_idle(&b);
    client_vanish(c);
    harness_run_until_idle(&b);
    fake.on_thread = true;
    fake_finish_stats(&fake);
    harness_run_until_idle(&b);
    assert_int_equal(fake.armed, 0);
    assert_int_equal(fake.watches, fake.unwatches);
    client_free(c);
}

static void peers_share_one_watch(void **state)
{
    (void)state;
    struct client *one = client_http(&b), *two = client_http(&b);
    fake.holds_watches = true;
    client_listen(one, "1", "[\"mem://x/a\"]");
    harness_run_until_idle(&b);
    client_listen(two, "2", "[\"mem://x/a\"]"); /* while the first watch starts */
    harness_run_until_idle(&b);
    fake_finish_watches(&fake, 0, NULL);
    harness_run_until_idle(&b);
    struct client *three = client_http(&b);
    client_listen(three, "3", "[\"mem://x/a\"]"); /* and after it started */
    harness_run_until_idle(&b);
    assert_int_equal(fake.watches, 1);
    update("mem://x/a");
    struct client *all[] = {one, two, three};
    for (size_t i = 0; i < COUNT(all); i++) {
        assert_json(client_nth(all[i], SAID_UPDATED, 0), LISTEN_ID, text_of("%zu", i + 1));
        assert_int_equal(client_count(all[i], SAID_UPDATED), 1);
        assert_int_equal(fake.unwatches, 0);
        client_vanish(all[i]);
        harness_run_until_idle(&b);
    }
    assert_int_equal(fake.unwatches, 1);
    for (size_t i = 0; i < COUNT(all); i++) {
        client_free(all[i]);
    }
}

static void waiting_clients_are_all_notified_of_a_refused_watch(void **state)
{
    (void)state;
    struct client *one = client_http(&b), *two = client_http(&b);
    fake.holds_watches = true;
    client_listen(one, "1", "[\"mem://x/a\"]");
    client_listen(two, "2", "[\"mem://x/a\"]");
    harness_run_until_idle(&b);
    assert_int_equal(fake.watches, 1);
    fake_finish_watches(&fake, TIDINGS_E_IO, "it broke");
    harness_run_until_idle(&b);
    assert_json(client_nth(one, SAID_ACK, 0), REFUSED "|0|reason", "it broke");
    assert_json(client_nth(two, SAID_ACK, 0), REFUSED "|0|reason", "it broke");
    client_free(one);
    client_free(two);
    harness_run_until_idle(&b);
    assert_int_equal(fake.unwatches, 0);
    /* A retry is possible. */
    fake.holds_watches = false;
    struct client *three = client_http(&b);
    client_listen(three, "3", "[\"mem://x/a\"]");
    harness_run_until_idle(&b);
    assert_json(client_nth(three, SAID_ACK, 0), SUBSCRIPTIONS, "[\"mem://x/a\"]");
    client_free(three);
}

/* ---- matches and their names ----------------------------------------------------------------- */

static void container_and_literal_inside_each_notify_once(void **state)
{
    (void)state;
    fake_add(&fake, "mem://x/d/")->is_listable = true;
    fake_add(&fake, "mem://x/d/f");
    struct client *c = client_http(&b);
    client_listen(c, "1", "[\"mem://x/d/\",\"mem://x/d/f\"]");
    harness_run_until_idle(&b);
    update("mem://x/d/f");
    update("mem://x/d/g");
    update("mem://x/e");
    assert_int_equal(client_count(c, SAID_UPDATED), 3);
    const char *literal = client_nth(c, SAID_UPDATED, 0),
               *container = client_nth(c, SAID_UPDATED, 1);
    assert_json(literal, "params|uri", "mem://x/d/f");
    assert_json(literal, "params|subscribedUri", "mem://x/d/f");
    assert_json(container, "params|uri", "mem://x/d/f");
    assert_json(container, "params|subscribedUri", "mem://x/d/");
    assert_json(client_nth(c, SAID_UPDATED, 2), "params|uri", "mem://x/d/g");
    assert_json(client_nth(c, SAID_UPDATED, 2), "params|subscribedUri", "mem://x/d/");
    client_free(c);
}

static void client_receives_its_own_spelling(void **state)
{
    (void)state;
    struct client *c = client_http(&b);
    client_listen(c, "1", "[\"MEM://X/%61\"]");
    harness_run_until_idle(&b);
    assert_json(client_nth(c, SAID_ACK, 0), SUBSCRIPTIONS, "[\"MEM://X/%61\"]");
    update("mem://x/a");
    const char *u = client_nth(c, SAID_UPDATED, 0);
    assert_json(u, "params|uri", "MEM://X/%61");
    assert_json(u, "params|subscribedUri", "MEM://X/%61");
    assert_json(u, META_U "subscribedUri", "MEM://X/%61");
    assert_string_equal(fake.last_watch, "mem://x/a");
    client_free(c);
}

static void provider_spelling_is_the_one_matched(void **state)
{
    (void)state;
    struct fake_resource *r = fake_add(&fake, "mem://x/dir");
    r->is_listable = true;
    snprintf(r->own, sizeof(r->own), "mem://x/dir/");
    r = fake_add(&fake, "mem://x/link");
    snprintf(r->own, sizeof(r->own), "mem://x/target");
    struct client *c = client_http(&b);
    fake.holds_stats = true;
    client_listen(c, "1", "[\"mem://x/dir\",\"mem://x/link\"]");
    harness_run_until_idle(&b);
    fake.on_thread = true; /* the stat result must survive the round trip */
    fake_finish_stats(&fake);
    harness_run_until_idle(&b);
    assert_json(client_nth(c, SAID_ACK, 0), SUBSCRIPTIONS, "[\"mem://x/dir\",\"mem://x/link\"]");
    update("mem://x/dir/below");
    update("mem://x/target");
    update("mem://x/link");
    assert_int_equal(client_count(c, SAID_UPDATED), 2);
    assert_json(client_nth(c, SAID_UPDATED, 0), "params|uri", "mem://x/dir/below");
    assert_json(client_nth(c, SAID_UPDATED, 0), "params|subscribedUri", "mem://x/dir");
    assert_json(client_nth(c, SAID_UPDATED, 1), "params|uri", "mem://x/link");
    client_free(c);
    harness_run_until_idle(&b);
    assert_int_equal(fake.armed, 0);
}

static void containers_and_resources_need_not_exist_yet(void **state)
{
    (void)state;
    struct client *c = client_http(&b);
    client_listen(c, "1", "[\"mem://x/later/\",\"app:///never\"]");
    harness_run_until_idle(&b);
    assert_json(client_nth(c, SAID_ACK, 0), SUBSCRIPTIONS, "[\"mem://x/later/\"]");
    assert_string_equal(fake.last_watch, "mem://x/later/");
    harness_change(&b, "mem://x/later/f", TIDINGS_CHANGE_CREATED);
    harness_run_until_idle(&b);
    assert_json(client_nth(c, SAID_UPDATED, 0), META_U "change", "created");
    client_free(c);
    c = client_http(&b);
    client_listen(c, "1", "[\"mem://x/soon\"]");
    harness_run_until_idle(&b);
    assert_json(client_nth(c, SAID_ACK, 0), SUBSCRIPTIONS, "[\"mem://x/soon\"]");
    harness_change(&b, "mem://x/soon", TIDINGS_CHANGE_CREATED);
    harness_run_until_idle(&b);
    assert_json(client_nth(c, SAID_UPDATED, 0), META_U "change", "created");
    client_free(c);
}

static void template_uri_can_be_subscribed_to(void **state)
{
    (void)state;
    harness_add_template(&b, "weather://{city}/now");
    struct client *c = client_http(&b);
    client_listen(c, "1", "[\"weather://oslo/now\",\"weather://oslo/then\"]");
    harness_run_until_idle(&b);
    assert_json(client_nth(c, SAID_ACK, 0), SUBSCRIPTIONS, "[\"weather://oslo/now\"]");
    update("weather://oslo/now");
    update("weather://bergen/now");
    assert_int_equal(client_count(c, SAID_UPDATED), 1);
    client_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(listen_is_acknowledged_after_watch_starts),
        TEST(changes_are_not_sent_before_the_acknowledgement),
        TEST(change_before_acknowledgement_is_delivered_after_it),
        TEST(change_before_watch_starts_is_not_announced),
        TEST(refused_uris_are_omitted_and_explained),
        TEST(empty_listen_is_acknowledged_and_stays_open),
        TEST(malformed_listens_are_refused_before_they_become_streams),
        TEST(group_closed_while_watches_start_releases_them),
        TEST(group_closed_while_uris_resolve_releases_watches),
        TEST(peers_share_one_watch),
        TEST(waiting_clients_are_all_notified_of_a_refused_watch),
        TEST(container_and_literal_inside_each_notify_once),
        TEST(client_receives_its_own_spelling),
        TEST(provider_spelling_is_the_one_matched),
        TEST(containers_and_resources_need_not_exist_yet),
        TEST(template_uri_can_be_subscribed_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
