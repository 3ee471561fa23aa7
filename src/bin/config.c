/* SPDX-License-Identifier: MIT
 *
 * `tidings config`: what `tidings serve` with the same arguments would go by, as a file it could
 * read, each value with where it came from.
 */
#include <stdio.h>

#include <tidings/server.h>

#include "bin/cli/command.h"
#include "bin/cli/exit_status.h"
#include "bin/cli/options.h"
#include "bin/cli/output.h"

static int config_run(int argc, char **argv)
{
    struct tidings_error err = {0};
    options_take(&argc, argv, "--print"); /* what it does anyway */
    bool is_json = options_take(&argc, argv, "--json");
    struct tidings_server *server = tidings_server_create(&err);
    if (!server) {
        return command_fail("config", &err, NULL);
    }
    int rc = tidings_server_args(server, argc, argv, &err);
    int status = 0;
    if (rc < 0) {
        status = command_fail("config", &err, "see 'tidings help serve' for the options");
    } else {
        char *text = is_json ? tidings_config_json(server) : tidings_config_print(server);
        if (is_json && text) {
            put_json(stdout, tidings_str(text));
        } else {
            fputs(text ? text : "", stdout);
        }
        status = text ? command_finish("config") : tidings_code_exit(TIDINGS_E_NOMEM);
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
             "form\nof tidings.json, with the origin of each value. --json prints an object: "
             "settings, as the "
             "file\nwould hold them, and origins.\n",
    .options = json_options,
    .arg_kind = ARG_FILE,
    .run_raw = config_run,
};
