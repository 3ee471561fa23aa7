/* SPDX-License-Identifier: MIT
 *
 * What the handler of a task asks its client, the answers, and cancelling: what comes from any
 * worker is sent to the one where the call is.
 */
#include <stdio.h>

#include "base/mailbox.h"
#include "base/mem.h"
#include "handler/task_private.h"

#define QUESTION_MAX (2u << 20)
#define ROUND_TEXT 16u

/* ---- to the home ----------------------------------------------------------------------------- */

struct task_letter {
    struct letter letter;
    struct task *t; /* a reference */
    bool is_cancel;
    struct buf answers;
};

static void task_letter_free(struct letter *letter)
{
    struct task_letter *l = list_entry(letter, struct task_letter, letter);
    buf_deinit(&l->answers);
    task_unref(l->t);
    mem_free(l);
}

static void task_letter_deliver(struct letter *letter, void *owner)
{
    (void)owner;
    struct task_letter *l = list_entry(letter, struct task_letter, letter);
    struct tidings_call *call = l->t->call;
    if (call && l->is_cancel) {
        l->t->ops->cancelled(call);
    } else if (call) {
        l->t->ops->answered(call, &l->answers);
    }
    task_letter_free(letter);
}

static struct task_letter *task_letter_create(struct task *t, bool is_cancel, size_t max)
{
    struct task_letter *l = mem_zalloc(sizeof(*l));
    if (l) {
        l->letter.deliver = task_letter_deliver;
        l->letter.drop = task_letter_free;
        l->t = task_ref(t);
        l->is_cancel = is_cancel;
        buf_init(&l->answers, max);
    }
    return l;
}

void task_cancel_call(struct task *t)
{
    struct task_letter *l = t->home ? task_letter_create(t, true, 1) : NULL;
    if (l) {
        mailbox_send(t->home, &l->letter);
    }
}

void task_cancel(struct task *t)
{
    /* Without memory for the letter its handler runs on, for nobody. */
    struct task_letter *l = t->home ? task_letter_create(t, true, 1) : NULL;
    bool has_ended = task_end(t, TASK_CANCELLED, STR("cancelled by the client"), STR_EMPTY);
    if (l && has_ended) {
        mailbox_send(t->home, &l->letter);
    } else if (l) {
        task_letter_free(&l->letter);
    }
}

/* ---- questions ------------------------------------------------------------------------------- */

void task_clear_questions(struct task *t)
{
    for (unsigned i = 0; i < t->question_count; i++) {
        struct task_question *q = &t->questions[i];
        buf_deinit(&q->key);
        buf_deinit(&q->question);
        buf_deinit(&q->answer);
    }
    t->question_count = t->open_count = 0;
}

int task_add_question(struct task *t, struct tidings_str key, size_t name_at,
                      const struct json *value)
{
    struct task_question *q = &t->questions[t->question_count];
    struct jw w;
    buf_init(&q->key, key.len);
    buf_init(&q->question, QUESTION_MAX);
    buf_init(&q->answer, TASK_MAX_ANSWERS);
    buf_puts(&q->key, key);
    q->name_at = name_at;
    jw_init(&w, &q->question);
    jw_value(&w, value);
    t->question_count++;
    t->open_count++;
    return q->key.failed ? q->key.failed : q->question.failed;
}

static int task_add_named(struct task *t, unsigned round, struct tidings_str name,
                          const struct json *value)
{
    struct buf key;
    buf_init(&key, name.len + ROUND_TEXT);
    buf_putf(&key, "%u.", round);
    size_t name_at = key.len;
    buf_puts(&key, name);
    int rc = key.failed ? key.failed : task_add_question(t, buf_str(&key), name_at, value);
    buf_deinit(&key);
    return rc;
}

int task_ask(struct task *t, unsigned round, struct json *questions, struct tidings_error *err)
{
    struct tidings_str name;
    struct json *value = NULL;
    int rc = 0;
    tasks_lock(t->all);
    if (t->is_ending) {
        tasks_unlock(t->all);
        return tidings_fail(err, TIDINGS_E_CANCELLED, "the task has ended");
    }
    task_clear_questions(t);
    for (void *at = jv_next(questions, NULL, &name, &value); at && rc == 0;
         at = jv_next(questions, at, &name, &value)) {
        rc = t->question_count < TASK_MAX_QUESTIONS ? task_add_named(t, round, name, value)
                                                    : TIDINGS_E_LIMIT;
    }
    if (rc == 0) {
        task_set_status(t, TASK_INPUT_REQUIRED);
    }
    tasks_unlock(t->all);
    if (rc < 0) {
        return tidings_fail(err, rc, "the questions do not fit");
    }
    task_tell(t);
    return 0;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* With the lock. The text of each answer that is waited for; how many bytes all of them have. */
static int task_take_answers(struct task *t, struct json *answers, size_t *ret_bytes)
{
    int rc = 0;
    *ret_bytes = 2;
    for (unsigned i = 0; i < t->question_count && rc == 0; i++) {
        struct task_question *q = &t->questions[i];
        const struct json *value =
            q->answer.len == 0 ? jv_get_str(answers, buf_str(&q->key)) : NULL;
        if (value) {
            struct jw w;
            jw_init(&w, &q->answer);
            jw_value(&w, value);
            rc = *ret_bytes + q->answer.len > TASK_MAX_ANSWERS ? TIDINGS_E_LIMIT : q->answer.failed;
            if (rc < 0) { /* as if it had not come */
                buf_deinit(&q->answer);
                buf_init(&q->answer, TASK_MAX_ANSWERS);
            } else {
                t->open_count--;
            }
        }
        *ret_bytes += q->answer.len + 8;
    }
    return rc;
}

/* With the lock: the object that the handler gets, under its own names. */
static void task_put_answers(const struct task *t, struct buf *out)
{
    struct jw w;
    jw_init(&w, out);
    jw_begin_object(&w);
    for (unsigned i = 0; i < t->question_count; i++) {
        const struct task_question *q = &t->questions[i];
        jw_put_raw(&w, str_skip(buf_str(&q->key), q->name_at), buf_str(&q->answer));
    }
    jw_end_object(&w);
}

int task_answer(struct task *t, struct json *answers, struct tidings_error *err)
{
    struct task_letter *l = t->home ? task_letter_create(t, false, 1) : NULL;
    size_t bytes = 0;
    bool is_new = false;
    if (!l) {
        return t->home ? tidings_fail(err, TIDINGS_E_NOMEM, "out of memory") : 0;
    }
    tasks_lock(t->all);
    bool is_waiting = !t->is_ending && t->status == TASK_INPUT_REQUIRED && t->open_count > 0;
    unsigned before = t->open_count;
    int rc = is_waiting ? task_take_answers(t, answers, &bytes) : 0;
    if (is_waiting && rc == 0 && t->open_count == 0) {
        buf_init(&l->answers, bytes + TASK_MAX_ANSWERS); /* names, quoted */
        task_put_answers(t, &l->answers);
        task_clear_questions(t);
        task_set_status(t, TASK_WORKING);
        mailbox_send(t->home, &l->letter);
        l = NULL;
    }
    is_new = is_waiting && before != t->open_count;
    tasks_unlock(t->all);
    if (l) {
        task_letter_free(&l->letter);
    }
    if (is_new) {
        task_tell(t);
    }
    return rc < 0 ? tidings_fail(err, rc, "the answers do not fit") : 0;
}
