/* SPDX-License-Identifier: MIT
 *
 * Calls a tool of the server and prints its result.
 */
#include "bin/remote/tool.h"

#include <stdlib.h>

#include <tidings/json.h>

#include "bin/cli/exit_status.h"
#include "bin/cli/output.h"

/* ---- arguments ------------------------------------------------------------------------------- */

/* May the argument be something other than a string? `schema` is that of the whole input. */
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
        return tidings_fail(err, TIDINGS_E_INVALID, "what is behind := must be JSON: '%.80s'",
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

char *tool_arguments(const char *const *words, size_t count, struct tidings_str schema,
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
    /* This also finds names that come twice. */
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
        double part = 100 * progress / total;
        fprintf(stderr, "%3.0f %% ", part < 0 ? 0 : part > 100 ? 100 : part);
    } else {
        fprintf(stderr, "%.0f ", progress);
    }
    put_text(stderr, message.len < 70 ? message : tidings_strn(message.ptr, 70));
    fflush(stderr);
}

char *tool_call(const struct cli *cli, struct tidings_client *client, const char *tool,
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

/* Something that is no text, in a line. */
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

void put_contents(FILE *out, struct tidings_str result, const char *pointer)
{
    struct showing s = {out, is_terminal(out)};
    tidings_json_each(result, pointer, tool_put_content, &s);
}

/* ---- tools of ours --------------------------------------------------------------------------- */

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

/* The text of a failed call is a JSON object with a sentence and a reason, or a sentence. */
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

/* Older revisions know no structured content: the text is the same. */
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

/* What a server of ours is started with to have the tool. */
static const char *options_that_offer(const char *tool)
{
    bool is_publishing = strcmp(tool, "publish") == 0 || strcmp(tool, "unpublish") == 0;
    bool is_notifying = strcmp(tool, "notify") == 0;
    return is_publishing  ? "--allow-write, and --publish PREFIX for a prefix of your own"
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
