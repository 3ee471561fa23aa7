/* SPDX-License-Identifier: MIT
 *
 * What sockets and launched programs have in common as streams of bytes: reading until nothing is
 * there, keeping what cannot be sent.
 */
#include "client/byte_stream.h"

#include "base/error.h"
#include "base/mem.h"
#include "client/state.h"

#define CHUNK 65536u

static void on_in(void *user, uint32_t events);
static void on_out(void *user, uint32_t events);

void byte_stream_init(struct byte_stream *k, const struct byte_stream_ops *ops,
                      struct tidings_client *c)
{
    k->ops = ops;
    k->client = c;
    k->in = (struct poller_fd){.fd = -1, .fn = on_in, .user = k};
    k->out = (struct poller_fd){.fd = -1, .fn = on_out, .user = k};
    size_t max = c->settings.max_bytes;
    buf_init(&k->pending, max < SIZE_MAX / 8 ? 4 * max + CHUNK : max);
}

void byte_stream_destroy(struct byte_stream *k)
{
    if (k) {
        byte_stream_close(k);
        k->ops->destroy(k);
        buf_deinit(&k->pending);
        mem_free(k);
    }
}

int byte_stream_open(struct byte_stream *k, struct tidings_error *err)
{
    return k->ops->open(k, err);
}

void byte_stream_close(struct byte_stream *k)
{
    k->is_open = false;
    poller_remove(&k->client->poller, &k->in);
    poller_remove(&k->client->poller, &k->out);
    buf_deinit(&k->pending);
    k->ops->close(k);
}

bool byte_stream_leave(struct byte_stream *k)
{
    return !k->ops->leave || k->ops->leave(k);
}

void byte_stream_ended(struct byte_stream *k, const struct tidings_error *why)
{
    struct tidings_error reason = *why;
    byte_stream_close(k);
    k->events->on_end(k->user, &reason);
}

static void end_closed(struct byte_stream *k)
{
    struct tidings_error why;
    if (k->ops->is_ending && k->ops->is_ending(k)) {
        return;
    }
    tidings_fail(&why, TIDINGS_E_CLOSED, "the server closed the connection");
    byte_stream_ended(k, &why);
}

void byte_stream_opened(struct byte_stream *k, int in, int out)
{
    struct poller *p = &k->client->poller;
    struct tidings_error why;
    int rc = poller_add(p, &k->in, in, EPOLLIN);
    if (rc == 0 && out != in) {
        rc = poller_add(p, &k->out, out, 0);
    }
    if (rc < 0) {
        tidings_fail(&why, rc, "wait for the server: %s", tidings_code_text(rc));
        byte_stream_ended(k, &why);
        return;
    }
    k->is_open = true;
    k->events->on_open(k->user);
}

/* ---- in -------------------------------------------------------------------------------------- */

void byte_stream_drain(struct byte_stream *k)
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

static void want_writable(struct byte_stream *k, bool wanted)
{
    struct poller *p = &k->client->poller;
    if (k->out.fd >= 0) {
        poller_want(p, &k->out, wanted ? EPOLLOUT : 0);
    } else {
        poller_want(p, &k->in, wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
    }
}

/* Negative: the other side has gone, which reading will tell. */
static void flush(struct byte_stream *k)
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

int byte_stream_send(struct byte_stream *k, struct tidings_str bytes, struct tidings_error *err)
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
    struct byte_stream *k = user;
    if (events & EPOLLOUT) {
        flush(k);
    } else {
        poller_remove(&k->client->poller, &k->out); /* nobody reads any more */
    }
}

static void on_in(void *user, uint32_t events)
{
    struct byte_stream *k = user;
    if (events & EPOLLOUT) {
        flush(k);
    }
    if (events & ~(uint32_t)EPOLLOUT) {
        byte_stream_drain(k);
    }
}
