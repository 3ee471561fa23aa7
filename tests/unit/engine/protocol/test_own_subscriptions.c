/* SPDX-License-Identifier: MIT
 *
 * The list of a client's own subscriptions in special states: a suspended subscription, and a
 * subscription with an unsent truncated update. Subscriptions of others are not affected.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/delivery/subscription.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"

#define TRUNCATED "params|_meta|dev.tidings/truncated"
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct harness b;
static struct stub stub;

static int begin(void **state)
{
    (void)state;
    harness_init(&b);
    b.self.list_changed = b.options.list_changed = false;
    b.option_limits.window_ms = 0;
    b.limits.outbox_max = 1;
    harness_start(&b);
    stub_mount(&stub, &b, "mem://x/", 0);
    stub_add(&stub, "mem://x/a", false);
    stub_add(&stub, "mem://x/b", false);
    return 0;
}

static int end(void **state)
{
    (void)state;
    harness_stop(&b);
    return 0;
}

/* A connection in each era, subscribed to a container (first) and to one resource. */
struct pair {
    struct client *modern, *legacy;
};

static struct pair subscribed(const char *options)
{
    struct pair p = {client_pipe(&b), client_pipe(&b)};
    client_listen_with(p.modern, "1", "[\"mem://x/\"]", options);
    client_listen_with(p.modern, "2", "[\"mem://x/b\"]", NULL);
    client_handshake(p.legacy, "2025-11-25");
    assert_empty_result(pipe_subscribe_with(p.legacy, "3", "mem://x/", options));
    assert_empty_result(pipe_subscribe_with(p.legacy, "4", "mem://x/b", NULL));
    harness_run_until_idle(&b);
    return p;
}

static void pair_free(struct pair p)
{
    client_free(p.modern);
    client_free(p.legacy);
}

/* The answer to a list of own subscriptions. */
static const char *list_of(struct client *c, bool is_modern)
{
    if (is_modern) {
        client_modern(c, "9", "dev.tidings/subscriptions/list", NULL);
    } else {
        client_legacy(c, NULL, "9", "dev.tidings/subscriptions/list", NULL);
    }
    harness_run_until_idle(&b);
    return client_nth_kind(c, SAID_ANSWER, client_count_kind(c, SAID_ANSWER) - 1)->text;
}

static void assert_states(struct client *c, bool is_modern, const char *first,
                          const char *truncated)
{
    const char *list = list_of(c, is_modern);
    assert_json(list, "result|subscriptions|0|uri", "mem://x/");
    assert_json(list, "result|subscriptions|0|state", first);
    assert_json(list, "result|subscriptions|0|truncated", truncated);
    assert_json(list, "result|subscriptions|1|uri", "mem://x/b");
    assert_json(list, "result|subscriptions|1|state", "active");
    assert_json(list, "result|subscriptions|1|truncated", "false");
    assert_no_json(list, "result|subscriptions|2");
}

static void announce(const char *uri, const char *metadata)
{
    struct tidings_change change = {.uri = tidings_str(uri), .metadata = tidings_str(metadata)};
    harness_announce(&b, &change);
    harness_run_until_idle(&b);
}

static void suspended_subscription_is_listed_as_suspended(void **state)
{
    (void)state;
    static char metadata[4200];
    snprintf(metadata, sizeof(metadata), "{\"text\":\"%04000d\"}", 0);
    memset(strchr(metadata, '0'), 'a', 4000);
    struct pair costly = subscribed("{\"filter\":{\"properties\":{\"metadata\":{\"properties\":{"
                                    "\"text\":{\"pattern\":\"(a{1,99}){1,20}b\"}}}}}}");
    struct pair others = subscribed(NULL);
    for (unsigned i = 0; i < FILTER_GIVE_UPS; i++) {
        assert_states(costly.modern, true, "active", "false");
        assert_states(costly.legacy, false, "active", "false");
        announce("mem://x/a", metadata);
    }
    assert_states(costly.modern, true, "suspended", "false");
    assert_states(costly.legacy, false, "suspended", "false");
    assert_states(others.modern, true, "active", "false");
    assert_states(others.legacy, false, "active", "false");
    /* A resubscription resets it. */
    assert_empty_result(pipe_subscribe_with(costly.legacy, "5", "mem://x/", "{}"));
    const char *list = list_of(costly.legacy, false);
    assert_json(list, "result|subscriptions|0|state", "active");
    assert_json(list, "result|subscriptions|1|state", "active");
    pair_free(costly);
    pair_free(others);
}

static void truncated_subscription_is_listed_until_the_update_is_sent(void **state)
{
    (void)state;
    struct pair slow = subscribed(NULL), others = subscribed(NULL);
    slow.modern->has_no_room = slow.legacy->has_no_room = true;
    announce("mem://x/a", "{}");
    assert_states(slow.modern, true, "active", "false"); /* it waits */
    assert_json(list_of(slow.modern, true), "result|subscriptions|0|waiting", "1");
    announce("mem://x/c", "{}"); /* more than the queue holds */
    assert_states(slow.modern, true, "active", "true");
    assert_states(slow.legacy, false, "active", "true");
    assert_states(others.modern, true, "active", "false");
    assert_states(others.legacy, false, "active", "false");
    struct client *both[] = {slow.modern, slow.legacy};
    for (size_t i = 0; i < COUNT(both); i++) {
        both[i]->has_no_room = false;
        client_drain(both[i]);
        harness_run_until_idle(&b);
        assert_json(update_nth(both[i], "mem://x/", 0), TRUNCATED, "true");
        assert_states(both[i], i == 0, "active", "false");
    }
    pair_free(slow);
    pair_free(others);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(suspended_subscription_is_listed_as_suspended, begin, end),
        cmocka_unit_test_setup_teardown(truncated_subscription_is_listed_until_the_update_is_sent,
                                        begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
