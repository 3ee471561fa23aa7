/* SPDX-License-Identifier: MIT
 *
 * The tools that tell what changed, on the bench.
 */
#include "support/harness_change.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "server/tools_changes.h"
#include "support/harness_json.h"
#include "support/harness_tool.h"

struct harness harness_changes;
static char cursor[CURSOR_TEXT];

void changes_start(void)
{
    struct harness *b = &harness_changes;
    harness_start(b);
    harness_add_tool(b, &(struct harness_tool){.name = "since", .handler = change_call_since});
    harness_add_tool(b, &(struct harness_tool){.name = "wait", .handler = change_call_wait});
    harness_add(b, "mem:///a");
    harness_add(b, "mem:///b");
    harness_add_template(b, "mem:///row/{id}");
    harness_run_until_idle(b);
}

int changes_begin(void **state)
{
    (void)state;
    harness_init(&harness_changes);
    changes_start();
    return 0;
}

int changes_begin_with_a_long_log(void **state)
{
    (void)state;
    harness_init(&harness_changes);
    harness_changes.options.log =
        (struct changelog_limits){.max_entries = 10000, .max_bytes = 64u << 20};
    changes_start();
    return 0;
}

int changes_end(void **state)
{
    (void)state;
    assert_int_equal(harness_changes.worker[0]->stats.subscribers, 0);
    assert_int_equal(harness_changes.worker[0]->stats.subscriptions, 0);
    harness_stop_handled(&harness_changes);
    return 0;
}

struct client *begin_call(const char *tool, const char *arguments)
{
    struct client *c = client_http(&harness_changes);
    client_call(c, "1", tool, text_of("\"arguments\":{%s}", arguments), NULL);
    harness_run_until_idle(&harness_changes);
    return c;
}

const char *end_call(struct client *c)
{
    static char text[1u << 20];
    snprintf(text, sizeof(text), "%s", client_answer(c)->text);
    client_free(c);
    const char *found = json_at(text, FOUND "cursor");
    if (found) {
        snprintf(cursor, sizeof(cursor), "%s", found);
    }
    return text;
}

const char *ask_changes(const char *tool, const char *arguments)
{
    return end_call(begin_call(tool, arguments));
}

const char *with_cursor(const char *more)
{
    return text_of("\"cursor\":\"%s\"%s%s", cursor, *more ? "," : "", more);
}

void assert_change(const char *text, int n, const char *uri, const char *what)
{
    assert_json(text, text_of(FOUND "changes|%d|uri", n), uri);
    assert_json(text, text_of(FOUND "changes|%d|change", n), what);
}

void assert_count(const char *text, int n)
{
    assert_no_json(text, text_of(FOUND "changes|%d", n));
    if (n > 0 && !json_at(text, text_of(FOUND "changes|%d", n - 1))) {
        fail_msg("fewer than %d changes in %s", n, text);
    }
}

void assert_content(const char *text, int n, int block, const char *expected)
{
    assert_json(text, text_of(FOUND "changes|%d|blocks", n), text_of("[%d]", block));
    assert_json(text, text_of("result|content|%d|type", block), "text");
    assert_json(text, text_of("result|content|%d|text", block), expected);
}
