/* SPDX-License-Identifier: MIT
 *
 * Streamable HTTP: every message goes out as a POST of its own, an *exchange*, and what comes back
 * on it is one JSON message or a stream of events. In the legacy era there is a session, and a GET
 * stream for what the server says by itself, which is opened again by its last event id when it
 * ends in order.
 *
 * Servers of 2024-11-05 know only the GET stream: its first event says where to POST, and all
 * answers come on it (HTTP+SSE). They are tried when an address answers nothing else.
 */
#include "client/transport_http.h"

#include "base/error.h"
#include "base/mem.h"
#include "client/state.h"

#define LINGER_MS 1000 /* for a stream that has brought its answer to end by itself */
#define LEAVE_MS 1000
#define REPLIES_MAX 256u /* messages that nothing answers, under way: more are not sent */

static const struct transport_ops http_ops, sse_ops;

static struct http_transport *http_of(struct transport *l)
{
    return (struct http_transport *)(void *)l;
}

/* A server that asks without end, and takes no reply, would have a connection for each. */
static bool http_has_room(const struct http_transport *h)
{
    size_t count = 0;
    list_each (it, next, &h->exchanges) {
        count += list_entry(it, struct exchange, link)->is_reply;
    }
    return count < REPLIES_MAX;
}

static int http_send(struct transport *l, const struct transport_message *m,
                     struct tidings_error *err)
{
    struct tidings_error why = {0};
    if (m->id == 0 && !http_has_room(http_of(l))) {
        return tidings_fail(err, TIDINGS_E_BUSY, "the server does not take what it is sent");
    }
    if (!exchange_begin(http_of(l), "POST", m, &why)) {
        return tidings_fail(err, why.code, "%s", why.text);
    }
    return 0;
}

static void http_forget(struct transport *l, int64_t id, bool is_answered)
{
    struct http_transport *h = http_of(l);
    list_each (it, next, &h->exchanges) {
        struct exchange *x = list_entry(it, struct exchange, link);
        if (x->id != id) {
            continue;
        }
        if (is_answered && x->is_sse && !fetch_status(x->transfer)->finished) {
            x->id = 0; /* its connection can be used again if it ends by itself */
            exchange_linger(x, LINGER_MS);
        } else {
            exchange_end(x);
        }
        return;
    }
}

static int http_stream(struct transport *l, struct tidings_error *err)
{
    struct http_transport *h = http_of(l);
    struct tidings_error why = {0};
    if (h->stream && h->stream->has_head) {
        transport_streaming(l, true); /* it was heard all the time */
    }
    if (h->stream || poller_is_set(&h->reopen)) {
        return 0;
    }
    h->stream = exchange_begin(h, "GET", NULL, &why);
    return h->stream ? 0 : tidings_fail(err, why.code, "%s", why.text);
}

static void http_hang_up(struct transport *l)
{
    struct http_transport *h = http_of(l);
    if (h->stream) {
        exchange_end(h->stream);
        h->stream = NULL;
    }
}

static void on_reopen(void *user)
{
    struct http_transport *h = user;
    struct tidings_error why = {0};
    if (http_stream(&h->base, &why) < 0) {
        transport_lost(&h->base, &why);
    } else {
        h->base.client->info.public.reopened = ++h->base.client->reopened;
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static int sse_open(struct transport *l, struct tidings_error *err)
{
    struct http_transport *h = http_of(l);
    struct tidings_error why = {0};
    mem_free(h->endpoint);
    h->endpoint = NULL;
    h->stream = exchange_begin(h, "GET", NULL, &why);
    return h->stream ? 0 : tidings_fail(err, why.code, "%s", why.text);
}

static bool http_fall_back(struct transport *l)
{
    transport_http_use_sse(http_of(l), true);
    return true;
}

static int http_open(struct transport *l, struct tidings_error *err)
{
    (void)err;
    http_of(l)->has_left = false;
    transport_opened(l);
    return 0;
}

static const char *http_session(struct transport *l)
{
    return http_of(l)->session;
}

static void http_forget_session(struct transport *l)
{
    struct http_transport *h = http_of(l);
    poller_unset(&h->reopen);
    http_hang_up(l);
    h->sessions += h->session[0] != '\0';
    h->session[0] = '\0';
    h->retry_ms = -1;
    buf_clear(&h->last_event_id);
}

static void http_close(struct transport *l)
{
    struct http_transport *h = http_of(l);
    http_forget_session(l);
    bool again = true;
    while (again) { /* one that is busy stays */
        again = false;
        list_each (it, next, &h->exchanges) {
            struct exchange *x = list_entry(it, struct exchange, link);
            if (!x->is_over) {
                exchange_end(x);
                again = true;
                break;
            }
        }
    }
}

static bool http_leave(struct transport *l)
{
    struct http_transport *h = http_of(l);
    if (!h->session[0] || h->has_left) {
        return true;
    }
    if (!h->leaving) {
        h->leaving = exchange_begin(h, "DELETE", NULL, NULL);
        if (!h->leaving) {
            return true;
        }
        exchange_linger(h->leaving, LEAVE_MS);
    }
    return false;
}

static void http_destroy(struct transport *l)
{
    struct http_transport *h = http_of(l);
    http_close(l);
    poller_remove(&l->client->poller, &h->fd);
    fetch_destroy(h->fetch);
    buf_deinit(&h->last_event_id);
    mem_free(h->endpoint);
    mem_free(h->url);
    mem_free(h->unix_path);
    mem_free(h);
}

static void transport_http_on_ready(void *user, uint32_t events)
{
    struct http_transport *h = user;
    struct tidings_error why = {0};
    (void)events;
    if (fetch_step(h->fetch, 0, &why) < 0) {
        transport_lost(&h->base, &why);
    }
}

static const struct transport_ops http_ops = {
    .name = "http",
    .has_exchanges = true,
    .open = http_open,
    .send = http_send,
    .forget = http_forget,
    .stream = http_stream,
    .hang_up = http_hang_up,
    .forget_session = http_forget_session,
    .session = http_session,
    .fall_back = http_fall_back,
    .close = http_close,
    .leave = http_leave,
    .destroy = http_destroy,
};

/* Its session is the stream. */
static const struct transport_ops sse_ops = {
    .name = "http+sse",
    .open = sse_open,
    .send = http_send,
    .forget = http_forget,
    .close = http_close,
    .leave = http_leave,
    .destroy = http_destroy,
};

void transport_http_use_sse(struct http_transport *h, bool is_sse)
{
    h->is_sse = is_sse;
    h->base.ops = is_sse ? &sse_ops : &http_ops;
}

struct transport *transport_http_create(struct tidings_client *c, const char *url,
                                        const char *unix_path, struct tidings_error *err)
{
    struct http_transport *h = mem_zalloc(sizeof(*h));
    if (!h) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    h->base = (struct transport){.ops = &http_ops, .client = c};
    h->fd = (struct poller_fd){.fd = -1, .fn = transport_http_on_ready, .user = h};
    h->retry_ms = -1;
    list_init(&h->exchanges);
    buf_init(&h->last_event_id, 4096);
    poller_timer_init(&h->reopen, on_reopen, h);
    h->url = str_dup(tidings_str(url));
    h->unix_path = unix_path ? str_dup(tidings_str(unix_path)) : NULL;
    int rc = !h->url || (unix_path && !h->unix_path)
                 ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory")
                 : fetch_create(-1, c->settings.max_bytes, &h->fetch, err);
    if (rc == 0) {
        rc = poller_add(&c->poller, &h->fd, fetch_fd(h->fetch), EPOLLIN);
    }
    if (rc < 0) {
        http_destroy(&h->base);
        return NULL;
    }
    return &h->base;
}
