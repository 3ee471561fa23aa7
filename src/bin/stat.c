/* SPDX-License-Identifier: MIT
 *
 * `tidings stat`: what a server says of resources, without their content.
 */
#include <stdlib.h>

#include <tidings/json.h>

#include "bin/cli/output.h"
#include "bin/cli/path_uri.h"
#include "bin/remote/remote.h"

static int stat_put_member(void *user, struct tidings_str key, struct tidings_str value)
{
    const struct cli *cli = user;
    char *text = tidings_json_string(value, "");
    put_style(cli, stdout, STYLE_DIM);
    size_t used = put_text(stdout, key);
    put_style(cli, stdout, STYLE_PLAIN);
    put_gap(stdout, used, 14);
    put_text(stdout, text ? tidings_str(text) : value);
    fputc('\n', stdout);
    tidings_free(text);
    return 0;
}

static int stat_one(struct cli *cli, struct tidings_client *client, const char *argument,
                    struct tidings_error *err)
{
    char *uri = uri_of_argument(argument, err);
    char *about = uri ? tidings_client_metadata(client, uri, err) : NULL;
    if (about && cli->json) {
        put_json(stdout, tidings_str(about));
    } else if (about) {
        tidings_json_each(tidings_str(about), "", stat_put_member, cli);
    }
    int rc = about ? 0 : uri ? remote_about(client, uri, err) : err->code;
    tidings_free(about);
    free(uri);
    return rc;
}

static int stat_next(struct cli *cli, struct tidings_client *client, size_t index,
                     struct tidings_error *err)
{
    if (index > 0 && !cli->json) {
        fputc('\n', stdout);
    }
    return stat_one(cli, client, cli->args[index], err);
}

static int stat_all(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    return remote_each(cli, client, stat_next, err);
}

const struct command command_stat = {
    .name = "stat",
    .args = "URI…",
    .help = "print what is known of resources",
    .about = "Print what a server says of each resource: name, type, size, times. Where it has no\n"
             "resources/metadata, what its list says.\n\n"
             "--json prints the resource objects of the server, one per line.\n",
    .min_args = 1,
    .max_args = WORDS_MAX,
    .arg_kind = ARG_RESOURCES,
    .has_target = true,
    .may_be_asked = true,
    .ask = stat_all,
};
