/* SPDX-License-Identifier: MIT
 *
 * Passes events of a transport to the functions of its client, and every message to the `wire`
 * callback (for -v).
 */
#include "client/transport.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/net/fetch.h"
#include "base/process.h"
#include "client/client_internal.h"
#include "client/events.h"
#include "formats/rpc.h"

/* -------------------------------------------------------------------------------------------------
 * Shared by sockets and launched programs as byte streams: reads until no bytes are left, and keeps
 * bytes that cannot be sent.
 */

#define CHUNK 65536u

static void on_in(struct loop_poll *poll, int events, void *user);
static void on_out(struct loop_poll *poll, int events, void *user);

static void byte_stream_init(struct byte_stream *k, const struct byte_stream_ops *ops,
                             struct tidings_client *c)
{
    k->ops = ops;
    k->client = c;
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
    loop_poll_deinit(&k->in);
    loop_poll_deinit(&k->out);
    buf_deinit(&k->pending);
    k->ops->close(k);
}

static bool byte_stream_leave(struct byte_stream *k)
{
    return !k->ops->leave || k->ops->leave(k);
}

static void byte_stream_ended(struct byte_stream *k, const struct tidings_error *why)
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

/* Wait until something can be read from `fd`. */
static int transport_watch(struct loop_poll *poll, struct tidings_client *c, int fd,
                           loop_poll_fn fn, void *user)
{
    int rc = loop_poll_init(poll, c->loop, fd, fn, user, NULL);
    return rc < 0 ? rc : loop_poll_set_events(poll, LOOP_READ);
}

/* `out` is the same for a socket. */
static void byte_stream_opened(struct byte_stream *k, int in, int out)
{
    struct tidings_error why;
    int rc = transport_watch(&k->in, k->client, in, on_in, k);
    if (rc == 0 && out != in) {
        rc = loop_poll_init(&k->out, k->client->loop, out, on_out, k, NULL);
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

static void byte_stream_drain(struct byte_stream *k)
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

static void set_writable(struct byte_stream *k, bool wanted)
{
    if (k->out.loop) {
        (void)loop_poll_set_events(&k->out, wanted ? LOOP_WRITE : 0);
    } else {
        (void)loop_poll_set_events(&k->in, wanted ? LOOP_READ | LOOP_WRITE : LOOP_READ);
    }
}

/* Negative: the other side has gone, which the reader will report. */
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
    set_writable(k, k->pending.len > 0);
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

/* After an error, the write fails too, and ends the wait. */
static void on_out(struct loop_poll *poll, int events, void *user)
{
    (void)poll;
    (void)events;
    flush(user);
}

static void on_in(struct loop_poll *poll, int events, void *user)
{
    struct byte_stream *k = user;
    (void)poll;
    if (events & LOOP_WRITE) {
        flush(k);
    }
    if (events & ~LOOP_WRITE) {
        byte_stream_drain(k);
    }
}

/* -------------------------------------------------------------------------------------------------
 * A launched MCP server, as a byte stream over its standard input and output. To end it, the client
 * closes its input, then sends SIGTERM, then SIGKILL. The client always reaps it.
 *
 * When the server ends by itself, there are two signs, in any order: the end of its output and that
 * of the process. The client waits a moment for both, so that the message can include the exit
 * status, and no output is lost.
 */

#define PATIENCE_MS 2000 /* after each demand to end */
#define SECOND_SIGN_MS 500

struct child {
    struct byte_stream base;
    char **argv;
    struct spawn process;
    struct loop_poll exit, stderr_fd;
    struct loop_timer timer; /* the second sign, or the next demand */
    unsigned demands;
    bool has_closed, has_ended; /* its output; the process */
    bool has_written;           /* something */
    size_t sent;                /* bytes, into the pipe */
    enum spawn_ending how;
    int value;
};

static struct child *child_of(struct byte_stream *k)
{
    return (struct child *)(void *)k;
}

/* ---- its end --------------------------------------------------------------------------------- */

/* Returns true if it ended before it read anything, so that the client's messages cannot be the
 * reason. */
static bool child_has_read_nothing(const struct child *d)
{
    int unread = 0;
    bool is_known = d->process.in > 0 && ioctl(d->process.in, FIONREAD, &unread) == 0;
    return d->has_ended && !d->has_written && is_known && (size_t)unread >= d->sent;
}

static void child_report_end(struct child *d)
{
    struct tidings_error why;
    d->base.client->is_unread = child_has_read_nothing(d);
    const char *name = d->argv[0];
    if (!d->has_ended) {
        tidings_fail(&why, TIDINGS_E_CLOSED, "'%.80s' closed its output", name);
    } else if (d->how == SPAWN_EXITED) {
        tidings_fail(&why, TIDINGS_E_CLOSED, "'%.80s' ended with status %d", name, d->value);
    } else if (d->how == SPAWN_KILLED) {
        tidings_fail(&why, TIDINGS_E_CLOSED, "'%.80s' was ended by signal %d", name, d->value);
    } else {
        tidings_fail(&why, TIDINGS_E_CLOSED, "'%.80s' ended", name);
    }
    byte_stream_ended(&d->base, &why);
}

static bool child_is_ending(struct byte_stream *k)
{
    struct child *d = child_of(k);
    loop_poll_deinit(&k->in);
    d->has_closed = true;
    if (d->has_ended) {
        child_report_end(d);
    } else {
        loop_timer_start(&d->timer, SECOND_SIGN_MS, 0);
    }
    return true;
}

static void on_exit_ready(struct loop_poll *poll, int events, void *user)
{
    struct child *d = user;
    (void)events;
    if (!spawn_reap(&d->process, &d->how, &d->value)) {
        return;
    }
    loop_poll_deinit(poll);
    d->has_ended = true;
    if (d->demands > 0) {
        loop_timer_stop(&d->timer);
    } else if (d->has_closed) {
        child_report_end(d);
    } else {
        loop_timer_start(&d->timer, SECOND_SIGN_MS, 0); /* another process may hold its output */
    }
}

static void child_demand_end(struct child *d)
{
    if (d->demands == 0) {
        loop_poll_deinit(&d->base.out);
        spawn_close_input(&d->process);
    } else if (d->demands == 1) {
        spawn_terminate(&d->process);
    } else {
        spawn_kill(&d->process);
    }
    d->demands++;
    loop_timer_start(&d->timer, PATIENCE_MS, 0);
}

static void process_on_timer(struct loop_timer *timer, void *user)
{
    struct child *d = user;
    (void)timer;
    if (d->demands > 0) {
        child_demand_end(d);
    } else {
        child_report_end(d);
    }
}

static bool child_leave(struct byte_stream *k)
{
    struct child *d = child_of(k);
    if (d->process.pid == 0) {
        return true;
    }
    if (d->demands == 0) {
        child_demand_end(d);
    }
    return false;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* EPIPE without the signal: the program owns the disposition, so SIGPIPE is blocked during the
 * call. */
static ssize_t write_quietly(int fd, const char *bytes, size_t len)
{
    sigset_t pipe_only, before, pending;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    sigpending(&pending);
    bool was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
    ssize_t n = write(fd, bytes, len);
    int saved_errno = errno;
    if (n < 0 && saved_errno == EPIPE && !was_pending) {
        (void)sigtimedwait(&pipe_only, NULL, &(struct timespec){0});
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = saved_errno;
    return n;
}

static ssize_t outcome(ssize_t n)
{
    bool is_later = n < 0 && (errno == EAGAIN || errno == EINTR);
    return n > 0 ? n : is_later ? 0 : TIDINGS_E_CLOSED;
}

static ssize_t child_send(struct byte_stream *k, const char *bytes, size_t len)
{
    struct child *d = child_of(k);
    int fd = d->process.in;
    ssize_t n = fd > 0 ? outcome(write_quietly(fd, bytes, len)) : TIDINGS_E_CLOSED;
    d->sent += n > 0 ? (size_t)n : 0;
    return n;
}

static ssize_t child_recv(struct byte_stream *k, char *out, size_t room)
{
    ssize_t n = outcome(read(child_of(k)->process.out, out, room));
    child_of(k)->has_written = child_of(k)->has_written || n > 0;
    return n;
}

static void on_stderr_ready(struct loop_poll *poll, int events, void *user)
{
    struct child *d = user;
    char text[4096];
    (void)events;
    ssize_t n = outcome(read(d->process.err, text, sizeof(text)));
    if (n > 0) {
        events_put_stderr(d->base.client, tidings_strn(text, (size_t)n));
    } else if (n < 0) {
        loop_poll_deinit(poll);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static int process_start(struct child *d, struct tidings_error *err)
{
    const struct client_settings *o = &d->base.client->settings;
    const char *path = getenv("PATH");
    char program[4096];
    int rc = spawn_find(d->argv[0], path ? path : "/usr/local/bin:/usr/bin:/bin", program,
                        sizeof(program), err);
    struct spawn_options options = {
        .path = program,
        .argv = d->argv,
        .env = o->env ? o->env : environ,
        .directory = o->directory,
        .wants_input = true,
        .shares_stderr = !o->on_stderr,
    };
    return rc < 0 ? rc : spawn_start(&d->process, &options, err);
}

static int child_open(struct byte_stream *k, struct tidings_error *err)
{
    struct child *d = child_of(k);
    struct tidings_client *c = k->client;
    d->demands = 0;
    d->has_closed = d->has_ended = d->has_written = false;
    d->sent = 0;
    int rc = process_start(d, err);
    if (rc < 0) {
        return rc;
    }
    if (transport_watch(&d->exit, c, d->process.pidfd, on_exit_ready, d) < 0 ||
        (d->process.err > 0 &&
         transport_watch(&d->stderr_fd, c, d->process.err, on_stderr_ready, d) < 0)) {
        byte_stream_close(k);
        return tidings_fail(err, TIDINGS_E_IO, "wait for '%.80s'", d->argv[0]);
    }
    byte_stream_opened(k, d->process.out, d->process.in);
    return 0;
}

static void child_close(struct byte_stream *k)
{
    struct child *d = child_of(k);
    loop_timer_stop(&d->timer);
    loop_poll_deinit(&d->exit);
    loop_poll_deinit(&d->stderr_fd);
    spawn_deinit(&d->process);
}

static void child_destroy(struct byte_stream *k)
{
    settings_drop_list(child_of(k)->argv);
}

static const struct byte_stream_ops child_ops = {
    .open = child_open,
    .send = child_send,
    .recv = child_recv,
    .close = child_close,
    .leave = child_leave,
    .is_ending = child_is_ending,
    .destroy = child_destroy,
};

/* Takes `argv` (settings_copy_list), even on failure. */
static struct byte_stream *byte_stream_process_create(struct tidings_client *c, char **argv,
                                                      struct tidings_error *err)
{
    struct child *d = mem_zalloc(sizeof(*d));
    if (!d) {
        settings_drop_list(argv);
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    byte_stream_init(&d->base, &child_ops, c);
    d->argv = argv;
    loop_timer_init(&d->timer, c->loop, process_on_timer, d);
    return &d->base;
}

/* -------------------------------------------------------------------------------------------------
 * A byte stream over a connection that libcurl makes (names, TLS, proxies); the client then reads
 * and writes its bytes.
 */

struct tunnel {
    struct byte_stream base;
    char *url, *unix_path;
    bool no_proxy;
    struct fetch *fetch;
    struct loop_timer limit;
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
    loop_timer_stop(&t->limit);
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

static void on_limit(struct loop_timer *timer, void *user)
{
    struct tunnel *t = user;
    struct tidings_error why;
    (void)timer;
    tidings_fail(&why, TIDINGS_E_TIMEOUT, "the server cannot be reached within %u ms",
                 t->base.client->settings.timeout_ms);
    byte_stream_ended(&t->base, &why);
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
    loop_timer_start(&t->limit, o->timeout_ms, 0);
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
    loop_timer_stop(&t->limit);
    fetch_close(t->transfer);
    t->transfer = NULL;
}

static void tunnel_destroy(struct byte_stream *k)
{
    struct tunnel *t = tunnel_of(k);
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
    loop_timer_init(&t->limit, c->loop, on_limit, t);
    t->no_proxy = address->no_proxy;
    t->url = str_dup(tidings_str(address->url));
    t->unix_path = address->unix_path ? str_dup(tidings_str(address->unix_path)) : NULL;
    int rc = !t->url || (address->unix_path && !t->unix_path)
                 ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory")
                 : fetch_create(c->loop, c->settings.max_bytes, &t->fetch, err);
    if (rc < 0) {
        byte_stream_destroy(&t->base);
        return NULL;
    }
    return &t->base;
}

/* ---------------------------------------------------------------------------------------------- */

static void report_wire(struct transport *t, const struct tidings_client_wire *wire)
{
    if (t->events->wire) {
        t->events->wire(t->client, wire);
    }
}

int transport_send(struct transport *t, const struct transport_message *m,
                   struct tidings_error *err)
{
    struct tidings_client_wire wire = {.is_sent = true, .text = m->text};
    report_wire(t, &wire);
    return t->ops->send(t, m, err);
}

void transport_opened(struct transport *t)
{
    t->events->opened(t->client);
}

void transport_received(struct transport *t, struct tidings_str text, int64_t exchange, long status)
{
    struct tidings_client_wire wire = {.text = text, .status = status};
    report_wire(t, &wire);
    t->events->received(t->client, text, exchange, status);
}

void transport_unanswered(struct transport *t, int64_t id, long status,
                          const struct tidings_error *why)
{
    struct tidings_client_wire wire = {.reason = tidings_str(why->text), .status = status};
    report_wire(t, &wire);
    t->events->unanswered(t->client, id, status, why);
}

void transport_session_lost(struct transport *t, int64_t id, bool is_present)
{
    struct tidings_client_wire wire = {.reason = STR("the server does not know the session"),
                                       .status = 404};
    report_wire(t, &wire);
    t->events->session_lost(t->client, id, is_present);
}

void transport_streaming(struct transport *t, bool is_seamless)
{
    t->events->streaming(t->client, is_seamless);
}

void transport_delivered(struct transport *t, const struct tidings_error *why)
{
    t->events->delivered(t->client, why);
}

void transport_active(struct transport *t, int64_t exchange, bool is_beat)
{
    t->events->active(t->client, exchange, is_beat);
}

void transport_admitted(struct transport *t)
{
    t->events->admitted(t->client);
}

void transport_lost(struct transport *t, const struct tidings_error *why)
{
    struct tidings_client_wire wire = {.reason = tidings_str(why->text)};
    report_wire(t, &wire);
    t->events->lost(t->client, why);
}

/* -------------------------------------------------------------------------------------------------
 * MCP with a message per line, over any byte stream: TCP, TLS, Unix sockets, a launched program.
 */

struct lines_transport {
    struct transport base;
    struct byte_stream *stream;
    struct line_reader reader;
    bool is_plain;     /* TCP without TLS */
    bool has_received; /* something, on this connection */
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
    if (l->is_plain && !l->has_received && str_starts(bytes, STR("\x15\x03"))) { /* an alert */
        transport_lines_fail(l, TIDINGS_E_PARSE,
                             "the server speaks TLS there: tls:// may be meant");
        return;
    }
    l->has_received = true;
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
    if (l->is_plain && !l->has_received && why->code == TIDINGS_E_CLOSED) {
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
    l->has_received = false;
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

static struct transport *transport_lines_create(struct tidings_client *c, const char *url,
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

/* -------------------------------------------------------------------------------------------------
 * The transport for an address.
 */

static bool transport_address_is_visible(struct tidings_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if ((unsigned char)s.ptr[i] <= ' ' || s.ptr[i] == 0x7f) {
            return false;
        }
    }
    return s.len > 0 && s.len <= 4096;
}

static void transport_address_refuse(const char *address, struct tidings_error *err)
{
    tidings_fail(err, TIDINGS_E_INVALID,
                 "'%.60s' is not the address of a server (accepted: http://…, https://…, ws://…, "
                 "wss://…, tcp://HOST:PORT, tls://HOST:PORT, unix:PATH, http+unix:PATH)",
                 address ? address : "");
}

/* "host", "host:1", "[::1]:1": no other part of a URL. */
static bool is_authority(struct tidings_str s, bool with_port)
{
    ptrdiff_t colon = -1;
    bool in_brackets = false;
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] == '@' || s.ptr[i] == '?' || s.ptr[i] == '#' || s.ptr[i] == '/') {
            return false;
        }
        in_brackets = s.ptr[i] == '[' || (in_brackets && s.ptr[i] != ']');
        colon = s.ptr[i] == ':' && !in_brackets ? (ptrdiff_t)i : colon;
    }
    uint64_t port;
    bool has_port =
        colon > 0 && str_to_u64(str_skip(s, (size_t)colon + 1), &port) && port > 0 && port <= 65535;
    return s.len > 0 && (has_port || (colon < 0 && !with_port));
}

/* http:// or https:// for the same authority; NULL: out of memory. */
static char *web_url(bool is_secure, struct tidings_str authority)
{
    struct buf url;
    buf_init(&url, 8192);
    buf_puts(&url, is_secure ? STR("https://") : STR("http://"));
    buf_puts(&url, authority);
    buf_putc(&url, '/');
    if (url.failed) {
        buf_deinit(&url);
    }
    return buf_detach(&url, NULL);
}

static struct transport *create_lines(struct tidings_client *c, const char *address,
                                      struct tidings_error *err)
{
    struct tidings_str authority = tidings_str(address + 6); /* tcp:// and tls:// */
    if (!is_authority(authority, true)) {
        transport_address_refuse(address, err);
        return NULL;
    }
    char *url = web_url(address[1] == 'l', authority);
    struct transport *l = url ? transport_lines_create(c, url, NULL, err) : NULL;
    if (!url) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    mem_free(url);
    return l;
}

static struct transport *create_websocket(struct tidings_client *c, const char *address,
                                          bool is_secure, struct tidings_error *err)
{
    struct tidings_str rest = tidings_str(address + (is_secure ? 6 : 5));
    size_t end = 0;
    while (end < rest.len && !strchr("/?#", rest.ptr[end])) {
        end++;
    }
    struct tidings_str authority = tidings_strn(rest.ptr, end);
    struct tidings_str path = str_skip(rest, end);
    if (!is_authority(authority, false) || (path.len > 0 && path.ptr[0] != '/') ||
        str_find(path, '#') >= 0) {
        transport_address_refuse(address, err);
        return NULL;
    }
    char *url = web_url(is_secure, authority);
    struct transport *l = url ? transport_ws_create(c, url, authority, path, err) : NULL;
    if (!url) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    mem_free(url);
    return l;
}

struct transport *transport_create(struct tidings_client *c, const char *address,
                                   struct tidings_error *err)
{
    struct tidings_str s = tidings_str(address);
    if (str_starts(s, STR("http+unix:")) && s.len > 10 && s.len < 4096) {
        return transport_http_create(c, "http://localhost/mcp", address + 10, err);
    }
    if (str_starts(s, STR("unix:")) && s.len > 5 && s.len < 4096) {
        return transport_lines_create(c, "http://localhost/", address + 5, err);
    }
    if (!transport_address_is_visible(s)) {
        transport_address_refuse(address, err);
        return NULL;
    }
    if (str_starts(s, STR("http://")) || str_starts(s, STR("https://"))) {
        return transport_http_create(c, address, NULL, err);
    }
    if (str_starts(s, STR("ws://")) || str_starts(s, STR("wss://"))) {
        return create_websocket(c, address, s.ptr[2] == 's', err);
    }
    if (str_starts(s, STR("tcp://")) || str_starts(s, STR("tls://"))) {
        return create_lines(c, address, err);
    }
    transport_address_refuse(address, err);
    return NULL;
}
