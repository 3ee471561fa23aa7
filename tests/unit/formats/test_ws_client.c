/* SPDX-License-Identifier: MIT
 *
 * The client's side of WebSocket: the request, the answer, masked frames, and server frames. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/encode.h"
#include "base/mem.h"
#include "formats/websocket.h"

#define KEY "dGhlIHNhbXBsZSBub25jZQ==" /* RFC 6455 §1.3 */
#define ACCEPT "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
#define GRANTED                                                                                    \
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: keep-alive, "           \
    "Upgrade\r\nSec-WebSocket-Accept: " ACCEPT "\r\n\r\n"

static void keys_are_random_and_sixteen_bytes_in_base64(void **state)
{
    (void)state;
    char a[WS_KEY_BYTES], b[WS_KEY_BYTES];
    struct buf bytes;
    assert_int_equal(ws_client_key(a), 0);
    assert_int_equal(ws_client_key(b), 0);
    assert_int_equal(strlen(a), 24);
    assert_string_not_equal(a, b);
    buf_init(&bytes, 64);
    assert_int_equal(base64_decode(&bytes, tidings_str(a)), 0);
    assert_int_equal(bytes.len, 16);
    buf_deinit(&bytes);
}

static void request_names_host_path_key_and_protocol(void **state)
{
    (void)state;
    static const char *const more[] = {"Authorization: Bearer x", NULL};
    struct ws_client_request r = {
        .host = STR("h:1"), .path = STR("/mcp?a"), .key = KEY, .headers = more};
    struct buf out;
    buf_init(&out, 4096);
    ws_client_put_request(&out, &r);
    assert_string_equal(out.ptr, "GET /mcp?a HTTP/1.1\r\nHost: h:1\r\nUpgrade: websocket\r\n"
                                 "Connection: Upgrade\r\nSec-WebSocket-Key: " KEY "\r\n"
                                 "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mcp\r\n"
                                 "Authorization: Bearer x\r\n\r\n");
    buf_deinit(&out);
}

static void answer_is_accepted_when_complete(void **state)
{
    (void)state;
    struct tidings_str whole = STR(GRANTED "\x81\x00");
    size_t head = sizeof(GRANTED) - 1;
    for (size_t len = 0; len < head; len++) {
        assert_int_equal(ws_client_check(tidings_strn(whole.ptr, len), KEY, NULL), 0);
    }
    assert_int_equal(ws_client_check(tidings_strn(whole.ptr, head), KEY, NULL), head);
    assert_int_equal(ws_client_check(whole, KEY, NULL), head);
}

static void rejecting_answers_are_distinguished(void **state)
{
    (void)state;
#define HEAD "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
    static const struct {
        const char *text;
        int code;
    } cases[] = {
        {"HTTP/1.1 401 no\r\n\r\n", TIDINGS_E_DENIED},
        {"HTTP/1.1 403 no\r\n\r\n", TIDINGS_E_DENIED},
        {"HTTP/1.1 404 no\r\n\r\n", TIDINGS_E_NOTFOUND},
        {"HTTP/1.1 503 no\r\n\r\n", TIDINGS_E_BUSY},
        {"HTTP/1.1 429 no\r\n\r\n", TIDINGS_E_BUSY},
        {"HTTP/1.1 200 OK\r\n\r\n", TIDINGS_E_PARSE},
        {"HTTP/1.0 101 x\r\n\r\n", TIDINGS_E_PARSE},
        {"SSH-2.0-x\r\n\r\n", TIDINGS_E_PARSE},
        {"HTTP/1.1 1010 x\r\n\r\n", TIDINGS_E_PARSE},
        {HEAD "\r\n", TIDINGS_E_PARSE},
        {HEAD "Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n", TIDINGS_E_PARSE},
        {HEAD "Sec-WebSocket-Accept: " ACCEPT "\r\nSec-WebSocket-Accept: " ACCEPT "\r\n\r\n",
         TIDINGS_E_PARSE},
        {HEAD "Sec-WebSocket-Accept: " ACCEPT "\r\nSec-WebSocket-Protocol: soap\r\n\r\n",
         TIDINGS_E_PARSE},
        {HEAD "Sec-WebSocket-Accept: " ACCEPT "\r\nSec-WebSocket-Extensions: x\r\n\r\n",
         TIDINGS_E_PARSE},
        {HEAD "Sec-WebSocket-Accept: " ACCEPT "\r\nnonsense\r\n\r\n", TIDINGS_E_PARSE},
        {"HTTP/1.1 101 x\r\nConnection: upgrade\r\nSec-WebSocket-Accept: " ACCEPT "\r\n\r\n",
         TIDINGS_E_PARSE},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct tidings_error err = {0};
        if (ws_client_check(tidings_str(cases[i].text), KEY, &err) != cases[i].code) {
            fail_msg("%zu: %d %s", i, err.code, err.text);
        }
        assert_true(strlen(err.text) > 0);
    }
}

static void body_of_a_refusal_follows_its_head(void **state)
{
    (void)state;
    struct tidings_str body = ws_client_body(STR("HTTP/1.1 403 no\r\nA: b\r\n\r\nwhy"));
    assert_true(str_eq(body, STR("why")));
    assert_int_equal(ws_client_body(STR("HTTP/1.1 403 no\r\n\r\n")).len, 0);
    body = ws_client_body(STR("HTTP/1.1 403 no\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nwhy"));
    assert_int_equal(body.len, 0);
}

static void endless_answer_is_rejected(void **state)
{
    (void)state;
    char *text = mem_zalloc(WS_MAX_HEAD + 2);
    memset(text, 'a', WS_MAX_HEAD + 1);
    assert_int_equal(ws_client_check(tidings_str(text), KEY, NULL), TIDINGS_E_LIMIT);
    mem_free(text);
}

/* A server's reader reads every client frame, whatever its length. */
static void masked_frames_arrive_at_a_server(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 125, 126, 65535, 65536};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct buf out;
        struct ws_message m;
        char *payload = mem_zalloc(sizes[i] + 1);
        memset(payload, 'x', sizes[i]);
        buf_init(&out, 1 << 20);
        assert_int_equal(ws_client_put(&out, WS_OP_TEXT, tidings_strn(payload, sizes[i])), 0);
        struct ws_reader *r = ws_reader_create(1 << 20, NULL);
        if (!r) {
            skip();
        }
        ws_reader_feed(r, out.ptr, out.len);
        assert_int_equal(ws_reader_next(r, &m), WS_TEXT);
        assert_true(str_eq(m.payload, tidings_strn(payload, sizes[i])));
        assert_int_equal(ws_reader_next(r, &m), WS_MORE);
        ws_reader_destroy(r);
        buf_deinit(&out);
        mem_free(payload);
    }
}

static void server_frames_are_accepted_only_unmasked(void **state)
{
    (void)state;
    struct ws_message m;
    struct buf out;
    struct ws_reader *r = ws_reader_create_client(1024, NULL);
    if (!r) {
        skip();
    }
    ws_reader_feed(r, "\x81\x02hi\x89\x00", 6);
    assert_int_equal(ws_reader_next(r, &m), WS_TEXT);
    assert_true(str_eq(m.payload, STR("hi")));
    assert_int_equal(ws_reader_next(r, &m), WS_PING);
    assert_int_equal(ws_reader_next(r, &m), WS_MORE);
    assert_true(ws_reader_is_idle(r));
    buf_init(&out, 64);
    assert_int_equal(ws_client_put(&out, WS_OP_TEXT, STR("hi")), 0);
    ws_reader_feed(r, out.ptr, out.len);
    assert_int_equal(ws_reader_next(r, &m), WS_FAILED);
    assert_int_equal(m.code, WS_PROTOCOL_ERROR);
    buf_deinit(&out);
    ws_reader_destroy(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_random_and_sixteen_bytes_in_base64),
        cmocka_unit_test(request_names_host_path_key_and_protocol),
        cmocka_unit_test(answer_is_accepted_when_complete),
        cmocka_unit_test(rejecting_answers_are_distinguished),
        cmocka_unit_test(body_of_a_refusal_follows_its_head),
        cmocka_unit_test(endless_answer_is_rejected),
        cmocka_unit_test(masked_frames_arrive_at_a_server),
        cmocka_unit_test(server_frames_are_accepted_only_unmasked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
