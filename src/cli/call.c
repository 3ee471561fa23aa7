/* SPDX-License-Identifier: MIT
 *
 * `tidings call`, `prompt` and `complete`: call a tool, get a prompt, or get completions for an
 * argument.
 */
#include "cli/call.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidings/json.h>

#include "cli/answer.h"
#include "cli/output.h"
#include "cli/remote.h"

/* -------------------------------------------------------------------------------------------------
 * `tidings request`: sends any method to a server and prints the answer.
 */

/* The `data` of the server's error, for people; with --json only the failure is printed. */
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

/* Many methods of the older revisions do not exist in the newest one. */
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
    char *params = cli->arg_count > 1 ? input_json(cli->args[1], err) : NULL;
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
             "from a file), and print the result. Errors of the server are printed with code and "
             "data. -v shows the messages in both directions.\n\n"
             "--json prints the result on one line.\n",
    .min_args = 1,
    .max_args = 2,
    .has_target = true,
    .may_be_asked = true,
    .ask = request_send,
};

/* -------------------------------------------------------------------------------------------------
 * Calls a tool of the server and prints its result.
 */

/* ---- arguments ------------------------------------------------------------------------------- */

/* Returns true if the argument must be a string, or if there is no schema. `schema` is that of the
 * whole input. */
static bool wants_string(struct tidings_str schema, const char *name, size_t len)
{
    char pointer[256] = "/properties/";
    size_t at = strlen(pointer);
    for (size_t i = 0; i < len && at + 8 < sizeof(pointer); i++) {
        bool is_special = name[i] == '~' || name[i] == '/';
        pointer[at++] = is_special ? '~' : name[i];
        if (is_special) {
            pointer[at++] = name[i] == '~' ? '0' : '1';
        }
    }
    snprintf(pointer + at, sizeof(pointer) - at, "/type");
    char *type = tidings_json_get(schema, pointer);
    bool is_string = type && strcmp(type, "\"string\"") == 0;
    bool is_unknown = !type && schema.len == 0;
    tidings_free(type);
    return is_string || is_unknown;
}

static int tool_put_argument(FILE *out, const char *word, struct tidings_str schema,
                             struct tidings_error *err)
{
    size_t len = strcspn(word, "=");
    bool is_json = len > 1 && word[len - 1] == ':';
    size_t name_len = is_json ? len - 1 : len;
    if (word[len] == '\0' || name_len == 0) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "an argument is name=value or name:=JSON, not '%.80s'", word);
    }
    struct tidings_str value = tidings_str(word + len + 1);
    char *json =
        is_json || !wants_string(schema, word, name_len) ? tidings_json_get(value, "") : NULL;
    if (is_json && !json) {
        return tidings_fail(err, TIDINGS_E_INVALID, "the value after := must be JSON: '%.80s'",
                            word);
    }
    put_quoted(out, tidings_strn(word, name_len));
    fputc(':', out);
    if (json) {
        fputs(json, out);
    } else {
        put_quoted(out, value);
    }
    tidings_free(json);
    return 0;
}

/* The JSON object of "name=value" words. A value is JSON if `schema` (of the tool's input; may be
 * empty) allows a non-string and the value parses as JSON; otherwise it is a string. "name:=value"
 * is always JSON. tidings_free it. NULL with `err`. */
static char *tool_arguments(const char *const *words, size_t count, struct tidings_str schema,
                            struct tidings_error *err)
{
    struct json_text t;
    struct tidings_error why = {0};
    int rc = 0;
    if (!json_text_begin(&t)) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        return NULL;
    }
    fputc('{', t.out);
    for (size_t i = 0; i < count && rc == 0; i++) {
        fputs(i > 0 ? "," : "", t.out);
        rc = tool_put_argument(t.out, words[i], schema, err);
    }
    fputc('}', t.out);
    char *text = json_text_take(&t);
    /* This also rejects duplicate names. */
    char *compact = rc == 0 && text ? tidings_json_compact(tidings_str(text), &why) : NULL;
    if (!text) {
        tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    } else if (rc == 0 && !compact) {
        tidings_fail(err, why.code, "the arguments as JSON, %.100s: %s", text, why.text);
    }
    free(text);
    return compact;
}

/* ---- calling --------------------------------------------------------------------------------- */

static void tool_on_progress(void *user, double progress, double total, struct tidings_str message)
{
    (void)user;
    fputs("\r\x1b[K", stderr);
    if (total > 0) {
        double range = 100 * progress / total;
        fprintf(stderr, "%3.0f %% ", range < 0 ? 0 : range > 100 ? 100 : range);
    } else {
        fprintf(stderr, "%.0f ", progress);
    }
    put_text(stderr, message.len < 70 ? message : tidings_strn(message.ptr, 70));
    fflush(stderr);
}

/* Call the tool, showing its progress on a terminal: the result, tidings_free it. NULL with
 * `err`. */
static char *tool_call(const struct cli *cli, struct tidings_client *client, const char *tool,
                       const char *arguments, struct tidings_error *err)
{
    bool shows = !cli->quiet && is_terminal(stderr);
    char *result =
        tidings_client_call(client, tool, arguments, shows ? tool_on_progress : NULL, NULL, err);
    if (shows) {
        fputs("\r\x1b[K", stderr);
    }
    return result;
}

/* ---- answers --------------------------------------------------------------------------------- */

struct showing {
    FILE *out;
    bool is_guarded;
};

/* Print a summary of non-text content, on one line. */
static void put_other(FILE *out, struct tidings_str content)
{
    char *type = text_at(content, "/type"), *mime = text_at(content, "/mimeType");
    char *uri = text_at(content, "/uri"), *inner = text_at(content, "/resource/uri");
    fputc('(', out);
    put_text(out, tidings_str(type));
    const char *const parts[] = {mime, uri, inner};
    for (size_t i = 0; i < 3; i++) {
        fputs(parts[i] && *parts[i] ? " " : "", out);
        put_text(out, tidings_str(parts[i]));
    }
    fputs("; --json shows all of it)\n", out);
    tidings_free(type);
    tidings_free(mime);
    tidings_free(uri);
    tidings_free(inner);
}

static int tool_put_content(void *user, struct tidings_str key, struct tidings_str content)
{
    const struct showing *s = user;
    (void)key;
    char *text = tidings_json_string(content, "/text");
    if (!text) {
        text = tidings_json_string(content, "/resource/text");
    }
    size_t len = text ? strlen(text) : 0;
    if (!text) {
        put_other(s->out, content);
    } else if (s->is_guarded) {
        put_lines(s->out, tidings_str(text));
    } else {
        fwrite(text, 1, len, s->out);
    }
    fputs(len > 0 && text[len - 1] != '\n' ? "\n" : "", s->out);
    tidings_free(text);
    return 0;
}

/* Print a `content` array: text is printed (escaped on a terminal), other content is summarized on
 * a line. */
static void put_contents(FILE *out, struct tidings_str result, const char *pointer)
{
    struct showing s = {out, is_terminal(out)};
    tidings_json_each(result, pointer, tool_put_content, &s);
}

/* ---- tidings tools --------------------------------------------------------------------------- */

static int tool_code_of(const char *reason)
{
    static const struct {
        const char *reason;
        int code;
    } known[] = {
        {"invalid", TIDINGS_E_INVALID},      {"conflict", TIDINGS_E_CONFLICT},
        {"validation", TIDINGS_E_FORMAT},    {"exists", TIDINGS_E_EXISTS},
        {"deleted", TIDINGS_E_GONE},         {"unknownEntity", TIDINGS_E_NOTFOUND},
        {"unknownType", TIDINGS_E_NOTFOUND}, {"unknownBaseline", TIDINGS_E_NOTFOUND},
        {"otherType", TIDINGS_E_CONFLICT},   {"unsupported", TIDINGS_E_UNSUPPORTED},
        {"storage", TIDINGS_E_FULL},         {"not_found", TIDINGS_E_NOTFOUND},
        {"denied", TIDINGS_E_DENIED},        {"outcomeUnknown", TIDINGS_E_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(known[i].reason, reason) == 0) {
            return known[i].code;
        }
    }
    return 0;
}

/* The text of a failed call is an error message, or a JSON object with an error message and a
 * reason. */
static int tool_explain(const struct cli *cli, struct tidings_str result, struct tidings_error *err)
{
    char *text = text_at(result, "/content/0/text");
    char *sentence = tidings_json_string(tidings_str(text), "/error");
    char *reason = text_at(tidings_str(text), "/reason");
    int code = tool_code_of(reason ? reason : "");
    tidings_fail(err, code, "%s", sentence ? sentence : text ? text : "it failed");
    if (code == 0) {
        command_fail(cli->command->name, err, NULL);
        code = 1;
    }
    tidings_free(text);
    tidings_free(sentence);
    tidings_free(reason);
    return code;
}

/* Older revisions lack structured content: the text is equivalent. */
static char *structured(struct tidings_str result)
{
    char *answer = tidings_json_get(result, "/structuredContent");
    char *text = answer ? NULL : text_at(result, "/content/0/text");
    if (!answer && text) {
        answer = tidings_json_get(tidings_str(text), "");
    }
    tidings_free(text);
    return answer ? answer : tidings_json_get(TIDINGS_STR("{}"), "");
}

/* The options that make a tidings server offer the tool. */
static const char *options_that_offer(const char *tool)
{
    bool is_publishing = strcmp(tool, "publish") == 0 || strcmp(tool, "unpublish") == 0;
    bool is_notifying = strcmp(tool, "notify") == 0;
    return is_publishing  ? "--allow-write, and --publish PREFIX for your own prefix"
           : is_notifying ? "--allow-write"
                          : "--entities FILE and --allow-write";
}

int tool_ask(const struct cli *cli, struct tidings_client *client, const char *tool,
             const char *arguments, char **ret, struct tidings_error *err)
{
    struct tidings_error why = {0};
    char *result = tool_call(cli, client, tool, arguments, &why);
    if (!result) {
        const char *said = tidings_client_last_error(client);
        bool is_absent = (why.code == TIDINGS_E_UNSUPPORTED && said) ||
                         (said && strstr(said, tool) &&
                          (why.code == TIDINGS_E_INVALID || why.code == TIDINGS_E_NOTFOUND));
        return is_absent ? tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                                        "the server has no tool '%s'; 'tidings serve' offers it "
                                        "with %s",
                                        tool, options_that_offer(tool))
                         : tidings_fail(err, why.code, "%s", why.text);
    }
    int rc = 0;
    if (is_true_at(tidings_str(result), "/isError")) {
        rc = tool_explain(cli, tidings_str(result), err);
    } else {
        *ret = structured(tidings_str(result));
        rc = *ret ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    tidings_free(result);
    return rc;
}

/* -------------------------------------------------------------------------------------------------
 * Converts the object of a tool. The schema of its arguments is unchanged, except that missing
 * `properties` and `required` are added, because those systems require both.
 */

#define OPENAI_NAME_MAX 64u

const char *const tool_format_names[] = {"mcp", "openai", "ollama", "ms-agent", NULL};

static void put_member(const char *name, struct tidings_str tool, const char *pointer)
{
    char *text = tidings_json_get(tool, pointer);
    printf("\"%s\":", name);
    put_json_text(stdout, tidings_str(text ? text : "\"\""));
    tidings_free(text);
}

/* Returns true if the member exists. */
static bool has_at(struct tidings_str json, const char *pointer)
{
    char *text = tidings_json_get(json, pointer);
    tidings_free(text);
    return text != NULL;
}

static void put_parameters(struct tidings_str tool)
{
    char *schema = tidings_json_get(tool, "/inputSchema");
    struct tidings_str rest = tidings_str(schema && schema[0] == '{' ? schema : "{}");
    rest = tidings_strn(rest.ptr + 1, rest.len - 1);
    fputs("\"parameters\":{", stdout);
    fputs(has_at(tool, "/inputSchema/type") ? "" : "\"type\":\"object\",", stdout);
    fputs(has_at(tool, "/inputSchema/properties") ? "" : "\"properties\":{},", stdout);
    if (!has_at(tool, "/inputSchema/required")) {
        printf("\"required\":[]%s", rest.len > 1 ? "," : "");
    }
    put_json_text(stdout, rest);
    tidings_free(schema);
}

static bool is_openai_name(const char *name)
{
    size_t len = strlen(name);
    return len > 0 && len <= OPENAI_NAME_MAX &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") == len;
}

void put_tool(enum tool_format format, struct tidings_str tool)
{
    char *name = tidings_json_string(tool, "/name");
    if (format == TOOL_FORMAT_OPENAI && !is_openai_name(name ? name : "")) {
        fputs("tidings tools: OpenAI does not take the name '", stderr);
        put_text(stderr, tidings_str(name));
        fprintf(stderr, "': 1 to %u of A-Z a-z 0-9 _ -\n", OPENAI_NAME_MAX);
    }
    bool is_wrapped = format != TOOL_FORMAT_MS_AGENT;
    fputs(is_wrapped ? "{\"type\":\"function\",\"function\":{" : "{", stdout);
    put_member("name", tool, "/name");
    fputc(',', stdout);
    put_member("description", tool, "/description");
    fputc(',', stdout);
    put_parameters(tool);
    fputs(is_wrapped ? "}}" : "}", stdout);
    tidings_free(name);
}

/* ---------------------------------------------------------------------------------------------- */

struct call {
    struct cli cli;
    const char *arguments; /* --args */
    char *schema;          /* of the tool, if known */
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
    return 0; /* the whole list: the client need not request it again */
}

static char *call_make_arguments(struct call *c, struct tidings_client *client,
                                 struct tidings_error *err)
{
    if (c->arguments) {
        char *given = input_json(c->arguments, err);
        if (given && given[0] != '{') {
            tidings_fail(err, TIDINGS_E_INVALID,
                         "--args takes a JSON object, such as '{\"name\": \"value\"}'");
            tidings_free(given);
            given = NULL;
        }
        return given;
    }
    if (c->cli.arg_count > 1) {
        /* Without a schema, all values are strings. */
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
    char *arguments; /* JSON array of its arguments; NULL: no such prompt */
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
    char known[160]; /* known names, as many as fit */
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

/* Servers may ignore unknown names, such as a misspelt one. If the prompt is not listed, the server
 * reports the error itself. */
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
    struct tidings_str strings = tidings_str(NULL); /* prompts take only strings */
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
    .about = "Call a tool and print what it answers. A VALUE is taken as the tool's schema says, a "
             "string\nwhere it says nothing; NAME:=VALUE is JSON always. When the tool fails, its "
             "answer goes to\nstandard error and the status is 1. On a terminal its progress is "
             "shown.\n\n"
             "Questions of the server (a form, an address to visit) appear on the terminal, "
             "or\n--answer answers them. Without both, the command prints the question and exits "
             "with 75.\n\n"
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
    .about = "Print the messages of a prompt, filled in with the arguments. Questions of "
             "the\nserver are answered as with 'tidings call'.\n\n"
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
