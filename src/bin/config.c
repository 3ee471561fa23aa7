/* SPDX-License-Identifier: MIT
 *
 * `tidings config`: what `tidings serve` with the same arguments would go by, as a file it could
 * read, each value with where it came from.
 */
#include <stdio.h>

#include <tidings/server.h>

#include "command.h"

#define ARGS_MAX 1024

static int run(int argc, char **argv)
{
    struct tidings_error err = {0};
    char *rest[ARGS_MAX];
    int count = 0;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--print") == 0) {
            continue; /* what it does anyway */
        }
        if (count == ARGS_MAX) {
            return command_misuse("config", "too many arguments", NULL);
        }
        rest[count++] = argv[i];
    }
    struct tidings_server *server = tidings_server_create(&err);
    if (!server) {
        return command_fail("config", &err, NULL);
    }
    int rc = tidings_server_args(server, count, rest, &err);
    int status = 0;
    if (rc < 0) {
        status = command_fail("config", &err, "see 'tidings help serve' for the options");
    } else {
        char *text = tidings_config_print(server);
        fputs(text ? text : "", stdout);
        status = text && fflush(stdout) == 0 ? 0 : tidings_code_exit(TIDINGS_E_IO);
        tidings_free(text);
    }
    tidings_server_destroy(server);
    return status;
}

const struct command command_config = {
    .name = "config",
    .args = "[--print] [DIR…]",
    .help = "print the configuration in effect",
    .about = "Print the configuration 'tidings serve' would use with the same arguments, in the "
             "form\nof tidings.json, with the origin of each value.\n",
    .arg_kind = ARG_FILE,
    .run_raw = run,
};
