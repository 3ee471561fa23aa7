/* SPDX-License-Identifier: MIT
 *
 * tasks/get, tasks/update and tasks/cancel, of the extension io.modelcontextprotocol/tasks. Whose
 * the task is comes first: one of somebody else is answered like one that is not there.
 */
#include "handler/call.h"
#include "handler/handlers.h"
#include "handler/task.h"
#include "protocol/method.h"

/* A reference to the task it names. NULL: the request is answered. */
static struct task *method_tasks_find(struct request *request)
{
    if (!call_task_is_possible(request)) {
        call_task_refuse(request, "declare the extension '" DIALECT_TASKS "'");
        return NULL;
    }
    struct json *id = jv_get(request->msg.params, "taskId");
    if (!jv_is(id, JV_STRING)) {
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY, "params.taskId must be a string");
        return NULL;
    }
    struct task *t = tasks_find(request->worker->handlers->tasks, jv_str(id), request->principal);
    if (!t) {
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY,
                     "there is no task of that id; its time to live may have passed");
    }
    return t;
}

void method_tasks_get(struct request *request)
{
    struct task *t = method_tasks_find(request);
    if (t) {
        request_begin(request);
        task_write(t, &request->w, true);
        request_end(request, CACHE_NONE);
        task_unref(t);
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
    struct task *t = method_tasks_find(request);
    if (!t) {
        return; /* and the request is gone */
    }
    if (!method_tasks_are_answers(answers)) {
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY,
                     "params.inputResponses must be an object of objects");
    } else if (task_answer(t, answers, &err) < 0) {
        request_fail_err(request, &err, STR_EMPTY);
    } else {
        request_empty(request);
    }
    task_unref(t);
}

void method_tasks_cancel(struct request *request)
{
    struct task *t = method_tasks_find(request);
    if (t) {
        task_cancel(t);
        request_empty(request);
        task_unref(t);
    }
}
