/* SPDX-License-Identifier: MIT
 *
 * `tidings store`: what can be done with the store of a server.
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
        printf(
            "{\"types\":%llu,\"versions\":%llu,\"published\":%llu,\"tasks\":%llu,\"position\":%llu,"
            "\"wasResumed\":%s}\n",
            (unsigned long long)f.types, (unsigned long long)f.versions,
            (unsigned long long)f.published, (unsigned long long)f.tasks,
            (unsigned long long)f.position, f.was_resumed ? "true" : "false");
    } else if (!cli->quiet) {
        printf("copied and compared: %llu types, %llu versions, %llu published, %llu tasks, "
               "position %llu\n",
               (unsigned long long)f.types, (unsigned long long)f.versions,
               (unsigned long long)f.published, (unsigned long long)f.tasks,
               (unsigned long long)f.position);
    }
    return 0;
}

static int store_check_run(struct cli *cli)
{
    struct tidings_error err = {0};
    struct tidings_store_figures f;
    if (tidings_store_check(cli->args[0], &f, &err) < 0) {
        return command_fail("store check", &err, NULL);
    }
    if (cli->json) {
        printf("{\"types\":%llu,\"versions\":%llu,\"published\":%llu,\"tasks\":%llu,\"position\":%"
               "llu}\n",
               (unsigned long long)f.types, (unsigned long long)f.versions,
               (unsigned long long)f.published, (unsigned long long)f.tasks,
               (unsigned long long)f.position);
    } else if (!cli->quiet) {
        printf("sound: %llu types, %llu versions, %llu published, %llu tasks, position %llu\n",
               (unsigned long long)f.types, (unsigned long long)f.versions,
               (unsigned long long)f.published, (unsigned long long)f.tasks,
               (unsigned long long)f.position);
    }
    return 0;
}

static int store_backup_run(struct cli *cli)
{
    struct tidings_error err = {0};
    uint64_t bytes;
    if (tidings_store_backup(cli->args[0], cli->args[1], &bytes, &err) < 0) {
        return command_fail("store backup", &err, NULL);
    }
    if (cli->json) {
        printf("{\"bytes\":%llu}\n", (unsigned long long)bytes);
    } else if (!cli->quiet) {
        printf("backed up and checked: %llu bytes\n", (unsigned long long)bytes);
    }
    return 0;
}

static int store_compact_run(struct cli *cli)
{
    struct tidings_error err = {0};
    uint64_t before, after;
    if (tidings_store_compact(cli->args[0], &before, &after, &err) < 0) {
        return command_fail("store compact", &err, NULL);
    }
    if (cli->json) {
        printf("{\"bytesBefore\":%llu,\"bytesAfter\":%llu}\n", (unsigned long long)before,
               (unsigned long long)after);
    } else if (!cli->quiet) {
        printf("compacted: %llu bytes, before %llu\n", (unsigned long long)after,
               (unsigned long long)before);
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
    .help = "move, check and back up what a server keeps",
    .about = "The store of a server (tidings serve --store, --entities): a SQLite file, or the URL "
             "of a PostgreSQL database.\n",
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

const struct command command_store_check = {
    .name = "store check",
    .args = "FILE",
    .help = "check a store that is a file",
    .about = "Read everything in the store of a server that does not run, and compare it: pages "
             "and indexes, tables with each other, contents with their sums.\n\n"
             "--json prints an object: types, versions, published, position.\n",
    .size = sizeof(struct cli),
    .min_args = 1,
    .max_args = 1,
    .run = store_check_run,
};

const struct command command_store_backup = {
    .name = "store backup",
    .args = "FILE TO",
    .help = "back up a store that is a file, also while it is used",
    .about = "Copy the store of a server into a new file, also while the server runs and writes: "
             "the copy has everything that was acknowledged before. It is checked, and has its "
             "name once it is whole.\n\n"
             "--json prints an object: bytes.\n",
    .size = sizeof(struct cli),
    .min_args = 2,
    .max_args = 2,
    .run = store_backup_run,
};

const struct command command_store_compact = {
    .name = "store compact",
    .args = "FILE",
    .help = "make a store that is a file smaller",
    .about = "Write the store of a server that does not run anew, without the room that removed "
             "content left in it.\n\n"
             "--json prints an object: bytesBefore, bytesAfter.\n",
    .size = sizeof(struct cli),
    .min_args = 1,
    .max_args = 1,
    .run = store_compact_run,
};
