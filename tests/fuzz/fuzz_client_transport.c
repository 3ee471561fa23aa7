/* SPDX-License-Identifier: MIT
 *
 * Our client, with a real transport to a server that sends anything. The first byte selects the
 * transport: 0 lines on a Unix socket, 2 WebSocket, otherwise HTTP on a Unix socket. Whenever the
 * client has sent something, the server sends the next piece, up to a byte 0x1e, in which $I is
 * replaced by the last received id. On a WebSocket it is a text frame; a piece that begins with
 * byte 1 is sent unchanged, as frames. Every request is answered or failed exactly once, and the
 * program receives valid strings.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <tidings/client.h>

#include "base/str.h"
#include "formats/json.h"
#include "formats/websocket.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CONNECTIONS 8u
#define TURNS 100u
#define PIECE_END 0x1e
#define RAW '\x01'
#define KEY_LEN 24u /* of a Sec-WebSocket-Key */

enum way { WAY_LINES, WAY_HTTP, WAY_WEBSOCKET };

static struct {
    char directory[64], path[80], lines[100], http[100], websocket[64];
    enum way way;
    int listener;
    int fds[CONNECTIONS];
    bool is_agreed[CONNECTIONS]; /* that it is a WebSocket */
    struct tidings_str input;
    char id[24];
    unsigned answers;
} s = {.directory = "/tmp/fuzz-link-XXXXXX"};

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

/* ---- the server ------------------------------------------------------------------------------ */

static void leave(void)
{
    rmdir(s.directory);
}

static void find_place(void)
{
    require(mkdtemp(s.directory) != NULL);
    snprintf(s.path, sizeof(s.path), "%s/s", s.directory);
    snprintf(s.lines, sizeof(s.lines), "unix:%s", s.path);
    snprintf(s.http, sizeof(s.http), "http+unix:%s", s.path);
    atexit(leave);
}

static void listen_on_unix(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof(at.sun_path), "%s", s.path);
    s.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    require(bind(s.listener, (struct sockaddr *)&at, sizeof(at)) == 0);
}

static void listen_on_loopback(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    s.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    require(bind(s.listener, (struct sockaddr *)&at, sizeof(at)) == 0);
    require(getsockname(s.listener, (struct sockaddr *)&at, &len) == 0);
    snprintf(s.websocket, sizeof(s.websocket), "ws://127.0.0.1:%u/", ntohs(at.sin_port));
}

static void open_door(void)
{
    if (s.way == WAY_WEBSOCKET) {
        listen_on_loopback();
    } else {
        listen_on_unix();
    }
    require(listen(s.listener, 16) == 0);
    for (size_t i = 0; i < CONNECTIONS; i++) {
        s.fds[i] = -1;
        s.is_agreed[i] = false;
    }
}

static void hang_up(size_t i)
{
    if (s.fds[i] >= 0) {
        close(s.fds[i]);
    }
    s.fds[i] = -1;
    s.is_agreed[i] = false;
}

/* There is no peer left for a closing handshake. */
static void close_door(void)
{
    for (size_t i = 0; i < CONNECTIONS; i++) {
        hang_up(i);
    }
    close(s.listener);
    unlink(s.path);
}

static void note_id(struct tidings_str heard)
{
    static const char mark[] = "\"id\":";
    for (size_t i = 0; i + sizeof(mark) <= heard.len; i++) {
        if (memcmp(heard.ptr + i, mark, sizeof(mark) - 1) == 0) {
            size_t n = 0;
            const char *at = heard.ptr + i + sizeof(mark) - 1;
            while (at + n < heard.ptr + heard.len && at[n] >= '0' && at[n] <= '9') {
                n++;
            }
            snprintf(s.id, sizeof(s.id), "%.*s", (int)(n < 20 ? n : 20), at);
        }
    }
}

/* Frames of a client are masked. */
static void unmask(char *bytes, size_t len)
{
    for (size_t at = 0; at + 6 <= len;) {
        size_t small = (unsigned char)bytes[at + 1] & 0x7fu, extra = small == 126 ? 2 : 0,
               n = small;
        if (small == 126) {
            n = (size_t)(unsigned char)bytes[at + 2] << 8 | (unsigned char)bytes[at + 3];
        }
        size_t begin = at + 2 + extra + 4;
        if (small == 127 || begin + n > len) {
            return; /* the rest is not understood, which is the server's right */
        }
        for (size_t i = 0; i < n; i++) {
            bytes[begin + i] ^= bytes[begin - 4 + i % 4];
        }
        at = begin + n;
    }
}

/* The handshake is as it should be; fuzz_ws_client has others. */
static void agree(size_t i, struct tidings_str heard)
{
    static const char mark[] = "Sec-WebSocket-Key: ";
    char accept[WS_ACCEPT_BYTES];
    const char *key = memmem(heard.ptr, heard.len, mark, sizeof(mark) - 1);
    struct buf out;
    require(key && ws_write_accept(tidings_strn(key + sizeof(mark) - 1, KEY_LEN), accept) == 0);
    buf_init(&out, 4096);
    buf_putf(&out,
             "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
             "Sec-WebSocket-Protocol: mcp\r\nSec-WebSocket-Accept: %s\r\n\r\n",
             accept);
    s.is_agreed[i] = send(s.fds[i], out.ptr, out.len, MSG_NOSIGNAL) == (ssize_t)out.len;
    buf_deinit(&out);
}

/* The piece as a text frame, unless it is one. */
static void put_framed(struct buf *out, struct tidings_str piece)
{
    char header[WS_MAX_HEADER];
    if (piece.len > 0 && piece.ptr[0] == RAW) {
        buf_puts(out, str_skip(piece, 1));
        return;
    }
    buf_put(out, header, (size_t)(ws_write_header(header, WS_OP_TEXT, piece.len) - header));
    buf_puts(out, piece);
}

/* Say the next piece; nothing more to say: hang up. */
static void say(size_t i)
{
    if (s.input.len == 0) {
        hang_up(i);
        return;
    }
    struct tidings_str piece = str_cut(s.input, PIECE_END, &s.input, NULL);
    struct buf out;
    buf_init(&out, 1u << 20);
    for (size_t k = 0; k < piece.len; k++) {
        if (piece.ptr[k] == '$' && k + 1 < piece.len && piece.ptr[k + 1] == 'I') {
            buf_puts(&out, tidings_str(s.id));
            k++;
        } else {
            buf_putc(&out, piece.ptr[k]);
        }
    }
    struct buf framed;
    buf_init(&framed, 1u << 20);
    if (s.way == WAY_WEBSOCKET) {
        put_framed(&framed, buf_str(&out));
    } else {
        buf_puts(&framed, buf_str(&out));
    }
    if (framed.len > 0 && send(s.fds[i], framed.ptr, framed.len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        hang_up(i);
    }
    buf_deinit(&framed);
    buf_deinit(&out);
}

static void hear(size_t i, char *bytes, size_t len)
{
    if (s.way == WAY_WEBSOCKET && !s.is_agreed[i]) {
        agree(i, tidings_strn(bytes, len));
        return;
    }
    if (s.way == WAY_WEBSOCKET) {
        unmask(bytes, len);
    }
    note_id(tidings_strn(bytes, len));
    say(i);
}

static void serve(void)
{
    char bytes[16384];
    bool may_come = true;
    for (size_t i = 0; i < CONNECTIONS; i++) {
        if (s.fds[i] < 0 && may_come) {
            s.fds[i] = accept4(s.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
            may_come = false; /* the next one in the next turn */
        }
        if (s.fds[i] < 0) {
            continue;
        }
        ssize_t n = recv(s.fds[i], bytes, sizeof(bytes), 0);
        if (n > 0) {
            hear(i, bytes, (size_t)n);
        } else if (n == 0 || errno != EAGAIN) {
            hang_up(i);
        }
    }
}

/* ---- the program ----------------------------------------------------------------------------- */

static void on_update(void *user, const struct tidings_update *u)
{
    (void)user;
    struct json *root = NULL;
    require(str_is_utf8(u->uri) && str_is_utf8(u->subscribed_uri) && str_is_utf8(u->from));
    require(str_is_utf8(u->metadata) && str_is_utf8(u->value) && u->merged > 0);
    require(u->params.len == 0 || jv_parse(u->params, 512, &root, NULL) == 0);
    jv_unref(root);
}

static void on_state(void *user, const struct tidings_state_event *e)
{
    (void)user;
    require(str_is_utf8(e->uri));
}

static void on_notification(void *user, struct tidings_str method, struct tidings_str params)
{
    (void)user;
    require(str_is_utf8(method) && str_is_utf8(params));
}

static void on_answer(void *user, struct tidings_str result, const struct tidings_error *err,
                      struct tidings_str error)
{
    (void)user;
    require((result.len == 0) == (err != NULL));
    require(str_is_utf8(result) && str_is_utf8(error));
    s.answers++;
}

static void on_progress(void *user, double progress, double total, struct tidings_str message)
{
    (void)user;
    (void)progress;
    (void)total;
    require(str_is_utf8(message));
}

static void use_client(struct tidings_client *c)
{
    const struct tidings_subscribe_options on = {.fn = on_update};
    const struct tidings_client_asking read = {.method = "resources/read",
                                               .params = "{\"uri\":\"app:///a\"}",
                                               .on_answer = on_answer,
                                               .on_progress = on_progress};
    tidings_client_on_state(c, on_state, NULL);
    tidings_client_on_notification(c, on_notification, NULL);
    require(tidings_client_subscribe(c, "app:///a", &on, NULL) != NULL);
    require(tidings_client_subscribe(c, "app:///*", &on, NULL) != NULL);
    unsigned asked = tidings_client_ask(c, &read, NULL) > 0;
    for (unsigned i = 0, idle = 0; i < TURNS && idle < 4; i++) {
        size_t left = s.input.len;
        serve();
        if (tidings_client_step(c, 0, NULL) <= 0) {
            break;
        }
        idle = s.input.len == 0 && left == 0 ? idle + 1 : 0;
    }
    require(s.answers <= asked);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct tidings_client_options options = {
        .retry_min_ms = 1, .retry_max_ms = 1, .max_bytes = 65536, .list_changes = true};
    if (size == 0 || size > 8192) {
        return 0;
    }
    if (s.path[0] == '\0') {
        find_place();
    }
    s.way = data[0] == 0 ? WAY_LINES : data[0] == 2 ? WAY_WEBSOCKET : WAY_HTTP;
    open_door();
    s.input = tidings_strn((const char *)data + 1, size - 1);
    s.answers = 0;
    s.id[0] = '\0';
    const char *const addresses[] = {s.lines, s.http, s.websocket};
    struct tidings_client *c = tidings_client_create(addresses[s.way], &options, NULL);
    if (c) { /* else without libcurl */
        use_client(c);
    }
    close_door();
    tidings_client_destroy(c);
    return 0;
}
