/* SPDX-License-Identifier: MIT
 *
 * Every function that can fail rejects a NULL client; the others do nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <tidings/client.h>
#include <tidings/copy.h>

static struct tidings_error err;

static void on_update(void *user, const struct tidings_update *update)
{
    (void)user;
    (void)update;
}

static void on_answer(void *user, struct tidings_str result, const struct tidings_error *why,
                      struct tidings_str error)
{
    (void)user;
    (void)result;
    (void)why;
    (void)error;
}

static int on_item(void *user, struct tidings_str item)
{
    (void)user;
    (void)item;
    return 0;
}

static int on_entry(void *user, const struct tidings_walk_entry *entry)
{
    (void)user;
    (void)entry;
    return 0;
}

static void on_copy(void *user, const struct tidings_copy_state *state)
{
    (void)user;
    (void)state;
}

#define assert_refused(call)                                                                       \
    do {                                                                                           \
        err = (struct tidings_error){0, ""};                                                       \
        long got_ = (long)(call);                                                                  \
        if ((got_ != TIDINGS_E_INVALID && got_ != 0) || err.code != TIDINGS_E_INVALID) {           \
            fail_msg("%s: %ld '%s'", #call, got_, err.text);                                       \
        }                                                                                          \
    } while (0)

static void null_client_is_rejected(void **state)
{
    (void)state;
    struct tidings_subscribe_options on = {.fn = on_update};
    struct tidings_client_asking asking = {.method = "ping", .on_answer = on_answer};
    struct tidings_client_http request = {0};
    struct tidings_client_http_answer answer;
    struct tidings_copying how = {.fn = on_copy};
    assert_refused((intptr_t)tidings_client_create(NULL, NULL, &err));
    assert_refused(tidings_client_connect(NULL, &err));
    assert_refused(tidings_client_run(NULL, &err));
    assert_refused(tidings_client_step(NULL, 0, &err));
    assert_refused((intptr_t)tidings_client_subscribe(NULL, "a:///", &on, &err));
    assert_refused((intptr_t)tidings_client_request(NULL, "ping", NULL, &err));
    assert_refused(tidings_client_ask(NULL, &asking, &err));
    assert_refused((intptr_t)tidings_client_read(NULL, "a:///", &err));
    assert_refused((intptr_t)tidings_client_metadata(NULL, "a:///", &err));
    assert_refused((intptr_t)tidings_client_call(NULL, "t", NULL, NULL, NULL, &err));
    assert_refused((intptr_t)tidings_client_prompt(NULL, "p", NULL, &err));
    assert_refused((intptr_t)tidings_client_complete(NULL, "{}", "a", "b", NULL, &err));
    assert_refused(tidings_client_list(NULL, TIDINGS_LISTING_TOOLS, on_item, NULL, &err));
    assert_refused(tidings_client_children(NULL, "a:///", on_item, NULL, &err));
    assert_refused(tidings_client_walk(NULL, "a:///", NULL, on_entry, NULL, &err));
    assert_refused(tidings_client_http(NULL, &request, &answer, &err));
    assert_refused((intptr_t)tidings_copy_begin(NULL, "entity:///a@1.0/b", &how, &err));
    assert_refused(tidings_subscription_set_options(NULL, NULL, &err));
}

static void null_client_is_ignored_by_void_functions(void **state)
{
    (void)state;
    tidings_client_stop(NULL);
    tidings_client_cancel(NULL, 1);
    tidings_client_on_state(NULL, NULL, NULL);
    tidings_client_on_notification(NULL, NULL, NULL);
    tidings_client_destroy(NULL);
    tidings_copy_end(NULL);
    tidings_subscription_end(NULL);
    assert_ptr_equal(tidings_subscription_uri(NULL), NULL);
    assert_ptr_equal(tidings_client_info(NULL), NULL);
    assert_ptr_equal(tidings_client_last_error(NULL), NULL);
    assert_int_equal(tidings_client_fd(NULL), -1);
    assert_int_equal(tidings_client_subscriptions(NULL, NULL, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_client_is_rejected),
        cmocka_unit_test(null_client_is_ignored_by_void_functions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
