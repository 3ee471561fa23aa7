/* SPDX-License-Identifier: MIT
 *
 * The resources, tools and prompts that the official MCP conformance suite expects of a server,
 * built on the public API:
 *
 *     conformance --http 127.0.0.1:0
 *
 * It prints its URL to standard error when clients can connect, and serves until it is stopped.
 */
#include "conformance.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static struct tidings_server *server;

static void read_text(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)uri;
    struct tidings_error err;
    int rc = tidings_read_text(read, NULL, tidings_str(user), &err);
    tidings_read_done(read, rc, &err);
}

/* One red pixel. */
static const unsigned char png[] = {
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48,
    0x44, 0x52, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x02, 0x00, 0x00,
    0x00, 0x90, 0x77, 0x53, 0xde, 0x00, 0x00, 0x00, 0x0c, 0x49, 0x44, 0x41, 0x54, 0x08,
    0xd7, 0x63, 0xf8, 0xcf, 0xc0, 0x00, 0x00, 0x03, 0x01, 0x01, 0x00, 0x18, 0xdd, 0x8d,
    0xb0, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
};

static void read_png(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    (void)uri;
    struct tidings_error err;
    int rc = tidings_read_blob(read, NULL, tidings_strn((const char *)png, sizeof(png)), &err);
    tidings_read_done(read, rc, &err);
}

static void read_template(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    (void)uri;
    struct tidings_str id = tidings_read_variable(read, "id");
    struct tidings_error err;
    char text[512];
    /* The suite's ids need no escaping; any other id is not found. */
    for (size_t i = 0; i < id.len; i++) {
        unsigned char c = (unsigned char)id.ptr[i];
        if (c < 0x20 || c == '"' || c == '\\' || id.len > 100) {
            tidings_fail(&err, TIDINGS_E_NOTFOUND, "no such id");
            tidings_read_done(read, TIDINGS_E_NOTFOUND, &err);
            return;
        }
    }
    snprintf(text, sizeof(text), "{\"id\":\"%.*s\",\"templateTest\":true}", (int)id.len, id.ptr);
    int rc = tidings_read_text(read, NULL, tidings_str(text), &err);
    tidings_read_done(read, rc, &err);
}

struct row {
    const char *uri, *name, *mime_type;
    tidings_read_fn read;
    char *user;
    bool is_template;
};

static char static_text[] = "This is the content of the static text resource.";
static char watched_text[] = "This resource can be subscribed to.";

static const struct row rows[] = {
    {"test://static-text", "Static text", "text/plain", read_text, static_text, false},
    {"test://static-binary", "Static binary", "image/png", read_png, NULL, false},
    {"test://watched-resource", "Watched resource", "text/plain", read_text, watched_text, false},
    {"test://template/{id}/data", "Template", "application/json", read_template, NULL, true},
};

static int add_rows(struct tidings_error *err)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct tidings_resource about = {0};
        about.uri = tidings_str(rows[i].uri);
        about.name = tidings_str(rows[i].name);
        about.mime_type = tidings_str(rows[i].mime_type);
        int rc = rows[i].is_template
                     ? tidings_server_add_template(server, &about, rows[i].read, rows[i].user, err)
                     : tidings_server_add_resource(server, &about, rows[i].read, rows[i].user, err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* ---- tools that return content --------------------------------------------------------------- */

/* The shortest sound: a WAV header without samples. */
static const char wav[] =
    "RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x40\x1f\0\0\1\0\x08\0"
    "data\0\0\0";

static struct tidings_resource described(const char *uri, const char *name, const char *mime_type)
{
    struct tidings_resource about = {0};
    about.uri = tidings_str(uri);
    about.name = tidings_str(name);
    about.mime_type = tidings_str(mime_type);
    return about;
}

static void say(void *user, struct tidings_call *call)
{
    struct tidings_error err;
    tidings_call_done(call, tidings_call_text(call, tidings_str(user), &err), &err);
}

static void give_image(void *user, struct tidings_call *call)
{
    (void)user;
    struct tidings_error err;
    struct tidings_str bytes = tidings_strn((const char *)png, sizeof(png));
    tidings_call_done(call, tidings_call_image(call, bytes, "image/png", &err), &err);
}

static void give_audio(void *user, struct tidings_call *call)
{
    (void)user;
    struct tidings_error err;
    struct tidings_str bytes = tidings_strn(wav, sizeof(wav));
    tidings_call_done(call, tidings_call_audio(call, bytes, "audio/wav", &err), &err);
}

static void give_resource(void *user, struct tidings_call *call)
{
    (void)user;
    struct tidings_error err;
    struct tidings_resource about = described("test://embedded-resource", "embedded", "text/plain");
    struct tidings_str text = tidings_str("This is an embedded resource content.");
    tidings_call_done(call, tidings_call_resource(call, &about, text, &err), &err);
}

static void give_all(void *user, struct tidings_call *call)
{
    (void)user;
    struct tidings_error err;
    struct tidings_resource about =
        described("test://mixed-content-resource", "mixed", "application/json");
    struct tidings_str json = tidings_str("{\"test\":\"data\",\"value\":123}");
    int rc = tidings_call_text(call, tidings_str("Multiple content types test:"), &err);
    if (rc == 0) {
        rc = tidings_call_image(call, tidings_strn((const char *)png, sizeof(png)), "image/png",
                                &err);
    }
    if (rc == 0) {
        rc = tidings_call_resource(call, &about, json, &err);
    }
    tidings_call_done(call, rc, &err);
}

static void fail_always(void *user, struct tidings_call *call)
{
    (void)user;
    struct tidings_error err;
    tidings_fail(&err, TIDINGS_E_INTERNAL, "This tool intentionally returns an error for testing");
    tidings_call_done(call, TIDINGS_E_INTERNAL, &err);
}

/* ---- slow tools: registered as blocking ------------------------------------------------------ */

static void pause_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static void log_thrice(void *user, struct tidings_call *call)
{
    static const char *const lines[] = {"Tool execution started", "Tool processing data",
                                        "Tool execution completed"};
    for (size_t i = 0; i < 3; i++) {
        tidings_call_log(call, TIDINGS_LOG_INFO, "conformance", tidings_str(lines[i]));
        pause_ms(i < 2 ? 50 : 0);
    }
    say(user, call);
}

static void progress_thrice(void *user, struct tidings_call *call)
{
    for (int i = 0; i <= 2; i++) {
        tidings_call_progress(call, 50 * i, 100, tidings_str(""));
        pause_ms(i < 2 ? 50 : 0);
    }
    say(user, call);
}

/* ---- tools that ask questions ---------------------------------------------------------------- */

#define ASK_NAME                                                                                   \
    "{\"message\":\"What is your name?\",\"requestedSchema\":{\"type\":\"object\","                \
    "\"properties\":{\"name\":{\"type\":\"string\"}},\"required\":[\"name\"]}}"
#define ASK_COLOR                                                                                  \
    "{\"message\":\"What is your favorite color?\",\"requestedSchema\":{\"type\":\"object\","      \
    "\"properties\":{\"color\":{\"type\":\"string\"}},\"required\":[\"color\"]}}"
#define ASK_OK                                                                                     \
    "{\"message\":\"Please confirm\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{"    \
    "\"ok\":{\"type\":\"boolean\"}},\"required\":[\"ok\"]}}"
#define ASK_CONTEXT                                                                                \
    "{\"message\":\"What context should the prompt use?\",\"requestedSchema\":{\"type\":"          \
    "\"object\",\"properties\":{\"context\":{\"type\":\"string\"}},\"required\":[\"context\"]}}"
#define ASK_MODEL                                                                                  \
    "{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":\"What is the "     \
    "capital of France?\"}}],\"maxTokens\":100}"

struct question {
    const char *key, *method, *params;
};

/* Asks the questions that have no answer yet. When all are answered, returns the answers. */
struct inquiry {
    const struct question *questions;
    size_t count;
    const char *state; /* kept between rounds; NULL: nothing */
    bool is_choosy;    /* ask only questions that the client supports */
};

static void inquire(void *user, struct tidings_call *call)
{
    const struct inquiry *inquiry = user;
    struct tidings_error err;
    size_t missing = 0;
    int rc = 0;
    for (size_t i = 0; i < inquiry->count && rc == 0; i++) {
        const struct question *q = &inquiry->questions[i];
        bool skip = inquiry->is_choosy && !tidings_call_can_ask(call, q->method);
        if (!skip && tidings_call_answer(call, q->key).len == 0) {
            rc = tidings_call_ask(call, q->key, q->method, tidings_str(q->params), &err);
            missing++;
        }
    }
    if (rc == 0 && missing > 0 && inquiry->state) {
        rc = tidings_call_keep(call, tidings_str(inquiry->state), &err);
    }
    for (size_t i = 0; i < inquiry->count && rc == 0 && missing == 0; i++) {
        struct tidings_str answer = tidings_call_answer(call, inquiry->questions[i].key);
        rc = tidings_call_text(call, answer, &err);
    }
    if (rc == 0 && missing == 0 && inquiry->state) {
        bool same = tidings_call_state(call).len == strlen(inquiry->state);
        rc = tidings_call_text(call, tidings_str(same ? "state-ok" : "no state"), &err);
    }
    tidings_call_done(call, rc, &err);
}

/* Asks two questions, one after the other; the state records which one was answered. */
static void inquire_twice(void *user, struct tidings_call *call)
{
    (void)user;
    struct tidings_error err;
    struct tidings_str state = tidings_call_state(call);
    int rc;
    if (state.len == 0) {
        rc = tidings_call_ask(call, "step1", "elicitation/create", tidings_str(ASK_NAME), &err);
        rc = rc < 0 ? rc : tidings_call_keep(call, tidings_str("1"), &err);
    } else if (state.ptr[0] == '1') {
        rc = tidings_call_ask(call, "step2", "elicitation/create", tidings_str(ASK_COLOR), &err);
        rc = rc < 0 ? rc : tidings_call_keep(call, tidings_str("2"), &err);
    } else {
        rc = tidings_call_text(call, tidings_call_answer(call, "step2"), &err);
    }
    tidings_call_done(call, rc, &err);
}

/* The question depends on an argument: `before` and `after` surround it. */
static struct about {
    const char *method, *argument, *before, *after;
} about_user =
    {"elicitation/create", "message", "{\"message\":",
     ",\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"username\":{\"type\":"
     "\"string\",\"description\":\"User's response\"},\"email\":{\"type\":\"string\","
     "\"description\":\"User's email address\"}},\"required\":[\"username\",\"email\"]}}"},
  about_model = {"sampling/createMessage", "prompt",
                 "{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":",
                 "}}],\"maxTokens\":100}"};

static void ask_about(void *user, struct tidings_call *call)
{
    const struct about *about = user;
    char text[2048];
    struct tidings_error err;
    struct tidings_str answer = tidings_call_answer(call, "it");
    struct tidings_str given = tidings_call_json(call, about->argument);
    int n = snprintf(text, sizeof(text), "%s%.*s%s", about->before, (int)given.len, given.ptr,
                     about->after);
    int rc = answer.len > 0 ? tidings_call_text(call, answer, &err)
             : n < 0 || (size_t)n >= sizeof(text)
                 ? tidings_fail(&err, TIDINGS_E_LIMIT, "the argument is too long")
                 : tidings_call_ask(call, "it", about->method, tidings_str(text), &err);
    tidings_call_done(call, rc, &err);
}

#define ASK_DEFAULTS                                                                               \
    "{\"message\":\"Please confirm\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{"    \
    "\"name\":{\"type\":\"string\",\"default\":\"John Doe\"},\"age\":{\"type\":\"integer\","       \
    "\"default\":30},\"score\":{\"type\":\"number\",\"default\":95.5},\"status\":{\"type\":"       \
    "\"string\",\"enum\":[\"active\",\"inactive\",\"pending\"],\"default\":\"active\"},"           \
    "\"verified\":{\"type\":\"boolean\",\"default\":true}}}}"
#define ENUMS "\"type\":\"string\",\"enum\":[\"option1\",\"option2\",\"option3\"]"
#define TITLED                                                                                     \
    "[{\"const\":\"value1\",\"title\":\"First Option\"},{\"const\":\"value2\",\"title\":"          \
    "\"Second Option\"},{\"const\":\"value3\",\"title\":\"Third Option\"}]"
#define ASK_ENUMS                                                                                  \
    "{\"message\":\"Please choose\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{"     \
    "\"untitledSingle\":{" ENUMS "},\"titledSingle\":{\"type\":\"string\",\"oneOf\":" TITLED       \
    "},\"legacyEnum\":{\"type\":\"string\",\"enum\":[\"opt1\",\"opt2\",\"opt3\"],\"enumNames\":["  \
    "\"Option One\",\"Option Two\",\"Option Three\"]},\"untitledMulti\":{\"type\":\"array\","      \
    "\"items\":{" ENUMS "}},\"titledMulti\":{\"type\":\"array\",\"items\":{\"anyOf\":" TITLED      \
    "}}}}}"

static const struct question questions[] = {
    {"user_name", "elicitation/create", ASK_NAME},
    {"greeting", "sampling/createMessage", ASK_MODEL},
    {"client_roots", "roots/list", "{}"},
    {"confirm", "elicitation/create", ASK_OK},
    {"capital_question", "sampling/createMessage", ASK_MODEL},
    {"user_context", "elicitation/create", ASK_CONTEXT},
    {"defaults", "elicitation/create", ASK_DEFAULTS},
    {"enums", "elicitation/create", ASK_ENUMS},
};
static struct inquiry ask_defaults = {&questions[6], 1, NULL, false};
static struct inquiry ask_enums = {&questions[7], 1, NULL, false};
static struct inquiry ask_name = {&questions[0], 1, NULL, false};
static struct inquiry ask_model = {&questions[4], 1, NULL, false};
static struct inquiry ask_context = {&questions[5], 1, NULL, false};
static struct inquiry ask_roots = {&questions[2], 1, NULL, false};
static struct inquiry ask_confirm = {&questions[3], 1, "kept", false};
static struct inquiry ask_all = {&questions[0], 3, "kept", false};
static struct inquiry ask_what_it_can = {&questions[0], 2, NULL, true};

/* ---- tools that change a list ---------------------------------------------------------------- */

static char said[] = "done";

/* Handlers run on several threads: odd calls add a tool, even calls remove it. */
static void change_tools(void *user, struct tidings_call *call)
{
    static unsigned calls;
    struct tidings_tool extra = {0};
    struct tidings_error err;
    extra.name = tidings_str("test_extra");
    extra.description = tidings_str("Comes and goes");
    if (__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) % 2 == 1) {
        (void)tidings_server_add_tool(server, &extra, say, user, &err);
    } else {
        (void)tidings_server_remove_tool(server, extra.name, &err);
    }
    say(user, call);
}

/* The same for a prompt. */
static void change_prompts(void *user, struct tidings_call *call)
{
    static unsigned calls;
    struct tidings_prompt extra = {0};
    struct tidings_error err;
    extra.name = tidings_str("test_extra_prompt");
    extra.description = tidings_str("Comes and goes");
    if (__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) % 2 == 1) {
        (void)tidings_server_add_prompt(server, &extra, say, user, &err);
    } else {
        (void)tidings_server_remove_prompt(server, extra.name, &err);
    }
    say(user, call);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static const char schema_2020_12[] =
    "{\"$schema\":\"https://json-schema.org/draft/2020-12/schema\",\"type\":\"object\",\"$defs\":{"
    "\"address\":{\"$anchor\":\"addressDef\",\"type\":\"object\",\"properties\":{\"street\":{"
    "\"type\":\"string\"},\"city\":{\"type\":\"string\"}}}},\"properties\":{\"name\":{\"type\":"
    "\"string\"},\"address\":{\"$ref\":\"#/$defs/address\"},\"contactMethod\":{\"type\":\"string\","
    "\"enum\":[\"phone\",\"email\"]},\"phone\":{\"type\":\"string\"},\"email\":{\"type\":"
    "\"string\"}},\"allOf\":[{\"anyOf\":[{\"required\":[\"phone\"]},{\"required\":[\"email\"]}]}],"
    "\"if\":{\"properties\":{\"contactMethod\":{\"const\":\"phone\"}},\"required\":["
    "\"contactMethod\"]},\"then\":{\"required\":[\"phone\"]},\"else\":{\"required\":[\"email\"]},"
    "\"additionalProperties\":false}";

static const char mirrored[] =
    "{\"type\":\"object\",\"properties\":{\"region\":{\"type\":\"string\",\"x-mcp-header\":"
    "\"Region\"}}}";

static const char with_message[] = "{\"type\":\"object\",\"required\":[\"message\"]}";
static const char with_prompt[] = "{\"type\":\"object\",\"required\":[\"prompt\"]}";

static char simple_text[] = "This is a simple text response for testing.";

static const struct tool_row {
    const char *name, *description;
    tidings_call_fn handler;
    void *user;
    const char *schema;
    bool is_blocking;
} tool_rows[] = {
    {"test_simple_text", "Gives text", say, simple_text, NULL, false},
    {"test_image_content", "Gives an image", give_image, NULL, NULL, false},
    {"test_audio_content", "Gives a sound", give_audio, NULL, NULL, false},
    {"test_embedded_resource", "Gives a resource", give_resource, NULL, NULL, false},
    {"test_multiple_content_types", "Gives all of them", give_all, NULL, NULL, false},
    {"test_error_handling", "Fails", fail_always, NULL, NULL, false},
    {"test_tool_with_logging", "Logs thrice", log_thrice, said, NULL, true},
    {"test_tool_with_progress", "Reports progress", progress_thrice, said, NULL, true},
    {"json_schema_2020_12_tool", "Has a schema", say, said, schema_2020_12, false},
    {"test_mirrored_header", "Has a routed argument", say, said, mirrored, false},
    {"test_missing_capability", "Needs sampling", inquire, &ask_model, NULL, false},
    {"test_streaming_elicitation", "Asks the user", inquire, &ask_name, NULL, false},
    {"test_elicitation", "Asks the user", ask_about, &about_user, with_message, false},
    {"test_sampling", "Asks the model", ask_about, &about_model, with_prompt, false},
    {"test_elicitation_sep1034_defaults", "Asks with defaults", inquire, &ask_defaults, NULL,
     false},
    {"test_elicitation_sep1330_enums", "Asks with choices", inquire, &ask_enums, NULL, false},
    {"test_logging_tool", "Logs", log_thrice, said, NULL, true},
    {"test_trigger_tool_change", "Changes the list", change_tools, said, NULL, false},
    {"test_trigger_prompt_change", "Changes a list", change_prompts, said, NULL, false},
    {"test_input_required_result_elicitation", "Asks the user", inquire, &ask_name, NULL, false},
    {"test_input_required_result_sampling", "Asks the model", inquire, &ask_model, NULL, false},
    {"test_input_required_result_list_roots", "Asks for roots", inquire, &ask_roots, NULL, false},
    {"test_input_required_result_request_state", "Keeps a state", inquire, &ask_confirm, NULL,
     false},
    {"test_input_required_result_tampered_state", "Keeps a state", inquire, &ask_confirm, NULL,
     false},
    {"test_input_required_result_multiple_inputs", "Asks thrice", inquire, &ask_all, NULL, false},
    {"test_input_required_result_multi_round", "Asks twice", inquire_twice, NULL, NULL, false},
    {"test_input_required_result_capabilities", "Asks what it can", inquire, &ask_what_it_can, NULL,
     false},
};

static int add_tools(struct tidings_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < sizeof(tool_rows) / sizeof(tool_rows[0]) && rc == 0; i++) {
        const struct tool_row *row = &tool_rows[i];
        struct tidings_tool about = {0};
        about.name = tidings_str(row->name);
        about.description = tidings_str(row->description);
        about.input_schema = tidings_str(row->schema);
        about.is_blocking = row->is_blocking;
        rc = tidings_server_add_tool(server, &about, row->handler, row->user, err);
    }
    return rc;
}

/* ---- prompts --------------------------------------------------------------------------------- */

static void prompt_with_arguments(void *user, struct tidings_call *call)
{
    (void)user;
    struct tidings_error err;
    char text[1024];
    struct tidings_str one = tidings_call_string(call, "arg1");
    struct tidings_str two = tidings_call_string(call, "arg2");
    snprintf(text, sizeof(text), "Prompt with arguments: arg1='%.*s', arg2='%.*s'", (int)one.len,
             one.ptr, (int)two.len, two.ptr);
    tidings_call_done(call, tidings_call_text(call, tidings_str(text), &err), &err);
}

static void prompt_with_resource(void *user, struct tidings_call *call)
{
    struct tidings_error err;
    struct tidings_resource about = described("", "embedded", "text/plain");
    about.uri = tidings_call_string(call, "resourceUri");
    int rc = tidings_call_resource(call, &about,
                                   tidings_str("Embedded resource content for testing."), &err);
    if (rc == 0) {
        rc = tidings_call_text(call, tidings_str(user), &err);
    }
    tidings_call_done(call, rc, &err);
}

static void prompt_with_image(void *user, struct tidings_call *call)
{
    struct tidings_error err;
    struct tidings_str bytes = tidings_strn((const char *)png, sizeof(png));
    int rc = tidings_call_image(call, bytes, "image/png", &err);
    if (rc == 0) {
        rc = tidings_call_text(call, tidings_str(user), &err);
    }
    tidings_call_done(call, rc, &err);
}

/* Completes `arg1` with cities, only those in the country of `arg2` if that is known. */
static void complete_argument(void *user, struct tidings_complete *complete)
{
    (void)user;
    static const char *const cities[][2] = {
        {"France", "paris"}, {"Greece", "parga"}, {"Italy", "parma"}, {"Peru", "paracas"}};
    struct tidings_str typed = tidings_complete_value(complete);
    struct tidings_str country = tidings_complete_argument(complete, "arg2");
    for (size_t i = 0; i < sizeof(cities) / sizeof(cities[0]); i++) {
        struct tidings_str name = tidings_str(cities[i][1]), of = tidings_str(cities[i][0]);
        bool fits =
            country.len == 0 || (country.len == of.len && memcmp(country.ptr, of.ptr, of.len) == 0);
        if (fits && typed.len <= name.len && memcmp(typed.ptr, name.ptr, typed.len) == 0) {
            (void)tidings_complete_add(complete, name);
        }
    }
    tidings_complete_done(complete, 0, NULL);
}

/* Completes the ids of the template: 1 to 150. */
static void complete_id(void *user, struct tidings_complete *complete)
{
    (void)user;
    struct tidings_str typed = tidings_complete_value(complete);
    int more = 1;
    for (int i = 1; i <= 150 && more > 0; i++) {
        char id[16];
        int len = snprintf(id, sizeof(id), "%d", i);
        if (typed.len <= (size_t)len && memcmp(typed.ptr, id, typed.len) == 0) {
            more = tidings_complete_add(complete, tidings_strn(id, (size_t)len));
        }
    }
    tidings_complete_done(complete, more < 0 ? more : 0, NULL);
}

static const struct tidings_argument two_arguments[] = {
    {"arg1", NULL, "First test argument", true},
    {"arg2", NULL, "Second test argument", true},
};
static const struct tidings_argument resource_argument[] = {
    {"resourceUri", NULL, "URI of the resource to embed", true},
};
static char simple_prompt[] = "This is a simple prompt for testing.";
static char process_it[] = "Please process the embedded resource above.";
static char analyze_it[] = "Please analyze the image above.";

static const struct prompt_row {
    const char *name, *description;
    tidings_call_fn handler;
    void *user;
    const struct tidings_argument *arguments;
    size_t argument_count;
} prompt_rows[] = {
    {"test_simple_prompt", "Says one thing", say, simple_prompt, NULL, 0},
    {"test_prompt_with_arguments", "Repeats its arguments", prompt_with_arguments, NULL,
     two_arguments, 2},
    {"test_prompt_with_embedded_resource", "Embeds a resource", prompt_with_resource, process_it,
     resource_argument, 1},
    {"test_prompt_with_image", "Shows an image", prompt_with_image, analyze_it, NULL, 0},
    {"test_input_required_result_prompt", "Asks the user first", inquire, &ask_context, NULL, 0},
};

static int add_prompts(struct tidings_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < sizeof(prompt_rows) / sizeof(prompt_rows[0]) && rc == 0; i++) {
        const struct prompt_row *row = &prompt_rows[i];
        struct tidings_prompt about = {0};
        about.name = tidings_str(row->name);
        about.description = tidings_str(row->description);
        about.arguments = row->arguments;
        about.argument_count = row->argument_count;
        rc = tidings_server_add_prompt(server, &about, row->handler, row->user, err);
    }
    if (rc == 0) {
        rc = tidings_server_complete_prompt(server, tidings_str("test_prompt_with_arguments"),
                                            complete_argument, NULL, err);
    }
    if (rc == 0) {
        rc = tidings_server_complete_template(server, tidings_str("test://template/{id}/data"),
                                              complete_id, NULL, err);
    }
    return rc;
}

int main(int argc, char **argv)
{
    struct tidings_error err = {0, ""};
    server = tidings_server_create(&err);
    int rc = server ? add_rows(&err) : err.code;
    rc = rc == 0 ? add_tools(&err) : rc;
    rc = rc == 0 ? conformance_add_tasks(server, &err) : rc;
    rc = rc == 0 ? conformance_add_skills(server, &err) : rc;
    rc = rc == 0 ? add_prompts(&err) : rc;
    int status = tidings_code_exit(rc);
    if (rc < 0) {
        fprintf(stderr, "conformance: %s\n", err.text);
    } else {
        status = tidings_server_main(server, argc, argv);
    }
    tidings_server_destroy(server);
    return status;
}
