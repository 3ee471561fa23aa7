/* SPDX-License-Identifier: MIT
 *
 * Replaces the program `tidings` in integration tests: a host does `serve` and steps the server
 * inside its own poll loop, beside a descriptor for signals; the real program, one directory up,
 * does everything else. The host aborts if turn after turn is requested without ready work.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <tidings/tidings.h>

/* Turns in a row after each of which the server wanted another at once: more is a busy loop. */
#define MAX_BUSY_TURNS 100000

static void on_ready(void *user, const char *url)
{
    fputs("tidings: serving on", stderr);
    for (size_t i = 0; url; url = tidings_server_address(user, ++i)) {
        bool is_pipe = strcmp(url, "stdio") == 0;
        fprintf(stderr, "%s %s", i > 0 ? "," : "", is_pipe ? "standard input and output" : url);
    }
    fputc('\n', stderr);
}

static int open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

static int loop(struct tidings_server *server, int signals, struct tidings_error *err)
{
    int rc, busy = 0;
    while ((rc = tidings_server_turn(server, err)) > 0) {
        struct pollfd ready[] = {{.fd = tidings_server_fd(server), .events = POLLIN},
                                 {.fd = signals, .events = POLLIN}};
        int timeout = tidings_server_timeout_ms(server);
        int n = poll(ready, 2, timeout);
        if (ready[1].revents) {
            struct signalfd_siginfo info;
            (void)!read(signals, &info, sizeof(info));
            tidings_server_stop(server);
        }
        busy = n == 0 && timeout == 0 ? busy + 1 : 0;
        if (busy > MAX_BUSY_TURNS) {
            return tidings_fail(err, TIDINGS_E_INTERNAL, "the server wants turns for nothing");
        }
    }
    return rc;
}

static int serve(int argc, char **argv)
{
    struct tidings_error err = {0, ""};
    struct tidings_server *server = tidings_server_create(&err);
    int rc = server ? tidings_server_args(server, argc, argv, &err) : err.code;
    const struct tidings_server_info info = {
        .name = TIDINGS_STR("tidings"), /* the program that it replaces */
        .version = tidings_str(tidings_version()),
    };
    rc = rc == 0 ? tidings_server_set_info(server, &info, &err) : rc;
    if (rc == 0) {
        int signals = open_signals();
        tidings_server_on_ready(server, on_ready, server);
        rc = tidings_server_start(server, &err);
        if (rc == 0) {
            rc = loop(server, signals, &err);
        }
        close(signals);
    }
    if (rc < 0) {
        fprintf(stderr, "tidings serve: %s\n", err.text);
    }
    tidings_server_destroy(server);
    return tidings_code_exit(rc);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "serve") == 0) {
        return serve(argc - 2, argv + 2);
    }
    char path[4096];
    const char *slash = strrchr(argv[0], '/');
    int directory = slash ? (int)(slash - argv[0]) + 1 : 0;
    snprintf(path, sizeof(path), "%.*s../tidings", directory, argv[0]);
    execv(path, argv);
    perror(path);
    return 69;
}
