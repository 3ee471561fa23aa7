/* SPDX-License-Identifier: MIT
 *
 * Carries a call of an entity tool to the thread of the keeper and its answer back. A call that
 * nobody waits for any more is carried out all the same: it may be in a batch already.
 */
#include "server/entity_call.h"

#include "access/allowance.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "delivery/delivery.h"
#include "delivery/options.h"
#include "dialect/dialect.h"

#define ARENA_MAX (64u << 20)
#define HISTORY_MAX (8u << 20)
#define HISTORY_LIMIT 100
#define PRINCIPAL_TEXT_MAX (6u * PRINCIPAL_MAX + 64u)

/* ---- both ends ------------------------------------------------------------------------------- */

static void entity_call_free(struct entity_call *c)
{
    if (!c->call) {
        jv_unref(c->arguments);
        jv_unref(c->body);
    }
    buf_deinit(&c->out);
    buf_deinit(&c->principal_json);
    buf_deinit(&c->origin);
    arena_deinit(&c->work);
    arena_deinit(&c->arena);
    mem_free(c);
}

static void refuse_limit(struct entity_call *c)
{
    struct worker *worker = c->write ? c->write->base.worker : c->call->base.worker;
    struct refusal why =
        allowance_refusal(worker->limit_counters, c->allowance, ENTITY_STEPS, clock_monotonic_ms());
    if (c->write) {
        job_write_limit(c->write, &why);
    } else {
        call_refuse_limit(c->call, &why);
    }
}

/* Answer with what the store said no to, and end. */
static void call_refuse(struct entity_call *c, int code)
{
    struct tidings_error err = {0};
    if (c->is_limited) {
        refuse_limit(c);
    } else if (c->write) {
        entity_http_refuse(c, code);
    } else if (c->call->rules->fails_calls) {
        entity_answer_refusal(c, code);
    } else {
        tidings_call_done(c->call, entity_answer_problem(c, code, &err), &err);
    }
    entity_call_free(c);
}

struct entity_call *entity_call_create(struct tidings_provider *provider)
{
    struct entity_call *c = mem_zalloc(sizeof(*c));
    if (c) {
        c->provider = provider;
        arena_init(&c->arena, ARENA_MAX);
        arena_init(&c->work, ARENA_MAX);
        buf_init(&c->out, HISTORY_MAX);
        buf_init(&c->principal_json, PRINCIPAL_TEXT_MAX);
        buf_init(&c->origin, 4 * ORIGIN_MAX + PRINCIPAL_ORIGIN_MAX); /* schemas count characters */
        list_init(&c->job.letter.link);
    }
    return c;
}

/* NULL after the call was finished. */
static struct entity_call *entity_call_begin(struct tidings_provider *provider,
                                             struct tidings_call *call)
{
    struct tidings_error err = {0};
    struct entity_call *c = entity_call_create(provider);
    if (!c) {
        tidings_call_done(call, tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory"), &err);
        return NULL;
    }
    c->call = call;
    c->principal = call->principal;
    c->allowance = call->allowance;
    c->arguments = call->arguments; /* lives as long as the call; nobody changes it */
    struct tidings_str origin = jv_str(jv_get(c->arguments, "origin"));
    if (origin.len > 0) {
        principal_put_origin(c->principal, origin, &c->origin);
    } else {
        buf_puts(&c->origin, tidings_call_origin(call));
    }
    return c;
}

/* ---- what the caller may --------------------------------------------------------------------- */

static bool call_may(void *user, enum entity_right right, const struct entity_type_row *type,
                     struct tidings_str id)
{
    const struct entity_call *c = user;
    struct entity_uri uri = {
        .kind = ENTITY_URI_CURRENT, .type = type->name, .version = type->version, .id = id};
    struct buf text;
    buf_init(&text, ENTITY_URI_MAX);
    bool may =
        entity_uri_build(&uri, &text) == 0 &&
        (right == ENTITY_MAY_WRITE ? access_writes(c->principal, buf_str(&text))
                                   : access_allows(c->principal, ACCESS_READ, buf_str(&text)));
    buf_deinit(&text);
    return may;
}

/* Of a version as it is stored; without rules nobody needs to ask. */
static bool call_knows(struct entity_call *c, const struct entity_version *v)
{
    struct entity_type_row type = {.name = v->type, .version = v->type_version};
    return access_is_full(c->principal) || call_may(c, ENTITY_MAY_KNOW, &type, v->id);
}

/* ---- what schemas may cost ------------------------------------------------------------------- */

/* With what is judged before, a request is within what a client has at once. */
_Static_assert(ENTITY_STEPS < ALLOWANCE_BURST, "steps for one transaction");

bool entity_call_lacks_steps(struct entity_call *c)
{
    uint64_t left = allowance_left(c->allowance, clock_monotonic_ms());
    c->had = left < ENTITY_STEPS ? left : ENTITY_STEPS;
    c->steps = c->had;
    c->is_limited = c->had == 0;
    return c->is_limited;
}

/* It was tried. `is_out`: and given up, for want of them. */
static void pay_steps(struct entity_call *c, bool is_out)
{
    allowance_pay(c->allowance, c->had - c->steps, clock_monotonic_ms());
    c->is_limited = is_out && c->had < ENTITY_STEPS;
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool is_judged(const struct entity_call *c)
{
    bool is = false;
    for (size_t i = 0; !is && i < c->count; i++) {
        is = c->writes[i].op == ENTITY_UPSERT;
    }
    return is;
}

static int run_writes(struct keeper_job *job, struct entities *e)
{
    struct entity_call *c = list_entry(job, struct entity_call, job);
    bool is_known = c->principal && c->principal->kind != PRINCIPAL_ANONYMOUS;
    struct entity_transaction t = {
        .writes = c->writes,
        .count = c->count,
        .may = c->principal && c->principal->class ? call_may : NULL,
        .may_user = c,
        .key = c->key,
        .now = entities_now(e),
        .owner = buf_str(&c->principal_json),
        .principal = is_known ? buf_str(&c->principal_json) : STR_EMPTY,
        .digest = tidings_str(c->digest),
        .steps = &c->steps,
    };
    if (is_judged(c) && entity_call_lacks_steps(c)) {
        return TIDINGS_E_BUSY;
    }
    arena_reset(&c->work);
    int rc = entities_transact(e, &t, &c->work, c->done, &c->problem, &job->err);
    job->is_lost = rc < 0 && c->problem.reason == ENTITY_MEDIUM;
    pay_steps(c, rc < 0 && c->problem.is_out_of_steps);
    c->is_replayed = rc == 1;
    return rc < 0 ? rc : 0;
}

/* It is not the caller's fault that it is judged twice. */
static void undo_writes(struct keeper_job *job)
{
    struct entity_call *c = list_entry(job, struct entity_call, job);
    uint64_t judged = c->had - c->steps;
    if (judged > ALLOWANCE_FREE) {
        allowance_refund(c->allowance, judged - ALLOWANCE_FREE);
    }
    c->had = c->steps = 0;
    c->is_limited = false;
}

/* Back on the thread of the worker, so that the keeper is free for the next batch. */
static int answer_writes(void *user, struct tidings_call *call, struct tidings_error *err)
{
    struct entity_call *c = user;
    (void)call;
    int rc = entity_answer_writes(c, err);
    entity_call_free(c);
    return rc;
}

/* Half of it would be another's: none, when there was no memory. */
static struct entity_cause call_cause(const struct entity_call *c)
{
    return (struct entity_cause){
        .origin = c->origin.failed ? STR_EMPTY : buf_str(&c->origin),
        .traceparent = c->call    ? tidings_call_traceparent(c->call)
                       : c->write ? tidings_write_traceparent(c->write)
                                  : STR_EMPTY,
    };
}

static void writes_done(struct keeper_job *job, int code)
{
    struct entity_call *c = list_entry(job, struct entity_call, job);
    if (job->is_lost && c->problem.reason != ENTITY_MEDIUM) { /* that was not decided after all */
        c->problem = (struct entity_problem){.current = TIMELINE_NEVER};
        c->is_limited = false;
    }
    if (code < 0) {
        call_refuse(c, code);
        return;
    }
    const struct entity_cause cause = call_cause(c);
    for (size_t i = 0; i < c->count; i++) {
        entity_announce(c->provider, &c->done[i], &cause);
    }
    if (c->write) {
        entity_http_done(c);
        entity_call_free(c);
        return;
    }
    call_done_on_worker(c->call, answer_writes, c);
}

/* Who asks, and, of what may be repeated, what exactly. */
static int call_identify(struct entity_call *c)
{
    struct jw w;
    jw_init(&w, &c->principal_json);
    principal_write(&w, c->principal);
    int rc = c->principal_json.failed;
    rc = rc == 0 && c->key.len > 0 ? entity_digest(c->writes, c->count, c->digest) : rc;
    return rc < 0 ? tidings_fail(&c->job.err, rc, "out of memory") : 0;
}

void entity_call_submit(struct entity_call *c, int rc)
{
    rc = rc < 0 ? rc : call_identify(c);
    if (rc < 0) {
        call_refuse(c, rc);
        return;
    }
    c->job.is_write = true;
    c->job.run = run_writes;
    c->job.undo = undo_writes;
    c->job.done = writes_done;
    keeper_submit(entity_keeper(c->provider), &c->job);
}

int entity_call_room(struct entity_call *c, size_t count, struct tidings_error *err)
{
    c->count = count;
    c->writes = arena_alloc(&c->arena, (count + 1) * sizeof(*c->writes));
    c->done = arena_alloc(&c->arena, (count + 1) * sizeof(*c->done));
    return c->writes && c->done ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

static void write_one(struct tidings_provider *provider, struct tidings_call *call,
                      enum entity_op op)
{
    struct entity_call *c = entity_call_begin(provider, call);
    if (c) {
        int rc = entity_call_room(c, 1, &c->job.err);
        rc = rc == 0 ? entity_call_write(c, c->arguments, op, &c->writes[0], &c->job.err) : rc;
        c->key = jv_str(jv_get(c->arguments, "idempotencyKey"));
        entity_call_submit(c, rc);
    }
}

void entity_call_upsert(void *user, struct tidings_call *call)
{
    write_one(user, call, ENTITY_UPSERT);
}

void entity_call_delete(void *user, struct tidings_call *call)
{
    write_one(user, call, ENTITY_DELETE);
}

void entity_call_undelete(void *user, struct tidings_call *call)
{
    write_one(user, call, ENTITY_UNDELETE);
}

static enum entity_op op_of(struct tidings_str name)
{
    return str_eq(name, STR("delete"))     ? ENTITY_DELETE
           : str_eq(name, STR("undelete")) ? ENTITY_UNDELETE
                                           : ENTITY_UPSERT;
}

void entity_call_transact(void *user, struct tidings_call *call)
{
    struct entity_call *c = entity_call_begin(user, call);
    if (!c) {
        return;
    }
    struct json *list = jv_get(c->arguments, "operations");
    int rc = entity_call_room(c, jv_count(list), &c->job.err);
    c->is_transaction = true;
    c->key = jv_str(jv_get(c->arguments, "idempotencyKey"));
    for (size_t i = 0; rc == 0 && i < c->count; i++) {
        struct json *one = jv_at(list, i);
        rc =
            entity_call_write(c, one, op_of(jv_str(jv_get(one, "op"))), &c->writes[i], &c->job.err);
        if (rc < 0) {
            error_wrap(&c->job.err, rc, "operations/%zu", i);
        }
    }
    entity_call_submit(c, rc);
}

/* ---- types ----------------------------------------------------------------------------------- */

static int run_type(struct keeper_job *job, struct entities *e)
{
    struct entity_call *c = list_entry(job, struct entity_call, job);
    if (entity_call_lacks_steps(c)) {
        return TIDINGS_E_BUSY;
    }
    c->type.steps = &c->steps;
    int rc = entities_add_type(e, &c->type, &job->err);
    bool is_refused = rc == TIDINGS_E_INVALID || rc == TIDINGS_E_EXISTS ||
                      rc == TIDINGS_E_UNSUPPORTED || rc == TIDINGS_E_NOTFOUND;
    job->is_lost = rc < 0 && !is_refused;
    pay_steps(c, rc == TIDINGS_E_INVALID && c->steps == 0);
    c->position = rc == 0 ? entities_position(e) : 0;
    return rc;
}

static void type_done(struct keeper_job *job, int code)
{
    struct entity_call *c = list_entry(job, struct entity_call, job);
    struct tidings_error err = {0};
    if (code < 0) {
        call_refuse(c, code);
        return;
    }
    const struct entity_cause cause = call_cause(c);
    entity_announce_types(c->provider, c->position, &cause);
    jw_init(&c->w, &c->out);
    jw_begin_object(&c->w);
    jw_put_bool(&c->w, STR("success"), true);
    jw_put_string(&c->w, STR("name"), c->type.name);
    jw_put_string(&c->w, STR("version"), c->type.version);
    struct buf text;
    buf_init(&text, 2 * ENTITY_NAME_MAX + 64);
    buf_putf(&text, "entity type '%.*s@%.*s' added", STR_ARG(c->type.name),
             STR_ARG(c->type.version));
    jw_put_string(&c->w, STR("message"), buf_str(&text));
    jw_end_object(&c->w);
    buf_deinit(&text);
    tidings_call_done(c->call, call_take_structured(c->call, &c->out, &err), &err);
    entity_call_free(c);
}

void entity_call_add_type(void *user, struct tidings_call *call)
{
    struct entity_call *c = entity_call_begin(user, call);
    if (!c) {
        return;
    }
    struct json *a = c->arguments;
    c->type = (struct entity_type_spec){
        .name = jv_str(jv_get(a, "name")),
        .description = jv_str(jv_get(a, "description")),
        .schema = jv_get(a, "jsonSchema"),
        .options = jv_get(a, "options"),
    };
    int rc = entity_call_version(c, jv_get(a, "version"), &c->type.version, &c->job.err);
    struct entity_uri registry = {.kind = ENTITY_URI_TYPES};
    rc = rc == 0 ? entity_call_check(c, ACCESS_WRITE, &registry, &c->job.err) : rc;
    if (rc < 0) {
        call_refuse(c, rc);
        return;
    }
    c->job.is_write = true;
    c->job.run = run_type;
    c->job.undo = undo_writes;
    c->job.done = type_done;
    keeper_submit(entity_keeper(c->provider), &c->job);
}

/* ---- history --------------------------------------------------------------------------------- */

static bool put_version(void *user, const struct entity_version *v)
{
    struct entity_call *c = user;
    if (!call_knows(c, v)) {
        return true;
    }
    if (c->found == c->limit) {
        c->next = v->from;
        return false;
    }
    c->found++;
    jw_begin_object(&c->w);
    entity_put_version(&c->w, v);
    if (c->with_values) {
        jw_put_raw(&c->w, STR("value"), v->value);
    }
    jw_end_object(&c->w);
    return !c->out.failed;
}

static int run_history(struct keeper_job *job, struct entities *e)
{
    struct entity_call *c = list_entry(job, struct entity_call, job);
    struct entity_version v = {.type = STR_EMPTY, .type_version = STR_EMPTY};
    char text[TIMELINE_TEXT];
    int rc = entities_find(e, c->uri.id, TIMELINE_FOREVER, &c->arena, &v, &job->err);
    rc = rc == 1 && !call_knows(c, &v) ? 0 : rc;
    bool is_other = (c->uri.type.len > 0 && !str_eq(c->uri.type, v.type)) ||
                    (c->uri.version.len > 0 && !str_eq(c->uri.version, v.type_version));
    if (rc == 0 || (rc == 1 && is_other)) {
        c->problem.reason = rc == 0 ? ENTITY_UNKNOWN : ENTITY_OTHER_TYPE;
        c->problem.type = v.type;
        c->problem.version = v.type_version;
        return tidings_fail(&job->err, TIDINGS_E_NOTFOUND, "there is no entity '%.*s'%s",
                            STR_ARG(c->uri.id), rc == 0 ? "" : " of that type");
    }
    if (rc < 0) {
        return rc;
    }
    jw_init(&c->w, &c->out);
    jw_begin_object(&c->w);
    jw_put_string(&c->w, STR("entityId"), c->uri.id);
    jw_key(&c->w, STR("versions"));
    jw_begin_array(&c->w);
    rc = entities_history(e, c->uri.id, c->first, put_version, c, &job->err);
    jw_end_array(&c->w);
    if (c->next != TIMELINE_NEVER) {
        jw_put_string(&c->w, STR("next"), timeline_text(c->next, text));
    }
    jw_end_object(&c->w);
    return rc < 0 ? rc : buf_check(&c->out, "the history", "ask for less with limit", &job->err);
}

static void history_done(struct keeper_job *job, int code)
{
    struct entity_call *c = list_entry(job, struct entity_call, job);
    struct tidings_error err = {0};
    if (code < 0) {
        call_refuse(c, code);
        return;
    }
    tidings_call_done(c->call, call_take_structured(c->call, &c->out, &err), &err);
    entity_call_free(c);
}

void entity_call_history(void *user, struct tidings_call *call)
{
    struct entity_call *c = entity_call_begin(user, call);
    if (!c) {
        return;
    }
    c->next = TIMELINE_NEVER;
    c->limit = (size_t)tidings_call_integer(call, "limit", HISTORY_LIMIT);
    c->with_values = tidings_call_boolean(call, "values", true);
    int rc = entity_call_target(c, c->arguments, &c->uri, &c->job.err);
    rc = rc == 0 ? entity_call_check(c, ACCESS_READ, &c->uri, &c->job.err) : rc;
    rc = rc == 0 ? entity_call_time(c->arguments, "from", &c->first, &c->job.err) : rc;
    if (rc < 0) {
        call_refuse(c, rc);
        return;
    }
    c->job.run = run_history;
    c->job.done = history_done;
    keeper_submit(entity_keeper(c->provider), &c->job);
}
