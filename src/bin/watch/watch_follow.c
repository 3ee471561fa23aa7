/* SPDX-License-Identifier: MIT
 *
 * The server that `tidings watch` follows: it is subscribed to, what it tells is printed or given
 * to commands, and how the connection fares is said. What a server sends is a stranger's text:
 * control characters never reach the terminal.
 */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "bin/cli/exit_status.h"
#include "bin/cli/output.h"
#include "bin/remote/answer.h"
#include "bin/remote/login_tokens.h"
#include "bin/remote/remote.h"
#include "bin/remote/target.h"
#include "bin/watch/batch.h"
#include "bin/watch/change.h"
#include "bin/watch/jobs.h"
#include "bin/watch/watch_private.h"

/* How long a server may take to be there at first, unless --wait. */
#define PATIENCE_MS 10000

/* ---- changes --------------------------------------------------------------------------------- */

static void watch_say_not_run(struct tidings_str uri, int rc)
{
    fputs("tidings watch: the command is not run for ", stderr);
    put_text(stderr, uri);
    fputs(rc == TIDINGS_E_INVALID ? ": a NUL fits into no variable\n" : ": out of memory\n",
          stderr);
}

/* The change as --json prints it; free it. NULL: no memory. */
static char *watch_text(const struct tidings_update *u, const struct content *c)
{
    struct json_text t;
    if (!json_text_begin(&t)) {
        return NULL;
    }
    change_put_json(t.out, u, c);
    return json_text_take(&t);
}

static void watch_run_command(struct watch *w, const struct tidings_update *u,
                              const struct content *c)
{
    struct json_text time;
    char *input = watch_text(u, c), *when = NULL;
    if (input && json_text_begin(&time)) {
        put_time(time.out, u->received_ms);
        when = json_text_take(&time);
    }
    struct job_change change = {
        .uri = u->uri,
        .change = tidings_str(change_word(u)),
        .subscribed_uri = u->subscribed_uri,
        .version = u->version,
        .cursor = u->cursor,
        .time = tidings_str(when ? when : ""),
        .input = tidings_str(input ? input : ""),
        .turn = w->resume.turn,
    };
    int rc = when ? jobs_add(w->jobs, &change) : TIDINGS_E_NOMEM;
    if (rc < 0) {
        watch_say_not_run(u->uri, rc);
    }
    free(when);
    free(input);
}

static void watch_gather(struct watch *w, const struct tidings_update *u, const struct content *c)
{
    char *line = w->cli.json ? watch_text(u, c) : NULL;
    if (line) {
        line[strlen(line) - 1] = '\0'; /* the line feed is the list's */
    }
    struct batch_change change = {u->uri, line, u->cursor, u->truncated, w->resume.turn};
    int rc = batch_add(w->batch, &change);
    if (rc < 0 || (w->cli.json && !line)) {
        watch_say_not_run(u->uri, TIDINGS_E_NOMEM);
    }
    free(line);
}

static void watch_on_update(void *user, const struct tidings_update *u)
{
    struct watch *w = user;
    struct content c = {0};
    bool is_asked = w->is_stranger && w->subscribe.include == INCLUDE_VALUE;
    if (w->reads || w->diffs || is_asked) {
        content_read(w->kept, w->client, u, &c);
    }
    if (!w->reads && !is_asked) {
        tidings_free(c.contents);
        c.contents = NULL;
    }
    if (w->batch) {
        watch_gather(w, u, &c);
    } else if (w->jobs) {
        watch_run_command(w, u, &c);
    } else if (w->cli.json) {
        change_put_json(stdout, u, &c);
    } else {
        struct change_view view = {w->shows_cursor, w->reads, w->subscribe.include};
        change_put_lines(&w->cli, &view, u, &c);
    }
    content_release(&c);
    remote_say_mended(&w->cli, w->client);
    bool is_counted = !w->batch && !u->initial && w->left > 0;
    /* Whoever read us has gone: nothing is left to do. */
    w->is_lost = fflush(stdout) != 0 || w->is_lost;
    if (!w->is_lost && u->subscription) {
        watch_resume_advance(w, tidings_subscription_uri(u->subscription), u->cursor);
    }
    if (w->is_lost || (is_counted && --w->left == 0)) {
        tidings_client_stop(w->client);
    }
}

/* How far the log is though nothing changed that concerns us. */
static void watch_on_notification(void *user, struct tidings_str method, struct tidings_str params)
{
    struct watch *w = user;
    if (tidings_str_eq(method, TIDINGS_STR("notifications/dev.tidings/bookmark"))) {
        char *cursor = text_at(params, "/_meta/dev.tidings~1cursor");
        watch_resume_advance(w, NULL, tidings_str(cursor ? cursor : ""));
        tidings_free(cursor);
    }
}

/* ---- how it stands --------------------------------------------------------------------------- */

static void watch_say(const char *what, struct tidings_str uri, struct tidings_str reason)
{
    fprintf(stderr, "tidings watch: %s", what);
    put_text(stderr, uri);
    fputs(uri.len > 0 && reason.len > 0 ? ": " : "", stderr);
    put_text(stderr, reason);
}

/* The server said yes or no to one more of them; --at-start waits for all, so that no change is
 * between. */
static void on_answered(struct watch *w)
{
    if (++w->answered == w->count && w->at_start && w->has_watched) {
        batch_start(w->batch);
    }
}

static void watch_note_refused(struct watch *w, struct tidings_str uri, int code)
{
    for (size_t i = 0; i < w->count; i++) {
        if (tidings_str_eq(tidings_str(w->uris[i]), uri)) {
            w->refused[i] = code;
        }
    }
}

/* The first thing the server accepted, or a later one. */
static void on_watching(struct watch *w, const struct tidings_state_event *e)
{
    w->has_watched = true;
    watch_note_refused(w, e->uri, 0);
    watch_resume_watching(w, e->uri, e->cursor);
    if (w->state_path && e->cursor.len == 0 && !e->again) {
        watch_say("the server names no cursor: what changes while nobody watches is not told of ",
                  e->uri, tidings_strn("", 0));
        fputc('\n', stderr);
    }
    if (e->reason.len > 0 && !e->again) {
        watch_say("warning: ", e->uri, e->reason);
        fputc('\n', stderr);
    }
    if (!e->again) {
        on_answered(w);
    }
    if (w->kept && !e->again) {
        char *uri = strndup(e->uri.ptr, e->uri.len);
        if (uri) {
            content_begin(w->kept, w->client, uri);
        }
        free(uri);
    }
    if (!w->cli.quiet) {
        fputs("watching ", stderr);
        put_text(stderr, e->uri);
        fputs(e->again ? " again\n" : "\n", stderr);
    }
    if (w->subscribe.is_initial && w->is_stranger && !e->again) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        struct tidings_update first = {
            .uri = e->uri,
            .initial = true,
            .received_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000,
            .params = TIDINGS_STR("{}"),
        };
        watch_on_update(w, &first);
    }
}

/* What it cannot be asked for is said, once. */
static void on_connected(struct watch *w)
{
    const struct tidings_client_info *info = tidings_client_info(w->client);
    char names[128];
    bool is_ours = info && strstr(info->capabilities, "\"dev.tidings/subscription-correlation\"");
    if (is_ours || w->is_stranger) {
        return;
    }
    w->is_stranger = true;
    if (*subscribe_options_given(&w->subscribe, names)) {
        fprintf(stderr, "tidings watch: the server knows no options of subscriptions: without %s\n",
                names);
    }
    for (size_t i = 0; i < w->count; i++) {
        if (w->are_globs[i]) {
            watch_say("the server knows no wildcards: to it this is the name of one resource: ",
                      tidings_str(w->uris[i]), tidings_strn("", 0));
            fputc('\n', stderr);
        }
    }
    if (w->subscribe.include == INCLUDE_VALUE) {
        fputs("tidings watch: the server sends no contents with changes: they are read\n", stderr);
    }
}

static void on_disconnected(struct watch *w, const struct tidings_state_event *e)
{
    uint64_t next = now_ms() - w->begun_ms + e->retry_ms;
    watch_say("disconnected: ", tidings_strn("", 0), e->reason);
    if (w->has_watched || w->waits || next < PATIENCE_MS) {
        fprintf(stderr, "; next attempt in %.1f s\n", e->retry_ms / 1000.0);
        return;
    }
    fputc('\n', stderr);
    tidings_fail(&w->absent, TIDINGS_E_IO, "no connection within %d seconds; --wait goes on trying",
                 PATIENCE_MS / 1000);
    tidings_client_stop(w->client);
}

static void watch_on_state(void *user, const struct tidings_state_event *e)
{
    struct watch *w = user;
    switch (e->state) {
    case TIDINGS_STATE_WATCHING:
        on_watching(w, e);
        break;
    case TIDINGS_STATE_DISCONNECTED:
        on_disconnected(w, e);
        break;
    case TIDINGS_STATE_REFUSED:
    case TIDINGS_STATE_LOST:
    case TIDINGS_STATE_GAP:
        if (e->state == TIDINGS_STATE_REFUSED) {
            watch_note_refused(w, e->uri, e->code ? e->code : TIDINGS_E_NOTFOUND);
            on_answered(w);
        }
        watch_say(e->state == TIDINGS_STATE_REFUSED ? "refused "
                  : e->state == TIDINGS_STATE_LOST  ? "lost "
                                                    : "missed changes of ",
                  e->uri, e->reason);
        fputc('\n', stderr);
        break;
    case TIDINGS_STATE_CONNECTED:
        on_connected(w);
        break;
    case TIDINGS_STATE_ENDED:
        break;
    }
}

/* ---- running --------------------------------------------------------------------------------- */

/* What is done is written down. */
static int watch_write_down(struct watch *w, struct tidings_error *err)
{
    return watch_resume_turn(w,
                             w->batch  ? batch_oldest(w->batch)
                             : w->jobs ? jobs_oldest(w->jobs)
                                       : UINT64_MAX,
                             err);
}

/* Until it is stopped or fails. */
static int watch_loop(struct watch *w, struct tidings_error *err)
{
    struct pollfd fds[JOBS_PARALLEL_MAX + 1];
    for (;;) {
        int rc = tidings_client_step(w->client, 0, err), ms = -1;
        size_t count = w->jobs ? jobs_turn(w->jobs, fds + 1, &ms) : 0;
        if (w->batch) {
            batch_turn(w->batch, &fds[++count], &ms);
        }
        int written = w->is_lost ? 0 : watch_write_down(w, err);
        if (w->batch && w->left > 0 && batch_done(w->batch) >= w->left) {
            w->left = 0;
            w->is_lost = true;
            batch_drop(w->batch);
            return written;
        }
        rc = written < 0 ? written : rc;
        if (rc <= 0) {
            return rc;
        }
        fds[0] = (struct pollfd){.fd = tidings_client_fd(w->client), .events = POLLIN};
        poll(fds, (nfds_t)count + 1, ms);
    }
}

static int watch_subscribe(struct watch *w, struct tidings_error *err)
{
    struct tidings_subscribe_options on = {.fn = watch_on_update, .user = w};
    int rc = 0;
    for (size_t i = 0; i < w->count && rc == 0; i++) {
        char *options = NULL;
        struct subscribe_options own = w->subscribe;
        const char *since = watch_resume_since(w, i);
        own.since = since ? since : own.since;
        rc = subscribe_options_make(&own, w->are_globs[i] ? MATCH_GLOB : MATCH_AUTO, &options, err);
        on.options = options;
        if (rc == 0) {
            rc = tidings_client_subscribe(w->client, w->uris[i], &on, err) ? 0 : err->code;
        }
        tidings_free(options);
    }
    return rc;
}

/* Of the first URI that is refused; it was told then. */
static int watch_refused_status(const struct watch *w)
{
    int code = 0;
    for (size_t i = 0; i < w->count && code == 0; i++) {
        code = w->refused[i];
    }
    return tidings_code_exit(code);
}

/* The exit status. */
static int watch_exit_status(struct watch *w, int rc, struct tidings_error *err)
{
    if (rc >= 0 && w->absent.code) {
        *err = w->absent;
        rc = err->code;
    } else if (rc >= 0 && remote_late && (w->left > 0 || !w->has_watched)) {
        const char *missing =
            w->has_watched ? "not all changes came that were wanted" : "nothing could be watched";
        tidings_fail(err, TIDINGS_E_TIMEOUT, "the time is over, and %s", missing);
        return command_fail("watch", err, NULL);
    }
    if (rc < 0) {
        bool wants_login = tidings_client_wants_credentials(w->client);
        bool is_said = rc == TIDINGS_E_INVALID && w->answered > 0; /* by the server */
        return command_fail("watch", err, is_said ? NULL : target_hint(&w->cli, err, wants_login));
    }
    int written = command_finish("watch");
    size_t failed = w->batch ? batch_failed(w->batch) : w->jobs ? jobs_failed(w->jobs) : 0;
    return written != 0 ? written : failed > 0 ? 1 : watch_refused_status(w);
}

int watch_follow(struct watch *w)
{
    struct tidings_error err = {0};
    struct answers answers = {.cli = &w->cli};
    w->client = target_open(&w->cli, &err);
    if (!w->client) {
        return command_fail("watch", &err, target_hint(&w->cli, &err, false));
    }
    w->begun_ms = now_ms();
    tidings_client_on_state(w->client, watch_on_state, w);
    tidings_client_on_notification(w->client, watch_on_notification, w);
    int rc = watch_resume_begin(w, &err);
    rc = rc == 0 ? answers_begin(&answers, w->client, &err) : rc;
    rc = rc == 0 ? watch_subscribe(w, &err) : rc;
    if (rc < 0) {
        watch_resume_end(w);
        tidings_client_destroy(w->client);
        answers_end(&answers);
        return command_fail("watch", &err, NULL);
    }
    remote_interruptible(w->client);
    remote_end_after(w->end_ms);
    rc = watch_loop(w, &err);
    if (w->jobs) {
        jobs_finish(w->jobs, &remote_caught);
    } else if (w->batch) {
        batch_finish(w->batch, &remote_caught);
    }
    /* What a signal ended is not done. */
    if (rc >= 0 && !remote_caught && !w->is_lost) {
        rc = watch_write_down(w, &err);
    }
    remote_interruptible(NULL);
    int status = watch_exit_status(w, rc, &err);
    watch_resume_end(w);
    tidings_client_destroy(w->client);
    answers_end(&answers);
    login_tokens_end();
    if (remote_caught && w->left > 0) { /* not what was asked for */
        signal(remote_caught, SIG_DFL);
        raise(remote_caught);
    }
    return status;
}
