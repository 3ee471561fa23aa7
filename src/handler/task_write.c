/* SPDX-License-Identifier: MIT
 *
 * A task as JSON: the members that the extension names.
 */
#include "base/clock.h"
#include "handler/task_private.h"

static const char *const task_names[] = {
    [TASK_WORKING] = "working",     [TASK_INPUT_REQUIRED] = "input_required",
    [TASK_COMPLETED] = "completed", [TASK_FAILED] = "failed",
    [TASK_CANCELLED] = "cancelled",
};

const char *task_status_name(enum task_status status)
{
    return task_names[status];
}

int task_status_find(struct tidings_str name)
{
    for (int i = 0; i <= TASK_CANCELLED; i++) {
        if (str_eq(name, tidings_str(task_names[i]))) {
            return i;
        }
    }
    return -1;
}

void task_put_questions(const struct task *t, struct jw *w)
{
    jw_begin_object(w);
    for (unsigned i = 0; i < t->question_count; i++) {
        const struct task_question *q = &t->questions[i];
        if (q->answer.len == 0) {
            jw_put_raw(w, buf_str(&q->key), buf_str(&q->question));
        }
    }
    jw_end_object(w);
}

static void task_write_time(struct jw *w, struct tidings_str key, int64_t wall_ms)
{
    char text[25];
    clock_format_iso(wall_ms, text);
    jw_put_string(w, key, tidings_str(text));
}

void task_write(struct task *t, struct jw *w, bool is_detailed)
{
    tasks_lock(t->all);
    jw_put_string(w, STR("taskId"), task_id(t));
    jw_put_string(w, STR("status"), tidings_str(task_names[t->status]));
    if (t->message.len > 0) {
        jw_put_string(w, STR("statusMessage"), buf_str(&t->message));
    }
    task_write_time(w, STR("createdAt"), t->created_ms);
    task_write_time(w, STR("lastUpdatedAt"), t->updated_ms);
    jw_put_integer(w, STR("ttlMs"), (int64_t)t->ttl_ms);
    jw_put_integer(w, STR("pollIntervalMs"), TASK_POLL_MS);
    if (is_detailed && t->status == TASK_INPUT_REQUIRED) {
        jw_key(w, STR("inputRequests"));
        task_put_questions(t, w);
    } else if (is_detailed && t->status == TASK_COMPLETED) {
        jw_put_raw(w, STR("result"), buf_str(&t->payload));
    } else if (is_detailed && t->status == TASK_FAILED) {
        jw_put_raw(w, STR("error"),
                   t->payload.len > 0 ? buf_str(&t->payload)
                                      : STR("{\"code\":-32603,\"message\":\"out of memory\"}"));
    }
    tasks_unlock(t->all);
}
