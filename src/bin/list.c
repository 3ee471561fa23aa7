/* SPDX-License-Identifier: MIT
 *
 * `tidings ls`, `templates`, `tools` and `prompts`: what a server has, a line for each as it comes.
 */
#include <stddef.h>
#include <stdlib.h>

#include <tidings/json.h>

#include "bin/cli/exit_status.h"
#include "bin/cli/output.h"
#include "bin/cli/path_uri.h"
#include "bin/remote/remote.h"
#include "bin/tool_format.h"

/* What is told of a tool, prompt or template in a line. */
struct list_row {
    char *name, *text;
};
#define LIST_ROWS 1000u /* that are aligned with each other */

struct listing {
    struct cli cli;
    struct list_row *rows;
    size_t row_count;
    bool is_long, is_recursive;
    unsigned format;    /* of tools: enum tool_format */
    size_t count;       /* of tools that were printed in another format */
    const char *prefix; /* only what is below it; NULL: all */
    int status;         /* of the last one that could not be listed on the way */
};

static int go_on(void)
{
    return ferror(stdout) ? 1 : 0;
}

/* ---- resources ------------------------------------------------------------------------------- */

static void list_put_number(struct tidings_str item)
{
    char *size = tidings_json_get(item, "/size");
    char shown[SIZE_TEXT_MAX] = "-";
    char *end = NULL;
    unsigned long long n = size ? strtoull(size, &end, 10) : 0;
    if (size && *end == '\0' && size[0] != '-') {
        size_text(n, shown);
    }
    printf("%10s", shown);
    tidings_free(size);
}

static void put_column(struct tidings_str item, const char *pointer, size_t max, size_t width)
{
    char *text = text_at(item, pointer);
    struct tidings_str s = tidings_str(text);
    s.len = s.len < max ? s.len : max;
    fputs("  ", stdout);
    size_t used = put_text(stdout, s.len > 0 ? s : TIDINGS_STR("-"));
    printf("%*s", used < width ? (int)(width - used) : 0, "");
    tidings_free(text);
}

static void put_resource(struct listing *l, struct tidings_str item)
{
    char *uri = text_at(item, "/uri");
    bool is_container = is_true_at(item, "/capabilities/list");
    if (l->is_long) {
        list_put_number(item);
        put_column(item, "/annotations/lastModified", 19, 19);
        put_column(item, "/mimeType", 40, 24);
        fputs("  ", stdout);
    }
    put_style(&l->cli, stdout, is_container ? STYLE_NAME : STYLE_PLAIN);
    put_text(stdout, tidings_str(uri));
    put_style(&l->cli, stdout, STYLE_PLAIN);
    fputc('\n', stdout);
    tidings_free(uri);
}

static int list_on_resource(void *user, struct tidings_str item)
{
    struct listing *l = user;
    if (l->prefix) {
        char *uri = text_at(item, "/uri");
        bool is_below = uri && strncmp(uri, l->prefix, strlen(l->prefix)) == 0;
        tidings_free(uri);
        if (!is_below) {
            return 0;
        }
    }
    if (l->cli.json) {
        put_json(stdout, item);
    } else {
        put_resource(l, item);
    }
    return go_on();
}

static int list_on_entry(void *user, const struct tidings_walk_entry *entry)
{
    struct listing *l = user;
    int rc = entry->is_repeated ? 0 : list_on_resource(user, entry->item);
    if (rc == 0 && entry->failure) {
        l->status = command_fail(l->cli.command->name, entry->failure, NULL);
    }
    return rc;
}

static int ls(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    struct listing *l = (struct listing *)cli;
    if (cli->arg_count == 0) {
        int rc = tidings_client_list(client, TIDINGS_LISTING_RESOURCES, list_on_resource, l, err);
        return rc < 0 ? rc : 0;
    }
    char *uri = uri_of_argument(cli->args[0], err);
    if (!uri) {
        return err->code;
    }
    int rc = l->is_recursive ? tidings_client_walk(client, uri, NULL, list_on_entry, l, err)
                             : tidings_client_children(client, uri, list_on_resource, l, err);
    if (rc == TIDINGS_E_UNSUPPORTED) {
        /* Its list is all that such a server can say. */
        l->prefix = uri;
        rc = tidings_client_list(client, TIDINGS_LISTING_RESOURCES, list_on_resource, l, err);
    }
    if (rc < 0 && err->code) {
        remote_about(client, uri, err);
    }
    free(uri);
    return rc < 0 ? rc : l->status;
}

/* ---- the others ------------------------------------------------------------------------------ */

/* The first line of a text. */
static struct tidings_str first_line(const char *text)
{
    return tidings_strn(text, strcspn(text, "\n"));
}

static int list_put_argument(void *user, struct tidings_str key, struct tidings_str value)
{
    const struct tidings_str *required = user;
    char *type = text_at(value, "/type"), *about = text_at(value, "/description");
    char *name = text_at(value, "/name"); /* of a prompt's */
    struct tidings_str shown = key.len > 0 ? key : tidings_str(name);
    char *quoted = tidings_json_quote(key);
    bool is_required = is_true_at(value, "/required") ||
                       (key.len > 0 && quoted && required && strstr(required->ptr, quoted));
    fputs("    ", stdout);
    size_t used = put_text(stdout, shown);
    fputs(is_required ? "*" : " ", stdout);
    put_gap(stdout, used, 20);
    used = put_text(stdout, tidings_str(type));
    put_gap(stdout, used, 10);
    put_text_wrapped(stdout, first_line(about), 4 + 1 + 20 + 10);
    fputc('\n', stdout);
    tidings_free(type);
    tidings_free(about);
    tidings_free(name);
    tidings_free(quoted);
    return go_on();
}

/* The arguments of a tool (by its schema) or of a prompt. */
static void list_put_arguments(struct tidings_str item)
{
    char *required = tidings_json_get(item, "/inputSchema/required");
    struct tidings_str names = tidings_str(required);
    if (tidings_json_each(item, "/inputSchema/properties", list_put_argument, &names) ==
        TIDINGS_E_NOTFOUND) {
        tidings_json_each(item, "/arguments", list_put_argument, NULL);
    }
    tidings_free(required);
}

static void list_put_row(const struct listing *l, const struct list_row *row, size_t column)
{
    put_style(&l->cli, stdout, STYLE_NAME);
    size_t used = put_text(stdout, tidings_str(row->name));
    put_style(&l->cli, stdout, STYLE_PLAIN);
    if (used >= column && is_terminal(stdout)) {
        used = column = 4; /* a line of its own */
        fputs("\n    ", stdout);
    } else {
        put_gap(stdout, used, column);
    }
    put_text_wrapped(stdout, tidings_str(row->text), used > column ? used + 1 : column);
    fputc('\n', stdout);
}

/* Names in one column, as wide as the widest, but at most half of a terminal. */
static void list_put_rows(struct listing *l)
{
    size_t most = is_terminal(stdout) ? output_width(stdout) / 2 : 80, column = 0;
    for (size_t i = 0; i < l->row_count; i++) {
        size_t columns = text_columns(tidings_str(l->rows[i].name)) + 2;
        column = columns > column && columns <= most ? columns : column;
    }
    for (size_t i = 0; i < l->row_count; i++) {
        list_put_row(l, &l->rows[i], column);
        tidings_free(l->rows[i].name);
        free(l->rows[i].text);
    }
    l->row_count = 0;
}

/* Takes `name`. 1: no memory. */
static int list_keep_row(struct listing *l, char *name, struct tidings_str text)
{
    char *copy = strndup(text.ptr ? text.ptr : "", text.len);
    if (!l->rows) {
        l->rows = calloc(LIST_ROWS, sizeof(*l->rows));
    }
    if (!l->rows || !copy || !name) {
        tidings_free(name);
        free(copy);
        return 1;
    }
    l->rows[l->row_count++] = (struct list_row){name, copy};
    if (l->row_count == LIST_ROWS) {
        list_put_rows(l);
    }
    return go_on();
}

static int on_item(void *user, struct tidings_str item)
{
    struct listing *l = user;
    if (l->cli.json) {
        put_json(stdout, item);
        return go_on();
    }
    char *template = tidings_json_string(item, "/uriTemplate");
    char *name = template ? template : text_at(item, "/name");
    char *about = text_at(item, "/description"), *title = text_at(item, "/title");
    struct tidings_str text = first_line(about && *about ? about : title && *title ? title : "");
    int rc = 0;
    if (l->is_long) {
        put_style(&l->cli, stdout, STYLE_NAME);
        put_text(stdout, tidings_str(name));
        put_style(&l->cli, stdout, STYLE_PLAIN);
        fputc('\n', stdout);
        fputs(about && *about ? "    " : "", stdout);
        put_text_wrapped(stdout, tidings_str(about), 4);
        fputs(about && *about ? "\n" : "", stdout);
        list_put_arguments(item);
        tidings_free(name);
        rc = go_on();
    } else {
        rc = list_keep_row(l, name, text);
    }
    tidings_free(about);
    tidings_free(title);
    return rc;
}

static int list_items(struct cli *cli, struct tidings_client *client, enum tidings_listing which,
                      struct tidings_error *err)
{
    struct listing *l = (struct listing *)cli;
    int rc = tidings_client_list(client, which, on_item, cli, err);
    list_put_rows(l);
    free(l->rows);
    return rc < 0 ? rc : 0;
}

static int list_templates(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    return list_items(cli, client, TIDINGS_LISTING_TEMPLATES, err);
}

/* Those systems take an array. */
static int list_on_tool(void *user, struct tidings_str item)
{
    struct listing *l = user;
    fputs(l->count++ == 0 ? "[" : ",\n", stdout);
    put_tool((enum tool_format)l->format, item);
    return go_on();
}

static int list_tools(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    struct listing *l = (struct listing *)cli;
    if (l->format == TOOL_FORMAT_MCP) {
        return list_items(cli, client, TIDINGS_LISTING_TOOLS, err);
    }
    int rc = tidings_client_list(client, TIDINGS_LISTING_TOOLS, list_on_tool, cli, err);
    if (rc >= 0) {
        fputs(l->count == 0 ? "[]\n" : "]\n", stdout);
    }
    return rc < 0 ? rc : 0;
}

static int list_prompts(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    return list_items(cli, client, TIDINGS_LISTING_PROMPTS, err);
}

/* ---- the rows -------------------------------------------------------------------------------- */

#define LONG(text)                                                                                 \
    {                                                                                              \
        .name = "long", .letter = 'l', .kind = OPTION_FLAG,                                        \
        .offset = offsetof(struct listing, is_long), .help = (text)                                \
    }

static const struct option ls_options[] = {
    LONG("size, time of the last change and type too"),
    {.name = "recursive",
     .letter = 'R',
     .kind = OPTION_FLAG,
     .offset = offsetof(struct listing, is_recursive),
     .help = "everything below the URI, not its children alone"},
    {0},
};

static const struct option item_options[] = {
    LONG("the whole description, and the arguments; * marks those that are required"),
    {0},
};

static const struct option tool_options[] = {
    LONG("the whole description, and the arguments; * marks those that are required"),
    {.name = "format",
     .kind = OPTION_CHOICE,
     .offset = offsetof(struct listing, format),
     .metavar = "FORMAT",
     .help = "print one JSON array as another system takes it",
     .choices = tool_format_names,
     .value = "mcp"},
    {0},
};

static const struct option template_options[] = {LONG("the whole description"), {0}};

const struct command command_ls = {
    .name = "ls",
    .args = "[URI]",
    .help = "list resources",
    .refused =
        "'tidings ls' without a URI lists what the server has at the top; a path is one of this "
        "machine, from the present directory on",
    .about = "List the resources of a server, or what is below one of them. Where a server cannot "
             "list\nchildren, those of its resources whose URI begins so.\n\n"
             "--json prints the resource objects of the server, one per line.\n",
    .options = ls_options,
    .size = sizeof(struct listing),
    .max_args = 1,
    .arg_kind = ARG_RESOURCE,
    .has_target = true,
    .may_be_asked = true,
    .ask = ls,
};

const struct command command_templates = {
    .name = "templates",
    .help = "list templates of resources",
    .about = "List the URI templates of a server.\n\n"
             "--json prints the template objects of the server, one per line.\n",
    .options = template_options,
    .size = sizeof(struct listing),
    .has_target = true,
    .may_be_asked = true,
    .ask = list_templates,
};

const struct command command_tools = {
    .name = "tools",
    .help = "list tools",
    .about = "List the tools of a server; 'tidings call' calls one.\n\n"
             "--json prints the tool objects of the server, one per line. --format prints an array "
             "for the\n'tools' of OpenAI (chat completions), Ollama, or Microsoft's agents "
             "(Microsoft.Extensions.AI).\n",
    .options = tool_options,
    .size = sizeof(struct listing),
    .has_target = true,
    .may_be_asked = true,
    .ask = list_tools,
};

const struct command command_prompts = {
    .name = "prompts",
    .help = "list prompts",
    .about = "List the prompts of a server; 'tidings prompt' gets one.\n\n"
             "--json prints the prompt objects of the server, one per line.\n",
    .options = item_options,
    .size = sizeof(struct listing),
    .has_target = true,
    .may_be_asked = true,
    .ask = list_prompts,
};
