/* SPDX-License-Identifier: MIT
 *
 * Subscriptions of the client over a transport without a server: which callbacks get an update, and
 * changes to the set.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/fake_transport.h"

struct told {
    struct tidings_client *client;
    struct tidings_subscription *ends; /* in its callback */
    char text[2048];
    int until; /* lines */
};

static void note(struct told *t, const char *fmt, ...) TIDINGS_PRINTF(2, 3);
static void note(struct told *t, const char *fmt, ...)
{
    va_list args;
    size_t len = strlen(t->text);
    va_start(args, fmt);
    vsnprintf(t->text + len, sizeof(t->text) - len, fmt, args);
    va_end(args);
    if (--t->until == 0) {
        tidings_client_stop(t->client);
    }
}

static void on_update(void *user, const struct tidings_update *u)
{
    struct told *t = user;
    note(t, "%s: %s %.*s%s%.*s%s\n", tidings_subscription_uri(u->subscription),
         tidings_change_name(u->kind), (int)u->uri.len, u->uri.ptr, u->version.len > 0 ? " " : "",
         (int)u->version.len, u->version.ptr, u->truncated ? " truncated" : "");
    if (t->ends == u->subscription) {
        tidings_subscription_end(t->ends);
        tidings_subscription_end(t->ends);
        t->ends = NULL;
    }
}

static void on_other(void *user, const struct tidings_update *u)
{
    note(user, "other %s\n", tidings_subscription_uri(u->subscription));
}

static void on_state(void *user, const struct tidings_state_event *e)
{
    static const char *const names[] = {"watching", "refused", "disconnected", "connected"};
    if (e->state < 3) {
        note(user, "%s %.*s\n", names[e->state], (int)e->uri.len, e->uri.ptr);
    }
}

static struct tidings_subscription *add(struct told *t, const char *uri)
{
    struct tidings_subscribe_options on = {.fn = on_update, .user = t};
    struct tidings_subscription *s = tidings_client_subscribe(t->client, uri, &on, NULL);
    assert_non_null(s);
    return s;
}

static void update(struct fake *f, const char *method, const char *params)
{
    fake_sayf(f, "{\"jsonrpc\":\"2.0\",\"method\":\"%s\",\"params\":{%s}}", method, params);
}

#define UPDATED "notifications/resources/updated"

/* ---- what an update says --------------------------------------------------------------------- */

static void telling_all(struct fake *f, const char *method, int64_t id, struct json *m)
{
    if (fake_modern(f, method, id) || strcmp(method, "subscriptions/listen") != 0) {
        return;
    }
    fake_acknowledge(f, id, m, "");
    update(
        f, UPDATED,
        "\"uri\":\"x:/a\",\"subscribedUri\":\"x:/a\",\"_meta\":{\"dev.tidings/change\":\"moved\","
        "\"dev.tidings/from\":\"x:/b\",\"dev.tidings/merged\":3,\"dev.tidings/initial\":true,"
        "\"dev.tidings/metadata\":{\"k\": 1},\"dev.tidings/data\":[{\"text\": \"t\"}]}");
    update(f, UPDATED,
           "\"uri\":\"x:/a\",\"metadata\":{\"v\":2},\"_meta\":{\"dev.tidings/change\":\"turned\","
           "\"dev.tidings/merged\":-1,\"dev.tidings/metadata\":{}}");
}

static void note_members(void *user, const struct tidings_update *u)
{
    note(user, "%s %.*s %u %d %.*s %.*s\n", tidings_change_name(u->kind), (int)u->from.len,
         u->from.ptr, u->merged, u->initial, (int)u->metadata.len, u->metadata.ptr,
         (int)u->value.len, u->value.ptr);
}

static bool pass_all(void *user, struct tidings_str uri, struct tidings_str metadata)
{
    (void)user;
    (void)uri;
    (void)metadata;
    return true;
}

static void note_own(void *user, const struct tidings_state_event *e)
{
    if (e->state == TIDINGS_STATE_WATCHING) {
        note(user, "watching %s\n", tidings_subscription_uri(e->subscription));
    }
}

static void update_has_all_members_from_server(void **state)
{
    (void)state;
    struct fake f;
    struct tidings_error err = {0};
    struct told t = {.until = 3};
    struct tidings_subscribe_options on = {.fn = note_members, .on_state = note_own, .user = &t};
    t.client = fake_client(&f, telling_all, NULL, NULL);
    assert_non_null(tidings_client_subscribe(t.client, "x:/a", &on, &err));
    on.filter = pass_all;
    assert_null(tidings_client_subscribe(t.client, "x:/a", &on, &err));
    assert_int_equal(err.code, TIDINGS_E_UNSUPPORTED);
    assert_int_equal(tidings_client_run(t.client, NULL), 0);
    assert_string_equal(t.text, "watching x:/a\nmoved x:/b 3 1 {\"k\":1} [{\"text\":\"t\"}]\n"
                                "updated  1 0 {\"v\":2} \n");
    tidings_client_destroy(t.client);
}

/* ---- routing --------------------------------------------------------------------------------- */

static void correlating(struct fake *f, const char *method, int64_t id, struct json *m)
{
    if (fake_modern(f, method, id) || strcmp(method, "subscriptions/listen") != 0) {
        return;
    }
    fake_acknowledge(f, id, m, ",\"dev.tidings/cursor\":\"e.1\"");
    update(f, UPDATED, "\"uri\":\"x:/a/b\",\"subscribedUri\":\"x:/a/\"");
    update(f, UPDATED,
           "\"uri\":\"x:/a/b\",\"_meta\":{\"dev.tidings/subscribedUri\":\"x:/a/b\","
           "\"dev.tidings/change\":\"created\",\"dev.tidings/version\":\"e.1\","
           "\"dev.tidings/truncated\":true}");
    update(f, UPDATED, "\"uri\":\"x:/a/b\",\"subscribedUri\":\"x:/nobody\"");
    update(f, UPDATED, "\"uri\":7");
}

static void update_goes_to_named_subscription_if_several_overlap(void **state)
{
    (void)state;
    struct fake f;
    struct told t = {.until = 5};
    t.client = fake_client(&f, correlating, NULL, NULL);
    tidings_client_on_state(t.client, on_state, &t);
    add(&t, "x:/a/");
    add(&t, "x:/a/b");
    struct tidings_subscribe_options other = {.fn = on_other, .user = &t};
    assert_non_null(tidings_client_subscribe(t.client, "x:/a/b", &other, NULL));
    assert_int_equal(tidings_client_run(t.client, NULL), 0);
    assert_string_equal(t.text, "watching x:/a/\nwatching x:/a/b\nx:/a/: updated x:/a/b\n"
                                "x:/a/b: created x:/a/b e.1 truncated\nother x:/a/b\n");
    tidings_client_destroy(t.client);
}

static void plain(struct fake *f, const char *method, int64_t id, struct json *m)
{
    (void)m;
    if (fake_legacy(f, method, id)) {
        return;
    }
    fake_result(f, id, "{}");
    if (strcmp(method, "resources/subscribe") == 0 && ++*(int *)f->user == 4) {
        update(f, UPDATED, "\"uri\":\"x:/a\"");
        update(f, "resources/updated", "\"uri\":\"x:/d/e/f\",\"metadata\":{\"version\":\"3\"}");
        update(f, "resources/deleted", "\"uri\":\"x:/g/1.log\"");
        update(f, UPDATED, "\"uri\":\"w:/oslo\"");
        update(f, UPDATED, "\"uri\":\"y:/nobody\"");
        update(f, UPDATED, "\"uri\":\"x:/a\"");
    }
}

static void update_without_name_goes_to_covering_subscriptions(void **state)
{
    (void)state;
    struct fake f;
    int asked = 0;
    struct told t = {.until = 5};
    t.client = fake_client(&f, plain, &asked, NULL);
    add(&t, "x:/a");
    add(&t, "x:/d/");
    add(&t, "x:/g/*.log");
    add(&t, "w:/{city}");
    assert_int_equal(tidings_client_run(t.client, NULL), 0);
    assert_string_equal(t.text, "x:/a: updated x:/a\nx:/d/: updated x:/d/e/f 3\n"
                                "x:/g/*.log: deleted x:/g/1.log\nw:/{city}: updated w:/oslo\n"
                                "x:/a: updated x:/a\n");
    tidings_client_destroy(t.client);
}

static void nameless(struct fake *f, const char *method, int64_t id, struct json *m)
{
    (void)m;
    if (fake_legacy(f, method, id)) {
        return;
    }
    if (strcmp(method, "resources/subscribe") != 0 || ++*(int *)f->user == 3) {
        fake_error(f, id, -32002, "no such resource");
    } else {
        fake_result(f, id, "{}");
    }
    if (*(int *)f->user == 3) {
        fake_say(f, "{\"jsonrpc\":\"2.0\",\"method\":\"" UPDATED "\",\"params\":{}}");
        fake_say(f, "{\"jsonrpc\":\"2.0\",\"method\":\"" UPDATED "\"}");
        update(f, "notifications/resources/deleted", "\"subscribedUri\":\"x:/d/\"");
        update(f, UPDATED, "\"subscribedUri\":\"x:/nobody\"");
        update(f, UPDATED, "\"uri\":\"x:/a\"");
    }
}

static void update_without_uri_reaches_each_accepted_subscription(void **state)
{
    (void)state;
    struct fake f;
    int asked = 0;
    struct told t = {.until = 6};
    t.client = fake_client(&f, nameless, &asked, NULL);
    add(&t, "x:/a");
    add(&t, "x:/d/");
    add(&t, "x:/refused");
    assert_int_equal(tidings_client_run(t.client, NULL), 0);
    assert_string_equal(t.text, "x:/a: updated x:/a truncated\nx:/d/: updated x:/d/ truncated\n"
                                "x:/a: updated x:/a truncated\nx:/d/: updated x:/d/ truncated\n"
                                "x:/d/: updated x:/d/ truncated\nx:/a: updated x:/a\n");
    tidings_client_destroy(t.client);
}

static void versioned(struct fake *f, const char *method, int64_t id, struct json *m)
{
    (void)m;
    if (fake_legacy(f, method, id)) {
        return;
    }
    fake_result(f, id, "{}");
    if (strcmp(method, "resources/subscribe") == 0) {
        static const char *const told[] = {"\"2.9.0\"",   "\"2.10\"", "\"v2.9.5\"", "\"nightly\"",
                                           "\"nightly\"", "7",        "6",          "\"8\""};
        for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
            char params[80];
            snprintf(params, sizeof(params), "\"uri\":\"x:/a\",\"metadata\":{\"version\":%s}",
                     told[i]);
            update(f, UPDATED, params);
        }
    }
}

/* ER-28, with the versions of other servers. */
static void older_version_is_ignored_and_unordered_one_delivered(void **state)
{
    (void)state;
    struct fake f;
    struct told t = {.until = 6};
    t.client = fake_client(&f, versioned, NULL, NULL);
    add(&t, "x:/a");
    assert_int_equal(tidings_client_run(t.client, NULL), 0);
    assert_string_equal(t.text, "x:/a: updated x:/a 2.9.0\nx:/a: updated x:/a 2.10\n"
                                "x:/a: updated x:/a nightly\nx:/a: updated x:/a nightly\n"
                                "x:/a: updated x:/a 7\nx:/a: updated x:/a 8\n");
    tidings_client_destroy(t.client);
}

static void slim(struct fake *f, const char *method, int64_t id, struct json *m)
{
    if (fake_modern(f, method, id) || strcmp(method, "subscriptions/listen") != 0) {
        return;
    }
    fake_acknowledge(f, id, m, ",\"dev.tidings/cursor\":\"e.1\"");
    update(f, UPDATED, "\"uri\":\"x:/a/b\",\"_meta\":{\"dev.tidings/cursor\":\"e.2\"}");
    update(f, UPDATED,
           "\"uri\":\"x:/a/b\",\"subscribedUri\":\"x:/a/\","
           "\"_meta\":{\"dev.tidings/cursor\":\"e.2\"}");
    update(f, UPDATED,
           "\"uri\":\"x:/a/\",\"_meta\":{\"dev.tidings/cursor\":\"e.2\","
           "\"dev.tidings/suspended\":true}");
}

static void note_lost(void *user, const struct tidings_state_event *e)
{
    if (e->state == TIDINGS_STATE_LOST) {
        note(user, "lost %.*s\n", (int)e->uri.len, e->uri.ptr);
    }
}

/* detail: "slim": the server names the subscription only if it differs from that of the URI. */
static void slim_update_without_subscription_matches_its_uri(void **state)
{
    (void)state;
    struct fake f;
    struct told t = {.until = 4};
    t.client = fake_client(&f, slim, NULL, NULL);
    tidings_client_on_state(t.client, note_lost, &t);
    add(&t, "x:/a/");
    add(&t, "x:/a/b");
    assert_int_equal(tidings_client_run(t.client, NULL), 0);
    assert_string_equal(t.text, "x:/a/b: updated x:/a/b\nx:/a/: updated x:/a/b\n"
                                "x:/a/: updated x:/a/\nlost x:/a/\n");
    tidings_client_destroy(t.client);
}

static void subscription_can_end_in_its_own_callback(void **state)
{
    (void)state;
    struct fake f;
    int asked = 2;
    struct told t = {.until = 4};
    t.client = fake_client(&f, plain, &asked, NULL);
    t.ends = add(&t, "x:/a"); /* would be reported twice */
    add(&t, "x:/");
    assert_int_equal(tidings_client_run(t.client, NULL), 0);
    assert_string_equal(t.text, "x:/a: updated x:/a\nx:/: updated x:/d/e/f 3\n"
                                "x:/: deleted x:/g/1.log\nx:/: updated x:/a\n");
    assert_non_null(strstr(f.log, "resources/unsubscribe"));
    tidings_client_destroy(t.client);
}

/* ---- the set changes ------------------------------------------------------------------------- */

static void listening(struct fake *f, const char *method, int64_t id, struct json *m)
{
    if (!fake_modern(f, method, id) && strcmp(method, "subscriptions/listen") == 0) {
        char *asked =
            json_text_of(f->base.client, jv_get(jv_get(m, "params"), "notifications"), NULL);
        size_t len = strlen(f->log);
        snprintf(f->log + len, sizeof(f->log) - len, "%s\n", asked);
        mem_free(asked);
        fake_acknowledge(f, id, m, ",\"dev.tidings/cursor\":\"e.1\"");
    }
}

static void step_until(struct told *t, const char *line)
{
    struct tidings_error err = {0};
    while (!strstr(t->text, line)) {
        if (tidings_client_step(t->client, -1, &err) != 1) {
            fail_msg("%s; so far: %s", err.text, t->text);
        }
    }
}

static void new_listen_receives_before_old_one_ends(void **state)
{
    (void)state;
    struct fake f;
    struct told t = {.until = 100};
    t.client = fake_client(&f, listening, NULL, NULL);
    tidings_client_on_state(t.client, on_state, &t);
    struct tidings_subscription *a = add(&t, "x:/a");
    add(&t, "x:/b");
    step_until(&t, "watching x:/b");
    struct tidings_subscription *c = add(&t, "x:/c");
    step_until(&t, "watching x:/c");
    tidings_subscription_end(a);
    add(&t, "x:/d");
    step_until(&t, "watching x:/d");
    assert_string_equal(t.text, "watching x:/a\nwatching x:/b\nwatching x:/c\nwatching x:/d\n");
    assert_string_equal(f.log,
                        "server/discover 1\n"
                        "subscriptions/listen 2\n{\"resourceSubscriptions\":[\"x:/a\",\"x:/b\"]}\n"
                        "subscriptions/listen 3\n"
                        "{\"resourceSubscriptions\":[\"x:/a\",\"x:/b\",\"x:/c\"]}\n"
                        "notifications/cancelled 0\n"
                        "subscriptions/listen 4\n"
                        "{\"resourceSubscriptions\":[\"x:/b\",\"x:/c\",\"x:/d\"]}\n"
                        "notifications/cancelled 0\n");
    (void)c;
    tidings_client_destroy(t.client);
}

static void listen_ends_with_last_subscription(void **state)
{
    (void)state;
    struct fake f;
    struct told t = {.until = 100};
    t.client = fake_client(&f, listening, NULL, NULL);
    tidings_client_on_state(t.client, on_state, &t);
    struct tidings_subscription *a = add(&t, "x:/a");
    step_until(&t, "watching x:/a");
    tidings_subscription_end(a);
    while (!strstr(f.log, "notifications/cancelled")) {
        assert_int_equal(tidings_client_step(t.client, -1, NULL), 1);
    }
    tidings_client_destroy(t.client);
}

/* ---- lists, and all notifications ------------------------------------------------------------ */

static void on_notification(void *user, struct tidings_str method, struct tidings_str params)
{
    note(user, "%.*s %.*s\n", (int)method.len, method.ptr, (int)params.len, params.ptr);
}

static void changing_lists(struct fake *f, const char *method, int64_t id, struct json *m)
{
    listening(f, method, id, m);
    if (strcmp(method, "subscriptions/listen") == 0) {
        fake_say(f, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/list_changed\"}");
    }
}

static void list_changes_are_received_if_requested(void **state)
{
    (void)state;
    struct fake f;
    struct told t = {.until = 2};
    struct tidings_client_options o = {.list_changes = true};
    t.client = fake_client(&f, changing_lists, NULL, &o);
    tidings_client_on_notification(t.client, on_notification, &t);
    assert_int_equal(tidings_client_run(t.client, NULL), 0);
    assert_non_null(strstr(t.text, "notifications/resources/list_changed {}\n"));
    assert_non_null(strstr(f.log, "{\"resourcesListChanged\":true,\"toolsListChanged\":true,"
                                  "\"promptsListChanged\":true}\n"));
    tidings_client_destroy(t.client);
}

/* Acknowledges the first listen only on request. */
static void hesitating(struct fake *f, const char *method, int64_t id, struct json *m)
{
    int64_t *first = f->user;
    if (strcmp(method, "subscriptions/listen") == 0 && *first == 0) {
        *first = id;
    } else if (strcmp(method, "go on") == 0) {
        fake_sayf(f,
                  "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\","
                  "\"params\":{\"notifications\":{\"resourcesListChanged\":true},\"_meta\":"
                  "{\"io.modelcontextprotocol/subscriptionId\":%" PRId64 "}}}",
                  *first);
        fake_result(f, id, "{}");
    } else {
        listening(f, method, id, m);
    }
}

static void listen_reply_cannot_reject_unrequested_uris(void **state)
{
    (void)state;
    struct fake f;
    int64_t first = 0;
    struct told t = {.until = 1000};
    struct tidings_client_options o = {.list_changes = true};
    t.client = fake_client(&f, hesitating, &first, &o);
    tidings_client_on_state(t.client, on_state, &t);
    while (first == 0) {
        assert_int_equal(tidings_client_step(t.client, -1, NULL), 1);
    }
    add(&t, "x:/a");
    tidings_free(tidings_client_request(t.client, "go on", NULL, NULL));
    step_until(&t, "watching x:/a\n");
    assert_string_equal(t.text, "watching x:/a\n");
    tidings_client_destroy(t.client);
}

/* ---- one's own ------------------------------------------------------------------------------- */

/* Honours only x:/a. */
static void picky(struct fake *f, const char *method, int64_t id, struct json *m)
{
    (void)m;
    if (!fake_modern(f, method, id) && strcmp(method, "subscriptions/listen") == 0) {
        fake_sayf(f,
                  "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\","
                  "\"params\":{\"notifications\":{\"resourceSubscriptions\":[\"x:/a\"]},\"_meta\":"
                  "{\"io.modelcontextprotocol/subscriptionId\":%" PRId64 "}}}",
                  id);
    }
}

static bool list_own(void *user, const struct tidings_client_subscription *s)
{
    struct told *t = user;
    note(t, "%d %.*s %.*s\n", s->state, (int)s->uri.len, s->uri.ptr, (int)s->options.len,
         s->options.ptr);
    if (s->subscription == t->ends) {
        tidings_subscription_end(t->ends);
    }
    return t->until != 1;
}

static void client_lists_its_own_subscriptions(void **state)
{
    (void)state;
    struct fake f;
    struct told t = {.until = 100};
    t.client = fake_client(&f, picky, NULL, NULL);
    tidings_client_on_state(t.client, on_state, &t);
    assert_int_equal(tidings_client_subscriptions(t.client, NULL, NULL), 0);
    t.ends = add(&t, "x:/a");
    struct tidings_subscription *b = add(&t, "x:/b");
    assert_int_equal(tidings_subscription_set_options(b, "{\"windowMs\": 1}", NULL), 0);
    add(&t, "x:/a");
    assert_int_equal(tidings_client_subscriptions(t.client, NULL, NULL), 3);
    step_until(&t, "refused x:/b");
    t.text[0] = '\0';
    assert_int_equal(tidings_client_subscriptions(t.client, list_own, &t), 3);
    assert_string_equal(t.text, "0 x:/a \n0 x:/a \n1 x:/b {\"windowMs\":1}\n");
    t.text[0] = '\0';
    t.ends = NULL;
    t.until = 2; /* the first is enough */
    assert_int_equal(tidings_client_subscriptions(t.client, list_own, &t), 2);
    assert_string_equal(t.text, "0 x:/a \n");
    tidings_client_destroy(t.client);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void flooding(struct fake *f, const char *method, int64_t id, struct json *m)
{
    listening(f, method, id, m);
    if (strcmp(method, "flood") == 0) {
        for (int i = 0; i < 200; i++) {
            update(f, UPDATED, "\"uri\":\"x:/a\",\"padding\":\"0123456789012345678901234567890\"");
        }
        fake_result(f, id, "{}");
    }
}

static void event_overflow_closes_connection(void **state)
{
    (void)state;
    struct fake f;
    struct tidings_error err = {0};
    struct told t = {.until = 1000};
    struct tidings_client_options o = {.max_bytes = 4096};
    t.client = fake_client(&f, flooding, NULL, &o);
    add(&t, "x:/a");
    assert_null(tidings_client_request(t.client, "flood", NULL, &err));
    assert_int_equal(err.code, TIDINGS_E_LIMIT);
    assert_true(t.client->event_bytes < 5 * 4096);
    tidings_client_destroy(t.client);
}

static void client_rejects_more_than_1000_uris(void **state)
{
    (void)state;
    struct fake f;
    struct tidings_error err = {0};
    struct told t = {.until = 1};
    struct tidings_subscribe_options on = {.fn = on_update, .user = &t};
    t.client = fake_client(&f, listening, NULL, NULL);
    for (int i = 0; i < 1000; i++) {
        char uri[32];
        snprintf(uri, sizeof(uri), "x:/%d", i);
        add(&t, uri);
    }
    assert_null(tidings_client_subscribe(t.client, "x:/more", &on, &err));
    assert_int_equal(err.code, TIDINGS_E_LIMIT);
    assert_non_null(tidings_client_subscribe(t.client, "x:/7", &on, &err));
    assert_null(tidings_client_subscribe(t.client, "", &on, &err));
    assert_int_equal(err.code, TIDINGS_E_INVALID);
    tidings_client_destroy(t.client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(update_has_all_members_from_server),
        cmocka_unit_test(update_goes_to_named_subscription_if_several_overlap),
        cmocka_unit_test(update_without_name_goes_to_covering_subscriptions),
        cmocka_unit_test(update_without_uri_reaches_each_accepted_subscription),
        cmocka_unit_test(slim_update_without_subscription_matches_its_uri),
        cmocka_unit_test(older_version_is_ignored_and_unordered_one_delivered),
        cmocka_unit_test(subscription_can_end_in_its_own_callback),
        cmocka_unit_test(new_listen_receives_before_old_one_ends),
        cmocka_unit_test(listen_ends_with_last_subscription),
        cmocka_unit_test(list_changes_are_received_if_requested),
        cmocka_unit_test(listen_reply_cannot_reject_unrequested_uris),
        cmocka_unit_test(client_lists_its_own_subscriptions),
        cmocka_unit_test(event_overflow_closes_connection),
        cmocka_unit_test(client_rejects_more_than_1000_uris),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
