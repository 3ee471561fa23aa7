/* SPDX-License-Identifier: MIT
 *
 * Following one run of a command: its output, its deadline, its end.
 *
 * The end of a run is the end of the program, not of its output: a process it left behind may hold
 * the pipes open for ever. So at its end the group is killed, what is in the pipes is taken, and
 * then it is reaped, in this order: until it is reaped the number of its group is nobody else's.
 */
#include "provider/command_run.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/helper.h"
#include "base/units.h"
#include "provider/command_settings.h"

#define READ_CHUNK 65536u

/* ---- what it writes -------------------------------------------------------------------------- */

/* The first failure is the one that counts. */
static void command_run_fail(struct command_run *r, int code, const char *verb,
                             const struct buf *what)
{
    if (r->code == 0) {
        r->code = tidings_fail(&r->err, code, "'%.64s' %s %s", r->settings->argv[0], verb,
                               what->ptr ? what->ptr : "it may");
    }
    spawn_kill(&r->child);
}

static void command_run_fail_size(struct command_run *r)
{
    struct buf size;
    buf_init(&size, 32);
    units_put_size(&size, r->settings->max_output);
    command_run_fail(r, TIDINGS_E_LIMIT, "wrote more than", &size);
    buf_deinit(&size);
}

/* One read: more may be there. False: nothing now, or nothing ever. */
static bool take_output(struct command_run *r)
{
    if (r->code < 0) {
        buf_clear(&r->output); /* it has failed: what else it writes is of no use */
    }
    if (buf_reserve(&r->output, READ_CHUNK) < 0) { /* out of memory: there is room in its limit */
        command_run_fail_size(r);
        return false;
    }
    ssize_t n = read(r->child.out, r->output.ptr + r->output.len, READ_CHUNK - 1);
    if (n > 0) {
        r->output.len += (size_t)n;
        r->output.ptr[r->output.len] = '\0';
    }
    if (r->output.len > r->settings->max_output) {
        command_run_fail_size(r);
    }
    if (n == 0) {
        loop_poll_close(r->out_poll);
        r->out_poll = NULL;
    }
    return n > 0 || (n < 0 && errno == EINTR);
}

/* Keep the last bytes only. */
static bool take_errors(struct command_run *r)
{
    ssize_t n = read(r->child.err, r->tail + r->tail_len, sizeof(r->tail) - r->tail_len);
    if (n > 0) {
        r->tail_len += (size_t)n;
        if (r->tail_len > COMMAND_TAIL) {
            memmove(r->tail, r->tail + r->tail_len - COMMAND_TAIL, COMMAND_TAIL);
            r->tail_len = COMMAND_TAIL;
        }
    }
    if (n == 0) {
        loop_poll_close(r->err_poll);
        r->err_poll = NULL;
    }
    return n > 0 || (n < 0 && errno == EINTR);
}

static void on_output(struct loop_poll *poll, int events, void *user)
{
    (void)poll;
    (void)events;
    (void)take_output(user);
}

static void on_errors(struct loop_poll *poll, int events, void *user)
{
    (void)poll;
    (void)events;
    (void)take_errors(user);
}

/* ---- its end --------------------------------------------------------------------------------- */

/* The end of standard error as one printable line. */
static void line_of_tail(struct command_run *r, char out[COMMAND_TAIL + 1])
{
    struct tidings_str s = str_trim(tidings_strn(r->tail, r->tail_len), " \t\r\n");
    while (s.len > 0 && ((unsigned char)s.ptr[0] & 0xc0) == 0x80) {
        s = str_skip(s, 1); /* the rest of a character that was cut */
    }
    for (size_t i = 0; i < s.len; i++) {
        out[i] = s.ptr[i];
        if ((unsigned char)s.ptr[i] < ' ' || s.ptr[i] == 0x7f) {
            out[i] = ' ';
        }
    }
    out[s.len] = '\0';
    if (!str_is_utf8(tidings_strn(out, s.len))) {
        (void)snprintf(out, COMMAND_TAIL + 1, "(not text)");
    }
}

static void command_run_judge(struct command_run *r, enum spawn_ending how, int value)
{
    char tail[COMMAND_TAIL + 1];
    if (r->code < 0 || (how == SPAWN_EXITED && value == 0)) {
        return;
    }
    line_of_tail(r, tail);
    const char *verb = how == SPAWN_EXITED ? "ended with status"
                       : how == SPAWN_KILLED
                           ? "was killed by signal"
                           : "ended, and other code of this process took its exit status; instead:";
    r->code = tidings_fail(&r->err, TIDINGS_E_IO, "'%.40s' %s %d%s%s", r->settings->argv[0], verb,
                           value, tail[0] ? ": " : "", tail);
}

static void close_all(struct command_run *r)
{
    loop_timer_stop(r->deadline);
    loop_poll_close(r->out_poll);
    loop_poll_close(r->err_poll);
    loop_poll_close(r->exit_poll);
    r->out_poll = r->err_poll = r->exit_poll = NULL;
    spawn_deinit(&r->child);
    r->running = false;
}

static void on_exit_event(struct loop_poll *poll, int events, void *user)
{
    (void)poll;
    (void)events;
    struct command_run *r = user;
    enum spawn_ending how = SPAWN_UNKNOWN;
    int value = 0;
    spawn_kill(&r->child);
    while (r->out_poll && take_output(r)) {
    }
    while (r->err_poll && take_errors(r)) {
    }
    if (!spawn_reap(&r->child, &how, &value)) {
        return; /* not yet after all; the descriptor will say so again */
    }
    command_run_judge(r, how, value);
    close_all(r);
    r->done(r, r->user);
}

static void command_run_on_deadline(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct command_run *r = user;
    struct buf time;
    buf_init(&time, 32);
    units_put_duration(&time, r->settings->timeout_ms);
    command_run_fail(r, TIDINGS_E_TIMEOUT, "took longer than", &time);
    buf_deinit(&time);
}

/* ---- its beginning --------------------------------------------------------------------------- */

static struct loop_poll *watch_fd(struct command_run *r, int fd, loop_poll_fn fn)
{
    struct loop_poll *poll = loop_poll_open(r->loop, fd, fn, r, &r->err);
    if (poll && loop_poll_want(poll, LOOP_READ) < 0) {
        loop_poll_close(poll);
        poll = NULL;
    }
    return poll;
}

static int run_here(struct command_run *r)
{
    char program[PATH_MAX];
    const struct command_settings *s = r->settings;
    int rc = spawn_find(s->argv[0], s->path, program, sizeof(program), &r->err);
    struct spawn_options o = {.path = program, .argv = s->argv, .env = s->env, .directory = s->cwd};
    return rc < 0 ? rc : spawn_start(&r->child, &o, &r->err);
}

/* By the helper, when this process is confined and cannot. */
static int command_run_begin(struct command_run *r)
{
    const struct command_settings *s = r->settings;
    int rc = helper_is_there() ? helper_run(s->id, &r->child, &r->err) : run_here(r);
    if (rc < 0) {
        return rc;
    }
    r->out_poll = watch_fd(r, r->child.out, on_output);
    r->err_poll = watch_fd(r, r->child.err, on_errors);
    r->exit_poll = watch_fd(r, r->child.pidfd, on_exit_event);
    if (!r->out_poll || !r->err_poll || !r->exit_poll) {
        return tidings_fail(&r->err, TIDINGS_E_IO, "cannot follow '%.64s'", s->argv[0]);
    }
    return 0;
}

void command_run_start(struct command_run *r)
{
    r->running = true;
    r->tail_len = 0;
    r->code = 0;
    r->err = (struct tidings_error){0};
    buf_clear(&r->output);
    int rc = command_run_begin(r);
    if (rc < 0) {
        r->code = rc;
        close_all(r);
        r->done(r, r->user);
        return;
    }
    loop_timer_start(r->deadline, r->settings->timeout_ms, 0);
}

void command_run_abort(struct command_run *r)
{
    if (r->running) {
        close_all(r);
    }
}

int command_run_init(struct command_run *r, struct loop *loop,
                     const struct command_settings *settings,
                     void (*done)(struct command_run *run, void *user), void *user)
{
    *r = (struct command_run){.settings = settings, .loop = loop, .done = done, .user = user};
    buf_init(&r->output, settings->max_output + (size_t)2 * READ_CHUNK);
    r->deadline = loop_timer_open(loop, command_run_on_deadline, r);
    return r->deadline ? 0 : TIDINGS_E_NOMEM;
}

void command_run_deinit(struct command_run *r)
{
    command_run_abort(r);
    loop_timer_close(r->deadline);
    buf_deinit(&r->output);
    *r = (struct command_run){0};
}
