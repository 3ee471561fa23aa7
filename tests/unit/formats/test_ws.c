/* SPDX-License-Identifier: MIT
 *
 * WebSocket without sockets: handshakes, output headers, and input messages, which must be the same
 * for every split of their bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "formats/websocket.h"
#include "support/fail_alloc.h"

#define MAX 200000u

/* ---- handshake ------------------------------------------------------------------------------- */

#define KEY "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define V13 "Sec-WebSocket-Version: 13\r\n"
#define UP "Upgrade: websocket\r\nConnection: Upgrade\r\n"
#define BEGIN(method, version) method " /mcp HTTP/1." version "\r\nHost: h\r\n"

static int shake(const char *head, struct ws_handshake *ret, const char **why)
{
    struct http_request req;
    struct http_fault fault;
    size_t scanned = 0;
    char text[2048];
    snprintf(text, sizeof(text), "%s\r\n", head);
    assert_true(http_parse_head(text, strlen(text), &scanned, &req, &fault) > 0);
    assert_true(ws_is_upgrade(&req));
    return ws_check_handshake(&req, ret, why);
}

static void rfc_example_is_accepted(void **state)
{
    (void)state;
    struct ws_handshake h;
    const char *why = NULL;
    assert_int_equal(shake(BEGIN("GET", "1") UP KEY V13, &h, &why), 0);
    assert_string_equal(h.accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert_false(h.names_protocol);
}

static void tokens_are_found_in_lists_in_any_case(void **state)
{
    (void)state;
    struct ws_handshake h;
    const char *why = NULL;
    assert_int_equal(shake(BEGIN("GET", "1") "Upgrade: foo, WebSocket\r\n"
                                             "Connection: keep-alive\r\nConnection: x, UPGRADE\r\n"
                                             "Sec-WebSocket-Protocol: chat\r\n"
                                             "Sec-WebSocket-Protocol: a , mcp\r\n" KEY V13,
                           &h, &why),
                     0);
    assert_true(h.names_protocol);
}

static void malformed_handshake_is_rejected_with_a_reason(void **state)
{
    (void)state;
    static const struct {
        const char *head;
        int status;
        const char *says;
    } cases[] = {
        {BEGIN("POST", "1") UP KEY V13, 400, "GET"},
        {BEGIN("GET", "0") UP KEY V13, 400, "HTTP/1.1"},
        {BEGIN("GET", "1") "Upgrade: websocket\r\n" KEY V13, 400, "Connection: Upgrade"},
        {BEGIN("GET", "1") "Upgrade: websocket\r\nConnection: close\r\n" KEY V13, 400,
         "Connection"},
        {BEGIN("GET", "1") UP KEY V13 "Content-Length: 3\r\n", 400, "no body"},
        {BEGIN("GET", "1") UP KEY V13 "Transfer-Encoding: chunked\r\n", 400, "no body"},
        {BEGIN("GET", "1") UP KEY, 426, "13"},
        {BEGIN("GET", "1") UP KEY "Sec-WebSocket-Version: 8\r\n", 426, "13"},
        {BEGIN("GET", "1") UP KEY "Sec-WebSocket-Version: 13, 8\r\n", 426, "13"},
        {BEGIN("GET", "1") UP KEY V13 V13, 426, "13"},
        {BEGIN("GET", "1") UP V13, 400, "Sec-WebSocket-Key"},
        {BEGIN("GET", "1") UP KEY KEY V13, 400, "exactly one"},
        {BEGIN("GET", "1") UP V13 "Sec-WebSocket-Key: dGhl\r\n", 400, "16 bytes"},
        {BEGIN("GET", "1") UP V13 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ--\r\n", 400, "base64"},
        {BEGIN("GET", "1") UP V13 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZWQw\r\n", 400, "16 "},
        {BEGIN("GET", "1") UP KEY V13 "Sec-WebSocket-Protocol: chat, MCP\r\n", 400, "offer mcp"},
        {BEGIN("GET", "1") UP KEY V13 "Sec-WebSocket-Protocol:\r\n", 400, "offer mcp"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct ws_handshake h;
        const char *why = NULL;
        assert_int_equal(shake(cases[i].head, &h, &why), cases[i].status);
        assert_non_null(strstr(why, cases[i].says));
    }
}

/* ---- output frames --------------------------------------------------------------------------- */

static void headers_have_the_shortest_form(void **state)
{
    (void)state;
    static const struct {
        uint64_t len;
        size_t bytes;
        const char *header;
    } cases[] = {
        {0, 2, "\x81\x00"},
        {125, 2, "\x81\x7d"},
        {126, 4, "\x81\x7e\x00\x7e"},
        {65535, 4, "\x81\x7e\xff\xff"},
        {65536, 10, "\x81\x7f\0\0\0\0\0\x01\0\0"},
        {UINT64_C(0x123456789abc), 10, "\x81\x7f\0\0\x12\x34\x56\x78\x9a\xbc"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char at[WS_MAX_HEADER];
        assert_int_equal(ws_header_len(cases[i].len), cases[i].bytes);
        assert_ptr_equal(ws_write_header(at, WS_OP_TEXT, cases[i].len), at + cases[i].bytes);
        assert_memory_equal(at, cases[i].header, cases[i].bytes);
    }
}

static void reason_is_cut_between_characters(void **state)
{
    (void)state;
    char out[2 + WS_MAX_CONTROL], text[200];
    assert_int_equal(ws_write_close(out, WS_GOING_AWAY, tidings_str("bye")), 7);
    assert_memory_equal(out,
                        "\x88\x05\x03\xe9"
                        "bye",
                        7);
    assert_int_equal(ws_write_close(out, WS_NO_CODE, STR_EMPTY), 2);
    assert_memory_equal(out, "\x88\x00", 2);
    memset(text, 'a', sizeof(text));
    memcpy(text + 122, "\xc3\xa4", 2);
    assert_int_equal(ws_write_close(out, 1000, tidings_strn(text, 200)), 2 + 2 + 122);
}

/* ---- input messages -------------------------------------------------------------------------- */

/* A client's output, collected, and the resulting events in one string. */
static struct buf sent, heard;

static void put_header(unsigned first, uint64_t len, const char mask[4])
{
    char at[WS_MAX_HEADER];
    size_t n = (size_t)(ws_write_header(at, WS_OP_TEXT, len) - at);
    at[0] = (char)first;
    at[1] = (char)(at[1] | (mask ? 0x80 : 0));
    buf_put(&sent, at, n);
    if (mask) {
        buf_put(&sent, mask, 4);
    }
}

/* `first`: final bit, reserved bits, opcode. */
static void put(unsigned first, struct tidings_str payload)
{
    static const char mask[4] = {0x11, (char)0xf2, 0x00, 0x7a};
    put_header(first, payload.len, mask);
    for (size_t i = 0; i < payload.len; i++) {
        buf_putc(&sent, (char)(payload.ptr[i] ^ mask[i % 4]));
    }
}

static void anew(void)
{
    buf_deinit(&sent);
    buf_init(&sent, SIZE_MAX);
}

static bool hear(struct ws_reader *r)
{
    static const char names[] = "?tpoc!";
    struct ws_message m;
    enum ws_event event;
    while ((event = ws_reader_next(r, &m)) != WS_MORE) {
        buf_putc(&heard, names[event]);
        if (event == WS_CLOSE || event == WS_FAILED) {
            buf_putu(&heard, m.code);
            if (event == WS_CLOSE) {
                buf_puts(&heard, m.payload);
            }
            struct ws_message again;
            assert_int_equal(ws_reader_next(r, &again), event);
            assert_int_equal(again.code, m.code);
            return false;
        }
        if (m.payload.len > 100) {
            buf_putu(&heard, m.payload.len);
        } else {
            buf_puts(&heard, m.payload);
        }
        buf_putc(&heard, '|');
    }
    return true;
}

/* Read in pieces; a reader that reports idle is replaced by a new one. */
static const char *run(size_t first, size_t step)
{
    struct tidings_error err;
    struct ws_reader *r = NULL;
    buf_clear(&heard);
    buf_puts(&heard, STR_EMPTY);
    for (size_t at = 0, n = first; at < sent.len; at += n, n = step) {
        n = n < sent.len - at ? n : sent.len - at;
        char *piece = mem_alloc(n); /* of exactly its size, and freed afterwards */
        memcpy(piece, sent.ptr + at, n);
        if (!r) {
            r = ws_reader_create(MAX, &err);
            assert_non_null(r);
        }
        ws_reader_feed(r, piece, n);
        bool goes_on = hear(r);
        mem_free(piece);
        if (!goes_on) {
            break;
        }
        if (ws_reader_is_idle(r)) {
            ws_reader_destroy(r);
            r = NULL;
        }
    }
    ws_reader_destroy(r);
    buf_putc(&heard, '\0');
    return heard.ptr;
}

static void expect(const char *events)
{
    assert_string_equal(run(sent.len, 1), events);
    assert_string_equal(run(1, 1), events);
    for (size_t cut = 1; cut < sent.len && cut < 200; cut++) {
        assert_string_equal(run(cut, sent.len), events);
    }
    anew();
}

static void messages_are_the_same_for_every_split(void **state)
{
    (void)state;
    put(0x81, STR("hello"));
    put(0x81, STR(""));
    put(0x81, STR("{\"\xc3\xa4\":1}"));
    expect("thello|t|t{\"\xc3\xa4\":1}|");
}

static void fragments_are_joined_around_control_frames(void **state)
{
    (void)state;
    put(0x01, STR("he"));
    put(0x89, STR("are you there"));
    put(0x00, STR(""));
    put(0x8a, STR(""));
    put(0x00, STR("l\xc3")); /* a split within a character is allowed */
    put(0x80, STR("\xa4"));
    put(0x81, STR("next"));
    put(0x88, STR("\x03\xe8"
                  "bye"));
    expect("pare you there|o|thel\xc3\xa4|tnext|c1000bye");
}

static void long_lengths_are_read(void **state)
{
    (void)state;
    static char text[150000];
    memset(text, 'x', sizeof(text));
    static const size_t lengths[] = {125, 126, 4096, 65535, 65536, sizeof(text)};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        char says[32];
        put(0x81, tidings_strn(text, lengths[i]));
        snprintf(says, sizeof(says), "t%zu|", lengths[i]);
        assert_string_equal(run(sent.len, 1), says);
        assert_string_equal(run(7, 1000), says);
        anew();
    }
}

static void violations_give_their_close_code(void **state)
{
    (void)state;
    static const struct {
        unsigned first;
        struct tidings_str payload;
        const char *events;
    } cases[] = {
        {0x82, {"bin", 3}, "!1003"},
        {0x02, {"bin", 3}, "!1003"},
        {0x83, {"", 0}, "!1002"},
        {0x8b, {"", 0}, "!1002"},
        {0x80, {"x", 1}, "!1002"},
        {0x00, {"x", 1}, "!1002"},
        {0xc1, {"x", 1}, "!1002"},
        {0xa1, {"x", 1}, "!1002"},
        {0x91, {"x", 1}, "!1002"},
        {0xc9, {"x", 1}, "!1002"},
        {0x09, {"x", 1}, "!1002"}, /* a control frame in pieces */
        {0x81, {"\xff", 1}, "!1007"},
        {0x81, {"\xed\xa0\x80", 3}, "!1007"},
        {0x81, {"\xc3", 1}, "!1007"},
        {0x88, {"", 0}, "c1005"},
        {0x88, {"\x03", 1}, "!1002"},
        {0x88, {"\x03\xed", 2}, "!1002"}, /* 1005 is not to be sent */
        {0x88, {"\x03\xe7", 2}, "!1002"},
        {0x88, {"\x07\xd0", 2}, "!1002"},
        {0x88, {"\x0b\xb8", 2}, "c3000"},
        {0x88, {"\x03\xf3", 2}, "c1011"},
        {0x88, {"\x03\xe8\xff", 3}, "!1007"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        put(cases[i].first, cases[i].payload);
        put(0x81, STR("never heard"));
        expect(cases[i].events);
    }
}

static void messages_do_not_interleave(void **state)
{
    (void)state;
    put(0x01, STR("a"));
    put(0x81, STR("b"));
    expect("!1002");
}

static void unmasked_frames_are_rejected(void **state)
{
    (void)state;
    put_header(0x81, 2, NULL);
    buf_puts(&sent, STR("hi"));
    expect("!1002");
    put_header(0x89, 0, NULL);
    expect("!1002");
}

static void lengths_are_rejected_if_not_minimal(void **state)
{
    (void)state;
    buf_put(&sent, "\x81\xfe\x00\x05\0\0\0\0hello", 13);
    expect("!1002");
    buf_put(&sent, "\x81\xff\0\0\0\0\0\0\xff\xff\0\0\0\0x", 15);
    expect("!1002");
    buf_put(&sent, "\x81\xff\x80\0\0\0\0\0\0\x05\0\0\0\0hello", 19);
    expect("!1002");
    buf_put(&sent, "\x89\xfe\x00\x7e\0\0\0\0x", 9); /* a long control frame */
    expect("!1002");
}

static void oversized_message_is_rejected_before_it_arrives(void **state)
{
    (void)state;
    static char text[MAX + 1];
    memset(text, 'x', sizeof(text));
    put_header(0x81, MAX + 1, "abcd");
    buf_putc(&sent, 'x');
    expect("!1009");
    put_header(0x81, UINT64_C(0x7fffffffffffffff), "abcd");
    buf_putc(&sent, 'x');
    expect("!1009");
    put(0x01, tidings_strn(text, MAX - 1));
    put(0x80, STR("xx"));
    assert_string_equal(run(sent.len, 1), "!1009");
    anew();
    put(0x81, tidings_strn(text, MAX));
    assert_string_equal(run(sent.len, 1), "t200000|");
    anew();
}

static void oversized_frame_is_rejected_at_its_header(void **state)
{
    (void)state;
    put_header(0x81, MAX + 1, "abcd");
    expect("!1009");
    put_header(0x01, UINT64_C(0x7fffffffffffffff), "abcd");
    expect("!1009");
    put(0x01, STR("x"));
    put_header(0x80, MAX, "abcd");
    expect("!1009");
    put_header(0x81, MAX, "abcd"); /* the accepted maximum */
    expect("");
    put_header(0x82, MAX + 1, "abcd"); /* invalid text is reported when it arrives */
    expect("");
    put_header(0x80, MAX + 1, "abcd");
    expect("");
    put_header(0xc1, MAX + 1, "abcd");
    expect("");
}

static void progress_counts_the_bytes_of_the_message(void **state)
{
    (void)state;
    struct tidings_error err;
    struct ws_message m;
    struct ws_reader *r = ws_reader_create(MAX, &err);
    assert_non_null(r);
    size_t empty = ws_reader_size(r);
    for (int round = 0; round < 2; round++) {
        put(0x01, STR("12345"));
        put(0x00, STR_EMPTY);
        put(0x89, STR("a ping of many bytes"));
        ws_reader_feed(r, sent.ptr, sent.len);
        while (ws_reader_next(r, &m) != WS_MORE) {
        }
        assert_false(ws_reader_has_grown(r, 6));
        assert_true(ws_reader_has_grown(r, 5));
        assert_false(ws_reader_has_grown(r, 5));
        assert_true(ws_reader_size(r) > empty);
        buf_clear(&sent);
        put(0x80, STR("6789"));
        ws_reader_feed(r, sent.ptr, sent.len);
        assert_int_equal(ws_reader_next(r, &m), WS_TEXT);
        assert_int_equal(ws_reader_next(r, &m), WS_MORE);
        assert_int_equal(ws_reader_size(r), empty);
        buf_clear(&sent);
    }
    ws_reader_destroy(r);
}

static void reader_is_idle_only_between_messages(void **state)
{
    (void)state;
    struct tidings_error err;
    struct ws_message m;
    put(0x01, STR("a"));
    put(0x89, STR("p"));
    put(0x80, STR("b"));
    struct ws_reader *r = ws_reader_create(MAX, &err);
    assert_non_null(r);
    assert_true(ws_reader_is_idle(r));
    for (size_t i = 0; i < sent.len; i++) {
        ws_reader_feed(r, sent.ptr + i, 1);
        while (ws_reader_next(r, &m) != WS_MORE) {
        }
        assert_int_equal(ws_reader_is_idle(r), i + 1 == sent.len);
    }
    ws_reader_destroy(r);
    anew();
}

static void deferred_input_is_read_later(void **state)
{
    (void)state;
    struct tidings_error err;
    struct ws_message m;
    put(0x81, STR("one"));
    put(0x81, STR("two"));
    put(0x01, STR("thr"));
    struct ws_reader *r = ws_reader_create(MAX, &err);
    assert_non_null(r);
    char *given = mem_alloc(sent.len); /* of exactly its size, and freed before it is read */
    memcpy(given, sent.ptr, sent.len);
    ws_reader_feed(r, given, 3);
    assert_int_equal(ws_reader_next(r, &m), WS_MORE);
    ws_reader_feed(r, given + 3, sent.len - 3);
    assert_int_equal(ws_reader_next(r, &m), WS_TEXT);
    assert_int_equal(ws_reader_keep(r), 0);
    mem_free(given);
    assert_false(ws_reader_is_idle(r));
    assert_int_equal(ws_reader_keep(r), 0);
    assert_int_equal(ws_reader_next(r, &m), WS_TEXT);
    assert_true(str_eq(m.payload, STR("two")));
    assert_int_equal(ws_reader_keep(r), 0);
    assert_int_equal(ws_reader_next(r, &m), WS_MORE);
    anew();
    put(0x80, STR("ee"));
    ws_reader_feed(r, sent.ptr, sent.len);
    assert_int_equal(ws_reader_next(r, &m), WS_TEXT);
    assert_true(str_eq(m.payload, STR("three")));
    assert_int_equal(ws_reader_next(r, &m), WS_MORE);
    assert_true(ws_reader_is_idle(r));
    ws_reader_destroy(r);
    anew();
}

static void failed_allocation_ends_the_connection(void **state)
{
    (void)state;
    struct tidings_error err;
    struct ws_message m;
    put(0x81, STR("hello"));
    for (long n = 1, reached = true; reached; n++) {
        fail_alloc_start(n);
        struct ws_reader *r = ws_reader_create(MAX, &err);
        enum ws_event event = WS_MORE;
        if (r) {
            ws_reader_feed(r, sent.ptr, sent.len);
            event = ws_reader_next(r, &m);
        }
        reached = fail_alloc_stop();
        if (!r) {
            assert_int_equal(err.code, TIDINGS_E_NOMEM);
        } else {
            assert_int_equal(event, reached ? WS_FAILED : WS_TEXT);
            assert_int_equal(m.code, reached ? WS_INTERNAL : 0);
        }
        ws_reader_destroy(r);
        assert_int_equal(fail_alloc_live(), 0);
    }
    anew();
}

int main(void)
{
    const struct CMUnitTest anywhere[] = {
        cmocka_unit_test(rfc_example_is_accepted),
        cmocka_unit_test(tokens_are_found_in_lists_in_any_case),
        cmocka_unit_test(malformed_handshake_is_rejected_with_a_reason),
        cmocka_unit_test(headers_have_the_shortest_form),
        cmocka_unit_test(reason_is_cut_between_characters),
    };
    const struct CMUnitTest with_wslay[] = {
        cmocka_unit_test(messages_are_the_same_for_every_split),
        cmocka_unit_test(fragments_are_joined_around_control_frames),
        cmocka_unit_test(long_lengths_are_read),
        cmocka_unit_test(violations_give_their_close_code),
        cmocka_unit_test(messages_do_not_interleave),
        cmocka_unit_test(unmasked_frames_are_rejected),
        cmocka_unit_test(lengths_are_rejected_if_not_minimal),
        cmocka_unit_test(oversized_message_is_rejected_before_it_arrives),
        cmocka_unit_test(oversized_frame_is_rejected_at_its_header),
        cmocka_unit_test(progress_counts_the_bytes_of_the_message),
        cmocka_unit_test(reader_is_idle_only_between_messages),
        cmocka_unit_test(deferred_input_is_read_later),
        cmocka_unit_test(failed_allocation_ends_the_connection),
    };
    struct tidings_error err = {0};
    struct ws_reader *r = ws_reader_create(MAX, &err);
    bool is_absent = !r && err.code == TIDINGS_E_UNSUPPORTED;
    ws_reader_destroy(r);
    anew();
    buf_init(&heard, SIZE_MAX);
    int rc = cmocka_run_group_tests(anywhere, NULL, NULL);
    rc += is_absent ? 0 : cmocka_run_group_tests(with_wslay, NULL, NULL);
    buf_deinit(&sent);
    buf_deinit(&heard);
    return rc;
}
