/* SPDX-License-Identifier: MIT
 *
 * Access in every answer and every stream of both eras. A hidden resource looks absent, byte for
 * byte.
 */
#include "security/access.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "support/harness_access.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"
#include "support/harness_tool.h"

#undef free /* memory of strdup and open_memstream does not belong to cmocka */
#undef malloc

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static struct harness b;
static struct stub stub;

static int begin(void **state)
{
    (void)state;
    harness_access_start(&b, &stub);
    return 0;
}

static int end(void **state)
{
    (void)state;
    harness_stop(&b);
    return 0;
}

/* ada sees open resources, bob everything, others nothing. */
static const struct harness_rule usual[] = {
    {"ada", NULL, "mem://x/open/**", HARNESS_SEE},
    {"ada", NULL, "mem://x/a", HARNESS_SEE},
    {"bob", NULL, "", HARNESS_ALL},
    {"cleo", "res:read", "mem://x/open/**", HARNESS_SEE},
    {"cleo", "res:write", "mem://x/open/**", 1u << ACCESS_WRITE},
};

static void set_usual(void)
{
    harness_rules(&b, usual, COUNT(usual));
}

static const char *ask(const char *method, const char *params)
{
    static char text[65536];
    struct client *c = client_http(&b);
    client_modern(c, "1", method, params);
    harness_run_until_idle(&b);
    snprintf(text, sizeof(text), "%s", client_answer(c)->text);
    client_free(c);
    return text;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void lists_contain_only_accessible_resources(void **state)
{
    (void)state;
    harness_add(&b, "app:///shown");
    harness_add(&b, "app:///secret");
    harness_add_template(&b, "app:///secret/{id}");
    harness_run_until_idle(&b);
    static const struct harness_rule rules[] = {
        {"ada", NULL, "mem://x/a", HARNESS_SEE},
        {"ada", NULL, "app:///shown", HARNESS_SEE},
        {"ada", NULL, "app:///secre", HARNESS_SEE}, /* one URI: no longer URI with that prefix */
    };
    harness_rules(&b, rules, COUNT(rules));
    harness_is(&b, "ada", "");
    const char *text = ask("resources/list", NULL);
    assert_json(text, "result|resources|0|uri", "app:///shown");
    assert_json(text, "result|resources|1|uri", "mem://x/a");
    assert_no_json(text, "result|resources|2");
    /* A full page followed only by hidden rows is the last. */
    text = ask("resources/list", "\"pageSize\":2");
    assert_json(text, "result|resources|1|uri", "mem://x/a");
    assert_no_json(text, "result|nextCursor");
    text = ask("resources/templates/list", NULL);
    assert_null(strstr(text, "secret"));
    assert_json(text, "result|resourceTemplates|0|uriTemplate", "mem://x/{+path}");
}

/* Hidden and absent resources get the same answer. A subscription may name an absent resource if
 * the rules allow it. */
static void denied_resource_is_answered_as_absent(void **state)
{
    (void)state;
    set_usual();
    harness_is(&b, "ada", "");
    static const char *const methods[] = {"resources/read", "resources/metadata", "resources/list",
                                          "resources/directory/read"};
    for (size_t i = 0; i < COUNT(methods); i++) {
        char *denied = strdup(ask(methods[i], "\"uri\":\"mem://x/hidden/b\""));
        char *absent = strdup(ask(methods[i], "\"uri\":\"mem://x/hidden/z\""));
        char *at = strstr(denied, "hidden/b");
        while (at) { /* the client's spelling */
            at[7] = 'z';
            at = strstr(denied, "hidden/b");
        }
        assert_string_equal(denied, absent);
        free(denied);
        free(absent);
    }
    struct client *c = client_http(&b);
    client_listen_with(c, "1",
                       "[\"mem://x/hidden/b\",\"mem://x/hidden/z\",\"mem://x/open/z\","
                       "\"mem://x/open/d\"]",
                       NULL);
    harness_run_until_idle(&b);
    assert_string_equal(refused_reason(c, "mem://x/hidden/b"),
                        refused_reason(c, "mem://x/hidden/z"));
    assert_true(is_honoured(c, "mem://x/open/z"));
    assert_true(is_honoured(c, "mem://x/open/d"));
    client_free(c);
}

static void read_hides_the_version_from_restricted_principals(void **state)
{
    (void)state;
    set_usual();
    harness_add(&b, "mem://x/open/reg"); /* shadows nothing */
    harness_run_until_idle(&b);
    harness_is(&b, "ada", "");
    const char *text = ask("resources/read", "\"uri\":\"mem://x/open/reg\"");
    assert_non_null(json_at(text, "result|contents|0|text"));
    assert_no_json(text, "result|_meta|dev.tidings/version");
    harness_is(&b, "bob", "");
    text = ask("resources/read", "\"uri\":\"mem://x/open/reg\"");
    assert_non_null(json_at(text, "result|_meta|dev.tidings/version"));
}

static void ask_what_it_may(void *user, struct tidings_call *h)
{
    (void)user;
    static const char *const uris[] = {"MEM://x/open/d", "mem://x/hidden/b", "no uri"};
    char text[128];
    size_t len = (size_t)snprintf(text, sizeof(text), "%.*s", STR_ARG(tidings_call_principal(h)));
    for (size_t i = 0; i < COUNT(uris); i++) {
        for (unsigned op = TIDINGS_ACCESS_LIST; op <= TIDINGS_ACCESS_WRITE; op++) {
            bool yes = tidings_call_may(h, (enum tidings_access)op, tidings_str(uris[i]));
            text[len++] = yes ? '1' : '0';
        }
    }
    tidings_call_done(h, tidings_call_text(h, tidings_strn(text, len), NULL), NULL);
}

static void handler_can_query_the_principal_and_its_rights(void **state)
{
    (void)state;
    static const struct harness_rule rules[] = {
        {"ada", NULL, "mem://x/open/**", 1u << ACCESS_LIST | 1u << ACCESS_WRITE},
        {"cleo", NULL, "mem://x/open/**", HARNESS_ALL}};
    harness_rules(&b, rules, COUNT(rules));
    harness_add_tool(&b, &(struct harness_tool){.name = "t", .handler = ask_what_it_may});
    harness_run_until_idle(&b);
    static const char *const rows[][2] = {{"ada", "ada100000000000"},
                                          {"cleo", "cleo111100000000"},
                                          {"", "000000000000"},
                                          {NULL, "111111110000"}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        harness_is(&b, rows[i][0], "");
        assert_json(ask("tools/call", "\"name\":\"t\",\"arguments\":{}"), "result|content|0|text",
                    rows[i][1]);
    }
}

/* ---- streams --------------------------------------------------------------------------------- */

static void pattern_delivers_only_accessible_changes(void **state)
{
    (void)state;
    set_usual();
    static const char *const uris[] = {"mem://x/**", "mem://x/", "mem://x/?pattern=**"};
    for (size_t i = 0; i < COUNT(uris); i++) {
        harness_is(&b, "ada", "");
        struct client *ada = listen_with(&b, text_of("[\"%s\"]", uris[i]), "{\"windowMs\":0}");
        harness_is(&b, "bob", "");
        struct client *bob = listen_with(&b, text_of("[\"%s\"]", uris[i]), "{\"windowMs\":0}");
        harness_update(&b, "mem://x/hidden/b");
        harness_update(&b, "mem://x/open/d");
        harness_run_until_idle(&b);
        if (strcmp(uris[i], "mem://x/") == 0) { /* it names a hidden resource */
            assert_non_null(refused_reason(ada, uris[i]));
        } else {
            assert_int_equal(update_count(ada, NULL), 1);
            assert_json(update_nth(ada, NULL, 0), "params|uri", "mem://x/open/d");
        }
        assert_int_equal(update_count(bob, NULL), 2);
        client_free(ada);
        client_free(bob);
    }
}

static void rename_source_is_sent_only_if_accessible(void **state)
{
    (void)state;
    set_usual();
    harness_is(&b, "ada", "");
    struct client *ada = listen_with(&b, "[\"mem://x/**\"]", "{\"windowMs\":0}");
    harness_is(&b, "bob", "");
    struct client *bob = listen_with(&b, "[\"mem://x/**\"]", "{\"windowMs\":0}");
    harness_announce(&b, &(struct tidings_change){.uri = STR("mem://x/open/n"),
                                                  .from = STR("mem://x/hidden/b"),
                                                  .kind = TIDINGS_CHANGE_MOVED});
    harness_announce(&b, &(struct tidings_change){.uri = STR("mem://x/open/m"),
                                                  .from = STR("mem://x/open/d"),
                                                  .kind = TIDINGS_CHANGE_MOVED});
    harness_run_until_idle(&b);
    const char *text = update_nth(ada, NULL, 0);
    assert_json(text, "params|uri", "mem://x/open/n");
    assert_null(strstr(text, "hidden"));
    assert_json(text, "params|_meta|dev.tidings/metadata|change_type", "created");
    assert_json(update_nth(ada, NULL, 2), "params|_meta|dev.tidings/from", "mem://x/open/d");
    assert_json(update_nth(bob, NULL, 1), "params|_meta|dev.tidings/from", "mem://x/hidden/b");
    client_free(ada);
    client_free(bob);
}

/* The view and the requests of a watcher, with and without hidden activity. */
static char *run_listen(bool hidden)
{
    harness_access_start(&b, &stub);
    set_usual();
    harness_is(&b, "ada", "");
    struct client *c = client_http(&b);
    client_listen_with(c, "1",
                       "[\"mem://x/**\",\"mem://x/a\",\"mem://x/open/d\"],"
                       "\"resourcesListChanged\":true",
                       "{\"windowMs\":0,\"initial\":true,\"include\":\"metadata\"}");
    harness_run_until_idle(&b);
    for (int i = 0; i < 4; i++) {
        if (hidden) {
            harness_update(&b, "mem://x/hidden/b");
            harness_change(&b, text_of("mem://x/hidden/new%d", i), TIDINGS_CHANGE_CREATED);
            harness_change(&b, "mem://x/hidden/c", TIDINGS_CHANGE_DELETED);
            harness_add(&b, text_of("mem://x/hidden/reg%d", i));
            harness_run_until_idle(&b);
        }
        harness_update(&b, "mem://x/open/d");
        if (hidden) {
            harness_announce(&b, &(struct tidings_change){.uri = STR("mem://x/hidden/z"),
                                                          .from = STR("mem://x/hidden/y"),
                                                          .kind = TIDINGS_CHANGE_MOVED});
        }
        harness_update(&b, "mem://x/a");
        harness_run_until_idle(&b);
        if (i == 2) {
            harness_change(&b, "mem://x/open/n", TIDINGS_CHANGE_CREATED);
            harness_run_until_idle(&b);
        }
    }
    char *transcript = client_transcript(c);
    client_free(c);
    harness_stop(&b);
    return transcript;
}

static char *run_session(bool hidden)
{
    harness_access_start(&b, &stub);
    set_usual();
    harness_is(&b, "ada", "");
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    (void)session_subscribe_with(&s, "mem://x/**", "{\"windowMs\":0}");
    session_subscribe(&s, "mem://x/a");
    struct client *first = session_stream(&s, NULL);
    harness_run_until_idle(&b);
    if (hidden) {
        harness_update(&b, "mem://x/hidden/b");
        harness_run_until_idle(&b);
    }
    harness_update(&b, "mem://x/open/d");
    harness_run_until_idle(&b);
    char *before = client_transcript(first);
    char id[256];
    snprintf(id, sizeof(id), "%s", client_nth_said(first, SAID_UPDATED, 0)->id);
    client_free(first);
    if (hidden) {
        harness_update(&b, "mem://x/hidden/c");
        harness_change(&b, "mem://x/hidden/n", TIDINGS_CHANGE_CREATED);
    }
    harness_update(&b, "mem://x/a");
    harness_change(&b, "mem://x/open/n", TIDINGS_CHANGE_CREATED);
    harness_run_until_idle(&b);
    struct client *second = session_stream(&s, id);
    harness_run_until_idle(&b);
    if (hidden) {
        harness_update(&b, "mem://x/hidden/b");
        harness_run_until_idle(&b);
    }
    harness_update(&b, "mem://x/open/e");
    harness_run_until_idle(&b);
    assert_true(update_count(second, NULL) >= 3);
    char *after = client_transcript(second), *all = NULL;
    client_free(second);
    size_t size = strlen(before) + strlen(after) + 2;
    all = malloc(size);
    snprintf(all, size, "%s|%s", before, after);
    free(before);
    free(after);
    harness_stop(&b);
    return all;
}

static void hidden_changes_leave_no_trace_in_listen(void **state)
{
    (void)state;
    char *without = run_listen(false), *with = run_listen(true);
    assert_non_null(strstr(without, SAID_LIST));
    assert_non_null(strstr(without, "mem://x/open/d"));
    assert_string_equal(without, with);
    free(without);
    free(with);
}

static void hidden_changes_leave_no_trace_in_a_session(void **state)
{
    (void)state;
    char *without = run_session(false), *with = run_session(true);
    assert_string_equal(without, with);
    free(without);
    free(with);
}

static void sealed_cursors_hide_whether_changes_happened(void **state)
{
    (void)state;
    set_usual();
    harness_is(&b, "ada", "");
    char seen[3][256];
    for (int i = 0; i < 3; i++) {
        struct client *c = listen_with(&b, "[\"mem://x/a\"]", NULL);
        snprintf(seen[i], sizeof(seen[i]), "%s",
                 json_at(client_nth(c, SAID_ACK, 0), "params|_meta|dev.tidings/cursor"));
        client_free(c);
        if (i == 1) {
            harness_update(&b, "mem://x/hidden/b");
        }
    }
    assert_string_not_equal(seen[0], seen[1]);
    assert_string_not_equal(seen[1], seen[2]);
    assert_int_equal(strlen(seen[0]), strlen(seen[1]));
}

static void restricted_client_resumes_with_a_seal_but_not_a_number(void **state)
{
    (void)state;
    set_usual();
    harness_is(&b, "ada", "");
    struct client *c = listen_with(&b, "[\"mem://x/**\"]", NULL);
    char cursor[256];
    snprintf(cursor, sizeof(cursor), "%s",
             json_at(client_nth(c, SAID_ACK, 0), "params|_meta|dev.tidings/cursor"));
    client_free(c);
    harness_update(&b, "mem://x/hidden/b");
    harness_update(&b, "mem://x/open/d");
    harness_run_until_idle(&b);
    c = listen_with(&b, "[\"mem://x/**\"]", text_of("{\"since\":\"%s\"}", cursor));
    harness_run_until_idle(&b);
    assert_int_equal(update_count(c, NULL), 1);
    assert_json(update_nth(c, NULL, 0), "params|uri", "mem://x/open/d");
    assert_no_json(update_nth(c, NULL, 0), "params|_meta|dev.tidings/truncated");
    client_free(c);
    /* True numbers, too high numbers and a modified seal: all are unknown. */
    const char *tried[] = {text_of("%llx.1", (unsigned long long)b.worker[0]->epoch),
                           text_of("%llx.99", (unsigned long long)b.worker[0]->epoch), cursor};
    cursor[20] = cursor[20] == 'A' ? 'B' : 'A';
    for (size_t i = 0; i < COUNT(tried); i++) {
        c = listen_with(&b, "[\"mem://x/**\"]", text_of("{\"since\":\"%s\"}", tried[i]));
        harness_run_until_idle(&b);
        assert_int_equal(update_count(c, NULL), 1);
        assert_json(update_nth(c, NULL, 0), "params|_meta|dev.tidings/truncated", "true");
        client_free(c);
    }
}

static void filter_cannot_use_the_version(void **state)
{
    (void)state;
    set_usual();
    harness_is(&b, "ada", "");
    struct client *c = listen_with(
        &b, "[\"mem://x/**\"]",
        "{\"windowMs\":0,\"filter\":{\"properties\":{\"metadata\":{\"required\":[\"version\"]}}}}");
    harness_update(&b, "mem://x/open/d");
    harness_run_until_idle(&b);
    assert_int_equal(update_count(c, NULL), 0);
    client_free(c);
}

/* ---- principals ------------------------------------------------------------------------------ */

static void principals_are_released_with_their_last_holder(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        struct client *c = client_http(&b);
        client_is(c, PRINCIPAL_TOKEN, text_of("ada %d", i), "a b", 0);
        if (i % 2) {
            client_listen(c, "1", "[]");
        } else {
            client_legacy(c, NULL, "1", "initialize",
                          "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},"
                          "\"clientInfo\":{\"name\":\"x\",\"version\":\"1\"}");
        }
        harness_run_until_idle(&b);
        client_free(c);
    }
    harness_run_until_idle(&b);
    assert_int_equal(b.worker[0]->stats.sessions, 100);
    assert_int_equal(b.worker[0]->principals->by_key.count, 100); /* the sessions' */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(lists_contain_only_accessible_resources),
        TEST(denied_resource_is_answered_as_absent),
        TEST(read_hides_the_version_from_restricted_principals),
        TEST(handler_can_query_the_principal_and_its_rights),
        TEST(pattern_delivers_only_accessible_changes),
        TEST(rename_source_is_sent_only_if_accessible),
        cmocka_unit_test(hidden_changes_leave_no_trace_in_listen),
        cmocka_unit_test(hidden_changes_leave_no_trace_in_a_session),
        TEST(sealed_cursors_hide_whether_changes_happened),
        TEST(restricted_client_resumes_with_a_seal_but_not_a_number),
        TEST(filter_cannot_use_the_version),
        TEST(principals_are_released_with_their_last_holder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
