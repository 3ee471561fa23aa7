/* SPDX-License-Identifier: MIT
 *
 * The workers, the clients, and the turns between them.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/http_wire.h"

#define QUIET_TURNS 4
#define MAX_TURNS 10000
#define NOTIFICATIONS_MAX (4u << 20)

const char wire_upgrade[] = "GET /mcp HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
                            "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

static void ping(void *user, const struct tidings_http_request *request,
                 struct tidings_http_response *response)
{
    (void)user;
    (void)request;
    tidings_http_reply(response, 200, "text/plain", STR("pong"));
}

static void echo(void *user, const struct tidings_http_request *request,
                 struct tidings_http_response *response)
{
    (void)user;
    tidings_http_reply(response, 200, "text/plain", request->body);
}

static struct http_worker *find_worker(void *user, unsigned index)
{
    struct wire *w = user;
    return index < HARNESS_WORKERS ? w->hw[index] : NULL;
}

void wire_start(struct wire *w)
{
    struct tidings_error err = {0};
    memset(w, 0, sizeof(*w));
    harness_init(&w->b);
    w->b.worker_count = HARNESS_WORKERS;
    harness_start(&w->b);
    fake_mount(&w->fake, &w->b);
    fake_add(&w->fake, "mem://x/a");
    w->routes[0] = (struct http_route){.path = "/ping", .fn = ping};
    w->routes[1] = (struct http_route){.path = "/echo", .fn = echo};
    w->config = (struct http_config){
        .routes = w->routes,
        .route_count = 2,
        .max_body = WIRE_MAX_BODY,
        .legacy_sse = true,
        .events = true,
        .keepalive_ms = 40000,
        .header_timeout_ms = 10000,
        .body_timeout_ms = 20000,
        .idle_timeout_ms = 60000,
        .stall_timeout_ms = 30000,
    };
    for (unsigned i = 0; i < HARNESS_WORKERS; i++) {
        w->hw[i] = http_worker_create(w->b.worker[i], &w->config, find_worker, w, &err);
        assert_non_null(w->hw[i]);
    }
}

void wire_stop(struct wire *w)
{
    for (size_t i = 0; i < w->client_count; i++) {
        wire_leave(&w->clients[i]);
        buf_deinit(&w->clients[i].heard);
    }
    for (unsigned i = 0; i < HARNESS_WORKERS; i++) {
        /* The count is exact: every counted connection exists, and no closed one is counted. */
        assert_int_equal(worker_inbox_count(http_worker_inbox(w->hw[i])), 0);
        http_worker_destroy(w->hw[i]);
    }
    harness_stop(&w->b);
}

/* Take what has come. false: nothing has. */
static bool hear(struct wire_client *c)
{
    char bytes[8192];
    ssize_t n = 0;
    bool any = false;
    if (c->fd < 0 || c->over || c->deaf) {
        return false;
    }
    while ((n = recv(c->fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
        assert_int_equal(buf_put(&c->heard, bytes, (size_t)n), 0);
        any = true;
    }
    c->over = n == 0 || (errno != EAGAIN && errno != EINTR);
    return any || c->over;
}

void wire_turn(struct wire *w)
{
    int quiet = 0;
    for (int i = 0; quiet < QUIET_TURNS; i++) {
        assert_true(i < MAX_TURNS);
        loop_turn(w->b.loop);
        harness_run_until_idle(&w->b);
        bool any = false;
        for (size_t k = 0; k < w->client_count; k++) {
            any = hear(&w->clients[k]) || any;
        }
        quiet = any ? 0 : quiet + 1;
    }
}

static void make_older(struct connection *c, void *user)
{
    const uint32_t *ms = user;
    c->deadline.noted -= *ms;
    c->deadline.listed_ms -= *ms;
}

void wire_age(struct wire *w, unsigned worker, enum conn_state state, uint64_t ms)
{
    struct http_worker *hw = w->hw[worker];
    uint32_t older = (uint32_t)ms;
    connections_each(&hw->conns, 1u << state, make_older, &older);
    deadlines_run(&hw->base.deadlines);
    wire_turn(w);
}

static void on_drained(void *user)
{
    struct wire *w = user;
    w->drained++;
}

void wire_drain(struct wire *w, unsigned worker)
{
    drain_begin(w->b.worker[worker], 0);
    http_worker_drain(w->hw[worker], on_drained, w);
    wire_turn(w);
}

static void be_the_only_one(struct connection *c, void *user)
{
    struct connection **found = user;
    assert_null(*found);
    *found = c;
}

struct connection *wire_only(struct connections *all)
{
    struct connection *found = NULL;
    for (unsigned i = 0; i < all->kind->state_count; i++) {
        struct connection *c = NULL;
        connections_each(all, 1u << i, be_the_only_one, &c);
        if (c) {
            assert_null(found);
            found = c;
            assert_int_equal(c->state, i);
        }
    }
    return found;
}

struct http_conn *wire_conn(struct wire *w, unsigned worker)
{
    return (struct http_conn *)(void *)wire_only(&w->hw[worker]->conns);
}

enum conn_state wire_state(struct wire *w, unsigned worker)
{
    const struct http_conn *conn = wire_conn(w, worker);
    return conn ? (enum conn_state)conn->base.state : CONN_GONE;
}

size_t wire_connections(struct wire *w, unsigned worker)
{
    return worker_inbox_count(http_worker_inbox(w->hw[worker]));
}

/* ---- clients --------------------------------------------------------------------------------- */

struct wire_client *wire_connect(struct wire *w, unsigned worker)
{
    int ends[2];
    assert_true(w->client_count < WIRE_CLIENTS);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    struct wire_client *c = &w->clients[w->client_count++];
    *c = (struct wire_client){.wire = w, .fd = ends[1]};
    buf_init(&c->heard, NOTIFICATIONS_MAX);
    struct handover *h = handover_create(ends[0], NULL);
    assert_non_null(h);
    worker_inbox_send(http_worker_inbox(w->hw[worker]), h);
    wire_turn(w);
    return c;
}

void wire_say_bytes(struct wire_client *c, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = send(c->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        assert_true(n > 0 || errno == EAGAIN);
        bytes += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
        wire_turn(c->wire);
    }
}

void wire_say(struct wire_client *c, const char *text)
{
    wire_say_bytes(c, text, strlen(text));
}

void wire_half_close(struct wire_client *c)
{
    assert_int_equal(shutdown(c->fd, SHUT_WR), 0);
    wire_turn(c->wire);
}

void wire_leave(struct wire_client *c)
{
    if (c->fd >= 0) {
        close(c->fd);
        c->fd = -1;
        wire_turn(c->wire);
    }
}

const char *wire_heard(struct wire_client *c)
{
    static char text[NOTIFICATIONS_MAX];
    for (size_t i = 0; i < c->heard.len; i++) {
        text[i] = c->heard.ptr[i] ? c->heard.ptr[i] : ' ';
    }
    text[c->heard.len] = '\0';
    buf_clear(&c->heard);
    return text;
}

size_t wire_count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at += strlen(what)) {
        n++;
    }
    return n;
}

void wire_assert_has(const char *text, const char *what)
{
    if (!strstr(text, what)) {
        fail_msg("no '%s' in: %s", what, text);
    }
}

/* ---- texts ----------------------------------------------------------------------------------- */

const char *wire_listen(const char *uri)
{
    static char text[2048];
    char body[1024];
    int n =
        snprintf(body, sizeof(body),
                 "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"subscriptions/listen\",\"params\":{"
                 "\"notifications\":{\"resourceSubscriptions\":[\"%s\"]},\"_meta\":{"
                 "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                 "\"io.modelcontextprotocol/clientCapabilities\":{}}}}",
                 uri);
    snprintf(text, sizeof(text),
             "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
             "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
             "Mcp-Method: subscriptions/listen\r\nContent-Length: %d\r\n\r\n%s",
             n, body);
    return text;
}

size_t wire_frame(char *out, unsigned first_byte, const char *payload, size_t len)
{
    size_t at = 0;
    out[at++] = (char)first_byte;
    if (len < 126) {
        out[at++] = (char)(0x80 | len);
    } else {
        out[at++] = (char)(0x80 | 126);
        out[at++] = (char)(len >> 8);
        out[at++] = (char)(len & 0xff);
    }
    memset(out + at, 0, 4); /* masked by zeros */
    memcpy(out + at + 4, payload, len);
    return at + 4 + len;
}
