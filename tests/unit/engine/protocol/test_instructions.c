/* SPDX-License-Identifier: MIT
 *
 * The instructions for a client's model: the roots that this client may list, and how it waits for
 * a change.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/protocol/method.h"
#include "support/harness_access.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"
#include "support/harness_tool.h"

#define MANY 40u

static struct harness b;
static struct stub stubs[MANY];

static int begin(void **state)
{
    (void)state;
    harness_init(&b);
    harness_start(&b);
    return 0;
}

static int begin_with_rules(void **state)
{
    (void)state;
    harness_access_start(&b, &stubs[0]);
    return 0;
}

static int end(void **state)
{
    (void)state;
    harness_stop_handled(&b);
    return 0;
}

static void add_wait(void)
{
    static const struct harness_tool wait = {.name = "wait_for_change", .handler = tool_hello};
    harness_add_tool(&b, &wait);
    harness_run_until_idle(&b);
}

/* NULL: none. Both eras receive the same. */
static const char *instructions(void)
{
    struct client *c = client_http(&b);
    const char *text = json_at(client_ask(c, "server/discover", NULL), "result|instructions");
    client_free(c);
    struct client *pipe = client_pipe(&b);
    client_legacy(pipe, NULL, "1", "initialize",
                  "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},"
                  "\"clientInfo\":{\"name\":\"test\",\"version\":\"1\"}");
    harness_run_until_idle(&b);
    const char *legacy = json_at(client_answer(pipe)->text, "result|instructions");
    client_free(pipe);
    assert_int_equal(text == NULL, legacy == NULL);
    if (text) {
        assert_string_equal(text, legacy);
        assert_true(strlen(text) <= INSTRUCTIONS_MAX);
    }
    return text;
}

static bool instructions_say(const char *part)
{
    const char *text = instructions();
    assert_non_null(text);
    return strstr(text, part) != NULL;
}

static void instructions_are_empty_without_roots_and_tools(void **state)
{
    (void)state;
    assert_null(instructions());
}

static void instructions_describe_the_server(void **state)
{
    (void)state;
    stub_mount(&stubs[0], &b, "stub:///", 0);
    harness_run_until_idle(&b);
    assert_true(instructions_say("Live resources: stub:///. To be notified"));
    assert_false(instructions_say("wait_for_change"));
    add_wait();
    assert_true(instructions_say("call the tool wait_for_change"));
    assert_false(instructions_say("paths"));
    stub_mount(&stubs[1], &b, "file:///docs/", 0);
    harness_run_until_idle(&b);
    assert_true(instructions_say("file:///docs/"));
    assert_true(instructions_say("Tools also take paths of files."));
    b.self.no_subscriptions = true;
    assert_false(instructions_say("subscribe"));
}

static void roots_over_the_size_limit_are_omitted(void **state)
{
    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        stub_mount(&stubs[i], &b, text_of("file:///some/directory/%u/", i), 0);
    }
    add_wait();
    assert_true(instructions_say("file:///some/directory/0/"));
    assert_true(instructions_say(" and more. To wait"));
    assert_true(instructions_say("Tools also take paths of files.")); /* and no text is cut */
}

static void instructions_list_only_accessible_roots(void **state)
{
    (void)state;
    static const struct harness_rule all[] = {{"ada", NULL, "mem://x/**", HARNESS_SEE}};
    harness_rules(&b, all, 1);
    add_wait();
    harness_is(&b, "ada", "");
    struct client *c = client_http(&b);
    const char *text = client_ask(c, "server/discover", NULL);
    assert_non_null(strstr(text, "Live resources: mem://x/"));
    client_free(c);
    harness_is(&b, "bob", "");
    c = client_http(&b);
    text = client_ask(c, "server/discover", NULL);
    assert_null(strstr(text, "mem://x/"));
    assert_non_null(strstr(text, "wait_for_change"));
    client_free(c);
}

static void program_can_set_its_own_instructions(void **state)
{
    (void)state;
    add_wait();
    b.self.has_instructions = true;
    b.self.instructions = STR("Ask Ann.");
    assert_string_equal(instructions(), "Ask Ann.");
    b.self.instructions = STR_EMPTY;
    assert_null(instructions());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(instructions_are_empty_without_roots_and_tools, begin, end),
        cmocka_unit_test_setup_teardown(instructions_describe_the_server, begin, end),
        cmocka_unit_test_setup_teardown(roots_over_the_size_limit_are_omitted, begin, end),
        cmocka_unit_test_setup_teardown(instructions_list_only_accessible_roots, begin_with_rules,
                                        end),
        cmocka_unit_test_setup_teardown(program_can_set_its_own_instructions, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
