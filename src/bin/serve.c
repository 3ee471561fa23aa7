/* SPDX-License-Identifier: MIT
 *
 * `tidings serve`: a server from the command line. One line on standard error when it is ready;
 * standard output belongs to the protocol. SIGTERM and SIGINT end it in order, a second one at
 * once; SIGHUP has it read its certificates again, unless it is the terminal that hung up.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <tidings/server.h>

#include "command.h"
#include "systemd.h"

/* A signal handler has no other way to know. */
static struct tidings_server *volatile running;
static volatile sig_atomic_t has_been_asked;
static bool has_terminal;

static void on_signal(int number)
{
    struct tidings_server *server = running;
    int saved = errno;
    if (server && number == SIGHUP && !(has_terminal && tcgetpgrp(STDERR_FILENO) < 0)) {
        systemd_reloading();
        tidings_server_reload(server);
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

static void on_ready(void *user, const char *url)
{
    fputs("tidings: serving on", stderr);
    for (size_t i = 0; url; url = tidings_server_door(user, ++i)) {
        bool is_pipe = strcmp(url, "stdio") == 0;
        fprintf(stderr, "%s %s", i > 0 ? "," : "", is_pipe ? "standard input and output" : url);
    }
    fputc('\n', stderr);
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
    act.sa_handler = on_signal;
    act.sa_flags = SA_RESTART;
    sigaction(SIGTERM, &act, NULL);
    sigaction(SIGINT, &act, NULL);
    has_terminal = tcgetpgrp(STDERR_FILENO) >= 0;
    sigaction(SIGHUP, &act, NULL);
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

static int run(int argc, char **argv)
{
    struct tidings_error err = {0};
    struct tidings_server *server = tidings_server_create(&err);
    if (!server) {
        return command_fail("serve", &err, NULL);
    }
    int rc = tidings_server_args(server, argc, argv, &err);
    if (rc == 0) {
        rc = systemd_open(server, &err);
    }
    if (rc == 0) {
        rc = systemd_take_sockets(server, &err);
    }
    if (rc == 0) {
        tidings_server_on_ready(server, on_ready, server);
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
        "door is\nnamed (--stdio, --tcp, --unix).\n\n"
        "Sizes take k, m, g; times take ms, s, m, h, without a unit seconds. Every option is also "
        "a\nvariable (--page-size: TIDINGS_PAGE_SIZE) and a key of tidings.json (pageSize); "
        "options win\nover variables, variables over the file.\n",
    .arg_kind = ARG_FILE,
    .run_raw = run,
};
