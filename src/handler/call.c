/* SPDX-License-Identifier: MIT
 *
 * The life of a handler's call: begin, deadline, cancellation, end. What its handler gives is in
 * call_content.c, what it reports meanwhile in call_report.c, what it asks its client in
 * call_ask.c and call_wait.c, what is offered in call_offer.c, and calls that are tasks in
 * call_task.c.
 */
#include "handler/call.h"

#include <sched.h>

#include "access/allowance.h"
#include "access/share.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/str.h"
#include "handler/handlers.h"
#include "request/request.h"

#define CALL_ROOM 1024u /* of an answer, for what is around the content */

/* Of the cancel callback. NONE and LISTENING belong to whoever moves them first: the home thread
 * (cancelled: CALLING, then CALLED) or the one that finishes (FINISHED).
 *
 *     NONE ──on_cancel──> LISTENING ──cancel──> CALLING ──returned──> CALLED
 *       │                     │                    └─ a finisher elsewhere waits for CALLED
 *       └──────cancel: CALLED, finish: FINISHED
 */
enum cancel_state {
    CANCEL_NONE,
    CANCEL_LISTENING,
    CANCEL_CALLING,
    CANCEL_CALLED,
    CANCEL_FINISHED,
};

static bool move_state(struct tidings_call *h, int from, int to)
{
    return __atomic_compare_exchange_n(&h->cancel_state, &from, to, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

/* ---- end ------------------------------------------------------------------------------------- */

void call_free(struct tidings_call *h)
{
    call_observe_end(h);
    list_remove(&h->link);
    call_task_deinit(h);
    if (h->task_state <= CALL_TASK_OPENING) { /* else it counts as a task */
        share_give(h->base.worker->limit_counters, LIMIT_CALLS, 1, h->allowance);
    }
    output_end(&h->output);
    call_ask_deinit(h);
    feature_unref(h->feature);
    principal_unref(h->principal);
    allowance_release(h->allowance);
    buf_deinit(&h->origin);
    jv_unref(h->root);
    buf_deinit(&h->arguments_text);
    buf_deinit(&h->json_text);
    buf_deinit(&h->content);
    buf_deinit(&h->structured);
    mem_free((char *)(uintptr_t)h->progress_token.ptr);
    mem_free(h);
}

static void call_answer(struct tidings_call *h, struct request *request)
{
    if (request->cancelled) {
        request_drop(request);
    } else if (h->outcome == CALL_FAILED && !call_fail_missing(h, request)) {
        h->kind->fail(request, &h->base.err);
    } else if (h->outcome == CALL_REFUSED) {
        request_fail_job(request, &h->base, STR_EMPTY, STR_EMPTY);
    } else if (h->outcome == CALL_LIMITED) {
        request_fail_limit(request, &h->limit, STR_EMPTY);
    } else if (h->outcome == CALL_RESULT) {
        request_begin(request);
        if (call_has_asked(h)) {
            call_write_asked(h, request);
            request_end(request, CACHE_ASKING);
        } else {
            /* Exactly that, since memory that grows later grows to the double. */
            (void)buf_reserve(&request->out, h->content.len + h->structured.len + CALL_ROOM);
            h->kind->write(h, &request->w);
            output_end(&h->output); /* the text of the answer is booked instead */
            request_end(request, CACHE_NONE);
        }
    }
}

void call_end(struct tidings_call *h)
{
    if (h->request) {
        h->request->job = NULL;
        call_answer(h, h->request);
    }
    call_free(h);
}

/* What was left to say. */
static void call_finish_on_worker(struct tidings_call *h)
{
    struct tidings_error err = {0};
    int rc = h->on_worker(h->on_worker_user, h, &err);
    rc = rc < 0 ? rc : h->kind->check(h, &err);
    if (rc < 0) {
        h->outcome = h->limit.retry_ms > 0 ? CALL_LIMITED : CALL_FAILED;
        h->base.err = err;
    }
}

static void call_on_done(struct job *r)
{
    struct tidings_call *h = r->user;
    if (h->on_worker) {
        call_finish_on_worker(h);
    }
    if (h->task_state != CALL_TASK_NONE) {
        call_task_done(h);
        return;
    }
    bool asks = h->outcome == CALL_RESULT && call_has_asked(h) && !h->meta;
    if (asks && h->request && !h->request->cancelled) {
        call_wait(h);
    } else {
        call_end(h);
    }
}

/* No callback from now on. true: one is running on this very thread, and must return first. */
static bool stop_listening(struct tidings_call *h)
{
    bool is_on_worker = pthread_equal(h->base.thread, pthread_self());
    for (;;) {
        if (move_state(h, CANCEL_NONE, CANCEL_FINISHED) ||
            move_state(h, CANCEL_LISTENING, CANCEL_FINISHED) ||
            __atomic_load_n(&h->cancel_state, __ATOMIC_ACQUIRE) == CANCEL_CALLED) {
            return false;
        }
        if (is_on_worker) {
            return true;
        }
        sched_yield(); /* it must not block, so this is short */
    }
}

static void call_finish(struct tidings_call *h, enum call_outcome outcome, int code,
                        const struct tidings_error *err)
{
    h->outcome = outcome;
    if (stop_listening(h)) {
        job_finish_later(&h->base, code, err);
    } else {
        job_finish(&h->base, code, err);
    }
}

void tidings_call_done(struct tidings_call *h, int code, const struct tidings_error *err)
{
    struct tidings_error why;
    if (h->limit.retry_ms > 0) {
        call_finish(h, CALL_LIMITED, TIDINGS_E_BUSY, NULL);
        return;
    }
    if (code >= 0) {
        code = call_has_asked(h) ? 0 : h->kind->check(h, &why);
        err = &why;
    }
    call_finish(h, code < 0 ? CALL_FAILED : CALL_RESULT, code, err);
}

void call_done_on_worker(struct tidings_call *h, call_on_worker_fn fn, void *user)
{
    h->on_worker = fn;
    h->on_worker_user = user;
    call_finish(h, CALL_RESULT, 0, NULL);
}

void tidings_call_refuse(struct tidings_call *h, int code, const struct tidings_error *err)
{
    call_finish(h, CALL_REFUSED, code < 0 ? code : TIDINGS_E_INTERNAL, err);
}

void call_refuse_limit(struct tidings_call *h, const struct refusal *why)
{
    h->limit = *why;
    call_finish(h, CALL_LIMITED, TIDINGS_E_BUSY, NULL);
}

/* ---- cancellation ---------------------------------------------------------------------------- */

static void call_on_cancel(struct job *r)
{
    struct tidings_call *h = r->user;
    if (move_state(h, CANCEL_LISTENING, CANCEL_CALLING)) {
        h->on_cancel(h->cancel_user, h);
        __atomic_store_n(&h->cancel_state, CANCEL_CALLED, __ATOMIC_RELEASE);
    } else {
        (void)move_state(h, CANCEL_NONE, CANCEL_CALLED);
    }
}

/* Home thread. */
void call_cancel(struct tidings_call *h)
{
    job_cancel(&h->base);
}

bool tidings_call_cancelled(const struct tidings_call *h)
{
    return __atomic_load_n(&h->base.cancelled, __ATOMIC_ACQUIRE);
}

void tidings_call_on_cancel(struct tidings_call *h, tidings_call_fn fn, void *user)
{
    if (h->on_cancel) {
        return; /* one is enough */
    }
    h->on_cancel = fn;
    h->cancel_user = user;
    if (!move_state(h, CANCEL_NONE, CANCEL_LISTENING)) {
        fn(user, h); /* it has happened already */
    }
}

void calls_cancel(struct worker *worker)
{
    struct list *at = &worker->handlers->calls;
    while (at->next != &worker->handlers->calls) {
        struct tidings_call *h = list_entry(at->next, struct tidings_call, link);
        if (tidings_call_cancelled(h)) {
            at = at->next;
        } else {
            call_cancel(h); /* which may finish others: begin again */
            at = &worker->handlers->calls;
        }
    }
}

/* ---- deadlines: few enough to look at all of them -------------------------------------------- */

static void call_set_timer(struct worker *worker, uint64_t due_ms)
{
    struct handlers *all = worker->handlers;
    if (due_ms > 0 && (all->due_ms == 0 || due_ms < all->due_ms)) {
        uint64_t now = loop_now_ms(worker->loop);
        all->due_ms = due_ms;
        loop_timer_start(all->timer, due_ms > now ? due_ms - now : 0, 0);
    }
}

void call_set_deadline(struct tidings_call *h, uint64_t deadline_ms)
{
    h->deadline_ms = deadline_ms;
    call_set_timer(h->base.worker, deadline_ms);
}

/* The client gets an answer; the handler is told and may end when it likes. */
static void call_give_up(struct tidings_call *h)
{
    if (h->wait) {
        call_wait_expire(h);
        return;
    }
    if (!h->request) {
        call_task_expire(h);
        return;
    }
    if (h->starts_later && h->task_state == CALL_TASK_OPENING) {
        call_task_give_up(h);
        return;
    }
    struct request *request = h->request;
    const struct feature *f = h->feature;
    uint64_t allowed = f->timeout_ms ? f->timeout_ms : h->base.worker->limits->call_timeout_ms;
    struct tidings_error err;
    limit_hit(h->base.worker->limit_counters, LIMIT_CALL_TIME);
    tidings_fail(&err, TIDINGS_E_TIMEOUT, "the %s '%.*s' did not finish within %llu ms (%s)",
                 h->kind->what, STR_ARG(f->name), (unsigned long long)allowed,
                 f->timeout_ms ? "its own limit" : "--call-timeout");
    const struct call_kind *kind = h->kind;
    h->is_late = true;
    call_observe_end(h);
    h->request = NULL;
    request->job = NULL;
    call_cancel(h);
    if (request->cancelled) {
        request_drop(request);
    } else {
        kind->fail(request, &err);
    }
}

static struct tidings_call *first_due(struct worker *worker)
{
    struct tidings_call *first = NULL;
    list_each (it, next, &worker->handlers->calls) {
        struct tidings_call *h = list_entry(it, struct tidings_call, link);
        bool is_awaited = h->request || h->task_state >= CALL_TASK_RUNNING;
        if (is_awaited && h->deadline_ms > 0 && (!first || h->deadline_ms < first->deadline_ms)) {
            first = h;
        }
    }
    return first;
}

static void call_on_deadline(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct worker *worker = user;
    struct tidings_call *h;
    worker->handlers->due_ms = 0;
    /* Giving up on one may finish others: begin again each time. */
    while ((h = first_due(worker)) != NULL && h->deadline_ms <= loop_now_ms(worker->loop)) {
        call_give_up(h);
    }
    call_set_timer(worker, h ? h->deadline_ms : 0);
}

bool calls_open(struct worker *worker)
{
    list_init(&worker->handlers->calls);
    worker->handlers->due_ms = 0;
    worker->handlers->timer = loop_timer_open(worker->loop, call_on_deadline, worker);
    return worker->handlers->timer != NULL;
}

void calls_close(struct worker *worker)
{
    loop_timer_close(worker->handlers->timer);
}

/* ---- begin ----------------------------------------------------------------------------------- */

/* Takes the reference to the allowance, unless there is no memory. */
static struct tidings_call *call_create(struct request *request, const struct call_kind *kind,
                                        struct feature *f, struct allowance *client)
{
    struct worker *worker = request->worker;
    struct tidings_call *h = mem_zalloc(sizeof(*h));
    if (!h) {
        return NULL;
    }
    size_t max = worker->limits->max_read_bytes * 6 + (1u << 20);
    job_init(&h->base, worker, call_on_done, h, STR_EMPTY);
    h->base.on_cancel = call_on_cancel;
    h->request = request;
    h->kind = kind;
    h->principal = principal_ref(request->principal);
    h->rules = dialect_rules_in(worker->self, request->era);
    h->allowance = client;
    h->feature = feature_ref(f);
    h->root = jv_ref(request->root);
    h->arguments = jv_get(request->msg.params, "arguments");
    struct json *meta = jv_get(request->msg.params, "_meta");
    h->meta = request->meta;
    if (request->trace) {
        h->trace = *request->trace;
    }
    struct tidings_str origin = jv_str(jv_get(meta, "dev.tidings/origin"));
    buf_init(&h->origin, ORIGIN_MAX + PRINCIPAL_ORIGIN_MAX);
    principal_put_origin(h->principal, origin.len <= ORIGIN_MAX ? origin : STR_EMPTY, &h->origin);
    buf_init(&h->arguments_text, max);
    buf_init(&h->json_text, max);
    buf_init(&h->content, max);
    buf_init(&h->structured, max);
    output_init(&h->output, worker->limit_counters,
                (struct share_taker){allowance_ref(client), h->principal, !h->principal});
    list_append(&worker->handlers->calls, &h->link);
    call_read_report_options(h);
    return h;
}

/* At the expense of the client, within what it has left and the schema allows. false: that was not
 * enough, but might be at another time; the request is answered. */
static bool call_judge(struct request *request, struct allowance *client,
                       const struct json_schema *schema, struct json *given,
                       enum schema_verdict *ret, struct schema_error *ret_error)
{
    uint64_t now = loop_now_ms(request->worker->loop), most = schema_max_steps(schema);
    uint64_t left = allowance_left(client, now), had = left < most ? left : most, steps = had;
    *ret = had > 0 ? schema_judge_within(schema, given, ret_error, &steps) : SCHEMA_GAVE_UP;
    allowance_pay(client, had - steps, now);
    if (*ret == SCHEMA_GAVE_UP && steps == 0 && had < most) {
        struct refusal why = allowance_refusal(request->worker->limit_counters, client, most, now);
        request_fail_limit(request, &why, STR_EMPTY);
        return false;
    }
    return true;
}

/* Are the arguments what the feature takes? If not, the request is answered. */
static bool call_check_arguments(struct request *request, const struct call_kind *kind,
                                 const struct feature *f, struct allowance *client)
{
    struct json *given = jv_get(request->msg.params, "arguments"), *none = NULL;
    if (given && !jv_is(given, JV_OBJECT)) {
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY, "params.arguments must be an object");
        return false;
    }
    if (!f->input) {
        return true;
    }
    if (!given && jv_parse(STR("{}"), 1, &none, NULL) < 0) {
        request_fail(request, TIDINGS_E_NOMEM, STR_EMPTY, "out of memory");
        return false;
    }
    struct schema_error e;
    enum schema_verdict verdict;
    bool is_judged = call_judge(request, client, f->input, given ? given : none, &verdict, &e);
    jv_unref(none);
    if (is_judged && verdict != SCHEMA_VALID) {
        kind->invalid(request, &e);
    }
    return is_judged && verdict == SCHEMA_VALID;
}

static void run_handler(struct job *r)
{
    struct tidings_call *h = r->user;
    h->feature->handler(h->feature->user, h);
}

static void run_job(void *job)
{
    struct job *r = job;
    struct tidings_call *h = r->user;
    if (tidings_call_cancelled(h)) {
        tidings_call_done(h, TIDINGS_E_CANCELLED, NULL); /* while it waited for a thread */
    } else {
        run_handler(r);
    }
}

void call_start(struct tidings_call *h)
{
    struct worker *worker = h->base.worker;
    uint64_t own = h->feature->timeout_ms, allowed = own ? own : worker->limits->call_timeout_ms;
    if (h->request) {
        h->request->job = &h->base;
        call_set_deadline(h, allowed > 0 ? loop_now_ms(worker->loop) + allowed : 0);
    } else {
        call_set_deadline(h, call_task_deadline(h));
    }
    struct tidings_error err = {0};
    int rc = call_observe_begin(h, &err);
    if (rc == 0 && !h->feature->is_blocking) {
        job_start(&h->base, NULL, run_handler);
        return;
    }
    job_begin(&h->base);
    if (rc < 0) {
        tidings_call_refuse(h, rc, &err);
        return;
    }
    rc = pool_submit(worker->handlers->pool, run_job, &h->base);
    if (rc < 0) {
        tidings_fail(&err, rc, "too many requests are waiting; try again later");
        tidings_call_refuse(h, rc, &err);
    }
}

/* The arguments are right. false: the request is answered, and the allowance was not taken. */
static bool call_begin(struct request *request, const struct call_kind *kind, struct feature *f,
                       struct allowance *client)
{
    struct worker *worker = request->worker;
    const struct share_taker who = {client, request->principal, !request->principal};
    struct refusal why;
    if (!share_take(worker->limit_counters, LIMIT_CALLS, worker->limits->max_calls, 1, &who,
                    &why)) {
        request_fail_limit(request, &why, STR_EMPTY);
        return false;
    }
    struct tidings_call *h = call_create(request, kind, f, client);
    if (!h) {
        share_give(worker->limit_counters, LIMIT_CALLS, 1, client);
        request_fail(request, TIDINGS_E_NOMEM, STR_EMPTY, "out of memory");
        return false;
    }
    if (!call_read_answers(h, request)) {
        call_free(h);
        return true;
    }
    if (f->task == TIDINGS_TASK_NEVER || f->begins_task || !call_task_is_possible(request)) {
        call_start(h);
    } else if (!call_task_begin(h)) {
        call_free(h);
    }
    return true;
}

void call_again(struct tidings_call *h)
{
    job_init(&h->base, h->base.worker, call_on_done, h, STR_EMPTY);
    h->base.on_cancel = call_on_cancel;
    h->on_worker = NULL;
    h->cancel_state = CANCEL_NONE;
    h->on_cancel = NULL;
    buf_clear(&h->content);
    buf_clear(&h->structured);
    h->limit = (struct refusal){0};
    h->bytes = h->block_count = 0;
    h->is_judged = h->is_error = h->is_assistant = false;
    call_start(h);
}

void call_run(struct request *request, const struct call_kind *kind)
{
    struct worker *worker = request->worker;
    struct json *name = jv_get(request->msg.params, "name");
    if (!jv_is(name, JV_STRING)) {
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY, "params.name must be a string");
        return;
    }
    struct feature *f = feature_find(worker->handlers->features[kind->feature], jv_str(name));
    if (!f || !call_is_offered(request, f)) {
        call_refuse_unknown(request, kind->feature, kind->what, jv_str(name));
        return;
    }
    if (f->task == TIDINGS_TASK_REQUIRED && !call_task_is_possible(request)) {
        call_task_refuse(request, "this tool runs as a task, for clients that declare the "
                                  "extension '" DIALECT_TASKS "'");
        return;
    }
    struct allowance *client = channel_allowance(request->channel);
    if (!client) {
        request_fail(request, TIDINGS_E_NOMEM, STR_EMPTY, "out of memory");
    } else if (!call_check_arguments(request, kind, f, client) ||
               !call_begin(request, kind, f, client)) {
        allowance_release(client);
    }
}
