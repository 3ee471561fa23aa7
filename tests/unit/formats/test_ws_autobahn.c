/* SPDX-License-Identifier: MIT
 *
 * The cases of the Autobahn test suite (tests/data/autobahn.tsv), read as a server and as a client:
 * the same events and the same end; text that cannot be UTF-8 ends the connection immediately. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "formats/websocket.h"

#define CASES 301u
#define LINE_BYTES 8192
#define MESSAGE_MAX (16u << 20)

struct run {
    struct ws_reader *reader;
    bool is_client;
    bool is_over;
    size_t chop;        /* bytes in a write; 0: a frame */
    bool is_gathered;   /* all frames until the next wait are one write */
    struct buf waiting; /* … which is this one */
    char got[128];
    char last[16];
    unsigned times; /* … in a row */
};

static void note_last(struct run *r)
{
    size_t len = strlen(r->got);
    if (r->times > 0) {
        (void)snprintf(r->got + len, sizeof(r->got) - len, r->times > 2 ? "%s%s*%u" : "%s%s",
                       len > 0 ? " " : "", r->last, r->times);
    }
    if (r->times == 2) {
        len = strlen(r->got);
        (void)snprintf(r->got + len, sizeof(r->got) - len, " %s", r->last);
    }
    r->times = 0;
}

static void note(struct run *r, enum ws_event event, unsigned code)
{
    static const char messages[] = {
        [WS_TEXT] = 'T', [WS_PING] = 'P', [WS_PONG] = 'O', [WS_CLOSE] = 'C', [WS_FAILED] = 'F'};
    char text[16];
    r->is_over = event == WS_CLOSE || event == WS_FAILED;
    (void)snprintf(text, sizeof(text), r->is_over ? "%c%u" : "%c", messages[event], code);
    if (strcmp(text, r->last) != 0) {
        note_last(r);
    }
    memcpy(r->last, text, sizeof(text));
    r->times++;
}

/* One write. */
static void hear(struct run *r, struct tidings_str bytes)
{
    struct ws_message m;
    enum ws_event event;
    if (r->is_over) {
        return;
    }
    ws_reader_feed(r->reader, bytes.ptr, bytes.len);
    while (!r->is_over && (event = ws_reader_next(r->reader, &m)) != WS_MORE) {
        note(r, event, m.code);
    }
}

static void send_bytes(struct run *r, struct tidings_str bytes)
{
    if (r->is_gathered) {
        buf_puts(&r->waiting, bytes);
        return;
    }
    size_t step = r->chop > 0 ? r->chop : bytes.len;
    for (size_t at = 0; at < bytes.len; at += step) {
        hear(r, tidings_strn(bytes.ptr + at, bytes.len - at < step ? bytes.len - at : step));
    }
}

static void send_waiting(struct run *r)
{
    assert_int_equal(r->waiting.failed, 0);
    hear(r, buf_str(&r->waiting));
    buf_clear(&r->waiting);
}

/* A wait: the input up to here has arrived. */
static void note_wait(struct run *r)
{
    send_waiting(r);
    note_last(r);
    r->last[0] = '\0';
    size_t len = strlen(r->got);
    (void)snprintf(r->got + len, sizeof(r->got) - len, "%s~", len > 0 ? " " : "");
}

static unsigned hex(const char *digits)
{
    char text[3] = {digits[0], digits[1], '\0'};
    return (unsigned)strtoul(text, NULL, 16);
}

/* The payload, with the end of each write; writes above `must_fail` arrive too late. */
struct payload {
    struct buf bytes;
    size_t ends[4], count, must_fail;
};

static void read_payload(struct payload *p, struct tidings_str text)
{
    struct tidings_str unit;
    uint64_t n = 0;
    bool is_many = false;
    *p = (struct payload){.must_fail = SIZE_MAX};
    buf_init(&p->bytes, MESSAGE_MAX);
    struct tidings_str count = str_cut(text, '*', &unit, &is_many);
    if (is_many) {
        assert_true(str_to_u64(count, &n) && buf_reserve(&p->bytes, n) == 0);
        for (size_t i = 0; i < n; i++) {
            size_t period = unit.len / 2;
            p->bytes.ptr[i] = i < period ? (char)hex(unit.ptr + 2 * i) : p->bytes.ptr[i - period];
        }
        p->bytes.len = n;
        return;
    }
    for (size_t i = 0; i < text.len;) {
        if (text.ptr[i] == '|') {
            p->ends[p->count++] = p->bytes.len;
            i++;
        } else if (text.ptr[i] == '!') {
            p->must_fail = p->bytes.len;
            i++;
        } else {
            buf_putc(&p->bytes, (char)hex(text.ptr + i));
            i += 2;
        }
    }
}

/* Writes the bytes of the frame to `out`; returns the start of its payload. */
static size_t put_frame(struct buf *out, const struct run *r, unsigned first,
                        struct tidings_str payload)
{
    static const char mask[4] = {0x12, (char)0x93, 0x55, 0x7f};
    char header[WS_MAX_HEADER];
    size_t len = (size_t)(ws_write_header(header, WS_OP_TEXT, payload.len) - header);
    header[0] = (char)first;
    header[1] = (char)((unsigned char)header[1] | (r->is_client ? 0 : 0x80u));
    buf_put(out, header, len);
    buf_put(out, mask, r->is_client ? 0 : sizeof(mask));
    size_t begin = out->len;
    buf_puts(out, payload);
    for (size_t i = 0; !r->is_client && i < payload.len; i++) {
        out->ptr[begin + i] ^= mask[i & 3u];
    }
    assert_int_equal(out->failed, 0);
    return begin;
}

static void send_frame(struct run *r, struct tidings_str text)
{
    struct payload p;
    struct buf frame;
    struct tidings_str rest, often;
    uint64_t times = 1;
    bool is_repeated = false;
    text = str_cut(text, '^', &often, &is_repeated);
    assert_true(!is_repeated || str_to_u64(often, &times));
    unsigned first = hex(str_cut(text, ':', &rest, NULL).ptr);
    read_payload(&p, rest);
    buf_init(&frame, MESSAGE_MAX + 64);
    size_t at = 0, begin = put_frame(&frame, r, first, buf_str(&p.bytes));
    if (p.count > 0) {
        send_waiting(r);
    }
    for (size_t i = 0; i < p.count; i++) {
        assert_false(r->is_over);
        hear(r, tidings_strn(frame.ptr + at, begin + p.ends[i] - at));
        at = begin + p.ends[i];
    }
    assert_true(p.must_fail == SIZE_MAX || r->is_over);
    send_bytes(r, tidings_strn(frame.ptr + at, frame.len - at));
    for (uint64_t i = 1; i < times && !r->is_over; i++) {
        send_bytes(r, buf_str(&frame));
    }
    buf_deinit(&frame);
    buf_deinit(&p.bytes);
}

static void check_case(struct tidings_str line, bool is_client)
{
    struct tidings_str rest;
    struct tidings_error err = {0};
    uint64_t chop = 0;
    bool has_more = true;
    struct tidings_str number = str_cut(line, '\t', &rest, NULL);
    struct tidings_str writes = str_cut(rest, '\t', &rest, NULL);
    bool is_gathered = str_eq(writes, STR("-"));
    assert_true(is_gathered || str_to_u64(writes, &chop));
    struct tidings_str wanted = str_cut(rest, '\t', &rest, NULL);
    struct run r = {.is_client = is_client, .chop = chop, .is_gathered = is_gathered};
    buf_init(&r.waiting, 2 * MESSAGE_MAX);
    r.reader = is_client ? ws_reader_create_client(MESSAGE_MAX, &err)
                         : ws_reader_create(MESSAGE_MAX, &err);
    assert_non_null(r.reader);
    while (has_more) {
        struct tidings_str frame = str_cut(rest, ' ', &rest, &has_more);
        bool is_late = str_eq(frame, STR("!"));
        if (is_late) {
            send_waiting(&r);
        } else if (str_eq(frame, STR("~"))) {
            note_wait(&r);
        } else {
            send_frame(&r, frame);
        }
        if (is_late && !r.is_over) {
            fail_msg("%.*s goes on too long", STR_ARG(number));
        }
    }
    send_waiting(&r);
    note_last(&r);
    if (!str_eq(tidings_str(r.got), wanted)) {
        fail_msg("%.*s of a %s: %s, not %.*s", STR_ARG(number), is_client ? "server" : "client",
                 r.got, STR_ARG(wanted));
    }
    buf_deinit(&r.waiting);
    ws_reader_destroy(r.reader);
}

static void cases_end_as_in_the_table(void **state)
{
    (void)state;
    char line[LINE_BYTES];
    unsigned cases = 0;
    FILE *file = fopen(TEST_DATA "autobahn.tsv", "re");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        struct tidings_str text = tidings_strn(line, strcspn(line, "\n"));
        if (text.len > 0 && line[0] != '#') {
            check_case(text, false);
            check_case(text, true);
            cases++;
        }
    }
    fclose(file);
    assert_int_equal(cases, CASES);
    print_message("Autobahn: %u cases, of a client and of a server\n", cases);
}

int main(void)
{
    if (!ws_library()) {
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases_end_as_in_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
