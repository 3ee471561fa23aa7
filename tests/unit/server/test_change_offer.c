/* SPDX-License-Identifier: MIT
 *
 * The change tools for hosts that cannot subscribe, in a complete server: when the server offers
 * them, and calls on worker threads while the program announces. Runs with one worker and with two.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/served.h"

static const char *cursor_in(const char *answer)
{
    static char cursor[64];
    const char *at = strstr(answer, "\"structuredContent\":{\"cursor\":\"");
    if (!at) {
        fail_msg("no cursor in %s", answer);
    }
    at = strstr(at, "\"cursor\":\"") + strlen("\"cursor\":\"");
    snprintf(cursor, sizeof(cursor), "%.*s", (int)strcspn(at, "\""), at);
    return cursor;
}

static const char *with_cursor(const char *answer)
{
    static char arguments[256];
    snprintf(arguments, sizeof(arguments),
             "\"cursor\":\"%s\",\"uris\":[\"app:///a\",\"app:///row/{id}\"]", cursor_in(answer));
    return arguments;
}

static void *announce(void *arg)
{
    (void)arg;
    for (int i = 0; i < 300; i++) {
        char uri[32];
        snprintf(uri, sizeof(uri), "app:///row/%03d", i);
        served_announce(uri, "{\"n\":1}", TIDINGS_CHANGE_CREATED);
        served_announce("app:///a", "", TIDINGS_CHANGE_UPDATED);
    }
    return NULL;
}

static void changes_call_follows_announcements_of_other_threads(void **state)
{
    (void)state;
    served_set("change-tools", "on");
    served_run();
    char arguments[256];
    snprintf(
        arguments, sizeof(arguments), "%s",
        with_cursor(served_call("changes_since", "\"uris\":[\"app:///a\",\"app:///row/{id}\"]")));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, announce, NULL), 0);
    bool seen[300] = {false};
    for (size_t count = 0; count < 300;) {
        const char *answer = served_call("wait_for_change", arguments);
        const char *at = strstr(answer, "\"structuredContent\"");
        assert_non_null(at);
        while ((at = strstr(at, "app:///row/")) != NULL) {
            at += strlen("app:///row/");
            long n = strtol(at, NULL, 10);
            assert_in_range(n, 0, 299);
            assert_false(seen[n]);
            seen[n] = true;
            count++;
        }
        snprintf(arguments, sizeof(arguments), "%s", with_cursor(answer));
    }
    pthread_join(thread, NULL);
}

static void change_tools_are_listed_if_enabled(void **state)
{
    (void)state;
    served_run();
    assert_null(strstr(served_modern("tools/list", ""), "wait_for_change"));
    served_stop();
}

static void mine(void *user, struct tidings_call *call)
{
    (void)user;
    tidings_call_done(call, 0, NULL);
}

static void duplicate_tool_name_fails_the_start(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    struct tidings_tool about = {.name = tidings_str("wait_for_change")};
    assert_int_equal(tidings_server_add_tool(served(), &about, mine, NULL, &err), 0);
    served_set("change-tools", "on");
    assert_int_equal(tidings_server_run(served(), &err), TIDINGS_E_EXISTS);
    assert_non_null(strstr(err.text, "change-tools: "));
    assert_int_equal(tidings_server_remove_tool(served(), about.name, &err), 0);
    served_run(); /* and no state remains */
    assert_non_null(strstr(served_modern("tools/list", ""), "wait_for_change"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVED_BOTH(changes_call_follows_announcements_of_other_threads),
        SERVED_BOTH(change_tools_are_listed_if_enabled),
        SERVED_BOTH(duplicate_tool_name_fails_the_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
