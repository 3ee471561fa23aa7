/* SPDX-License-Identifier: MIT
 *
 * `tidings publish`: publishes content for a URI on a tidings server that lets clients publish. It
 * uses the server's tools, so it works over every transport.
 */
#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <tidings/json.h>

#include "cli/answer.h"
#include "cli/call.h"
#include "cli/output.h"
#include "cli/paths.h"

/* -------------------------------------------------------------------------------------------------
 * `tidings notify`: reports changes of resources without new content to a tidings server that lets
 * clients write. It uses the server's tool, so it works over every transport.
 */

#define URIS_MAX 1000u /* the server's limit */

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
    char *metadata = n->metadata ? input_json(n->metadata, err) : NULL;
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

#define NOTIFY_AT(member) offsetof(struct notifying, member)

static const struct option notify_options[] = {
    {.name = "metadata",
     .kind = OPTION_TEXT,
     .offset = NOTIFY_AT(metadata),
     .metavar = "JSON",
     .help = "an object that is sent with the change; @FILE: from a file, -: standard input"},
    {.name = "kind",
     .kind = OPTION_CHOICE,
     .offset = NOTIFY_AT(kind),
     .metavar = "KIND",
     .help = "kind of the change",
     .choices = kinds,
     .value = "updated"},
    {.name = "all",
     .kind = OPTION_FLAG,
     .offset = NOTIFY_AT(all),
     .help = "instead of URIs: anything may have changed"},
    {0},
};

const struct command command_notify = {
    .name = "notify",
    .args = "URI…",
    .help = "announce changes of resources",
    .about =
        "Notify the subscribers of these resources without new content. The server must be a "
        "tidings server that allows it (tidings serve --allow-write), and you must have write "
        "access. Prints the announced URIs. A refused URI is an error, and the status is 1.\n\n"
        "--json prints an object: results (uri, told, error, reason), told, refused.\n",
    .options = notify_options,
    .size = sizeof(struct notifying),
    .min_args = 0,
    .max_args = URIS_MAX,
    .has_target = true,
    .run = notify_start,
};

/* ---------------------------------------------------------------------------------------------- */

#define CONTENT_MAX (256u << 20)

struct publishing {
    struct cli cli;
    bool removes, is_new;
    const char *mime, *name, *title, *about, *etag, *metadata;
    const char *message, *file; /* instead of VALUE */
};

static void publish_put_member(FILE *out, const char *name, const char *value)
{
    if (value) {
        fprintf(out, ",\"%s\":", name);
        put_quoted(out, tidings_str(value));
    }
}

/* The content as a member: from the argument, the file, or standard input. */
static int publish_put_content(FILE *out, const struct publishing *p, struct tidings_error *err)
{
    size_t len = 0;
    const char *value = p->message ? p->message : p->cli.arg_count > 1 ? p->cli.args[1] : NULL;
    bool is_input = !p->message && (!value || strcmp(value, "-") == 0);
    char *content = p->file    ? input_bytes(p->file, CONTENT_MAX, &len, err)
                    : is_input ? input_bytes("-", CONTENT_MAX, &len, err)
                               : strdup(value);
    if (!content) {
        return err->code;
    }
    len = p->file || is_input ? len : strlen(value);
    bool as_text = is_text(tidings_strn(content, len));
    char *quoted = as_text ? tidings_json_quote(tidings_strn(content, len))
                           : tidings_json_quote_bytes(tidings_strn(content, len));
    free(content);
    if (!quoted) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    fprintf(out, ",\"%s\":%s", as_text ? "text" : "blob", quoted);
    tidings_free(quoted);
    return 0;
}

static int publish_put_metadata(FILE *out, const char *given, struct tidings_error *err)
{
    char *json = given ? input_json(given, err) : NULL;
    if (given && !json) {
        return err->code;
    }
    if (json) {
        fprintf(out, ",\"metadata\":%s", json);
    }
    tidings_free(json);
    return 0;
}

/* Free it. */
static char *make_arguments(const struct publishing *p, struct tidings_error *err)
{
    struct json_text t;
    char *uri = uri_of_argument(p->cli.args[0], err);
    if (!uri || !json_text_begin(&t)) {
        free(uri);
        return NULL;
    }
    fputs("{\"uri\":", t.out);
    put_quoted(t.out, tidings_str(uri));
    publish_put_member(t.out, "ifMatch", p->etag);
    int rc = publish_put_metadata(t.out, p->metadata, err);
    if (rc == 0 && !p->removes) {
        publish_put_member(t.out, "mimeType", p->mime);
        publish_put_member(t.out, "name", p->name);
        publish_put_member(t.out, "title", p->title);
        publish_put_member(t.out, "description", p->about);
        fputs(p->is_new ? ",\"ifAbsent\":true" : "", t.out);
        rc = publish_put_content(t.out, p, err);
    }
    fputc('}', t.out);
    free(uri);
    char *text = json_text_take(&t);
    if (rc == 0 && text) {
        return text;
    }
    free(text);
    return NULL;
}

static int publish_content(struct cli *cli, struct tidings_client *client,
                           struct tidings_error *err)
{
    struct publishing *p = (struct publishing *)cli;
    tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    char *arguments = make_arguments(p, err);
    const char *tool = p->removes ? "unpublish" : "publish";
    char *answer = NULL;
    int rc = arguments ? tool_ask(cli, client, tool, arguments, &answer, err) : err->code;
    if (answer && cli->json) {
        put_json(stdout, tidings_str(answer));
    } else if (answer && !cli->quiet) {
        char *etag = text_at(tidings_str(answer), "/etag");
        fputs(p->removes                                    ? "deleted "
              : is_true_at(tidings_str(answer), "/created") ? "created "
                                                            : "updated ",
              stdout);
        put_text(stdout, tidings_str(cli->args[0]));
        fputs(etag && *etag ? " " : "", stdout);
        put_text(stdout, tidings_str(etag));
        fputc('\n', stdout);
        tidings_free(etag);
    }
    tidings_free(answer);
    free(arguments);
    return rc;
}

static int publish_run(struct cli *cli)
{
    const struct publishing *p = (struct publishing *)cli;
    const char *value = cli->arg_count > 1 ? cli->args[1] : NULL;
    if (p->removes && (value || p->message || p->file)) {
        return command_misuse("publish", "--delete takes no content:",
                              value        ? value
                              : p->message ? p->message
                                           : p->file);
    }
    if ((value != NULL) + (p->message != NULL) + (p->file != NULL) > 1) {
        return command_misuse("publish",
                              "VALUE, --message and --file each give the content; it "
                              "takes one of them",
                              NULL);
    }
    struct stat st;
    if (value && !cli->quiet && strchr(value, '/') && stat(value, &st) == 0) {
        fputs("tidings publish: this is the text of a path; --file publishes the file\n", stderr);
    }
    return remote_run(cli, publish_content);
}

#define AT(member) offsetof(struct publishing, member)
#define TEXT(n, at, mv, h)                                                                         \
    {                                                                                              \
        .name = (n), .kind = OPTION_TEXT, .offset = AT(at), .metavar = (mv), .help = (h)           \
    }

static const struct option publish_options[] = {
    {.name = "message",
     .letter = 'm',
     .kind = OPTION_TEXT,
     .offset = AT(message),
     .metavar = "TEXT",
     .help = "its content, also one that begins with '-'"},
    {.name = "file",
     .kind = OPTION_FILE,
     .offset = AT(file),
     .metavar = "FILE",
     .help = "the content of this file; -: standard input"},
    TEXT("mime", mime, "TYPE", "its media type"),
    TEXT("name", name, "TEXT", "its name"),
    TEXT("title", title, "TEXT", "its title, for people"),
    TEXT("description", about, "TEXT", "description for people"),
    TEXT("metadata", metadata, "JSON",
         "an object that is sent with the change; @FILE: from a file"),
    TEXT("if-match", etag, "ETAG", "only over content with this etag; *: only where there is some"),
    {.name = "if-absent",
     .kind = OPTION_FLAG,
     .offset = AT(is_new),
     .help = "only where nothing is"},
    {.name = "delete", .kind = OPTION_FLAG, .offset = AT(removes), .help = "remove it"},
    {0},
};

const struct command command_publish = {
    .name = "publish",
    .args = "URI [VALUE|-]",
    .help = "give a resource its content",
    .about = "Create or replace a resource and notify its subscribers. Its content is "
             "VALUE, that of --file, or, for - and without any, standard input. The server must be "
             "a tidings server that allows it (tidings serve --publish PREFIX --allow-write). "
             "Other writable resources, such as entities, are written too. "
             "Prints what happened, the URI and the etag.\n\n"
             "--json prints an object: uri, etag, created.\n",
    .options = publish_options,
    .size = sizeof(struct publishing),
    .min_args = 1,
    .max_args = 2,
    .has_target = true,
    .run = publish_run,
};
