/* SPDX-License-Identifier: MIT
 *
 * Filters that use the time and the last update of their subscription: the available members, the
 * separate past of each subscription, its bound and its cost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "base/time.h"
#include "engine/delivery/subscriber.h"
#include "engine/delivery/subscription.h"
#include "security/client_account.h"
#include "security/limits.h"
#include "support/fail_alloc.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ON_A "[\"mem://x/a\"]"
#define WITH(name, members) "{\"properties\":{\"" name "\":{\"properties\":{" members "}}}}"
#define FRESH WITH("time", "\"ageMs\":{\"maximum\":5000}")
#define MOVED_BY(member, rule) WITH("change", "\"" member "\":{\"properties\":{\"t\":{" rule "}}}")
#define BY_A_TENTH MOVED_BY("ratio", "\"minimum\":0.1")

static struct harness b;
static struct stub stub;
static struct clock_fake now = {.wall_ms = INT64_C(1700000000000), .only_wall = true};

static int begin(void **state)
{
    (void)state;
    now.wall_ms = INT64_C(1700000000000); /* Tuesday, 2023-11-14T22:13:20Z */
    clock_set_fake(&now);
    harness_init(&b);
    b.self.list_changed = b.options.list_changed = false;
    b.option_limits.window_ms = 0;
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
    clock_set_fake(NULL);
    return 0;
}

static void announce_as(const char *uri, enum tidings_change_kind kind, const char *metadata)
{
    struct tidings_change change = {
        .uri = tidings_str(uri), .kind = kind, .metadata = tidings_str(metadata)};
    harness_announce(&b, &change);
    harness_run_until_idle(&b);
}

static void announce(const char *metadata)
{
    announce_as("mem://x/a", TIDINGS_CHANGE_UPDATED, metadata);
}

static struct client *listen_to(const char *uris, const char *schema)
{
    return listen_with(&b, uris, text_of("{\"filter\":%s}", schema));
}

static size_t past_bytes(void)
{
    return b.worker[0]->delivery->filters.past_bytes;
}

/* ---- the time -------------------------------------------------------------------------------- */

static void filter_knows_the_age_of_a_change(void **state)
{
    (void)state;
    static const struct {
        const char *metadata;
        bool is_told;
    } rows[] = {
        {"{}", true}, /* it changed now */
        {"{\"updated_at\":1699999995000}", true},
        {"{\"updated_at\":1699999994999}", false},
        {"{\"updated_at\":1800000000000}", true}, /* another clock: not in the future */
        {"{\"updated_at\":\"2023-11-14T22:13:15Z\"}", true},
        {"{\"updated_at\":\"2023-11-14T22:13:14.999Z\"}", false},
        {"{\"updated_at\":\"yesterday\"}", true}, /* unknown */
        {"{\"updated_at\":-9223372036854775808}", true},
    };
    struct client *c = listen_to(ON_A, FRESH);
    unsigned told = 0;
    for (size_t i = 0; i < COUNT(rows); i++) {
        announce(rows[i].metadata);
        told += rows[i].is_told;
        assert_int_equal(update_count(c, NULL), told);
    }
    client_free(c);
}

static void replayed_change_is_older_by_the_delay(void **state)
{
    (void)state;
    char since[64];
    struct client *c = listen_to(ON_A, FRESH);
    snprintf(since, sizeof(since), "%s",
             json_at(client_nth(c, SAID_ACK, 0), "params|_meta|dev.tidings/cursor"));
    announce("{}");
    assert_int_equal(update_count(c, NULL), 1);
    now.wall_ms += 5000;
    for (unsigned i = 0; i < 2; i++) {
        struct client *late =
            listen_with(&b, ON_A, text_of("{\"since\":\"%s\",\"filter\":%s}", since, FRESH));
        harness_run_until_idle(&b);
        assert_int_equal(update_count(late, NULL), i == 0);
        client_free(late);
        now.wall_ms++;
    }
    client_free(c);
}

static void filter_knows_the_time_and_date(void **state)
{
    (void)state;
    static const struct {
        int64_t wall_ms;
        const char *members;
    } rows[] = {
        {0, "\"hour\":{\"const\":0},\"minuteOfDay\":{\"const\":0},\"weekday\":{\"const\":4}"},
        {INT64_C(1700000000000),
         "\"hour\":{\"const\":22},\"minuteOfDay\":{\"const\":1333},\"weekday\":{\"const\":2}"},
        {INT64_C(1700351999999), /* Saturday's last millisecond */
         "\"hour\":{\"const\":23},\"minuteOfDay\":{\"const\":1439},\"weekday\":{\"const\":6}"},
        {INT64_C(1700352000000), "\"hour\":{\"const\":0},\"weekday\":{\"const\":7}"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *schema =
            text_of("{\"required\":[\"time\"],\"properties\":{\"time\":{\"properties\":{%s}}}}",
                    rows[i].members);
        struct client *c = listen_to(ON_A, schema);
        now.wall_ms = rows[i].wall_ms;
        announce("{}");
        assert_int_equal(update_count(c, NULL), 1);
        now.wall_ms += INT64_C(30) * 3600 * 1000; /* another hour, another day */
        announce("{}");
        assert_int_equal(update_count(c, NULL), 1);
        client_free(c);
    }
}

/* ---- last update ----------------------------------------------------------------------------- */

struct step {
    const char *metadata;
    bool is_told;
};

static void expect_steps(const char *schema, const struct step *steps, size_t count)
{
    struct client *c = listen_to(ON_A, schema);
    unsigned told = 0;
    for (size_t i = 0; i < count; i++) {
        announce(steps[i].metadata);
        told += steps[i].is_told;
        if (update_count(c, NULL) != told) {
            fail_msg("%s: step %zu, %s", schema, i, steps[i].metadata);
        }
    }
    client_free(c);
}

static void value_is_sent_if_it_moved_far_enough_from_the_last_sent(void **state)
{
    (void)state;
    static const struct step by_a_tenth[] = {
        {"{\"t\":20}", true},                                /* the first */
        {"{\"t\":21}", false},      {"{\"t\":21.9}", false}, /* it drifts */
        {"{\"t\":22}", true},                                /* a tenth of the last sent value */
        {"{\"t\":20.5}", false},    {"{\"t\":19.8}", true},
        {"{\"t\":0}", true},        {"{\"t\":0}", false},
        {"{\"t\":0.001}", true}, /* zero has no tenth */
        {"{\"t\":\"warm\"}", true}, {"{}", true},
        {"{\"t\":-5}", true},       {"{\"t\":-5.4}", false},
        {"{\"t\":-5.5}", true},
    };
    static const struct step falling[] = {
        {"{\"t\":20}", true},     {"{\"t\":30}", false},   {"{\"t\":18.5}", false},
        {"{\"t\":18}", true},     {"{\"t\":17}", false},   {"{\"t\":9223372036854775807}", false},
        {"{\"t\":-1e308}", true}, {"{\"t\":1e308}", true}, /* larger than a number can be written */
    };
    expect_steps(BY_A_TENTH, by_a_tenth, COUNT(by_a_tenth));
    expect_steps(MOVED_BY("difference", "\"maximum\":-2"), falling, COUNT(falling));
}

static void filter_knows_changed_members_and_versions(void **state)
{
    (void)state;
    static const struct step state_changes[] = {
        {"{\"state\":\"ok\"}", true},
        {"{\"state\":\"ok\",\"n\":1}", false},
        {"{\"state\":{\"bad\":[1]}}", true},
        {"{\"state\":{\"bad\":[1]}}", false},
        {"{\"state\":{\"bad\":[1,2]}}", true},
        {"{}", true},
        {"{}", false},
    };
    static const struct step versions[] = {
        {"{\"version\":\"1.9\"}", true},     {"{\"version\":\"1.10\"}", true},
        {"{\"version\":\"1.9.5\"}", false},  {"{\"version\":\"v1.10.0\"}", false},
        {"{\"version\":\"nightly\"}", true},                            /* no order */
        {"{\"version\":\"1.0\"}", true},     {"{\"version\":7}", true}, /* a number */
    };
    static const struct step was_ok[] = {
        {"{\"state\":\"bad\"}", true},
        {"{\"state\":\"ok\"}", false},
    };
    expect_steps(WITH("change", "\"changed\":{\"contains\":{\"const\":\"state\"}}"), state_changes,
                 COUNT(state_changes));
    expect_steps(WITH("change", "\"version\":{\"enum\":[\"newer\",\"unknown\"]}"), versions,
                 COUNT(versions));
    expect_steps(WITH("previous", "\"state\":{\"const\":\"ok\"}"), was_ok, COUNT(was_ok));
}

static void deleted_resource_resets_its_past(void **state)
{
    (void)state;
    struct client *c = listen_to(ON_A, BY_A_TENTH);
    announce("{\"t\":20}");
    assert_true(past_bytes() > 0);
    announce_as("mem://x/a", TIDINGS_CHANGE_DELETED, "{}");
    assert_int_equal(past_bytes(), 0);
    announce_as("mem://x/a", TIDINGS_CHANGE_CREATED, "{\"t\":20}");
    assert_int_equal(update_count(c, NULL), 3);
    announce("{\"t\":20}");
    assert_int_equal(update_count(c, NULL), 3);
    client_free(c);
    harness_run_until_idle(&b);
    assert_int_equal(past_bytes(), 0);
}

/* Two clients with the same filter do not affect each other. */
static void subscriptions_have_separate_pasts(void **state)
{
    (void)state;
    struct client *first = listen_to(ON_A, BY_A_TENTH);
    announce("{\"t\":20}");
    announce("{\"t\":21}");
    struct client *second = listen_to(ON_A, BY_A_TENTH);
    announce("{\"t\":21.5}");
    assert_int_equal(update_count(first, NULL), 1);
    assert_int_equal(update_count(second, NULL), 1); /* its first */
    announce("{\"t\":22.5}");                        /* far from 20, not from 21.5 */
    assert_int_equal(update_count(first, NULL), 2);
    assert_int_equal(update_count(second, NULL), 1);
    client_free(first);
    announce("{\"t\":23.7}");
    assert_int_equal(update_count(second, NULL), 2);
    client_free(second);
}

/* ---- cost ------------------------------------------------------------------------------------ */

static void subscriptions_with_same_past_are_filtered_once(void **state)
{
    (void)state;
    enum { CLIENTS = 200 };
    static struct client *clients[CLIENTS];
    const struct filters *filters = &b.worker[0]->delivery->filters;
    for (size_t i = 0; i < CLIENTS; i++) {
        clients[i] = listen_with(&b, ON_A, "{\"filter\":" BY_A_TENTH "}");
    }
    announce("{\"t\":20}");
    for (unsigned n = 1; n <= 10; n++) {
        assert_int_equal(filters->decided, n);
        announce(n % 2 ? "{\"t\":41}" : "{\"t\":40}");
    }
    for (size_t i = 0; i < CLIENTS; i++) {
        assert_int_equal(update_count(clients[i], NULL), 2);
        client_free(clients[i]);
    }
    harness_run_until_idle(&b);
    assert_int_equal(past_bytes(), 0);
}

static void comparisons_are_charged(void **state)
{
    (void)state;
    struct client *c = listen_to(ON_A, BY_A_TENTH);
    struct worker *worker = b.worker[0];
    struct subscriber *s = list_entry(worker->delivery->subscribers.next, struct subscriber, link);
    static char metadata[3000];
    snprintf(metadata, sizeof(metadata), "{\"text\":\"%01500d\",\"t\":1}", 0);
    announce(metadata);
    now.monotonic_ns = clock_monotonic_ns(); /* so that nothing returns before */
    now.only_wall = false;
    uint64_t full = client_account_steps_left(s->account, clock_monotonic_ms());
    announce(metadata);
    assert_true(client_account_steps_left(s->account, clock_monotonic_ms()) + 3000 <= full);
    now.only_wall = true;
    assert_int_equal(update_count(c, NULL), 1);
    client_free(c);
}

static void
who_has_used_up_its_steps_is_told_unfiltered_and_what_was_told_is_remembered(void **state)
{
    (void)state;
    struct client *c = listen_to(ON_A, BY_A_TENTH);
    struct subscriber *s =
        list_entry(b.worker[0]->delivery->subscribers.next, struct subscriber, link);
    announce("{\"t\":20}");
    now.monotonic_ns = clock_monotonic_ns();
    now.only_wall = false;
    client_account_spend(s->account, client_account_steps_left(s->account, clock_monotonic_ms()),
                         clock_monotonic_ms());
    announce("{\"t\":21}");
    assert_int_equal(update_count(c, NULL), 2);
    now.monotonic_ns += UINT64_C(1000000000);
    announce("{\"t\":22}"); /* far from 20, not from 21 */
    now.only_wall = true;
    assert_int_equal(update_count(c, NULL), 2);
    client_free(c);
}

static void remembered_values_are_bounded(void **state)
{
    (void)state;
    enum { MORE = 20 };
    struct client *c = listen_to("[\"mem://x/\"]", BY_A_TENTH);
    struct client *other = listen_to("[\"mem://x/\"]", BY_A_TENTH);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < FILTER_PAST_URIS + MORE; i++) {
            announce_as(text_of("mem://x/r%u", i), TIDINGS_CHANGE_UPDATED, "{\"t\":20}");
        }
    }
    /* Changes over the bound are sent each time. */
    assert_int_equal(update_count(c, NULL), FILTER_PAST_URIS + 2 * MORE);
    size_t bytes = past_bytes();
    assert_true(bytes > 0 && bytes <= FILTERS_PAST_BYTES);
    static char metadata[FILTER_PAST_METADATA + 100];
    snprintf(metadata, sizeof(metadata), "{\"t\":20,\"text\":\"%0*d\"}", FILTER_PAST_METADATA, 0);
    struct client *long_one = listen_to(ON_A, BY_A_TENTH);
    announce(metadata);
    announce(metadata);
    assert_int_equal(update_count(long_one, NULL), 2);
    client_free(long_one);
    client_free(other);
    harness_run_until_idle(&b);
    assert_int_equal(past_bytes(), bytes / 2);
    client_free(c);
    harness_run_until_idle(&b);
    assert_int_equal(past_bytes(), 0);
}

/* A client with many such subscriptions takes nothing from others. */
static void remembered_values_of_one_client_leave_room_for_others(void **state)
{
    (void)state;
    enum { LISTENS = 5 }; /* over its share of remembered values */
    struct client *greedy[LISTENS];
    struct client_account *others = client_accounts_find(
        b.worker[0]->client_accounts, STR("somebody else"), clock_monotonic_ms());
    for (size_t i = 0; i < LISTENS; i++) {
        greedy[i] = listen_to("[\"mem://x/\"]", BY_A_TENTH);
    }
    struct client *modest = listen_to(ON_A, BY_A_TENTH);
    struct subscriber *s =
        list_entry(b.worker[0]->delivery->subscribers.prev, struct subscriber, link);
    struct client_account *own = s->account;
    s->account = others;
    struct limit_counters *counters = b.worker[0]->limit_counters;
    share_give(counters, LIMIT_ALL_SUBSCRIPTIONS, 1, own);
    share_add(counters, LIMIT_ALL_SUBSCRIPTIONS, 1, others);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < FILTER_PAST_URIS; i++) {
            announce_as(text_of("mem://x/r%u", i), TIDINGS_CHANGE_UPDATED, "{\"t\":20}");
        }
    }
    size_t told = 0;
    for (size_t i = 0; i < LISTENS; i++) {
        told += update_count(greedy[i], NULL);
    }
    assert_int_equal(told, 2 * LISTENS * FILTER_PAST_URIS - CLIENT_ACCOUNT_MAX_FILTER_PAST);
    announce("{\"t\":20}");
    announce("{\"t\":20}");
    assert_int_equal(update_count(modest, NULL), 1);
    assert_true(past_bytes() < FILTERS_PAST_BYTES / 2);
    client_free(modest);
    for (size_t i = 0; i < LISTENS; i++) {
        client_free(greedy[i]);
    }
    harness_run_until_idle(&b);
    assert_int_equal(past_bytes(), 0);
    assert_true(client_account_take_within(own, CLIENT_ACCOUNT_FILTER_PAST, 1)); /* all returned */
    client_account_give_back(own, CLIENT_ACCOUNT_FILTER_PAST);
    client_account_release(own);
}

/* As if others had filled the rest: a value that fits exactly is remembered, a value with one more
 * byte is not.
 */
static void clients_of_a_worker_share_a_bound(void **state)
{
    (void)state;
    struct client *c = listen_to(ON_A, BY_A_TENTH);
    announce("{\"t\":20}");
    size_t cost = past_bytes(), *bytes = &b.worker[0]->delivery->filters.past_bytes;
    assert_true(cost > 0);
    for (unsigned is_full = 0; is_full < 2; is_full++) {
        announce_as("mem://x/a", TIDINGS_CHANGE_DELETED, "{}");
        assert_int_equal(past_bytes(), 0);
        size_t others = FILTERS_PAST_BYTES - cost + is_full, before = update_count(c, NULL);
        *bytes = others;
        for (unsigned i = 0; i < 3; i++) {
            announce("{\"t\":20}"); /* sent again if equal to the first */
        }
        assert_int_equal(update_count(c, NULL) - before, is_full ? 3 : 1);
        assert_int_equal(past_bytes(), is_full ? others : FILTERS_PAST_BYTES);
        *bytes -= others;
    }
    client_free(c);
    harness_run_until_idle(&b);
    assert_int_equal(past_bytes(), 0);
}

/* A value that is sent but cannot be remembered is not counted either. */
static void values_without_memory_are_not_counted(void **state)
{
    (void)state;
    struct client_account *own = NULL;
    bool reached = true;
    for (long n = 1; reached && n < 400; n++) {
        struct client *c = listen_to(ON_A, BY_A_TENTH);
        own = list_entry(b.worker[0]->delivery->subscribers.prev, struct subscriber, link)->account;
        struct tidings_change change = {.uri = STR("mem://x/a"), .metadata = STR("{\"t\":40}")};
        harness_announce(&b, &change);
        fail_alloc_start(n);
        harness_run_until_idle(&b);
        reached = fail_alloc_stop();
        harness_run_until_idle(&b);
        if (past_bytes() == 0) {
            assert_true(client_account_take_within(own, CLIENT_ACCOUNT_FILTER_PAST, 1));
            client_account_give_back(own, CLIENT_ACCOUNT_FILTER_PAST);
        }
        client_free(c);
        harness_run_until_idle(&b);
        assert_int_equal(past_bytes(), 0);
    }
    assert_false(reached);
}

static void changes_are_sent_without_memory(void **state)
{
    (void)state;
    struct client *c = listen_to(ON_A, BY_A_TENTH);
    announce("{\"t\":20}");
    bool reached = true;
    for (long n = 1; reached && n < 400; n++) {
        size_t told = update_count(c, NULL);
        struct tidings_change change = {.uri = STR("mem://x/a"), .metadata = STR("{\"t\":40}")};
        harness_announce(&b, &change);
        fail_alloc_start(n);
        harness_run_until_idle(&b);
        reached = fail_alloc_stop();
        harness_run_until_idle(&b);
        assert_true(update_count(c, NULL) >= told);
    }
    assert_false(reached);
    client_free(c);
    harness_run_until_idle(&b);
    assert_int_equal(past_bytes(), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(filter_knows_the_age_of_a_change),
        TEST(replayed_change_is_older_by_the_delay),
        TEST(filter_knows_the_time_and_date),
        TEST(value_is_sent_if_it_moved_far_enough_from_the_last_sent),
        TEST(filter_knows_changed_members_and_versions),
        TEST(deleted_resource_resets_its_past),
        TEST(subscriptions_have_separate_pasts),
        TEST(subscriptions_with_same_past_are_filtered_once),
        TEST(comparisons_are_charged),
        TEST(who_has_used_up_its_steps_is_told_unfiltered_and_what_was_told_is_remembered),
        TEST(remembered_values_are_bounded),
        TEST(remembered_values_of_one_client_leave_room_for_others),
        TEST(clients_of_a_worker_share_a_bound),
        TEST(values_without_memory_are_not_counted),
        TEST(changes_are_sent_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
