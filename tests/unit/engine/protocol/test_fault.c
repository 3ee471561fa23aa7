/* SPDX-License-Identifier: MIT
 *
 * With any failed allocation the client is notified or its stream ends, nothing leaks, and every
 * lost change is reported. Each scenario below runs repeatedly and fails its first allocation, its
 * second, and so on until the last.
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
#include "support/fail_alloc.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_provider.h"

static struct harness b;
static struct fake fake;
static long live_before;

static void begin(void)
{
    fail_alloc_start(0);
    live_before = fail_alloc_live();
    harness_init(&b);
    harness_start(&b);
    fake_mount(&fake, &b);
    fake_add(&fake, "mem://x/a");
    fake_add(&fake, "mem://x/b");
}

static void end(void)
{
    harness_run_until_idle(&b);
    harness_stop(&b);
    assert_int_equal(fail_alloc_live(), live_before);
}

/* May fail and reports it. */
static int announce(const char *uri, enum tidings_change_kind kind)
{
    struct tidings_change change = {.uri = tidings_str(uri), .kind = kind};
    return hub_announce(b.hub, &change, NULL);
}

/* Each of these notifies the client or ends its stream. */
static void a_listen(struct client *c)
{
    client_listen(c, "1", "[\"mem://x/a\",\"mem://x/b\"]");
    harness_run_until_idle(&b);
    announce("mem://x/a", TIDINGS_CHANGE_UPDATED);
    harness_run_until_idle(&b);
}

static void a_list_listen(struct client *c)
{
    client_modern(c, "1", "subscriptions/listen",
                  "\"notifications\":{\"resourcesListChanged\":true}");
    harness_run_until_idle(&b);
    announce("mem://x/a", TIDINGS_CHANGE_CREATED);
    harness_run_until_idle(&b);
}

static void a_legacy_life(struct client *c)
{
    client_handshake(c, "2025-06-18");
    harness_run_until_idle(&b);
    client_legacy(c, NULL, "1", "resources/subscribe", "\"uri\":\"mem://x/a\"");
    harness_run_until_idle(&b);
    announce("mem://x/a", TIDINGS_CHANGE_UPDATED);
    harness_run_until_idle(&b);
    if (!c->is_gone) {
        client_legacy(c, NULL, "2", "resources/unsubscribe", "\"uri\":\"mem://x/a\"");
        harness_run_until_idle(&b);
    }
}

static void a_read(struct client *c)
{
    client_modern(c, "1", "resources/read", "\"uri\":\"mem://x/a\"");
    harness_run_until_idle(&b);
}

static void a_walk(struct client *c)
{
    client_modern(c, "1", "resources/list", "\"pageSize\":1");
    harness_run_until_idle(&b);
}

static void a_batch(struct client *c)
{
    client_handshake(c, "2025-03-26");
    client_say(c, NULL,
               "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"},7,"
               "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"resources/read\","
               "\"params\":{\"uri\":\"mem://x/a\"}}]");
    harness_run_until_idle(&b);
}

static void a_session(struct client *c)
{
    client_legacy(c, NULL, "1", "initialize", "\"protocolVersion\":\"2025-11-25\"");
    harness_run_until_idle(&b);
    if (c->count == 1 && c->said[0].session[0]) {
        struct harness_session s = {.harness = &b};
        snprintf(s.id, sizeof(s.id), "%s", c->said[0].session);
        client_free(session_request(&s, "1", "resources/subscribe", "\"uri\":\"mem://x/a\""));
        harness_run_until_idle(&b);
        struct client *stream = session_stream(&s, NULL);
        announce("mem://x/a", TIDINGS_CHANGE_UPDATED);
        harness_run_until_idle(&b);
        client_free(stream);
        harness_run_until_idle(&b);
        stream = session_stream(&s, "9.9.9");
        harness_run_until_idle(&b);
        client_free(stream);
        (void)session_delete(&s);
    }
}

static void a_refusal(struct client *c)
{
    client_say(c, NULL,
               "{\"jsonrpc\":\"2.0\",\"id\":\"an id of some length\",\"method\":\"x\","
               "\"params\":{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":"
               "\"v999.999.999\",\"io.modelcontextprotocol/clientCapabilities\":{}}}}");
    harness_run_until_idle(&b);
}

static void a_failed_read(struct client *c)
{
    client_modern(c, "\"an id of some length\"", "resources/read",
                  "\"uri\":\"mem://x/a-rather-long-name-for-something-that-is-not-there\"");
    harness_run_until_idle(&b);
}

static void a_stop(struct client *c)
{
    client_listen(c, "1", "[\"mem://x/a\"]");
    harness_run_until_idle(&b);
    drain_begin(b.worker[0], 0);
    harness_run_until_idle(&b);
}

/* An open listen was acknowledged; any other listen was answered or cut. */
static void check_listen(const struct client *c)
{
    bool is_cut = client_count_kind(c, SAID_CUT) > 0 || c->is_gone;
    bool is_over = is_cut || client_count_kind(c, SAID_END) > 0;
    if (b.worker[0]->stats.subscribers > 0 && !is_over) {
        list_each (it, next, &b.worker[0]->delivery->subscribers) {
            const struct subscriber *subscriber = list_entry(it, struct subscriber, link);
            if (subscriber->group_count > 0 && client_count(c, SAID_ACK) == 0 &&
                subscriber->sink == &c->sink) {
                const struct subscription_group *l =
                    list_entry(subscriber->groups.next, struct subscription_group, link);
                assert_int_equal(l->id_len, 0); /* unacknowledged listens are legacy */
            }
        }
    }
}

/* One allocation, then one and all later ones until memory is available. */
static void every_allocation_may_fail(void (*life)(struct client *), bool is_pipe)
{
    bool reached = true;
    for (long n = 2; reached; n++) {
        begin();
        struct client *c = is_pipe ? client_pipe(&b) : client_http(&b);
        (n % 2 == 0 ? fail_alloc_start : fail_alloc_start_lasting)(n / 2);
        life(c);
        reached = fail_alloc_stop();
        harness_run_until_idle(&b);
        check_listen(c);
        if (!is_pipe) {
            /* A clear outcome: an answer, or a stream that is open or was cut. */
            assert_false(c->is_waiting);
            assert_true(c->count > 0 || c->is_streaming);
        }
        client_free(c);
        harness_run_until_idle(&b);
        assert_int_equal(b.worker[0]->delivery->match.count, 0);
        assert_int_equal(b.worker[0]->stats.subscriptions, 0);
        assert_int_equal(b.worker[0]->jobs, 0);
        end();
        assert_true(n < 10000);
    }
}

#define FAULT(name, life, is_pipe)                                                                 \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        every_allocation_may_fail(life, is_pipe);                                                  \
    }

FAULT(a_listen_over_http_survives_any_failed_allocation, a_listen, false)
FAULT(a_listen_on_a_pipe_survives_any_failed_allocation, a_listen, true)
FAULT(a_list_listen_survives_any_failed_allocation, a_list_listen, false)
FAULT(a_legacy_subscription_survives_any_failed_allocation, a_legacy_life, true)
FAULT(a_read_survives_any_failed_allocation, a_read, false)
FAULT(a_list_survives_any_failed_allocation, a_walk, false)
FAULT(a_batch_survives_any_failed_allocation, a_batch, true)
FAULT(a_refusal_survives_any_failed_allocation, a_refusal, true)
FAULT(a_failed_read_survives_any_failed_allocation, a_failed_read, false)
FAULT(a_session_survives_any_failed_allocation, a_session, false)
FAULT(stopping_survives_any_failed_allocation, a_stop, false)
FAULT(stopping_a_pipe_survives_any_failed_allocation, a_stop, true)

/* The next change reports a change that was lost without memory. */
static void change_lost_without_memory_is_reported_by_the_next(void **state)
{
    (void)state;
    bool reached = true;
    for (long n = 1; reached; n++) {
        begin();
        struct client *c = client_http(&b);
        client_listen(c, "1", "[\"mem://x/a\",\"mem://x/b\"]");
        harness_run_until_idle(&b);
        fail_alloc_start(n);
        int rc = announce("mem://x/a", TIDINGS_CHANGE_UPDATED);
        harness_run_until_idle(&b);
        reached = fail_alloc_stop();
        announce("mem://x/b", TIDINGS_CHANGE_UPDATED);
        harness_run_until_idle(&b);
        if (rc == 0 && !c->is_gone) { /* a cut stream is sufficient */
            size_t about_a = 0;
            for (size_t i = 0; i < client_count(c, SAID_UPDATED); i++) {
                const char *u = client_nth(c, SAID_UPDATED, i);
                about_a += strcmp(json_at(u, "params|subscribedUri"), "mem://x/a") == 0;
            }
            assert_int_equal(about_a, 1);
        }
        client_free(c);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_listen_over_http_survives_any_failed_allocation),
        cmocka_unit_test(a_listen_on_a_pipe_survives_any_failed_allocation),
        cmocka_unit_test(a_list_listen_survives_any_failed_allocation),
        cmocka_unit_test(a_legacy_subscription_survives_any_failed_allocation),
        cmocka_unit_test(a_read_survives_any_failed_allocation),
        cmocka_unit_test(a_list_survives_any_failed_allocation),
        cmocka_unit_test(a_batch_survives_any_failed_allocation),
        cmocka_unit_test(a_refusal_survives_any_failed_allocation),
        cmocka_unit_test(a_failed_read_survives_any_failed_allocation),
        cmocka_unit_test(a_session_survives_any_failed_allocation),
        cmocka_unit_test(stopping_survives_any_failed_allocation),
        cmocka_unit_test(stopping_a_pipe_survives_any_failed_allocation),
        cmocka_unit_test(change_lost_without_memory_is_reported_by_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
