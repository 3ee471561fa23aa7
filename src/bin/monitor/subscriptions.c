/* SPDX-License-Identifier: MIT
 *
 * `tidings subscriptions`: who is subscribed to what, or who would be told of a resource.
 */
#include <stdlib.h>
#include <string.h>

#include <tidings/json.h>

#include "bin/cli/output.h"
#include "bin/monitor/peer_table.h"
#include "bin/monitor/self_state.h"

enum { COLUMN_PEER = 13, COLUMN_WHO = 18, COLUMN_CLIENT = 22, COLUMN_ADDRESS = 22 };

static int subscriptions_put(void *user, struct tidings_str key, struct tidings_str row)
{
    const struct cli *cli = user;
    (void)key;
    if (cli->json) {
        put_json(stdout, row);
        return 0;
    }
    char *peer = text_at(row, "/peer"), *principal = text_at(row, "/principal");
    char *by = text_at(row, "/by"), *address = text_at(row, "/address");
    char *client = text_at(row, "/client/name"), *uri = text_at(row, "/subscribedUri");
    char every[SPAN_TEXT_MAX];
    bool is_named = principal && *principal;
    put_cell(stdout, peer ? peer : "", COLUMN_PEER, true);
    printf(" %7.0f %8s  ", self_state_number(row, "/waiting"),
           span_text(self_state_number(row, "/periodMs"), every));
    put_cell(stdout, is_named ? principal : by ? by : "", COLUMN_WHO, true);
    fputc(' ', stdout);
    put_cell(stdout, client ? client : "", COLUMN_CLIENT, true);
    fputc(' ', stdout);
    put_cell(stdout, address ? address : "", COLUMN_ADDRESS, true);
    fputc(' ', stdout);
    put_text(stdout, tidings_str(uri ? uri : ""));
    if (is_true_at(row, "/suspended")) {
        put_style(cli, stdout, STYLE_BAD);
        fputs(" (suspended)", stdout);
        put_style(cli, stdout, STYLE_PLAIN);
    }
    fputs(is_true_at(row, "/regex") ? " (perhaps: a regular expression)\n" : "\n", stdout);
    tidings_free(peer);
    tidings_free(principal);
    tidings_free(by);
    tidings_free(address);
    tidings_free(client);
    tidings_free(uri);
    return 0;
}

/* "subscriptions?covers=" and the URI, each byte that is neither letter nor digit encoded; NULL:
 * out of memory. */
static char *subscriptions_covering(const char *uri)
{
    struct json_text t;
    if (!json_text_begin(&t)) {
        return NULL;
    }
    fputs("subscriptions?covers=", t.out);
    for (const char *c = uri; *c; c++) {
        bool is_plain = strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~",
                               *c) != NULL;
        fprintf(t.out, is_plain ? "%c" : "%%%02X", (unsigned)(unsigned char)*c);
    }
    return json_text_take(&t);
}

static int subscriptions_ask(struct cli *cli, struct tidings_client *client,
                             struct tidings_error *err)
{
    char *text = NULL;
    if (cli->arg_count > 0 && !strchr(cli->args[0], ':')) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "'%s' is no URI (expected 'scheme:…', as in 'file:///a')",
                            cli->args[0]);
    }
    tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    if (cli->arg_count > 0) {
        char *name = subscriptions_covering(cli->args[0]);
        text = name ? self_state_read(client, name, err) : NULL;
        free(name);
    } else {
        text = self_state_read_all(client, "subscriptions", err);
    }
    if (!text) {
        return err->code;
    }
    if (!cli->json) {
        put_style(cli, stdout, STYLE_DIM);
        printf("%-*s %7s %8s  %-*s %-*s %-*s SUBSCRIBED TO\n", COLUMN_PEER, "PEER", "WAITING",
               "EVERY", COLUMN_WHO, "PRINCIPAL", COLUMN_CLIENT, "CLIENT", COLUMN_ADDRESS,
               "ADDRESS");
        put_style(cli, stdout, STYLE_PLAIN);
    }
    (void)tidings_json_each(tidings_str(text), "", subscriptions_put, cli);
    tidings_free(text);
    return 0;
}

const struct command command_subscriptions = {
    .name = "subscriptions",
    .args = "[URI]",
    .help = "list who is subscribed to what at a server",
    .about =
        "List the subscriptions of all clients: the client's number ('tidings peers', 'tidings "
        "kick'), what waits, the period in which changes become one, principal, what the client "
        "calls itself, address, and the URI or pattern. With a URI, those that would be told if "
        "that changed; whether a regular expression matches is not tried. The server must run with "
        "--self, and you must be allowed to read tidings://self/subscriptions.\n\n"
        "--json prints an object for each.\n",
    .max_args = 1,
    .arg_kind = ARG_RESOURCE,
    .has_target = true,
    .ask = subscriptions_ask,
};
