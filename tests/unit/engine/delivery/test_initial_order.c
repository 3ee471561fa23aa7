/* SPDX-License-Identifier: MIT
 *
 * Changes after a cursor and initial states. A client with a cursor gets no state, and changes
 * precede the states of other subscriptions. The order therefore does not reveal the duration of a
 * search.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"

#define INITIAL "params|_meta|dev.tidings/initial"

static struct harness b;
static struct stub stub;

static int begin(void **state)
{
    (void)state;
    harness_init(&b);
    b.self.list_changed = b.options.list_changed = false;
    b.options.log.max_entries = 1000;
    harness_start(&b);
    stub_mount(&stub, &b, "mem://x/", 0);
    stub_add(&stub, "mem://x/a", false);
    stub_add(&stub, "mem://x/dir/", true);
    stub_add(&stub, "mem://x/dir/c", false);
    stub_add(&stub, "mem://x/dir/d", false);
    return 0;
}

static int end(void **state)
{
    (void)state;
    harness_stop(&b);
    return 0;
}

/* A cursor from before an update of that resource. */
static const char *cursor_before_update(const char *uri)
{
    harness_update(&b, uri);
    harness_run_until_idle(&b);
    return text_of("%llx.0", (unsigned long long)b.worker[0]->epoch);
}

static void expect(const struct client *c, size_t n, const char *uri, bool is_initial)
{
    const char *text = update_nth(c, NULL, n);
    assert_json(text, "params|uri", uri);
    assert_int_equal(json_at(text, INITIAL) != NULL, is_initial);
}

static void initial_is_ignored_with_a_cursor(void **state)
{
    (void)state;
    const char *since = cursor_before_update("mem://x/dir/c");
    struct client *c = listen_with(&b, "[\"mem://x/dir/\"]",
                                   text_of("{\"initial\":true,\"since\":\"%s\"}", since));
    assert_int_equal(update_count(c, NULL), 1);
    expect(c, 0, "mem://x/dir/c", false);
    client_free(c);
}

static void missed_changes_precede_initial_states(void **state)
{
    (void)state;
    const char *since = cursor_before_update("mem://x/a");
    struct client *c = listen_with(&b, "[\"mem://x/dir/\",\"mem://x/a\"]",
                                   text_of("{\"uris\":{\"mem://x/dir/\":{\"initial\":true},"
                                           "\"mem://x/a\":{\"since\":\"%s\"}}}",
                                           since));
    assert_int_equal(update_count(c, NULL), 3);
    expect(c, 0, "mem://x/a", false);
    expect(c, 1, "mem://x/dir/c", true);
    expect(c, 2, "mem://x/dir/d", true);
    client_free(c);
}

/* The state waits for the changes that a session missed without a stream; it counts as none. */
static void state_follows_changes_a_session_missed(void **state)
{
    (void)state;
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    assert_empty_result(session_subscribe_with(&s, "mem://x/dir/", "{\"initial\":true}"));
    (void)cursor_before_update("mem://x/dir/d");
    struct client *c = session_stream(&s, NULL);
    harness_run_until_idle(&b);
    assert_int_equal(update_count(c, NULL), 2);
    expect(c, 0, "mem://x/dir/d", false);
    assert_no_json(update_nth(c, NULL, 0), "params|_meta|dev.tidings/merged");
    expect(c, 1, "mem://x/dir/c", true);
    client_free(c);
    assert_int_equal(session_delete(&s), 204);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(initial_is_ignored_with_a_cursor, begin, end),
        cmocka_unit_test_setup_teardown(missed_changes_precede_initial_states, begin, end),
        cmocka_unit_test_setup_teardown(state_follows_changes_a_session_missed, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
