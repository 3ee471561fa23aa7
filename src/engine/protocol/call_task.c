/* SPDX-License-Identifier: MIT
 *
 * Calls that are tasks: their request is answered with a handle once the task is kept, and the
 * handler's results and questions go into the task.
 *
 *     begun as one ── opening ── handle ── handler ──────────────┐
 *     handler ── tidings_call_begin_task ── opening ── handle ───┤
 *                                                                ├── asks: again with the answers
 *                                                                └── done: the task has ended
 *
 * The call lives on its worker until its handler is done, even if the task has ended before
 * (cancelled, too late): the task ends once, and later output is discarded.
 */
#include "base/error.h"
#include "base/mem.h"
#include "engine/protocol/call.h"
#include "engine/protocol/feature.h"
#include "engine/protocol/request.h"
#include "engine/protocol/tasks.h"
#include "security/client_account.h"
#include "security/limits.h"

#define VALUE_BYTES 16u   /* of JSON, in memory */
#define OPENING_MS 10000u /* for the store to keep it, unless other calls have less time */

bool call_task_is_possible(const struct request *request)
{
    return request->meta && dialect_declares_tasks(request->meta);
}

void call_task_refuse(struct request *request, const char *text)
{
    struct buf required;
    buf_init(&required, 256);
    dialect_put_tasks_required(&required);
    request_fail_capability(request, text, buf_str(&required));
    buf_deinit(&required);
}

bool tidings_call_is_task(const struct tidings_call *h)
{
    return h->task != NULL;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void call_task_put_error(struct jw *w, int rpc_code, struct tidings_str text)
{
    jw_begin_object(w);
    jw_put_integer(w, STR("code"), rpc_code);
    jw_put_string(w, STR("message"), text);
}

/* Writes the outcome. Returns the status; `w` receives the result or the error. */
static enum task_status call_task_put(struct tidings_call *h, struct jw *w)
{
    char sentence[REFUSAL_SENTENCE];
    struct tidings_str text = tidings_str(h->base.err.text);
    if (h->outcome == CALL_RESULT) {
        jw_begin_object(w);
        h->kind->write(h, w);
    } else if (h->outcome == CALL_FAILED && h->ask.missing > 0 &&
               h->base.code == TIDINGS_E_UNSUPPORTED) {
        struct buf required;
        buf_init(&required, 1024);
        dialect_put_required(&required, h->ask.missing);
        call_task_put_error(w, RPC_MISSING_CAPABILITY, text);
        jw_key(w, STR("data"));
        jw_begin_object(w);
        jw_put_raw(w, STR("requiredCapabilities"), buf_str(&required));
        jw_end_object(w);
        buf_deinit(&required);
        jw_end_object(w);
        return TASK_FAILED;
    } else if (h->outcome == CALL_FAILED) {
        jw_begin_object(w);
        h->kind->write_failure(w, text);
    } else {
        text =
            h->outcome == CALL_LIMITED ? tidings_str(refusal_sentence(&h->limit, sentence)) : text;
        call_task_put_error(w, dialect_task_code(h->base.code), text);
        jw_end_object(w);
        return TASK_FAILED;
    }
    jw_end_object(w);
    return TASK_COMPLETED;
}

static void call_task_end(struct tidings_call *h)
{
    struct buf payload;
    struct jw w;
    buf_init(&payload, h->content.max + h->structured.max * 7 + 4096);
    jw_init(&w, &payload);
    enum task_status status = call_task_put(h, &w);
    bool has_failed = status == TASK_FAILED || payload.failed;
    (void)task_end(h->task, payload.failed ? TASK_FAILED : status,
                   has_failed ? tidings_str(h->base.err.text) : STR_EMPTY,
                   payload.failed ? STR_EMPTY : buf_str(&payload));
    buf_deinit(&payload);
    call_free(h);
}

void call_task_deinit(struct tidings_call *h)
{
    if (h->task) {
        task_discard(h->task); /* has no effect on an ended task */
        task_detach(h->task);
        h->task = NULL;
    }
}

/* ---- deadlines ------------------------------------------------------------------------------- */

uint64_t call_task_deadline(const struct tidings_call *h)
{
    uint64_t last = task_deadline_ms(h->task), own = h->feature->timeout_ms;
    uint64_t due = loop_now_ms(h->base.worker->loop) + own;
    return own > 0 && h->task_state != CALL_TASK_ASKING && due < last ? due : last;
}

/* Its handler may be finishing on another thread, so this does not touch the memory that the
 * handler writes. */
void call_task_expire(struct tidings_call *h)
{
    struct worker *worker = h->base.worker;
    bool is_over = loop_now_ms(worker->loop) >= task_deadline_ms(h->task);
    uint64_t allowed = is_over ? task_ttl_ms(h->task) : h->feature->timeout_ms;
    struct tidings_error err;
    int code = tidings_fail(&err, TIDINGS_E_TIMEOUT,
                            "the task of '%.*s' did not finish within %llu ms (%s)",
                            STR_ARG(h->feature->name), (unsigned long long)allowed,
                            is_over ? "its time to live" : "the tool's own limit");
    limit_hit(worker->limit_counters, is_over ? LIMIT_TASK_TIME : LIMIT_CALL_TIME);
    h->is_late = true;
    call_observe_end(h);
    struct buf payload;
    struct jw w;
    buf_init(&payload, 4096);
    jw_init(&w, &payload);
    if (is_over) {
        call_task_put_error(&w, dialect_task_code(code), tidings_str(err.text));
    } else {
        jw_begin_object(&w);
        h->kind->write_failure(&w, tidings_str(err.text));
    }
    jw_end_object(&w);
    (void)task_end(h->task, is_over ? TASK_FAILED : TASK_COMPLETED, tidings_str(err.text),
                   buf_str(&payload));
    buf_deinit(&payload);
    h->deadline_ms = 0;
    if (h->task_state == CALL_TASK_ASKING) {
        call_free(h);
    } else {
        call_cancel(h);
    }
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* The server stops. */
static void call_task_on_stop(struct job *r)
{
    call_free(r->user);
}

static int call_task_ask(struct tidings_call *h, struct tidings_error *err)
{
    struct json *questions = NULL;
    struct buf text;
    if (++h->ask.rounds > CALL_MAX_ROUNDS) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "the client was asked %u times in one call",
                            CALL_MAX_ROUNDS);
    }
    buf_init(&text, h->ask.requests.len + 2);
    buf_putc(&text, '{');
    buf_puts(&text, buf_str(&h->ask.requests));
    buf_putc(&text, '}');
    int rc = text.failed ? tidings_fail(err, text.failed, "out of memory")
                         : jv_parse(buf_str(&text), JSON_MAX_DEPTH, &questions, err);
    buf_deinit(&text);
    if (rc == 0) {
        struct worker *worker = h->base.worker;
        h->task_state = CALL_TASK_ASKING;
        job_init(&h->base, worker, NULL, h, STR_EMPTY);
        h->base.on_cancel = call_task_on_stop;
        call_set_deadline(h, call_task_deadline(h));
        rc = task_ask(h->task, h->ask.rounds, questions, err);
    }
    jv_unref(questions);
    return rc;
}

static void call_task_fail(struct tidings_call *h, const struct tidings_error *err)
{
    h->outcome = CALL_FAILED;
    h->base.code = err->code;
    h->base.err = *err;
    h->ask.missing = 0;
    call_task_end(h);
}

static void call_task_answered(struct tidings_call *h, struct buf *answers)
{
    struct tidings_error err;
    struct json *gathered = NULL;
    if (h->task_state != CALL_TASK_ASKING) {
        return;
    }
    int rc = answers->failed ? tidings_fail(&err, answers->failed, "out of memory")
                             : jv_parse(buf_str(answers), JSON_MAX_DEPTH, &gathered, &err);
    if (rc < 0) {
        call_task_fail(h, &err);
        return;
    }
    h->task_state = CALL_TASK_RUNNING;
    call_go_on(h, gathered);
}

static void call_task_cancelled(struct tidings_call *h)
{
    if (h->task_state == CALL_TASK_ASKING) {
        call_free(h);
    } else {
        h->deadline_ms = 0;
        call_cancel(h);
    }
}

static const struct task_ops call_task_ops = {
    .answered = call_task_answered,
    .cancelled = call_task_cancelled,
};

void call_task_done(struct tidings_call *h)
{
    struct tidings_error err;
    if (h->task_state == CALL_TASK_OPENING) {
        h->is_done = true;
    } else if (tidings_call_cancelled(h)) {
        call_free(h); /* the task has ended, or the server stops */
    } else if (h->outcome != CALL_RESULT || !call_has_asked(h)) {
        call_task_end(h);
    } else if (!h->ask.has_requests) {
        call_go_on(h, NULL); /* it only saved a state */
    } else if (call_task_ask(h, &err) < 0) {
        call_task_fail(h, &err);
    }
}

/* ---- begin ----------------------------------------------------------------------------------- */

/* A job, so that the worker waits for it. */
struct call_opening {
    struct job job;
    struct thread_message thread_message; /* on the way to the worker */
    struct tidings_call *h;
};

static void call_task_answer(struct tidings_call *h, struct request *request, int code)
{
    if (request->cancelled) {
        request_drop(request);
    } else if (code == TIDINGS_E_LIMIT) {
        limit_hit(request->worker->limit_counters, task_refusal(h->task)->limit);
        request_fail_limit(request, task_refusal(h->task), STR_EMPTY);
    } else if (code < 0) {
        request_fail(request, code, STR_EMPTY, "the task cannot be kept: %s; try again later",
                     tidings_code_text(code));
    } else {
        request_begin(request);
        task_write(h->task, &request->w, false);
        request_end(request, CACHE_TASK);
    }
}

/* The task is kept, or cannot be. */
static void call_task_on_opened(struct job *job)
{
    struct call_opening *o = job->user;
    struct tidings_call *h = o->h;
    struct request *request = h->request;
    bool is_lost = job->code < 0 || !request || request->cancelled;
    int code = job->code;
    mem_free(o);
    h->request = NULL;
    if (is_lost && code < 0 && code != TIDINGS_E_UNKNOWN) {
        task_discard(h->task);
    } else if (is_lost) {
        task_retract(h->task); /* no client knows it, and it may be kept */
    }
    h->deadline_ms = is_lost ? 0 : h->deadline_ms;
    if (request) {
        request->job = NULL;
        call_task_answer(h, request, code);
    }
    h->task_state = CALL_TASK_RUNNING;
    share_give(h->base.worker->limit_counters, LIMIT_CALLS, 1, h->account);
    bool has_begun = !h->starts_later, is_done = h->is_done;
    if (!is_lost && has_begun) {
        call_set_deadline(h, call_task_deadline(h));
    } else if (is_lost && has_begun && !is_done) {
        call_cancel(h);
    }
    if (!has_begun && is_lost) {
        call_free(h);
    } else if (!has_begun) {
        call_start(h);
    } else if (is_done && is_lost) {
        call_free(h);
    } else if (is_done) {
        call_task_done(h);
    }
}

/* The store does not answer in time. The client gets an error, and the task is removed when the
 * store answers. */
void call_task_give_up(struct tidings_call *h)
{
    struct request *request = h->request;
    h->request = NULL;
    h->deadline_ms = 0;
    if (request->cancelled) {
        request_drop(request);
    } else {
        request_fail(request, TIDINGS_E_BUSY, STR_EMPTY,
                     "the task cannot be kept: the store does not answer; try again later");
    }
}

static uint64_t call_task_opening_ms(const struct tidings_call *h)
{
    uint64_t of_calls = h->base.worker->limits->call_timeout_ms;
    return of_calls > 0 && of_calls < OPENING_MS ? of_calls : OPENING_MS;
}

static void call_task_on_stored(void *user, int code)
{
    struct call_opening *o = user;
    job_finish(&o->job, code, NULL);
}

/* On the worker: the task exists; keeps it. */
static void call_task_open(struct call_opening *o)
{
    struct tidings_call *h = o->h;
    h->task_state = CALL_TASK_OPENING;
    job_init(&o->job, h->base.worker, call_task_on_opened, o, STR_EMPTY);
    job_begin(&o->job);
    task_publish(h->task, call_task_on_stored, o);
}

static void call_task_deliver(struct thread_message *thread_message, void *owner)
{
    (void)owner;
    call_task_open(list_entry(thread_message, struct call_opening, thread_message));
}

static void call_task_drop(struct thread_message *thread_message)
{
    mem_free(list_entry(thread_message, struct call_opening, thread_message));
}

/* The approximate memory of a value. */
static size_t call_task_weigh(struct json *v)
{
    size_t bytes = VALUE_BYTES + jv_str(v).len + jv_written(v).len;
    struct tidings_str key;
    struct json *value = NULL;
    for (size_t i = 0; jv_is(v, JV_ARRAY) && i < jv_count(v); i++) {
        bytes += call_task_weigh(jv_at(v, i));
    }
    void *at = jv_is(v, JV_OBJECT) ? jv_next(v, NULL, &key, &value) : NULL;
    for (; at; at = jv_next(v, at, &key, &value)) {
        bytes += VALUE_BYTES + key.len + call_task_weigh(value);
    }
    return bytes;
}

/* Any thread. */
static int call_task_create(struct tidings_call *h, struct refusal *why)
{
    const struct worker_limits *limits = h->base.worker->limits;
    uint64_t own = h->feature->task_ttl_ms;
    const struct task_spec spec = {
        .principal = h->principal,
        .client = client_account_name(h->account),
        .account = h->account,
        .max = limits->max_tasks,
        .max_client = limits->max_client_tasks,
        .ttl_ms = own > 0 ? own : limits->task_ttl_ms,
        .bytes = call_task_weigh(h->root),
        .home = h->base.worker->mailbox,
        .call = h,
    };
    return tasks_open(h->base.worker->handlers->tasks, &spec, &call_task_ops, &h->task, why);
}

static struct call_opening *call_opening_create(struct tidings_call *h)
{
    struct call_opening *o = mem_zalloc(sizeof(*o));
    if (o) {
        o->thread_message.deliver = call_task_deliver;
        o->thread_message.drop = call_task_drop;
        o->h = h;
    }
    return o;
}

bool call_task_begin(struct tidings_call *h)
{
    struct refusal why;
    struct request *request = h->request;
    struct call_opening *o = call_opening_create(h);
    int rc = o ? call_task_create(h, &why) : TIDINGS_E_NOMEM;
    if (rc < 0) {
        mem_free(o);
        h->request = NULL;
        if (rc == TIDINGS_E_LIMIT) {
            request_fail_limit(request, &why, STR_EMPTY);
        } else {
            request_fail(request, rc, STR_EMPTY, "a task cannot be begun: %s",
                         tidings_code_text(rc));
        }
        return false;
    }
    h->starts_later = true;
    call_set_deadline(h, loop_now_ms(h->base.worker->loop) + call_task_opening_ms(h));
    call_task_open(o);
    return true;
}

int tidings_call_begin_task(struct tidings_call *h, struct tidings_error *err)
{
    struct refusal why;
    char sentence[REFUSAL_SENTENCE];
    if (h->task) {
        return 0;
    }
    if (h->feature->task == TIDINGS_TASK_NEVER || !h->meta || !dialect_declares_tasks(h->meta)) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                            h->feature->task == TIDINGS_TASK_NEVER
                                ? "the tool was not registered as one that runs as a task"
                                : "the client did not declare the extension '" DIALECT_TASKS "'");
    }
    struct call_opening *o = call_opening_create(h);
    int rc = o ? call_task_create(h, &why) : TIDINGS_E_NOMEM;
    if (rc < 0) {
        mem_free(o);
        return tidings_fail(err, rc, "%s",
                            rc == TIDINGS_E_LIMIT ? refusal_sentence(&why, sentence)
                                                  : tidings_code_text(rc));
    }
    if (pthread_equal(h->base.thread, pthread_self())) {
        call_task_open(o);
    } else {
        mailbox_send(h->base.worker->mailbox, &o->thread_message);
    }
    return 0;
}

void call_task_progress(struct tidings_call *h, struct tidings_str message)
{
    if (message.len > 0) {
        task_set_message(h->task, message);
    }
}
