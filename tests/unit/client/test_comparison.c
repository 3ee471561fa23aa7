/* SPDX-License-Identifier: MIT
 *
 * Comparison finds changes that a server without cursors does not report.
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
#include "client/comparison.h"
#include "client/subscriptions.h"
#include "support/fake_transport.h"

/* A server with a few resources, x:/0 … x:/9, each with a number as its contents; negative:
 * missing. */
struct world {
    struct fake fake;
    struct tidings_client *client;
    int values[10];
    int looks;      /* reads and lists */
    int losses;     /* of the connection */
    int filler;     /* more resources in the list */
    bool is_hidden; /* nothing can be read */
    bool is_held;   /* reads are not answered */
    bool is_slow;   /* a page of the list takes longer than the whole list may */
    bool is_deadly; /* … and end the connection */
    char told[4096];
};

static void answer_read(struct world *w, int64_t id, struct json *m)
{
    struct tidings_str uri = jv_str(jv_get(jv_get(m, "params"), "uri"));
    char text[64];
    int value = w->values[uri.ptr[uri.len - 1] - '0'];
    snprintf(text, sizeof(text), "{\"contents\":[{\"text\":\"%d\"}]}", value);
    if (w->is_hidden || value < 0) {
        fake_error(&w->fake, id, -32002, "no such resource");
    } else {
        fake_result(&w->fake, id, text);
    }
}

/* Two pages. */
static void answer_list(struct world *w, int64_t id, struct json *m)
{
    struct buf text;
    bool is_first = !jv_get(jv_get(m, "params"), "cursor");
    buf_init(&text, 1 << 20);
    buf_putf(&text, "{\"resources\":[{\"uri\":\"y:/other\",\"size\":%d}", w->looks);
    for (int i = is_first ? 0 : 5; i < (is_first ? 5 : 10); i++) {
        if (w->values[i] >= 0) {
            buf_putf(&text, ",{\"uri\":\"x:/%d\",\"size\":%d}", i, w->values[i]);
        }
    }
    for (int i = 0; is_first && i < w->filler; i++) {
        buf_putf(&text, ",{\"uri\":\"x:/f%d\"}", i);
    }
    buf_putf(&text, "]%s}", is_first ? ",\"nextCursor\":\"2\"" : "");
    buf_puts(&text, tidings_strn("", 1));
    assert_int_equal(text.failed, 0);
    fake_result(&w->fake, id, buf_str(&text).ptr);
    buf_deinit(&text);
}

static void serving(struct fake *f, const char *method, int64_t id, struct json *m)
{
    struct world *w = f->user;
    if (fake_modern(f, method, id)) {
        return;
    }
    if (strcmp(method, "subscriptions/listen") == 0) {
        fake_acknowledge(f, id, m, "");
    } else if (strcmp(method, "resources/read") == 0 && w->is_deadly) {
        w->looks++;
        fake_say(f, NULL);
    } else if (strcmp(method, "resources/read") == 0 && !w->is_held) {
        w->looks++;
        answer_read(w, id, m);
    } else if (strcmp(method, "resources/list") == 0 && !w->is_held) {
        w->looks++;
        w->client->comparison.began -= w->is_slow ? 600001 : 0;
        answer_list(w, id, m);
    }
}

/* ---- what is told ---------------------------------------------------------------------------- */

static void on_update(void *user, const struct tidings_update *u)
{
    struct world *w = user;
    size_t len = strlen(w->told);
    snprintf(w->told + len, sizeof(w->told) - len, "%s%s%s %.*s\n", u->synthetic ? "found " : "",
             u->truncated ? "truncated " : "", tidings_change_name(u->kind), (int)u->uri.len,
             u->uri.ptr);
}

static void on_state(void *user, const struct tidings_state_event *e)
{
    struct world *w = user;
    w->losses += e->state == TIDINGS_STATE_DISCONNECTED;
    if (e->state == TIDINGS_STATE_GAP) {
        size_t len = strlen(w->told);
        snprintf(w->told + len, sizeof(w->told) - len, "gap %.*s\n", (int)e->uri.len, e->uri.ptr);
    }
}

static void step(struct world *w)
{
    struct tidings_error err = {0};
    if (tidings_client_step(w->client, -1, &err) != 1) {
        fail_msg("%s; so far: %s", err.text, w->told);
    }
}

static struct watch *only_watch(struct world *w)
{
    return list_entry(w->client->watches.next, struct watch, link);
}

/* Waits until no comparison runs and there is data to compare with. */
static void await_comparison(struct world *w)
{
    struct watch *watch = only_watch(w);
    while (!watch->is_decided || !watch->is_accepted ||
           watch->comparison_reason != COMPARISON_NONE || w->client->event_count > 0) {
        step(w);
    }
}

static void open_world(struct world *w, const char *uri, const struct tidings_client_options *more)
{
    struct tidings_client_options o = more ? *more : (struct tidings_client_options){0};
    struct tidings_subscribe_options on = {.fn = on_update, .user = w};
    o.retry_min_ms = o.retry_max_ms = 1;
    o.timeout_ms = 60000;
    w->client = fake_client(&w->fake, serving, w, &o);
    tidings_client_on_state(w->client, on_state, w);
    assert_non_null(tidings_client_subscribe(w->client, uri, &on, NULL));
    await_comparison(w);
}

/* The connection ends: soon if `is_soon`, otherwise long after the client saw everything. */
static void lose(struct world *w, bool is_soon)
{
    struct watch *watch = only_watch(w);
    if (watch->snapshot && !is_soon) {
        watch->snapshot->read_at -= 2 * COMPARISON_NOTIFY_MS;
    }
    int losses = w->losses;
    fake_say(&w->fake, NULL);
    while (w->losses == losses) {
        step(w);
    }
}

static void update(struct world *w, const char *uri, const char *change)
{
    fake_sayf(&w->fake,
              "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":"
              "{\"uri\":\"%s\",\"_meta\":{\"dev.tidings/change\":\"%s\"}}}",
              uri, change);
    size_t len = strlen(w->told);
    while (strlen(w->told) == len) {
        step(w);
    }
}

static void expect(struct world *w, const char *told)
{
    await_comparison(w);
    assert_string_equal(w->told, told);
    w->told[0] = '\0';
}

/* ---- one resource ---------------------------------------------------------------------------- */

static void comparison_finds_change_during_outage(void **state)
{
    (void)state;
    struct world w = {.values = {1}};
    open_world(&w, "x:/0", NULL);
    assert_int_equal(w.looks, 1);
    lose(&w, false);
    expect(&w, ""); /* it is as it was */
    w.values[0] = 2;
    lose(&w, false);
    expect(&w, "found updated x:/0\n");
    w.values[0] = -1;
    lose(&w, false);
    expect(&w, "found deleted x:/0\n");
    w.values[0] = 2;
    lose(&w, false);
    expect(&w, "found created x:/0\n");
    assert_int_equal(tidings_client_info(w.client)->found, 3);
    tidings_client_destroy(w.client);
}

static void reported_change_is_not_found_again_after_quiet_time(void **state)
{
    (void)state;
    struct world w = {.values = {1}};
    open_world(&w, "x:/0", NULL);
    w.values[0] = 2;
    update(&w, "x:/0", "updated");
    lose(&w, false);
    expect(&w, "updated x:/0\nfound updated x:/0\n"); /* it might have changed twice */
    w.values[0] = 3;
    update(&w, "x:/0", "updated");
    int looks = w.looks;
    while (w.looks == looks) {
        step(&w); /* half a second */
    }
    expect(&w, "updated x:/0\n");
    lose(&w, false);
    expect(&w, "");
    tidings_client_destroy(w.client);
}

static void resource_read_just_before_loss_counts_as_changed(void **state)
{
    (void)state;
    struct world w = {.values = {1}};
    open_world(&w, "x:/0", NULL);
    lose(&w, true);
    expect(&w, "found updated x:/0\n");
    tidings_client_destroy(w.client);
}

static void unreadable_resource_is_a_gap(void **state)
{
    (void)state;
    struct world w = {.values = {1}, .is_hidden = true};
    open_world(&w, "x:/0", NULL);
    lose(&w, false);
    expect(&w, "gap x:/0\nfound truncated updated x:/0\n");
    tidings_client_destroy(w.client);
}

static void interrupted_comparison_resumes(void **state)
{
    (void)state;
    struct world w = {.values = {1}};
    open_world(&w, "x:/0", NULL);
    w.is_held = true;
    lose(&w, false);
    while (w.client->comparison.request == 0) {
        step(&w);
    }
    w.values[0] = 2;
    w.is_held = false;
    lose(&w, false);
    expect(&w, "found updated x:/0\n");
    tidings_client_destroy(w.client);
}

static void comparison_stops_if_resource_breaks_connection(void **state)
{
    (void)state;
    struct world w = {.is_deadly = true};
    open_world(&w, "x:/0", NULL);
    assert_int_equal(w.looks, COMPARISON_MAX_BROKEN);
    assert_non_null(strstr(w.told, "gap x:/0\n"));
    tidings_client_destroy(w.client);
}

static void comparison_is_skipped_if_disabled(void **state)
{
    (void)state;
    struct world w = {.values = {1}};
    struct tidings_client_options o = {.no_compare = true};
    open_world(&w, "x:/0", &o);
    w.values[0] = 2;
    lose(&w, false);
    expect(&w, "");
    assert_int_equal(w.looks, 0);
    tidings_client_destroy(w.client);
}

static void periodic_comparison_finds_unreported_changes(void **state)
{
    (void)state;
    struct world w = {.values = {1}};
    struct tidings_client_options o = {.no_compare = true, .verify_ms = 20};
    open_world(&w, "x:/0", &o);
    w.values[0] = 2;
    while (w.told[0] == '\0') {
        step(&w);
    }
    int looks = w.looks;
    while (w.looks < looks + 3) {
        step(&w);
    }
    assert_string_equal(w.told, "found updated x:/0\n");
    assert_int_equal(tidings_client_info(w.client)->found, 1);
    tidings_client_destroy(w.client);
}

/* ---- many ------------------------------------------------------------------------------------ */

static void has_line(const struct world *w, const char *line)
{
    if (!strstr(w->told, line)) {
        fail_msg("no '%s' in: %s", line, w->told);
    }
}

static void container_children_are_compared_with_list(void **state)
{
    (void)state;
    struct world w = {.values = {1, 1, 1, -1, -1, 1, -1, -1, -1, -1}};
    open_world(&w, "x:/", NULL);
    lose(&w, false);
    expect(&w, ""); /* y:/other changes constantly, and is not below */
    w.values[1] = 2;
    w.values[2] = -1;
    w.values[9] = 1;
    lose(&w, false);
    await_comparison(&w);
    has_line(&w, "found updated x:/1\n");
    has_line(&w, "found deleted x:/2\n");
    has_line(&w, "found created x:/9\n");
    assert_int_equal(strlen(w.told), 3 * strlen("found updated x:/1\n"));
    tidings_client_destroy(w.client);
}

static void container_changes_may_be_reported_twice(void **state)
{
    (void)state;
    struct world w = {.values = {1, 1, 1, -1, -1, -1, -1, -1, -1, -1}};
    open_world(&w, "x:/", NULL);
    update(&w, "x:/1", "updated");
    update(&w, "x:/7", "created"); /* in no list */
    w.values[2] = -1;
    update(&w, "x:/2", "deleted");
    w.told[0] = '\0';
    lose(&w, false);
    await_comparison(&w);
    has_line(&w, "found updated x:/1\n");
    has_line(&w, "found updated x:/7\n");
    assert_int_equal(strlen(w.told), 2 * strlen("found updated x:/1\n"));
    tidings_client_destroy(w.client);
}

static void too_many_resources_are_a_gap(void **state)
{
    (void)state;
    struct world w = {.filler = COMPARISON_MAX_ENTRIES + 1};
    open_world(&w, "x:/", NULL);
    assert_int_equal(w.client->comparison.entries, 0);
    lose(&w, false);
    expect(&w, "gap x:/\nfound truncated updated x:/\n");
    w.filler = 10;
    lose(&w, false);
    expect(&w, "gap x:/\nfound truncated updated x:/\n");
    w.filler += COMPARISON_MAX_CHANGES + 1;
    lose(&w, false);
    expect(&w, "gap x:/\nfound truncated updated x:/\n");
    lose(&w, false);
    expect(&w, "");
    tidings_client_destroy(w.client);
}

static void slow_list_is_a_gap(void **state)
{
    (void)state;
    struct world w = {0};
    open_world(&w, "x:/", NULL);
    w.is_slow = true;
    w.looks = 0;
    lose(&w, false);
    expect(&w, "gap x:/\nfound truncated updated x:/\n");
    assert_int_equal(w.looks, 1); /* the client did not request the second page */
    tidings_client_destroy(w.client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comparison_finds_change_during_outage),
        cmocka_unit_test(reported_change_is_not_found_again_after_quiet_time),
        cmocka_unit_test(resource_read_just_before_loss_counts_as_changed),
        cmocka_unit_test(unreadable_resource_is_a_gap),
        cmocka_unit_test(interrupted_comparison_resumes),
        cmocka_unit_test(comparison_stops_if_resource_breaks_connection),
        cmocka_unit_test(comparison_is_skipped_if_disabled),
        cmocka_unit_test(periodic_comparison_finds_unreported_changes),
        cmocka_unit_test(container_children_are_compared_with_list),
        cmocka_unit_test(container_changes_may_be_reported_twice),
        cmocka_unit_test(too_many_resources_are_a_gap),
        cmocka_unit_test(slow_list_is_a_gap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
