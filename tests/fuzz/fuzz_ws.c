/* SPDX-License-Identifier: MIT
 *
 * Any bytes as frames of a WebSocket: the same messages and the same end whether they come whole,
 * one by one, or in sevens to readers that are thrown away whenever they say they may be. The first
 * byte unmasks for the fuzzer: with it set, the rest is a list of (first byte, length, payload)
 * that is made into masked frames. The bytes are also judged as UTF-8 in pieces, as those of a
 * message are: the same verdict as for the whole, at the first byte that decides it.
 */
#include <stdlib.h>

#include "base/utf8.h"
#include "wire/ws.h"

#define MAX 64u

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

static void read_frames(struct tidings_str bytes, size_t step, bool anew, struct buf *out)
{
    struct tidings_error err;
    struct ws_reader *r = ws_reader_create(MAX, &err);
    buf_init(out, SIZE_MAX);
    for (size_t at = 0; r && at < bytes.len; at += step) {
        ws_reader_feed(r, bytes.ptr + at, bytes.len - at < step ? bytes.len - at : step);
        if (!hear(r, out)) {
            break;
        }
        if (anew && ws_reader_is_idle(r)) {
            ws_reader_destroy(r);
            r = ws_reader_create(MAX, &err);
        }
    }
    ws_reader_destroy(r);
}

static void make_frames(const uint8_t *data, size_t size, struct buf *out)
{
    static const char mask[4] = {0x5a, 0x01, (char)0x80, 0x33};
    for (size_t at = 0; at + 2 <= size;) {
        size_t len = data[at + 1] < size - at - 2 ? data[at + 1] : size - at - 2;
        char header[WS_MAX_HEADER];
        size_t n = (size_t)(ws_write_header(header, WS_OP_TEXT, len) - header);
        header[0] = (char)data[at];
        header[1] = (char)((unsigned char)header[1] | 0x80u);
        buf_put(out, header, n);
        buf_put(out, mask, 4);
        for (size_t i = 0; i < len; i++) {
            buf_putc(out, (char)(data[at + 2 + i] ^ (unsigned char)mask[i % 4]));
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
    buf_init(&frames, SIZE_MAX);
    if (size > 0 && data[0]) {
        make_frames(data + 1, size - 1, &frames);
    } else if (size > 1) {
        buf_put(&frames, data + 1, size - 1);
    }
    read_frames(buf_str(&frames), SIZE_MAX, false, &whole);
    read_frames(buf_str(&frames), 1, false, &dribbled);
    read_frames(buf_str(&frames), 7, true, &anew);
    require(str_eq(buf_str(&whole), buf_str(&dribbled)));
    require(str_eq(buf_str(&whole), buf_str(&anew)));
    buf_deinit(&frames);
    buf_deinit(&whole);
    buf_deinit(&dribbled);
    buf_deinit(&anew);
    return 0;
}
