/* SPDX-License-Identifier: MIT
 *
 * An MCP server that is launched, as a stream of bytes over its standard input and output. Its end
 * is asked for by closing its input, then demanded: SIGTERM, SIGKILL. It is always waited for.
 *
 * When it ends by itself, there are two signs, in any order: the end of its output and that of the
 * process. Both are awaited for a moment, so that the message can tell how it ended, and nothing it
 * still said is lost.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/spawn.h"
#include "client/byte_stream.h"
#include "client/events.h"
#include "client/state.h"

#define PATIENCE_MS 2000 /* after each demand to end */
#define SECOND_SIGN_MS 500

struct child {
    struct byte_stream base;
    char **argv;
    struct spawn process;
    struct poller_fd exit, stderr_fd;
    struct poller_timer timer; /* the second sign, or the next demand */
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

/* Did it end before it read anything, so that nothing we said can be the reason? */
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
    poller_remove(&k->client->poller, &k->in);
    d->has_closed = true;
    if (d->has_ended) {
        child_report_end(d);
    } else {
        poller_set(&k->client->poller, &d->timer, SECOND_SIGN_MS);
    }
    return true;
}

static void on_exit_ready(void *user, uint32_t events)
{
    struct child *d = user;
    struct poller *p = &d->base.client->poller;
    (void)events;
    if (!spawn_reap(&d->process, &d->how, &d->value)) {
        return;
    }
    poller_remove(p, &d->exit);
    d->has_ended = true;
    if (d->demands > 0) {
        poller_unset(&d->timer);
    } else if (d->has_closed) {
        child_report_end(d);
    } else {
        poller_set(p, &d->timer, SECOND_SIGN_MS); /* somebody else may have its output open */
    }
}

static void child_demand_end(struct child *d)
{
    if (d->demands == 0) {
        poller_remove(&d->base.client->poller, &d->base.out);
        spawn_close_input(&d->process);
    } else if (d->demands == 1) {
        spawn_terminate(&d->process);
    } else {
        spawn_kill(&d->process);
    }
    d->demands++;
    poller_set(&d->base.client->poller, &d->timer, PATIENCE_MS);
}

static void process_on_timer(void *user)
{
    struct child *d = user;
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

/* EPIPE without the signal: the disposition is the program's, so it is held back for the call. */
static ssize_t write_quietly(int fd, const char *bytes, size_t len)
{
    sigset_t pipe_only, before, pending;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    sigpending(&pending);
    bool was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
    ssize_t n = write(fd, bytes, len);
    int kept = errno;
    if (n < 0 && kept == EPIPE && !was_pending) {
        (void)sigtimedwait(&pipe_only, NULL, &(struct timespec){0});
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = kept;
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

static void on_stderr_ready(void *user, uint32_t events)
{
    struct child *d = user;
    char text[4096];
    (void)events;
    ssize_t n = outcome(read(d->process.err, text, sizeof(text)));
    if (n > 0) {
        events_put_stderr(d->base.client, tidings_strn(text, (size_t)n));
    } else if (n < 0) {
        poller_remove(&d->base.client->poller, &d->stderr_fd);
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
    struct poller *p = &k->client->poller;
    d->demands = 0;
    d->has_closed = d->has_ended = d->has_written = false;
    d->sent = 0;
    int rc = process_start(d, err);
    if (rc < 0) {
        return rc;
    }
    if (poller_add(p, &d->exit, d->process.pidfd, EPOLLIN) < 0 ||
        (d->process.err > 0 && poller_add(p, &d->stderr_fd, d->process.err, EPOLLIN) < 0)) {
        byte_stream_close(k);
        return tidings_fail(err, TIDINGS_E_IO, "wait for '%.80s'", d->argv[0]);
    }
    byte_stream_opened(k, d->process.out, d->process.in);
    return 0;
}

static void child_close(struct byte_stream *k)
{
    struct child *d = child_of(k);
    poller_unset(&d->timer);
    poller_remove(&k->client->poller, &d->exit);
    poller_remove(&k->client->poller, &d->stderr_fd);
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

struct byte_stream *byte_stream_process_create(struct tidings_client *c, char **argv,
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
    d->exit = (struct poller_fd){.fd = -1, .fn = on_exit_ready, .user = d};
    d->stderr_fd = (struct poller_fd){.fd = -1, .fn = on_stderr_ready, .user = d};
    poller_timer_init(&d->timer, process_on_timer, d);
    return &d->base;
}
