/* SPDX-License-Identifier: MIT
 *
 * Watch hooks of the application. A hook runs for the first and the last subscription of a
 * resource. The server calls it before it confirms a subscription, whatever else happens at that
 * time.
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
#include "support/harness_subs.h"

#define CALLS 64u

/* The calls of a hook and its answers. */
static struct told {
    char on[CALLS][64], off[CALLS][64];
    size_t on_count, off_count;
    bool holds;                           /* answers when `answer` is called */
    const char *refuses;                  /* this URI */
    struct tidings_watch *waiting[CALLS]; /* not answered */
    size_t waiting_count;
} told;

static struct harness b;

static int begin(void **state)
{
    (void)state;
    memset(&told, 0, sizeof(told));
    harness_init(&b);
    b.self.list_changed = b.options.list_changed = false;
    b.option_limits.window_ms = 0;
    harness_start(&b);
    return 0;
}

static int end(void **state)
{
    (void)state;
    harness_stop(&b);
    return 0;
}

static void note(char out[64], struct tidings_str uri)
{
    snprintf(out, 64, "%.*s", STR_ARG(uri));
}

static void on_watch(void *user, struct tidings_watch *watch, struct tidings_str uri)
{
    assert_ptr_equal(user, &told);
    assert_true(told.on_count < CALLS);
    note(told.on[told.on_count++], uri);
    if (told.holds) {
        told.waiting[told.waiting_count++] = watch;
    } else if (told.refuses && str_eq(uri, tidings_str(told.refuses))) {
        struct tidings_error err;
        tidings_watch_done(watch, tidings_fail(&err, TIDINGS_E_DENIED, "the sensor is off"), &err);
    } else {
        tidings_watch_done(watch, 0, NULL);
    }
}

static void on_unwatch(void *user, struct tidings_str uri)
{
    assert_ptr_equal(user, &told);
    assert_true(told.off_count < CALLS);
    note(told.off[told.off_count++], uri);
}

/* All waiting answers. */
static void answer(int code)
{
    struct tidings_error err;
    tidings_fail(&err, code < 0 ? code : TIDINGS_E_INTERNAL, "not now");
    for (size_t i = 0; i < told.waiting_count; i++) {
        tidings_watch_done(told.waiting[i], code, code < 0 ? &err : NULL);
    }
    told.waiting_count = 0;
    harness_run_until_idle(&b);
}

static void set_hook(const char *text)
{
    struct watch_hook *hook = watch_hook_create(tidings_str(text), on_watch, on_unwatch, &told);
    assert_int_equal(hub_set_hook(b.hub, tidings_str(text), hook, NULL), 0);
    harness_run_until_idle(&b);
}

static void add(const char *uri)
{
    harness_add(&b, uri);
    set_hook(uri);
}

static struct client *listen_to(const char *uris)
{
    struct client *c = client_http(&b);
    client_listen(c, "1", uris);
    harness_run_until_idle(&b);
    return c;
}

static struct client *pipe_open(void)
{
    struct client *pipe = client_pipe(&b);
    client_handshake(pipe, "2025-11-25");
    return pipe;
}

static void leave(struct client *c)
{
    client_free(c);
    harness_run_until_idle(&b);
}

/* ---- first and last -------------------------------------------------------------------------- */

static void hook_runs_at_first_and_last_subscription(void **state)
{
    (void)state;
    add("app:a");
    harness_add(&b, "app:b");
    struct client *one = listen_to("[\"app:a\",\"app:b\"]"), *two = listen_to("[\"app:a\"]");
    struct client *pipe = pipe_open();
    assert_empty_result(pipe_subscribe_with(pipe, "7", "app:a", NULL));
    assert_int_equal(told.on_count, 1);
    assert_string_equal(told.on[0], "app:a");
    leave(one);
    leave(two);
    assert_int_equal(told.off_count, 0);
    client_legacy(pipe, NULL, "8", "resources/unsubscribe", "\"uri\":\"app:a\"");
    harness_run_until_idle(&b);
    assert_int_equal(told.off_count, 1);
    assert_string_equal(told.off[0], "app:a");
    leave(listen_to("[\"app:a\"]"));
    assert_int_equal(told.on_count, 2);
    assert_int_equal(told.off_count, 2);
    leave(pipe);
}

static void template_hook_runs_for_uris_and_patterns(void **state)
{
    (void)state;
    harness_add_template(&b, "weather://city/{name}");
    set_hook("weather://city/{name}");
    add("weather://sky/");
    static const struct {
        const char *uri, *options, *on[2];
    } rows[] = {
        {"weather://city/Rome", NULL, {"weather://city/Rome"}},
        {"weather://city/{name}", NULL, {"weather://city/{name}"}},
        {"weather://city/{other}", NULL, {"weather://city/{name}"}},
        {"weather://city/R*", NULL, {"weather://city/{name}"}},
        {"weather://city/R*", "{\"match\":\"literal\"}", {"weather://city/R*"}},
        {"weather://city/R*", "{\"match\":\"glob\"}", {"weather://city/{name}"}},
        {"weather://*/x", NULL, {"weather://city/{name}"}},
        {"weather://sea/*", NULL, {NULL}},
        {"weather://sky/", NULL, {"weather://sky/"}},
        {"weather://sky/x*", NULL, {NULL}},
        {"weather://**", NULL, {"weather://city/{name}", "weather://sky/"}},
        {"Rome", "{\"match\":\"regex\"}", {"weather://city/{name}", "weather://sky/"}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        memset(&told, 0, sizeof(told));
        struct client *c = listen_with(&b, text_of("[\"%s\"]", rows[i].uri), rows[i].options);
        size_t count = 0;
        for (size_t k = 0; k < 2 && rows[i].on[k]; k++, count++) {
            if (told.on_count <= k || strcmp(told.on[k], rows[i].on[k]) != 0) {
                fail_msg("%s: %s was not told", rows[i].uri, rows[i].on[k]);
            }
        }
        if (told.on_count != count) {
            fail_msg("%s: %zu calls, last of %s", rows[i].uri, told.on_count,
                     told.on[told.on_count - 1]);
        }
        leave(c);
        assert_int_equal(told.off_count, count);
    }
}

static void resource_is_required_once_for_name_and_pattern(void **state)
{
    (void)state;
    add("app:///a");
    struct client *named = listen_to("[\"app:///a\"]"), *pattern = listen_to("[\"app:///*\"]");
    assert_int_equal(told.on_count, 1);
    leave(named);
    assert_int_equal(told.off_count, 0);
    harness_update(&b, "app:///a");
    harness_run_until_idle(&b);
    assert_int_equal(update_count(pattern, NULL), 1);
    leave(pattern);
    assert_int_equal(told.off_count, 1);
}

static void hook_is_set_before_or_after_its_resource_and_removed_with_it(void **state)
{
    (void)state;
    set_hook("app:a");
    harness_add(&b, "app:a");
    struct client *c = listen_to("[\"app:a\"]");
    assert_int_equal(told.on_count, 1);
    harness_remove(&b, "app:a");
    harness_run_until_idle(&b);
    assert_int_equal(told.off_count, 0); /* still subscribed */
    leave(c);
    assert_int_equal(told.off_count, 1);
    harness_add(&b, "app:a");
    leave(listen_to("[\"app:a\"]"));
    assert_int_equal(told.on_count, 1);
    set_hook("app:a");
    assert_int_equal(hub_set_hook(b.hub, STR("app:a"), NULL, NULL), 0);
    harness_run_until_idle(&b);
    leave(listen_to("[\"app:a\"]"));
    assert_int_equal(told.on_count, 1);
}

/* ---- refusing -------------------------------------------------------------------------------- */

static void refused_subscription_is_not_acknowledged(void **state)
{
    (void)state;
    add("app:///a");
    add("app:///b");
    harness_add(&b, "app:///c");
    told.refuses = "app:///b";
    struct client *c = listen_to("[\"app:///a\",\"app:///b\",\"app:///c\"]"), *pipe = pipe_open();
    assert_true(is_honoured(c, "app:///a") && is_honoured(c, "app:///c"));
    assert_string_equal(refused_reason(c, "app:///b"), "the sensor is off");
    const char *said = pipe_subscribe_with(pipe, "7", "app:///b", NULL);
    assert_json(said, "error|message", "the sensor is off");
    leave(c);
    /* A pattern needs both: one refusal is enough, and the other is released. */
    size_t off = told.off_count;
    c = listen_to("[\"app:///*\"]");
    assert_string_equal(refused_reason(c, "app:///*"), "the sensor is off");
    assert_int_equal(told.off_count, off + 1);
    assert_string_equal(told.off[off], "app:///a");
    leave(c);
    leave(pipe);
}

static void clients_are_answered_after_a_late_answer(void **state)
{
    (void)state;
    add("app:a");
    told.holds = true;
    struct client *one = listen_to("[\"app:a\"]"), *two = listen_to("[\"app:a\"]");
    struct client *pipe = pipe_open();
    client_legacy(pipe, NULL, "7", "resources/subscribe", "\"uri\":\"app:a\"");
    harness_run_until_idle(&b);
    assert_int_equal(told.on_count, 1);
    assert_int_equal(client_count(one, SAID_ACK) + client_count(two, SAID_ACK), 0);
    size_t said = pipe->count;
    answer(0);
    assert_true(is_honoured(one, "app:a") && is_honoured(two, "app:a"));
    assert_int_equal(pipe->count, said + 1);
    leave(one);
    leave(two);
    leave(pipe);
    assert_int_equal(told.off_count, 1);
}

static void late_refusal_reaches_all_waiting_clients(void **state)
{
    (void)state;
    add("app:a");
    told.holds = true;
    struct client *one = listen_to("[\"app:a\"]"), *two = listen_to("[\"app:a\"]");
    answer(TIDINGS_E_BUSY);
    assert_string_equal(refused_reason(one, "app:a"), "not now");
    assert_string_equal(refused_reason(two, "app:a"), "not now");
    leave(one);
    leave(two);
    assert_int_equal(told.off_count, 0);
}

/* ---- leaving early --------------------------------------------------------------------------- */

static void client_that_leaves_before_the_answer_is_forgotten(void **state)
{
    (void)state;
    add("app:a");
    told.holds = true;
    struct client *gone = listen_to("[\"app:a\"]"), *pipe = pipe_open();
    client_legacy(pipe, NULL, "7", "resources/subscribe", "\"uri\":\"app:a\"");
    client_legacy(pipe, NULL, "8", "resources/unsubscribe", "\"uri\":\"app:a\"");
    leave(gone);
    answer(0);
    assert_int_equal(told.on_count, 1);
    assert_int_equal(told.off_count, 1); /* accepted, but without a subscription */
    harness_update(&b, "app:a");
    harness_run_until_idle(&b);
    assert_int_equal(client_count(pipe, SAID_UPDATED), 0);
    leave(pipe);
    /* A second client stays while another leaves. */
    struct client *stays = listen_to("[\"app:a\"]");
    leave(listen_to("[\"app:a\"]"));
    answer(0);
    assert_true(is_honoured(stays, "app:a"));
    assert_int_equal(told.off_count, 1);
    leave(stays);
    assert_int_equal(told.off_count, 2);
}

static void stop_before_the_answer_leaks_nothing(void **state)
{
    (void)state;
    add("app:a");
    told.holds = true;
    struct client *c = listen_to("[\"app:a\"]"), *pipe = pipe_open();
    client_legacy(pipe, NULL, "7", "resources/subscribe",
                  "\"uri\":\"app:a\",\"_meta\":{\"dev.tidings/options\":{\"filter\":{}}}");
    harness_run_until_idle(&b);
    client_free(c);
    client_free(pipe); /* the rest happens at the end of the test */
}

/* ---- never ----------------------------------------------------------------------------------- */

static int begin_impatient(void **state)
{
    (void)state;
    memset(&told, 0, sizeof(told));
    harness_init(&b);
    b.self.list_changed = b.options.list_changed = false;
    b.options.watch_timeout_ms = 20;
    harness_start(&b);
    return 0;
}

static bool is_acknowledged(void *user)
{
    return client_count(user, SAID_ACK) > 0;
}

static bool is_answered(void *user)
{
    const struct client *pipe = user;
    const char *text = pipe->said[pipe->count - 1].text;
    return text && strstr(text, "\"id\":7") != NULL;
}

static void client_is_refused_if_hook_never_answers(void **state)
{
    (void)state;
    add("app:a");
    told.holds = true;
    struct client *c = listen_to("[\"app:a\"]"), *pipe = pipe_open();
    client_legacy(pipe, NULL, "7", "resources/subscribe", "\"uri\":\"app:a\"");
    harness_until(&b, is_acknowledged, c);
    harness_until(&b, is_answered, pipe);
    assert_non_null(strstr(refused_reason(c, "app:a"), "20 ms"));
    assert_non_null(strstr(pipe->said[pipe->count - 1].text, "20 ms"));
    leave(c);
    leave(pipe);
    /* The next subscription waits for the same answer. */
    c = listen_to("[\"app:a\"]");
    assert_int_equal(told.on_count, 1);
    answer(0);
    assert_true(is_acknowledged(c));
    if (!refused_reason(c, "app:a")) { /* the refusal may have been late again */
        assert_int_equal(told.off_count, 0);
        assert_true(is_honoured(c, "app:a"));
    }
    leave(c);
    assert_int_equal(told.off_count, 1);
}

static void late_answer_without_waiting_clients_is_released(void **state)
{
    (void)state;
    add("app:a");
    told.holds = true;
    struct client *c = listen_to("[\"app:a\"]");
    harness_until(&b, is_acknowledged, c);
    assert_int_equal(told.off_count, 0);
    answer(0);
    assert_int_equal(told.off_count, 1);
    leave(c);
    c = listen_to("[\"app:a\"]"); /* starts again from zero */
    assert_int_equal(told.on_count, 2);
    harness_until(&b, is_acknowledged, c);
    answer(TIDINGS_E_BUSY);
    assert_int_equal(told.off_count, 1);
    leave(c);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void hook_is_not_set_without_memory(void **state)
{
    (void)state;
    harness_add(&b, "app:a");
    set_hook("app:z");
    long n = 1;
    for (bool reached = true; reached; n++) {
        struct tidings_error err = {0};
        struct watch_hook *hook = watch_hook_create(STR("app:a"), on_watch, on_unwatch, &told);
        fail_alloc_start(n);
        int rc = hub_set_hook(b.hub, STR("app:a"), hook, &err);
        reached = fail_alloc_stop();
        struct catalog *now = hub_catalog(b.hub);
        assert_int_equal(rc, watch_hooks_find(&now->hooks, STR("app:a")) ? 0 : TIDINGS_E_NOMEM);
        catalog_unref(now);
        if (rc == 0) {
            break; /* a lost letter only leaves a worker with old state */
        }
    }
    assert_true(n > 1); /* it failed at least once */
    harness_run_until_idle(&b);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
#define IMPATIENT(name) cmocka_unit_test_setup_teardown(name, begin_impatient, end)
    const struct CMUnitTest tests[] = {
        TEST(hook_runs_at_first_and_last_subscription),
        TEST(template_hook_runs_for_uris_and_patterns),
        TEST(resource_is_required_once_for_name_and_pattern),
        TEST(hook_is_set_before_or_after_its_resource_and_removed_with_it),
        TEST(refused_subscription_is_not_acknowledged),
        TEST(clients_are_answered_after_a_late_answer),
        TEST(late_refusal_reaches_all_waiting_clients),
        TEST(client_that_leaves_before_the_answer_is_forgotten),
        TEST(stop_before_the_answer_leaks_nothing),
        IMPATIENT(client_is_refused_if_hook_never_answers),
        IMPATIENT(late_answer_without_waiting_clients_is_released),
        TEST(hook_is_not_set_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
