/* SPDX-License-Identifier: MIT
 *
 * The tools that the official MCP conformance suite uses to test tasks. Slow work runs on a
 * separate thread, which regularly checks whether the call was cancelled.
 */
#include "conformance.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ASK_CONFIRM                                                                                \
    "{\"message\":\"Delete it?\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{"        \
    "\"confirm\":{\"type\":\"boolean\"}},\"required\":[\"confirm\"]}}"
#define ASK_NAME                                                                                   \
    "{\"message\":\"What is your name?\",\"requestedSchema\":{\"type\":\"object\",\"properties\":" \
    "{\"name\":{\"type\":\"string\"}},\"required\":[\"name\"]}}"

static void greet(void *user, struct tidings_call *call)
{
    (void)user;
    char text[256];
    struct tidings_error err;
    struct tidings_str name = tidings_call_string(call, "name");
    snprintf(text, sizeof(text), "Hello, %.*s!", (int)(name.len < 200 ? name.len : 200), name.ptr);
    tidings_call_done(call, tidings_call_text(call, tidings_str(text), &err), &err);
}

/* ---- slow tools ------------------------------------------------------------------------------ */

struct nap {
    struct tidings_call *call;
    double seconds;
    bool fails;
};

static void nap_end(const struct nap *nap)
{
    struct tidings_error err;
    int rc = nap->fails ? tidings_fail(&err, TIDINGS_E_INTERNAL, "the job failed, as it should")
                        : tidings_call_text(nap->call, tidings_str("computed"), &err);
    tidings_call_done(nap->call, rc, &err);
}

static void *nap_run(void *user)
{
    struct nap *nap = user;
    const struct timespec step = {0, 20 * 1000 * 1000};
    for (double left = nap->seconds; left > 0 && !tidings_call_cancelled(nap->call); left -= 0.02) {
        nanosleep(&step, NULL);
    }
    nap_end(nap);
    free(nap);
    return NULL;
}

static void nap_start(struct tidings_call *call, double seconds, bool fails)
{
    struct tidings_error err;
    pthread_t thread;
    struct nap *nap = malloc(sizeof(*nap));
    if (nap) {
        *nap = (struct nap){call, seconds, fails};
    }
    if (!nap || pthread_create(&thread, NULL, nap_run, nap) != 0) {
        free(nap);
        tidings_fail(&err, TIDINGS_E_NOMEM, "there is no thread for it");
        tidings_call_done(call, TIDINGS_E_NOMEM, &err);
        return;
    }
    pthread_detach(thread);
}

static void compute(void *user, struct tidings_call *call)
{
    (void)user;
    nap_start(call, tidings_call_number(call, "seconds", 0), false);
}

static void fail_later(void *user, struct tidings_call *call)
{
    (void)user;
    nap_start(call, 1, true);
}

static void refuse(void *user, struct tidings_call *call)
{
    (void)user;
    struct tidings_error err;
    tidings_fail(&err, TIDINGS_E_INTERNAL, "This tool intentionally ends with a protocol error");
    tidings_call_refuse(call, TIDINGS_E_INTERNAL, &err);
}

/* ---- tools that ask questions ---------------------------------------------------------------- */

static void confirm(void *user, struct tidings_call *call)
{
    (void)user;
    struct tidings_error err;
    struct tidings_str answer = tidings_call_answer(call, "confirm");
    int rc = answer.len > 0 ? tidings_call_text(call, answer, &err)
                            : tidings_call_ask(call, "confirm", "elicitation/create",
                                               tidings_str(ASK_CONFIRM), &err);
    tidings_call_done(call, rc, &err);
}

static void confirm_twice(void *user, struct tidings_call *call)
{
    (void)user;
    struct tidings_error err;
    int rc;
    if (tidings_call_answer(call, "name").len > 0) {
        rc = tidings_call_text(call, tidings_call_answer(call, "name"), &err);
    } else {
        rc = tidings_call_ask(call, "name", "elicitation/create", tidings_str(ASK_NAME), &err);
        rc = rc < 0 ? rc
                    : tidings_call_ask(call, "confirm", "elicitation/create",
                                       tidings_str(ASK_CONFIRM), &err);
    }
    tidings_call_done(call, rc, &err);
}

/* Asks a question during the call; the work after the answer is a task. */
static void ask_first(void *user, struct tidings_call *call)
{
    (void)user;
    struct tidings_error err;
    struct tidings_str answer = tidings_call_answer(call, "user_name");
    int rc;
    if (answer.len == 0) {
        rc = tidings_call_ask(call, "user_name", "elicitation/create", tidings_str(ASK_NAME), &err);
    } else {
        rc = tidings_call_begin_task(call, &err);
        rc = rc < 0 ? rc : tidings_call_text(call, answer, &err);
    }
    tidings_call_done(call, rc, &err);
}

/* ---- all of them ----------------------------------------------------------------------------- */

int conformance_add_tasks(struct tidings_server *server, struct tidings_error *err)
{
    static const struct {
        const char *name, *description;
        tidings_call_fn handler;
        enum tidings_task_support task;
        bool begins_task;
    } rows[] = {
        {"greet", "Says hello", greet, TIDINGS_TASK_NEVER, false},
        {"slow_compute", "Takes `seconds`", compute, TIDINGS_TASK_OPTIONAL, false},
        {"failing_job", "Fails after a second", fail_later, TIDINGS_TASK_REQUIRED, false},
        {"protocol_error_job", "Ends with an error", refuse, TIDINGS_TASK_OPTIONAL, false},
        {"confirm_delete", "Asks once", confirm, TIDINGS_TASK_OPTIONAL, false},
        {"multi_input", "Asks two things", confirm_twice, TIDINGS_TASK_OPTIONAL, false},
        {"test_tool_with_task", "Asks first", ask_first, TIDINGS_TASK_REQUIRED, true},
    };
    int rc = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && rc == 0; i++) {
        struct tidings_tool about = {0};
        about.name = tidings_str(rows[i].name);
        about.description = tidings_str(rows[i].description);
        about.task = rows[i].task;
        about.begins_task = rows[i].begins_task;
        rc = tidings_server_add_tool(server, &about, rows[i].handler, NULL, err);
    }
    return rc;
}
