/* SPDX-License-Identifier: MIT
 *
 * `tidings serve`: a server from the command line. One line on standard error when it is ready;
 * standard output belongs to the protocol. SIGTERM and SIGINT end it in order, a second one at
 * once; SIGHUP has it read certificates, tokens, access rules and settings of the log again, unless
 * it is the terminal that hung up; SIGUSR1 has it open the file of its log again.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <tidings/server.h>

#include "bin/cli/command.h"
#include "bin/cli/exit_status.h"
#include "bin/cli/options.h"
#include "bin/cli/output.h"
#include "bin/cli/process.h"
#include "bin/remote/remote.h"
#include "bin/serve/systemd.h"

/* A signal handler has no other way to know. */
static struct tidings_server *volatile running;
static volatile sig_atomic_t has_been_asked;
static bool has_terminal;

static void serve_on_signal(int number)
{
    struct tidings_server *server = running;
    int saved = errno;
    if (server && number == SIGHUP && !(has_terminal && tcgetpgrp(STDERR_FILENO) < 0)) {
        systemd_reloading();
        tidings_server_reload(server);
    } else if (server && number == SIGUSR1) {
        tidings_server_reopen_log(server);
    } else if (server) {
        if (has_been_asked) {
            tidings_server_stop_now(server);
        } else {
            systemd_stopping();
            tidings_server_stop(server);
        }
        has_been_asked = 1;
    }
    errno = saved;
}

static bool is_json;

/* An object on standard error by one write, so that lines of several threads stay whole. */
static void serve_put_line(struct json_text *t)
{
    char *text = json_text_take(t);
    fputs(text ? text : "{\"level\":\"error\",\"message\":\"out of memory\"}\n", stderr);
    free(text);
}

static void put_ready(struct tidings_server *server, const char *url)
{
    struct timespec now;
    struct json_text t;
    if (!json_text_begin(&t)) {
        return;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    fputs("{\"time\":\"", t.out);
    put_time(t.out, (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
    fputs("\",\"level\":\"info\",\"area\":\"server\",\"message\":\"serving\",\"addresses\":[",
          t.out);
    for (size_t i = 0; url; url = tidings_server_address(server, ++i)) {
        fputs(i > 0 ? "," : "", t.out);
        put_quoted(t.out, tidings_str(url));
    }
    fputs("]}\n", t.out);
    serve_put_line(&t);
}

/* A command of ours launched it: people would read the same line with each of them. */
static bool is_launched(struct tidings_server *server, const char *url)
{
    return url && strcmp(url, "stdio") == 0 && !tidings_server_address(server, 1) &&
           getenv("TIDINGS_LAUNCHED");
}

static void serve_greet(struct tidings_server *server, const char *url)
{
    fputs("tidings: serving on", stderr);
    for (size_t i = 0; url; url = tidings_server_address(server, ++i)) {
        bool is_pipe = strcmp(url, "stdio") == 0;
        fprintf(stderr, "%s %s", i > 0 ? "," : "", is_pipe ? "standard input and output" : url);
    }
    fputc('\n', stderr);
}

static void serve_on_ready(void *user, const char *url)
{
    if (is_json) {
        put_ready(user, url);
    } else if (!is_launched(user, url)) {
        serve_greet(user, url);
    }
    systemd_ready();
}

/* Also when it failed: it serves, as it did. */
static void on_reloaded(void *user, int code, const struct tidings_error *err)
{
    (void)user;
    (void)code;
    (void)err;
    systemd_ready();
}

static void catch_signals(void)
{
    struct sigaction act;
    memset(&act, 0, sizeof(act));
    sigemptyset(&act.sa_mask);
    act.sa_handler = serve_on_signal;
    act.sa_flags = SA_RESTART;
    sigaction(SIGTERM, &act, NULL);
    sigaction(SIGINT, &act, NULL);
    has_terminal = tcgetpgrp(STDERR_FILENO) >= 0;
    sigaction(SIGHUP, &act, NULL);
    sigaction(SIGUSR1, &act, NULL);
}

/* What to do next, where the sentence alone does not say. */
static const char *hint_for(int code)
{
    switch (code) {
    case TIDINGS_E_INVALID:
    case TIDINGS_E_PARSE:
        return "see 'tidings help serve' for the options";
    case TIDINGS_E_NOTFOUND:
        return "check that the path exists; see 'tidings help serve'";
    default:
        return NULL;
    }
}

/* What is on standard error is one thing, the log and the rest. */
static void serve_read_format(struct tidings_server *server)
{
    char *format = tidings_server_get(server, "log-format");
    is_json = format && strcmp(format, "json") == 0;
    tidings_free(format);
}

static int serve_run(int argc, char **argv)
{
    struct tidings_error err = {0};
    bool is_asked = options_take(&argc, argv, "--json");
    process_has_secrets(); /* the key that seals cursors, if nothing else */
    struct tidings_server *server = tidings_server_create(&err);
    if (!server) {
        return command_fail("serve", &err, NULL);
    }
    int rc = is_asked ? tidings_server_set(server, "log-format", "json", &err) : 0;
    if (rc == 0) {
        rc = tidings_server_args(server, argc, argv, &err);
    }
    if (rc == 0) {
        serve_read_format(server);
        rc = tidings_server_sandbox(server, &err);
    }
    if (rc == 0) {
        rc = systemd_open(server, &err);
    }
    if (rc == 0) {
        rc = systemd_take_sockets(server, &err);
    }
    if (rc == 0) {
        tidings_server_on_ready(server, serve_on_ready, server);
        tidings_server_on_reloaded(server, on_reloaded, NULL);
        running = server;
        catch_signals();
        rc = tidings_server_run(server, &err);
        running = NULL;
    }
    int status = rc < 0 ? command_fail("serve", &err, hint_for(rc)) : 0;
    tidings_server_destroy(server);
    return status;
}

const struct command command_serve = {
    .name = "serve",
    .args = "[DIR…]",
    .help = "serve directories as live MCP resources",
    .about =
        "Serve each DIR, at file:///absolute/path/, on http://127.0.0.1:7777/mcp unless another "
        "listener is\nnamed (--stdio, --tcp, --unix).\n\n"
        "Sizes take k, m, g; times take ms, s, m, h, without a unit seconds. Every option is also "
        "a\nvariable (--page-size: TIDINGS_PAGE_SIZE) and a key of tidings.json (pageSize); "
        "options win\nover variables, variables over the file.\n\n"
        "With --json (the same as --log-format json) each line on standard error is an object: "
        "time, level,\narea, message and fields; once it serves, one of them has addresses.\n",
    .options = json_options,
    .arg_kind = ARG_FILE,
    .run_raw = serve_run,
};
