/* SPDX-License-Identifier: MIT
 *
 * Tasks as a store that nodes share has them: those of other nodes, to be answered from there, and
 * what other nodes wrote about those of this one.
 */
#include "base/mem.h"
#include "base/str.h"
#include "handler/task_private.h"
#include "json/value.h"

bool tasks_runs(struct tasks *all, struct tidings_str id)
{
    tasks_lock(all);
    const struct task *t = map_find(&all->by_id, id);
    bool runs = t && t->is_published && t->status < TASK_COMPLETED;
    tasks_unlock(all);
    return runs;
}

/* An object of objects, or NULL. */
static struct json *row_parse(struct tidings_str text)
{
    struct json *value = NULL;
    struct tidings_str key;
    struct json *member = NULL;
    bool is_good = text.len > 0 && jv_parse(text, JSON_MAX_DEPTH, &value, NULL) == 0 &&
                   jv_is(value, JV_OBJECT);
    void *at = is_good ? jv_next(value, NULL, &key, &member) : NULL;
    for (; at && is_good; at = jv_next(value, at, &key, &member)) {
        is_good = jv_is(member, JV_OBJECT);
    }
    if (!is_good) {
        jv_unref(value);
    }
    return is_good ? value : NULL;
}

/* ---- those of other nodes -------------------------------------------------------------------- */

/* What is asked and was not answered. When all is, it works: its node is about to go on. */
static int task_fill_questions(struct task *t, const struct task_row *row)
{
    struct json *asked = row_parse(row->questions), *answers = row_parse(row->answers);
    struct tidings_str key;
    struct json *value = NULL;
    int rc = 0;
    void *at = asked ? jv_next(asked, NULL, &key, &value) : NULL;
    for (; at && rc == 0; at = jv_next(asked, at, &key, &value)) {
        if (answers && jv_get_str(answers, key)) {
            continue;
        }
        rc = t->question_count < TASK_MAX_QUESTIONS ? task_add_question(t, key, 0, value)
                                                    : TIDINGS_E_INVALID;
    }
    t->status = t->question_count > 0 ? TASK_INPUT_REQUIRED : TASK_WORKING;
    jv_unref(asked);
    jv_unref(answers);
    return rc;
}

struct task *task_of_row(struct tasks *all, const struct task_row *row)
{
    char id[OWNED_ID_LEN + 1];
    if (row->id.len != OWNED_ID_LEN) {
        return NULL;
    }
    memcpy(id, row->id.ptr, OWNED_ID_LEN);
    id[OWNED_ID_LEN] = '\0';
    struct task *t = task_create(all, id);
    if (!t) {
        return NULL;
    }
    t->created_ms = row->created_ms;
    t->updated_ms = row->updated_ms;
    t->ttl_ms = row->ttl_ms;
    t->status = row->status;
    buf_puts(&t->message, row->message);
    buf_puts(&t->payload, row->payload);
    int rc = row->status == TASK_INPUT_REQUIRED ? task_fill_questions(t, row) : 0;
    if (rc < 0 || t->message.failed || t->payload.failed) {
        task_unref(t);
        return NULL;
    }
    return t;
}

/* ---- answers --------------------------------------------------------------------------------- */

int task_merge_answers(const struct task_row *row, struct json *given, struct buf *ret,
                       struct tidings_error *err)
{
    struct json *asked = row->status == TASK_INPUT_REQUIRED ? row_parse(row->questions) : NULL;
    struct json *before = row_parse(row->answers);
    struct tidings_str key;
    struct json *value = NULL;
    bool is_new = false;
    struct jw w;
    buf_init(ret, TASK_MAX_ANSWERS);
    jw_init(&w, ret);
    jw_begin_object(&w);
    void *at = asked ? jv_next(asked, NULL, &key, &value) : NULL;
    for (; at; at = jv_next(asked, at, &key, &value)) {
        const struct json *old = before ? jv_get_str(before, key) : NULL;
        const struct json *answer = old ? old : jv_get_str(given, key);
        is_new = is_new || (answer && !old);
        if (answer) {
            jw_key(&w, key);
            jw_value(&w, answer);
        }
    }
    jw_end_object(&w);
    jv_unref(asked);
    jv_unref(before);
    if (ret->failed) {
        return tidings_fail(err, ret->failed, "the answers do not fit");
    }
    return is_new ? 1 : 0;
}

/* ---- those of this node ---------------------------------------------------------------------- */

/* Another node has ended it. */
static void task_adopt(struct task *t, const struct task_row *row)
{
    tasks_lock(t->all);
    bool is_shown = t->status >= TASK_COMPLETED, was_ending = t->is_ending;
    if (!is_shown) {
        if (!was_ending) {
            task_begin_end(t);
        }
        task_give_bytes(t, t->payload.len);
        buf_clear(&t->payload);
        task_set_end(t, row->status, row->message, row->payload);
        t->ended_ms = row->updated_ms;
    }
    tasks_unlock(t->all);
    if (!is_shown) {
        task_show_end(t);
    }
    if (!is_shown && !was_ending) {
        task_cancel_call(t);
    }
}

bool tasks_follow(struct tasks *all, const struct task_row *row)
{
    bool is_taken = false;
    tasks_lock(all);
    struct task *t = map_find(&all->by_id, row->id);
    t = t && t->is_published ? task_ref(t) : NULL;
    tasks_unlock(all);
    if (t && row->status >= TASK_COMPLETED) {
        task_adopt(t, row);
    } else if (t && row->answers.len > 0) {
        struct json *answers = row_parse(row->answers);
        /* What does not fit was refused where it was given. */
        is_taken = !answers || task_answer(t, answers, NULL) == 0;
        jv_unref(answers);
    }
    task_unref(t);
    return is_taken;
}
