/* SPDX-License-Identifier: MIT
 *
 * The meaning of a URI for a subscription: the kinds in their order of decision, the option that
 * forces a kind, refusals and their reasons. Providers watch exactly the needed resources, for as
 * long as needed.
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
#include "support/harness_subs.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct harness b;
static struct stub files, rows, api;

static int begin(void **state)
{
    (void)state;
    harness_init(&b);
    b.self.list_changed = b.options.list_changed = false;
    harness_start(&b);
    stub_mount(&files, &b, "mem://x/", STUB_QUERY);
    stub_add(&files, "mem://x/a", false);
    stub_add(&files, "mem://x/dir/", true);
    stub_add(&files, "mem://x/dir/one", false);
    stub_add(&files, "mem://x/q?v=1", false);
    stub_add(&files, "mem://x/st*r", false);
    stub_mount(&rows, &b, "row:///t/", STUB_COVERS);
    stub_add(&rows, "row:///t/group:red", false);
    stub_mount(&api, &b, "api:///", 0);
    stub_add(&api, "api:///events", false);
    harness_add_template(&b, "weather://city/{location}");
    harness_add(&b, "app:one");
    return 0;
}

static int end(void **state)
{
    (void)state;
    harness_stop(&b);
    return 0;
}

static unsigned watched(void)
{
    return stub_watched_all(&files) + stub_watched_all(&rows) + stub_watched_all(&api);
}

static unsigned watched_at(const char *scope)
{
    return stub_watched(&files, scope) + stub_watched(&rows, scope) + stub_watched(&api, scope);
}

struct row {
    const char *spelled, *options;
    const char *refused;  /* part of the reason; NULL: honoured */
    const char *hears[4]; /* changes it receives … */
    const char *deaf[4];  /* … and not */
    const char *scope;    /* the only scope watched for it; NULL: none */
};

static void check_hearing(struct client *c, const struct row *r)
{
    for (size_t i = 0; i < 4 && r->deaf[i]; i++) {
        harness_update(&b, r->deaf[i]);
    }
    harness_run_until_idle(&b);
    if (update_count(c, NULL) > 0) {
        fail_msg("'%s' heard %s", r->spelled, update_nth(c, NULL, 0));
    }
    for (size_t i = 0; i < 4 && r->hears[i]; i++) {
        harness_update(&b, r->hears[i]);
        harness_run_until_idle(&b);
        if (update_count(c, NULL) != i + 1) {
            fail_msg("'%s' was told %zu times after %s", r->spelled, update_count(c, NULL),
                     r->hears[i]);
        }
        const char *text = update_nth(c, r->spelled, i);
        assert_json(text, "params|_meta|dev.tidings/subscribedUri", r->spelled);
        assert_no_json(text, "params|_meta|dev.tidings/merged");
        assert_no_json(text, "params|_meta|dev.tidings/truncated");
    }
}

static void check(const struct row *r)
{
    struct client *c = listen_with(&b, text_of("[\"%s\"]", r->spelled), r->options);
    const char *reason = refused_reason(c, r->spelled);
    if (r->refused) {
        if (!reason || !strstr(reason, r->refused) || is_honoured(c, r->spelled)) {
            fail_msg("'%s' with %s: %s", r->spelled, r->options ? r->options : "nothing",
                     reason ? reason : "honoured");
        }
        assert_int_equal(watched(), 0);
        assert_int_equal(b.worker[0]->stats.subscriptions, 0);
    } else {
        if (reason || !is_honoured(c, r->spelled)) {
            fail_msg("'%s' with %s: %s", r->spelled, r->options ? r->options : "nothing",
                     reason ? reason : "not acknowledged");
        }
        if (watched() != (r->scope != NULL) || (r->scope && watched_at(r->scope) != 1)) {
            fail_msg("'%s' watches %u scopes, '%s' %u times", r->spelled, watched(),
                     r->scope ? r->scope : "", r->scope ? watched_at(r->scope) : 0);
        }
        check_hearing(c, r);
    }
    client_free(c);
    harness_run_until_idle(&b);
    assert_int_equal(watched(), 0);
    assert_int_equal(b.worker[0]->stats.subscriptions, 0);
}

static void check_all(const struct row *table, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        check(&table[i]);
    }
}

static void existing_resource_is_literal_with_any_characters(void **state)
{
    (void)state;
    static const struct row table[] = {
        {"mem://x/a", NULL, NULL, {"mem://x/a"}, {"mem://x/b", "mem://x/a/b"}, "mem://x/a"},
        {"mem://x/st*r", NULL, NULL, {"mem://x/st*r"}, {"mem://x/star"}, "mem://x/st*r"},
        {"mem://x/q?v=1",
         NULL,
         NULL,
         {"mem://x/q?v=1"},
         {"mem://x/q", "mem://x/q/1"},
         "mem://x/q?v=1"},
        {"MEM://X/%61", NULL, NULL, {"mem://x/a"}, {"mem://x/%61x"}, "mem://x/a"},
        {"app:one", NULL, NULL, {"app:one"}, {"app:two"}, NULL},
        {"weather://city/rome", NULL, NULL, {"weather://city/rome"}, {"weather://city/oslo"}, NULL},
    };
    check_all(table, COUNT(table));
}

static void container_covers_its_children(void **state)
{
    (void)state;
    static const struct row table[] = {
        {"mem://x/dir/",
         NULL,
         NULL,
         {"mem://x/dir/one", "mem://x/dir/deep/two", "mem://x/dir/new"},
         {"mem://x/dirt", "mem://x/a"},
         "mem://x/dir/"},
        {"mem://x/none/", /* does not exist yet */
         NULL,
         NULL,
         {"mem://x/none/one", "mem://x/none/deep/two"},
         {"mem://x/nonesuch", "mem://x/non"},
         "mem://x/none/"},
        {"mem://x/", NULL, NULL, {"mem://x/a", "mem://x/dir/one"}, {"api:///events"}, "mem://x/"},
    };
    check_all(table, COUNT(table));
}

static void container_above_mounts_watches_each(void **state)
{
    (void)state;
    static const struct row table[] = {
        {"row:///", NULL, NULL, {"row:///t/z"}, {"mem://x/a"}, "row:///t/"},
        {"row:///**", NULL, NULL, {"row:///t/z", "row:///u"}, {"mem://x/a"}, "row:///t/"},
    };
    check_all(table, COUNT(table));
    /* A regex may match in all of them. */
    struct client *c = listen_with(&b, "[\"one$\"]", "{\"match\":\"regex\"}");
    assert_int_equal(watched(), 3);
    assert_int_equal(watched_at("mem://x/"), 1);
    assert_int_equal(watched_at("row:///t/"), 1);
    assert_int_equal(watched_at("api:///"), 1);
    client_free(c);
    harness_run_until_idle(&b);
    assert_int_equal(watched(), 0);
}

static void question_mark_starts_a_query(void **state)
{
    (void)state;
    static const struct row table[] = {
        {"mem://x/dir?pattern=*.log",
         NULL,
         NULL,
         {"mem://x/dir/e.log"},
         {"mem://x/dir/e.txt", "mem://x/dir/deep/e.log", "mem://x/e.log", "mem://x/dir"},
         "mem://x/dir/"},
        {"mem://x/dir/?pattern=**/*.log",
         NULL,
         NULL,
         {"mem://x/dir/e.log", "mem://x/dir/deep/e.log"},
         {"mem://x/e.log"},
         "mem://x/dir/"},
        {"mem://x/dir?pattern=[ab].log",
         NULL,
         NULL,
         {"mem://x/dir/a.log", "mem://x/dir/b.log"},
         {"mem://x/dir/c.log"},
         "mem://x/dir/"},
        {"mem://x/dir?other=1", NULL, "?pattern=GLOB", {NULL}, {NULL}, NULL},
        {"mem://x/dir?pattern=", NULL, "?pattern=GLOB", {NULL}, {NULL}, NULL},
        {"none:///q?a=b", NULL, "'none:'", {NULL}, {NULL}, NULL},
        {"api:///events?type", NULL, "key=value", {NULL}, {NULL}, NULL},
        {"api:///events?=x", NULL, "key=value", {NULL}, {NULL}, NULL},
        {"api:///e?a=1&b=1&c=1&d=1&e=1&f=1&g=1&h=1&i=1", NULL, "at most 8", {NULL}, {NULL}, NULL},
    };
    check_all(table, COUNT(table));
}

static void braces_make_a_template_and_stars_and_brackets_a_glob(void **state)
{
    (void)state;
    static const struct row table[] = {
        {"mem://x/{d}/two",
         NULL,
         NULL,
         {"mem://x/q/two"},
         {"mem://x/q/r/two", "mem://x/q/three"},
         "mem://x/"},
        {"mem://x/dir/{name}.log",
         NULL,
         NULL,
         {"mem://x/dir/e.log"},
         {"mem://x/e.log"},
         "mem://x/dir/"},
        {"weather://city/{x}", NULL, NULL, {"weather://city/oslo"}, {"weather://sea/oslo"}, NULL},
        {"mem://x/dir/*.log",
         NULL,
         NULL,
         {"mem://x/dir/e.log"},
         {"mem://x/dir/d/e.log"},
         "mem://x/dir/"},
        {"mem://x/**", NULL, NULL, {"mem://x/a", "mem://x/dir/d/e"}, {"api:///events"}, "mem://x/"},
        {"mem://x/app-[0-9].log",
         NULL,
         NULL,
         {"mem://x/app-3.log"},
         {"mem://x/app-x.log"},
         "mem://x/"},
        {"mem://x/{unclosed", NULL, "", {NULL}, {NULL}, NULL},
        {"mem://x/[unclosed", NULL, "", {NULL}, {NULL}, NULL},
        {"none://x/{y}", NULL, "'none:'", {NULL}, {NULL}, NULL},
        {"none://x/*", NULL, "'none:'", {NULL}, {NULL}, NULL},
    };
    check_all(table, COUNT(table));
}

static void option_forces_the_kind(void **state)
{
    (void)state;
    static const struct row table[] = {
        {"mem://x/dir/",
         "{\"match\":\"literal\"}",
         NULL,
         {"mem://x/dir/"},
         {"mem://x/dir/one"},
         "mem://x/dir/"},
        {"mem://x/*", "{\"match\":\"literal\"}", "not found", {NULL}, {NULL}, NULL},
        {"api:///events?type=error", "{\"match\":\"literal\"}", "not found", {NULL}, {NULL}, NULL},
        {"none:///*", "{\"match\":\"literal\"}", "not found", {NULL}, {NULL}, NULL},
        {"row:///", "{\"match\":\"literal\"}", "not found", {NULL}, {NULL}, NULL},
        {"mem://x/dir",
         "{\"match\":\"container\"}",
         NULL,
         {"mem://x/dir/one"},
         {"mem://x/dirt"},
         "mem://x/dir/"},
        {"mem://x/a",
         "{\"match\":\"container\"}",
         NULL,
         {"mem://x/a/b"},
         {"mem://x/ab"},
         "mem://x/a/"},
        {"mem://x/dir/?",
         "{\"match\":\"glob\"}",
         NULL,
         {"mem://x/dir/a"},
         {"mem://x/dir/ab", "mem://x/dir/one"},
         "mem://x/dir/"},
        {"mem://x/st*r",
         "{\"match\":\"glob\"}",
         NULL,
         {"mem://x/st*r", "mem://x/star"},
         {"mem://x/sta"},
         "mem://x/"},
        {"mem://x/a", "{\"match\":\"template\"}", NULL, {"mem://x/a"}, {"mem://x/b"}, "mem://x/"},
        {"none:///x/", "{\"match\":\"container\"}", "'none:'", {NULL}, {NULL}, NULL},
        {"(", "{\"match\":\"regex\"}", "", {NULL}, {NULL}, NULL},
        {"mem://x/a", "{\"match\":\"exact\"}", "'match'", {NULL}, {NULL}, NULL},
    };
    check_all(table, COUNT(table));
}

static void regex_matches_anywhere_in_the_canonical_uri(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, "[\"/dir/o.e$\"]", "{\"match\":\"regex\"}");
    static const char *const changes[] = {"mem://x/dir/one", "mem://x/dir/ones", "api:///dir/ore"};
    for (size_t i = 0; i < COUNT(changes); i++) {
        harness_update(&b, changes[i]);
    }
    harness_run_until_idle(&b);
    assert_int_equal(update_count(c, "/dir/o.e$"), 2);
    assert_json(update_nth(c, NULL, 0), "params|uri", "mem://x/dir/one");
    assert_json(update_nth(c, NULL, 1), "params|uri", "api:///dir/ore");
    client_free(c);
}

static void provider_can_define_its_own_relation(void **state)
{
    (void)state;
    static const struct row table[] = {
        {"row:///t/group:red",
         NULL,
         NULL,
         {"row:///t/member:red:1", "row:///t/group:red", "row:///t/member:red:2"},
         {"row:///t/member:blue:1", "mem://x/member:red:1"},
         "row:///t/group:red"},
        {"row:///t/group:blue", /* does not exist yet */
         NULL,
         NULL,
         {"row:///t/member:blue:1"},
         {"row:///t/member:red:1"},
         "row:///t/group:blue"},
    };
    check_all(table, COUNT(table));
}

static void relation_equal_to_a_container_notifies_once(void **state)
{
    (void)state;
    stub_add(&rows, "row:///t/k/", true);
    rows.covers_below = true;
    static const struct row row = {
        "row:///t/k/", NULL, NULL, {"row:///t/k/1", "row:///t/k/2"}, {"row:///t/j"}, "row:///t/k/"};
    check(&row);
    /* With a window the second copy would be held and sent later. */
    struct client *c = listen_with(&b, "[\"row:///t/k/\"]", "{\"windowMs\":10000}");
    harness_update(&b, "row:///t/k/1");
    harness_run_until_idle(&b);
    harness_end_windows(&b);
    assert_int_equal(update_count(c, NULL), 1);
    client_free(c);
}

static void unknown_uri_is_refused(void **state)
{
    (void)state;
    static const struct row table[] = {
        {"none:///missing", NULL, "not found", {NULL}, {NULL}, NULL},
        {"weather://sea/rome", NULL, "not found", {NULL}, {NULL}, NULL},
        {"none:///x/", NULL, "nothing is served under 'none:'", {NULL}, {NULL}, NULL},
        {"not a uri", NULL, "", {NULL}, {NULL}, NULL},
        {"", NULL, "", {NULL}, {NULL}, NULL},
        {"mem://x/../a", NULL, "", {NULL}, {NULL}, NULL},
        {"mem://x/%zz", NULL, "", {NULL}, {NULL}, NULL},
    };
    check_all(table, COUNT(table));
}

/* ---- attributes ------------------------------------------------------------------------------ */

static void announce(const char *uri, const char *metadata, enum tidings_change_kind kind)
{
    struct tidings_change change = {
        .uri = tidings_str(uri), .metadata = tidings_str(metadata), .kind = kind};
    harness_announce(&b, &change);
    harness_run_until_idle(&b);
}

static void query_attributes_are_compared_with_the_metadata(void **state)
{
    (void)state;
    static const struct {
        const char *query, *metadata;
        enum tidings_change_kind kind;
        bool told;
    } table[] = {
        {"type=error", "{\"type\":\"error\"}", 0, true},
        {"type=error", "{\"type\":\"errors\"}", 0, false},
        {"type=error", "{\"type\":\"info\"}", 0, false},
        {"type=error", "{}", 0, false},
        {"type=error", "", 0, false},
        {"type=error", "{\"Type\":\"error\"}", 0, false},
        {"level=3", "{\"level\":3}", 0, true},
        {"level=3", "{\"level\":\"3\"}", 0, true},
        {"level=3", "{\"level\":33}", 0, false},
        {"on=true", "{\"on\":true}", 0, true},
        {"on=null", "{\"on\":null}", 0, true},
        {"on=true", "{\"on\":[7,true]}", 0, true},
        {"on=true", "{\"on\":[[true],false]}", 0, false},
        {"on=true", "{\"on\":{\"on\":true}}", 0, false},
        {"a=1&b=2", "{\"a\":1,\"b\":2,\"c\":3}", 0, true},
        {"a=1&b=2", "{\"a\":1,\"b\":3}", 0, false},
        {"a=1&b=2", "{\"a\":1}", 0, false},
        {"msg=a%26b", "{\"msg\":\"a&b\"}", 0, true},
        {"a%3Db=c", "{\"a=b\":\"c\"}", 0, true},
        {"empty=", "{\"empty\":\"\"}", 0, true},
        {"change_type=deleted", "", TIDINGS_CHANGE_DELETED, true},
        {"change_type=deleted", "", TIDINGS_CHANGE_CREATED, false},
        {"change_type=created", "{\"change_type\":\"lie\"}", TIDINGS_CHANGE_CREATED, true},
    };
    for (size_t i = 0; i < COUNT(table); i++) {
        const char *spelled = text_of("api:///events?%s", table[i].query);
        struct client *c = listen_with(&b, text_of("[\"%s\"]", spelled), NULL);
        assert_null(refused_reason(c, spelled));
        announce("api:///events", table[i].metadata, table[i].kind);
        announce("api:///other", table[i].metadata, table[i].kind);
        if (update_count(c, NULL) != table[i].told) {
            fail_msg("?%s against %s: told %zu times", table[i].query, table[i].metadata,
                     update_count(c, NULL));
        }
        client_free(c);
        harness_run_until_idle(&b);
        assert_int_equal(watched(), 0);
    }
}

static void query_covers_the_rows_of_a_collection(void **state)
{
    (void)state;
    struct client *c = listen_with(&b, "[\"api:///events?type=error\"]", NULL);
    assert_int_equal(watched_at("api:///events/"), 1); /* everything below must be watched too */
    announce("api:///events/7", "{\"type\":\"error\"}", TIDINGS_CHANGE_CREATED);
    announce("api:///events/8", "{\"type\":\"info\"}", TIDINGS_CHANGE_CREATED);
    announce("api:///eventsx", "{\"type\":\"error\"}", TIDINGS_CHANGE_CREATED);
    assert_int_equal(update_count(c, NULL), 1);
    assert_json(update_nth(c, NULL, 0), "params|uri", "api:///events/7");
    client_free(c);
    harness_run_until_idle(&b);
    assert_int_equal(watched(), 0);
}

/* ---- bounds ---------------------------------------------------------------------------------- */

static void broad_subscriptions_are_bounded(void **state)
{
    (void)state;
    b.limits.max_broad = 1;
    struct client *c =
        listen_with(&b, "[\"row:///\",\"mem://x/a\",\"row:///**\",\"mem://x/**\"]", NULL);
    assert_true(is_honoured(c, "row:///"));
    assert_true(is_honoured(c, "mem://x/a"));
    assert_true(is_honoured(c, "mem://x/**")); /* inside one mount */
    const char *reason = refused_reason(c, "row:///**");
    assert_non_null(reason);
    assert_non_null(strstr(reason, "--max-breadth"));
    assert_non_null(strstr(reason, "at most 1 "));
    assert_int_equal(watched(), 3);
    client_free(c);
    harness_run_until_idle(&b);
    assert_int_equal(watched(), 0);

    /* An unsubscription makes room for another. */
    struct client *pipe = client_pipe(&b);
    client_handshake(pipe, "2025-11-25");
    assert_empty_result(pipe_subscribe_with(pipe, "1", "row:///", NULL));
    assert_json(pipe_subscribe_with(pipe, "2", "row:///**", NULL), "error|data|uri", "row:///**");
    client_legacy(pipe, NULL, "3", "resources/unsubscribe", "\"uri\":\"row:///\"");
    harness_run_until_idle(&b);
    assert_empty_result(pipe_subscribe_with(pipe, "4", "row:///**", NULL));
    /* A repeated subscription does not count twice. */
    assert_empty_result(pipe_subscribe_with(pipe, "5", "row:///**", "{\"windowMs\":5}"));
    client_free(pipe);
    harness_run_until_idle(&b);
    assert_int_equal(watched(), 0);
}

static void whole_mounts_are_refused_without_breadth(void **state)
{
    (void)state;
    b.limits.max_broad = 0;
    static const struct row table[] = {
        {"row:///", NULL, "at most 0", {NULL}, {NULL}, NULL},
        {"o.e", "{\"match\":\"regex\"}", "--max-breadth", {NULL}, {NULL}, NULL},
        {"mem://x/dir/*", NULL, NULL, {"mem://x/dir/one"}, {"mem://x/a"}, "mem://x/dir/"},
    };
    check_all(table, COUNT(table));
}

static void subscribers_of_one_scope_share_its_watch(void **state)
{
    (void)state;
    /* Subscribers of one scope share its watch; it closes with the last. */
    struct client *one = listen_with(&b, "[\"mem://x/dir/*\"]", NULL);
    struct client *two = listen_with(&b, "[\"mem://x/dir/\",\"mem://x/dir/{n}\"]", NULL);
    assert_int_equal(watched_at("mem://x/dir/"), 1);
    client_free(one);
    harness_run_until_idle(&b);
    assert_int_equal(watched_at("mem://x/dir/"), 1);
    harness_update(&b, "mem://x/dir/one");
    harness_run_until_idle(&b);
    assert_int_equal(update_count(two, NULL), 2); /* one for each match */
    client_free(two);
    harness_run_until_idle(&b);
    assert_int_equal(watched(), 0);
}

static void nested_mount_is_watched_by_a_container_above_both(void **state)
{
    (void)state;
    static struct stub inner;
    stub_mount(&inner, &b, "mem://x/dir/inner/", 0);
    stub_add(&inner, "mem://x/dir/inner/z", false);
    static const char *const spelled[] = {"mem://x/dir/", "mem://x/**", "mem://x/dir/{+p}"};
    for (size_t i = 0; i < COUNT(spelled); i++) {
        struct client *c = listen_with(&b, text_of("[\"%s\"]", spelled[i]), NULL);
        assert_null(refused_reason(c, spelled[i]));
        if (stub_watched_all(&inner) != 1) {
            fail_msg("'%s' does not watch the mount inside", spelled[i]);
        }
        harness_update(&b, "mem://x/dir/inner/z");
        harness_run_until_idle(&b);
        assert_int_equal(update_count(c, NULL), 1);
        client_free(c);
        harness_run_until_idle(&b);
        assert_int_equal(stub_watched_all(&inner) + watched(), 0);
    }
}

static void random_subscriptions_leave_no_watch(void **state)
{
    (void)state;
    static const char *const spelled[] = {
        "mem://x/a", "mem://x/dir/", "mem://x/**",      "mem://x/dir?pattern=*", "mem://x/none/",
        "row:///",   "api:///e?a=b", "mem://x/{a}/{b}", "row:///t/group:red",    "app:one",
    };
    struct client *clients[12] = {NULL};
    uint64_t random = 4711;
    for (unsigned step = 0; step < 600; step++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        struct client **c = &clients[(random >> 10) % COUNT(clients)];
        if (*c) {
            client_free(*c);
            *c = NULL;
        } else {
            *c = client_http(&b);
            client_listen_with(*c, "1",
                               text_of("[\"%s\",\"%s\"]", spelled[(random >> 20) % COUNT(spelled)],
                                       spelled[(random >> 30) % COUNT(spelled)]),
                               NULL);
        }
        if ((random >> 40) % 3 == 0) {
            loop_turn(b.loop);
        }
    }
    for (size_t i = 0; i < COUNT(clients); i++) {
        if (clients[i]) {
            client_free(clients[i]);
        }
    }
    harness_run_until_idle(&b);
    assert_int_equal(watched(), 0);
    assert_int_equal(b.worker[0]->stats.subscriptions, 0);
    assert_int_equal(b.worker[0]->stats.subscribers, 0);
}

int main(void)
{
#define WITH_BENCH(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        WITH_BENCH(existing_resource_is_literal_with_any_characters),
        WITH_BENCH(container_covers_its_children),
        WITH_BENCH(container_above_mounts_watches_each),
        WITH_BENCH(question_mark_starts_a_query),
        WITH_BENCH(braces_make_a_template_and_stars_and_brackets_a_glob),
        WITH_BENCH(option_forces_the_kind),
        WITH_BENCH(regex_matches_anywhere_in_the_canonical_uri),
        WITH_BENCH(provider_can_define_its_own_relation),
        WITH_BENCH(relation_equal_to_a_container_notifies_once),
        WITH_BENCH(unknown_uri_is_refused),
        WITH_BENCH(query_attributes_are_compared_with_the_metadata),
        WITH_BENCH(query_covers_the_rows_of_a_collection),
        WITH_BENCH(broad_subscriptions_are_bounded),
        WITH_BENCH(whole_mounts_are_refused_without_breadth),
        WITH_BENCH(subscribers_of_one_scope_share_its_watch),
        WITH_BENCH(nested_mount_is_watched_by_a_container_above_both),
        WITH_BENCH(random_subscriptions_leave_no_watch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
