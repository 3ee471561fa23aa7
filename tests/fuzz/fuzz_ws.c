/* SPDX-License-Identifier: MIT
 *
 * Any bytes as frames of a WebSocket: the same messages and the same end whether they come whole,
 * one by one, or in sevens to readers that are thrown away whenever they say they may be. The
 * highest bit of the first byte makes the reader a client's, to which nothing is masked; the others
 * unmask for the fuzzer: with one of them set, the rest is a list of (first byte, length, payload)
 * that is made into frames as that reader wants them, masked or not; the reader of the other side
 * refuses them. The bytes are also judged as UTF-8 in pieces, as those of a message are: the same
 * verdict as for the whole, at the first byte that decides it.
 */
#include <stdlib.h>

#include "base/str.h"
#include "formats/websocket.h"

#define MAX 64u
#define TO_CLIENT 0x80u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

/* false: nothing more is read. */
static bool hear(struct ws_reader *r, struct buf *out)
{
    struct ws_message m;
    enum ws_event event;
    while ((event = ws_reader_next(r, &m)) != WS_MORE) {
        require(m.payload.len <= (event == WS_TEXT ? MAX : WS_MAX_CONTROL));
        require(event == WS_PING || event == WS_PONG || str_is_utf8(m.payload));
        require(buf_putc(out, (char)('0' + (int)event)) == 0 && buf_puts(out, m.payload) == 0 &&
                buf_putu(out, m.code) == 0 && buf_putc(out, '\n') == 0);
        if (event == WS_CLOSE || event == WS_FAILED) {
            return false;
        }
    }
    return true;
}

static struct ws_reader *make_reader(bool is_client)
{
    struct tidings_error err;
    return is_client ? ws_reader_create_client(MAX, &err) : ws_reader_create(MAX, &err);
}

static void read_frames(struct tidings_str bytes, bool is_client, size_t step, bool anew,
                        struct buf *out)
{
    struct ws_reader *r = make_reader(is_client);
    buf_init(out, SIZE_MAX);
    for (size_t at = 0; r && at < bytes.len; at += step) {
        ws_reader_feed(r, bytes.ptr + at, bytes.len - at < step ? bytes.len - at : step);
        if (!hear(r, out)) {
            break;
        }
        if (anew && ws_reader_is_idle(r)) {
            ws_reader_destroy(r);
            r = make_reader(is_client);
        }
    }
    ws_reader_destroy(r);
}

static void make_frames(const uint8_t *data, size_t size, bool is_client, struct buf *out)
{
    static const char mask[4] = {0x5a, 0x01, (char)0x80, 0x33};
    for (size_t at = 0; at + 2 <= size;) {
        size_t len = data[at + 1] < size - at - 2 ? data[at + 1] : size - at - 2;
        char header[WS_MAX_HEADER];
        size_t n = (size_t)(ws_write_header(header, WS_OP_TEXT, len) - header);
        header[0] = (char)data[at];
        header[1] = (char)((unsigned char)header[1] | (is_client ? 0 : 0x80u));
        buf_put(out, header, n);
        buf_put(out, mask, is_client ? 0 : 4);
        for (size_t i = 0; i < len; i++) {
            unsigned char key = is_client ? 0 : (unsigned char)mask[i % 4];
            buf_putc(out, (char)(data[at + 2 + i] ^ key));
        }
        at += 2 + len;
    }
}

static void judge_pieces(struct tidings_str text, size_t step)
{
    struct utf8_pieces u = {0};
    bool ok = true;
    for (size_t at = 0; ok && at < text.len; at += step) {
        size_t len = text.len - at < step ? text.len - at : step;
        ok = utf8_pieces_add(&u, tidings_strn(text.ptr + at, len));
    }
    require((ok && utf8_pieces_end(&u)) == str_is_utf8(text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    judge_pieces(tidings_strn((const char *)data, size), 1);
    judge_pieces(tidings_strn((const char *)data, size), 11);
    struct buf frames, whole, dribbled, anew;
    bool is_client = size > 0 && data[0] & TO_CLIENT;
    buf_init(&frames, SIZE_MAX);
    if (size > 0 && data[0] & ~TO_CLIENT) {
        make_frames(data + 1, size - 1, is_client, &frames);
    } else if (size > 1) {
        buf_put(&frames, data + 1, size - 1);
    }
    read_frames(buf_str(&frames), is_client, SIZE_MAX, false, &whole);
    read_frames(buf_str(&frames), is_client, 1, false, &dribbled);
    read_frames(buf_str(&frames), is_client, 7, true, &anew);
    require(str_eq(buf_str(&whole), buf_str(&dribbled)));
    require(str_eq(buf_str(&whole), buf_str(&anew)));
    if (!is_client && frames.len >= 2 && (unsigned char)frames.ptr[1] >= 0x80) { /* masked */
        struct buf other;
        read_frames(buf_str(&frames), true, SIZE_MAX, false, &other);
        require(other.len == 0 || other.ptr[0] == (char)('0' + (int)WS_FAILED));
        buf_deinit(&other);
    }
    buf_deinit(&frames);
    buf_deinit(&whole);
    buf_deinit(&dribbled);
    buf_deinit(&anew);
    return 0;
}
