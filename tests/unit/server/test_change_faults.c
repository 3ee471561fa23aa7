/* SPDX-License-Identifier: MIT
 *
 * If an allocation fails during a changes call, the client still gets an answer (possibly an
 * out-of-memory error), no change is lost, and nothing leaks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "server/tools_changes.h"
#include "support/fail_alloc.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_tool.h"

#define FOUND_CURSOR "result|structuredContent|cursor"

static struct harness b;

static void begin(void)
{
    fail_alloc_start(0);
    harness_init(&b);
    harness_start(&b);
    harness_add_tool(&b, &(struct harness_tool){.name = "since", .handler = change_call_since});
    harness_add_tool(&b, &(struct harness_tool){.name = "wait", .handler = change_call_wait});
    harness_add(&b, "mem:///a");
    harness_add(&b, "mem:///b");
    harness_run_until_idle(&b);
}

static const char *ask(const char *tool, const char *arguments)
{
    static char text[8192];
    struct client *c = client_http(&b);
    client_call(c, "1", tool, text_of("\"arguments\":{%s}", arguments), NULL);
    harness_run_until_idle(&b);
    snprintf(text, sizeof(text), "%s", client_answer(c)->text);
    client_free(c);
    return text;
}

/* Changes reported before the failure may be reported again, and must be reported after it. */
static void tells_the_rest(const char *cursor, const char *told)
{
    const char *rest =
        ask("since", text_of("\"cursor\":\"%s\",\"uris\":[\"mem:///a\",\"mem:///b\"]", cursor));
    for (const char *uri = "mem:///a"; uri; uri = uri[7] == 'a' ? "mem:///b" : NULL) {
        assert_true(strstr(rest, uri) || strstr(told, uri) || strstr(rest, "gap"));
    }
}

static void look(const char *tool)
{
    bool reached = true;
    for (long n = 1; reached; n++) {
        long before = fail_alloc_live();
        begin();
        char cursor[CURSOR_TEXT];
        snprintf(cursor, sizeof(cursor), "%s", json_at(ask("since", ""), FOUND_CURSOR));
        harness_update(&b, "mem:///a");
        harness_update(&b, "mem:///b");
        harness_run_until_idle(&b);
        struct client *c = client_http(&b);
        const char *arguments =
            text_of("\"arguments\":{\"cursor\":\"%s\",\"includeContent\":true,\"timeoutMs\":0,"
                    "\"uris\":[\"mem:///a\",\"mem:///b\"]}",
                    cursor);
        fail_alloc_start(n);
        client_call(c, "1", tool, arguments, NULL);
        harness_run_until_idle(&b);
        reached = fail_alloc_stop();
        assert_false(c->is_waiting);
        const char *text = client_count_kind(c, SAID_ANSWER) > 0 ? client_answer(c)->text : "";
        const char *next = text && *text ? json_at(text, FOUND_CURSOR) : NULL;
        tells_the_rest(next ? next : cursor, next ? text : "");
        client_free(c);
        harness_stop_handled(&b);
        assert_int_equal(fail_alloc_live(), before);
        assert_true(n < 10000);
    }
}

static void changes_call_survives_any_failed_allocation(void **state)
{
    (void)state;
    look("since");
    look("wait");
}

static bool has_ended(void *user)
{
    struct client *c = user;
    return !c->is_waiting;
}

static void wait_call_survives_any_failed_allocation(void **state)
{
    (void)state;
    bool reached = true;
    for (long n = 1; reached; n++) {
        long before = fail_alloc_live();
        begin();
        struct client *c = client_http(&b);
        client_call(c, "1", "wait", "\"arguments\":{\"uris\":[\"mem:///a\"],\"timeoutMs\":20}",
                    NULL);
        harness_run_until_idle(&b);
        fail_alloc_start(n);
        struct tidings_change change = {.uri = STR("mem:///a")};
        bool is_announced = hub_announce(b.hub, &change, NULL) == 0;
        harness_until(&b, has_ended, c);
        reached = fail_alloc_stop();
        const char *text = client_count_kind(c, SAID_ANSWER) > 0 ? client_answer(c)->text : "";
        const char *next = text && *text ? json_at(text, FOUND_CURSOR) : NULL;
        if (is_announced && next && !strstr(text, "mem:///a")) { /* then the next call reports it */
            const char *rest =
                ask("since", text_of("\"cursor\":\"%s\",\"uris\":[\"mem:///a\"]", next));
            assert_true(strstr(rest, "mem:///a") != NULL);
        }
        client_free(c);
        harness_stop_handled(&b);
        assert_int_equal(fail_alloc_live(), before);
        assert_true(n < 10000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_call_survives_any_failed_allocation),
        cmocka_unit_test(wait_call_survives_any_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
