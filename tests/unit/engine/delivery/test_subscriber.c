/* SPDX-License-Identifier: MIT
 *
 * The updates of a subscriber with a slow, full or broken stream. A cursor never covers more than
 * was written. Gaps in the numbers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/loop.h"
#include "base/str.h"
#include "engine/delivery/subscriber.h"
#include "security/limits.h"
#include "store/change.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_provider.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define META_U "params|_meta|dev.tidings/"
#define BACKED_UP (1u << 20)
#define URIS 6u

static struct harness b;
static struct fake fake;

static int setup(void **state)
{
    (void)state;
    harness_init(&b);
    b.limits.outbox_max = 4;
    b.options.list_changed_ms = 1;
    harness_start(&b);
    fake_mount(&fake, &b);
    for (unsigned i = 0; i < URIS; i++) {
        fake_add(&fake, text_of("mem://x/%u", i));
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_run_until_idle(&b);
    harness_stop(&b);
    return 0;
}

static void update(unsigned i)
{
    harness_update(&b, text_of("mem://x/%u", i));
    harness_run_until_idle(&b);
}

static struct client *listener(const char *uris)
{
    struct client *c = client_http(&b);
    client_listen(c, "1", uris);
    harness_run_until_idle(&b);
    assert_int_equal(client_count(c, SAID_ACK), 1);
    return c;
}

static void stalled_stream_receives_merged_updates_when_it_drains(void **state)
{
    (void)state;
    struct client *c = listener("[\"mem://x/\"]");
    c->pending = BACKED_UP;
    update(0);
    update(1);
    harness_change(&b, "mem://x/0", TIDINGS_CHANGE_DELETED);
    update(1);
    harness_change(&b, "mem://x/0", TIDINGS_CHANGE_CREATED);
    harness_run_until_idle(&b);
    assert_int_equal(client_count(c, SAID_UPDATED), 0);
    client_drain(c);
    harness_run_until_idle(&b);
    assert_int_equal(client_count(c, SAID_UPDATED), 2);
    const char *first = client_nth(c, SAID_UPDATED, 0), *second = client_nth(c, SAID_UPDATED, 1);
    assert_json(first, "params|uri", "mem://x/0");
    assert_json(first, META_U "merged", "3");
    assert_json(first, META_U "change", "updated"); /* deleted and created again */
    assert_json(second, "params|uri", "mem://x/1");
    assert_json(second, META_U "merged", "2");
    assert_int_equal(b.worker[0]->stats.coalesced, 3);
    client_drain(c); /* without waiting messages nothing happens */
    harness_run_until_idle(&b);
    assert_int_equal(client_count(c, SAID_UPDATED), 2);
    client_free(c);
}

struct late_writer {
    struct loop_hook hook;
    struct client *c;
    int hooks; /* that ran */
};

/* Held messages are written after this turn's flush and before the loop waits. */
static void on_end_of_turn(void *user)
{
    struct late_writer *w = user;
    if (++w->hooks == 2) { /* loop_turn() runs the hooks twice, the second time as its last */
        client_drain(w->c);
    }
}

static void queued_changes_are_sent_when_the_stream_drains_at_turn_end(void **state)
{
    (void)state;
    struct late_writer w = {.c = listener("[\"mem://x/\"]")};
    w.c->pending = BACKED_UP;
    update(0);
    loop_hook_add(b.loop, &w.hook, on_end_of_turn, &w);
    loop_turn(b.loop);
    assert_int_equal(w.c->pending, 0);
    assert_int_equal(client_count(w.c, SAID_UPDATED), 0);
    assert_int_equal(loop_timeout_ms(b.loop), 0); /* it does not wait for another event */
    loop_turn(b.loop);
    assert_int_equal(client_count(w.c, SAID_UPDATED), 1);
    loop_hook_remove(&w.hook);
    client_free(w.c);
}

static void overflow_flags_each_subscription_once(void **state)
{
    (void)state;
    struct client *c = listener("[\"mem://x/\",\"mem://x/0\",\"mem://x/5\"]");
    c->pending = BACKED_UP;
    for (unsigned i = 0; i < 4; i++) {
        update(i);
    }
    assert_int_equal(b.worker[0]->limit_counters->hits[LIMIT_OUTBOX], 1);
    uint64_t last = b.worker[0]->last_seq;
    client_drain(c);
    harness_run_until_idle(&b);
    assert_int_equal(client_count(c, SAID_UPDATED), 2); /* mem://x/5 has not changed */
    const char *uris[] = {"mem://x/", "mem://x/0"};
    if (cursor_order(tidings_str(uris[0])) > cursor_order(tidings_str(uris[1]))) {
        uris[0] = "mem://x/0";
        uris[1] = "mem://x/";
    }
    for (size_t i = 0; i < COUNT(uris); i++) {
        const char *u = client_nth(c, SAID_UPDATED, i);
        assert_json(u, "params|uri", uris[i]);
        assert_json(u, "params|subscribedUri", uris[i]);
        assert_json(u, META_U "truncated", "true");
        assert_json(u, META_U "change", "updated");
        assert_no_json(u, META_U "version");
    }
    /* Each cursor covers the sent updates, and the last one covers all. */
    for (size_t i = 0; i < COUNT(uris); i++) {
        const char *u = client_nth(c, SAID_UPDATED, i);
        assert_int_equal(cursor_of(u), last);
        assert_true(cursor_covers(u, uris[0]));
        assert_int_equal(cursor_covers(u, uris[1]), i == 1);
    }
    update(5); /* the server continues */
    assert_int_equal(client_count(c, SAID_UPDATED), 4);
    assert_no_json(client_nth(c, SAID_UPDATED, 2), META_U "truncated");
    client_free(c);
}

static void slow_peer_does_not_delay_another(void **state)
{
    (void)state;
    struct client *slow = listener("[\"mem://x/\"]"), *quick = listener("[\"mem://x/\"]");
    slow->pending = BACKED_UP;
    for (unsigned i = 0; i < URIS; i++) {
        update(i);
        assert_int_equal(client_count(quick, SAID_UPDATED), i + 1);
    }
    assert_int_equal(client_count(slow, SAID_UPDATED), 0);
    client_free(slow);
    client_free(quick);
}

static void unsubscription_drops_queued_changes(void **state)
{
    (void)state;
    struct client *c = client_pipe(&b);
    client_handshake(c, "2025-06-18");
    client_legacy(c, NULL, "1", "resources/subscribe", "\"uri\":\"mem://x/0\"");
    client_legacy(c, NULL, "2", "resources/subscribe", "\"uri\":\"mem://x/1\"");
    harness_run_until_idle(&b);
    c->pending = BACKED_UP;
    update(0);
    update(1);
    client_legacy(c, NULL, "3", "resources/unsubscribe", "\"uri\":\"mem://x/0\"");
    client_drain(c);
    harness_run_until_idle(&b);
    assert_int_equal(client_count(c, SAID_UPDATED), 1);
    assert_json(client_nth(c, SAID_UPDATED, 0), "params|uri", "mem://x/1");
    client_free(c);
}

static void full_stream_receives_no_partial_message(void **state)
{
    (void)state;
    struct client *c = listener("[\"mem://x/\"]");
    c->has_no_room = true; /* broken; the transport will report it */
    update(0);
    update(1);
    assert_int_equal(client_count(c, SAID_UPDATED), 0);
    client_vanish(c);
    harness_run_until_idle(&b);
    assert_int_equal(b.worker[0]->stats.subscribers, 0);
    client_free(c);
}

static void peers_of_two_workers_receive_the_same_updates(void **state)
{
    (void)state;
    harness_stop(&b);
    b.worker_count = 2;
    memset(b.worker, 0, sizeof(b.worker));
    harness_start(&b);
    fake_mount(&fake, &b);
    fake_add(&fake, "mem://x/0");
    struct client *c[2];
    for (size_t i = 0; i < 2; i++) {
        c[i] = client_http_at(&b, i);
        client_listen(c[i], "1", "[\"mem://x/0\"]");
    }
    harness_run_until_idle(&b);
    assert_int_equal(fake.watches, 1);
    update(0);
    assert_int_equal(client_count(c[0], SAID_UPDATED), 1);
    assert_string_equal(client_nth(c[0], SAID_UPDATED, 0), client_nth(c[1], SAID_UPDATED, 0));
    client_free(c[0]);
    harness_run_until_idle(&b);
    assert_int_equal(fake.unwatches, 0);
    client_free(c[1]);
    harness_run_until_idle(&b);
    assert_int_equal(fake.unwatches, 1);
}

/* ---- a gap in the numbers -------------------------------------------------------------------- */

static void lose_a_change(void)
{
    struct tidings_change from = {.uri = STR("mem://x/5")};
    struct change *c = change_create(&from, b.worker[0]->epoch, b.worker[0]->last_seq + 2);
    delivery_on_change(b.worker[0], c);
    change_unref(c);
    harness_run_until_idle(&b);
}

static void lost_change_makes_modern_clients_re_read_without_log_messages(void **state)
{
    (void)state;
    struct client *c = listener("[\"mem://x/0\",\"mem://x/1\"]");
    struct client *arming = client_http(&b);
    fake.holds_watches = true;
    client_listen(arming, "2", "[\"mem://x/2\"]");
    harness_run_until_idle(&b);
    lose_a_change();
    assert_int_equal(client_count(c, SAID_UPDATED), 2);
    assert_json(client_nth(c, SAID_UPDATED, 0), META_U "truncated", "true");
    assert_json(client_nth(c, SAID_UPDATED, 1), META_U "truncated", "true");
    assert_int_equal(client_count(c, SAID_LOG), 0);
    assert_int_equal(arming->count, 0); /* nothing before the acknowledgement */
    fake_finish_watches(&fake, 0, NULL);
    harness_run_until_idle(&b);
    assert_json(arming->said[0].text, "method", SAID_ACK);
    client_free(c);
    client_free(arming);
}

static void lost_change_is_explained_to_legacy_clients(void **state)
{
    (void)state;
    struct client *c = client_pipe(&b);
    client_handshake(c, "2025-06-18");
    client_legacy(c, NULL, "1", "resources/subscribe", "\"uri\":\"mem://x/0\"");
    harness_run_until_idle(&b);
    lose_a_change();
    assert_int_equal(client_count(c, SAID_LOG), 1);
    assert_int_equal(client_count(c, SAID_UPDATED), 1);
    client_free(c);
}

/* ---- the cursor is a low-water mark ---------------------------------------------------------- */

static uint64_t random_state = 42;

static unsigned roll(unsigned n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)((random_state >> 11) % n);
}

#define MAX_CHANGES 512u
#define SUBS 3u

struct told {
    uint64_t seq[SUBS]; /* per URI and subscription: known up to here */
};

/* Replay the updates of one client, message by message: at each, the client has received every
 * matching change at or below its cursor. */
static void check_cursors(const struct client *c, const unsigned *changed, uint64_t count)
{
    static const char *const subs[SUBS] = {"mem://x/", "mem://x/0", "mem://x/1"};
    struct told told[URIS] = {{{0}}};
    for (size_t i = 0; i < c->count; i++) {
        const char *text = c->said[i].text;
        if (strcmp(json_at(text, "method"), SAID_UPDATED) != 0) {
            continue;
        }
        const char *sub = json_at(text, "params|subscribedUri");
        unsigned k = 0;
        while (strcmp(subs[k], sub) != 0) {
            k++;
        }
        const char *uri = json_at(text, "params|uri"), *version = json_at(text, META_U "version");
        for (unsigned u = 0; u < URIS; u++) {
            if (!version) {
                told[u].seq[k] = c->said[i].seq;
            } else if (uri[strlen(uri) - 1] == (char)('0' + u)) {
                struct tidings_str rest;
                (void)str_cut(tidings_str(version), '.', &rest, NULL);
                assert_true(str_to_u64(rest, &told[u].seq[k]));
            }
        }
        uint64_t cursor = cursor_of(text);
        assert_true(cursor <= c->said[i].seq && cursor <= count);
        for (uint64_t seq = 1; seq <= cursor; seq++) {
            unsigned u = changed[seq];
            if (u < URIS) {
                assert_true(told[u].seq[0] >= seq || !cursor_covers(text, subs[0]));
                assert_true(u > 1 || told[u].seq[u + 1] >= seq ||
                            !cursor_covers(text, subs[u + 1]));
            }
        }
    }
}

static void cursor_stays_below_unsent_matching_changes(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 40; round++) {
        harness_init(&b);
        b.limits.outbox_max = 4;
        b.options.list_changed = false; /* so that changes have consecutive numbers */
        harness_start(&b);
        fake_mount(&fake, &b);
        fake_add(&fake, "mem://x/0");
        fake_add(&fake, "mem://x/1");
        struct client *c = listener("[\"mem://x/\",\"mem://x/0\",\"mem://x/1\"]");
        unsigned changed[MAX_CHANGES];
        uint64_t count = 0;
        changed[0] = URIS;
        for (unsigned i = 0; i < 150; i++) {
            unsigned u = roll(URIS + 1); /* the last change is elsewhere */
            switch (roll(4)) {
            case 0:
            case 1:
                harness_change(&b, u < URIS ? text_of("mem://x/%u", u) : "mem://y/0",
                               (enum tidings_change_kind)roll(3));
                changed[++count] = u;
                break;
            case 2:
                if (roll(2)) {
                    c->pending = BACKED_UP;
                } else {
                    client_drain(c);
                }
                break;
            default:
                harness_run_until_idle(&b);
            }
        }
        client_drain(c);
        harness_run_until_idle(&b);
        assert_int_equal(b.worker[0]->last_seq, count);
        check_cursors(c, changed, count);
        client_free(c);
        harness_run_until_idle(&b);
        harness_stop(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(stalled_stream_receives_merged_updates_when_it_drains),
        TEST(queued_changes_are_sent_when_the_stream_drains_at_turn_end),
        TEST(overflow_flags_each_subscription_once),
        TEST(slow_peer_does_not_delay_another),
        TEST(unsubscription_drops_queued_changes),
        TEST(full_stream_receives_no_partial_message),
        TEST(peers_of_two_workers_receive_the_same_updates),
        TEST(lost_change_makes_modern_clients_re_read_without_log_messages),
        TEST(lost_change_is_explained_to_legacy_clients),
        cmocka_unit_test(cursor_stays_below_unsent_matching_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
