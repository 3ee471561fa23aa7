/* SPDX-License-Identifier: MIT
 *
 * Sending and receiving. A world is idle when every awaited answer has arrived, no provider call is
 * pending, all marks were received, and three consecutive turns bring nothing.
 */
#include "support/twin_wire.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <tidings/tidings.h>

#include "server/server_internal.h"
#include "server/worker_thread.h"

#define PATIENCE_S 60

void twin_hang_up(struct twin_world *w, enum twin_wire_name name)
{
    struct twin_wire *wire = &w->wires[name];
    if (wire->fd >= 0) {
        close(wire->fd);
    }
    wire->fd = -1;
    wire->is_awaited = false;
}

void twin_connect(struct twin_world *w, enum twin_wire_name name)
{
    struct twin_wire *wire = &w->wires[name];
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    char path[256];
    twin_hang_up(w, name);
    twin_path(w, "", name == TWIN_LINES ? "lines" : "http", path);
    int n = snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
    twin_require(n < (int)sizeof(to.sun_path), "a short path");
    wire->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    twin_require(connect(wire->fd, (struct sockaddr *)&to, sizeof(to)) == 0, "a connection");
    wire->over = false;
    wire->begins = wire->compared = wire->remembered = 0;
    buf_clear(&wire->heard);
}

/* Take what has come. false: nothing has. */
static bool hear(struct twin_wire *wire)
{
    char bytes[16384];
    bool any = false;
    ssize_t n = -1;
    errno = EAGAIN;
    while (wire->fd >= 0 && !wire->over &&
           (n = recv(wire->fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
        buf_put(&wire->heard, bytes, (size_t)n);
        any = true;
    }
    if (wire->fd >= 0 && !wire->over && (n == 0 || (errno != EAGAIN && errno != EINTR))) {
        wire->over = any = true;
    }
    twin_require(!wire->heard.failed, "memory for what is heard");
    return any;
}

/* Waits that long for an event, and receives the input. false: no event. */
static bool hear_all(struct twin_world *w, int ms)
{
    struct pollfd ready[TWIN_WIRES + 1];
    for (size_t i = 0; i < TWIN_WIRES; i++) {
        bool is_there = w->wires[i].fd >= 0 && !w->wires[i].over;
        ready[i] = (struct pollfd){.fd = is_there ? w->wires[i].fd : -1, .events = POLLIN};
    }
    ready[TWIN_WIRES] = (struct pollfd){.fd = tidings_server_fd(w->server), .events = POLLIN};
    bool stirs = poll(ready, TWIN_WIRES + 1, ms) > 0;
    for (size_t i = 0; i < TWIN_WIRES && stirs; i++) {
        if (ready[i].revents != 0) {
            (void)hear(&w->wires[i]);
        }
    }
    return stirs;
}

static ptrdiff_t find_text(struct tidings_str in, const char *text)
{
    const char *at = in.len > 0 ? memmem(in.ptr, in.len, text, strlen(text)) : NULL;
    return at ? at - in.ptr : -1;
}

/* Returns true if the answer to the last request has arrived: all of it, or the first event of a
 * stream. */
static bool is_answered(const struct twin_wire *wire)
{
    struct tidings_str heard = str_skip(buf_str(&wire->heard), wire->begins);
    if (wire->over) {
        return true;
    }
    if (wire->id[0] != '\0') {
        return find_text(heard, wire->id) >= 0 || find_text(heard, "/acknowledged") >= 0;
    }
    ptrdiff_t end = find_text(heard, "\r\n\r\n");
    if (end < 0) {
        return false;
    }
    struct tidings_str head = tidings_strn(heard.ptr, (size_t)end + 2);
    struct tidings_str body = str_skip(heard, (size_t)end + 4);
    ptrdiff_t at = find_text(head, "\r\nContent-Length: ");
    bool is_bare = wire->is_head || str_starts(head, STR("HTTP/1.1 204")) ||
                   str_starts(head, STR("HTTP/1.1 304"));
    if (at < 0 && find_text(head, "text/event-stream") >= 0 && !wire->is_head) {
        return find_text(body, wire->is_post ? "data: {" : "\n\n") >= 0;
    }
    size_t length = at < 0 ? 0 : strtoul(head.ptr + at + 18, NULL, 10);
    return is_bare || body.len >= length;
}

/* The text after the last `before` in the new input, up to `after`. */
static void remember(struct twin_wire *wire, const char *before, char after, struct buf *out)
{
    struct tidings_str rest = str_skip(buf_str(&wire->heard), wire->remembered);
    for (ptrdiff_t at; (at = find_text(rest, before)) >= 0;) {
        rest = str_skip(rest, (size_t)at + strlen(before));
        ptrdiff_t end = str_find(rest, after);
        if (end > 0) {
            buf_clear(out);
            buf_puts(out, tidings_strn(rest.ptr, (size_t)end));
        }
    }
}

static void remember_all(struct twin_world *w)
{
    for (size_t i = 0; i < TWIN_OWN; i++) {
        struct twin_wire *wire = &w->wires[i];
        remember(wire, "Mcp-Session-Id: ", '\r', &w->session);
        remember(wire, "\nid: ", '\n', &w->event);
        remember(wire, "\"dev.tidings/cursor\":\"", '"', &w->cursor);
        remember(wire, "\"cursor\":\"", '"', &w->cursor);
        remember(wire, "\"nextCursor\":\"", '"', &w->page);
        remember(wire, "\"dev.tidings/etag\":\"", '"', &w->etag);
        remember(wire, "event: endpoint\ndata: ", '\n', &w->messages);
        wire->remembered = wire->heard.len;
    }
}

static bool is_waiting(const struct twin_world *w)
{
    bool waits = w->passed != w->barriers || w->server->workers.threads[0]->core.worker.jobs > 0;
    for (size_t i = 0; i < TWIN_WIRES; i++) {
        const struct twin_wire *wire = &w->wires[i];
        waits = waits || (wire->is_awaited && !is_answered(wire));
    }
    return waits;
}

static void say_why(const struct twin_world *w)
{
    fprintf(stderr, "marks: %u of %u, at providers: %zu\n", w->passed, w->barriers,
            w->server->workers.threads[0]->core.worker.jobs);
    for (size_t i = 0; i < TWIN_WIRES; i++) {
        const struct twin_wire *wire = &w->wires[i];
        if (wire->is_awaited && !is_answered(wire)) {
            fprintf(stderr, "awaited on connection %zu: %s after %.*s\n", i, wire->id,
                    (int)(wire->heard.len - wire->begins), wire->heard.ptr + wire->begins);
        }
    }
}

void twin_run_until_idle(struct twin_world *w)
{
    time_t until = time(NULL) + PATIENCE_S;
    for (int quiet = 0; quiet < 3;) {
        twin_require(tidings_server_turn(w->server, NULL) > 0, "the server lives");
        bool waits = is_waiting(w);
        bool stirs = hear_all(w, waits ? 1 : 0);
        quiet = stirs || waits ? 0 : quiet + 1;
        if (time(NULL) >= until) {
            say_why(w);
            twin_require(false, "the server comes to rest");
        }
    }
    for (size_t i = 0; i < TWIN_WIRES; i++) {
        w->wires[i].is_awaited = false;
    }
    remember_all(w);
}

static const struct buf *stands_for(const struct twin_world *w, char c)
{
    return c == 'S'   ? &w->session
           : c == 'I' ? &w->event
           : c == 'C' ? &w->cursor
           : c == 'L' ? &w->page
           : c == 'E' ? &w->etag
           : c == 'M' ? &w->messages
                      : NULL;
}

static void put_expanded(const struct twin_world *w, struct tidings_str text, struct buf *out)
{
    for (size_t i = 0; i < text.len; i++) {
        bool may = text.ptr[i] == '$' && i + 1 < text.len;
        const struct buf *value = may ? stands_for(w, text.ptr[i + 1]) : NULL;
        if (value) {
            buf_puts(out, buf_str(value));
            i++;
        } else {
            buf_putc(out, text.ptr[i]);
        }
    }
}

static void send_all(struct twin_world *w, struct twin_wire *wire, struct tidings_str s)
{
    while (s.len > 0 && !wire->over) {
        ssize_t n = send(wire->fd, s.ptr, s.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            s = str_skip(s, (size_t)n);
        } else if (errno != EAGAIN && errno != EINTR) {
            return;
        } else {
            twin_require(tidings_server_turn(w->server, NULL) > 0, "the server lives");
            (void)hear(wire);
        }
    }
}

/* The request line and all fields. */
static void put_head(const struct twin_world *w, enum twin_wire_name name, struct tidings_str head,
                     struct buf *out)
{
    const char *who = name == TWIN_ROOT ? "root" : name == TWIN_EDITOR ? "editor" : "guest";
    struct tidings_str rest;
    struct tidings_str line = str_cut(head, '\n', &rest, NULL);
    put_expanded(w, line, out);
    buf_putf(out, " HTTP/1.1\r\nHost: w\r\nAuthorization: Bearer %s-%s\r\n", who,
             "0123456789abcdef0123456789abcdef");
    while (rest.len > 0) {
        put_expanded(w, str_cut(rest, '\n', &rest, NULL), out);
        buf_puts(out, STR("\r\n"));
    }
}

/* `"id":7,` of a message; empty: it has none. */
static void find_id(struct tidings_str message, char out[24])
{
    struct tidings_str rest = STR_EMPTY;
    ptrdiff_t at = find_text(message, "\"id\":");
    struct tidings_str from = str_skip(message, at < 0 ? message.len : (size_t)at);
    str_cut(from, ',', &rest, NULL);
    (void)snprintf(out, 24, "%.*s", (int)(from.len - rest.len), from.ptr);
}

/* A frame of text, masked with zeros. */
static void put_frame(struct tidings_str message, struct buf *out)
{
    twin_require(message.len < 65536, "a short message");
    buf_putc(out, (char)0x81);
    buf_putc(out, (char)(message.len < 126 ? 0x80 | message.len : 0x80 | 126));
    if (message.len >= 126) {
        buf_putc(out, (char)(message.len >> 8));
        buf_putc(out, (char)(message.len & 255));
    }
    buf_put(out, "\0\0\0\0", 4);
    buf_puts(out, message);
}

static void shake_hands(struct twin_world *w)
{
    struct twin_wire *wire = &w->wires[TWIN_SOCKET];
    struct buf text;
    buf_init(&text, TWIN_HEARD_MAX);
    put_head(w, TWIN_SOCKET,
             STR("GET /mcp\nUpgrade: websocket\nConnection: Upgrade\nSec-WebSocket-Version: 13\n"
                 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\nSec-WebSocket-Protocol: mcp"),
             &text);
    buf_puts(&text, STR("\r\n"));
    wire->id[0] = '\0';
    wire->is_awaited = true;
    send_all(w, wire, buf_str(&text));
    buf_deinit(&text);
    twin_run_until_idle(w);
}

static void put_request(struct twin_world *w, enum twin_wire_name name, struct tidings_str head,
                        struct tidings_str content, struct buf *out)
{
    put_head(w, name, head, out);
    if (content.len > 0) {
        buf_putf(out, "Content-Length: %zu\r\n", content.len);
    }
    buf_puts(out, STR("\r\n"));
    buf_puts(out, content);
}

void twin_send(struct twin_world *w, enum twin_wire_name name, struct tidings_str head,
               struct tidings_str body)
{
    struct twin_wire *wire = &w->wires[name];
    bool is_messages = name == TWIN_LINES || name == TWIN_SOCKET;
    struct buf text, content;
    if (wire->fd < 0 || wire->over) {
        twin_connect(w, name);
    }
    if (name == TWIN_SOCKET && wire->heard.len == 0) {
        shake_hands(w);
    }
    buf_init(&text, TWIN_HEARD_MAX);
    buf_init(&content, TWIN_HEARD_MAX);
    put_expanded(w, body, &content);
    if (is_messages) {
        find_id(body, wire->id);
        wire->is_awaited = wire->id[0] != '\0';
    } else {
        put_request(w, name, head, buf_str(&content), &text);
        wire->is_awaited = true;
        wire->is_head = str_starts(head, STR("HEAD "));
        wire->is_post = str_starts(head, STR("POST "));
    }
    if (name == TWIN_LINES) {
        buf_puts(&text, buf_str(&content));
        buf_putc(&text, '\n');
    } else if (name == TWIN_SOCKET) {
        put_frame(buf_str(&content), &text);
    }
    (void)hear(wire);
    wire->begins = wire->heard.len;
    send_all(w, wire, buf_str(&text));
    buf_deinit(&text);
    buf_deinit(&content);
}

struct tidings_str twin_ask(struct twin_world *w, enum twin_wire_name name, struct tidings_str head,
                            struct tidings_str body)
{
    struct twin_wire *wire = &w->wires[name];
    buf_clear(&wire->heard);
    twin_send(w, name, head, body);
    twin_run_until_idle(w);
    return buf_str(&wire->heard);
}
