/* SPDX-License-Identifier: MIT
 *
 * Transports against servers that misbehave: WebSocket handshakes and frames, endless lines; and
 * the headers of every request.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include <tidings/client.h>

#include "formats/websocket.h"
#include "support/scripted_server.h"

static void has(const struct scripted_request *r, const char *part)
{
    if (!strcasestr(r->head, part)) {
        fprintf(stderr, "missing '%s' in\n%s\n", part, r->head);
        abort(); /* cmocka's asserts belong to the main thread */
    }
}

/* ---- headers --------------------------------------------------------------------------------- */

static void wanting_headers(struct scripted_server *s, const struct scripted_request *r)
{
    (void)s;
    has(r, "\r\nAuthorization: Bearer fresh\r\n");
    has(r, "\r\nX-Team: blue and green\r\n");
    if (!scripted_discovered(r)) {
        scripted_result(r, "", "{\"contents\":[]}");
    }
}

static char *on_token(void *user)
{
    char *token = tidings_alloc(6);
    ++*(int *)user;
    if (token) {
        snprintf(token, 6, "fresh");
    }
    return token;
}

static void token_and_headers_are_sent_with_every_request(void **state)
{
    (void)state;
    static const char *const headers[] = {"X-Team: blue and green", NULL};
    struct scripted_server server;
    int asked = 0;
    struct tidings_client_options o = {
        .headers = headers, .token = "stale", .on_token = on_token, .token_user = &asked};
    scripted_start(&server, wanting_headers, NULL);
    struct tidings_client *c = tidings_client_create(server.url, &o, NULL);
    char *text = tidings_client_read(c, "x:/a", NULL);
    assert_non_null(text);
    tidings_free(text);
    assert_int_equal(asked, 2);
    tidings_client_destroy(c);
    scripted_stop(&server);
}

static void unsendable_options_are_rejected(void **state)
{
    (void)state;
    static const char *const bad[][2] = {{"no colon"}, {": x"}, {"A: b\r\nC: d"}, {"A b: c"}};
    struct tidings_error err = {0};
    for (size_t i = 0; i < 4; i++) {
        struct tidings_client_options o = {.headers = bad[i]};
        assert_null(tidings_client_create("http://127.0.0.1:1/", &o, &err));
        assert_int_equal(err.code, TIDINGS_E_INVALID);
    }
    struct tidings_client_options o = {.token = "a b"};
    assert_null(tidings_client_create("http://127.0.0.1:1/", &o, &err));
    o = (struct tidings_client_options){.version = "2099-01-01"};
    assert_null(tidings_client_create("http://127.0.0.1:1/", &o, &err));
    assert_int_equal(err.code, TIDINGS_E_INVALID);
}

static void addresses_are_validated_by_scheme(void **state)
{
    (void)state;
    static const char *const good[] = {
        "ws://h",      "wss://h:1/a?b", "ws://[::1]:1/",        "tcp://h:1",
        "tls://h:443", "unix:/a b",     "http+unix:/run/x.sock"};
    static const char *const bad[] = {
        "ws://", "ws://u@h/",  "ws://h/a#b",  "ws://h:0/", "ws://h:99999/",
        "ws:/h", "tcp://h",    "tcp://h:1/x", "tcp://:1",  "tls://",
        "unix:", "http+unix:", "wss://h:x",   "ws://h?x"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct tidings_error err = {0};
        struct tidings_client *c = tidings_client_create(good[i], NULL, &err);
        if (!c && err.code != TIDINGS_E_UNSUPPORTED) {
            fail_msg("%s: %s", good[i], err.text);
        }
        tidings_client_destroy(c);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct tidings_error err = {0};
        if (tidings_client_create(bad[i], NULL, &err) || err.code != TIDINGS_E_INVALID) {
            fail_msg("%s: %d", bad[i], err.code);
        }
    }
}

/* ---- WebSocket ------------------------------------------------------------------------------- */

static void put(const struct scripted_request *r, const void *bytes, size_t len)
{
    if (send(r->fd, bytes, len, MSG_NOSIGNAL) != (ssize_t)len) {
        return; /* the client has disconnected, as it may */
    }
}

static void put_frame(const struct scripted_request *r, enum ws_opcode opcode, const char *text)
{
    char header[WS_MAX_HEADER];
    size_t len = (size_t)(ws_write_header(header, opcode, strlen(text)) - header);
    put(r, header, len);
    put(r, text, strlen(text));
}

static void grant(const struct scripted_request *r)
{
    char accept[WS_ACCEPT_BYTES], head[256];
    const char *key = strcasestr(r->head, "sec-websocket-key: ");
    has(r, "Upgrade: websocket");
    has(r, "Sec-WebSocket-Protocol: mcp");
    if (!key || ws_write_accept(tidings_strn(key + 19, 24), accept) < 0) {
        abort();
    }
    snprintf(head, sizeof(head),
             "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
             "Sec-WebSocket-Accept: %s\r\n\r\n",
             accept);
    scripted_send(r, head);
}

/* The client's next message; returns its kind. */
static enum ws_event hear(const struct scripted_request *r, struct ws_reader *reader,
                          struct ws_message *m)
{
    static _Thread_local char bytes[4096];
    enum ws_event event;
    while ((event = ws_reader_next(reader, m)) == WS_MORE) {
        ssize_t n = recv(r->fd, bytes, sizeof(bytes), 0);
        if (n <= 0) {
            return WS_FAILED;
        }
        ws_reader_feed(reader, bytes, (size_t)n);
    }
    return event;
}

/* Accepts, answers the first request, pings, waits for the pong, closes. */
static void polite(struct scripted_server *s, const struct scripted_request *r)
{
    struct ws_reader *reader = ws_reader_create(65536, NULL);
    struct ws_message m;
    (void)s;
    grant(r);
    if (hear(r, reader, &m) != WS_TEXT) {
        abort();
    }
    put_frame(r, WS_OP_PING, "there?");
    if (hear(r, reader, &m) != WS_PONG || m.payload.len != 6) {
        abort();
    }
    put_frame(r, WS_OP_TEXT, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":" DISCOVERED "}");
    scripted_await_close(r);
    ws_reader_destroy(reader);
}

static const struct tidings_client_options small = {
    .max_bytes = 1024, .timeout_ms = 10000, .probe_ms = 10000};

static struct tidings_client *websocket(struct scripted_server *server, scripted_fn fn,
                                        const struct tidings_client_options *o)
{
    char url[80];
    scripted_start(server, fn, NULL);
    snprintf(url, sizeof(url), "ws%s", server->url + 4);
    return tidings_client_create(url, o, NULL);
}

static void websocket_is_negotiated_and_answers_pings(void **state)
{
    (void)state;
    struct scripted_server server;
    struct tidings_error err = {0};
    struct tidings_client *c = websocket(&server, polite, &small);
    if (!c) {
        scripted_stop(&server);
        skip();
    }
    assert_int_equal(tidings_client_connect(c, &err), 0);
    assert_string_equal(tidings_client_info(c)->transport, "websocket");
    tidings_client_destroy(c);
    scripted_stop(&server);
}

/* The server rejects the first token and accepts the next. */
static void wanting_another(struct scripted_server *s, const struct scripted_request *r)
{
    if (strcasestr(r->head, "\r\nAuthorization: Bearer 2\r\n")) {
        polite(s, r);
    } else {
        scripted_reply(r, 401, "WWW-Authenticate: Bearer scope=\"a b\"\r\n", "text/plain", "");
    }
}

/* "1", "2", …, up to the number of tokens. */
static char *count_up(void *user)
{
    int *left = user;
    char *token = tidings_alloc(2);
    if (token) {
        snprintf(token, 2, "%d", left[0] < left[1] ? ++left[0] : left[0]);
    }
    return token;
}

static void websocket_sends_new_token_after_rejection(void **state)
{
    (void)state;
    for (int last = 1; last <= 2; last++) {
        struct scripted_server server;
        struct tidings_error err = {0};
        int tokens[2] = {0, last};
        struct tidings_client_options o = {
            .probe_ms = 10000, .on_token = count_up, .token_user = tokens};
        struct tidings_client *c = websocket(&server, wanting_another, &o);
        if (!c) {
            scripted_stop(&server);
            skip();
        }
        assert_int_equal(tidings_client_connect(c, &err), last == 2 ? 0 : TIDINGS_E_DENIED);
        assert_string_equal(err.text, last == 2 ? ""
                                                : "the server wants a good token (HTTP 401); "
                                                  "scope wanted: a b");
        tidings_client_destroy(c);
        scripted_stop(&server);
    }
}

static void wrong_proof(struct scripted_server *s, const struct scripted_request *r)
{
    (void)s;
    scripted_send(r, "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     "Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n");
    scripted_await_close(r);
}

static void no_websocket(struct scripted_server *s, const struct scripted_request *r)
{
    (void)s;
    scripted_reply(r, 404, "", "text/plain", "");
}

static void endless_head(struct scripted_server *s, const struct scripted_request *r)
{
    (void)s;
    scripted_send(r, "HTTP/1.1 101 x\r\n");
    for (int i = 0; i < 3000; i++) {
        scripted_send(r, "X-Padding: 01234567890123456789\r\n");
    }
    scripted_await_close(r);
}

static void too_large(struct scripted_server *s, const struct scripted_request *r)
{
    (void)s;
    grant(r);
    put(r, "\x81\x7e\xff\xff{}", 6);
    scripted_await_close(r);
}

static void masking(struct scripted_server *s, const struct scripted_request *r)
{
    (void)s;
    grant(r);
    put(r, "\x81\x82\0\0\0\0{}", 8);
    scripted_await_close(r);
}

static void unwilling(struct scripted_server *s, const struct scripted_request *r)
{
    char frame[2 + WS_MAX_CONTROL];
    (void)s;
    grant(r);
    put(r, frame, ws_write_close(frame, 1008, STR("not you")));
    scripted_await_close(r);
}

static void websocket_is_closed_on_protocol_error(void **state)
{
    (void)state;
    static const struct {
        scripted_fn server;
        int code;
        const char *text;
    } cases[] = {
        {wrong_proof, TIDINGS_E_PARSE, "the server's WebSocket handshake is wrong"},
        {no_websocket, TIDINGS_E_NOTFOUND, "no WebSocket at that address (HTTP 404)"},
        {endless_head, TIDINGS_E_LIMIT, NULL},
        {too_large, TIDINGS_E_LIMIT, "the message is larger than is accepted here"},
        {unwilling, TIDINGS_E_DENIED, "the server ended the connection (1008: not you)"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct scripted_server server;
        struct tidings_error err = {0};
        struct tidings_client *c = websocket(&server, cases[i].server, &small);
        if (!c) {
            scripted_stop(&server);
            skip();
        }
        int rc = tidings_client_connect(c, &err);
        if (rc != cases[i].code || (cases[i].text && strcmp(err.text, cases[i].text) != 0)) {
            fail_msg("%zu: %d %s", i, rc, err.text);
        }
        tidings_client_destroy(c);
        scripted_stop(&server);
    }
}

/* A server that violates framing is not legacy: the client retries once, then stops. */
static void masked_server_frame_is_an_error(void **state)
{
    (void)state;
    struct scripted_server server;
    struct tidings_error err = {0};
    struct tidings_client *c = websocket(&server, masking, &small);
    if (!c) {
        scripted_stop(&server);
        skip();
    }
    assert_int_equal(tidings_client_connect(c, &err), TIDINGS_E_CLOSED);
    assert_string_equal(err.text, "frames of a server are not masked");
    tidings_client_destroy(c);
    scripted_stop(&server);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void endless_line_closes_connection(void **state)
{
    (void)state;
    static const char *const argv[] = {"sh", "-c", "yes 012345678901234 | tr -d '\\n'", NULL};
    struct tidings_error err = {0};
    struct tidings_client_options o = {.max_bytes = 65536};
    struct tidings_client *c = tidings_client_launch(argv, &o, &err);
    assert_int_equal(tidings_client_connect(c, &err), TIDINGS_E_LIMIT);
    tidings_client_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(token_and_headers_are_sent_with_every_request),
        cmocka_unit_test(unsendable_options_are_rejected),
        cmocka_unit_test(addresses_are_validated_by_scheme),
        cmocka_unit_test(websocket_is_negotiated_and_answers_pings),
        cmocka_unit_test(websocket_sends_new_token_after_rejection),
        cmocka_unit_test(websocket_is_closed_on_protocol_error),
        cmocka_unit_test(masked_server_frame_is_an_error),
        cmocka_unit_test(endless_line_closes_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
