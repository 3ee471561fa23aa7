/* SPDX-License-Identifier: MIT
 *
 * tasks/get, tasks/update and tasks/cancel, of the extension io.modelcontextprotocol/tasks. Whose
 * the task is comes first: one of somebody else is answered like one that is not there.
 */
#include "catalog/job.h"
#include "handler/call.h"
#include "handler/handlers.h"
#include "handler/task.h"
#include "protocol/method.h"

/* A request about a task that another node may work on. */
struct tasks_request {
    struct job job;
    struct task_asking asking;
    struct request *request;
};

static void method_tasks_missing(struct request *request)
{
    request_fail(request, TIDINGS_E_INVALID, STR_EMPTY,
                 "there is no task of that id; its time to live may have passed");
}

static void method_tasks_write(struct request *request, struct task *t)
{
    request_begin(request);
    task_write(t, &request->w, true);
    request_end(request, CACHE_NONE);
}

/* ---- of other nodes -------------------------------------------------------------------------- */

static void method_tasks_on_asked(struct task_asking *asking, int code)
{
    struct tasks_request *r = list_entry(asking, struct tasks_request, asking);
    job_finish(&r->job, code, &asking->err);
}

static void method_tasks_done(struct job *job)
{
    struct tasks_request *r = job->user;
    struct request *request = r->request;
    struct task *found = r->asking.found;
    request_end_job(request);
    if (job->code == TIDINGS_E_NOTFOUND) {
        method_tasks_missing(request);
    } else if (job->code < 0) {
        request_fail_job(request, job, STR_EMPTY, STR_EMPTY);
    } else if (found) {
        method_tasks_write(request, found);
    } else {
        request_empty(request);
    }
    task_unref(found);
}

static bool method_tasks_may_ask(struct request *request)
{
    return tasks_may_ask(request->worker->handlers->tasks,
                         jv_str(jv_get(request->msg.params, "taskId")), request->principal);
}

/* It is none of this node's: what the store says, if nodes share one. */
static void method_tasks_ask(struct request *request, enum task_verb verb, struct json *answers)
{
    if (!method_tasks_may_ask(request)) {
        method_tasks_missing(request);
        return;
    }
    struct tasks_request *r = arena_alloc(&request->arena, sizeof(*r));
    if (!r) {
        request_fail(request, TIDINGS_E_NOMEM, STR_EMPTY, "out of memory");
        return;
    }
    *r = (struct tasks_request){.request = request};
    r->asking = (struct task_asking){
        .verb = verb,
        .id = jv_str(jv_get(request->msg.params, "taskId")),
        .answers = answers,
        .done = method_tasks_on_asked,
    };
    job_init(&r->job, request->worker, method_tasks_done, r, STR_EMPTY);
    request_begin_job(request, &r->job);
    job_begin(&r->job);
    tasks_ask(request->worker->handlers->tasks, &r->asking);
}

/* ---- the methods ----------------------------------------------------------------------------- */

/* Is the request good? false: it is answered. */
static bool method_tasks_check(struct request *request)
{
    if (!call_task_is_possible(request)) {
        call_task_refuse(request, "declare the extension '" DIALECT_TASKS "'");
        return false;
    }
    if (!jv_is(jv_get(request->msg.params, "taskId"), JV_STRING)) {
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY, "params.taskId must be a string");
        return false;
    }
    return true;
}

/* A reference to the task it names, if it is this node's. */
static struct task *method_tasks_find(struct request *request)
{
    return tasks_find(request->worker->handlers->tasks,
                      jv_str(jv_get(request->msg.params, "taskId")), request->principal);
}

void method_tasks_get(struct request *request)
{
    if (!method_tasks_check(request)) {
        return;
    }
    struct task *t = method_tasks_find(request);
    if (t) {
        method_tasks_write(request, t);
        task_unref(t);
    } else {
        method_tasks_ask(request, TASK_GET, NULL);
    }
}

/* An object of objects. */
static bool method_tasks_are_answers(struct json *answers)
{
    struct tidings_str key;
    struct json *value = NULL;
    bool are = jv_is(answers, JV_OBJECT);
    void *at = are ? jv_next(answers, NULL, &key, &value) : NULL;
    for (; at && are; at = jv_next(answers, at, &key, &value)) {
        are = jv_is(value, JV_OBJECT);
    }
    return are;
}

void method_tasks_update(struct request *request)
{
    struct json *answers = jv_get(request->msg.params, "inputResponses");
    struct tidings_error err;
    if (!method_tasks_check(request)) {
        return;
    }
    struct task *t = method_tasks_find(request);
    bool is_possible = t || method_tasks_may_ask(request);
    if (is_possible && !method_tasks_are_answers(answers)) {
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY,
                     "params.inputResponses must be an object of objects");
    } else if (!t) {
        method_tasks_ask(request, TASK_UPDATE, answers);
    } else if (task_answer(t, answers, &err) < 0) {
        request_fail_err(request, &err, STR_EMPTY);
    } else {
        request_empty(request);
    }
    task_unref(t);
}

void method_tasks_cancel(struct request *request)
{
    if (!method_tasks_check(request)) {
        return;
    }
    struct task *t = method_tasks_find(request);
    if (t) {
        task_cancel(t);
        request_empty(request);
        task_unref(t);
    } else {
        method_tasks_ask(request, TASK_CANCEL, NULL);
    }
}
