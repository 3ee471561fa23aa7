/* SPDX-License-Identifier: MIT
 *
 * The change tools for hosts that cannot subscribe, on one loop: the contents of their results.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "support/harness_change.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"
#include "support/harness_tool.h"

/* ---- results --------------------------------------------------------------------------------- */

static void call_without_cursor_returns_a_first_cursor(void **state)
{
    (void)state;
    harness_update(&harness_changes, "mem:///a");
    harness_run_until_idle(&harness_changes);
    const char *text = ask_changes("since", "\"uris\":[\"mem:///a\"]");
    assert_count(text, 0);
    assert_json(text, FOUND "more", "false");
    assert_no_json(text, FOUND "timedOut");
    assert_no_json(text, FOUND "gap");
    assert_no_json(text, FOUND "refused");
    assert_count(ask_changes("since", with_cursor("\"uris\":[\"mem:///a\"]")), 0);
}

static void resource_is_listed_once_with_latest_change(void **state)
{
    (void)state;
    ask_changes("since", "");
    harness_update(&harness_changes, "mem:///a");
    harness_change(&harness_changes, "mem:///row/1", TIDINGS_CHANGE_CREATED);
    harness_update(&harness_changes, "mem:///b");
    harness_update(&harness_changes, "mem:///row/1");
    harness_change(&harness_changes, "mem:///b", TIDINGS_CHANGE_DELETED);
    harness_update(&harness_changes, "mem:///a");
    harness_run_until_idle(&harness_changes);
    const char *text = ask_changes("since", with_cursor(""));
    assert_count(text, 3);
    assert_change(text, 0, "mem:///row/1", "created");
    assert_change(text, 1, "mem:///b", "deleted");
    assert_change(text, 2, "mem:///a", "updated");
    assert_no_json(text, FOUND "changes|0|metadata"); /* no member beyond those of the row */
    assert_non_null(json_at(text, FOUND "changes|0|at"));
    assert_count(ask_changes("since", with_cursor("")), 0);
}

static void row_contains_move_and_application_data(void **state)
{
    (void)state;
    ask_changes("since", "");
    struct tidings_change change = {.uri = STR("mem:///row/2"),
                                    .from = STR("mem:///row/1"),
                                    .etag = STR("e2"),
                                    .metadata = STR("{\"colour\":\"red\",\"version\":\"mine\"}"),
                                    .modified_ms = 1000,
                                    .kind = TIDINGS_CHANGE_CREATED};
    harness_announce(&harness_changes, &change);
    harness_run_until_idle(&harness_changes);
    const char *text = ask_changes("since", with_cursor(""));
    assert_count(text, 1);
    assert_change(text, 0, "mem:///row/2", "moved");
    assert_json(text, FOUND "changes|0|from", "mem:///row/1");
    assert_json(text, FOUND "changes|0|etag", "e2");
    assert_json(text, FOUND "changes|0|at", "1970-01-01T00:00:01.000Z");
    assert_json(text, FOUND "changes|0|metadata|colour", "red");
    assert_json(text, FOUND "changes|0|metadata|version", "mine");
}

static void changes_are_limited_to_covered_uris(void **state)
{
    (void)state;
    const char *uris = "\"uris\":[\"mem:///row/{id}\",\"mem:///row/1\",\"mem:///b\"]";
    ask_changes("since", uris);
    harness_update(&harness_changes, "mem:///a");
    harness_update(&harness_changes, "mem:///row/1");
    harness_update(&harness_changes, "mem:///b");
    harness_run_until_idle(&harness_changes);
    const char *text = ask_changes("since", with_cursor(uris));
    assert_count(text, 2); /* the first matches two URIs and is listed once */
    assert_change(text, 0, "mem:///row/1", "updated");
    assert_change(text, 1, "mem:///b", "updated");
}

static void next_page_resumes_after_any_page_end(void **state)
{
    (void)state;
    ask_changes("since", "");
    for (int i = 0; i < 7; i++) {
        harness_update(&harness_changes, text_of("mem:///row/%d", i));
        harness_update(&harness_changes, "mem:///a"); /* between any two, not requested */
    }
    harness_run_until_idle(&harness_changes);
    for (int i = 0; i < 7; i += 3) {
        const char *text =
            ask_changes("since", with_cursor("\"uris\":[\"mem:///row/{id}\"],\"limit\":3"));
        int count = 7 - i < 3 ? 7 - i : 3;
        assert_count(text, count);
        for (int k = 0; k < count; k++) {
            assert_change(text, k, text_of("mem:///row/%d", i + k), "updated");
        }
        assert_json(text, FOUND "more", i + count < 7 ? "true" : "false");
    }
}

static void page_size_is_limited_in_bytes(void **state)
{
    (void)state;
    static char wide[5000];
    ask_changes("since", "");
    memset(wide, 'x', sizeof(wide) - 1);
    struct tidings_change change = {.metadata = tidings_str(text_of("{}"))};
    char *metadata = malloc(sizeof(wide) + 32);
    snprintf(metadata, sizeof(wide) + 32, "{\"text\":\"%s\"}", wide);
    change.metadata = tidings_str(metadata);
    for (int i = 0; i < 9; i++) {
        change.uri = tidings_str(text_of("mem:///row/%d", i));
        harness_announce(&harness_changes, &change);
    }
    free(metadata);
    harness_run_until_idle(&harness_changes);
    const char *text = ask_changes("since", with_cursor(""));
    assert_count(text, 6);
    assert_json(text, FOUND "more", "true");
    text = ask_changes("since", with_cursor(""));
    assert_count(text, 3);
    assert_json(text, FOUND "more", "false");
}

static void many_rows_and_uris_take_several_turns(void **state)
{
    (void)state;
    struct buf uris;
    buf_init(&uris, 1u << 16);
    buf_puts(&uris, STR("\"uris\":[\"mem:///row/999\""));
    for (int i = 0; i < 40; i++) {
        buf_putf(&uris, ",\"mem:///row/{id}/never%d\"", i);
    }
    buf_puts(&uris, STR("],\"limit\":1000"));
    buf_putc(&uris, '\0');
    ask_changes("since", uris.ptr);
    for (int i = 0; i < 1000; i++) {
        harness_update(&harness_changes, text_of("mem:///row/%d", i));
    }
    harness_run_until_idle(&harness_changes);
    const char *text = ask_changes("since", with_cursor(uris.ptr));
    assert_count(text, 1);
    assert_change(text, 0, "mem:///row/999", "updated");
    assert_json(text, FOUND "more", "false");
    buf_deinit(&uris);
}

static void unwatchable_uris_are_listed_in_result(void **state)
{
    (void)state;
    const char *uris = "\"uris\":[\"mem:///missing\",\"mem:///a\",\"other:///\"]";
    const char *text = ask_changes("since", uris);
    assert_json(text, FOUND "refused|0|uri", "mem:///missing");
    assert_json(text, FOUND "refused|0|reason", "resource not found");
    assert_json(text, FOUND "refused|1|uri", "other:///");
    harness_update(&harness_changes, "mem:///a");
    harness_run_until_idle(&harness_changes);
    assert_count(ask_changes("since", with_cursor(uris)), 1);
    text = ask_changes("wait", "\"uris\":[\"mem:///missing\",\"other:///\"]");
    assert_json(text, "result|isError", "true");
    assert_json(text, "result|content|0|text", "'mem:///missing': resource not found");
    text = ask_changes("since", "\"cursor\":\"7\"");
    assert_json(text, "result|isError", "true");
    assert_non_null(strstr(text, "'cursor' must be"));
    text = ask_changes("since", text_of("\"uris\":[\"mem:///%0*d\"]", 5000, 1));
    assert_non_null(strstr(text, "4096"));
}

static void lost_history_is_reported_as_gap(void **state)
{
    (void)state;
    ask_changes("since", "");
    for (int i = 0; i < 5; i++) {
        harness_update(&harness_changes, text_of("mem:///row/%d", i));
    }
    harness_run_until_idle(&harness_changes);
    const char *text = ask_changes("wait", with_cursor("\"uris\":[\"mem:///a\",\"mem:///b\"]"));
    assert_json(text, FOUND "gap|0", "mem:///a");
    assert_json(text, FOUND "gap|1", "mem:///b");
    assert_json(text, FOUND "timedOut", "false");
    assert_no_json(ask_changes("since", with_cursor("")), FOUND "gap");
    text = ask_changes("wait", "\"cursor\":\"1.1\"");
    assert_json(text, FOUND "gap|0", "**");
    assert_no_json(text, FOUND "gap|1");
    assert_no_json(ask_changes("since", with_cursor("")), FOUND "gap");
}

static int begin_with_a_short_log(void **state)
{
    (void)state;
    harness_init(&harness_changes);
    harness_changes.options.log.max_entries = 3;
    changes_start();
    return 0;
}

static void unknown_change_is_reported_as_gap(void **state)
{
    (void)state;
    ask_changes("since", "");
    struct client *waiting = begin_call("wait", with_cursor("\"uris\":[\"mem:///a\"]"));
    assert_true(waiting->is_waiting);
    assert_int_equal(hub_announce_everything(harness_changes.hub, NULL), 0);
    harness_update(&harness_changes, "mem:///b");
    harness_run_until_idle(&harness_changes);
    const char *text = ask_changes("since", with_cursor(""));
    assert_json(text, FOUND "gap|0", "**");
    assert_count(text, 1);
    assert_json(end_call(waiting), FOUND "gap|0", "mem:///a");
}

/* ---- contents -------------------------------------------------------------------------------- */

static void add_with(const char *uri, tidings_read_fn read)
{
    struct tidings_resource about = tidings_resource(uri, "of a test", NULL);
    struct catalog_entry *e = catalog_entry_create(&about, false, read, NULL, NULL);
    assert_int_equal(hub_add_entry(harness_changes.hub, e, NULL), 0);
    harness_run_until_idle(&harness_changes);
}

static void contents_are_included_if_requested(void **state)
{
    (void)state;
    ask_changes("since", "");
    harness_update(&harness_changes, "mem:///a");
    harness_change(&harness_changes, "mem:///b", TIDINGS_CHANGE_DELETED);
    harness_update(&harness_changes, "mem:///row/7");
    harness_update(&harness_changes, "gone:///x");
    harness_run_until_idle(&harness_changes);
    const char *text = ask_changes("since", with_cursor("\"includeContent\":true"));
    assert_count(text, 4);
    assert_content(text, 0, 1, "text of mem:///a");
    assert_no_json(text, FOUND "changes|1|blocks");
    assert_content(text, 2, 2, "text of mem:///row/7");
    assert_no_json(text, FOUND "changes|3|blocks");
    assert_no_json(text, "result|content|3");
    assert_no_json(text, FOUND "changes|0|contents"); /* once is enough */
    assert_json(json_at(text, "result|content|0|text"), "changes|2|blocks|0", "2");
}

static void read_binary(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    (void)uri;
    struct tidings_error err = {0, ""};
    tidings_read_done(read, tidings_read_blob(read, NULL, STR("\xff\x01"), &err), &err);
}

static void binary_content_becomes_embedded_resource(void **state)
{
    (void)state;
    add_with("mem:///binary", read_binary);
    ask_changes("since", "");
    harness_update(&harness_changes, "mem:///binary");
    harness_run_until_idle(&harness_changes);
    const char *text = ask_changes("since", with_cursor("\"includeContent\":true"));
    assert_json(text, FOUND "changes|0|blocks|0", "1");
    assert_json(text, "result|content|1|type", "resource");
    assert_json(text, "result|content|1|resource|uri", "mem:///binary");
    assert_json(text, "result|content|1|resource|blob", "/wE=");
}

static struct tidings_read *held;

static void hold_read(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    (void)uri;
    held = read;
}

static void unreadable_contents_are_omitted(void **state)
{
    (void)state;
    static char large[70000];
    add_with("mem:///slow", hold_read);
    for (int i = 0; i < 2; i++) {
        ask_changes("since", "");
        harness_update(&harness_changes, "mem:///slow");
        harness_update(&harness_changes, "mem:///a");
        harness_run_until_idle(&harness_changes);
        struct client *c = begin_call("wait", with_cursor("\"includeContent\":true"));
        assert_true(c->is_waiting);
        memset(large, 'x', sizeof(large) - 1);
        struct tidings_error err = {0, ""};
        int rc = i == 0 ? TIDINGS_E_IO : tidings_read_text(held, NULL, tidings_str(large), &err);
        tidings_read_done(held, rc, &err);
        harness_run_until_idle(&harness_changes);
        const char *text = end_call(c);
        assert_change(text, 0, "mem:///slow", "updated");
        assert_no_json(text, FOUND "changes|0|blocks");
        assert_content(text, 1, 1, "text of mem:///a");
    }
}

static void client_is_dropped_if_it_disconnects_during_read(void **state)
{
    (void)state;
    add_with("mem:///slow", hold_read);
    ask_changes("since", "");
    harness_update(&harness_changes, "mem:///slow");
    harness_run_until_idle(&harness_changes);
    struct client *c = begin_call("since", with_cursor("\"includeContent\":true"));
    client_free(c);
    assert_true(tidings_read_cancelled(held));
    tidings_read_done(held, TIDINGS_E_CANCELLED, NULL);
}

/* ---- the meaning of URIs --------------------------------------------------------------------- */

static void uris_match_like_subscription_uris(void **state)
{
    (void)state;
    struct stub p;
    stub_mount(&p, &harness_changes, "stub:///", STUB_QUERY);
    stub_add(&p, "stub:///one", false);
    harness_run_until_idle(&harness_changes);
    const char *uris = "\"uris\":[\"stub:///?pattern=*.log\",\"mem:///row?colour=red\"]";
    struct client *c = begin_call("wait", uris);
    assert_true(stub_watched_all(&p) > 0);
    harness_update(&harness_changes, "stub:///one");
    struct tidings_change change = {.uri = STR("mem:///row/1"),
                                    .metadata = STR("{\"colour\":\"blue\"}")};
    harness_announce(&harness_changes, &change);
    harness_run_until_idle(&harness_changes);
    assert_true(c->is_waiting);
    change.metadata = STR("{\"colour\":\"red\"}");
    change.uri = STR("mem:///row/2");
    harness_announce(&harness_changes, &change);
    harness_update(&harness_changes, "stub:///x.log");
    harness_run_until_idle(&harness_changes);
    const char *text = end_call(c);
    assert_change(text, 0, "mem:///row/2", "updated");
    assert_change(text, 1, "stub:///x.log", "updated");
    assert_count(text, 2);
    assert_int_equal(stub_watched_all(&p), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(call_without_cursor_returns_a_first_cursor, changes_begin,
                                        changes_end),
        cmocka_unit_test_setup_teardown(resource_is_listed_once_with_latest_change, changes_begin,
                                        changes_end),
        cmocka_unit_test_setup_teardown(row_contains_move_and_application_data, changes_begin,
                                        changes_end),
        cmocka_unit_test_setup_teardown(changes_are_limited_to_covered_uris, changes_begin,
                                        changes_end),
        cmocka_unit_test_setup_teardown(next_page_resumes_after_any_page_end, changes_begin,
                                        changes_end),
        cmocka_unit_test_setup_teardown(page_size_is_limited_in_bytes, changes_begin, changes_end),
        cmocka_unit_test_setup_teardown(many_rows_and_uris_take_several_turns,
                                        changes_begin_with_a_long_log, changes_end),
        cmocka_unit_test_setup_teardown(unwatchable_uris_are_listed_in_result, changes_begin,
                                        changes_end),
        cmocka_unit_test_setup_teardown(lost_history_is_reported_as_gap, begin_with_a_short_log,
                                        changes_end),
        cmocka_unit_test_setup_teardown(unknown_change_is_reported_as_gap, changes_begin,
                                        changes_end),
        cmocka_unit_test_setup_teardown(contents_are_included_if_requested, changes_begin,
                                        changes_end),
        cmocka_unit_test_setup_teardown(binary_content_becomes_embedded_resource, changes_begin,
                                        changes_end),
        cmocka_unit_test_setup_teardown(unreadable_contents_are_omitted, changes_begin,
                                        changes_end),
        cmocka_unit_test_setup_teardown(client_is_dropped_if_it_disconnects_during_read,
                                        changes_begin, changes_end),
        cmocka_unit_test_setup_teardown(uris_match_like_subscription_uris, changes_begin,
                                        changes_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
