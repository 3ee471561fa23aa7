/* SPDX-License-Identifier: MIT
 *
 * The operations of the command provider, and its thread. Workers and the hub send jobs. The thread
 * of the instance tracks the readers and watchers of a run, and announces changed output.
 * Everything below "on the actor" belongs to that thread.
 */
#include "sources/command.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/str.h"
#include "base/text.h"
#include "base/thread.h"
#include "security/helper.h"
#include "sources/settings.h"

/* -------------------------------------------------------------------------------------------------
 * One run of a command, from its start to its outcome, on a loop.
 *
 *     IDLE --start--> RUNNING --its end--> IDLE, `done` is called
 *                        \--abort--> IDLE, `done` is not called
 *
 * After the timeout, or too much output, the process group is killed; the run ends after that.
 */

struct command_settings;

#define COMMAND_TAIL 160u /* bytes of standard error that are kept: the last ones */

struct command_run {
    const struct command_settings *settings;
    struct loop *loop;
    void (*done)(struct command_run *run, void *user);
    void *user;
    struct loop_timer *deadline;

    bool running;
    struct spawn child;
    struct loop_poll *out_poll, *err_poll, *exit_poll;
    char tail[2 * COMMAND_TAIL];
    size_t tail_len;

    /* the outcome, valid in `done` */
    int code; /* 0, or a failure with its message in err */
    struct tidings_error err;
    struct buf output;
};

/* -------------------------------------------------------------------------------------------------
 * The output, deadline and end of a run.
 *
 * A run ends with the program, not with its output: a process that it left behind may hold the
 * pipes open indefinitely. So at the end of the program its group is killed, the pipes are drained,
 * and then it is reaped, in this order: until then the kernel cannot reuse the number of its group.
 */

#define READ_CHUNK 65536u

/* ---- what it writes -------------------------------------------------------------------------- */

/* The first failure counts. */
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

/* Reads once; more data may follow. Returns false if there is none now, or none ever. */
static bool take_output(struct command_run *r)
{
    if (r->code < 0) {
        buf_clear(&r->output); /* it has failed: further output is discarded */
    }
    if (buf_reserve(&r->output, READ_CHUNK) < 0) { /* out of memory, below its limit */
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

/* Keeps the last bytes only. */
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

/* Formats the end of standard error as one printable line. */
static void line_of_tail(struct command_run *r, char out[COMMAND_TAIL + 1])
{
    struct tidings_str s = str_trim(tidings_strn(r->tail, r->tail_len), " \t\r\n");
    while (s.len > 0 && ((unsigned char)s.ptr[0] & 0xc0) == 0x80) {
        s = str_skip(s, 1); /* the rest of a truncated character */
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

static void command_run_decide(struct command_run *r, enum spawn_ending how, int value)
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
        return; /* not yet; the descriptor will become ready again */
    }
    command_run_decide(r, how, value);
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
    if (poll && loop_poll_set_events(poll, LOOP_READ) < 0) {
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

/* Starts it through the helper if this process is confined. */
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

/* Not while running. If the program cannot be started, `done` is called before this returns. */
static void command_run_start(struct command_run *r)
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

static void command_run_abort(struct command_run *r)
{
    if (r->running) {
        close_all(r);
    }
}

/* `settings` are borrowed until deinit. */
static int command_run_init(struct command_run *r, struct loop *loop,
                            const struct command_settings *settings,
                            void (*done)(struct command_run *run, void *user), void *user)
{
    *r = (struct command_run){.settings = settings, .loop = loop, .done = done, .user = user};
    buf_init(&r->output, settings->max_output + (size_t)2 * READ_CHUNK);
    r->deadline = loop_timer_open(loop, command_run_on_deadline, r);
    return r->deadline ? 0 : TIDINGS_E_NOMEM;
}

/* kills it and waits for its end; does nothing if idle */
static void command_run_deinit(struct command_run *r)
{
    command_run_abort(r);
    loop_timer_close(r->deadline);
    buf_deinit(&r->output);
    *r = (struct command_run){0};
}

/* -------------------------------------------------------------------------------------------------
 * Reads the configuration of a command.
 */

static int take_argv(void *into, struct json *value, struct tidings_error *err)
{
    struct command_settings *s = into;
    size_t count = jv_count(value);
    if (!jv_is(value, JV_ARRAY) || count == 0 || count > COMMAND_WORDS_MAX) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "not an array of 1 to %u strings: the program and its arguments",
                            COMMAND_WORDS_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        struct tidings_error local = {0};
        struct json *word = jv_at(value, i);
        bool is_empty = i > 0 && jv_is(word, JV_STRING) && jv_str(word).len == 0;
        s->argv[i] = is_empty ? str_dup(STR_EMPTY) : setting_text(word, &local);
        if (!s->argv[i]) {
            return tidings_fail(err, local.code < 0 ? local.code : TIDINGS_E_NOMEM,
                                "argument %zu: %s", i, local.text);
        }
    }
    return 0;
}

static int add_variable(struct command_settings *s, struct tidings_str name,
                        struct tidings_str value)
{
    struct buf text;
    buf_init(&text, name.len + value.len + 2);
    buf_puts(&text, name);
    buf_putc(&text, '=');
    buf_puts(&text, value);
    size_t at = 0;
    while (s->env[at]) {
        at++;
    }
    int failed = text.failed;
    s->env[at] = buf_detach(&text, NULL);
    return failed ? TIDINGS_E_NOMEM : 0;
}

static int take_env(void *into, struct json *value, struct tidings_error *err)
{
    struct command_settings *s = into;
    if (!jv_is(value, JV_OBJECT) || jv_count(value) > COMMAND_WORDS_MAX) {
        return tidings_fail(err, TIDINGS_E_INVALID, "not an object of at most %u strings",
                            COMMAND_WORDS_MAX);
    }
    struct tidings_str name;
    struct json *member;
    for (void *it = NULL; (it = jv_next(value, it, &name, &member)) != NULL;) {
        struct tidings_str text = jv_str(member);
        if (!jv_is(member, JV_STRING) || text.len > SETTING_TEXT_MAX || name.len == 0 ||
            str_find(name, '=') >= 0 || memchr(name.ptr, '\0', name.len) ||
            (text.len > 0 && memchr(text.ptr, '\0', text.len))) {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "a name without '=' and a string without NUL, at most %u bytes",
                                SETTING_TEXT_MAX);
        }
        if (add_variable(s, name, text) < 0) {
            return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        }
    }
    return 0;
}

#define AT(field) offsetof(struct command_settings, field)
#define HOUR 3600000ull

static const struct setting rows[] = {
    {.key = "argv", .type = SETTING_OTHER, .take = take_argv},
    {.key = "interval",
     .type = SETTING_DURATION,
     .offset = AT(interval_ms),
     .fallback = 5000,
     .min = 0,
     .max = 24 * HOUR},
    {.key = "timeout",
     .type = SETTING_DURATION,
     .offset = AT(timeout_ms),
     .fallback = 10000,
     .min = 100,
     .max = HOUR},
    {.key = "maxOutput",
     .type = SETTING_SIZE,
     .offset = AT(max_output),
     .fallback = 1u << 20,
     .min = 1,
     .max = 64u << 20},
    {.key = "cwd", .type = SETTING_TEXT, .offset = AT(cwd)},
    {.key = "env", .type = SETTING_OTHER, .take = take_env},
    {.key = "mimeType", .type = SETTING_TEXT, .offset = AT(mime_type)},
    {.key = "name", .type = SETTING_TEXT, .offset = AT(name)},
    {.key = "title", .type = SETTING_TEXT, .offset = AT(title)},
    {.key = "description", .type = SETTING_TEXT, .offset = AT(description)},
};

static const char *find_variable(const struct command_settings *s, struct tidings_str prefix)
{
    for (size_t i = 0; s->env[i]; i++) {
        if (str_starts(tidings_str(s->env[i]), prefix)) {
            return s->env[i] + prefix.len;
        }
    }
    return NULL;
}

int command_settings_read(struct command_settings *s, struct tidings_str config,
                          struct tidings_error *err)
{
    int rc = settings_read(rows, sizeof(rows) / sizeof(rows[0]), config, s, err);
    if (rc < 0) {
        return rc;
    }
    if (!s->argv[0]) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "argv is missing: the program and its arguments, such as [\"uptime\"]");
    }
    if (s->interval_ms > 0 && s->interval_ms < 100) {
        return tidings_fail(err, TIDINGS_E_INVALID, "interval: not 0 and less than 100ms");
    }
    if ((!find_variable(s, STR("PATH=")) && add_variable(s, STR("PATH"), STR(COMMAND_PATH)) < 0) ||
        (!find_variable(s, STR("LANG=")) && add_variable(s, STR("LANG"), STR("C.UTF-8")) < 0)) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    s->path = find_variable(s, STR("PATH="));
    return 0;
}

void command_settings_deinit(struct command_settings *s)
{
    for (size_t i = 0; i < sizeof(s->argv) / sizeof(s->argv[0]); i++) {
        mem_free(s->argv[i]);
    }
    for (size_t i = 0; i < sizeof(s->env) / sizeof(s->env[0]); i++) {
        mem_free(s->env[i]);
    }
    char *texts[] = {s->id, s->cwd, s->mime_type, s->name, s->title, s->description};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        mem_free(texts[i]);
    }
    *s = (struct command_settings){0};
}

/* ---------------------------------------------------------------------------------------------- */

#define GONE_MS 100u /* interval of checks for canceled reads */

struct command {
    struct tidings_provider *provider;
    struct tidings_str uri;
    struct command_settings settings;
    struct actor actor;

    /* on the actor */
    struct command_run run;
    struct loop_timer *refresh, *gone;
    struct list readers; /* struct actor_job; bounded by the number of requests */
    size_t reader_count;
    unsigned watchers;
    bool has_outcome;     /* run.code, run.err and run.output are those of the newest run */
    char etag[ETAG_SIZE]; /* of the last outcome, which may have been freed; "": none yet */
};

static void command_describe(const struct command *c, struct tidings_resource *about)
{
    const struct command_settings *s = &c->settings;
    const char *slash = memrchr(c->uri.ptr, '/', c->uri.len);
    *about = (struct tidings_resource){0};
    about->uri = c->uri;
    about->name = s->name ? tidings_str(s->name)
                          : str_skip(c->uri, slash ? (size_t)(slash + 1 - c->uri.ptr) : 0);
    about->title = tidings_str(s->title);
    about->description = tidings_str(s->description);
    about->mime_type = s->mime_type ? tidings_str(s->mime_type) : STR("text/plain");
    about->not_subscribable = s->interval_ms == 0;
}

/* ---- on the actor ---------------------------------------------------------------------------- */

static void command_answer(struct command *c, struct tidings_read *read)
{
    struct tidings_error err = c->run.err;
    int rc = c->run.code;
    if (rc == 0) {
        struct tidings_resource about;
        struct tidings_str output = buf_str(&c->run.output);
        command_describe(c, &about);
        about.etag = tidings_strn(c->etag, ETAG_SIZE - 1);
        rc = str_is_utf8(output) ? tidings_read_text(read, &about, output, &err)
                                 : tidings_read_blob(read, &about, output, &err);
    }
    tidings_read_done(read, rc, &err);
}

static void forget_reader(struct command *c, struct actor_job *e)
{
    list_remove(&e->link);
    c->reader_count--;
    mem_free(e);
}

static void command_announce(struct command *c)
{
    struct tidings_change change = {.uri = c->uri};
    if (c->run.code == 0) {
        change.etag = tidings_strn(c->etag, ETAG_SIZE - 1);
        change.size = (int64_t)c->run.output.len;
        change.has_size = true;
    }
    (void)tidings_provider_changed(c->provider, &change, NULL);
}

static void command_on_done(struct command_run *run, void *user)
{
    struct command *c = user;
    char etag[ETAG_SIZE];
    etag_of(run->code < 0 ? tidings_str(run->err.text) : buf_str(&run->output), etag);
    bool differs = c->etag[0] && memcmp(c->etag, etag, ETAG_SIZE) != 0;
    c->has_outcome = true;
    memcpy(c->etag, etag, ETAG_SIZE);
    loop_timer_stop(c->gone);
    if (differs && c->watchers > 0) {
        command_announce(c);
    }
    list_each (it, next, &c->readers) {
        struct actor_job *e = list_entry(it, struct actor_job, link);
        command_answer(c, e->read);
        forget_reader(c, e);
    }
    if (c->watchers > 0) {
        loop_timer_start(c->refresh, c->settings.interval_ms, 0);
    }
}

static void command_start(struct command *c)
{
    loop_timer_stop(c->refresh);
    loop_timer_start(c->gone, GONE_MS, GONE_MS);
    c->has_outcome = false;
    command_run_start(&c->run);
}

static void on_refresh(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct command *c = user;
    if (!c->run.running) {
        command_start(c);
    }
}

/* Aborts the current run if no reader or watcher needs it. */
static void check_wanted(struct command *c)
{
    if (c->run.running && c->watchers == 0 && c->reader_count == 0) {
        loop_timer_stop(c->gone);
        command_run_abort(&c->run);
    }
}

static void on_gone(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct command *c = user;
    list_each (it, next, &c->readers) {
        struct actor_job *e = list_entry(it, struct actor_job, link);
        if (tidings_read_cancelled(e->read)) {
            tidings_read_done(e->read, TIDINGS_E_CANCELLED, NULL);
            forget_reader(c, e);
        }
    }
    check_wanted(c);
}

static void command_do_read(struct command *c, struct actor_job *e)
{
    if (c->watchers > 0 && c->has_outcome) {
        command_answer(c, e->read);
        mem_free(e);
        return;
    }
    list_append(&c->readers, &e->link);
    c->reader_count++;
    if (!c->run.running) {
        command_start(c);
    }
}

static void do_watch(struct command *c, struct tidings_watch *watch)
{
    c->watchers++;
    tidings_watch_done(watch, 0, NULL);
    /* The baseline for later runs. It is taken after the answer, so that a difference from earlier
     * reads is announced. */
    if (c->watchers == 1 && !c->run.running) {
        command_start(c);
    }
}

static void do_unwatch(struct command *c)
{
    if (--c->watchers == 0) {
        loop_timer_stop(c->refresh);
        check_wanted(c);
    }
}

static void command_deliver(struct thread_message *message, void *owner)
{
    struct command *c = owner;
    struct actor_job *e = list_entry(message, struct actor_job, message);
    if (e->read) {
        command_do_read(c, e);
        return;
    }
    if (e->watch) {
        do_watch(c, e->watch);
    } else {
        do_unwatch(c);
    }
    mem_free(e);
}

/* ---- the operations -------------------------------------------------------------------------- */

static bool command_is_ours(const struct command *c, struct tidings_str uri)
{
    return str_eq(uri, c->uri) || str_eq(uri, tidings_provider_prefix(c->provider));
}

static bool command_send_job(struct command *c, struct tidings_read *read,
                             struct tidings_watch *watch)
{
    const struct actor_job e = {.read = read, .watch = watch};
    return actor_job_send(c->actor.mailbox, &e, command_deliver);
}

static void command_read(struct tidings_provider *p, struct tidings_read *read,
                         struct tidings_str uri)
{
    struct command *c = tidings_provider_state(p);
    if (!str_eq(uri, c->uri)) {
        tidings_read_done(read, TIDINGS_E_NOTFOUND, NULL);
    } else if (!command_send_job(c, read, NULL)) {
        tidings_read_done(read, TIDINGS_E_NOMEM, NULL);
    }
}

static void command_watch(struct tidings_provider *p, struct tidings_watch *watch,
                          struct tidings_str uri)
{
    struct command *c = tidings_provider_state(p);
    struct tidings_error err;
    if (!command_is_ours(c, uri)) {
        tidings_watch_done(watch, TIDINGS_E_NOTFOUND, NULL); /* it never has children */
    } else if (provider_command_is_mute(p)) {
        int rc = tidings_fail(&err, TIDINGS_E_NOTFOUND,
                              "a command with 'interval' 0 runs for reads only: it cannot be "
                              "subscribed to");
        tidings_watch_done(watch, rc, &err);
    } else if (!command_send_job(c, NULL, watch)) {
        tidings_watch_done(watch, TIDINGS_E_NOMEM, NULL);
    }
}

static void command_unwatch(struct tidings_provider *p, struct tidings_str uri)
{
    struct command *c = tidings_provider_state(p);
    if (command_is_ours(c, uri)) {
        (void)command_send_job(c, NULL, NULL); /* otherwise it keeps running, which is harmless */
    }
}

static void command_list(struct tidings_provider *p, struct tidings_list *list)
{
    struct command *c = tidings_provider_state(p);
    struct tidings_resource about;
    struct tidings_error err = {0};
    int rc = 0;
    command_describe(c, &about);
    if (str_cmp(c->uri, tidings_list_after(list)) > 0) {
        rc = tidings_list_add(list, &about, &err);
    }
    tidings_list_done(list, rc < 0 ? rc : 0, &err);
}

static void command_stat(struct tidings_provider *p, struct tidings_stat *stat,
                         struct tidings_str uri)
{
    struct command *c = tidings_provider_state(p);
    struct tidings_resource about;
    if (!str_eq(uri, c->uri)) {
        tidings_stat_done(stat, TIDINGS_E_NOTFOUND, NULL, NULL);
        return;
    }
    command_describe(c, &about);
    tidings_stat_done(stat, 0, &about, NULL);
}

/* ---- open and close -------------------------------------------------------------------------- */

static int open_actor(struct command *c, struct tidings_error *err)
{
    int rc = actor_init(&c->actor, c, err);
    if (rc < 0) {
        return rc;
    }
    c->refresh = loop_timer_open(c->actor.loop, on_refresh, c);
    c->gone = loop_timer_open(c->actor.loop, on_gone, c);
    rc = command_run_init(&c->run, c->actor.loop, &c->settings, command_on_done, c);
    if (rc < 0 || !c->refresh || !c->gone) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    return actor_start(&c->actor, "tidings-command", err);
}

static int command_open(struct tidings_provider *p, struct tidings_str config,
                        struct tidings_error *err)
{
    struct command *c = tidings_provider_state(p);
    struct tidings_str prefix = tidings_provider_prefix(p);
    c->provider = p;
    list_init(&c->readers);
    if (prefix.len < 2 || strchr("/:", prefix.ptr[prefix.len - 2])) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "a command is one resource: its URI needs a path, as cmd:///uptime");
    }
    c->uri = tidings_strn(prefix.ptr, prefix.len - 1);
    c->settings.id = str_dup(prefix);
    if (!c->settings.id) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    int rc = command_settings_read(&c->settings, config, err);
    return rc < 0 ? rc : open_actor(c, err);
}

bool provider_command_is_mute(struct tidings_provider *p)
{
    const struct command *c = tidings_provider_state(p);
    return c->settings.interval_ms == 0;
}

static void command_close(struct tidings_provider *p)
{
    struct command *c = tidings_provider_state(p);
    actor_stop(&c->actor);
    if (c->run.loop) {
        command_run_deinit(&c->run);
    }
    list_each (it, next, &c->readers) {
        struct actor_job *e = list_entry(it, struct actor_job, link);
        tidings_read_done(e->read, TIDINGS_E_CLOSED, NULL);
        forget_reader(c, e);
    }
    loop_timer_close(c->refresh);
    loop_timer_close(c->gone);
    actor_deinit(&c->actor);
    command_settings_deinit(&c->settings);
    *c = (struct command){0};
}

static const struct tidings_semantics semantics[] = {
    {TIDINGS_FORM_RESOURCE, "cmd:///{name}", "the output of that command, or its failure"},
    {TIDINGS_FORM_RESOURCE, NULL, NULL},
};

const struct tidings_provider_ops provider_command_ops = {
    .abi = TIDINGS_PROVIDER_ABI,
    .name = "command",
    .size = sizeof(struct command),
    .flags = TIDINGS_PROVIDER_SINGLE | TIDINGS_PROVIDER_FIXED_LIST | TIDINGS_PROVIDER_BARE_CHANGES,
    .open = command_open,
    .read = command_read,
    .list = command_list,
    .stat = command_stat,
    .watch = command_watch,
    .unwatch = command_unwatch,
    .close = command_close,
    .semantics = semantics,
};
