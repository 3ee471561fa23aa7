/* SPDX-License-Identifier: MIT
 *
 * The program's hooks around tool calls: when the server runs them, their arguments, and the effect
 * of a rejection.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <tidings/tidings.h>

#include "base/str.h"
#include "support/harness_json.h"
#include "support/served.h"

#define HEAD                                                                                       \
    "POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\n"                                     \
    "Accept: application/json, text/event-stream\r\nConnection: close\r\n"                         \
    "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: "
#define MODERN                                                                                     \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                       \
    "\"io.modelcontextprotocol/clientCapabilities\":{}}"

#define REPORTS 16u

/* The recorded calls, filled on a worker's thread. The server calls `end` before it sends the
 * answer, so the test sees the record once it has the answer. */
struct seen {
    pthread_mutex_t lock;
    pthread_cond_t more;
    unsigned begun, ended;
    struct {
        char tool[64], principal[64];
        enum tidings_call_outcome outcome;
        uint64_t duration_us;
    } at[REPORTS];
};

static struct seen seen;
static unsigned handled; /* atomic */

static int on_begin(void *user, struct tidings_call *call, struct tidings_error *err)
{
    struct seen *s = user;
    pthread_mutex_lock(&s->lock);
    s->begun++;
    pthread_mutex_unlock(&s->lock);
    if (str_eq(tidings_call_name(call), STR("forbidden"))) {
        return tidings_fail(err, TIDINGS_E_INVALID, "not on a Sunday");
    }
    return str_eq(tidings_call_name(call), STR("silent")) ? TIDINGS_E_INVALID : 0;
}

static void on_end(void *user, const struct tidings_call_report *report)
{
    struct seen *s = user;
    pthread_mutex_lock(&s->lock);
    unsigned i = s->ended++ % REPORTS;
    snprintf(s->at[i].tool, sizeof(s->at[i].tool), "%.*s", STR_ARG(report->tool));
    snprintf(s->at[i].principal, sizeof(s->at[i].principal), "%.*s", STR_ARG(report->principal));
    s->at[i].outcome = report->outcome;
    s->at[i].duration_us = report->duration_us;
    pthread_cond_broadcast(&s->more);
    pthread_mutex_unlock(&s->lock);
}

static void await_reports(unsigned count)
{
    pthread_mutex_lock(&seen.lock);
    while (seen.ended < count) {
        pthread_cond_wait(&seen.more, &seen.lock);
    }
    pthread_mutex_unlock(&seen.lock);
}

static void handle(void *user, struct tidings_call *call)
{
    struct tidings_error err = {0};
    const char *how = user;
    __atomic_add_fetch(&handled, 1, __ATOMIC_RELAXED);
    if (strcmp(how, "fails") == 0) {
        tidings_call_done(call, tidings_fail(&err, TIDINGS_E_IO, "no disk"), &err);
    } else if (strcmp(how, "refuses") == 0) {
        tidings_call_refuse(call, tidings_fail(&err, TIDINGS_E_INVALID, "no"), &err);
    } else if (strcmp(how, "marks") == 0) {
        tidings_call_mark_error(call);
        tidings_call_done(call, tidings_call_text(call, STR("bad"), &err), &err);
    } else {
        tidings_call_done(call, tidings_call_text(call, STR("good"), &err), &err);
    }
}

static const char *call_tool(const char *name)
{
    char head[512], body[512];
    snprintf(head, sizeof(head), HEAD "%s", name);
    snprintf(body, sizeof(body),
             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"%s\","
             "\"arguments\":{}," MODERN "}}",
             name);
    const char *at = strstr(served_http(head, body), "\r\n\r\n");
    assert_non_null(at);
    return at + 4;
}

static const char *const tools[] = {"works", "fails", "refuses", "marks", "forbidden", "silent"};

static void begin_with_hooks(void)
{
    static const struct tidings_call_hooks hooks = {
        .begin = on_begin, .end = on_end, .user = &seen};
    struct tidings_error err;
    seen = (struct seen){.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};
    handled = 0;
    assert_int_equal(tidings_server_set_call_hooks(served(), &hooks, &err), 0);
    for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++) {
        struct tidings_tool about = {.name = tidings_str(tools[i])};
        void *user = (void *)(uintptr_t)tools[i];
        assert_int_equal(tidings_server_add_tool(served(), &about, handle, user, &err), 0);
    }
    served_run();
}

static void call_hook_reports_outcome_of_each_call(void **state)
{
    (void)state;
    static const enum tidings_call_outcome expected[] = {TIDINGS_CALL_OK, TIDINGS_CALL_ERROR,
                                                         TIDINGS_CALL_REFUSED, TIDINGS_CALL_ERROR};
    begin_with_hooks();
    for (unsigned i = 0; i < 4; i++) {
        call_tool(tools[i]);
        await_reports(i + 1);
        assert_string_equal(seen.at[i].tool, tools[i]);
        assert_string_equal(seen.at[i].principal, "");
        assert_int_equal(seen.at[i].outcome, expected[i]);
    }
    assert_int_equal(seen.begun, 4);
    assert_int_equal(handled, 4);
}

static void call_hook_rejects_call_before_handler_runs(void **state)
{
    (void)state;
    begin_with_hooks();
    assert_json(call_tool("forbidden"), "error|message", "not on a Sunday");
    assert_json(call_tool("silent"), "error|message", "the call is refused");
    await_reports(2);
    assert_int_equal(seen.at[0].outcome, TIDINGS_CALL_REFUSED);
    assert_int_equal(handled, 0);
    assert_json(call_tool("works"), "result|content|0|text", "good");
}

static void call_hook_ignores_unknown_tool(void **state)
{
    (void)state;
    begin_with_hooks();
    call_tool("nothing");
    call_tool("works");
    await_reports(1);
    assert_int_equal(seen.begun, 1);
    assert_int_equal(seen.ended, 1);
    assert_string_equal(seen.at[0].tool, "works");
}

static void hooks_are_rejected_while_server_runs(void **state)
{
    (void)state;
    struct tidings_call_hooks hooks = {.reserved = {&hooks}};
    struct tidings_error err;
    assert_int_equal(tidings_server_set_call_hooks(served(), &hooks, &err), TIDINGS_E_INVALID);
    assert_int_equal(tidings_server_set_call_hooks(served(), NULL, &err), 0);
    served_run();
    assert_int_equal(tidings_server_set_call_hooks(served(), NULL, &err), TIDINGS_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVED_BOTH(call_hook_reports_outcome_of_each_call),
        SERVED_BOTH(call_hook_rejects_call_before_handler_runs),
        SERVED_BOTH(call_hook_ignores_unknown_tool),
        cmocka_unit_test_setup_teardown(hooks_are_rejected_while_server_runs, served_begin,
                                        served_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
