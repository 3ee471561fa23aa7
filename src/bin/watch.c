/* SPDX-License-Identifier: MIT
 *
 * `tidings watch`: one line per change on standard output, flushed; how the connection fares on
 * standard error. What a server sends is a stranger's text: control characters never reach the
 * terminal.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>

#include <tidings/client.h>

#include "output.h"
#include "target.h"

struct watch {
    struct cli cli;
    uint64_t left; /* changes until the end; 0: no end */
    struct tidings_client *client;
    char *uris[WORDS_MAX];
    size_t count;
};

/* A signal handler has no other way to know. */
static struct tidings_client *volatile running;

static void on_signal(int number)
{
    (void)number;
    struct tidings_client *client = running;
    if (client) {
        tidings_client_stop(client);
    }
}

static void catch_signals(void)
{
    struct sigaction act;
    memset(&act, 0, sizeof(act));
    sigemptyset(&act.sa_mask);
    act.sa_handler = on_signal;
    sigaction(SIGTERM, &act, NULL);
    sigaction(SIGINT, &act, NULL);
}

static void put_update(const struct tidings_client_update *u)
{
    fputs("{\"time\":\"", stdout);
    put_time(stdout, u->received_ms);
    fputs("\",\"change\":", stdout);
    put_quoted(stdout, u->change);
    fputs(",\"uri\":", stdout);
    put_quoted(stdout, u->uri);
    if (u->subscribed_uri.len > 0) {
        fputs(",\"subscribedUri\":", stdout);
        put_quoted(stdout, u->subscribed_uri);
    }
    fputs(",\"params\":", stdout);
    put_json_text(stdout, u->params);
    fputs("}\n", stdout);
}

static enum style style_of(struct tidings_str change)
{
    return tidings_str_eq(change, TIDINGS_STR("deleted"))   ? STYLE_BAD
           : tidings_str_eq(change, TIDINGS_STR("created")) ? STYLE_GOOD
                                                            : STYLE_NAME;
}

static void on_update(void *user, const struct tidings_client_update *u)
{
    struct watch *w = user;
    if (w->cli.json) {
        put_update(u);
    } else {
        put_time(stdout, u->received_ms);
        fputc(' ', stdout);
        put_style(&w->cli, stdout, style_of(u->change));
        put_text(stdout, u->change);
        put_style(&w->cli, stdout, STYLE_PLAIN);
        fputc(' ', stdout);
        put_text(stdout, u->uri);
        fputc('\n', stdout);
    }
    /* Whoever read us has gone: nothing is left to do. */
    if (fflush(stdout) != 0 || (w->left > 0 && --w->left == 0)) {
        tidings_client_stop(w->client);
    }
}

static void on_state(void *user, const struct tidings_client_event *e)
{
    struct watch *w = user;
    bool is_alarm = e->state != TIDINGS_CLIENT_WATCHING && e->state != TIDINGS_CLIENT_CONNECTED;
    if (w->cli.quiet && !is_alarm) {
        return;
    }
    switch (e->state) {
    case TIDINGS_CLIENT_WATCHING:
        fputs("watching ", stderr);
        put_text(stderr, e->uri);
        fputs(e->again ? " again; changes in between may have been missed\n" : "\n", stderr);
        break;
    case TIDINGS_CLIENT_REFUSED:
        fputs("tidings watch: refused ", stderr);
        put_text(stderr, e->uri);
        fputs(": ", stderr);
        put_text(stderr, e->reason);
        fputc('\n', stderr);
        break;
    case TIDINGS_CLIENT_DISCONNECTED:
        fputs("tidings watch: disconnected: ", stderr);
        put_text(stderr, e->reason);
        fprintf(stderr, "; next attempt in %.1f s\n", e->retry_ms / 1000.0);
        break;
    case TIDINGS_CLIENT_CONNECTED:
    case TIDINGS_CLIENT_LOST:
    case TIDINGS_CLIENT_GAP:
        break;
    }
}

static int take_uris(struct watch *w)
{
    struct tidings_error err = {0};
    for (size_t i = 0; i < w->cli.arg_count; i++) {
        if (w->cli.args[i][0] == '\0') {
            return command_misuse("watch", "cannot watch", w->cli.args[i]);
        }
        w->uris[i] = uri_of_argument(w->cli.args[i], &err);
        if (!w->uris[i]) {
            return command_fail("watch", &err, NULL);
        }
        w->count++;
    }
    return 0;
}

static int watch(struct watch *w)
{
    struct tidings_error err = {0};
    w->client = target_open(&w->cli, &err);
    if (!w->client) {
        return command_fail("watch", &err, target_hint(&w->cli, err.code));
    }
    tidings_client_on_state(w->client, on_state, w);
    struct tidings_subscribing on = {.fn = on_update, .user = w};
    for (size_t i = 0; i < w->count && err.code == 0; i++) {
        (void)tidings_client_subscribe(w->client, w->uris[i], &on, &err);
    }
    int rc = err.code;
    if (rc == 0) {
        running = w->client;
        catch_signals();
        rc = tidings_client_run(w->client, &err);
        running = NULL;
    }
    int status = rc < 0 ? command_fail("watch", &err, target_hint(&w->cli, rc)) : 0;
    tidings_client_destroy(w->client);
    return status;
}

static int run(struct cli *cli)
{
    struct watch *w = (struct watch *)cli;
    int status = take_uris(w);
    if (status == 0) {
        status = watch(w);
    }
    for (size_t i = 0; i < w->count; i++) {
        free(w->uris[i]);
    }
    return status;
}

static const struct option options[] = {
    {.name = "count",
     .letter = 'n',
     .kind = OPTION_NUMBER,
     .offset = offsetof(struct watch, left),
     .metavar = "N",
     .help = "end after N changes",
     .min = 1},
    {0},
};

const struct command command_watch = {
    .name = "watch",
    .args = "URI…",
    .help = "print changes of resources as they happen",
    .about =
        "Print a line for every change of the resources: time, kind of change, URI. A URI may be "
        "a\npath: it then means the file of that name, or everything below the directory.\n\n"
        "--json prints an object per line: time, change, uri, subscribedUri, and params, the\n"
        "parameters of the notification.\n",
    .options = options,
    .size = sizeof(struct watch),
    .min_args = 1,
    .max_args = WORDS_MAX,
    .has_target = true,
    .run = run,
};
