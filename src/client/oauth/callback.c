/* SPDX-License-Identifier: MIT
 *
 * A listener that reads one request of each connection, answers with a short page, and closes. It
 * accepts a few connections at a time; the oldest makes room for the next.
 */
#include "client/oauth/callback.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "formats/http.h"
#include "formats/url.h"

#define CALLBACK_CONNECTIONS 8u
#define CALLBACK_HEAD_MAX 16384u

struct callback_conn {
    struct callback *callback;
    struct loop_poll *poll;
    int fd; /* negative: not there */
    uint64_t number;
    struct buf in;
    size_t scanned;
};

struct callback {
    struct loop *loop;
    struct loop_poll *poll;
    int fd;
    const char *state;
    callback_fn fn;
    void *user;
    uint64_t next;
    bool is_answered;
    char url[48], host[2][24];
    struct callback_conn conns[CALLBACK_CONNECTIONS];
};

/* ---- the answer ------------------------------------------------------------------------------ */

void callback_answer_init(struct callback_answer *a)
{
    buf_init_secret(&a->code, CALLBACK_TEXT_MAX);
    buf_init(&a->error, CALLBACK_TEXT_MAX);
    buf_init(&a->description, CALLBACK_TEXT_MAX);
    buf_init(&a->issuer, CALLBACK_TEXT_MAX);
    a->has_issuer = false;
}

void callback_answer_deinit(struct callback_answer *a)
{
    buf_deinit(&a->code);
    buf_deinit(&a->error);
    buf_deinit(&a->description);
    buf_deinit(&a->issuer);
}

/* Compares in constant time. */
static bool callback_is_same(struct tidings_str a, struct tidings_str b)
{
    unsigned differ = a.len != b.len;
    for (size_t i = 0; i < a.len && i < b.len; i++) {
        differ |= (unsigned char)a.ptr[i] ^ (unsigned char)b.ptr[i];
    }
    return differ == 0;
}

bool callback_answer_read(struct callback_answer *a, struct tidings_str query, const char *state)
{
    struct buf given;
    buf_init(&given, CALLBACK_TEXT_MAX);
    int has_state = encoded_form_find(query, "state", &given);
    bool is_ours = has_state == 1 && callback_is_same(buf_str(&given), tidings_str(state));
    buf_deinit(&given);
    if (!is_ours) {
        return false;
    }
    int has_code = encoded_form_find(query, "code", &a->code);
    int has_error = encoded_form_find(query, "error", &a->error);
    int has_issuer = encoded_form_find(query, "iss", &a->issuer);
    (void)encoded_form_find(query, "error_description", &a->description);
    a->has_issuer = has_issuer != 0; /* a bad one is one that does not match */
    if (has_issuer < 0) {
        buf_clear(&a->issuer);
    }
    return has_code >= 0 && has_error >= 0 && has_code + has_error == 1 &&
           a->code.len + a->error.len > 0;
}

/* ---- connections ----------------------------------------------------------------------------- */

static void callback_conn_close(struct callback_conn *c)
{
    if (c->fd >= 0) {
        loop_poll_close(c->poll);
        close(c->fd);
        buf_deinit(&c->in);
        c->fd = -1;
    }
}

static void callback_reply(const struct callback_conn *c, int status, const char *text)
{
    struct buf out;
    char body[512];
    int len =
        snprintf(body, sizeof(body),
                 "<!doctype html><meta charset=\"utf-8\"><title>tidings</title><p>%s</p>\n", text);
    buf_init(&out, 4096);
    http_put_status(&out, status);
    buf_putf(&out,
             "Content-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\n"
             "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
             "X-Content-Type-Options: nosniff\r\nContent-Security-Policy: default-src 'none'\r\n"
             "Connection: close\r\n\r\n%s",
             len, body);
    if (!out.failed) { /* a fresh socket has room for it; a client that does not read it misses a
                          page */
        (void)!send(c->fd, out.ptr, out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        (void)shutdown(c->fd, SHUT_WR);
    }
    buf_deinit(&out);
}

static bool callback_is_host(const struct callback *c, struct tidings_str host)
{
    return str_eq(host, tidings_str(c->host[0])) || str_eq(host, tidings_str(c->host[1]));
}

/* The connection is gone afterwards, and perhaps the listener too. */
static void callback_on_request(struct callback_conn *conn, const struct http_request *req)
{
    struct callback *c = conn->callback;
    struct callback_answer answer;
    callback_answer_init(&answer);
    bool is_place = req->method == HTTP_GET && str_eq(req->path, STR("/callback")) &&
                    callback_is_host(c, req->host);
    bool is_ours =
        is_place && !c->is_answered && callback_answer_read(&answer, req->query, c->state);
    callback_reply(conn,
                   is_ours    ? 200
                   : is_place ? 400
                              : 404,
                   is_ours ? "The answer has arrived: go back to the program. This window can be "
                             "closed."
                   : is_place ? "This is not the response to the pending login."
                              : "There is nothing here.");
    callback_conn_close(conn);
    if (is_ours) {
        c->is_answered = true;
        c->fn(c->user, &answer);
    }
    callback_answer_deinit(&answer);
}

static void callback_on_bytes(struct loop_poll *poll, int events, void *user)
{
    struct callback_conn *c = user;
    struct http_request req;
    struct http_fault fault;
    char bytes[4096];
    (void)poll;
    (void)events;
    ssize_t n = recv(c->fd, bytes, sizeof(bytes), 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0 || buf_put(&c->in, bytes, (size_t)n) < 0) {
        callback_conn_close(c);
        return;
    }
    ptrdiff_t head = http_parse_head(c->in.ptr, c->in.len, &c->scanned, &req, &fault);
    if (head < 0) {
        callback_reply(c, 400, "That was not an HTTP request.");
        callback_conn_close(c);
    } else if (head > 0) {
        callback_on_request(c, &req);
    }
}

static void callback_on_connection(struct loop_poll *poll, int events, void *user)
{
    struct callback *c = user;
    struct callback_conn *free_one = &c->conns[0];
    (void)poll;
    (void)events;
    int fd = accept4(c->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        return;
    }
    for (size_t i = 0; i < CALLBACK_CONNECTIONS; i++) {
        struct callback_conn *it = &c->conns[i];
        bool is_better = it->fd < 0 || (free_one->fd >= 0 && it->number < free_one->number);
        free_one = is_better ? it : free_one;
    }
    callback_conn_close(free_one);
    *free_one = (struct callback_conn){.callback = c, .fd = fd, .number = ++c->next};
    buf_init_secret(&free_one->in, CALLBACK_HEAD_MAX);
    free_one->poll = loop_poll_open(c->loop, fd, callback_on_bytes, free_one, NULL);
    if (!free_one->poll || loop_poll_set_events(free_one->poll, LOOP_READ) < 0) {
        callback_conn_close(free_one);
    }
}

/* ---- the listener ---------------------------------------------------------------------------- */

static int callback_listen(struct callback *c, uint16_t port, struct tidings_error *err)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    socklen_t len = sizeof(at);
    int on = 1;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->fd >= 0 && port > 0) {
        (void)setsockopt(c->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    }
    if (c->fd < 0 || bind(c->fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
        listen(c->fd, CALLBACK_CONNECTIONS) < 0 ||
        getsockname(c->fd, (struct sockaddr *)&at, &len) < 0) {
        return error_errno(err, errno, "listen at 127.0.0.1:%u for the answer of the browser",
                           port);
    }
    unsigned number = ntohs(at.sin_port);
    snprintf(c->url, sizeof(c->url), "http://127.0.0.1:%u/callback", number);
    snprintf(c->host[0], sizeof(c->host[0]), "127.0.0.1:%u", number);
    snprintf(c->host[1], sizeof(c->host[1]), "localhost:%u", number);
    return 0;
}

int callback_open(struct callback **ret, struct loop *loop, uint16_t port, const char *state,
                  callback_fn fn, void *user, struct tidings_error *err)
{
    struct callback *c = mem_zalloc(sizeof(*c));
    if (!c) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    *c = (struct callback){.loop = loop, .fd = -1, .state = state, .fn = fn, .user = user};
    for (size_t i = 0; i < CALLBACK_CONNECTIONS; i++) {
        c->conns[i].fd = -1;
    }
    int rc = callback_listen(c, port, err);
    if (rc == 0) {
        c->poll = loop_poll_open(loop, c->fd, callback_on_connection, c, err);
        rc = c->poll ? loop_poll_set_events(c->poll, LOOP_READ) : TIDINGS_E_NOMEM;
    }
    if (rc < 0) {
        callback_close(c);
        return rc;
    }
    *ret = c;
    return 0;
}

void callback_close(struct callback *c)
{
    if (!c) {
        return;
    }
    for (size_t i = 0; i < CALLBACK_CONNECTIONS; i++) {
        callback_conn_close(&c->conns[i]);
    }
    loop_poll_close(c->poll);
    if (c->fd >= 0) {
        close(c->fd);
    }
    mem_free(c);
}

const char *callback_url(const struct callback *c)
{
    return c->url;
}
