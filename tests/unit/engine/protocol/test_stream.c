/* SPDX-License-Identifier: MIT
 *
 * The streams of a session: each message on exactly one stream, replacement, resuming with the last
 * event id. After any failure a resuming client receives everything.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/protocol/session.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_provider.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define URIS 5u
#define TRUNCATED "params|_meta|dev.tidings/truncated"

static struct harness b;
static struct fake fake;
static struct harness_session s;

static int setup_with(const char *revision)
{
    harness_init(&b);
    b.self.list_changed = false; /* only updates */
    b.options.list_changed = false;
    harness_start(&b);
    fake_mount(&fake, &b);
    for (unsigned i = 0; i < URIS; i++) {
        fake_add(&fake, text_of("mem://x/%u", i));
    }
    harness_session(&b, revision, &s);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    return setup_with("2025-11-25");
}

static int setup_older(void **state)
{
    (void)state;
    return setup_with("2025-06-18");
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

static struct client *open_stream(const char *last_event_id)
{
    struct client *c = session_stream(&s, last_event_id);
    harness_run_until_idle(&b);
    assert_true(c->is_streaming);
    return c;
}

/* The updates of a stream, by the last character of the URI: "013". */
static const char *heard(const struct client *c)
{
    static char texts[8][64];
    static unsigned next;
    char *text = texts[next++ % 8];
    size_t n = client_count(c, SAID_UPDATED);
    assert_true(n < 64);
    for (size_t i = 0; i < n; i++) {
        const char *uri = json_at(client_nth(c, SAID_UPDATED, i), "params|uri");
        text[i] = uri[strlen(uri) - 1];
    }
    text[n] = '\0';
    return text;
}

static const char *last_id(const struct client *c)
{
    assert_true(c->count > 0);
    return c->said[c->count - 1].id;
}

/* ---- which stream ---------------------------------------------------------------------------- */

static void messages_each_go_to_the_newest_stream_only(void **state)
{
    (void)state;
    session_subscribe(&s, "mem://x/");
    struct client *one = open_stream(NULL);
    update(0);
    struct client *two = open_stream(NULL);
    update(1);
    struct client *three = open_stream(NULL);
    update(2);
    assert_string_equal(heard(one), "0");
    assert_string_equal(heard(two), "1");
    assert_string_equal(heard(three), "2");
    client_vanish(two); /* not the newest stream: no change */
    update(3);
    assert_string_equal(heard(three), "23");
    client_vanish(three); /* the older stream takes over */
    update(4);
    assert_string_equal(heard(one), "04");
    client_free(one);
    client_free(two);
    client_free(three);
}

static void queued_changes_of_a_closing_stream_go_to_the_next(void **state)
{
    (void)state;
    session_subscribe(&s, "mem://x/");
    struct client *one = open_stream(NULL), *two = open_stream(NULL);
    two->pending = 1u << 20; /* stalled */
    update(0);
    update(1);
    assert_string_equal(heard(two), "");
    client_vanish(two);
    harness_run_until_idle(&b);
    assert_string_equal(heard(one), "01");
    client_free(one);
    client_free(two);
}

static void changes_without_a_stream_are_replayed_once_per_uri(void **state)
{
    (void)state;
    session_subscribe(&s, "mem://x/");
    update(0);
    harness_change(&b, "mem://x/1", TIDINGS_CHANGE_CREATED);
    update(0);
    update(1);
    update(2);
    struct client *c = open_stream(NULL);
    assert_string_equal(heard(c), "012");
    assert_json(client_nth(c, SAID_UPDATED, 0), "params|_meta|dev.tidings/change", "updated");
    assert_json(client_nth(c, SAID_UPDATED, 1), "params|_meta|dev.tidings/change", "created");
    update(3);
    assert_string_equal(heard(c), "0123");
    client_free(c);
    harness_run_until_idle(&b);
    c = open_stream(NULL); /* no written message is repeated */
    assert_string_equal(heard(c), "");
    client_free(c);
}

static void change_during_replay_is_sent_once(void **state)
{
    (void)state;
    session_subscribe(&s, "mem://x/");
    update(0);
    harness_update(&b, "mem://x/1"); /* numbered before the hub query, delivered after it */
    struct client *c = session_stream(&s, NULL);
    harness_update(&b, "mem://x/2"); /* numbered after */
    harness_run_until_idle(&b);
    assert_string_equal(heard(c), "012");
    for (size_t i = 0; i < 3; i++) {
        assert_no_json(client_nth(c, SAID_UPDATED, i), "params|_meta|dev.tidings/merged");
    }
    client_free(c);
}

static void replay_covers_only_subscriptions_of_the_time(void **state)
{
    (void)state;
    session_subscribe(&s, "mem://x/0");
    session_subscribe(&s, "mem://x/1");
    update(0);
    update(1);
    update(2);
    session_unsubscribe(&s, "mem://x/0");
    session_subscribe(&s, "mem://x/2"); /* receives later changes */
    struct client *c = open_stream(NULL);
    assert_string_equal(heard(c), "1");
    client_free(c);
}

/* ---- ids ------------------------------------------------------------------------------------- */

static void event_ids_are_unique_and_name_stream_number_and_cursor(void **state)
{
    (void)state;
    session_subscribe(&s, "mem://x/");
    struct client *streams[6];
    char seen[64][256];
    size_t count = 0;
    uint64_t last_number = 0;
    for (size_t i = 0; i < COUNT(streams); i++) {
        streams[i] = open_stream(NULL);
        update(0);
        update(1);
        for (size_t k = 0; k < streams[i]->count; k++) {
            const char *id = streams[i]->said[k].id;
            unsigned stream = 0;
            unsigned long long number = 0, cursor = 0;
            assert_int_equal(sscanf(id, "%x.%llu.%llu", &stream, &number, &cursor), 3);
            assert_true(number > last_number);
            last_number = number;
            assert_true(cursor <= b.worker[0]->last_seq);
            for (size_t j = 0; j < count; j++) {
                assert_string_not_equal(seen[j], id);
            }
            snprintf(seen[count++], sizeof(seen[0]), "%s", id);
        }
        client_vanish(streams[i]);
    }
    assert_int_equal(count, 3 * COUNT(streams)); /* a priming event each */
    for (size_t i = 0; i < COUNT(streams); i++) {
        client_free(streams[i]);
    }
}

static void streams_of_the_newest_legacy_revision_start_with_priming(void **state)
{
    (void)state;
    struct client *c = open_stream(NULL);
    assert_int_equal(c->said[0].kind, SAID_PRIME);
    assert_int_equal(c->said[0].retry_ms, b.limits.retry_ms);
    assert_true(c->said[0].id[0] != '\0');
    client_free(c);
}

static void streams_of_older_revisions_have_no_priming(void **state)
{
    (void)state;
    session_subscribe(&s, "mem://x/");
    struct client *c = open_stream(NULL);
    assert_int_equal(c->count, 0);
    update(0);
    assert_int_equal(client_count_kind(c, SAID_PRIME), 0);
    assert_true(last_id(c)[0] != '\0');
    client_free(c);
}

/* ---- resuming -------------------------------------------------------------------------------- */

static void resumed_stream_replays_its_later_events_once(void **state)
{
    (void)state;
    session_subscribe(&s, "mem://x/");
    struct client *one = open_stream(NULL);
    for (unsigned i = 0; i < URIS; i++) {
        update(i);
    }
    /* The client has seen the first n of five; then three more follow without a stream. */
    const char *ids[URIS + 1];
    for (size_t n = 0; n <= URIS; n++) {
        ids[n] = one->said[n].id; /* 0: the priming event */
    }
    client_vanish(one);
    for (size_t n = 0; n <= URIS; n++) {
        struct client *c = open_stream(ids[n]);
        assert_string_equal(heard(c), &"01234"[n]);
        client_free(c);
    }
    client_free(one);
}

static void resumed_stream_sends_changes_without_a_stream(void **state)
{
    (void)state;
    session_subscribe(&s, "mem://x/");
    struct client *one = open_stream(NULL);
    update(0);
    update(1);
    client_vanish(one);
    update(2);
    struct client *two = open_stream(one->said[1].id);
    assert_string_equal(heard(two), "12");
    update(3);
    assert_string_equal(heard(two), "123");
    client_free(one);
    client_free(two);
}

static void resumed_stream_omits_changes_sent_on_another(void **state)
{
    (void)state;
    session_subscribe(&s, "mem://x/");
    struct client *one = open_stream(NULL);
    update(0);
    update(1);
    client_vanish(one);
    struct client *two = open_stream(NULL); /* a new one */
    update(2);
    struct client *back = open_stream(one->said[1].id); /* 1 was lost on the first */
    assert_string_equal(heard(back), "1");
    update(3);
    assert_string_equal(heard(back), "13");
    assert_string_equal(heard(two), "2");
    client_free(one);
    client_free(two);
    client_free(back);
}

static void stream_that_became_newest_again_is_resumed_whole(void **state)
{
    (void)state;
    session_subscribe(&s, "mem://x/");
    struct client *one = open_stream(NULL);
    update(0);
    struct client *two = open_stream(NULL);
    update(1);
    client_vanish(two); /* 1 is seen there; the first stream is the newest again */
    harness_run_until_idle(&b);
    update(2);
    update(3);
    assert_string_equal(heard(one), "023");
    /* The client saw 0 and then lost the connection: 2 and 3 went to this very stream. */
    const char *id = client_nth_said(one, SAID_UPDATED, 0)->id;
    client_vanish(one);
    struct client *back = open_stream(id);
    assert_string_equal(heard(back), "23");
    client_free(one);
    client_free(two);
    client_free(back);
}

static void resumed_stream_lost_unseen_is_resumed_with_the_older_id(void **state)
{
    (void)state;
    session_subscribe(&s, "mem://x/");
    struct client *one = open_stream(NULL);
    update(0);
    update(1);
    const char *id = client_nth_said(one, SAID_UPDATED, 0)->id;
    client_vanish(one);
    struct client *lost = open_stream(id); /* no byte of it arrives */
    update(2);
    client_vanish(lost);
    struct client *back = open_stream(id);
    assert_string_equal(heard(back), "12");
    client_free(one);
    client_free(lost);
    client_free(back);
}

static void stream_lost_right_after_priming_loses_nothing(void **state)
{
    (void)state;
    session_subscribe(&s, "mem://x/");
    struct client *one = open_stream(NULL);
    update(0);
    update(1);
    client_vanish(one);
    struct client *two = open_stream(one->said[1].id);
    assert_int_equal(two->said[0].kind, SAID_PRIME);
    const char *id = two->said[0].id; /* the client saw that part */
    client_vanish(two);
    struct client *three = open_stream(id);
    assert_string_equal(heard(three), "1");
    client_free(one);
    client_free(two);
    client_free(three);
}

static void unknown_id_truncates_all_subscriptions(void **state)
{
    (void)state;
    static const char *const ids[] = {
        "nonsense",
        "1",
        "1.1",
        "1.1.1.1",
        "99.1.0",
        "1.99999.0",
        "1.1.99999999",
        "-1.1.1",
        ".1.1",
        "1..1",
        "x.1.1",
        "100000000.1.1",
        "1.1.18446744073709551616",
        "0.1.0",
    };
    session_subscribe(&s, "mem://x/0");
    session_subscribe(&s, "mem://x/1");
    struct client *first = open_stream(NULL);
    update(0);
    client_vanish(first);
    for (size_t i = 0; i < COUNT(ids); i++) {
        struct client *c = open_stream(ids[i]);
        assert_string_equal(heard(c), "01");
        for (size_t k = 0; k < 2; k++) {
            const char *u = client_nth(c, SAID_UPDATED, k);
            assert_json(u, TRUNCATED, "true");
            assert_json(u, "params|uri", json_at(u, "params|subscribedUri"));
        }
        assert_int_equal(client_count(c, SAID_LOG), 1);
        assert_json(client_nth(c, SAID_LOG, 0), "params|level", "warning");
        client_free(c);
    }
    client_free(first);
}

static void client_with_error_level_receives_no_warning(void **state)
{
    (void)state;
    session_subscribe(&s, "mem://x/0");
    struct client *c = session_request(&s, "1", "logging/setLevel", "\"level\":\"error\"");
    assert_empty_result(client_answer(c)->text);
    client_free(c);
    c = open_stream("nonsense");
    assert_string_equal(heard(c), "0");
    assert_int_equal(client_count(c, SAID_LOG), 0);
    client_free(c);
}

static void history_too_short_truncates_all_subscriptions(void **state)
{
    (void)state;
    b.options.log.max_entries = 2;
    harness_stop(&b);
    harness_start(&b);
    fake_mount(&fake, &b);
    for (unsigned i = 0; i < URIS; i++) {
        fake_add(&fake, text_of("mem://x/%u", i));
    }
    harness_session(&b, "2025-11-25", &s);
    session_subscribe(&s, "mem://x/");
    for (unsigned i = 0; i < URIS; i++) {
        update(i);
    }
    struct client *c = open_stream(NULL);
    assert_int_equal(client_count(c, SAID_UPDATED), 1);
    assert_json(client_nth(c, SAID_UPDATED, 0), TRUNCATED, "true");
    assert_json(client_nth(c, SAID_UPDATED, 0), "params|uri", "mem://x/");
    assert_int_equal(client_count(c, SAID_LOG), 1);
    update(3);
    assert_int_equal(client_count(c, SAID_UPDATED), 2);
    client_free(c);
}

static void pending_overflow_survives_the_stream(void **state)
{
    (void)state;
    session_subscribe(&s, "mem://x/");
    struct client *one = open_stream(NULL);
    one->pending = 1u << 20;
    b.limits.outbox_max = URIS - 1;
    for (unsigned i = 0; i < URIS; i++) {
        update(i); /* more than the outbox holds */
    }
    client_vanish(one);
    struct client *two = open_stream(NULL);
    assert_true(client_count(two, SAID_UPDATED) > 0);
    update(0);
    client_free(one);
    client_free(two);
}

static void replay_does_not_cross_sessions(void **state)
{
    (void)state;
    session_subscribe(&s, "mem://x/0");
    struct client *one = open_stream(NULL);
    update(0);
    update(0);
    const char *id = client_nth_said(one, SAID_UPDATED, 0)->id;
    struct harness_session mine = s;
    harness_session(&b, "2025-11-25", &s);
    session_subscribe(&s, "mem://x/1");
    struct client *two = open_stream(id);
    for (size_t i = 0; i < client_count(two, SAID_UPDATED); i++) {
        assert_json(client_nth(two, SAID_UPDATED, i), "params|subscribedUri", "mem://x/1");
    }
    client_free(one);
    client_free(two);
    assert_int_equal(session_delete(&mine), 204);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define OLDER(name) cmocka_unit_test_setup_teardown(name, setup_older, teardown)
        TEST(messages_each_go_to_the_newest_stream_only),
        TEST(queued_changes_of_a_closing_stream_go_to_the_next),
        TEST(changes_without_a_stream_are_replayed_once_per_uri),
        TEST(change_during_replay_is_sent_once),
        TEST(replay_covers_only_subscriptions_of_the_time),
        TEST(event_ids_are_unique_and_name_stream_number_and_cursor),
        TEST(streams_of_the_newest_legacy_revision_start_with_priming),
        OLDER(streams_of_older_revisions_have_no_priming),
        TEST(resumed_stream_replays_its_later_events_once),
        TEST(resumed_stream_sends_changes_without_a_stream),
        TEST(resumed_stream_omits_changes_sent_on_another),
        TEST(stream_that_became_newest_again_is_resumed_whole),
        TEST(resumed_stream_lost_unseen_is_resumed_with_the_older_id),
        OLDER(resumed_stream_lost_unseen_is_resumed_with_the_older_id),
        TEST(stream_lost_right_after_priming_loses_nothing),
        TEST(unknown_id_truncates_all_subscriptions),
        TEST(client_with_error_level_receives_no_warning),
        TEST(history_too_short_truncates_all_subscriptions),
        TEST(pending_overflow_survives_the_stream),
        TEST(replay_does_not_cross_sessions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
