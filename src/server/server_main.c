/* SPDX-License-Identifier: MIT
 *
 * tidings_server_main: a small program around one server, with its signals and messages. The only
 * place of the library that prints and handles signals: because it was asked to.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <tidings/server.h>

#include "server/server_private.h"

/* A signal handler has no other way to know. */
static struct tidings_server *serving; /* atomic */
static volatile sig_atomic_t has_been_asked;
static bool has_terminal;

static void on_signal(int number)
{
    int kept = errno;
    struct tidings_server *server = __atomic_load_n(&serving, __ATOMIC_ACQUIRE);
    if (server && number == SIGHUP && !(has_terminal && tcgetpgrp(STDERR_FILENO) < 0)) {
        tidings_server_reload(server);
    } else if (server && number == SIGUSR1) {
        tidings_server_reopen_log(server);
    } else if (server && has_been_asked) {
        tidings_server_stop_now(server);
    } else if (server) { /* also when the terminal hung up */
        has_been_asked = 1;
        tidings_server_stop(server);
    }
    errno = kept;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void on_ready(void *user, const char *url)
{
    struct tidings_server *server = __atomic_load_n(&serving, __ATOMIC_ACQUIRE);
    fprintf(stderr, "%s: serving on", (const char *)user);
    for (size_t i = 0; url; url = tidings_server_address(server, ++i)) {
        bool is_pipe = strcmp(url, "stdio") == 0;
        fprintf(stderr, "%s %s", i > 0 ? "," : "", is_pipe ? "standard input and output" : url);
    }
    fputc('\n', stderr);
}

static int serve(struct tidings_server *server, struct tidings_error *err)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    enum { COUNT = sizeof(numbers) / sizeof(numbers[0]) };
    struct tidings_server *nobody = NULL;
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before[COUNT];
    if (!__atomic_compare_exchange_n(&serving, &nobody, server, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        return tidings_fail(err, TIDINGS_E_BUSY, "tidings_server_main runs already");
    }
    has_been_asked = 0;
    sigemptyset(&act.sa_mask);
    has_terminal = tcgetpgrp(STDERR_FILENO) >= 0;
    for (size_t i = 0; i < COUNT; i++) {
        sigaction(numbers[i], &act, &before[i]);
    }
    int rc = tidings_server_run(server, err);
    for (size_t i = 0; i < COUNT; i++) {
        sigaction(numbers[i], &before[i], NULL);
    }
    __atomic_store_n(&serving, NULL, __ATOMIC_RELEASE);
    return rc;
}

/* `--help` and `--version`, wherever they stand before `--`: printed instead of serving. */
static bool server_main_explain(const struct tidings_server *server, const char *name, int argc,
                                char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            char *options = tidings_config_help(0);
            printf("usage: %s [OPTION…] [DIR…]\n\n%s", name, options ? options : "");
            tidings_free(options);
            return true;
        }
        if (strcmp(argv[i], "--version") == 0) {
            struct tidings_str version = server->info.version;
            printf("%s %.*s%slibtidings %s%s\n", name, (int)version.len, version.ptr,
                   version.len > 0 ? " (" : "", tidings_version(), version.len > 0 ? ")" : "");
            return true;
        }
    }
    return false;
}

int tidings_server_main(struct tidings_server *server, int argc, char **argv)
{
    struct tidings_error err = {TIDINGS_E_NOMEM, "out of memory"};
    const char *name = argc > 0 ? base_name(argv[0]) : "tidings";
    if (server && server_main_explain(server, name, argc, argv)) {
        return fflush(stdout) == 0 ? 0 : tidings_code_exit(TIDINGS_E_IO);
    }
    int rc =
        server ? tidings_server_args(server, argc > 0 ? argc - 1 : 0, argv + 1, &err) : err.code;
    if (server && __atomic_load_n(&server->has_unheard, __ATOMIC_ACQUIRE)) {
        fprintf(stderr, "%s: %s\n", name, server->unheard.text);
    }
    if (rc == 0) {
        tidings_server_on_ready(server, on_ready, (void *)(uintptr_t)name);
        rc = serve(server, &err);
    }
    if (rc < 0) {
        fprintf(stderr, "%s: %s\n", name, err.text);
    }
    return tidings_code_exit(rc);
}
