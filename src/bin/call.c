/* SPDX-License-Identifier: MIT
 *
 * `tidings call`, `prompt` and `complete`: call a tool, get a prompt, or ask what an argument can
 * be completed with.
 */
#include <stddef.h>
#include <stdlib.h>

#include <tidings/json.h>

#include "bin/cli/exit_status.h"
#include "bin/cli/output.h"
#include "bin/remote/given.h"
#include "bin/remote/tool.h"

struct call {
    struct cli cli;
    const char *arguments; /* --args */
    char *schema;          /* of the tool, as far as known */
};

/* ---- call ------------------------------------------------------------------------------------ */

static int find_schema(void *user, struct tidings_str item)
{
    struct call *c = user;
    char *name = text_at(item, "/name");
    bool is_it = name && strcmp(name, c->cli.args[0]) == 0;
    tidings_free(name);
    if (is_it) {
        tidings_free(c->schema);
        c->schema = tidings_json_get(item, "/inputSchema");
    }
    return 0; /* the whole list: the client need not ask for it again */
}

static char *call_make_arguments(struct call *c, struct tidings_client *client,
                                 struct tidings_error *err)
{
    if (c->arguments) {
        char *given = given_json(c->arguments, err);
        if (given && given[0] != '{') {
            tidings_fail(err, TIDINGS_E_INVALID,
                         "--args takes a JSON object, such as '{\"name\": \"value\"}'");
            tidings_free(given);
            given = NULL;
        }
        return given;
    }
    if (c->cli.arg_count > 1) {
        /* Without its schema everything is a string. */
        (void)tidings_client_list(client, TIDINGS_LISTING_TOOLS, find_schema, c, NULL);
    }
    return tool_arguments(c->cli.args + 1, c->cli.arg_count - 1, tidings_str(c->schema), err);
}

static int show_result(const struct cli *cli, struct tidings_str result)
{
    bool has_failed = is_true_at(result, "/isError");
    if (cli->json) {
        put_json(stdout, result);
        return has_failed ? 1 : 0;
    }
    char *first = tidings_json_get(result, "/content/0");
    char *structured = tidings_json_get(result, "/structuredContent");
    if (has_failed) {
        fprintf(stderr, "tidings call: '%.60s' failed:\n", cli->args[0]);
    }
    if (!first && structured) {
        put_pretty(has_failed ? stderr : stdout, tidings_str(structured));
    }
    put_contents(has_failed ? stderr : stdout, result, "/content");
    tidings_free(first);
    tidings_free(structured);
    return has_failed ? 1 : 0;
}

static int call_tool(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    struct call *c = (struct call *)cli;
    char *arguments = call_make_arguments(c, client, err);
    char *result = arguments ? tool_call(cli, client, cli->args[0], arguments, err) : NULL;
    int rc = result ? show_result(cli, tidings_str(result)) : err->code;
    tidings_free(result);
    tidings_free(arguments);
    tidings_free(c->schema);
    return rc;
}

static int run_call(struct cli *cli)
{
    if (((struct call *)cli)->arguments && cli->arg_count > 1) {
        return command_misuse("call", "either --args or name=value, not both:", cli->args[1]);
    }
    return remote_run(cli, call_tool);
}

/* ---- prompt ---------------------------------------------------------------------------------- */

static int call_put_message(void *user, struct tidings_str key, struct tidings_str message)
{
    const struct cli *cli = user;
    char *role = text_at(message, "/role"), *content = tidings_json_get(message, "/content");
    struct json_text t;
    (void)key;
    put_style(cli, stdout, STYLE_NAME);
    put_text(stdout, tidings_str(role));
    fputs(":\n", stdout);
    put_style(cli, stdout, STYLE_PLAIN);
    if (content && json_text_begin(&t)) {
        fprintf(t.out, "[%s]", content);
        char *list = json_text_take(&t);
        put_contents(stdout, tidings_str(list), content[0] == '[' ? "/0" : "");
        free(list);
    }
    tidings_free(role);
    tidings_free(content);
    return 0;
}

struct prompt_search {
    const char *name;
    char *arguments; /* JSON array of what it takes; NULL: it was not found */
};

static int find_prompt(void *user, struct tidings_str item)
{
    struct prompt_search *s = user;
    char *name = text_at(item, "/name");
    bool is_it = name && strcmp(name, s->name) == 0;
    tidings_free(name);
    if (is_it) {
        s->arguments = tidings_json_get(item, "/arguments");
        s->arguments = s->arguments ? s->arguments : tidings_json_get(TIDINGS_STR("[]"), "");
    }
    return is_it ? 1 : 0;
}

struct argument_search {
    struct tidings_str name;
    bool is_found;
    char known[160]; /* all there are, as far as they fit */
};

static int find_argument(void *user, struct tidings_str key, struct tidings_str value)
{
    struct argument_search *s = user;
    char *name = text_at(value, "/name");
    size_t used = strlen(s->known);
    (void)key;
    if (name && used + strlen(name) + 3 < sizeof(s->known)) {
        snprintf(s->known + used, sizeof(s->known) - used, "%s%s", used > 0 ? ", " : "", name);
    }
    s->is_found = s->is_found || (name && tidings_str_eq(tidings_str(name), s->name));
    tidings_free(name);
    return 0;
}

/* Servers may pass over what they do not know, which a misspelt name then is. Where the prompt is
 * not listed they say so themselves. */
static int prompt_check_names(const struct cli *cli, struct tidings_client *client,
                              struct tidings_error *err)
{
    struct prompt_search of = {.name = cli->args[0]};
    int rc = 0;
    if (cli->arg_count > 1) {
        (void)tidings_client_list(client, TIDINGS_LISTING_PROMPTS, find_prompt, &of, NULL);
    }
    for (size_t i = 1; of.arguments && rc == 0 && i < (size_t)cli->arg_count; i++) {
        struct argument_search s = {.name = {cli->args[i], strcspn(cli->args[i], "=")}};
        tidings_json_each(tidings_str(of.arguments), "", find_argument, &s);
        if (!s.is_found) {
            rc = tidings_fail(err, TIDINGS_E_INVALID, "'%.60s' has no argument '%.*s'; it takes %s",
                              of.name, s.name.len < 60 ? (int)s.name.len : 60, s.name.ptr,
                              s.known[0] ? s.known : "none");
        }
    }
    tidings_free(of.arguments);
    return rc;
}

static int prompt(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    struct tidings_str strings = tidings_str(NULL); /* a prompt takes nothing else */
    int known = prompt_check_names(cli, client, err);
    if (known < 0) {
        return known;
    }
    char *arguments = tool_arguments(cli->args + 1, cli->arg_count - 1, strings, err);
    char *result = arguments ? tidings_client_prompt(client, cli->args[0], arguments, err) : NULL;
    if (result && cli->json) {
        put_json(stdout, tidings_str(result));
    } else if (result) {
        tidings_json_each(tidings_str(result), "/messages", call_put_message, cli);
    }
    int rc = result ? 0 : err->code;
    tidings_free(result);
    tidings_free(arguments);
    return rc;
}

/* ---- complete -------------------------------------------------------------------------------- */

static int call_put_value(void *user, struct tidings_str key, struct tidings_str value)
{
    char *text = tidings_json_string(value, "");
    (void)user;
    (void)key;
    put_text(stdout, text ? tidings_str(text) : value);
    fputc('\n', stdout);
    tidings_free(text);
    return 0;
}

/* {"type":"ref/resource","uri":…} or {"type":"ref/prompt","name":…}; free it. */
static char *make_ref(const char *of)
{
    struct json_text t;
    bool is_template = strchr(of, '{') || strstr(of, "://");
    if (!json_text_begin(&t)) {
        return NULL;
    }
    fprintf(t.out, "{\"type\":\"ref/%s\":", is_template ? "resource\",\"uri" : "prompt\",\"name");
    put_quoted(t.out, tidings_str(of));
    fputc('}', t.out);
    return json_text_take(&t);
}

static int call_complete(struct cli *cli, struct tidings_client *client, struct tidings_error *err)
{
    size_t len = strcspn(cli->args[1], "=");
    char *name = strndup(cli->args[1], len);
    const char *value = cli->args[1] + len + (cli->args[1][len] == '=' ? 1 : 0);
    char *known = cli->arg_count > 2
                      ? tool_arguments(cli->args + 2, cli->arg_count - 2, tidings_str(NULL), err)
                      : NULL;
    char *ref = make_ref(cli->args[0]);
    char *result = NULL;
    if (!name || !ref) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    } else if (known || cli->arg_count <= 2) {
        result = tidings_client_complete(client, ref, name, value, known, err);
    }
    if (result && cli->json) {
        put_json(stdout, tidings_str(result));
    } else if (result) {
        tidings_json_each(tidings_str(result), "/values", call_put_value, NULL);
        if (is_true_at(tidings_str(result), "/hasMore") && !cli->quiet) {
            fputs("tidings complete: there are more\n", stderr);
        }
    }
    int rc = result ? 0 : err->code;
    tidings_free(result);
    free(ref);
    tidings_free(known);
    free(name);
    return rc;
}

/* ---- the rows -------------------------------------------------------------------------------- */

static const struct option call_options[] = {
    {.name = "args",
     .kind = OPTION_TEXT,
     .offset = offsetof(struct call, arguments),
     .metavar = "JSON",
     .help = "all arguments as one object; -: from standard input, @FILE: from a file"},
    {0},
};

const struct command command_call = {
    .name = "call",
    .args = "TOOL [NAME=VALUE…]",
    .help = "call a tool",
    .refused = "'tidings tools -l' lists tools and their arguments",
    .about =
        "Call a tool and print what it answers. A VALUE is taken as the tool's schema says, a "
        "string\nwhere it says nothing; NAME:=VALUE is JSON always. When the tool fails, its "
        "answer goes to\nstandard error and the status is 1. On a terminal its progress is "
        "shown.\n\n"
        "What the server asks meanwhile (a form, an address to visit) is asked on the "
        "terminal, or\nanswered by --answer. Where there is neither it is told what was asked, "
        "and the status is 75.\n\n"
        "--json prints the result of the server.\n",
    .options = call_options,
    .size = sizeof(struct call),
    .min_args = 1,
    .max_args = WORDS_MAX,
    .arg_kind = ARG_TOOL,
    .has_target = true,
    .may_be_asked = true,
    .run = run_call,
};

const struct command command_prompt = {
    .name = "prompt",
    .args = "NAME [NAME=VALUE…]",
    .help = "get a prompt",
    .refused = "'tidings prompts -l' lists prompts and their arguments",
    .about = "Print the messages of a prompt, filled in with the arguments. What the server asks "
             "first is\nasked and answered as with 'tidings call'.\n\n"
             "--json prints the result of the server.\n",
    .min_args = 1,
    .max_args = WORDS_MAX,
    .arg_kind = ARG_PROMPT,
    .has_target = true,
    .may_be_asked = true,
    .ask = prompt,
};

const struct command command_complete = {
    .name = "complete",
    .args = "TEMPLATE|PROMPT NAME=VALUE [NAME=VALUE…]",
    .help = "complete an argument of a template or prompt",
    .about = "Print what the first NAME could become that begins with VALUE, as the server "
             "suggests; the\nothers are given.\n\n"
             "--json prints the completion object of the server.\n",
    .min_args = 2,
    .max_args = WORDS_MAX,
    .has_target = true,
    .may_be_asked = true,
    .ask = call_complete,
};
