/* SPDX-License-Identifier: MIT
 *
 * `tidings request`: ask a server anything, by the name of the method, and print what it answers.
 */
#include <tidings/json.h>

#include "bin/cli/output.h"
#include "bin/remote/given.h"
#include "bin/remote/remote.h"

/* What the server said besides its sentence, for people: with --json the failure alone is told. */
static void put_error_data(const struct cli *cli, struct tidings_client *client)
{
    const char *error = tidings_client_last_error(client);
    char *data = error && !cli->json ? tidings_json_get(tidings_str(error), "/data") : NULL;
    if (data) {
        fputs("tidings request: data: ", stderr);
        put_json(stderr, tidings_str(data));
    }
    tidings_free(data);
}

/* Many methods of the older revisions are gone from the newest. */
static void request_hint_era(struct tidings_client *client, struct tidings_error *err)
{
    const struct tidings_client_info *a = tidings_client_info(client);
    if (err->code == TIDINGS_E_UNSUPPORTED && a && a->era == TIDINGS_ERA_MODERN) {
        struct tidings_error why = *err;
        tidings_fail(err, why.code, "%.180s; older revisions have other methods: --era legacy",
                     why.text);
    }
}

static int request_send(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    char *params = cli->arg_count > 1 ? given_json(cli->args[1], err) : NULL;
    if (cli->arg_count > 1 && !params) {
        return err->code;
    }
    if (params && params[0] != '{') {
        tidings_free(params);
        return tidings_fail(err, TIDINGS_E_INVALID, "parameters are a JSON object");
    }
    char *result = tidings_client_request(client, cli->args[0], params, err);
    if (!result) {
        put_error_data(cli, client);
        request_hint_era(client, err);
    } else if (cli->json) {
        put_json(stdout, tidings_str(result));
    } else {
        put_pretty(stdout, tidings_str(result));
    }
    int rc = result ? 0 : err->code;
    tidings_free(result);
    tidings_free(params);
    return rc;
}

const struct command command_request = {
    .name = "request",
    .args = "METHOD [JSON]",
    .help = "ask a server by the name of the method",
    .about = "Send a request with these parameters, a JSON object (-: from standard input, @FILE: "
             "from a file), and print the result. An error of the server is told with its code "
             "and data. -v shows what is sent and what comes.\n\n"
             "--json prints the result on one line.\n",
    .min_args = 1,
    .max_args = 2,
    .has_target = true,
    .may_be_asked = true,
    .ask = request_send,
};
