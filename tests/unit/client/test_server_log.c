/* SPDX-License-Identifier: MIT
 *
 * The log of a server: requested as each era specifies, and delivered from the requested level on,
 * during a call. Not requested from servers without a log, or by clients that do not want it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/fake_transport.h"

struct logging {
    struct fake fake;
    bool is_modern, has_log;
    char asked[256]; /* the requested levels, one per line */
    char heard[512];
};

static void log_line(struct fake *f, const char *level, const char *more)
{
    fake_sayf(f,
              "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":"
              "\"%s\"%s}}",
              level, more);
}

static void put_line(char *to, size_t size, struct tidings_str text)
{
    size_t len = strlen(to);
    snprintf(to + len, size - len, "%.*s\n", (int)text.len, text.ptr);
}

static void server(struct fake *f, const char *method, int64_t id, struct json *m)
{
    struct logging *l = f->user;
    struct json *params = jv_get(m, "params");
    const char *level = "io.modelcontextprotocol/logLevel";
    if (strcmp(method, "tools/call") == 0) {
        struct tidings_str asked = jv_str(jv_get(jv_get(params, "_meta"), level));
        if (asked.len > 0) {
            put_line(l->asked, sizeof(l->asked), asked);
        }
        log_line(f, "info", ",\"data\":\"too little\"");
        log_line(f, "warning", ",\"logger\":\"db\",\"data\":\"slow\"");
        log_line(f, "loud", ",\"data\":\"no level\"");
        log_line(f, "emergency", ",\"data\":{\"a\":[1]}");
        log_line(f, "error", "");
        fake_result(f, id, "{\"content\":[]}");
    } else if (strcmp(method, "logging/setLevel") == 0) {
        put_line(l->asked, sizeof(l->asked), jv_str(jv_get(params, "level")));
        fake_error(f, id, -32601, "and yet it does");
    } else if (l->is_modern) {
        (void)fake_modern(f, method, id);
    } else if (strcmp(method, "initialize") == 0 && l->has_log) {
        fake_result(f, id,
                    "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"tools\":{},"
                    "\"logging\":{}},\"serverInfo\":{\"name\":\"x\",\"version\":\"1\"}}");
    } else {
        (void)fake_legacy(f, method, id);
    }
}

static void on_log(void *user, enum tidings_log_level level, struct tidings_str logger,
                   struct tidings_str data)
{
    struct logging *l = user;
    char line[128];
    snprintf(line, sizeof(line), "%d %.*s %.*s", (int)level, (int)logger.len,
             logger.len > 0 ? logger.ptr : "", (int)data.len, data.ptr);
    put_line(l->heard, sizeof(l->heard), tidings_str(line));
}

static void call(struct logging *l, enum tidings_log_level least)
{
    struct tidings_error err = {0};
    struct tidings_client *c = fake_client(&l->fake, server, l, NULL);
    assert_int_equal(tidings_client_on_log(c, least, on_log, l, &err), 0);
    char *result = tidings_client_call(c, "tool", "{}", NULL, NULL, &err);
    assert_string_equal(result, "{\"content\":[]}");
    tidings_free(result);
    assert_int_equal(tidings_client_on_log(c, least, on_log, l, &err), TIDINGS_E_INVALID);
    tidings_client_destroy(c);
}

static void server_log_is_requested_and_delivered_in_both_eras(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct logging l = {.is_modern = i == 1, .has_log = true};
        call(&l, TIDINGS_LOG_WARNING);
        assert_string_equal(l.asked, "warning\n");
        assert_string_equal(l.heard, "3 db \"slow\"\n7  {\"a\":[1]}\n4  null\n");
    }
}

static void server_log_is_not_requested_if_disabled(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct logging l = {.is_modern = i == 1, .has_log = true};
        call(&l, TIDINGS_LOG_OFF);
        assert_string_equal(l.asked, "");
        assert_string_equal(l.heard, "");
    }
    struct logging l = {.has_log = false};
    call(&l, TIDINGS_LOG_DEBUG);
    assert_string_equal(l.asked, "");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(server_log_is_requested_and_delivered_in_both_eras),
        cmocka_unit_test(server_log_is_not_requested_if_disabled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
