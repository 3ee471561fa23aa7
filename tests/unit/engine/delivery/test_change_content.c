/* SPDX-License-Identifier: MIT
 *
 * Content in notifications: read once per change for all subscribers, in order and bounded. An
 * update without available content is sent without it.
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

#define DATA "params|_meta|dev.tidings/data"
#define VALUE "{\"include\":\"value\"}"
#define MANY 20u

static struct harness b;
static struct fake fake;

static int begin(void **state)
{
    (void)state;
    harness_init(&b);
    b.self.list_changed = b.options.list_changed = false;
    harness_start(&b);
    fake_mount(&fake, &b);
    fake_add(&fake, "mem://x/a");
    fake_add(&fake, "mem://x/b");
    fake_add(&fake, "mem://x/c");
    return 0;
}

static int end(void **state)
{
    (void)state;
    harness_stop(&b);
    return 0;
}

static void update(const char *uri)
{
    harness_update(&b, uri);
    harness_run_until_idle(&b);
}

static void update_includes_the_requested_content(void **state)
{
    (void)state;
    struct client *none = listen_with(&b, "[\"mem://x/a\"]", "{\"include\":\"none\"}");
    struct client *metadata = listen_with(&b, "[\"mem://x/a\"]", "{\"include\":\"metadata\"}");
    struct client *value = listen_with(&b, "[\"mem://x/a\"]", VALUE);
    update("mem://x/a");
    assert_no_json(update_nth(none, NULL, 0), "params|metadata");
    assert_no_json(update_nth(none, NULL, 0), DATA);
    assert_json(update_nth(none, NULL, 0), "params|_meta|dev.tidings/metadata|change_type",
                "updated");
    assert_json(update_nth(metadata, NULL, 0), "params|metadata|change_type", "updated");
    assert_no_json(update_nth(metadata, NULL, 0), DATA);
    assert_json(update_nth(value, NULL, 0), DATA "|0|text", "content of mem://x/a");
    assert_json(update_nth(value, NULL, 0), DATA "|0|uri", "mem://x/a");
    assert_json(update_nth(value, NULL, 0), "params|metadata|change_type", "updated");
    client_free(none);
    client_free(metadata);
    client_free(value);
}

static void change_is_read_once_for_all_clients(void **state)
{
    (void)state;
    struct client *clients[MANY];
    for (unsigned i = 0; i < MANY; i++) {
        clients[i] = listen_with(&b, "[\"mem://x/a\",\"mem://x/*\"]", VALUE);
    }
    fake.reads = 0;
    update("mem://x/a");
    assert_int_equal(fake.reads, 1);
    update("mem://x/a");
    assert_int_equal(fake.reads, 2);
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(update_count(clients[i], NULL), 4);
        for (size_t k = 0; k < 4; k++) {
            assert_json(update_nth(clients[i], NULL, k), DATA "|0|text", "content of mem://x/a");
        }
        client_free(clients[i]);
    }
}

static void content_is_not_read_without_subscribers(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, "[\"mem://x/a\"]", NULL);
    struct client *other = listen_with(&b, "[\"mem://x/b\"]", VALUE);
    fake.reads = 0;
    update("mem://x/a");
    assert_int_equal(fake.reads, 0);
    client_free(c);
    client_free(other);
}

static void deleted_or_unreadable_resource_is_notified_without_content(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, "[\"mem://x/\"]", VALUE);
    fake.reads = 0;
    harness_change(&b, "mem://x/a", TIDINGS_CHANGE_DELETED);
    harness_run_until_idle(&b);
    assert_int_equal(fake.reads, 0);
    update("mem://x/gone"); /* announced, but missing */
    assert_int_equal(update_count(c, NULL), 2);
    assert_no_json(update_nth(c, NULL, 0), DATA);
    assert_no_json(update_nth(c, NULL, 1), DATA);
    update("mem://x/b"); /* the server continues */
    assert_json(update_nth(c, NULL, 2), DATA "|0|text", "content of mem://x/b");
    client_free(c);
}

static void large_content_is_omitted_from_the_update(void **state)
{
    (void)state;
    b.limits.max_value_bytes = 100;
    struct client *c = listen_with(&b, "[\"mem://x/a\"]", VALUE);
    fake.content_bytes = 100;
    update("mem://x/a");
    fake.content_bytes = 101;
    update("mem://x/a");
    assert_int_equal(update_count(c, NULL), 2);
    assert_int_equal(strlen(json_at(update_nth(c, NULL, 0), DATA "|0|text")), 100);
    assert_no_json(update_nth(c, NULL, 1), DATA);
    client_free(c);
}

static void slow_provider_keeps_the_order(void **state)
{
    (void)state;
    for (int thread = 0; thread < 2; thread++) {
        fake.on_thread = thread == 1;
        fake.holds_reads = true;
        struct client *c = listen_with(&b, "[\"mem://x/\"]", "{\"uris\":{\"mem://x/\":" VALUE "}}");
        struct client *plain = listen_with(&b, "[\"mem://x/\"]", NULL);
        update("mem://x/a");
        update("mem://x/b");
        harness_change(&b, "mem://x/c",
                       TIDINGS_CHANGE_DELETED); /* needs no read, but waits its turn */
        harness_run_until_idle(&b);
        assert_int_equal(update_count(c, NULL), 0);
        assert_int_equal(update_count(plain, NULL), 3); /* no other client waits */
        fake.holds_reads = false;
        fake_finish_reads(&fake);
        harness_run_until_idle(&b);
        assert_int_equal(update_count(c, NULL), 3);
        assert_json(update_nth(c, NULL, 0), DATA "|0|text", "content of mem://x/a");
        assert_json(update_nth(c, NULL, 1), DATA "|0|text", "content of mem://x/b");
        assert_json(update_nth(c, NULL, 2), "params|uri", "mem://x/c");
        assert_true(version_of(update_nth(c, NULL, 0)) < version_of(update_nth(c, NULL, 1)));
        client_free(c);
        client_free(plain);
        harness_run_until_idle(&b);
    }
}

static void content_that_changes_during_read_is_read_again(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, "[\"mem://x/a\"]", VALUE);
    fake.holds_reads = true;
    fake.reads = 0;
    update("mem://x/a");
    update("mem://x/a");
    assert_int_equal(update_count(c, NULL), 0);
    fake_finish_reads(&fake);
    harness_run_until_idle(&b);
    fake_finish_reads(&fake);
    harness_run_until_idle(&b);
    assert_int_equal(fake.reads, 2);
    size_t n = update_count(c, NULL);
    assert_true(n >= 1);
    assert_int_equal(version_of(update_nth(c, NULL, n - 1)), b.worker[0]->last_seq);
    assert_json(update_nth(c, NULL, n - 1), DATA "|0|text", "content of mem://x/a");
    client_free(c);
}

static void client_that_leaves_during_read_is_harmless(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, "[\"mem://x/a\"]", VALUE);
    struct client *other = listen_with(&b, "[\"mem://x/a\"]", VALUE);
    fake.holds_reads = true;
    update("mem://x/a");
    client_free(c);
    harness_run_until_idle(&b);
    fake_finish_reads(&fake);
    harness_run_until_idle(&b);
    assert_json(update_nth(other, NULL, 0), DATA "|0|text", "content of mem://x/a");
    client_free(other);
}

static void window_carries_the_value_at_its_end(void **state)
{
    (void)state;
    struct client *c =
        listen_with(&b, "[\"mem://x/a\"]", "{\"include\":\"value\",\"windowMs\":60000}");
    fake.reads = 0;
    update("mem://x/a");
    for (unsigned i = 0; i < 10; i++) {
        update("mem://x/a");
    }
    assert_int_equal(fake.reads, 1);
    harness_end_windows(&b);
    assert_int_equal(fake.reads, 2);
    assert_int_equal(update_count(c, NULL), 2);
    assert_json(update_nth(c, NULL, 1), "params|_meta|dev.tidings/merged", "10");
    assert_json(update_nth(c, NULL, 1), DATA "|0|text", "content of mem://x/a");
    client_free(c);
}

static void initial_state_can_include_content(void **state)
{
    (void)state;
    struct client *c =
        listen_with(&b, "[\"mem://x/\"]", "{\"include\":\"value\",\"initial\":true}");
    assert_int_equal(update_count(c, NULL), 3);
    assert_json(update_nth(c, NULL, 2), DATA "|0|text", "content of mem://x/c");
    client_free(c);
}

static void cached_contents_are_bounded(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, "[\"mem://x/\",\"none-such:///\"]", VALUE);
    fake.content_bytes = 60000;
    for (unsigned i = 0; i < 600; i++) {
        update(i % 2 ? "mem://x/a" : "mem://x/gone");
        assert_true(b.worker[0]->delivery->contents.count <= 257);
        assert_true(b.worker[0]->delivery->contents.bytes <= (8u << 20) + 65536 * 6 + 4096);
    }
    client_free(c);
    harness_run_until_idle(&b);
    assert_true(b.worker[0]->delivery->contents.count <= 257);
}

static void cached_failures_are_bounded(void **state)
{
    (void)state;
    harness_add(&b, "app:///one");
    struct client *c = listen_with(&b, "[\"app:///\"]", VALUE);
    for (unsigned i = 0; i < 600; i++) {
        harness_update(&b, text_of("app:///%u", i)); /* announced, never registered */
        harness_run_until_idle(&b);
    }
    assert_int_equal(update_count(c, NULL), 600);
    assert_true(b.worker[0]->delivery->contents.count <= 257);
    client_free(c);
}

static void content_larger_than_the_cache_is_delivered(void **state)
{
    (void)state;
    b.limits.max_value_bytes = 16u << 20;
    b.limits.max_read_bytes = 16u << 20;
    struct client *c = listen_with(&b, "[\"mem://x/a\"]", VALUE);
    fake.content_bytes = 9u << 20;
    update("mem://x/a");
    assert_int_equal(client_count(c, SAID_UPDATED), 1);
    assert_true(client_nth_said(c, SAID_UPDATED, 0)->len > (9u << 20));
    client_free(c);
}

static void session_receives_content_on_its_stream(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-06-18", &s);
    assert_empty_result(session_subscribe_with(&s, "mem://x/a", VALUE));
    struct client *c = session_stream(&s, NULL);
    harness_run_until_idle(&b);
    update("mem://x/a");
    assert_json(update_nth(c, NULL, 0), DATA "|0|text", "content of mem://x/a");
    client_free(c);
    update("mem://x/a"); /* and the missed change */
    c = session_stream(&s, NULL);
    harness_run_until_idle(&b);
    assert_json(update_nth(c, NULL, 0), DATA "|0|text", "content of mem://x/a");
    client_free(c);
    assert_int_equal(session_delete(&s), 204);
}

int main(void)
{
#define WITH_BENCH(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        WITH_BENCH(update_includes_the_requested_content),
        WITH_BENCH(change_is_read_once_for_all_clients),
        WITH_BENCH(content_is_not_read_without_subscribers),
        WITH_BENCH(deleted_or_unreadable_resource_is_notified_without_content),
        WITH_BENCH(large_content_is_omitted_from_the_update),
        WITH_BENCH(slow_provider_keeps_the_order),
        WITH_BENCH(content_that_changes_during_read_is_read_again),
        WITH_BENCH(client_that_leaves_during_read_is_harmless),
        WITH_BENCH(window_carries_the_value_at_its_end),
        WITH_BENCH(initial_state_can_include_content),
        WITH_BENCH(cached_contents_are_bounded),
        WITH_BENCH(cached_failures_are_bounded),
        WITH_BENCH(content_larger_than_the_cache_is_delivered),
        WITH_BENCH(session_receives_content_on_its_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
