/* SPDX-License-Identifier: MIT
 *
 * Subscription options and limits that the program sets while the server runs.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/served.h"

#define ERRORS                                                                                     \
    "{\"filter\":{\"properties\":{\"metadata\":{\"properties\":{\"level\":{\"const\":\"error\"}}," \
    "\"required\":[\"level\"]}}}}"

static int set(const char *prefix, const char *options, const char *limits,
               struct tidings_error *err)
{
    return tidings_server_set_options(served(), tidings_str(prefix), tidings_str(options),
                                      tidings_str(limits), err);
}

static void set_well(const char *prefix, const char *options, const char *limits)
{
    struct tidings_error err = {0, ""};
    if (set(prefix, options, limits, &err) != 0) {
        fail_msg("%s", err.text);
    }
}

/* Keeps the first update and the end, because many may arrive between them. */
static void hear_first(void *user, const struct tidings_update *update)
{
    struct ears *e = user;
    if (ears_count(e) == 0) {
        ears_hear(e, update);
    }
}

/* Both levels are announced repeatedly, `info` before `error`. Returns the first one received, or
 * the reason why none can arrive. */
static const char *first_level(const char *json)
{
    static struct ears e;
    static struct told t;
    struct tidings_subscribe_options o = {
        .fn = hear_first, .on_state = ears_state, .user = &e, .options = json};
    ears_init(&e);
    struct tidings_subscription *sub =
        tidings_server_subscribe(served(), tidings_str("app:///a"), &o, NULL);
    assert_non_null(sub);
    while (ears_count(&e) == 0) { /* until it exists */
        served_announce("app:///a", "{\"level\":\"info\"}", TIDINGS_CHANGE_UPDATED);
        served_announce("app:///a", "{\"level\":\"error\"}", TIDINGS_CHANGE_UPDATED);
        poll(NULL, 0, 5); /* so as not to flood it */
    }
    t = ears_await(&e, 0);
    tidings_subscription_end(sub);
    assert_true(ears_await(&e, 1).ended);
    return t.refused[0] ? t.refused : t.metadata;
}

static void runtime_rules_apply_to_later_subscriptions(void **state)
{
    (void)state;
    set_well("app:///", "{\"windowMs\":60000}", "{\"windowMs\":70000}");
    served_run();
    assert_non_null(strstr(first_level("{\"windowMs\":70001}"), "0 to 70000"));
    set_well("app:///", ERRORS, "");
    assert_non_null(strstr(first_level("{\"windowMs\":0}"), "error"));
    assert_non_null(strstr(first_level("{\"windowMs\":70001}"), "0 to 60000")); /* the server's */
    set_well("app:///a", "", "{\"filter\":false}"); /* longer, and without a default */
    assert_non_null(strstr(first_level("{\"filter\":{}}"), "'filter' may not be used here"));
    set_well("app:///a", "{\"filter\":{}}", "");
    set_well("", "{\"windowMs\":1}", "");
    set_well("app:///", "", "");
    assert_non_null(strstr(first_level("{\"windowMs\":0}"), "level"));
}

static void invalid_rule_is_reported_and_changes_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *prefix, *options, *limits, *said;
    } rows[] = {
        {"app:///", "{\"window\":1}", "", "unknown option 'window'"},
        {"app:///", "", "{\"initial\":1}", "'initial'"},
        {"app:///", "{", "", "line 1"},
        {"app:///", "[]", "", "objects"},
        {"app:///", "{\"filter\":{\"type\":7}}", "", "/type"},
        {"no uri", "{}", "", "URI"},
        {"app:///?a=b", "{}", "", "no query"},
    };
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            struct tidings_error err = {0, ""};
            assert_true(set(rows[i].prefix, rows[i].options, rows[i].limits, &err) < 0);
            if (!strstr(err.text, rows[i].said)) {
                fail_msg("\"%s\" does not say %s", err.text, rows[i].said);
            }
        }
        if (round == 0) {
            served_run();
        }
    }
    assert_non_null(strstr(first_level(NULL), "level"));
}

static void server_rejects_more_than_1000_rules(void **state)
{
    (void)state;
    char prefix[64];
    struct tidings_error err = {0, ""};
    for (int i = 0; i < 1000; i++) {
        snprintf(prefix, sizeof(prefix), "app:///p/%d/", i);
        set_well(prefix, "{\"rateMs\":1}", "");
    }
    assert_int_equal(set("app:///q/", "{\"rateMs\":1}", "", &err), TIDINGS_E_LIMIT);
    set_well("app:///p/7/", "{\"rateMs\":2}", "");
    set_well("app:///p/7/", "", "");
    set_well("app:///q/", "{\"rateMs\":1}", "");
}

/* ---- all at once ----------------------------------------------------------------------------- */

static bool is_over; /* atomic */

static void *set_all_the_time(void *arg)
{
    for (unsigned i = 0; !__atomic_load_n(&is_over, __ATOMIC_SEQ_CST); i++) {
        const char *options = i % 3 == 0 ? ERRORS : i % 3 == 1 ? "{\"origin\":\"me\"}" : "";
        if (set(arg, options, "", NULL) < 0) {
            return arg;
        }
    }
    return NULL;
}

static void rules_can_change_during_subscribes_and_stop(void **state)
{
    (void)state;
    static char one[] = "app:///", other[] = "app:///row/";
    pthread_t threads[2];
    __atomic_store_n(&is_over, false, __ATOMIC_SEQ_CST);
    assert_int_equal(pthread_create(&threads[0], NULL, set_all_the_time, one), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, set_all_the_time, other), 0);
    served_run();
    for (int i = 0; i < 20; i++) {
        struct ears e;
        ears_init(&e);
        tidings_subscription_end(served_subscribe(i % 2 ? "app:///row/1" : "app:///**", NULL, &e));
        for (size_t n = 0; !ears_await(&e, n).ended; n++) {
        }
    }
    served_stop();
    __atomic_store_n(&is_over, true, __ATOMIC_SEQ_CST);
    for (int i = 0; i < 2; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVED_BOTH(runtime_rules_apply_to_later_subscriptions),
        SERVED_BOTH(invalid_rule_is_reported_and_changes_nothing),
        SERVED_BOTH(server_rejects_more_than_1000_rules),
        SERVED_BOTH(rules_can_change_during_subscribes_and_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
