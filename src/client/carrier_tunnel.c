/* SPDX-License-Identifier: MIT
 *
 * A connection that libcurl makes (names, TLS, proxies), and whose bytes are then ours.
 */
#include "base/error.h"
#include "base/mem.h"
#include "client/carrier.h"
#include "http_client/fetch.h"

struct tunnel {
    struct carrier base;
    char *url, *unix_path;
    bool no_proxy;
    struct fetch *fetch;
    struct pump_fd fd;
    struct pump_timer limit;
    struct fetch_transfer *transfer;
};

static struct tunnel *tunnel_of(struct carrier *k)
{
    return (struct tunnel *)(void *)k;
}

static void on_change(void *user)
{
    struct tunnel *t = user;
    const struct fetch_status *s = fetch_status(t->transfer);
    pump_unset(&t->limit);
    if (s->connected) {
        int fd = fetch_socket(t->transfer);
        carrier_opened(&t->base, fd, fd);
        if (t->base.is_open) {
            carrier_drain(&t->base); /* TLS may have read ahead */
        }
    } else if (s->finished) {
        carrier_ended(&t->base, &s->error);
    }
}

static void on_limit(void *user)
{
    struct tunnel *t = user;
    struct tidings_error why;
    tidings_fail(&why, TIDINGS_E_TIMEOUT, "the server cannot be reached within %u ms",
                 t->base.client->settings.timeout_ms);
    carrier_ended(&t->base, &why);
}

static void on_ready(void *user, uint32_t events)
{
    struct tunnel *t = user;
    struct tidings_error why;
    (void)events;
    if (fetch_step(t->fetch, 0, &why) < 0) {
        carrier_ended(&t->base, &why);
    }
}

static int tunnel_open(struct carrier *k, struct tidings_error *err)
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
        .on_change = on_change,
        .user = t,
    };
    pump_set(&k->client->pump, &t->limit, o->timeout_ms);
    return fetch_start(t->fetch, &r, &t->transfer, err);
}

static ssize_t tunnel_send(struct carrier *k, const char *bytes, size_t len)
{
    return fetch_send(tunnel_of(k)->transfer, bytes, len);
}

static ssize_t tunnel_recv(struct carrier *k, char *out, size_t room)
{
    return fetch_recv(tunnel_of(k)->transfer, out, room);
}

static void tunnel_close(struct carrier *k)
{
    struct tunnel *t = tunnel_of(k);
    pump_unset(&t->limit);
    fetch_close(t->transfer);
    t->transfer = NULL;
}

static void tunnel_destroy(struct carrier *k)
{
    struct tunnel *t = tunnel_of(k);
    pump_remove(&k->client->pump, &t->fd);
    fetch_destroy(t->fetch);
    mem_free(t->url);
    mem_free(t->unix_path);
}

static const struct carrier_ops tunnel_ops = {
    .open = tunnel_open,
    .send = tunnel_send,
    .recv = tunnel_recv,
    .close = tunnel_close,
    .destroy = tunnel_destroy,
};

struct carrier *tunnel_create(struct tidings_client *c, const struct tunnel_address *address,
                              struct tidings_error *err)
{
    struct tunnel *t = mem_zalloc(sizeof(*t));
    if (!t) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    carrier_init(&t->base, &tunnel_ops, c);
    t->fd = (struct pump_fd){.fd = -1, .fn = on_ready, .user = t};
    pump_timer_init(&t->limit, on_limit, t);
    t->no_proxy = address->no_proxy;
    t->url = str_dup(tidings_str(address->url));
    t->unix_path = address->unix_path ? str_dup(tidings_str(address->unix_path)) : NULL;
    int rc = !t->url || (address->unix_path && !t->unix_path)
                 ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory")
                 : fetch_create(-1, c->settings.max_bytes, &t->fetch, err);
    if (rc == 0 && (rc = pump_add(&c->pump, &t->fd, fetch_fd(t->fetch), EPOLLIN)) < 0) {
        tidings_fail(err, rc, "create a client: %s", tidings_code_text(rc));
    }
    if (rc < 0) {
        carrier_destroy(&t->base);
        return NULL;
    }
    return &t->base;
}
