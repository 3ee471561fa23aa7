/* SPDX-License-Identifier: MIT
 *
 * `tidings kick`: ends a client of a server, or all of a principal, by the server's tool.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "bin/cli/output.h"
#include "bin/monitor/self_state.h"
#include "bin/remote/tool.h"

struct kick {
    struct cli cli;
    const char *reason;
    bool is_principal;
};

static int kick_ask(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    const struct kick *k = (const struct kick *)cli;
    const char *whom = cli->args[0];
    bool is_peer = !k->is_principal && *whom && strspn(whom, "0123456789") == strlen(whom);
    struct json_text t;
    if (!json_text_begin(&t)) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    fprintf(t.out, "{\"%s\":", is_peer ? "peer" : "principal");
    put_quoted(t.out, tidings_str(whom));
    if (k->reason) {
        fputs(",\"reason\":", t.out);
        put_quoted(t.out, tidings_str(k->reason));
    }
    fputc('}', t.out);
    char *arguments = json_text_take(&t), *answer = NULL;
    int rc = arguments ? tool_ask(cli, client, "end_peer", arguments, &answer, err)
                       : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    if (rc == TIDINGS_E_UNSUPPORTED) {
        tidings_fail(err, rc,
                     "the server does not let you end clients: it must run with --self, and "
                     "you must be allowed to write tidings://self/peers");
    }
    if (answer) {
        double ended = self_state_number(tidings_str(answer), "/ended");
        if (cli->json) {
            put_json(stdout, tidings_str(answer));
        } else if (!cli->quiet) {
            printf("ended %.0f\n", ended);
        }
        rc = ended > 0 ? 0 : 1;
    }
    tidings_free(answer);
    free(arguments);
    return rc;
}

static const struct option options[] = {
    {.name = "principal",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct kick, is_principal),
     .help = "it is the name of a principal, though it is a number"},
    {.name = "reason",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct kick, reason),
     .metavar = "TEXT",
     .help = "for the log of the server; at most 200 bytes"},
    {0},
};

const struct command command_kick = {
    .name = "kick",
    .args = "PEER|PRINCIPAL",
    .help = "end a client of a server",
    .about =
        "End a client: a number is a peer, as 'tidings peers' lists it, anything else the name "
        "of a principal, all of whose clients end. They may come back. The server must run "
        "with --self, and you must be allowed to write tidings://self/peers.\n\n"
        "The status is 1 when there was nobody.\n"
        "--json prints an object: ended, how many there were.\n",
    .options = options,
    .size = sizeof(struct kick),
    .min_args = 1,
    .max_args = 1,
    .has_target = true,
    .ask = kick_ask,
};
