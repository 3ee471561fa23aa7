/* SPDX-License-Identifier: MIT
 *
 * The client against a scripted server: both eras, rejections, reconnection, resumption, reads.
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

#include "base/mem.h"
#include "support/scripted_server.h"

#define SESSION "Mcp-Session-Id: s-1\r\n"
#define ACK(uris)                                                                                  \
    "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/"         \
    "acknowledged\",\"params\":{\"notifications\":{\"resourceSubscriptions\":[" uris               \
    "]},\"_meta\":{\"dev.tidings/refused\":{\"x://b\":\"no such thing\"}}}}\n\n"
#define UPDATED(uri, more)                                                                         \
    "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/updated\",\"params\":"        \
    "{\"uri\":\"" uri "\"" more "}}\n\n"

/* ---- what the client told, one line each ------------------------------------------------------
 */

struct seen {
    struct tidings_client *client;
    char text[4096];
    int updates, stop_after; /* so many updates … */
    int watched, until;      /* … and this number of accepted URIs */
    bool stop_when_disconnected;
    const char *read_uri; /* read this inside the update */
    uint32_t retry_ms;
};

static void say(struct seen *s, const char *what, struct tidings_str a, struct tidings_str b)
{
    size_t len = strlen(s->text);
    snprintf(s->text + len, sizeof(s->text) - len, "%s %.*s%s%.*s\n", what, (int)a.len, a.ptr,
             b.len > 0 ? " " : "", (int)b.len, b.ptr);
}

static void stop_if_done(struct seen *s)
{
    if (s->stop_after > 0 && s->updates >= s->stop_after && s->watched >= s->until) {
        tidings_client_stop(s->client);
    }
}

static void on_update(void *user, const struct tidings_update *u)
{
    struct seen *s = user;
    say(s, tidings_change_name(u->kind), u->uri, u->subscribed_uri);
    assert_int_equal(u->params.ptr[0], '{');
    if (s->read_uri) {
        char *text = tidings_client_read(s->client, s->read_uri, NULL);
        say(s, "read", tidings_str(text), tidings_str(""));
        mem_free(text);
    }
    s->updates++;
    stop_if_done(s);
}

static void on_state(void *user, const struct tidings_state_event *e)
{
    struct seen *s = user;
    if (e->state == TIDINGS_STATE_WATCHING) {
        say(s, e->again ? "again" : "watching", e->uri, e->reason);
        s->watched++;
        stop_if_done(s);
    } else if (e->state == TIDINGS_STATE_REFUSED) {
        say(s, "refused", e->uri, e->reason);
    } else if (e->state == TIDINGS_STATE_DISCONNECTED) {
        say(s, "disconnected", tidings_str(""), tidings_str(""));
        if (s->stop_when_disconnected) {
            tidings_client_stop(s->client);
        }
    }
}

/* Watches x://a and x://b against `answer`; returns the result of run. */
static int watch(scripted_fn answer, struct seen *s, struct scripted_server *server,
                 struct tidings_error *err)
{
    static const char *const uris[] = {"x://a", "x://b"};
    struct tidings_client_options o = {.timeout_ms = 5000,
                                       .retry_min_ms = 2,
                                       .retry_max_ms = 20,
                                       .max_bytes = 65536,
                                       .no_compare = true};
    scripted_start(server, answer, NULL);
    s->client = tidings_client_create(server->url, &o, err);
    assert_non_null(s->client);
    tidings_client_on_state(s->client, on_state, s);
    struct tidings_subscribe_options on = {.fn = on_update, .user = s};
    for (size_t i = 0; i < 2; i++) {
        assert_non_null(tidings_client_subscribe(s->client, uris[i], &on, err));
    }
    int rc = tidings_client_run(s->client, err);
    tidings_client_destroy(s->client);
    scripted_stop(server);
    return rc;
}

static void has(const struct scripted_request *r, const char *part)
{
    if (!strcasestr(r->head, part) && !strstr(r->body, part)) {
        fprintf(stderr, "missing '%s' in\n%s%s\n", part, r->head, r->body);
        abort(); /* cmocka's asserts belong to the main thread */
    }
}

/* ---- modern -----------------------------------------------------------------------------------
 */

static void modern_server(struct scripted_server *s, const struct scripted_request *r)
{
    (void)s;
    has(r, "MCP-Protocol-Version: 2026-07-28\r\n");
    has(r, "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"");
    has(r, "\"io.modelcontextprotocol/clientCapabilities\":{}");
    has(r, "Accept: application/json, text/event-stream\r\n");
    if (scripted_is(r, "server/discover")) {
        has(r, "Mcp-Method: server/discover\r\n");
        scripted_result(r, "", DISCOVERED);
    } else if (scripted_is(r, "resources/read")) {
        has(r, "Mcp-Name: x://a\r\n");
        scripted_result(r, "", "{\"contents\":[]}");
    } else {
        has(r, "Mcp-Method: subscriptions/listen\r\n");
        has(r, "\"notifications\":{\"resourceSubscriptions\":[\"x://a\",\"x://b\"]}");
        scripted_stream(r, "");
        scripted_send(r, ":\n\n" ACK("\"x://a\""));
        scripted_send(r, UPDATED("x://a/1", ",\"subscribedUri\":\"x://a\",\"_meta\":"
                                            "{\"dev.tidings/change\":\"created\"}"));
        scripted_send(r, "data: not json\n\ndata: {\"jsonrpc\":\"2.0\"}\n\n");
        scripted_send(r, UPDATED("x://a/2", ",\"_meta\":{\"dev.tidings/subscribedUri\":\"x://a\"}")
                             UPDATED("x://a/3", "") UPDATED("x://a/4", ""));
        scripted_await_close(r);
    }
}

static void client_listens_to_modern_server(void **state)
{
    (void)state;
    struct scripted_server server;
    struct tidings_error err = {0};
    struct seen s = {.stop_after = 3};
    assert_int_equal(watch(modern_server, &s, &server, &err), 0);
    assert_string_equal(s.text, "watching x://a\nrefused x://b no such thing\n"
                                "created x://a/1 x://a\nupdated x://a/2 x://a\nupdated x://a/3\n");
    assert_string_equal(server.log, "POST server/discover\nPOST subscriptions/listen\n");
}

static void resource_can_be_read_inside_an_update(void **state)
{
    (void)state;
    struct scripted_server server;
    struct tidings_error err = {0};
    struct seen s = {.stop_after = 2, .read_uri = "x://a"};
    assert_int_equal(watch(modern_server, &s, &server, &err), 0);
    assert_string_equal(s.text, "watching x://a\nrefused x://b no such thing\n"
                                "created x://a/1 x://a\nread {\"contents\":[]}\n"
                                "updated x://a/2 x://a\nread {\"contents\":[]}\n");
}

/* The first stream breaks, the second ends cleanly, the third contains a change. */
static void breaking_server(struct scripted_server *s, const struct scripted_request *r)
{
    (void)s;
    char end[256];
    if (scripted_discovered(r)) {
        return;
    }
    scripted_stream(r, "");
    scripted_send(r, ACK("\"x://a\",\"x://b\""));
    if (r->turn == 1) {
        return;
    }
    if (r->turn == 3) {
        snprintf(end, sizeof(end),
                 "data: {\"jsonrpc\":\"2.0\",\"id\":%lld,\"result\":{\"resultType\":\"complete\"}}"
                 "\n\n",
                 scripted_id(r));
        scripted_send(r, end);
    } else {
        scripted_send(r, UPDATED("x://b", ""));
    }
    scripted_await_close(r);
}

static void lost_stream_is_reopened(void **state)
{
    (void)state;
    struct scripted_server server;
    struct tidings_error err = {0};
    struct seen s = {.stop_after = 1};
    assert_int_equal(watch(breaking_server, &s, &server, &err), 0);
    assert_string_equal(s.text, "watching x://a\nwatching x://b\ndisconnected \n"
                                "again x://a\nagain x://b\ndisconnected \n"
                                "again x://a\nagain x://b\nupdated x://b\n");
}

static void flooding_server(struct scripted_server *s, const struct scripted_request *r)
{
    (void)s;
    if (scripted_discovered(r)) {
        return;
    }
    scripted_stream(r, "");
    scripted_send(r, ACK("\"x://a\"") "data: ");
    for (int i = 0; i < 3000; i++) {
        scripted_send(r, "0123456789012345678901234567890123456789");
    }
    scripted_await_close(r);
}

static void endless_message_closes_stream(void **state)
{
    (void)state;
    struct scripted_server server;
    struct tidings_error err = {0};
    struct seen s = {.stop_when_disconnected = true};
    assert_int_equal(watch(flooding_server, &s, &server, &err), 0);
    assert_string_equal(s.text, "watching x://a\nrefused x://b no such thing\ndisconnected \n");
}

/* ---- legacy -----------------------------------------------------------------------------------
 */

static void legacy_stream(const struct scripted_request *r)
{
    has(r, "Accept: text/event-stream\r\n");
    scripted_stream(r, "");
    if (!strcasestr(r->head, "Last-Event-ID")) {
        scripted_send(r, "id: p-0\nretry: 1\ndata:\n\n");
        scripted_send(r, "data: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"ping\"}\n\n");
        scripted_send(r, "id: p-1\n" UPDATED("x://a", ""));
        return; /* ends cleanly */
    }
    has(r, "Last-Event-ID: p-1\r\n");
    scripted_send(r, "id: p-2\n" UPDATED("x://b", ",\"subscribedUri\":\"x://b\""));
    scripted_await_close(r);
}

static void legacy_server(struct scripted_server *s, const struct scripted_request *r)
{
    char text[512];
    (void)s;
    if (scripted_is(r, "server/discover")) {
        scripted_reply(r, 400, "", "text/plain", "");
        return;
    }
    if (scripted_is(r, "initialize")) {
        has(r, "\"protocolVersion\":\"2025-11-25\"");
        scripted_result(r, SESSION, INITIALIZED);
        return;
    }
    has(r, "Mcp-Session-Id: s-1\r\n");
    has(r, "MCP-Protocol-Version: 2025-11-25\r\n");
    if (strcmp(r->method, "GET") == 0) {
        legacy_stream(r);
    } else if (scripted_is(r, "resources/subscribe")) {
        /* The other form of an answer. */
        scripted_stream(r, "");
        snprintf(text, sizeof(text), "data: {\"jsonrpc\":\"2.0\",\"id\":%lld,\"result\":{}}\n\n",
                 scripted_id(r));
        scripted_send(r, text);
    } else if (strcmp(r->method, "DELETE") == 0) {
        scripted_reply(r, 204, "", "text/plain", "");
    } else {
        if (!scripted_is(r, "notifications/initialized")) {
            has(r, "{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"result\":{}}");
        }
        scripted_reply(r, 202, "", "text/plain", "");
    }
}

static void client_subscribes_to_legacy_server_and_resumes_stream(void **state)
{
    (void)state;
    struct scripted_server server;
    struct tidings_error err = {0};
    struct seen s = {.stop_after = 2, .until = 2};
    assert_int_equal(watch(legacy_server, &s, &server, &err), 0);
    assert_non_null(strstr(s.text, "watching x://a\n"));
    assert_non_null(strstr(s.text, "watching x://b\n"));
    assert_non_null(strstr(s.text, "updated x://a\n"));
    assert_non_null(strstr(s.text, "updated x://b x://b\n"));
    assert_null(strstr(s.text, "disconnected"));
    assert_non_null(strstr(server.log, "POST initialize\nPOST notifications/initialized\nGET"));
    assert_non_null(strstr(server.log, "DELETE"));
}

/* After the first stream the session is gone. */
static void forgetful_server(struct scripted_server *s, const struct scripted_request *r)
{
    if (strcmp(r->method, "GET") != 0) {
        legacy_server(s, r);
        return;
    }
    pthread_mutex_lock(&s->lock);
    int streams = 0;
    for (const char *p = s->log; (p = strstr(p, "GET")) != NULL; p++) {
        streams++;
    }
    pthread_mutex_unlock(&s->lock);
    if (streams == 2) {
        scripted_reply(r, 404, "", "text/plain", "");
        return;
    }
    scripted_stream(r, "");
    scripted_send(r, UPDATED("x://a", ""));
    if (streams > 2) {
        scripted_await_close(r);
    }
}

static void ended_session_is_restarted(void **state)
{
    (void)state;
    struct scripted_server server;
    struct tidings_error err = {0};
    struct seen s = {.stop_after = 2};
    assert_int_equal(watch(forgetful_server, &s, &server, &err), 0);
    const char *again = strstr(server.log, "POST initialize");
    assert_non_null(again);
    assert_non_null(strstr(again + 1, "POST initialize"));
    assert_non_null(strstr(s.text, "disconnected"));
    assert_int_equal(s.updates, 2);
}

/* ---- what cannot work -------------------------------------------------------------------------
 */

static void denying(struct scripted_server *s, const struct scripted_request *r)
{
    (void)s;
    scripted_reply(r, 401, "", "text/plain", "who are you");
}

static void web_server(struct scripted_server *s, const struct scripted_request *r)
{
    (void)s;
    scripted_reply(r, 404, "", "text/html", "<h1>not found</h1>");
}

static void without_subscriptions(struct scripted_server *s, const struct scripted_request *r)
{
    (void)s;
    scripted_result(r, "",
                    "{\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{\"resources\":{}}}");
}

static void accepting_nothing(struct scripted_server *s, const struct scripted_request *r)
{
    (void)s;
    if (scripted_discovered(r)) {
        return;
    }
    scripted_stream(r, "");
    scripted_send(r, ACK(""));
    scripted_await_close(r);
}

static void without_a_stream(struct scripted_server *s, const struct scripted_request *r)
{
    if (strcmp(r->method, "GET") == 0) {
        scripted_reply(r, 405, "", "text/plain", "");
    } else {
        legacy_server(s, r);
    }
}

static void run_fails_on_permanent_error(void **state)
{
    (void)state;
    static const struct {
        scripted_fn server;
        int code;
    } cases[] = {
        {denying, TIDINGS_E_DENIED},
        {web_server, TIDINGS_E_NOTFOUND},
        {without_subscriptions, TIDINGS_E_UNSUPPORTED},
        {accepting_nothing, TIDINGS_E_NOTFOUND},
        {without_a_stream, TIDINGS_E_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct scripted_server server;
        struct tidings_error err = {0};
        struct seen s = {.stop_when_disconnected = true};
        int rc = watch(cases[i].server, &s, &server, &err);
        if (rc != cases[i].code) {
            fail_msg("%zu: %d %s", i, rc, err.text);
        }
        assert_true(strlen(err.text) > 0);
    }
}

static void busy_server(struct scripted_server *s, const struct scripted_request *r)
{
    if (r->turn == 0) {
        scripted_reply(r, 503, "", "application/json",
                       "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32603,\"message\":\"busy\"}}");
    } else {
        modern_server(s, r);
    }
}

static void busy_server_is_retried(void **state)
{
    (void)state;
    struct scripted_server server;
    struct tidings_error err = {0};
    struct seen s = {.stop_after = 1};
    assert_int_equal(watch(busy_server, &s, &server, &err), 0);
    assert_int_equal(strncmp(s.text, "disconnected \nwatching x://a\n", 29), 0);
}

static void later_server(struct scripted_server *s, const struct scripted_request *r)
{
    (void)s;
    scripted_reply(r, 503, "Retry-After: 7\r\n", "application/json",
                   "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32603,\"message\":\"busy\"}}");
}

static void keep_pause(void *user, const struct tidings_state_event *e)
{
    struct seen *s = user;
    s->retry_ms = e->state == TIDINGS_STATE_DISCONNECTED ? e->retry_ms : s->retry_ms;
    tidings_client_stop(s->client);
}

static void client_waits_for_retry_after(void **state)
{
    (void)state;
    struct scripted_server server;
    struct tidings_error err = {0};
    struct seen s = {0};
    struct tidings_subscribe_options on = {.fn = on_update, .user = &s};
    scripted_start(&server, later_server, NULL);
    s.client = tidings_client_create(server.url, NULL, &err);
    tidings_client_on_state(s.client, keep_pause, &s);
    assert_non_null(tidings_client_subscribe(s.client, "x://a", &on, &err));
    assert_int_equal(tidings_client_run(s.client, &err), 0);
    assert_int_equal(s.retry_ms, 7000);
    tidings_client_destroy(s.client);
    scripted_stop(&server);
}

static void refused_connection_is_reported_and_retried(void **state)
{
    (void)state;
    struct scripted_server server;
    struct tidings_error err = {0};
    scripted_start(&server, denying, NULL);
    scripted_stop(&server); /* its port is free again */
    struct seen s = {.stop_when_disconnected = true};
    s.client = tidings_client_create(server.url, NULL, &err);
    tidings_client_on_state(s.client, on_state, &s);
    struct tidings_subscribe_options on = {.fn = on_update, .user = &s};
    assert_non_null(tidings_client_subscribe(s.client, "x://a", &on, &err));
    assert_int_equal(tidings_client_run(s.client, &err), 0);
    assert_string_equal(s.text, "disconnected \n");
    tidings_client_destroy(s.client);
}

static void invalid_addresses_are_rejected(void **state)
{
    (void)state;
    static const char *const urls[] = {"", "127.0.0.1:7777", "ftp://x/", "http://a b/", "http"};
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        struct tidings_error err = {0};
        assert_null(tidings_client_create(urls[i], NULL, &err));
        assert_int_equal(err.code, TIDINGS_E_INVALID);
    }
}

/* ---- reading ----------------------------------------------------------------------------------
 */

static void reading_server(struct scripted_server *s, const struct scripted_request *r)
{
    (void)s;
    if (scripted_is(r, "server/discover")) {
        scripted_result(r, "", DISCOVERED);
    } else if (strstr(r->body, "gone")) {
        scripted_reply(r, 200, "", "application/json",
                       "{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":-32602,"
                       "\"message\":\"not found\"}}");
    } else {
        has(r, "Mcp-Name: =?base64?eDovL8Ok?=\r\n");
        scripted_result(r, "", "{\"contents\":[{\"uri\":\"x://ä\",\"text\":\"hi\"}]}");
    }
}

static void read_sends_resource_name_in_header(void **state)
{
    (void)state;
    struct scripted_server server;
    struct tidings_error err = {0};
    scripted_start(&server, reading_server, NULL);
    struct tidings_client *c = tidings_client_create(server.url, NULL, &err);
    char *text = tidings_client_read(c, "x://ä", &err);
    assert_string_equal(text, "{\"contents\":[{\"uri\":\"x://ä\",\"text\":\"hi\"}]}");
    mem_free(text);
    assert_null(tidings_client_read(c, "x://gone", &err));
    assert_string_equal(err.text, "read 'x://gone': not found (-32602)");
    assert_string_equal(server.log,
                        "POST server/discover\nPOST resources/read\nPOST resources/read\n");
    tidings_client_destroy(c);
    scripted_stop(&server);
}

/* The stream of the read ends twice before its answer; the client fetches the answer. */
static void polled_server(struct scripted_server *s, const struct scripted_request *r)
{
    (void)s;
    char text[256];
    if (scripted_is(r, "server/discover")) {
        scripted_reply(r, 400, "", "text/plain", "");
    } else if (scripted_is(r, "initialize")) {
        scripted_result(r, SESSION, INITIALIZED);
    } else if (scripted_is(r, "resources/read")) {
        s->user = (void *)(intptr_t)scripted_id(r);
        scripted_stream(r, "");
        scripted_send(r, "id: q-0\nretry: 1\ndata:\n\n");
    } else if (strcmp(r->method, "GET") == 0) {
        scripted_stream(r, "");
        if (strcasestr(r->head, "Last-Event-ID: q-0\r\n")) {
            scripted_send(r, "id: q-1\ndata:\n\n");
            return;
        }
        has(r, "Last-Event-ID: q-1\r\n");
        snprintf(text, sizeof(text),
                 "data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"result\":{\"contents\":[]}}\n\n",
                 (int)(intptr_t)s->user);
        scripted_send(r, text);
    } else {
        scripted_reply(r, 202, "", "text/plain", "");
    }
}

static void answer_can_be_fetched_later(void **state)
{
    (void)state;
    struct scripted_server server;
    struct tidings_error err = {0};
    scripted_start(&server, polled_server, NULL);
    struct tidings_client *c = tidings_client_create(server.url, NULL, &err);
    char *text = tidings_client_read(c, "x://a", &err);
    assert_string_equal(text, "{\"contents\":[]}");
    mem_free(text);
    tidings_client_destroy(c);
    scripted_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(client_listens_to_modern_server),
        cmocka_unit_test(resource_can_be_read_inside_an_update),
        cmocka_unit_test(lost_stream_is_reopened),
        cmocka_unit_test(endless_message_closes_stream),
        cmocka_unit_test(client_subscribes_to_legacy_server_and_resumes_stream),
        cmocka_unit_test(ended_session_is_restarted),
        cmocka_unit_test(run_fails_on_permanent_error),
        cmocka_unit_test(busy_server_is_retried),
        cmocka_unit_test(client_waits_for_retry_after),
        cmocka_unit_test(refused_connection_is_reported_and_retried),
        cmocka_unit_test(invalid_addresses_are_rejected),
        cmocka_unit_test(read_sends_resource_name_in_header),
        cmocka_unit_test(answer_can_be_fetched_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
