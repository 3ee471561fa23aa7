/* SPDX-License-Identifier: MIT
 *
 * `tidings read`: the content of resources. Bytes go out as they are, except to a terminal: there
 * text is made harmless, and what is no text is not shown.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include <tidings/json.h>

#include "bin/cli/exit_status.h"
#include "bin/cli/output.h"
#include "bin/cli/path_uri.h"
#include "bin/remote/remote.h"

struct reading {
    struct cli cli;
    const char *file; /* --output */
    bool raw, meta, all;
    FILE *out;
    bool is_guarded;          /* a terminal, and not --raw */
    size_t index;             /* of the content at hand */
    struct tidings_error why; /* the file cannot be written */
};

/* What the server says of a content, on standard error. */
static void put_meta(struct tidings_str content)
{
    char *about = tidings_json_merge(content, TIDINGS_STR("{\"text\":null,\"blob\":null}"), NULL);
    put_json(stderr, about ? tidings_str(about) : content);
    tidings_free(about);
}

/* Opens the file when there is something to write: a read that fails leaves it as it was. */
static bool open_output(struct reading *r)
{
    if (!r->out && !r->why.code) {
        r->out = fopen(r->file, "wbe");
        if (!r->out) {
            tidings_fail(&r->why, TIDINGS_E_IO, "%.160s: %s", r->file, strerror(errno));
        }
    }
    return r->out != NULL;
}

static void put_bytes(struct reading *r, struct tidings_str content)
{
    size_t len = 0;
    char *bytes = tidings_json_bytes(content, "/blob", &len);
    char size[SIZE_TEXT_MAX];
    if (!bytes) {
        fprintf(stderr, "tidings read: a content has neither 'text' nor a good 'blob'\n");
    } else if (r->is_guarded) {
        fprintf(stderr,
                "tidings read: %s that are no text; --output FILE keeps them, --raw shows "
                "them\n",
                size_text(len, size));
    } else {
        fwrite(bytes, 1, len, r->out);
    }
    tidings_free(bytes);
}

static int read_put_content(void *user, struct tidings_str key, struct tidings_str content)
{
    struct reading *r = user;
    (void)key;
    if (r->index++ > 0 && !r->all) {
        return 0;
    }
    if (!open_output(r)) {
        return 1;
    }
    if (r->meta) {
        put_meta(content);
    }
    size_t len = 0;
    char *text = tidings_json_text(content, "/text", &len);
    if (!text) {
        put_bytes(r, content);
    } else if (r->is_guarded) {
        put_lines(r->out, tidings_strn(text, len));
        fputs(len > 0 && text[len - 1] != '\n' ? "\n" : "", r->out);
    } else {
        fwrite(text, 1, len, r->out);
    }
    tidings_free(text);
    return ferror(r->out) ? 1 : 0;
}

/* The result with the URI that was asked for beside it. */
static void put_result(struct tidings_str result, const char *uri)
{
    char *quoted = tidings_json_quote(tidings_str(uri));
    struct json_text t;
    if (quoted && json_text_begin(&t)) {
        fprintf(t.out, "{\"uri\":%s}", quoted);
        char *also = json_text_take(&t);
        char *both = also ? tidings_json_merge(tidings_str(also), result, NULL) : NULL;
        put_json(stdout, both ? tidings_str(both) : result);
        tidings_free(both);
        free(also);
    }
    tidings_free(quoted);
}

static int read_resource(struct reading *r, struct tidings_client *client, const char *argument,
                         struct tidings_error *err)
{
    char *uri = uri_of_argument(argument, err);
    char *result = uri ? tidings_client_read(client, uri, err) : NULL;
    if (result && r->cli.json) {
        put_result(tidings_str(result), uri);
    } else if (result) {
        r->index = 0;
        tidings_json_each(tidings_str(result), "/contents", read_put_content, r);
        if (r->index > 1 && !r->all && !r->cli.quiet) {
            fprintf(stderr, "tidings read: %.200s has %zu more contents; --all prints them too\n",
                    argument, r->index - 1);
        }
    }
    int rc = result ? 0 : err->code;
    tidings_free(result);
    free(uri);
    return rc;
}

/* Nothing more is asked for once it cannot be written. */
static int read_next(struct cli *cli, struct tidings_client *client, size_t index,
                     struct tidings_error *err)
{
    struct reading *r = (struct reading *)cli;
    bool is_over = r->out && ferror(r->out);
    return is_over ? 0 : read_resource(r, client, cli->args[index], err);
}

static int read_resources(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    return remote_each(cli, client, read_next, err);
}

static int read_command(struct cli *cli)
{
    struct reading *r = (struct reading *)cli;
    bool has_file = r->file && strcmp(r->file, "-") != 0 && !cli->json;
    r->out = has_file ? NULL : stdout;
    r->is_guarded = !has_file && !r->raw && is_terminal(stdout);
    int status = remote_run(cli, read_resources);
    if (has_file && r->out && (ferror(r->out) | (fclose(r->out) != 0))) {
        tidings_fail(&r->why, TIDINGS_E_IO, "%.160s: cannot be written", r->file);
    }
    return status == 0 && r->why.code ? command_fail("read", &r->why, NULL) : status;
}

#define AT(member) offsetof(struct reading, member)

static const struct option options[] = {
    {.name = "output",
     .letter = 'o',
     .kind = OPTION_FILE,
     .offset = AT(file),
     .metavar = "FILE",
     .help = "write the content there"},
    {.name = "raw",
     .kind = OPTION_FLAG,
     .offset = AT(raw),
     .help = "as it is, to a terminal too: it may do to it what it likes"},
    {.name = "all",
     .letter = 'a',
     .kind = OPTION_FLAG,
     .offset = AT(all),
     .help = "all contents of a resource, not its first alone"},
    {.name = "meta",
     .kind = OPTION_FLAG,
     .offset = AT(meta),
     .help = "print what the server says of each content on standard error, as JSON"},
    {0},
};

const struct command command_read = {
    .name = "read",
    .args = "URI…",
    .help = "print the content of resources",
    .about = "Print the content of each resource, one after the other; what is base64 on the wire "
             "as the\nbytes it stands for. A URI may be a path, of the file of that name. On a "
             "terminal control\ncharacters are shown as escapes.\n\n"
             "--json prints an object per resource and line: uri, and contents as the server sent "
             "them.\n",
    .options = options,
    .size = sizeof(struct reading),
    .min_args = 1,
    .max_args = WORDS_MAX,
    .has_target = true,
    .run = read_command,
};
