/* SPDX-License-Identifier: MIT
 *
 * `tidings watch`: one line per change on standard output, flushed; how the connection fares on
 * standard error. What a server sends is a stranger's text: control characters never reach the
 * terminal.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tidings/client.h>

#include "command.h"

#define WATCH_MAX 1000

struct watch {
    struct tidings_client *client;
    unsigned long left; /* changes until the end; 0: no end */
    bool is_json;
    const char *url;
    struct tidings_client_options options; /* the files of https */
    char *uris[WATCH_MAX];
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
    act.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &act, NULL);
}

static void put_plain(FILE *out, struct tidings_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        fputc(c < 0x20 || c == 0x7f ? '?' : c, out);
    }
}

static void put_quoted(FILE *out, struct tidings_str s)
{
    fputc('"', out);
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (c == '"' || c == '\\') {
            fprintf(out, "\\%c", c);
        } else if (c < 0x20 || c == 0x7f) {
            fprintf(out, "\\u%04x", c);
        } else {
            fputc(c, out);
        }
    }
    fputc('"', out);
}

static void put_time(FILE *out, int64_t ms)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    char text[32];
    if (gmtime_r(&seconds, &tm) && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm) > 0) {
        fprintf(out, "%s.%03dZ", text, (int)(ms % 1000));
    }
}

static void put_json(const struct tidings_client_update *u)
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
    fwrite(u->params.ptr, 1, u->params.len, stdout);
    fputs("}\n", stdout);
}

static void on_update(void *user, const struct tidings_client_update *u)
{
    struct watch *w = user;
    if (w->is_json) {
        put_json(u);
    } else {
        put_time(stdout, u->received_ms);
        fputc(' ', stdout);
        put_plain(stdout, u->change);
        fputc(' ', stdout);
        put_plain(stdout, u->uri);
        fputc('\n', stdout);
    }
    /* Whoever read us has gone: nothing is left to do. */
    if (fflush(stdout) != 0 || (w->left > 0 && --w->left == 0)) {
        tidings_client_stop(w->client);
    }
}

static void on_state(void *user, const struct tidings_client_event *e)
{
    (void)user;
    switch (e->state) {
    case TIDINGS_CLIENT_WATCHING:
        fputs("watching ", stderr);
        put_plain(stderr, e->uri);
        fputs(e->again ? " again; changes in between may have been missed\n" : "\n", stderr);
        break;
    case TIDINGS_CLIENT_REFUSED:
        fputs("tidings watch: refused ", stderr);
        put_plain(stderr, e->uri);
        fputs(": ", stderr);
        put_plain(stderr, e->reason);
        fputc('\n', stderr);
        break;
    case TIDINGS_CLIENT_DISCONNECTED:
        fputs("tidings watch: disconnected: ", stderr);
        put_plain(stderr, e->reason);
        fprintf(stderr, "; next attempt in %.1f s\n", e->retry_ms / 1000.0);
        break;
    case TIDINGS_CLIENT_CONNECTED:
    case TIDINGS_CLIENT_LOST:
    case TIDINGS_CLIENT_GAP:
        break;
    }
}

/* 0, or the exit status of a misuse. */
static int take_count(struct watch *w, const char *text)
{
    char *end;
    errno = 0;
    unsigned long n = strtoul(text, &end, 10);
    if (errno != 0 || *end != '\0' || n == 0 || text[0] < '0' || text[0] > '9') {
        return command_misuse("watch", "--count takes a number from 1 on, not", text);
    }
    w->left = n;
    return 0;
}

static int take_positional(struct watch *w, const char *argument)
{
    struct tidings_error err = {0};
    if (!w->url) {
        w->url = argument;
        return 0;
    }
    if (w->count == WATCH_MAX || argument[0] == '\0') {
        return command_misuse("watch", "cannot watch", argument);
    }
    w->uris[w->count] = uri_of_argument(argument, &err);
    if (!w->uris[w->count]) {
        return command_fail("watch", &err, NULL);
    }
    w->count++;
    return 0;
}

/* `--name VALUE` or `--name=VALUE`: the value, NULL when it is missing or another option. */
static const char *file_option(const char *name, int argc, char **argv, int *i)
{
    size_t n = strlen(name);
    if (strncmp(argv[*i], name, n) != 0) {
        return NULL;
    }
    if (argv[*i][n] == '=') {
        return argv[*i] + n + 1;
    }
    return argv[*i][n] == '\0' && *i + 1 < argc ? argv[++*i] : NULL;
}

/* Was it one of the options with a file? */
static bool take_file(struct watch *w, int argc, char **argv, int *i)
{
    const struct {
        const char *name;
        const char **at;
    } files[] = {
        {"--cacert", &w->options.ca_file},
        {"--cert", &w->options.cert_file},
        {"--key", &w->options.key_file},
    };
    for (size_t f = 0; f < sizeof(files) / sizeof(files[0]); f++) {
        const char *value = file_option(files[f].name, argc, argv, i);
        if (value) {
            *files[f].at = value;
            return true;
        }
    }
    return false;
}

static int unknown_option(const char *option)
{
    static const char *const known[] = {"--json", "--count", "--cacert", "--cert",
                                        "--key",  "--help",  NULL};
    const char *near = suggest(option, known);
    char problem[64] = "unknown option";
    if (near) {
        snprintf(problem, sizeof(problem), "there is '%s', but no option", near);
    }
    return command_misuse("watch", problem, option);
}

static int take_arguments(struct watch *w, int argc, char **argv)
{
    bool only_uris = false;
    int status = 0;
    for (int i = 0; i < argc && status == 0; i++) {
        const char *a = argv[i];
        if (only_uris || a[0] != '-') {
            status = take_positional(w, a);
        } else if (strcmp(a, "--") == 0) {
            only_uris = true;
        } else if (take_file(w, argc, argv, &i)) {
            continue;
        } else if (strcmp(a, "--json") == 0) {
            w->is_json = true;
        } else if (strncmp(a, "--count=", 8) == 0) {
            status = take_count(w, a + 8);
        } else if (strcmp(a, "--count") == 0 && i + 1 < argc) {
            status = take_count(w, argv[++i]);
        } else if (strcmp(a, "--count") == 0 || strcmp(a, "--cacert") == 0 ||
                   strcmp(a, "--cert") == 0 || strcmp(a, "--key") == 0) {
            status = command_misuse("watch", "a value is missing behind", a);
        } else {
            status = unknown_option(a);
        }
    }
    if (status == 0 && w->count == 0) {
        status = command_misuse("watch", "needs the address of a server and what to watch", NULL);
    }
    return status;
}

static const char *hint_for(int code)
{
    switch (code) {
    case TIDINGS_E_INVALID:
        return "usage: tidings watch http://127.0.0.1:7777/mcp URI…";
    case TIDINGS_E_NOTFOUND:
        return "check the address and the URIs; a server of ours lists them by resources/list";
    default:
        return NULL;
    }
}

static int run(struct watch *w)
{
    struct tidings_error err = {0};
    w->client = tidings_client_create(w->url, &w->options, &err);
    if (!w->client) {
        return command_fail("watch", &err, hint_for(err.code));
    }
    tidings_client_on_state(w->client, on_state, w);
    int rc =
        tidings_client_watch(w->client, (const char *const *)w->uris, w->count, on_update, w, &err);
    if (rc == 0) {
        running = w->client;
        catch_signals();
        rc = tidings_client_run(w->client, &err);
        running = NULL;
    }
    int status = rc < 0 ? command_fail("watch", &err, hint_for(rc)) : 0;
    tidings_client_destroy(w->client);
    return status;
}

int command_watch(int argc, char **argv)
{
    struct watch *w = calloc(1, sizeof(*w));
    if (!w) {
        return tidings_code_exit(TIDINGS_E_NOMEM);
    }
    int status = take_arguments(w, argc, argv);
    if (status == 0) {
        status = run(w);
    }
    for (size_t i = 0; i < w->count; i++) {
        free(w->uris[i]);
    }
    free(w);
    return status;
}

void watch_usage(void)
{
    fputs(
        "usage: tidings watch [OPTION…] URL URI…\n\n"
        "Print a line for every change of the resources: time, kind of change, URI. URL is the\n"
        "endpoint of a server, http://127.0.0.1:7777/mcp. A URI may be a path: it then means the\n"
        "file of that name, or everything below the directory.\n\n"
        "  --json          one JSON object per line\n"
        "  --count N       end after N changes\n"
        "  --cacert FILE   https: accept a server whose certificate comes from these (PEM) and "
        "not\n"
        "                  from those the system trusts\n"
        "  --cert FILE     https: show this certificate (PEM)\n"
        "  --key FILE      its key, when it is not in the same file\n",
        stdout);
}
