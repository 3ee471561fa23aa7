/* SPDX-License-Identifier: MIT
 *
 * Publishing through the public header: before and during the run, from several threads, and
 * ownership of a URI that several publishers want. Runs folded into one worker and with two.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/served.h"

static struct tidings_error err;

static int publish(const char *uri, const char *content)
{
    struct tidings_resource about = {0};
    about.uri = tidings_str(uri);
    memset(&err, 0, sizeof(err));
    return tidings_server_publish(served(), &about, tidings_str(content), &err);
}

static int unpublish(const char *uri)
{
    return tidings_server_unpublish(served(), tidings_str(uri), &err);
}

static void silent(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    (void)uri;
    tidings_read_done(read, TIDINGS_E_NOTFOUND, NULL);
}

static int add(const char *uri, bool is_template)
{
    struct tidings_resource about = {0};
    about.uri = tidings_str(uri);
    about.name = tidings_str("registered");
    memset(&err, 0, sizeof(err));
    return is_template ? tidings_server_add_template(served(), &about, silent, NULL, &err)
                       : tidings_server_add_resource(served(), &about, silent, NULL, &err);
}

static void check_error(int rc, int code, const char *part)
{
    assert_int_equal(rc, code);
    if (!strstr(err.text, part)) {
        fail_msg("'%s' does not hold '%s'", err.text, part);
    }
}

/* ---- serving --------------------------------------------------------------------------------- */

static void publication_can_be_read_listed_and_subscribed(void **state)
{
    (void)state;
    struct ears one, all;
    ears_init(&one);
    ears_init(&all);
    served_set("publish", "note://");
    assert_int_equal(publish("note://early", "early words"), 1);
    served_subscribe("note://early", "{\"include\":\"value\"}", &one);
    served_subscribe("note://", NULL, &all);
    served_run();
    assert_non_null(strstr(served_modern("resources/read", "note://early"), "early words"));
    assert_non_null(strstr(served_modern("resources/list", ""), "note://early"));
    assert_non_null(strstr(served_modern("resources/list", "note://"), "note://early"));
    served_await_subscribed("note://early", &one);
    served_await_subscribed("note://early", &all);
    size_t n = ears_count(&all);
    assert_int_equal(publish("NOTE://Late", "late words"), 1); /* another spelling */
    struct told t = ears_await(&all, n);
    while (strcmp(t.uri, "note://late") != 0) {
        t = ears_await(&all, ++n);
    }
    assert_int_equal(t.kind, TIDINGS_CHANGE_CREATED);
    assert_int_equal(publish("note://late", "late words"), 0); /* nothing new */
    assert_int_equal(publish("note://early", "other words"), 0);
    t = ears_await(&all, ++n);
    assert_string_equal(t.uri, "note://early");
    assert_int_equal(t.kind, TIDINGS_CHANGE_UPDATED);
    assert_int_equal(unpublish("note://late"), 0);
    t = ears_await(&all, ++n);
    assert_string_equal(t.uri, "note://late");
    assert_int_equal(t.kind, TIDINGS_CHANGE_DELETED);
    n = 0;
    while (!strstr(ears_await(&one, n).value, "other words")) {
        n++;
    }
    assert_non_null(strstr(served_modern("resources/read", "note://late"), "\"error\""));
}

static void unsubscribable_publications_notify_no_subscription(void **state)
{
    (void)state;
    struct ears all;
    struct tidings_resource dark = {0};
    dark.uri = tidings_str("note://dark");
    dark.not_subscribable = true;
    ears_init(&all);
    served_set("publish", "note://");
    assert_int_equal(publish("note://early", "1"), 1);
    served_subscribe("note://", NULL, &all);
    served_run();
    size_t n = served_await_subscribed("note://early", &all);
    assert_int_equal(tidings_server_publish(served(), &dark, tidings_str("1"), &err), 1);
    assert_int_equal(tidings_server_publish(served(), &dark, tidings_str("2"), &err), 0);
    served_announce("note://dark", "", TIDINGS_CHANGE_UPDATED);
    assert_int_equal(unpublish("note://dark"), 0);
    assert_int_equal(publish("note://late", "1"), 1);
    while (strcmp(ears_await(&all, n).uri, "note://late") != 0) {
        assert_string_equal(ears_await(&all, n).uri, "note://early");
        n++;
    }
    /* A new publication is subscribable again. */
    assert_int_equal(publish("note://dark", "3"), 1);
    assert_string_equal(ears_await(&all, n + 1).uri, "note://dark");
}

/* ---- _meta of the application ---------------------------------------------------------------- */

/* Its _meta repeats what it was given. */
static void telling(void *user, struct tidings_read *read, struct tidings_str uri)
{
    struct tidings_error why;
    struct tidings_resource about = {0};
    about.uri = uri;
    about.name = tidings_str("told");
    about.meta = tidings_str(user);
    tidings_read_done(read, tidings_read_text(read, &about, tidings_str("words"), &why), &why);
}

static void publisher_and_handler_attach_metadata(void **state)
{
    (void)state;
    static char good[] = "{\"example.com/by\": \"handler\"}", none[] = "",
                bad[] = "{\"io.modelcontextprotocol/x\":1}";
    struct tidings_resource about = {0};
    served_set("publish", "note://");
    about.name = tidings_str("n");
    about.meta = tidings_str("{\"example.com/by\":\"registration\"}");
    about.uri = tidings_str("app:///good");
    assert_int_equal(tidings_server_add_resource(served(), &about, telling, good, NULL), 0);
    about.uri = tidings_str("app:///none");
    assert_int_equal(tidings_server_add_resource(served(), &about, telling, none, NULL), 0);
    about.uri = tidings_str("app:///bad");
    assert_int_equal(tidings_server_add_resource(served(), &about, telling, bad, NULL), 0);
    about.uri = tidings_str("app:///refused");
    about.meta = tidings_str(bad);
    check_error(tidings_server_add_resource(served(), &about, telling, bad, &err),
                TIDINGS_E_INVALID, "'io.modelcontextprotocol/x' is reserved");
    about.uri = tidings_str("note://refused");
    check_error(tidings_server_publish(served(), &about, tidings_str(""), &err), TIDINGS_E_INVALID,
                "'io.modelcontextprotocol/x' is reserved");
    about.uri = tidings_str("note://a");
    about.meta = tidings_str("{\"example.com/by\":\"publisher\"}");
    assert_int_equal(tidings_server_publish(served(), &about, tidings_str("words"), &err), 1);
    served_run();
    assert_non_null(
        strstr(served_modern("resources/read", "app:///good"), "\"example.com/by\": \"handler\""));
    assert_non_null(strstr(served_modern("resources/read", "app:///none"),
                           "\"example.com/by\":\"registration\""));
    assert_non_null(
        strstr(served_modern("resources/read", "note://a"), "\"example.com/by\":\"publisher\""));
    assert_non_null(
        strstr(served_modern("resources/list", "note://"), "\"example.com/by\":\"publisher\""));
    const char *failed = served_modern("resources/read", "app:///bad");
    assert_non_null(strstr(failed, "'io.modelcontextprotocol/x' is reserved"));
    assert_null(strstr(failed, "words"));
}

#define THREADS 3
#define ROUNDS 200

static void *push(void *arg)
{
    const int *number = arg;
    for (int i = 0; i < ROUNDS; i++) {
        char text[32];
        struct tidings_resource about = {0};
        about.uri = tidings_str("note://busy");
        snprintf(text, sizeof(text), "%d of %d", i, *number);
        assert_int_not_equal(tidings_server_publish(served(), &about, tidings_str(text), NULL),
                             TIDINGS_E_NOMEM);
    }
    return NULL;
}

static void concurrent_publications_deliver_last_value(void **state)
{
    (void)state;
    struct ears e;
    ears_init(&e);
    served_set("publish", "note://");
    served_set("window", "200ms");
    assert_int_equal(publish("note://busy", "first"), 1);
    served_subscribe("note://busy", "{\"include\":\"value\"}", &e);
    served_run();
    served_await_subscribed("note://busy", &e);
    pthread_t threads[THREADS];
    int numbers[THREADS] = {1, 2, 3};
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, push, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    publish("note://busy", "the last");
    size_t n = 0;
    while (!strstr(ears_await(&e, n).value, "the last")) {
        n++;
    }
}

/* ---- ownership of a URI ---------------------------------------------------------------------- */

static void publish_requires_uri_below_prefix(void **state)
{
    (void)state;
    check_error(publish("note://x", ""), TIDINGS_E_DENIED, "no prefix is set");
    served_set("publish", "note:///in/");
    check_error(publish("note:///out", ""), TIDINGS_E_DENIED, "not below 'note:///in/'");
    check_error(publish("note:///in/../out", ""), TIDINGS_E_INVALID, "dot");
    check_error(publish("", ""), TIDINGS_E_INVALID, "requires a URI");
    assert_int_equal(publish("note:///in/x", ""), 1);
    served_run();
    check_error(publish("note:///out", ""), TIDINGS_E_DENIED, "not below 'note:///in/'");
    check_error(publish("note:///in/", ""), TIDINGS_E_INVALID, "container");
    check_error(unpublish("note:///out"), TIDINGS_E_NOTFOUND, "nothing is published");
    assert_int_equal(publish("note:///in/y", ""), 1);
}

static void second_owner_of_uri_is_rejected(void **state)
{
    (void)state;
    served_set("publish", "app:///");
    check_error(publish("app:///a", ""), TIDINGS_E_EXISTS, "registered"); /* seen at once … */
    assert_int_equal(add("app:///c", false), 0);
    check_error(publish("app:///c", ""), TIDINGS_E_EXISTS, "registered");
    assert_int_equal(publish("app:///d", ""), 1);
    check_error(add("app:///d", false), TIDINGS_E_EXISTS, "is published");
    assert_int_equal(tidings_server_remove(served(), tidings_str("app:///row/{id}"), &err), 0);
    served_run();
    check_error(publish("app:///c", ""), TIDINGS_E_EXISTS, "registered");
    assert_int_equal(add("app:///e", false), 0);
    check_error(add("app:///e", false), TIDINGS_E_EXISTS, "registered already");
    check_error(publish("app:///e", ""), TIDINGS_E_EXISTS, "registered");
    assert_int_equal(tidings_server_remove(served(), tidings_str("app:///e"), &err), 0);
    assert_int_equal(publish("app:///e", ""), 1);
    check_error(add("app:///e", false), TIDINGS_E_EXISTS, "is published");
    check_error(add("app:///x/{id}", true), TIDINGS_E_EXISTS, "would never be asked");
    assert_int_equal(add("app:{x}", true), 0); /* only in part */
    assert_int_equal(unpublish("app:///e"), 0);
    assert_int_equal(add("app:///e", false), 0);
}

static int run_here(void)
{
    memset(&err, 0, sizeof(err));
    return tidings_server_run(served(), &err);
}

static void start_fails_with_conflicting_resources(void **state)
{
    (void)state;
    served_set("publish", "app:///");
    check_error(run_here(), TIDINGS_E_EXISTS, "'app:///row/{id}' would never be asked");
}

static void nested_prefixes_are_rejected(void **state)
{
    (void)state;
    served_set("publish", "note:///a/");
    served_set("publish", "note:///");
    check_error(run_here(), TIDINGS_E_INVALID, "'note:///a/' lies inside 'note:///'");
}

static void start_fails_if_publication_is_inside_mount(void **state)
{
    (void)state;
    served_set("publish", "note:///");
    served_set("mount", "note:///files/=/tmp");
    assert_int_equal(publish("note:///x", ""), 1);
    assert_int_equal(publish("note:///files/x", ""), 1); /* not known yet … */
    check_error(run_here(), TIDINGS_E_EXISTS, "'note:///files/x' is published, and file");
}

static void no_call(void *user, struct tidings_call *call)
{
    (void)user;
    tidings_call_done(call, 0, NULL);
}

static void program_tool_is_not_replaced_by_built_in_tool(void **state)
{
    (void)state;
    struct tidings_tool tool = {.name = tidings_str("unpublish")};
    served_set("allow-write", "true");
    assert_int_equal(tidings_server_add_tool(served(), &tool, no_call, NULL, &err), 0);
    check_error(run_here(), TIDINGS_E_EXISTS, "allow-write: ");
    check_error(run_here(), TIDINGS_E_EXISTS, "'unpublish'"); /* nothing was left behind */
    assert_int_equal(tidings_server_remove_tool(served(), tool.name, &err), 0);
    served_run();
    assert_non_null(strstr(served_modern("tools/list", ""), "\"unpublish\""));
}

#define BOTH(name)                                                                                 \
    cmocka_unit_test_prestate_setup_teardown(name, served_begin, served_end, one),                 \
        cmocka_unit_test_prestate_setup_teardown(name, served_begin, served_end, two)
#define NOT_RUN(name) cmocka_unit_test_setup_teardown(name, served_begin, served_end)

int main(void)
{
    static char one[] = "1", two[] = "2";
    const struct CMUnitTest tests[] = {
        BOTH(publication_can_be_read_listed_and_subscribed),
        BOTH(unsubscribable_publications_notify_no_subscription),
        BOTH(publisher_and_handler_attach_metadata),
        BOTH(concurrent_publications_deliver_last_value),
        BOTH(publish_requires_uri_below_prefix),
        BOTH(second_owner_of_uri_is_rejected),
        NOT_RUN(start_fails_with_conflicting_resources),
        NOT_RUN(nested_prefixes_are_rejected),
        NOT_RUN(program_tool_is_not_replaced_by_built_in_tool),
        NOT_RUN(start_fails_if_publication_is_inside_mount),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
