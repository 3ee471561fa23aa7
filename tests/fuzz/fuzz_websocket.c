/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a dialogue over a WebSocket with a whole server. Each piece, up to a byte 0x1e, is
 * sent as one masked text message; a piece that begins with byte 1 is sent unchanged, as frames.
 * The output is unmasked frames of JSON-RPC and a final close frame; every request is answered
 * exactly once.
 */
#include "formats/json.h"
#include "formats/websocket.h"
#include "server/config.h"
#include "support/accounts.h"
#include "support/dialogue.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_DEPTH 16u
#define RAW '\x01'

static const char upgrade[] = "GET /mcp HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
                              "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                              "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

static void say_message(struct tidings_str text)
{
    struct buf frame;
    char header[WS_MAX_HEADER];
    size_t n = (size_t)(ws_write_header(header, WS_OP_TEXT, text.len) - header);
    header[1] = (char)((unsigned char)header[1] | 0x80u);
    buf_init(&frame, SIZE_MAX / 2);
    buf_put(&frame, header, n);
    buf_put(&frame, "\0\0\0\0", 4); /* masked by nothing */
    buf_puts(&frame, text);
    (void)dialogue_say(buf_str(&frame));
    buf_deinit(&frame);
}

/* Requests in raw frames cannot be counted here. */
static void check_message(struct tidings_str text, bool is_counted)
{
    struct json *root = NULL;
    if (is_counted) {
        accounts_told(text);
    } else {
        dialogue_require(jv_parse(text, 512, &root, NULL) == 0, "JSON is told");
        jv_unref(root);
    }
}

/* The received frames. false: one of them was a close frame. */
static bool check_frames(struct tidings_str rest, bool is_counted)
{
    while (rest.len >= 2) {
        unsigned char first = (unsigned char)rest.ptr[0], second = (unsigned char)rest.ptr[1];
        size_t head = second == 127 ? 10 : second == 126 ? 4 : 2, len = second;
        dialogue_require((first & 0xf0u) == 0x80 && second < 128, "whole, unmasked frames");
        dialogue_require(rest.len >= head, "a whole header");
        for (size_t i = 2, n = 0; i < head; i++) {
            len = n = n << 8 | (unsigned char)rest.ptr[i];
        }
        dialogue_require(rest.len - head >= len, "a whole frame");
        struct tidings_str payload = tidings_strn(rest.ptr + head, len);
        rest = str_skip(rest, head + len);
        if ((first & 0xfu) == WS_OP_TEXT) {
            check_message(payload, is_counted);
        } else if ((first & 0xfu) == WS_OP_CLOSE) {
            dialogue_require(rest.len == 0, "nothing follows a goodbye");
            return false;
        } else {
            dialogue_require(len <= WS_MAX_CONTROL, "a short control frame");
        }
    }
    dialogue_require(rest.len == 0, "nothing else");
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tidings_str input = tidings_strn((const char *)data, size), piece;
    if (size > 16384 || memchr(data, '$', size)) {
        return 0; /* replacements would make frames longer than their headers */
    }
    accounts_begin();
    dialogue_open(DIALOGUE_HTTP);
    (void)dialogue_say(tidings_str(upgrade));
    size_t head = 0;
    struct tidings_str heard = dialogue_heard();
    while (head + 4 <= heard.len && memcmp(heard.ptr + head, "\r\n\r\n", 4) != 0) {
        head++;
    }
    dialogue_require(str_starts(heard, STR("HTTP/1.1 101 ")), "a WebSocket");
    bool has_frames = false;
    while (!dialogue_is_over() && dialogue_next(&input, &piece)) {
        if (piece.len > 0 && piece.ptr[0] == RAW) {
            has_frames = true;
            (void)dialogue_say(str_skip(piece, 1));
        } else if (piece.len <= DIALOGUE_MAX_BODY && str_is_utf8(piece)) {
            accounts_asked(piece, MAX_DEPTH);
            say_message(piece);
        }
    }
    bool is_open =
        check_frames(str_skip(dialogue_heard(), head + 4), !has_frames) && !dialogue_is_over();
    if (!has_frames) {
        accounts_check(is_open);
    }
    dialogue_close();
    return 0;
}
