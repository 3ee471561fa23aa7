/* SPDX-License-Identifier: MIT
 *
 * Tools: functions of a program that a model can call.
 *
 *     tools --http 127.0.0.1:7777
 *
 * add        answers at once, with data that conforms to a schema
 * countdown  answers later from another thread, reports progress, stops if cancelled
 * greet      asks the client for a name first (revision 2026-07-28)
 * learn      adds a tool while the server runs; forget removes it
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tidings/tidings.h>

static struct tidings_server *server;

/* ---- at once --------------------------------------------------------------------------------- */

static void add(void *user, struct tidings_call *call)
{
    (void)user;
    char json[64];
    struct tidings_error err;
    double sum = tidings_call_number(call, "a", 0) + tidings_call_number(call, "b", 0);
    snprintf(json, sizeof(json), "{\"sum\":%.17g}", sum);
    tidings_call_done(call, tidings_call_structured(call, tidings_str(json), &err), &err);
}

/* ---- later, from another thread -------------------------------------------------------------- */

static void pause_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static void *count_down(void *arg)
{
    struct tidings_call *call = arg;
    struct tidings_error err;
    int64_t from = tidings_call_integer(call, "from", 3);
    long step = (long)tidings_call_integer(call, "step_ms", 100);
    for (int64_t i = 0; i < from && !tidings_call_cancelled(call); i++) {
        tidings_call_progress(call, (double)i, (double)from, tidings_str("counting"));
        for (long waited = 0; waited < step && !tidings_call_cancelled(call); waited += 10) {
            pause_ms(10);
        }
    }
    if (tidings_call_cancelled(call)) {
        fprintf(stderr, "tools: countdown cancelled\n");
    }
    tidings_call_log(call, TIDINGS_LOG_NOTICE, "countdown", tidings_str("lift-off"));
    tidings_call_done(call, tidings_call_text(call, tidings_str("0"), &err), &err);
    return NULL;
}

static void countdown(void *user, struct tidings_call *call)
{
    (void)user;
    pthread_t thread;
    if (pthread_create(&thread, NULL, count_down, call) == 0) {
        pthread_detach(thread);
        return;
    }
    struct tidings_error err;
    tidings_fail(&err, TIDINGS_E_BUSY, "no thread to count on");
    tidings_call_done(call, TIDINGS_E_BUSY, &err);
}

/* ---- asking the client ----------------------------------------------------------------------- */

/* An answer: {"action":"accept","content":{"name":"…"}}. */
static void greet(void *user, struct tidings_call *call)
{
    (void)user;
    struct tidings_error err;
    struct tidings_str answer = tidings_call_answer(call, "name");
    int rc;
    if (answer.len == 0) {
        rc = tidings_call_ask(call, "name", "elicitation/create",
                              tidings_str("{\"message\":\"What is your name?\",\"requestedSchema\":"
                                          "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":"
                                          "\"string\"}},\"required\":[\"name\"]}}"),
                              &err);
        rc = rc < 0 ? rc : tidings_call_keep(call, tidings_str("asked"), &err);
    } else {
        rc = tidings_call_text(call, tidings_str("Hello! You said:"), &err);
        rc = rc < 0 ? rc : tidings_call_text(call, answer, &err);
    }
    tidings_call_done(call, rc, &err);
}

/* ---- tools that are added and removed -------------------------------------------------------- */

static void repeat(void *user, struct tidings_call *call)
{
    (void)user;
    struct tidings_error err;
    tidings_call_done(call, tidings_call_text(call, tidings_call_name(call), &err), &err);
}

static void learn(void *user, struct tidings_call *call)
{
    (void)user;
    struct tidings_error err;
    struct tidings_tool about = {0};
    about.name = tidings_call_string(call, "name");
    about.description = tidings_str("Says its own name");
    int rc = tidings_server_add_tool(server, &about, repeat, NULL, &err);
    tidings_call_done(call, rc, &err);
}

static void forget(void *user, struct tidings_call *call)
{
    (void)user;
    struct tidings_error err;
    int rc = tidings_server_remove_tool(server, tidings_call_string(call, "name"), &err);
    tidings_call_done(call, rc, &err);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static const struct tidings_schema_field addends[] = {
    {.name = "a", .type = TIDINGS_SCHEMA_NUMBER, .is_required = true},
    {.name = "b", .type = TIDINGS_SCHEMA_NUMBER, .is_required = true},
    {.name = NULL},
};
static const struct tidings_schema_field sum[] = {
    {.name = "sum", .type = TIDINGS_SCHEMA_NUMBER, .is_required = true},
    {.name = NULL},
};
static const struct tidings_schema_field start[] = {
    {.name = "from", .type = TIDINGS_SCHEMA_INTEGER, .rules = "{\"minimum\":0}"},
    {.name = "step_ms",
     .type = TIDINGS_SCHEMA_INTEGER,
     .description = "pause between two numbers",
     .rules = "{\"minimum\":0}"},
    {.name = NULL},
};
static const struct tidings_schema_field name[] = {
    {.name = "name", .description = "of the tool", .is_required = true},
    {.name = NULL},
};

static const struct {
    const char *name, *description;
    const struct tidings_schema_field *input, *output;
    tidings_call_fn handler;
} tools[] = {
    {"add", "Adds two numbers", addends, sum, add},
    {"countdown", "Counts down", start, NULL, countdown},
    {"greet", "Greets the user by name", NULL, NULL, greet},
    {"learn", "Learns a tool", name, NULL, learn},
    {"forget", "Forgets a tool", name, NULL, forget},
};

/* NULL stays NULL. */
static char *schema_of(const struct tidings_schema_field *fields, struct tidings_error *err)
{
    size_t count = 0;
    while (fields && fields[count].name) {
        count++;
    }
    return fields ? tidings_schema_object(fields, count, err) : NULL;
}

static int add_tools(struct tidings_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]) && rc == 0; i++) {
        char *input = schema_of(tools[i].input, err), *output = schema_of(tools[i].output, err);
        struct tidings_tool about = {0};
        about.name = tidings_str(tools[i].name);
        about.description = tidings_str(tools[i].description);
        about.input_schema = tidings_str(input);
        about.output_schema = tidings_str(output);
        about.annotations = tidings_str("{\"openWorldHint\":false}");
        rc = tidings_server_add_tool(server, &about, tools[i].handler, NULL, err);
        tidings_free(input);
        tidings_free(output);
    }
    return rc;
}

int main(int argc, char **argv)
{
    struct tidings_error err = {0, ""};
    server = tidings_server_create(&err);
    int rc = server ? add_tools(&err) : err.code;
    int status = tidings_code_exit(rc);
    if (rc < 0) {
        fprintf(stderr, "tools: %s\n", err.text);
    } else {
        status = tidings_server_main(server, argc, argv);
    }
    tidings_server_destroy(server);
    return status;
}
