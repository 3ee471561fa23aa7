/* SPDX-License-Identifier: MIT
 *
 * MCP with a message per line, over any byte stream: TCP, TLS, Unix sockets, a launched program.
 */
#include "base/error.h"
#include "base/mem.h"
#include "client/byte_stream.h"
#include "client/state.h"
#include "wire/line.h"

struct lines_transport {
    struct transport base;
    struct byte_stream *stream;
    struct line_reader reader;
    bool is_plain;  /* TCP without TLS */
    bool has_heard; /* something, on this connection */
};

static struct lines_transport *lines_of(struct transport *l)
{
    return (struct lines_transport *)(void *)l;
}

/* ---- in -------------------------------------------------------------------------------------- */

static void transport_lines_on_open(void *user)
{
    struct lines_transport *l = user;
    transport_opened(&l->base);
}

static void transport_lines_fail(struct lines_transport *l, int code, const char *text)
{
    struct tidings_error why;
    tidings_fail(&why, code, "%s", text);
    byte_stream_close(l->stream);
    transport_lost(&l->base, &why);
}

static void transport_lines_on_bytes(void *user, struct tidings_str bytes)
{
    struct lines_transport *l = user;
    struct tidings_str line;
    if (l->is_plain && !l->has_heard && str_starts(bytes, STR("\x15\x03"))) { /* an alert */
        transport_lines_fail(l, TIDINGS_E_PARSE,
                             "the server speaks TLS there: tls:// may be meant");
        return;
    }
    l->has_heard = true;
    if (line_reader_feed(&l->reader, bytes.ptr, bytes.len) < 0) {
        transport_lines_fail(l, TIDINGS_E_NOMEM, "out of memory");
        return;
    }
    enum line_result result = LINE_READY;
    while (l->stream->is_open && (result = line_reader_next(&l->reader, &line)) == LINE_READY) {
        transport_received(&l->base, line, 0, 0);
    }
    if (l->stream->is_open && result == LINE_TOO_LONG) {
        transport_lines_fail(l, TIDINGS_E_LIMIT, "a message of the server is too large");
    }
    transport_active(&l->base, 0, false);
}

static void transport_lines_on_end(void *user, const struct tidings_error *why)
{
    struct lines_transport *l = user;
    struct tidings_str line;
    /* A last line may lack its end. */
    if (l->base.client->is_open && line_reader_finish(&l->reader, &line) == LINE_READY) {
        transport_received(&l->base, line, 0, 0);
    }
    struct tidings_error reason = *why;
    if (l->is_plain && !l->has_heard && why->code == TIDINGS_E_CLOSED) {
        tidings_fail(&reason, why->code,
                     "%s without a word; if it speaks TLS there, tls:// is meant", why->text);
    }
    transport_lost(&l->base, &reason);
}

static const struct byte_stream_events events = {.on_open = transport_lines_on_open,
                                                 .on_bytes = transport_lines_on_bytes,
                                                 .on_end = transport_lines_on_end};

/* ---- out ------------------------------------------------------------------------------------- */

static int lines_open(struct transport *base, struct tidings_error *err)
{
    struct lines_transport *l = lines_of(base);
    line_reader_deinit(&l->reader);
    line_reader_init(&l->reader, base->client->settings.max_bytes);
    l->has_heard = false;
    return byte_stream_open(l->stream, err);
}

static int lines_send(struct transport *base, const struct transport_message *m,
                      struct tidings_error *err)
{
    struct lines_transport *l = lines_of(base);
    struct tidings_error none = {0};
    int rc = byte_stream_send(l->stream, m->text, err);
    rc = rc == 0 ? byte_stream_send(l->stream, STR("\n"), err) : rc;
    if (rc == 0 && m->is_tracked) {
        transport_delivered(base, &none);
    }
    return rc;
}

static void lines_forget(struct transport *base, int64_t id, bool is_answered)
{
    (void)base;
    (void)id;
    (void)is_answered;
}

static void lines_close(struct transport *base)
{
    byte_stream_close(lines_of(base)->stream);
}

static bool lines_leave(struct transport *base)
{
    return byte_stream_leave(lines_of(base)->stream);
}

static void lines_destroy(struct transport *base)
{
    struct lines_transport *l = lines_of(base);
    byte_stream_destroy(l->stream);
    line_reader_deinit(&l->reader);
    mem_free(l);
}

#define LINES_OPS(title)                                                                           \
    {                                                                                              \
        .name = (title), .open = lines_open, .send = lines_send, .forget = lines_forget,           \
        .close = lines_close, .leave = lines_leave, .destroy = lines_destroy,                      \
    }
static const struct transport_ops lines_ops = LINES_OPS("lines");
static const struct transport_ops stdio_ops = LINES_OPS("stdio");

static struct transport *transport_lines_make(struct byte_stream *stream,
                                              const struct transport_ops *ops,
                                              struct tidings_error *err)
{
    struct lines_transport *l = stream ? mem_zalloc(sizeof(*l)) : NULL;
    if (!l) {
        if (stream) {
            tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        }
        byte_stream_destroy(stream);
        return NULL;
    }
    l->base = (struct transport){.ops = ops, .client = stream->client};
    l->stream = stream;
    stream->events = &events;
    stream->user = l;
    line_reader_init(&l->reader, stream->client->settings.max_bytes);
    return &l->base;
}

struct transport *transport_lines_create(struct tidings_client *c, const char *url,
                                         const char *unix_path, struct tidings_error *err)
{
    struct byte_stream_address address = {.url = url, .unix_path = unix_path, .no_proxy = true};
    struct transport *t =
        transport_lines_make(byte_stream_socket_create(c, &address, err), &lines_ops, err);
    if (t) {
        lines_of(t)->is_plain = !unix_path && str_starts(tidings_str(url), STR("http://"));
    }
    return t;
}

struct transport *transport_child_create(struct tidings_client *c, char **argv,
                                         struct tidings_error *err)
{
    return transport_lines_make(byte_stream_process_create(c, argv, err), &stdio_ops, err);
}
