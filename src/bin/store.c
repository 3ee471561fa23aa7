/* SPDX-License-Identifier: MIT
 *
 * `tidings store`: what can be done with the store of a server that does not run.
 */
#include <signal.h>
#include <stddef.h>

#include <tidings/store.h>

#include "bin/cli/command.h"
#include "bin/cli/exit_status.h"
#include "bin/cli/output.h"

struct store_command {
    struct cli cli;
    const char *cluster;
};

static volatile sig_atomic_t is_interrupted;

static void store_on_signal(int number)
{
    (void)number;
    is_interrupted = 1;
}

static bool store_put_progress(void *user, const struct tidings_store_figures *done)
{
    const struct cli *cli = user;
    if (!cli->quiet && !cli->json && is_terminal(stderr)) {
        fprintf(stderr, "\r\x1b[K%llu versions, %llu published", (unsigned long long)done->versions,
                (unsigned long long)done->published);
        fflush(stderr);
    }
    return !is_interrupted;
}

static int store_copy_run(struct cli *cli)
{
    const struct store_command *s = (struct store_command *)cli;
    struct tidings_error err = {0};
    struct tidings_store_figures f;
    const struct sigaction action = {.sa_handler = store_on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    int rc = tidings_store_copy(&(struct tidings_store_copying){.from = cli->args[0],
                                                                .to = cli->args[1],
                                                                .cluster = s->cluster,
                                                                .progress = store_put_progress,
                                                                .user = cli},
                                &f, &err);
    if (!cli->quiet && !cli->json && is_terminal(stderr)) {
        fputs("\r\x1b[K", stderr);
    }
    if (rc < 0) {
        return command_fail("store copy", &err, NULL);
    }
    if (cli->json) {
        printf("{\"types\":%llu,\"versions\":%llu,\"published\":%llu,\"position\":%llu,"
               "\"wasResumed\":%s}\n",
               (unsigned long long)f.types, (unsigned long long)f.versions,
               (unsigned long long)f.published, (unsigned long long)f.position,
               f.was_resumed ? "true" : "false");
    } else if (!cli->quiet) {
        printf("copied and compared: %llu types, %llu versions, %llu published, position %llu\n",
               (unsigned long long)f.types, (unsigned long long)f.versions,
               (unsigned long long)f.published, (unsigned long long)f.position);
    }
    return 0;
}

static const struct option options[] = {
    {.name = "cluster",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct store_command, cluster),
     .metavar = "NAME",
     .help = "the cluster in a database (tidings)"},
    {0},
};

const struct command command_store = {
    .name = "store",
    .help = "move what a server keeps",
    .about =
        "The store of a server (tidings serve --store, --entities) that does not run: a SQLite "
        "file, or the URL of a PostgreSQL database.\n",
};

const struct command command_store_copy = {
    .name = "store copy",
    .args = "FROM TO",
    .help = "copy a store into a new one",
    .about = "Copy a store of a server (a SQLite file, or the URL of a PostgreSQL database) into a "
             "new one, of either kind: entities with their history, published resources, and the "
             "positions of changes, so that cursors stay good. At the end both are compared. Stop "
             "the servers on both first. Interrupted, the same command goes on.\n\n"
             "--json prints an object: types, versions, published, position, wasResumed.\n",
    .options = options,
    .size = sizeof(struct store_command),
    .min_args = 2,
    .max_args = 2,
    .run = store_copy_run,
};
