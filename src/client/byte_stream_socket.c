/* SPDX-License-Identifier: MIT
 *
 * A stream of bytes over a connection that libcurl makes (names, TLS, proxies), and whose bytes are
 * then ours.
 */
#include "base/error.h"
#include "base/mem.h"
#include "client/byte_stream.h"
#include "client/state.h"
#include "http_client/fetch.h"

struct tunnel {
    struct byte_stream base;
    char *url, *unix_path;
    bool no_proxy;
    struct fetch *fetch;
    struct poller_fd fd;
    struct poller_timer limit;
    struct fetch_transfer *transfer;
};

static struct tunnel *tunnel_of(struct byte_stream *k)
{
    return (struct tunnel *)(void *)k;
}

static void socket_stream_on_change(void *user)
{
    struct tunnel *t = user;
    const struct fetch_status *s = fetch_status(t->transfer);
    poller_unset(&t->limit);
    if (s->connected) {
        int fd = fetch_socket(t->transfer);
        byte_stream_opened(&t->base, fd, fd);
        if (t->base.is_open) {
            byte_stream_drain(&t->base); /* TLS may have read ahead */
        }
    } else if (s->finished) {
        byte_stream_ended(&t->base, &s->error);
    }
}

static void on_limit(void *user)
{
    struct tunnel *t = user;
    struct tidings_error why;
    tidings_fail(&why, TIDINGS_E_TIMEOUT, "the server cannot be reached within %u ms",
                 t->base.client->settings.timeout_ms);
    byte_stream_ended(&t->base, &why);
}

static void socket_stream_on_ready(void *user, uint32_t events)
{
    struct tunnel *t = user;
    struct tidings_error why;
    (void)events;
    if (fetch_step(t->fetch, 0, &why) < 0) {
        byte_stream_ended(&t->base, &why);
    }
}

static int tunnel_open(struct byte_stream *k, struct tidings_error *err)
{
    struct tunnel *t = tunnel_of(k);
    const struct client_settings *o = &k->client->settings;
    struct fetch_request r = {
        .method = "GET",
        .url = t->url,
        .unix_path = t->unix_path,
        .no_proxy = t->no_proxy,
        .ca_file = o->ca_file,
        .cert_file = o->cert_file,
        .key_file = o->key_file,
        .is_tunnel = true,
        .on_change = socket_stream_on_change,
        .user = t,
    };
    poller_set(&k->client->poller, &t->limit, o->timeout_ms);
    return fetch_start(t->fetch, &r, &t->transfer, err);
}

static ssize_t tunnel_send(struct byte_stream *k, const char *bytes, size_t len)
{
    return fetch_send(tunnel_of(k)->transfer, bytes, len);
}

static ssize_t tunnel_recv(struct byte_stream *k, char *out, size_t room)
{
    return fetch_recv(tunnel_of(k)->transfer, out, room);
}

static void tunnel_close(struct byte_stream *k)
{
    struct tunnel *t = tunnel_of(k);
    poller_unset(&t->limit);
    fetch_close(t->transfer);
    t->transfer = NULL;
}

static void tunnel_destroy(struct byte_stream *k)
{
    struct tunnel *t = tunnel_of(k);
    poller_remove(&k->client->poller, &t->fd);
    fetch_destroy(t->fetch);
    mem_free(t->url);
    mem_free(t->unix_path);
}

static const struct byte_stream_ops tunnel_ops = {
    .open = tunnel_open,
    .send = tunnel_send,
    .recv = tunnel_recv,
    .close = tunnel_close,
    .destroy = tunnel_destroy,
};

struct byte_stream *byte_stream_socket_create(struct tidings_client *c,
                                              const struct byte_stream_address *address,
                                              struct tidings_error *err)
{
    struct tunnel *t = mem_zalloc(sizeof(*t));
    if (!t) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    byte_stream_init(&t->base, &tunnel_ops, c);
    t->fd = (struct poller_fd){.fd = -1, .fn = socket_stream_on_ready, .user = t};
    poller_timer_init(&t->limit, on_limit, t);
    t->no_proxy = address->no_proxy;
    t->url = str_dup(tidings_str(address->url));
    t->unix_path = address->unix_path ? str_dup(tidings_str(address->unix_path)) : NULL;
    int rc = !t->url || (address->unix_path && !t->unix_path)
                 ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory")
                 : fetch_create(-1, c->settings.max_bytes, &t->fetch, err);
    if (rc == 0 && (rc = poller_add(&c->poller, &t->fd, fetch_fd(t->fetch), EPOLLIN)) < 0) {
        tidings_fail(err, rc, "create a client: %s", tidings_code_text(rc));
    }
    if (rc < 0) {
        byte_stream_destroy(&t->base);
        return NULL;
    }
    return &t->base;
}
