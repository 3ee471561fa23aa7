/* SPDX-License-Identifier: MIT
 *
 * `tidings notify`: tells a tidings server that lets its clients write that resources changed,
 * without new content, by the server's tool, so that it works over every transport.
 */
#include <stddef.h>
#include <stdlib.h>

#include <tidings/json.h>

#include "bin/cli/exit_status.h"
#include "bin/cli/output.h"
#include "bin/cli/path_uri.h"
#include "bin/remote/given.h"
#include "bin/remote/tool.h"

#define URIS_MAX 1000u /* the server's */

struct notifying {
    struct cli cli;
    const char *metadata;
    unsigned kind;
    bool all;
};

static const char *const kinds[] = {"updated", "created", "deleted", NULL};

static int notify_put_change(FILE *out, const struct notifying *n, const char *argument,
                             const char *metadata, struct tidings_error *err)
{
    char *uri = uri_of_argument(argument, err);
    if (!uri) {
        return err->code;
    }
    fputs("{\"uri\":", out);
    put_quoted(out, tidings_str(uri));
    fprintf(out, ",\"kind\":\"%s\"", kinds[n->kind]);
    if (metadata) {
        fprintf(out, ",\"metadata\":%s", metadata);
    }
    fputc('}', out);
    free(uri);
    return 0;
}

/* The arguments of the tool; free them. */
static char *notify_arguments(const struct notifying *n, const char *metadata,
                              struct tidings_error *err)
{
    struct json_text t;
    int rc = 0;
    tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    if (!json_text_begin(&t)) {
        return NULL;
    }
    fputs("{\"changes\":[", t.out);
    fputs(n->all ? "{\"uri\":\"**\"}" : "", t.out);
    for (size_t i = 0; rc == 0 && i < n->cli.arg_count; i++) {
        fputs(i > 0 ? "," : "", t.out);
        rc = notify_put_change(t.out, n, n->cli.args[i], metadata, err);
    }
    fputs("]}", t.out);
    char *text = json_text_take(&t);
    if (rc < 0) {
        free(text);
        text = NULL;
    }
    return text;
}

/* ---- the answer ------------------------------------------------------------------------------ */

static int notify_put_result(void *user, struct tidings_str key, struct tidings_str result)
{
    const struct cli *cli = user;
    (void)key;
    char *uri = text_at(result, "/uri");
    if (is_true_at(result, "/told")) {
        if (!cli->quiet) {
            fputs("told ", stdout);
            put_text(stdout, tidings_str(uri));
            fputc('\n', stdout);
        }
    } else {
        struct tidings_error err;
        char *why = text_at(result, "/error");
        tidings_fail(&err, 0, "%s", why ? why : "it was refused");
        command_fail(cli->command->name, &err, NULL);
        tidings_free(why);
    }
    tidings_free(uri);
    return 0;
}

static int notify_show(struct cli *cli, struct tidings_str answer)
{
    char *refused = tidings_json_get(answer, "/refused");
    bool is_whole = refused && strcmp(refused, "0") == 0;
    if (cli->json) {
        put_json(stdout, answer);
    } else {
        tidings_json_each(answer, "/results", notify_put_result, cli);
    }
    tidings_free(refused);
    return is_whole ? 0 : 1;
}

static int notify_ask(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    const struct notifying *n = (const struct notifying *)cli;
    char *metadata = n->metadata ? given_json(n->metadata, err) : NULL;
    if (n->metadata && !metadata) {
        return err->code;
    }
    char *arguments = notify_arguments(n, metadata, err);
    char *answer = NULL;
    int rc = arguments ? tool_ask(cli, client, "notify", arguments, &answer, err) : err->code;
    if (answer) {
        rc = notify_show(cli, tidings_str(answer));
    }
    tidings_free(answer);
    tidings_free(metadata);
    free(arguments);
    return rc;
}

static int notify_start(struct cli *cli)
{
    const struct notifying *n = (const struct notifying *)cli;
    if (n->all && cli->arg_count > 0) {
        return command_misuse("notify", "--all takes no URI:", cli->args[0]);
    }
    if (n->all && (n->metadata || n->kind > 0)) {
        return command_misuse("notify", "--all takes neither --kind nor --metadata", NULL);
    }
    if (!n->all && cli->arg_count == 0) {
        return command_misuse("notify", "say what changed: a URI, or --all", NULL);
    }
    return remote_run(cli, notify_ask);
}

#define AT(member) offsetof(struct notifying, member)

static const struct option options[] = {
    {.name = "metadata",
     .kind = OPTION_TEXT,
     .offset = AT(metadata),
     .metavar = "JSON",
     .help = "an object that subscribers are told with it; @FILE: from a file, -: standard input"},
    {.name = "kind",
     .kind = OPTION_CHOICE,
     .offset = AT(kind),
     .metavar = "KIND",
     .help = "what happened to it",
     .choices = kinds,
     .value = "updated"},
    {.name = "all",
     .kind = OPTION_FLAG,
     .offset = AT(all),
     .help = "instead of URIs: anything may have changed"},
    {0},
};

const struct command command_notify = {
    .name = "notify",
    .args = "URI…",
    .help = "say that resources changed",
    .about = "Tell whoever subscribed to these resources that they changed, without new content. "
             "The server must be one of ours that allows it (tidings serve --allow-write), and "
             "you must be allowed to write there. Prints what was told; what was refused is an "
             "error, and makes the status 1.\n\n"
             "--json prints an object: results (uri, told, error, reason), told, refused.\n",
    .options = options,
    .size = sizeof(struct notifying),
    .min_args = 0,
    .max_args = URIS_MAX,
    .has_target = true,
    .run = notify_start,
};
