/* SPDX-License-Identifier: MIT
 *
 * Server messages that are unreadable or need repair: an unreadable answer fails its request at
 * once, a watch gets a gap, and non-messages are ignored.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tidings/client.h>

#include "support/fake_transport.h"

#define BROKEN "{\"jsonrpc\":\"2.0\",\"result\":{\"x\":[1,}},\"id\":%d}"

/* Answers a call with `user`, a format with the id. */
static void answering(struct fake *f, const char *method, int64_t id, struct json *m)
{
    (void)m;
    if (!fake_modern(f, method, id) && strcmp(method, "x/ask") == 0) {
        const char *const *lines = f->user;
        for (size_t i = 0; lines[i]; i++) {
            const char *mark = strstr(lines[i], "%d");
            if (mark) {
                fake_sayf(f, "%.*s%d%s", (int)(mark - lines[i]), lines[i], (int)id, mark + 2);
            } else {
                fake_say(f, lines[i]);
            }
        }
    }
}

/* The result of a call if the server sends these lines; the caller frees it. */
static char *ask_server(const char *const *lines, struct tidings_error *err, uint64_t *ret_unread)
{
    struct fake f;
    struct tidings_client_options options = {.timeout_ms = 60000};
    struct tidings_client *c = fake_client(&f, answering, (void *)(uintptr_t)lines, &options);
    char *result = tidings_client_request(c, "x/ask", NULL, err);
    *ret_unread = tidings_client_info(c)->unread;
    tidings_client_destroy(c);
    return result;
}

static void unreadable_answer_fails_its_request(void **state)
{
    (void)state;
    static const struct {
        const char *line, *says;
    } rows[] = {
        {BROKEN, "the answer of the server cannot be read: line 1 column 35: invalid token"},
        {"{\"id\":%d,\"jsonrpc\":\"2.0\",\"result\":{\"x\":\"\xff\"}}",
         "the answer of the server cannot be read: line 1 column 40: not UTF-8"},
        {"{\"id\":%d,\"jsonrpc\":\"2.0\",\"result\":{}",
         "the answer of the server cannot be read: line 1 column 35: the text ends too early"},
        {"{\"id\":%d,\"jsonrpc\":\"2.0\",\"error\":\"no\"}",
         "the answer of the server cannot be read: 'error' must be an object"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *const lines[] = {rows[i].line, NULL};
        struct tidings_error err = {0};
        uint64_t unread = 0;
        assert_null(ask_server(lines, &err, &unread));
        assert_int_equal(err.code, TIDINGS_E_PARSE);
        assert_string_equal(err.text, rows[i].says);
        assert_int_equal(unread, 1);
    }
}

/* Launched servers print arbitrary output. */
static void non_messages_are_ignored(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "[info] starting",
        "{ level: 'info' }",
        "{\"id\":%d,\"level\":\"info\",\"error\":\"none\"}",
        "{\"id\":%d,\"level\":",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"data\":tru}}",
        "{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":{\"ok\":1}}",
        NULL,
    };
    struct tidings_error err = {0};
    uint64_t unread = 0;
    char *result = ask_server(lines, &err, &unread);
    assert_string_equal(result, "{\"ok\":1}");
    assert_int_equal(unread, 1); /* the notification */
    tidings_free(result);
}

static void a_request_that_cannot_be_read_is_answered_so(struct fake *f, const char *method,
                                                         int64_t id, struct json *m)
{
    if (fake_legacy(f, method, id)) {
        return;
    }
    if (strcmp(method, "x/ask") == 0) {
        f->user = (void *)(uintptr_t)id;
        fake_say(f, "{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"ping\",\"params\":{]}");
    } else if (method[0] == '\0') {
        assert_int_equal(jv_int(jv_get(m, "id")), 77);
        assert_int_equal(jv_int(jv_get(jv_get(m, "error"), "code")), -32700);
        fake_result(f, (int64_t)(uintptr_t)f->user, "{}");
    }
}

static void server_requests_are_always_answered(void **state)
{
    (void)state;
    struct fake f;
    struct tidings_client_options options = {.timeout_ms = 60000};
    struct tidings_client *c =
        fake_client(&f, a_request_that_cannot_be_read_is_answered_so, NULL, &options);
    char *result = tidings_client_request(c, "x/ask", NULL, NULL);
    assert_string_equal(result, "{}");
    tidings_free(result);
    tidings_client_destroy(c);
}

struct told {
    struct tidings_client *client;
    unsigned gaps, cut, whole;
    char reason[160];
};

/* Ten unreadable ones on the stream, then a readable one. */
static void garbling(struct fake *f, const char *method, int64_t id, struct json *m)
{
    if (fake_modern(f, method, id) || strcmp(method, "subscriptions/listen") != 0) {
        return;
    }
    fake_acknowledge(f, id, m, "");
    for (int i = 0; i < 10; i++) {
        fake_say(f,
                 "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":"
                 "{\"uri\":\"x:/a\",,}}");
    }
    fake_say(f, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":"
                "{\"uri\":\"x:/a\",\"size\":18446744073709551616}}");
}

static void note_update(void *user, const struct tidings_update *u)
{
    struct told *t = user;
    t->cut += u->truncated && u->synthetic;
    if (!u->truncated) {
        t->whole++;
        assert_non_null(strstr(u->params.ptr, "\"size\":18446744073709551616"));
        tidings_client_stop(t->client);
    }
}

static void note_state(void *user, const struct tidings_state_event *e)
{
    struct told *t = user;
    if (e->state == TIDINGS_STATE_GAP) {
        t->gaps++;
        (void)snprintf(t->reason, sizeof(t->reason), "%.*s", (int)e->reason.len, e->reason.ptr);
    }
}

static void unreadable_updates_merge_into_one_gap(void **state)
{
    (void)state;
    struct fake f;
    struct told t = {0};
    struct tidings_subscribe_options on = {.fn = note_update, .on_state = note_state, .user = &t};
    t.client = fake_client(&f, garbling, NULL, NULL);
    assert_non_null(tidings_client_subscribe(t.client, "x:/a", &on, NULL));
    assert_int_equal(tidings_client_run(t.client, NULL), 0);
    assert_true(t.gaps >= 1 && t.gaps == t.cut && t.whole == 1);
    assert_string_equal(t.reason, "the server sent what cannot be read: line 1 column 84: a key in "
                                  "double quotes expected");
    assert_int_equal(tidings_client_info(t.client)->unread, 10);
    tidings_client_destroy(t.client);
}

static void repairs_are_counted(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "{\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":{\"a\":\"\\ud800\",\"b\":1,\"b\":2}}", NULL};
    struct fake f;
    struct tidings_client *c = fake_client(&f, answering, (void *)(uintptr_t)lines, NULL);
    char *result = tidings_client_request(c, "x/ask", NULL, NULL);
    assert_string_equal(result, "{\"a\":\"\xEF\xBF\xBD\",\"b\":2}");
    const struct tidings_client_info *info = tidings_client_info(c);
    assert_int_equal(info->replaced, 1);
    assert_int_equal(info->repeated, 1);
    assert_int_equal(info->unread, 0);
    tidings_free(result);
    tidings_client_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unreadable_answer_fails_its_request),
        cmocka_unit_test(non_messages_are_ignored),
        cmocka_unit_test(server_requests_are_always_answered),
        cmocka_unit_test(unreadable_updates_merge_into_one_gap),
        cmocka_unit_test(repairs_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
