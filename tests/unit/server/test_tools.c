/* SPDX-License-Identifier: MIT
 *
 * Tools through the public header: valid descriptions, tools added and removed on several threads
 * during calls, calls answered by several threads, and allocation failures.
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
#include "support/fail_alloc.h"
#include "support/harness_json.h"
#include "support/served.h"

#define THREADS 4u
#define BATCH 60u
#define HEAD                                                                                       \
    "POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\n"                                     \
    "Accept: application/json, text/event-stream\r\nConnection: close\r\n"
#define MODERN                                                                                     \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                       \
    "\"io.modelcontextprotocol/clientCapabilities\":{}}"

static void say_name(void *user, struct tidings_call *call)
{
    (void)user;
    struct tidings_error err;
    tidings_call_done(call, tidings_call_text(call, tidings_call_name(call), &err), &err);
}

static struct tidings_tool described(const char *name)
{
    struct tidings_tool about;
    memset(&about, 0, sizeof(about));
    about.name = tidings_str(name);
    about.title = STR("A \"tool\"");
    about.description = STR("Says its name");
    about.input_schema = STR("{ \"type\": \"object\" }");
    about.output_schema = STR("{\"type\":\"object\"}");
    about.annotations = STR("{\"readOnlyHint\":true}");
    about.icons = STR("[ {\"src\": \"data:,\"} ]");
    about.meta = STR("{\"example.com/a\": 1}");
    return about;
}

static const char *body_of(const char *answer)
{
    const char *body = strstr(answer, "\r\n\r\n");
    assert_non_null(body);
    return body + 4;
}

static const char *ask(const char *method, const char *name, const char *params)
{
    char head[512], body[1024];
    snprintf(head, sizeof(head), HEAD "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: %s%s%s",
             method, name ? "\r\nMcp-Name: " : "", name ? name : "");
    snprintf(body, sizeof(body),
             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{%s%s" MODERN "}}", method,
             params, params[0] ? "," : "");
    return body_of(served_http(head, body));
}

/* ---- descriptions ---------------------------------------------------------------------------- */

static void description_is_listed_unchanged(void **state)
{
    (void)state;
    struct tidings_tool about = described("t");
    struct tidings_error err;
    assert_int_equal(tidings_server_add_tool(served(), &about, say_name, NULL, &err), 0);
    served_run();
    const char *list = ask("tools/list", NULL, "");
    assert_json(list, "result|tools|0|name", "t");
    assert_json(list, "result|tools|0|title", "A \"tool\"");
    assert_json(list, "result|tools|0|inputSchema|type", "object");
    assert_json(list, "result|tools|0|outputSchema|type", "object");
    assert_json(list, "result|tools|0|annotations|readOnlyHint", "true");
    assert_json(list, "result|tools|0|icons|0|src", "data:,");
    assert_json(list, "result|tools|0|_meta|example.com/a", "1");
}

static void invalid_description_error_names_its_location(void **state)
{
    (void)state;
    static const struct {
        size_t field;
        const char *text, *says;
        int code;
    } rows[] = {
#define FIELD(f) offsetof(struct tidings_tool, f)
        {FIELD(name), "", "1 to 128", TIDINGS_E_INVALID},
        {FIELD(name), "with blank", "'with blank'", TIDINGS_E_INVALID},
        {FIELD(name), "a/b", "A-Z", TIDINGS_E_INVALID},
        {FIELD(input_schema), "{", "inputSchema", TIDINGS_E_PARSE},
        {FIELD(input_schema), "[]", "inputSchema must be a JSON object", TIDINGS_E_INVALID},
        {FIELD(input_schema), "{}", "/type must be \"object\"", TIDINGS_E_INVALID},
        {FIELD(input_schema), "{\"type\":\"object\",\"properties\":{\"a\":{\"minimum\":\"x\"}}}",
         "/properties/a/minimum", TIDINGS_E_INVALID},
        {FIELD(input_schema), "{\"type\":\"object\",\"$ref\":\"#/nowhere\"}", "inputSchema",
         TIDINGS_E_NOTFOUND},
        {FIELD(input_schema), "{\"type\":\"object\",\"properties\":{\"a\":{\"x-mcp-header\":1}}}",
         "/a: x-mcp-header", TIDINGS_E_INVALID},
        {FIELD(output_schema), "{\"type\":\"array\"}", "outputSchema: /type", TIDINGS_E_INVALID},
        {FIELD(annotations), "[]", "annotations must be a JSON object", TIDINGS_E_INVALID},
        {FIELD(icons), "{}", "icons must be a JSON array", TIDINGS_E_INVALID},
        {FIELD(meta), "7", "_meta must be a JSON object", TIDINGS_E_INVALID},
        {FIELD(meta), "{\"io.modelcontextprotocol/a\":1}", "reserved", TIDINGS_E_INVALID},
        {FIELD(meta), "{\"dev.mcp.x/a\":1}", "reserved", TIDINGS_E_INVALID},
    };
    struct tidings_error err;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tidings_tool about = described("t");
        *(struct tidings_str *)(void *)((char *)&about + rows[i].field) = tidings_str(rows[i].text);
        int rc = tidings_server_add_tool(served(), &about, say_name, NULL, &err);
        if (rc != rows[i].code || !strstr(err.text, rows[i].says)) {
            fail_msg("row %zu: %d '%s'", i, rc, err.text);
        }
    }
    struct tidings_tool about = described("t");
    assert_int_equal(tidings_server_add_tool(served(), &about, NULL, NULL, &err),
                     TIDINGS_E_INVALID);
    assert_int_equal(tidings_server_remove_tool(served(), STR("t"), &err), TIDINGS_E_NOTFOUND);
    assert_non_null(strstr(err.text, "'t'"));
}

static void registration_survives_any_failed_allocation(void **state)
{
    (void)state;
    bool reached = true;
    for (long n = 1; reached; n++) {
        fail_alloc_start(0);
        long before = fail_alloc_live();
        struct tidings_error err = {0, ""};
        struct tidings_server *s = tidings_server_create(&err);
        assert_non_null(s);
        struct tidings_tool about = described("t");
        about.input_schema =
            STR("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"x\","
                "\"x-mcp-header\":\"A\"}}}");
        fail_alloc_start(n);
        int rc = tidings_server_add_tool(s, &about, say_name, NULL, &err);
        rc = rc < 0 ? rc : tidings_server_remove_tool(s, about.name, &err);
        reached = fail_alloc_stop();
        assert_int_equal(rc, reached ? TIDINGS_E_NOMEM : 0);
        tidings_server_destroy(s);
        assert_int_equal(fail_alloc_live(), before);
        assert_true(n < 1000);
    }
    fail_alloc_end();
}

/* ---- several threads answer ------------------------------------------------------------------ */

/* Calls in transit from the worker to the threads that answer them. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct tidings_call *calls[BATCH];
    size_t count;
    bool is_over;
    pthread_t threads[THREADS];
} desk = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

static void file_call(void *user, struct tidings_call *call)
{
    (void)user;
    pthread_mutex_lock(&desk.lock);
    desk.calls[desk.count++] = call;
    pthread_cond_signal(&desk.more);
    pthread_mutex_unlock(&desk.lock);
}

static void *work_off(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&desk.lock);
    while (!desk.is_over) {
        if (desk.count == 0) {
            pthread_cond_wait(&desk.more, &desk.lock);
            continue;
        }
        struct tidings_call *call = desk.calls[--desk.count];
        pthread_mutex_unlock(&desk.lock);
        struct tidings_error err;
        tidings_call_progress(call, 1, 2, STR("half"));
        tidings_call_log(call, TIDINGS_LOG_INFO, NULL, STR("working"));
        tidings_call_done(call, tidings_call_text(call, tidings_call_arguments(call), &err), &err);
        pthread_mutex_lock(&desk.lock);
    }
    pthread_mutex_unlock(&desk.lock);
    return NULL;
}

/* Adds and removes its own tool until the test is over. */
static void *come_and_go(void *name)
{
    struct tidings_tool about = described(name);
    bool is_over = false;
    unsigned done = 0;
    while (!is_over || done < 10) {
        struct tidings_error err = {0, ""};
        int rc = tidings_server_add_tool(served(), &about, say_name, NULL, &err);
        rc = rc < 0 ? rc : tidings_server_remove_tool(served(), about.name, &err);
        if (rc < 0) {
            return name;
        }
        done++;
        pthread_mutex_lock(&desk.lock);
        is_over = desk.is_over;
        pthread_mutex_unlock(&desk.lock);
    }
    return NULL;
}

static void open_session(char id[64])
{
    const char *answer = served_http(
        HEAD "X-A: b",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
        "\"2025-03-26\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}");
    const char *at = strstr(answer, "Mcp-Session-Id: ");
    assert_non_null(at);
    snprintf(id, 64, "%.*s", (int)strcspn(at + 16, "\r"), at + 16);
}

/* A batch of calls, each with its own argument; each gets one answer. */
static void call_many(const char *session)
{
    static char body[BATCH * 200];
    char head[512];
    size_t len = 0;
    for (unsigned i = 0; i < BATCH; i++) {
        len += (size_t)snprintf(body + len, sizeof(body) - len,
                                "%c{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\","
                                "\"params\":{\"name\":\"desk\",\"arguments\":{\"n\":%u}}}",
                                i == 0 ? '[' : ',', i, i);
    }
    snprintf(body + len, sizeof(body) - len, "]");
    snprintf(head, sizeof(head), HEAD "Mcp-Session-Id: %s", session);
    const char *answers = body_of(served_http(head, body));
    bool seen[BATCH] = {false};
    for (unsigned i = 0; i < BATCH; i++) {
        const char *id = json_at(answers, text_of("%u|id", i));
        assert_non_null(id);
        unsigned n = (unsigned)strtoul(id, NULL, 10);
        assert_true(n < BATCH && !seen[n]);
        seen[n] = true;
        assert_json(answers, text_of("%u|result|content|0|text", i), text_of("{\"n\":%u}", n));
    }
}

static void calls_are_answered_while_tools_change(void **state)
{
    (void)state;
    static char names[2][8] = {"left", "right"};
    struct tidings_tool about;
    memset(&about, 0, sizeof(about));
    about.name = STR("desk");
    struct tidings_error err;
    assert_int_equal(tidings_server_add_tool(served(), &about, file_call, NULL, &err), 0);
    served_run();
    desk.is_over = false;
    pthread_t movers[2];
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&movers[i], NULL, come_and_go, names[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&desk.threads[i], NULL, work_off, NULL), 0);
    }
    char session[64];
    open_session(session);
    for (int i = 0; i < 5; i++) {
        call_many(session);
    }
    pthread_mutex_lock(&desk.lock);
    desk.is_over = true;
    pthread_cond_broadcast(&desk.more);
    pthread_mutex_unlock(&desk.lock);
    for (size_t i = 0; i < THREADS; i++) {
        pthread_join(desk.threads[i], NULL);
    }
    for (size_t i = 0; i < 2; i++) {
        void *failed = NULL;
        pthread_join(movers[i], &failed);
        assert_null(failed);
    }
}

int main(void)
{
    static char one[] = "1", two[] = "2";
#define SERVED(test, workers)                                                                      \
    cmocka_unit_test_prestate_setup_teardown(test, served_begin, served_end, workers)
    const struct CMUnitTest tests[] = {
        SERVED(description_is_listed_unchanged, one),
        SERVED(invalid_description_error_names_its_location, one),
        cmocka_unit_test(registration_survives_any_failed_allocation),
        SERVED(calls_are_answered_while_tools_change, one),
        SERVED(calls_are_answered_while_tools_change, two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
