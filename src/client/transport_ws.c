/* SPDX-License-Identifier: MIT
 *
 * MCP over WebSocket: a connection, a handshake, then a message per text message.
 */
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "client/client.h"
#include "client/client_internal.h"
#include "client/transport.h"
#include "formats/websocket.h"

#define WS_MAX_REFUSALS 4u

struct ws_transport {
    struct transport base;
    struct byte_stream *stream;
    char *host, *path;
    char *url; /* with http in place of ws: the URL for credentials */
    char key[WS_KEY_BYTES];
    struct credentials_lines shown;
    unsigned refusals;        /* others were shown, since the first were refused */
    bool is_waiting;          /* for the program's credentials … */
    bool is_unsent;           /* … before anything was shown */
    struct buf head;          /* the answer to the handshake so far */
    struct ws_reader *reader; /* NULL: not agreed yet */
    bool is_plain;            /* ws://, not wss:// */
};

static struct ws_transport *ws_of(struct transport *l)
{
    return (struct ws_transport *)(void *)l;
}

static int transport_ws_connect(struct ws_transport *l, struct tidings_error *err);

static void transport_ws_fail(struct ws_transport *l, int code, struct tidings_str text)
{
    struct tidings_error why;
    tidings_fail(&why, code, "%.*s", STR_ARG(text));
    byte_stream_close(l->stream);
    transport_lost(&l->base, &why);
}

static int put_frame(struct ws_transport *l, enum ws_opcode opcode, struct tidings_str payload,
                     struct tidings_error *err)
{
    struct buf frame;
    buf_init(&frame, payload.len + 64);
    int rc = ws_client_put(&frame, opcode, payload);
    rc = rc < 0 ? tidings_fail(err, rc, "a frame cannot be made: %s", tidings_code_text(rc))
                : byte_stream_send(l->stream, buf_str(&frame), err);
    buf_deinit(&frame);
    return rc;
}

static void put_close(struct ws_transport *l, unsigned code)
{
    char payload[2] = {(char)(code >> 8 & 0xff), (char)(code & 0xff)};
    bool has_code = code != WS_NO_CODE;
    (void)put_frame(l, WS_OP_CLOSE, tidings_strn(payload, has_code ? 2 : 0), NULL);
}

/* ---- in -------------------------------------------------------------------------------------- */

static void closed_by_server(struct ws_transport *l, const struct ws_message *m)
{
    char text[200];
    put_close(l, m->code);
    snprintf(text, sizeof(text), "the server ended the connection (%u%s%.*s)", m->code,
             m->payload.len > 0 ? ": " : "", STR_ARG(m->payload));
    /* 1008: the server refuses the client, with a reason; tidings servers report an expired token
     * so. */
    l->base.client->is_token_refused = m->code == WS_POLICY;
    transport_ws_fail(l, m->code == WS_POLICY ? TIDINGS_E_DENIED : TIDINGS_E_CLOSED,
                      tidings_str(text));
}

static void transport_ws_receive(struct ws_transport *l, struct tidings_str bytes)
{
    struct ws_message m;
    enum ws_event event = WS_TEXT;
    ws_reader_feed(l->reader, bytes.ptr, bytes.len);
    while (l->stream->is_open && (event = ws_reader_next(l->reader, &m)) != WS_MORE) {
        if (event == WS_TEXT) {
            transport_received(&l->base, m.payload, 0, 0);
        } else if (event == WS_PING) {
            transport_active(&l->base, 0, true);
            (void)put_frame(l, WS_OP_PONG, m.payload, NULL);
        } else if (event == WS_CLOSE) {
            closed_by_server(l, &m);
        } else if (event == WS_FAILED) {
            put_close(l, m.code);
            transport_ws_fail(l, m.code == WS_TOO_BIG ? TIDINGS_E_LIMIT : TIDINGS_E_CLOSED,
                              m.payload);
        }
    }
    transport_active(&l->base, 0, false);
}

/* ---- credentials ----------------------------------------------------------------------------- */

static void ws_release(struct ws_transport *l)
{
    l->is_waiting = false;
    if (--l->base.client->held == 0) {
        transport_admitted(&l->base);
    }
}

static void ws_stop_waiting(struct ws_transport *l)
{
    const struct tidings_credentials *c = l->base.client->settings.credentials;
    if (l->is_waiting) {
        ws_release(l);
        if (c->forget) {
            c->forget(c->user, l);
        }
    }
}

static int ws_show(struct ws_transport *l, struct tidings_error *err)
{
    int rc = credentials_lines_fill(&l->shown, &l->base.client->settings, "GET", l->url);
    return rc < 0
               ? tidings_fail(err, rc, "the credentials cannot be shown: %s", tidings_code_text(rc))
               : transport_ws_connect(l, err);
}

static void ws_on_credentials(void *to, const struct tidings_error *why)
{
    struct ws_transport *l = to;
    struct tidings_error err = {0};
    bool is_over = why && !l->is_unsent;
    ws_release(l);
    if (is_over || ws_show(l, &err) < 0) {
        transport_lost(&l->base, is_over ? why : &err);
    }
}

/* Returns true if the program's credentials may have better ones, which are tried, now or later. */
static bool ws_ask_credentials(struct ws_transport *l, unsigned status, struct tidings_error *why)
{
    struct tidings_client *client = l->base.client;
    const struct tidings_credentials *c = client->settings.credentials;
    struct tidings_str head = buf_str(&l->head);
    struct tidings_credentials_refusal refusal = {
        .url = l->url,
        .status = status,
        .challenge = ws_client_field(head, STR("www-authenticate")),
        .nonce = ws_client_field(head, STR("dpop-nonce")),
        .shown = credentials_lines_authorization(&l->shown),
        .attempt = l->refusals,
    };
    struct tidings_error reason = {0};
    if (!c->refused || l->refusals++ >= WS_MAX_REFUSALS) {
        return false;
    }
    int rc = c->refused(c->user, &refusal, ws_on_credentials, l, &reason);
    if (rc == 0) {
        byte_stream_close(l->stream);
        rc = ws_show(l, &reason) < 0 ? -1 : 0;
    } else if (rc > 0) {
        byte_stream_close(l->stream);
        l->is_unsent = false;
        l->is_waiting = true;
        client->held++;
    }
    if (rc < 0) {
        *why = reason;
    }
    return rc >= 0;
}

/* A refused token may have been replaced just now: retries with the new one. */
static bool ws_show_another(struct ws_transport *l, struct tidings_error *why)
{
    struct tidings_client *c = l->base.client;
    unsigned status = ws_client_status(buf_str(&l->head));
    c->is_token_refused = status == 401;
    if (status == 401 || status == 403) {
        struct tidings_str challenge = ws_client_field(buf_str(&l->head), STR("www-authenticate"));
        c->wants_credentials = status == 401 || challenge.len > 0;
    }
    if (c->settings.credentials) {
        return (status == 401 || status == 403) && ws_ask_credentials(l, status, why);
    }
    if (status != 401 || l->refusals > 0 || !credentials_lines_renew(&l->shown, &c->settings)) {
        return false;
    }
    l->refusals++;
    byte_stream_close(l->stream);
    return transport_ws_connect(l, why) == 0;
}

/* The handshake failed with this error. */
static void refused(struct ws_transport *l, struct tidings_error *why)
{
    if (ws_show_another(l, why)) {
        return;
    }
    unsigned status = ws_client_status(buf_str(&l->head));
    if (l->is_plain && status == 400 && errors_want_tls(buf_str(&l->head))) {
        tidings_fail(why, why->code, "the server speaks TLS there: wss:// may be meant (HTTP 400)");
    } else if (status != 401 && status != 404) {
        errors_add_body(ws_client_body(buf_str(&l->head)), why);
    }
    transport_ws_fail(l, why->code, tidings_str(why->text));
}

/* ---- the handshake --------------------------------------------------------------------------- */

static void shake_hands(struct ws_transport *l, struct tidings_str bytes)
{
    struct tidings_error err = {0};
    if (buf_puts(&l->head, bytes) < 0) {
        transport_ws_fail(l, l->head.failed,
                          STR("the server's answer to the handshake is too long"));
        return;
    }
    ptrdiff_t len = ws_client_check(buf_str(&l->head), l->key, &err);
    if (len > 0 &&
        !(l->reader = ws_reader_create_client(l->base.client->settings.max_bytes, &err))) {
        len = err.code;
    }
    if (len < 0) {
        refused(l, &err);
    }
    if (len <= 0) {
        return;
    }
    struct buf rest = l->head;
    buf_init(&l->head, WS_MAX_HEAD + 65536u);
    buf_consume(&rest, (size_t)len);
    transport_opened(&l->base);
    if (l->stream->is_open && rest.len > 0) {
        transport_ws_receive(l, buf_str(&rest));
    }
    buf_deinit(&rest);
}

static void transport_ws_on_bytes(void *user, struct tidings_str bytes)
{
    struct ws_transport *l = user;
    if (l->reader) {
        transport_ws_receive(l, bytes);
    } else {
        shake_hands(l, bytes);
    }
}

static void on_end(void *user, const struct tidings_error *why)
{
    struct ws_transport *l = user;
    struct tidings_error reason = *why;
    l->base.client->is_token_refused = false;
    if (l->is_plain && !l->reader && l->head.len == 0 && why->code == TIDINGS_E_CLOSED) {
        tidings_fail(&reason, why->code,
                     "%s without a word; if it speaks TLS there, wss:// is meant", why->text);
    }
    transport_lost(&l->base, &reason);
}

/* ---- out ------------------------------------------------------------------------------------- */

static void on_open(void *user)
{
    struct ws_transport *l = user;
    const struct client_settings *o = &l->base.client->settings;
    const char *headers[CLIENT_MAX_HEADERS + CREDENTIALS_LINES + 1] = {0};
    struct tidings_error err = {0};
    struct buf text;
    size_t n = 0;
    for (size_t i = 0; i < l->shown.count; i++) {
        headers[n++] = l->shown.lines[i].ptr;
    }
    for (size_t i = 0; o->headers && o->headers[i]; i++) {
        headers[n++] = o->headers[i];
    }
    struct ws_client_request r = {.host = tidings_str(l->host),
                                  .path = tidings_str(l->path),
                                  .key = l->key,
                                  .headers = headers};
    buf_init_secret(&text, 1u << 20);
    ws_client_put_request(&text, &r);
    int rc = text.failed ? tidings_fail(&err, text.failed, "the handshake is too long")
                         : byte_stream_send(l->stream, buf_str(&text), &err);
    buf_deinit(&text);
    if (rc < 0) {
        transport_ws_fail(l, rc, tidings_str(err.text));
    }
}

static const struct byte_stream_events events = {
    .on_open = on_open, .on_bytes = transport_ws_on_bytes, .on_end = on_end};

static void forget_connection(struct ws_transport *l)
{
    ws_reader_destroy(l->reader);
    l->reader = NULL;
    buf_deinit(&l->head);
}

static int transport_ws_connect(struct ws_transport *l, struct tidings_error *err)
{
    forget_connection(l);
    if (ws_client_key(l->key) < 0) {
        return tidings_fail(err, TIDINGS_E_IO, "no random bytes");
    }
    return byte_stream_open(l->stream, err);
}

static int ws_open(struct transport *base, struct tidings_error *err)
{
    struct ws_transport *l = ws_of(base);
    const struct tidings_credentials *c = base->client->settings.credentials;
    struct tidings_credentials_request request = {.method = "GET", .url = l->url};
    l->refusals = 0;
    if (!c || !c->prepare || c->prepare(c->user, &request, ws_on_credentials, l) <= 0) {
        return ws_show(l, err);
    }
    l->is_waiting = l->is_unsent = true;
    base->client->held++;
    return 0;
}

static int ws_send(struct transport *base, const struct transport_message *m,
                   struct tidings_error *err)
{
    struct tidings_error none = {0};
    int rc = put_frame(ws_of(base), WS_OP_TEXT, m->text, err);
    if (rc == 0 && m->is_tracked) {
        transport_delivered(base, &none);
    }
    return rc;
}

static void ws_forget(struct transport *base, int64_t id, bool is_answered)
{
    (void)base;
    (void)id;
    (void)is_answered;
}

/* The reader may still be on the stack: it is freed with the next opening. */
static void ws_close(struct transport *base)
{
    ws_stop_waiting(ws_of(base));
    byte_stream_close(ws_of(base)->stream);
}

static bool ws_leave(struct transport *base)
{
    struct ws_transport *l = ws_of(base);
    if (l->reader && l->stream->is_open) {
        put_close(l, WS_NORMAL);
    }
    return true;
}

static void ws_destroy(struct transport *base)
{
    struct ws_transport *l = ws_of(base);
    ws_stop_waiting(l);
    byte_stream_destroy(l->stream);
    forget_connection(l);
    credentials_lines_deinit(&l->shown);
    mem_free(l->url);
    mem_free(l->host);
    mem_free(l->path);
    mem_free(l);
}

static const struct transport_ops ws_ops = {
    .name = "websocket",
    .open = ws_open,
    .send = ws_send,
    .forget = ws_forget,
    .close = ws_close,
    .leave = ws_leave,
    .destroy = ws_destroy,
};

/* `origin` ends in '/', and the path begins with one. */
static char *ws_web_url(const char *origin, struct tidings_str path)
{
    struct buf url;
    buf_init(&url, 16384);
    buf_puts(&url, tidings_str(origin));
    buf_puts(&url, str_skip(path, 1));
    char *text = url.failed ? NULL : buf_detach(&url, NULL);
    buf_deinit(&url);
    return text;
}

struct transport *transport_ws_create(struct tidings_client *c, const char *url,
                                      struct tidings_str host, struct tidings_str path,
                                      struct tidings_error *err)
{
    struct byte_stream_address address = {.url = url};
    struct ws_reader *probe = ws_reader_create_client(1, err);
    struct byte_stream *stream = probe ? byte_stream_socket_create(c, &address, err) : NULL;
    ws_reader_destroy(probe); /* better reported now than after connecting */
    struct ws_transport *l = stream ? mem_zalloc(sizeof(*l)) : NULL;
    if (!l) {
        if (stream) {
            tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        }
        byte_stream_destroy(stream);
        return NULL;
    }
    l->base = (struct transport){.ops = &ws_ops, .client = c};
    l->stream = stream;
    l->is_plain = str_starts(tidings_str(url), STR("http://"));
    stream->events = &events;
    stream->user = l;
    buf_init(&l->head, WS_MAX_HEAD + 65536u);
    credentials_lines_init(&l->shown);
    l->host = str_dup(host);
    l->path = str_dup(path.len > 0 ? path : STR("/"));
    l->url = ws_web_url(url, path);
    if (!l->host || !l->path || !l->url) {
        ws_destroy(&l->base);
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    return &l->base;
}
