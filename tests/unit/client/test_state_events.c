/* SPDX-License-Identifier: MIT
 *
 * State events of subscriptions: the start cursor, for programs that resume later, and a lost
 * subscription.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tidings/client.h>

#include "formats/json.h"
#include "support/fake_transport.h"

struct told {
    struct tidings_client *client;
    char text[256];
    int until; /* lines */
};

static void naming_cursors(struct fake *f, const char *method, int64_t id, struct json *m)
{
    if (!fake_modern(f, method, id) && strcmp(method, "subscriptions/listen") == 0) {
        fake_acknowledge(f, id, m, ",\"dev.tidings/cursor\":\"e.7\"");
    }
}

static void naming_cursors_legacy(struct fake *f, const char *method, int64_t id, struct json *m)
{
    if (fake_legacy(f, method, id) || strcmp(method, "resources/subscribe") != 0) {
        return;
    }
    const char *uri = jv_str(jv_get(jv_get(m, "params"), "uri")).ptr;
    char result[80];
    snprintf(result, sizeof(result), "{\"_meta\":{\"dev.tidings/cursor\":\"e.%s\"}}",
             strcmp(uri, "x:/a") == 0 ? "8" : "9");
    fake_result(f, id, result);
}

static void naming_none(struct fake *f, const char *method, int64_t id, struct json *m)
{
    if (!fake_modern(f, method, id) && strcmp(method, "subscriptions/listen") == 0) {
        fake_acknowledge(f, id, m, "");
    }
}

static void on_update(void *user, const struct tidings_update *u)
{
    (void)user;
    (void)u;
}

static void note_begin(void *user, const struct tidings_state_event *e)
{
    struct told *t = user;
    size_t len = strlen(t->text);
    if (e->state != TIDINGS_STATE_WATCHING) {
        return;
    }
    snprintf(t->text + len, sizeof(t->text) - len, "%.*s at '%.*s'\n", (int)e->uri.len, e->uri.ptr,
             (int)e->cursor.len, e->cursor.ptr);
    if (--t->until == 0) {
        tidings_client_stop(t->client);
    }
}

/* To its own callback and to the client's. */
static void watch_start_reports_its_cursor(void **state)
{
    (void)state;
    static const struct {
        fake_fn server;
        const char *said;
    } rows[] = {
        {naming_cursors, "x:/a at 'e.7'\nx:/a at 'e.7'\nx:/b at 'e.7'\nx:/b at 'e.7'\n"},
        {naming_cursors_legacy, "x:/a at 'e.8'\nx:/a at 'e.8'\nx:/b at 'e.9'\nx:/b at 'e.9'\n"},
        {naming_none, "x:/a at ''\nx:/a at ''\nx:/b at ''\nx:/b at ''\n"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fake f;
        struct told t = {.until = 4};
        struct tidings_subscribe_options on = {.fn = on_update, .on_state = note_begin, .user = &t};
        t.client = fake_client(&f, rows[i].server, NULL, NULL);
        tidings_client_on_state(t.client, note_begin, &t);
        assert_non_null(tidings_client_subscribe(t.client, "x:/a", &on, NULL));
        assert_non_null(tidings_client_subscribe(t.client, "x:/b", &on, NULL));
        assert_int_equal(tidings_client_run(t.client, NULL), 0);
        assert_string_equal(t.text, rows[i].said);
        tidings_client_destroy(t.client);
    }
}

/* The server drops one of two. */
static void giving_up(struct fake *f, const char *method, int64_t id, struct json *m)
{
    if (fake_modern(f, method, id) || strcmp(method, "subscriptions/listen") != 0) {
        return;
    }
    fake_acknowledge(f, id, m, "");
    fake_say(f, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":{"
                "\"uri\":\"x:/a\",\"subscribedUri\":\"x:/a\",\"_meta\":{"
                "\"dev.tidings/suspended\":true}}}");
}

static void note_alert(void *user, const struct tidings_state_event *e)
{
    struct told *t = user;
    size_t len = strlen(t->text);
    if (e->state != TIDINGS_STATE_LOST) {
        return;
    }
    assert_true(e->reason.len > 0);
    snprintf(t->text + len, sizeof(t->text) - len, "%.*s\n", (int)e->uri.len, e->uri.ptr);
    if (--t->until == 0) {
        tidings_client_stop(t->client);
    }
}

static void lost_subscription_is_reported_once_per_callback(void **state)
{
    (void)state;
    struct fake f;
    struct told t = {.until = 2};
    struct tidings_subscribe_options on = {.fn = on_update, .on_state = note_alert, .user = &t};
    t.client = fake_client(&f, giving_up, NULL, NULL);
    tidings_client_on_state(t.client, note_alert, &t);
    assert_non_null(tidings_client_subscribe(t.client, "x:/a", &on, NULL));
    assert_non_null(tidings_client_subscribe(t.client, "x:/b", &on, NULL));
    assert_int_equal(tidings_client_run(t.client, NULL), 0);
    assert_string_equal(t.text, "x:/a\nx:/a\n");
    tidings_client_destroy(t.client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(watch_start_reports_its_cursor),
        cmocka_unit_test(lost_subscription_is_reported_once_per_callback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
