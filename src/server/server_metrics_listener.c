/* SPDX-License-Identifier: MIT
 *
 * Accepts, reads one head, answers, closes. The metrics are gathered by other threads, which send
 * the text back in a letter; a connection that went meanwhile waits for it to be freed.
 */
#include "server/server_metrics_listener.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "server/metrics_text.h"
#include "server/server_health.h"
#include "server/server_metrics.h"
#include "server/server_private.h"
#include "transport/endpoint.h"
#include "wire/http.h"

struct metrics_listener {
    struct tidings_server *server;
    struct endpoint at;
    struct loop_poll *poll;
    struct list conns;
    size_t count;
};

struct metrics_conn {
    struct list link;
    struct metrics_listener *owner; /* NULL: it was closed, and waits for its letter */
    struct letter letter;           /* the text is there, … */
    struct mailbox *reply_to;       /* … and goes here */
    struct loop_poll *poll;
    struct loop_timer *deadline;
    int fd;
    bool is_asked, is_head;
    bool is_openmetrics, is_gathering;
    size_t len, scanned, written;
    struct buf out;
    char in[METRICS_HEAD_MAX];
};

static void metrics_conn_free(struct metrics_conn *c)
{
    buf_deinit(&c->out);
    mem_free(c);
}

static void metrics_conn_close(struct metrics_conn *c)
{
    list_remove(&c->link);
    c->owner->count--;
    c->owner = NULL;
    loop_poll_close(c->poll);
    loop_timer_close(c->deadline);
    close(c->fd);
    if (!c->is_gathering) {
        metrics_conn_free(c);
    }
}

static void metrics_conn_write(struct metrics_conn *c)
{
    while (c->written < c->out.len) {
        ssize_t n = send(c->fd, c->out.ptr + c->written, c->out.len - c->written, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            (void)loop_poll_want(c->poll, LOOP_WRITE);
            return;
        }
        if (n < 0) {
            break;
        }
        c->written += (size_t)n;
    }
    (void)shutdown(c->fd, SHUT_WR);
    metrics_conn_close(c);
}

static void metrics_answer(struct metrics_conn *c, int status, const char *type, const char *fields,
                           struct tidings_str body)
{
    http_put_status(&c->out, status);
    buf_putf(&c->out,
             "Content-Type: %s\r\nContent-Length: %zu\r\nCache-Control: no-store\r\n"
             "X-Content-Type-Options: nosniff\r\n%sConnection: close\r\n\r\n",
             type, body.len, fields);
    if (!c->is_head) {
        buf_puts(&c->out, body);
    }
    if (c->out.failed) {
        metrics_conn_close(c);
        return;
    }
    metrics_conn_write(c);
}

static void metrics_refuse(struct metrics_conn *c, int status, const char *fields, const char *text)
{
    metrics_answer(c, status, "text/plain; charset=utf-8", fields, tidings_str(text));
}

/* ---- what is asked --------------------------------------------------------------------------- */

static void metrics_text_deliver(struct letter *letter, void *owner)
{
    (void)owner;
    struct metrics_conn *c = list_entry(letter, struct metrics_conn, letter);
    c->is_gathering = false;
    if (!c->owner) {
        metrics_conn_free(c);
    } else if (c->out.len == 0 || c->out.failed) {
        buf_deinit(&c->out);
        buf_init(&c->out, METRICS_HEAD_MAX);
        metrics_refuse(c, 503, "", "out of memory\n");
    } else {
        struct buf text = c->out;
        buf_init(&c->out, text.len + METRICS_HEAD_MAX);
        metrics_answer(c, 200, c->is_openmetrics ? METRICS_TYPE_OPEN : METRICS_TYPE_PLAIN, "",
                       buf_str(&text));
        buf_deinit(&text);
    }
}

static void metrics_text_drop(struct letter *letter)
{
    struct metrics_conn *c = list_entry(letter, struct metrics_conn, letter);
    c->is_gathering = false;
    if (!c->owner) {
        metrics_conn_free(c);
    }
}

/* Any thread. */
static void metrics_text_made(void *user, struct buf *text)
{
    struct metrics_conn *c = user;
    if (text) {
        buf_init(&c->out, text->len + 1);
        buf_puts(&c->out, buf_str(text));
    }
    c->letter = (struct letter){.deliver = metrics_text_deliver, .drop = metrics_text_drop};
    mailbox_send(c->reply_to, &c->letter);
}

static void metrics_answer_health(struct metrics_conn *c, bool is_live)
{
    char text[HEALTH_TEXT];
    int status = server_health_text(c->owner->server, is_live, true, text);
    metrics_refuse(c, status, "", text);
}

static void metrics_run(struct metrics_conn *c, const struct http_request *req)
{
    struct tidings_server *s = c->owner->server;
    struct arrival at;
    struct tidings_str accept = http_header(req, "accept", NULL);
    c->is_head = req->method == HTTP_HEAD;
    origin_check_arrival(c->fd, &at);
    if (!origin_check_knows_host(&s->http.origin_check, req->host) &&
        !origin_check_own_host(&at, NULL, req->host)) {
        metrics_refuse(c, 403, "", "this Host is not served here; see --allow-host\n");
    } else if (req->method != HTTP_GET && req->method != HTTP_HEAD) {
        metrics_refuse(c, 405, "Allow: GET, HEAD\r\n", "GET, and nothing else\n");
    } else if (str_eq(req->path, STR("/livez")) || str_eq(req->path, STR("/readyz"))) {
        metrics_answer_health(c, str_eq(req->path, STR("/livez")));
    } else if (!str_eq(req->path, STR("/metrics"))) {
        metrics_refuse(c, 404, "", "here are /metrics, /livez and /readyz\n");
    } else {
        c->is_openmetrics = accept.ptr && http_list_has(accept, "application/openmetrics-text");
        c->is_gathering = true;
        buf_deinit(&c->out);
        server_metrics_gather(s, c->is_openmetrics, metrics_text_made, c);
    }
}

/* ---- connections ----------------------------------------------------------------------------- */

static void metrics_on_ready(struct loop_poll *poll, int events, void *user)
{
    (void)poll;
    (void)events;
    struct metrics_conn *c = user;
    struct http_request req;
    struct http_fault fault;
    if (c->is_asked && c->out.len > 0 && !c->is_gathering) {
        metrics_conn_write(c);
        return;
    }
    ssize_t n = recv(c->fd, c->in + c->len, sizeof(c->in) - c->len, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0 || c->is_asked) { /* it has gone, or says more than it may */
        metrics_conn_close(c);
        return;
    }
    c->len += (size_t)n;
    ptrdiff_t head = http_parse_head(c->in, c->len, &c->scanned, &req, &fault);
    if (head == 0 && c->len < sizeof(c->in)) {
        return;
    }
    c->is_asked = true;
    (void)loop_poll_want(c->poll, 0);
    if (head < 0) {
        metrics_refuse(c, fault.status, "", "this is no request of HTTP/1.1\n");
    } else if (head == 0) {
        metrics_refuse(c, 431, "", "the head of the request is too long\n");
    } else {
        metrics_run(c, &req);
    }
}

static void metrics_on_deadline(struct loop_timer *timer, void *user)
{
    (void)timer;
    metrics_conn_close(user);
}

static void metrics_accept(struct metrics_listener *l, int fd)
{
    struct metrics_conn *c = l->count < METRICS_CONNECTIONS ? mem_zalloc(sizeof(*c)) : NULL;
    if (c) {
        struct loop *loop = l->server->loop;
        c->fd = fd;
        c->owner = l;
        c->reply_to = hub_mailbox(l->server->hub);
        buf_init(&c->out, METRICS_HEAD_MAX);
        c->poll = loop_poll_open(loop, fd, metrics_on_ready, c, NULL);
        c->deadline = loop_timer_open(loop, metrics_on_deadline, c);
        if (c->poll && c->deadline) {
            list_append(&l->conns, &c->link);
            l->count++;
            loop_timer_start(c->deadline, l->server->config.header_timeout_ms, 0);
            (void)loop_poll_want(c->poll, LOOP_READ);
            return;
        }
        loop_poll_close(c->poll);
        loop_timer_close(c->deadline);
        mem_free(c);
    }
    close(fd);
}

static void metrics_on_connection(struct loop_poll *poll, int events, void *user)
{
    (void)poll;
    (void)events;
    struct metrics_listener *l = user;
    for (unsigned i = 0; i < METRICS_CONNECTIONS; i++) {
        int fd = accept4(l->at.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            return;
        }
        metrics_accept(l, fd);
    }
}

int server_metrics_listen(struct tidings_server *s, struct tidings_error *err)
{
    const char *where = s->config.metrics;
    struct config_address address;
    bool is_path = where && strcmp(where, "path") == 0;
    if (is_path && !s->config.self) {
        return tidings_fail(
            err, TIDINGS_E_INVALID,
            "--metrics path: it is the resource tidings://self/metrics; add --self");
    }
    if (!where || !*where || is_path) {
        return 0;
    }
    int rc = config_parse_address(tidings_str(where), &address, err);
    rc = rc < 0 ? error_wrap(err, rc, "--metrics ('path', or an address)") : 0;
    struct metrics_listener *l = rc < 0 ? NULL : mem_zalloc(sizeof(*l));
    if (!l) {
        return rc < 0 ? rc : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    l->server = s;
    l->at.fd = -1;
    list_init(&l->conns);
    s->metrics = l;
    const struct endpoint_address at = {
        .option = "--metrics ADDR:PORT", .host = address.host, .port = address.port};
    rc = endpoint_open(&l->at, &at, err);
    l->poll = rc < 0 ? NULL : loop_poll_open(s->loop, l->at.fd, metrics_on_connection, l, err);
    if (!l->poll || loop_poll_want(l->poll, LOOP_READ) < 0) {
        server_metrics_close(s);
        return rc < 0 ? rc : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    char url[96];
    bool is_v6 = strchr(l->at.host, ':') != NULL;
    snprintf(url, sizeof(url), "http://%s%s%s:%u/metrics", is_v6 ? "[" : "", l->at.host,
             is_v6 ? "]" : "", l->at.port);
    log_info(LOG_TRANSPORT, "metrics", KV("url", url));
    if (!endpoint_is_local(&l->at)) {
        log_warn(LOG_TRANSPORT, "metrics are open to the network", KV("url", url));
    }
    return 0;
}

void server_metrics_close(struct tidings_server *s)
{
    struct metrics_listener *l = s->metrics;
    if (!l) {
        return;
    }
    list_each (it, next, &l->conns) {
        metrics_conn_close(list_entry(it, struct metrics_conn, link));
    }
    loop_poll_close(l->poll);
    endpoint_close(&l->at);
    mem_free(l);
    s->metrics = NULL;
}
