/* SPDX-License-Identifier: MIT
 *
 * `tidings watch`: one line per change on standard output, flushed; or a command run for each. How
 * the connection fares is said on standard error. What a server sends is a stranger's text: control
 * characters never reach the terminal.
 */
#include <stddef.h>
#include <stdlib.h>

#include <tidings/client.h>
#include <tidings/json.h>

#include "bin/cli/exit_status.h"
#include "bin/cli/output.h"
#include "bin/cli/path_uri.h"
#include "bin/remote/remote.h"
#include "bin/remote/target.h"
#include "bin/watch/batch.h"
#include "bin/watch/change.h"
#include "bin/watch/jobs.h"

/* How long a server may take to be there at first, unless --wait. */
#define PATIENCE_MS 10000

struct watch {
    struct cli cli;
    /* options: */
    uint64_t left; /* changes until the end; 0: no end */
    uint64_t end_ms;
    uint64_t parallel, debounce_ms;
    const char *command, *since, *options;
    bool until_first, waits, reads, diffs;
    bool batches, restarts, at_start, ends_with_nul;
    /* state: */
    struct tidings_client *client;
    struct jobs *jobs;         /* --exec */
    struct batch *batch;       /* --exec with --batch */
    struct content_kept *kept; /* --diff */
    char *uris[WORDS_MAX];
    size_t count, settled; /* of them, those that the server accepted or refused once */
    uint64_t begun_ms;
    bool has_watched;            /* the server accepted something once */
    struct tidings_error absent; /* the server was not there at first */
};

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
        .change = tidings_str(tidings_change_name(u->kind)),
        .subscribed_uri = u->subscribed_uri,
        .version = u->version,
        .cursor = u->cursor,
        .time = tidings_str(when ? when : ""),
        .input = tidings_str(input ? input : ""),
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
    int rc = batch_add(w->batch, u->uri, line, u->cursor, u->truncated);
    if (rc < 0 || (w->cli.json && !line)) {
        watch_say_not_run(u->uri, TIDINGS_E_NOMEM);
    }
    free(line);
}

static void watch_on_update(void *user, const struct tidings_update *u)
{
    struct watch *w = user;
    struct content c = {0};
    if (w->reads || w->diffs) {
        content_read(w->kept, w->client, u, &c);
    }
    if (!w->reads) {
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
        change_put_lines(&w->cli, u, &c);
    }
    content_release(&c);
    /* Whoever read us has gone: nothing is left to do. */
    if (fflush(stdout) != 0 || (!w->batch && w->left > 0 && --w->left == 0)) {
        tidings_client_stop(w->client);
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
static void on_settled(struct watch *w)
{
    if (++w->settled == w->count && w->at_start && w->has_watched) {
        batch_start(w->batch);
    }
}

/* The first thing the server accepted, or a later one. */
static void on_watching(struct watch *w, const struct tidings_state_event *e)
{
    w->has_watched = true;
    if (!e->again) {
        on_settled(w);
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
        fputs(e->again ? " again; changes in between may have been missed\n" : "\n", stderr);
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
            on_settled(w);
        }
        watch_say(e->state == TIDINGS_STATE_REFUSED ? "refused "
                  : e->state == TIDINGS_STATE_LOST  ? "lost "
                                                    : "missed changes of ",
                  e->uri, e->reason);
        fputc('\n', stderr);
        break;
    case TIDINGS_STATE_CONNECTED:
    case TIDINGS_STATE_ENDED:
        break;
    }
}

/* ---- running --------------------------------------------------------------------------------- */

static bool is_taken(const struct watch *w, const char *uri)
{
    for (size_t i = 0; i < w->count; i++) {
        if (strcmp(w->uris[i], uri) == 0) {
            return true;
        }
    }
    return false;
}

/* Each once. */
static int take_uris(struct watch *w)
{
    struct tidings_error err = {0};
    for (size_t i = 0; i < w->cli.arg_count; i++) {
        char *uri = uri_of_argument(w->cli.args[i], &err);
        if (!uri) {
            return command_fail("watch", &err, NULL);
        }
        if (is_taken(w, uri)) {
            free(uri);
        } else {
            w->uris[w->count++] = uri;
        }
    }
    return 0;
}

/* The options of the subscriptions, JSON text to be released with tidings_free; NULL in `*ret`:
 * none. */
static int make_options(const struct watch *w, char **ret, struct tidings_error *err)
{
    struct json_text t;
    char *since = NULL;
    *ret = NULL;
    if (!w->since && !w->options) {
        return 0;
    }
    if (w->since && json_text_begin(&t)) {
        fputs("{\"since\":", t.out);
        put_quoted(t.out, tidings_str(w->since));
        fputc('}', t.out);
        since = json_text_take(&t);
    }
    if (w->since && !since) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    const char *options = w->options ? w->options : "{}";
    char *whole = tidings_json_get(tidings_str(options), "");
    if (!whole || whole[0] != '{') {
        tidings_fail(err, TIDINGS_E_INVALID, "--options takes a JSON object, such as '%s'",
                     "{\"windowMs\": 0}");
    } else {
        *ret = tidings_json_merge(tidings_str(whole), tidings_str(since ? since : "{}"), err);
    }
    tidings_free(whole);
    free(since);
    return *ret ? 0 : err->code;
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
            if (w->left > 0 && batch_done(w->batch) >= w->left) {
                w->left = 0;
                return 0;
            }
        }
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
    char *options = NULL;
    int rc = make_options(w, &options, err);
    on.options = options;
    for (size_t i = 0; i < w->count && rc == 0; i++) {
        rc = tidings_client_subscribe(w->client, w->uris[i], &on, err) ? 0 : err->code;
    }
    tidings_free(options);
    return rc;
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
        return command_fail("watch", err, target_hint(&w->cli, rc));
    }
    int written = command_finish("watch");
    size_t failed = w->batch ? batch_failed(w->batch) : w->jobs ? jobs_failed(w->jobs) : 0;
    return written == 0 && failed > 0 ? 1 : written;
}

static int watch(struct watch *w)
{
    struct tidings_error err = {0};
    w->client = target_open(&w->cli, &err);
    if (!w->client) {
        return command_fail("watch", &err, target_hint(&w->cli, err.code));
    }
    w->begun_ms = now_ms();
    tidings_client_on_state(w->client, watch_on_state, w);
    int rc = watch_subscribe(w, &err);
    if (rc < 0) {
        tidings_client_destroy(w->client);
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
    remote_interruptible(NULL);
    int status = watch_exit_status(w, rc, &err);
    tidings_client_destroy(w->client);
    return status;
}

/* Options that need another one, or exclude it. */
static int check_options(const struct watch *w)
{
    const struct {
        bool is_given;
        const char *name;
    } of_batch[] = {
        {w->debounce_ms > 0, "--debounce"},
        {w->restarts, "--restart"},
        {w->at_start, "--at-start"},
        {w->ends_with_nul, "--null"},
    };
    if (w->batches && !w->command) {
        return command_misuse("watch", "goes with --exec:", "--batch");
    }
    if (w->batches && w->parallel > 0) {
        return command_misuse("watch", "one command runs at a time with --batch; it goes without",
                              "--jobs");
    }
    for (size_t i = 0; i < sizeof(of_batch) / sizeof(of_batch[0]); i++) {
        if (of_batch[i].is_given && !w->batches) {
            return command_misuse("watch", "goes with --exec and --batch:", of_batch[i].name);
        }
    }
    return 0;
}

static int watch_prepare(struct watch *w)
{
    struct tidings_error err = {0};
    struct batch_options batch = {
        .command = w->command,
        .debounce_ms = w->debounce_ms > 0 ? w->debounce_ms : BATCH_DEBOUNCE_MS,
        .restarts = w->restarts,
        .ends_with_nul = w->ends_with_nul,
    };
    if (w->batches) {
        w->batch = batch_create(&batch);
    } else if (w->command) {
        w->jobs = jobs_create(w->command, w->parallel > 0 ? (unsigned)w->parallel : 4);
    }
    if (w->diffs) {
        w->kept = content_create();
    }
    if ((w->command && !w->jobs && !w->batch) || (w->diffs && !w->kept)) {
        tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory");
        return command_fail("watch", &err, NULL);
    }
    return 0;
}

static int watch_run(struct cli *cli)
{
    struct watch *w = (struct watch *)cli;
    w->left = w->left == 0 && w->until_first ? 1 : w->left;
    int status = check_options(w);
    status = status == 0 ? take_uris(w) : status;
    status = status == 0 ? watch_prepare(w) : status;
    status = status == 0 ? watch(w) : status;
    jobs_destroy(w->jobs);
    batch_destroy(w->batch);
    content_destroy(w->kept);
    for (size_t i = 0; i < w->count; i++) {
        free(w->uris[i]);
    }
    return status;
}

#define AT(member) offsetof(struct watch, member)

static const struct option options[] = {
    {.name = "count",
     .letter = 'n',
     .kind = OPTION_NUMBER,
     .offset = AT(left),
     .metavar = "N",
     .help = "end after N changes; with --batch after N runs for changes",
     .min = 1},
    {.name = "until-first",
     .letter = '1',
     .kind = OPTION_FLAG,
     .offset = AT(until_first),
     .help = "the same as --count 1"},
    {.name = "timeout",
     .kind = OPTION_TIME,
     .offset = AT(end_ms),
     .metavar = "TIME",
     .help = "end the watch after that long, not the wait for an answer as elsewhere; status 75 if "
             "more changes were wanted",
     .min = 1,
     .max = 31536000000},
    {.name = "wait",
     .letter = 'w',
     .kind = OPTION_FLAG,
     .offset = AT(waits),
     .help = "wait for a server that is not there yet, instead of 10 seconds only"},
    {.name = "read",
     .letter = 'r',
     .kind = OPTION_FLAG,
     .offset = AT(reads),
     .help = "the content with each change"},
    {.name = "diff",
     .letter = 'd',
     .kind = OPTION_FLAG,
     .offset = AT(diffs),
     .help = "what differs from the content seen before"},
    {.name = "exec",
     .letter = 'x',
     .kind = OPTION_TEXT,
     .offset = AT(command),
     .metavar = "COMMAND",
     .help = "run it for each change instead of printing"},
    {.name = "jobs",
     .letter = 'j',
     .kind = OPTION_NUMBER,
     .offset = AT(parallel),
     .metavar = "N",
     .help = "at most N commands at once",
     .value = "4",
     .min = 1,
     .max = JOBS_PARALLEL_MAX},
    {.name = "batch",
     .letter = 'b',
     .kind = OPTION_FLAG,
     .offset = AT(batches),
     .help = "run it once for all that changed until it was quiet, with the URIs on its input"},
    {.name = "debounce",
     .kind = OPTION_TIME,
     .offset = AT(debounce_ms),
     .metavar = "TIME",
     .help = "with --batch: how long it has to be quiet",
     .value = "300ms",
     .min = 1,
     .max = 3600000},
    {.name = "restart",
     .kind = OPTION_FLAG,
     .offset = AT(restarts),
     .help = "with --batch: end the command that still runs, and start it again"},
    {.name = "at-start",
     .kind = OPTION_FLAG,
     .offset = AT(at_start),
     .help = "with --batch: run it once before the first change too"},
    {.name = "null",
     .letter = '0',
     .kind = OPTION_FLAG,
     .offset = AT(ends_with_nul),
     .help = "with --batch: a NUL behind each URI instead of a line feed"},
    {.name = "since",
     .kind = OPTION_TEXT,
     .offset = AT(since),
     .metavar = "CURSOR",
     .help = "what changed after it first; servers of ours name cursors"},
    {.name = "options",
     .kind = OPTION_TEXT,
     .offset = AT(options),
     .metavar = "JSON",
     .help = "options of the subscriptions, such as {\"windowMs\": 0}"},
    {0},
};

const struct command command_watch = {
    .name = "watch",
    .args = "URI…",
    .help = "print changes of resources as they happen, or run a command",
    .about =
        "Print a line for every change of the resources: time, kind of change, URI. A URI may be "
        "a\npath: it then means the file of that name, or everything below the directory. --read "
        "and\n--diff add indented lines.\n\n"
        "--json prints an object per line: time, change, uri, subscribedUri, version, cursor, and\n"
        "params, the parameters of the notification; with --read contents, with --diff before and\n"
        "after (sizes) and diff; error when it could not be read.\n\n"
        "--exec runs 'sh -c COMMAND' with TIDINGS_URI, TIDINGS_CHANGE, TIDINGS_VERSION, "
        "TIDINGS_TIME,\nTIDINGS_CURSOR, TIDINGS_SUBSCRIBED_URI, and that object on standard input. "
        "One at a time for\neach URI; what changes meanwhile is one more run, for the latest "
        "(TIDINGS_MERGED counts them).\n\n"
        "--batch runs it once for all that changed until nothing did for --debounce (at the "
        "latest\n"
        "after 10 seconds): the URIs, each once, are on standard input, a line each (with --json\n"
        "those objects), and in the file that TIDINGS_URIS names; TIDINGS_COUNT and "
        "TIDINGS_MERGED\nsay how many URIs and changes. What changes while it runs is one more "
        "run. --restart ends it\ninstead: SIGTERM to its process group, SIGKILL after 5 seconds.\n",
    .options = options,
    .size = sizeof(struct watch),
    .min_args = 1,
    .max_args = WORDS_MAX,
    .has_target = true,
    .run = watch_run,
};
