/* SPDX-License-Identifier: MIT
 *
 * The program as its own client: subscriptions with a callback, filters, options, rates and
 * "everything". Runs folded into one worker and with two.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <tidings/subscribers.h>

#include "support/served.h"

/* ---- subscriptions --------------------------------------------------------------------------- */

static void program_receives_changes(void **state)
{
    (void)state;
    struct ears before, while_running, rows;
    ears_init(&before);
    ears_init(&while_running);
    ears_init(&rows);
    served_subscribe("app:///a", "{\"windowMs\":0}", &before); /* markers do not merge */
    served_subscribe("app:///row/{id}", NULL, &rows);
    served_run();
    served_subscribe("app:///a", "{\"include\":\"value\"}", &while_running);
    served_await_subscribed("app:///a", &before);
    served_await_subscribed("app:///a", &while_running);
    size_t n = ears_count(&before);
    served_announce("app:///a", "{\"colour\":\"red\"}", TIDINGS_CHANGE_DELETED);
    struct told t = ears_await(&before, n);
    while (!strstr(t.metadata, "red")) { /* markers still in transit */
        t = ears_await(&before, ++n);
    }
    assert_string_equal(t.uri, "app:///a");
    assert_string_equal(t.subscribed, "app:///a");
    assert_int_equal(t.kind, TIDINGS_CHANGE_DELETED);
    assert_int_equal(t.merged, 1);
    assert_false(t.truncated || t.initial);
    assert_string_equal(t.refused, "");
    assert_string_equal(t.value, "");
    assert_non_null(strstr(ears_await(&while_running, 0).value, "app:///a"));
    served_announce("app:///row/7", "", TIDINGS_CHANGE_CREATED);
    t = ears_await(&rows, 0);
    assert_string_equal(t.uri, "app:///row/7");
    assert_string_equal(t.subscribed, "app:///row/{id}");
    assert_int_equal(t.kind, TIDINGS_CHANGE_CREATED);
}

static void move_is_reported_under_both_uris(void **state)
{
    (void)state;
    struct ears rows, moves;
    ears_init(&rows);
    ears_init(&moves);
    served_subscribe("app:///row?change_type=moved", NULL, &moves);
    served_subscribe("app:///row/{id}", NULL, &rows);
    served_run();
    served_await_subscribed("app:///row/0", &rows);
    struct tidings_change change = {.uri = tidings_str("APP:///row/2"),
                                    .from = tidings_str("APP:///row/1"),
                                    .kind = TIDINGS_CHANGE_MOVED};
    struct tidings_error err = {0, ""};
    size_t n = ears_count(&rows);
    assert_int_equal(tidings_announce(served(), &change, &err), 0);
    struct told t = ears_await(&rows, n);
    while (strcmp(t.uri, "app:///row/0") == 0) { /* markers still in transit */
        t = ears_await(&rows, ++n);
    }
    assert_string_equal(t.uri, "app:///row/1");
    assert_int_equal(t.kind, TIDINGS_CHANGE_DELETED);
    assert_string_equal(t.from, "");
    t = ears_await(&rows, n + 1);
    assert_string_equal(t.uri, "app:///row/2");
    assert_int_equal(t.kind, TIDINGS_CHANGE_MOVED);
    assert_string_equal(t.from, "app:///row/1");
    assert_string_equal(ears_await(&moves, 0).uri, "app:///row/2");
    change.from = tidings_str("");
    assert_int_equal(tidings_announce(served(), &change, &err), TIDINGS_E_INVALID);
    assert_non_null(strstr(err.text, "'from'"));
}

static bool only_red(void *user, struct tidings_str uri, struct tidings_str metadata)
{
    struct ears *e = user;
    char text[512];
    snprintf(text, sizeof(text), "%.*s", (int)metadata.len, metadata.ptr);
    assert_true(uri.len > 0);
    __atomic_add_fetch(&e->asked, 1, __ATOMIC_SEQ_CST);
    return strstr(text, "\"colour\":\"red\"") != NULL;
}

static void filter_applies_before_coalescing(void **state)
{
    (void)state;
    struct ears e, all;
    ears_init(&e);
    ears_init(&all);
    struct tidings_subscribe_options o = {.fn = ears_hear,
                                          .on_state = ears_state,
                                          .user = &e,
                                          .options = "{\"windowMs\":200}",
                                          .filter = only_red,
                                          .filter_user = &e};
    struct tidings_error err = {0, ""};
    assert_non_null(tidings_server_subscribe(served(), tidings_str("app:///a"), &o, &err));
    served_subscribe("app:///a", NULL, &all);
    served_run();
    served_await_subscribed("app:///a", &all);
    assert_int_equal(ears_count(&e), 0); /* markers have no colour */
    served_announce("app:///a", "{\"colour\":\"red\",\"n\":1}", 0);
    served_announce("app:///a", "{\"colour\":\"red\",\"n\":2}", 0);
    served_announce("app:///a", "{\"colour\":\"blue\",\"n\":3}", 0);
    assert_non_null(strstr(ears_await(&e, 0).metadata, "\"n\":1"));
    struct told t = ears_await(&e, 1); /* at the end of the window, and blue did not replace it */
    assert_non_null(strstr(t.metadata, "\"n\":2"));
    assert_int_equal(t.merged, 1);
    assert_true(__atomic_load_n(&e.asked, __ATOMIC_SEQ_CST) >= 4);
}

static void program_subscription_accepts_client_options(void **state)
{
    (void)state;
    struct ears window, initial;
    ears_init(&window);
    ears_init(&initial);
    served_subscribe("app:///a", "{\"windowMs\":300,\"include\":\"value\"}", &window);
    served_subscribe("app:///", "{\"initial\":true}", &initial);
    served_run();
    struct told t = ears_await(&initial, 0);
    assert_true(t.initial);
    assert_string_equal(t.uri, "app:///a");
    assert_string_equal(ears_await(&initial, 1).uri, "app:///b");
    for (int i = 0; i < 5; i++) {
        served_announce("app:///b", "", 0);
        served_announce("app:///a", "", 0);
    }
    assert_int_equal(ears_await(&window, 0).merged, 1);
    t = ears_await(&window, 1);
    assert_int_equal(t.merged, 4);
    assert_non_null(strstr(t.value, "\"text\":\"app:///a\""));
}

static void invalid_subscription_is_reported(void **state)
{
    (void)state;
    static const struct {
        const char *uri, *json, *said;
    } rows[] = {
        {"app:///missing", NULL, "not found"},
        {"none:///x/", NULL, "'none:'"},
        {"not a uri", NULL, ""},
        {"app:///a", "{\"windowMs\":-1}", "'windowMs'"},
        {"app:///a", "{\"filter\":{\"type\":7}}", "/type"},
        {"app:///a", "[]", "object"},
        {"(", "{\"match\":\"regex\"}", ""},
    };
    struct ears ears[7];
    for (size_t i = 0; i < 7; i++) {
        ears_init(&ears[i]);
        if (i == 3) {
            served_run(); /* some before start, some while it runs */
        }
        served_subscribe(rows[i].uri, rows[i].json, &ears[i]);
    }
    for (size_t i = 0; i < 7; i++) {
        struct told t = ears_await(&ears[i], 0);
        assert_string_equal(t.uri, "");
        assert_true(t.refused[0] != '\0');
        if (!strstr(t.refused, rows[i].said)) {
            fail_msg("'%s': %s", rows[i].uri, t.refused);
        }
        assert_string_equal(t.subscribed, rows[i].uri);
    }
}

static void misuse_is_rejected_at_once(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    struct ears e;
    ears_init(&e);
    static const struct tidings_subscribe_options none;
    struct tidings_subscribe_options good = {.fn = ears_hear, .user = &e}, bad = good, old = good;
    struct tidings_str a = tidings_str("app:///a");
    bad.options = "{";
    old.reserved[3] = &e; /* an uninitialized struct */
    assert_null(tidings_server_subscribe(served(), tidings_str(""), &good, &err));
    assert_int_equal(err.code, TIDINGS_E_INVALID);
    assert_null(tidings_server_subscribe(served(), a, &none, &err));
    assert_int_equal(err.code, TIDINGS_E_INVALID);
    assert_null(tidings_server_subscribe(served(), a, NULL, NULL));
    err = (struct tidings_error){0};
    assert_null(tidings_server_subscribe(served(), a, &old, &err));
    assert_int_equal(err.code, TIDINGS_E_INVALID);
    err = (struct tidings_error){0};
    assert_null(tidings_server_subscribe(served(), a, &bad, &err));
    assert_true(err.text[0] != '\0');
    assert_null(tidings_server_subscribe(served(), a, &bad, NULL));
    assert_true(tidings_server_set_rate(served(), tidings_str("not a uri"), 5, &err) < 0);
    assert_int_equal(ears_count(&e), 0);
}

static void program_subscription_supports_all_and_rate_options(void **state)
{
    (void)state;
    struct ears a, rows, limited;
    ears_init(&a);
    ears_init(&rows);
    ears_init(&limited);
    served_subscribe("app:///a", NULL, &a);
    served_subscribe("app:///row/{id}", NULL, &rows);
    served_subscribe("app:///b", NULL, &limited);
    struct tidings_error err = {0, ""};
    assert_int_equal(tidings_server_set_rate(served(), tidings_str("app:///b"), 300, &err), 0);
    served_run();
    served_await_subscribed("app:///a", &a);
    assert_int_equal(tidings_changed_all(served(), &err), 0);
    struct told t = ears_await(&rows, 0);
    assert_true(t.truncated);
    assert_string_equal(t.uri, "app:///row/{id}");
    assert_true(ears_await(&limited, 0).truncated);
    for (int i = 0; i < 20; i++) {
        served_announce("app:///b", "", 0);
    }
    unsigned merged = 0;
    size_t n = 1;
    for (; merged < 20; n++) {
        merged += ears_await(&limited, n).merged;
    }
    assert_true(n <= 4); /* the first change, and those collected in the period */
}

/* ---- ending ---------------------------------------------------------------------------------- */

/* Ends the subscription at the n-th update or a later one. */
static size_t await_end(struct ears *e, size_t n)
{
    while (!ears_await(e, n).ended) {
        n++;
    }
    return n + 1;
}

static void ended_subscription_receives_one_end_event(void **state)
{
    (void)state;
    struct ears a, b;
    ears_init(&a);
    ears_init(&b);
    struct tidings_subscription *sub = served_subscribe("app:///a", NULL, &a);
    struct tidings_subscription *other = served_subscribe("app:///a", NULL, &b);
    assert_ptr_not_equal(sub, other);
    served_run();
    served_await_subscribed("app:///a", &a);
    served_await_subscribed("app:///a", &b);
    struct tidings_error err = {0, ""};
    assert_int_equal(tidings_subscription_set_options(sub, "{}", &err), TIDINGS_E_UNSUPPORTED);
    tidings_subscription_end(sub);
    size_t n = await_end(&a, 1);
    assert_string_equal(ears_await(&a, n - 1).subscribed, "app:///a");
    served_await_subscribed("app:///a", &b);
    assert_int_equal(ears_count(&a), n);
    tidings_subscription_end(NULL);
}

struct once {
    struct ears ears;
    struct tidings_subscription *sub; /* atomic */
};

static void hear_once(void *user, const struct tidings_update *update)
{
    struct once *o = user;
    ears_hear(&o->ears, update);
    struct tidings_subscription *sub = __atomic_exchange_n(&o->sub, NULL, __ATOMIC_SEQ_CST);
    assert_true(!sub || sub == update->subscription);
    tidings_subscription_end(sub);
}

static void subscription_can_end_itself_in_its_callback(void **state)
{
    (void)state;
    struct once o = {.sub = NULL};
    struct ears b;
    ears_init(&o.ears);
    ears_init(&b);
    served_subscribe("app:///a", NULL, &b);
    struct tidings_subscribe_options on = {.fn = hear_once, .on_state = ears_state, .user = &o};
    struct tidings_subscription *sub =
        tidings_server_subscribe(served(), tidings_str("app:///a"), &on, NULL);
    assert_non_null(sub);
    __atomic_store_n(&o.sub, sub, __ATOMIC_SEQ_CST);
    served_run();
    served_await_subscribed("app:///a", &o.ears);
    size_t n = await_end(&o.ears, 0);
    served_await_subscribed("app:///a", &b);
    assert_int_equal(ears_count(&o.ears), n);
}

static void subscription_can_end_before_it_starts(void **state)
{
    (void)state;
    struct ears a, b, refused;
    ears_init(&a);
    ears_init(&b);
    ears_init(&refused);
    tidings_subscription_end(served_subscribe("app:///a", NULL, &a));
    tidings_subscription_end(served_subscribe("app:///missing", NULL, &refused));
    served_run();
    assert_true(ears_await(&a, 0).ended);
    await_end(&refused, 0);
    for (int i = 0; i < 20; i++) { /* ended during its resolution and watch */
        tidings_subscription_end(served_subscribe("app:///row/{id}", "{\"initial\":true}", &b));
    }
    for (size_t i = 0, ended = 0; ended < 20; i++) {
        ended += ears_await(&b, i).ended;
    }
    served_subscribe("app:///a", NULL, &a);
    served_await_subscribed("app:///a", &a);
}

static bool take_number(void *user, const struct tidings_subscriber *subscriber)
{
    *(uint64_t *)user = subscriber->subscriber;
    return true;
}

struct watcher {
    struct ears ears;
    bool is_watching;
};

static void note_watching(void *user, const struct tidings_state_event *event)
{
    struct watcher *w = user;
    assert_true(tidings_str_eq(event->uri, tidings_str("app:///a")));
    w->is_watching = w->is_watching || event->state == TIDINGS_STATE_WATCHING;
}

static void hear_object(void *user, const struct tidings_update *update)
{
    struct watcher *w = user;
    assert_true(w->is_watching);
    assert_int_equal(update->metadata.ptr[0], '{');
    assert_int_equal(update->metadata.ptr[update->metadata.len - 1], '}');
    assert_string_equal(tidings_subscription_uri(update->subscription), "app:///a");
    ears_hear(&w->ears, update);
}

static void start_is_reported_before_first_change(void **state)
{
    (void)state;
    struct watcher w = {.is_watching = false};
    ears_init(&w.ears);
    struct tidings_subscribe_options on = {
        .fn = hear_object, .on_state = note_watching, .user = &w};
    assert_non_null(tidings_server_subscribe(served(), tidings_str("app:///a"), &on, NULL));
    served_run();
    served_await_subscribed("app:///a", &w.ears);
    served_stop(); /* `w` goes */
}

static void handle_stays_valid_after_external_end(void **state)
{
    (void)state;
    struct ears a;
    struct tidings_error err = {0, ""};
    ears_init(&a);
    struct tidings_subscription *refused = served_subscribe("app:///missing", NULL, &a);
    served_run();
    assert_true(ears_await(&a, 0).refused[0] != '\0');
    assert_string_equal(tidings_subscription_uri(refused), "app:///missing");
    tidings_subscription_end(refused);
    assert_true(ears_await(&a, 1).ended);
    struct tidings_subscription *sub = served_subscribe("app:///a", NULL, &a);
    size_t n = served_await_subscribed("app:///a", &a);
    uint64_t number = 0;
    assert_int_equal(
        tidings_server_subscribers(served(), tidings_str("app:///a"), take_number, &number, &err),
        1);
    assert_int_equal(tidings_server_disconnect(served(), number, &err), 1);
    n = await_end(&a, n);
    assert_string_equal(tidings_subscription_uri(sub), "app:///a");
    tidings_subscription_end(sub);
    sub = served_subscribe("app:///b", NULL, &a);
    served_stop();
    assert_string_equal(tidings_subscription_uri(sub), "app:///b");
    tidings_subscription_end(sub); /* after the server has run, and before its destruction */
}

static void server_stop_frees_unstarted_subscriptions(void **state)
{
    (void)state;
    struct ears e;
    ears_init(&e);
    served_subscribe("app:///a", NULL, &e); /* the server is destroyed without a run */
    served_subscribe("app:///a", "{\"initial\":true}", &e);
    assert_int_equal(ears_count(&e), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVED_BOTH(program_receives_changes),
        SERVED_BOTH(move_is_reported_under_both_uris),
        SERVED_BOTH(filter_applies_before_coalescing),
        SERVED_BOTH(program_subscription_accepts_client_options),
        SERVED_BOTH(invalid_subscription_is_reported),
        SERVED_BOTH(misuse_is_rejected_at_once),
        SERVED_BOTH(program_subscription_supports_all_and_rate_options),
        SERVED_BOTH(ended_subscription_receives_one_end_event),
        SERVED_BOTH(subscription_can_end_itself_in_its_callback),
        SERVED_BOTH(subscription_can_end_before_it_starts),
        SERVED_BOTH(start_is_reported_before_first_change),
        SERVED_BOTH(handle_stays_valid_after_external_end),
        SERVED_BOTH(server_stop_frees_unstarted_subscriptions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
