/* SPDX-License-Identifier: MIT
 *
 * What connections and launched programs have in common: reading until nothing is there, keeping
 * what cannot be sent.
 */
#include "client/carrier.h"

#include "base/error.h"
#include "base/mem.h"

#define CHUNK 65536u

static void on_in(void *user, uint32_t events);
static void on_out(void *user, uint32_t events);

void carrier_init(struct carrier *k, const struct carrier_ops *ops, struct tidings_client *c)
{
    k->ops = ops;
    k->client = c;
    k->in = (struct pump_fd){.fd = -1, .fn = on_in, .user = k};
    k->out = (struct pump_fd){.fd = -1, .fn = on_out, .user = k};
    size_t max = c->settings.max_bytes;
    buf_init(&k->pending, max < SIZE_MAX / 8 ? 4 * max + CHUNK : max);
}

void carrier_destroy(struct carrier *k)
{
    if (k) {
        carrier_close(k);
        k->ops->destroy(k);
        buf_deinit(&k->pending);
        mem_free(k);
    }
}

int carrier_open(struct carrier *k, struct tidings_error *err)
{
    return k->ops->open(k, err);
}

void carrier_close(struct carrier *k)
{
    k->is_open = false;
    pump_remove(&k->client->pump, &k->in);
    pump_remove(&k->client->pump, &k->out);
    buf_deinit(&k->pending);
    k->ops->close(k);
}

bool carrier_leave(struct carrier *k)
{
    return !k->ops->leave || k->ops->leave(k);
}

void carrier_ended(struct carrier *k, const struct tidings_error *why)
{
    struct tidings_error reason = *why;
    carrier_close(k);
    k->events->on_end(k->user, &reason);
}

static void end_closed(struct carrier *k)
{
    struct tidings_error why;
    if (k->ops->is_ending && k->ops->is_ending(k)) {
        return;
    }
    tidings_fail(&why, TIDINGS_E_CLOSED, "the server closed the connection");
    carrier_ended(k, &why);
}

void carrier_opened(struct carrier *k, int in, int out)
{
    struct pump *p = &k->client->pump;
    struct tidings_error why;
    int rc = pump_add(p, &k->in, in, EPOLLIN);
    if (rc == 0 && out != in) {
        rc = pump_add(p, &k->out, out, 0);
    }
    if (rc < 0) {
        tidings_fail(&why, rc, "wait for the server: %s", tidings_code_text(rc));
        carrier_ended(k, &why);
        return;
    }
    k->is_open = true;
    k->events->on_open(k->user);
}

/* ---- in -------------------------------------------------------------------------------------- */

void carrier_drain(struct carrier *k)
{
    char *room = mem_alloc(CHUNK);
    ssize_t n = room ? 1 : TIDINGS_E_NOMEM;
    while (n > 0 && k->is_open) {
        n = k->ops->recv(k, room, CHUNK);
        if (n > 0) {
            k->events->on_bytes(k->user, tidings_strn(room, (size_t)n));
        }
    }
    mem_free(room);
    if (n < 0 && k->is_open) {
        end_closed(k);
    }
}

/* ---- out ------------------------------------------------------------------------------------- */

static void want_writable(struct carrier *k, bool wanted)
{
    struct pump *p = &k->client->pump;
    if (k->out.fd >= 0) {
        pump_want(p, &k->out, wanted ? EPOLLOUT : 0);
    } else {
        pump_want(p, &k->in, wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
    }
}

/* Negative: the other side has gone, which reading will tell. */
static void flush(struct carrier *k)
{
    size_t sent = 0;
    ssize_t n = 1;
    while (sent < k->pending.len && n > 0) {
        n = k->ops->send(k, k->pending.ptr + sent, k->pending.len - sent);
        sent += n > 0 ? (size_t)n : 0;
    }
    if (n < 0) {
        sent = k->pending.len;
    }
    buf_consume(&k->pending, sent);
    want_writable(k, k->pending.len > 0);
}

int carrier_send(struct carrier *k, struct tidings_str bytes, struct tidings_error *err)
{
    if (!k->is_open) {
        return tidings_fail(err, TIDINGS_E_CLOSED, "the connection is closed");
    }
    if (buf_puts(&k->pending, bytes) < 0) {
        return tidings_fail(err, k->pending.failed, "the server does not take what it is sent");
    }
    flush(k);
    return 0;
}

static void on_out(void *user, uint32_t events)
{
    struct carrier *k = user;
    if (events & EPOLLOUT) {
        flush(k);
    } else {
        pump_remove(&k->client->pump, &k->out); /* nobody reads any more */
    }
}

static void on_in(void *user, uint32_t events)
{
    struct carrier *k = user;
    if (events & EPOLLOUT) {
        flush(k);
    }
    if (events & ~(uint32_t)EPOLLOUT) {
        carrier_drain(k);
    }
}
