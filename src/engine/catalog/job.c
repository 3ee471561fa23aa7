/* SPDX-License-Identifier: MIT
 *
 * Provider jobs: dispatch (directly, or on the pool for blocking ones), and the return of the
 * result to the worker's thread.
 */
#include "engine/catalog/job.h"

#include <assert.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "engine/catalog/resource.h"
#include "engine/protocol/method_resources.h"
#include "engine/worker.h"
#include "formats/uri.h"

/* ---------------------------------------------------------------------------------------------- */

#define DETAILS_MAX (4u << 20)
#define UNFINISHED_MAX 8u /* jobs named in the log */

void job_init(struct job *r, struct worker *worker, job_done_fn done, void *user,
              struct tidings_str uri)
{
    memset(r, 0, sizeof(*r));
    r->worker = worker;
    r->thread = pthread_self();
    r->done = done;
    r->user = user;
    r->uri = uri;
}

void job_cancel(struct job *r)
{
    __atomic_store_n(&r->cancelled, true, __ATOMIC_RELEASE);
    if (r->on_cancel) {
        r->on_cancel(r);
    }
}

struct tidings_str job_details(const struct job *r)
{
    return tidings_str(r->details);
}

void job_explain(struct job *r, struct tidings_str object)
{
    struct json *parsed = NULL;
    struct buf text;
    struct jw w;
    buf_init(&text, DETAILS_MAX);
    jw_init(&w, &text);
    if (jv_parse(object, JSON_MAX_DEPTH, &parsed, NULL) == 0 && jv_is(parsed, JV_OBJECT)) {
        jw_value(&w, parsed);
        mem_free(r->details);
        r->details = text.failed ? NULL : buf_detach(&text, NULL);
    }
    jv_unref(parsed);
    buf_deinit(&text);
}

void job_begin(struct job *r)
{
    struct worker *w = r->worker;
    w->jobs++;
    r->next = w->first_job;
    r->at = &w->first_job;
    w->first_job = r;
    if (r->next) {
        r->next->at = &r->next;
    }
}

void job_log_unfinished(const struct worker *worker)
{
    unsigned count = 0;
    for (const struct job *r = worker->first_job; r && count < UNFINISHED_MAX; r = r->next) {
        log_error(LOG_PROVIDER,
                  r->provider ? "a provider does not finish" : "a handler does not finish",
                  KV("provider", r->provider ? r->provider->ops->name : "none"),
                  KV("at", r->provider ? r->provider->prefix : STR_EMPTY), KV("uri", r->uri),
                  KV("requests", worker->jobs));
        count++;
    }
}

/* Ends a job on its worker. Frees the provider's details, unless the caller keeps them. */
static void job_end(struct job *r)
{
    char *details = r->keeps_details ? NULL : r->details;
    r->worker->jobs--;
    *r->at = r->next;
    if (r->next) {
        r->next->at = r->at;
    }
    r->done(r);
    mem_free(details);
}

static void job_deliver_done(struct thread_message *message, void *owner)
{
    (void)owner;
    job_end(list_entry(message, struct job, message));
}

/* Not while the worker lives: it waits for its open jobs before it ends. */
static void job_on_lost(struct thread_message *message)
{
    (void)message;
}

static void set_outcome(struct job *r, int code, const struct tidings_error *err)
{
    r->code = code;
    if (code < 0) {
        if (err && err->text[0]) {
            r->err = *err;
        } else {
            tidings_fail(&r->err, code, "%s", tidings_code_text(code));
        }
    }
}

void job_finish_later(struct job *r, int code, const struct tidings_error *err)
{
    set_outcome(r, code, err);
    r->message.deliver = job_deliver_done;
    r->message.drop = job_on_lost;
    mailbox_send(r->worker->mailbox, &r->message);
}

void job_finish(struct job *r, int code, const struct tidings_error *err)
{
    if (!pthread_equal(r->thread, pthread_self())) {
        job_finish_later(r, code, err);
        return;
    }
    set_outcome(r, code, err);
    job_end(r);
}

static void job_run_job(void *job)
{
    struct job *r = job;
    r->run(r);
}

void job_start(struct job *r, struct tidings_provider *p, void (*run)(struct job *))
{
    r->provider = p;
    r->run = run;
    job_begin(r);
    job_go_on(r);
}

void job_go_on(struct job *r)
{
    struct tidings_provider *p = r->provider;
    if (p && (p->ops->flags & TIDINGS_PROVIDER_BLOCKING)) {
        int rc = pool_submit(p->host->pool, job_run_job, r);
        if (rc < 0) {
            struct tidings_error err;
            tidings_fail(&err, rc, "too many requests are waiting; try again later");
            job_finish(r, rc, &err);
        }
        return;
    }
    r->run(r);
}

/* ---- list and children ----------------------------------------------------------------------- */

static void job_run_list(struct job *r)
{
    struct tidings_list *list = list_entry(r, struct tidings_list, base);
    assert(r->provider); /* only reads may do without */
    const struct tidings_provider_ops *ops = r->provider->ops;
    if (list->children) {
        if (ops->children) {
            ops->children(r->provider, list, r->uri);
            return;
        }
        list->below = r->uri;
        list->after = list->after.len > 0 ? list->after : r->uri;
    }
    if (ops->list) {
        ops->list(r->provider, list);
        return;
    }
    tidings_list_done(list, 0, NULL);
}

void job_list(struct tidings_list *list, struct tidings_provider *p)
{
    job_start(&list->base, p, job_run_list);
}

void job_children(struct tidings_list *list, struct tidings_provider *p)
{
    list->children = true;
    job_start(&list->base, p, job_run_list);
}

/* A provider takes the metadata of a SKILL.md from the file, so only principals that may read the
 * file see it. */
static void job_hide_content(const struct job *job, const struct principal *who,
                             struct tidings_resource *row)
{
    if (job->provider && str_starts(row->uri, STR(SKILL_SCHEME ":")) &&
        str_ends(row->uri, STR("/" SKILL_FILE)) && !access_allows(who, ACCESS_READ, row->uri)) {
        row->name = STR(SKILL_FILE);
        row->description = STR_EMPTY;
    }
}

int tidings_list_add(struct tidings_list *list, const struct tidings_resource *row,
                     struct tidings_error *err)
{
    if (RESERVED_CHECK(row, err) < 0 || resource_check_meta(row, err) < 0) {
        return TIDINGS_E_INVALID;
    }
    if (list->on_row) {
        list->full = list->full || list->on_row(list, row) == 0;
        return !list->full;
    }
    if (list->after.len > 0 && str_cmp(row->uri, list->after) <= 0) {
        return 1; /* on a page before */
    }
    if (list->below.len > 0 && !uri_is_within(row->uri, list->below)) {
        return 1;
    }
    if (!access_allows(list->principal, ACCESS_LIST, row->uri)) {
        return 1; /* and do not count it: a further page would reveal that it exists */
    }
    if (list->full || list->count == list->wanted) {
        list->full = true;
        return 0;
    }
    buf_clear(&list->last);
    buf_puts(&list->last, row->uri);
    struct tidings_resource shown = *row;
    job_hide_content(&list->base, list->principal, &shown);
    shown.uri.len -= list->is_bare && row->listable && str_ends(row->uri, STR("/"));
    jw_begin_object(list->w);
    resource_write_members(list->w, STR("uri"), &shown);
    jw_end_object(list->w);
    list->count++;
    const struct buf *failed = list->w->out->failed ? list->w->out : &list->last;
    int rc = buf_check(failed, "the page", "ask for fewer rows", err);
    return rc < 0 ? rc : 1;
}

bool tidings_list_shows(const struct tidings_list *list, struct tidings_str uri)
{
    return list->subscribes ? access_subscribes(list->principal, uri)
                            : access_allows(list->principal, ACCESS_LIST, uri);
}

struct tidings_str tidings_list_after(const struct tidings_list *list)
{
    return list->after;
}

void tidings_list_done(struct tidings_list *list, int code, const struct tidings_error *err)
{
    job_finish(&list->base, code, err);
}

/* ---- stat ------------------------------------------------------------------------------------ */

static void run_stat(struct job *r)
{
    struct tidings_stat *stat = list_entry(r, struct tidings_stat, base);
    if (r->provider->ops->stat) {
        r->provider->ops->stat(r->provider, stat, r->uri);
    } else {
        tidings_stat_done(stat, TIDINGS_E_NOTFOUND, NULL, NULL);
    }
}

/* Searches the list of a provider without stat. */
struct lookup {
    struct tidings_list list;
    struct tidings_stat *stat;
    struct tidings_resource *found;
    bool failed;
};

static int job_stat_row(struct tidings_list *list, const struct tidings_resource *row)
{
    struct lookup *l = list_entry(list, struct lookup, list);
    int order = str_cmp(row->uri, l->stat->base.uri);
    if (order == 0) {
        l->found = resource_dup(row);
        l->failed = !l->found;
    }
    return order < 0;
}

static void lookup_done(struct job *job)
{
    struct lookup *l = job->user;
    struct tidings_error err = job->err;
    int code = job->code < 0 ? job->code
               : l->failed   ? TIDINGS_E_NOMEM
               : l->found    ? 0
                             : TIDINGS_E_NOTFOUND;
    job_begin(&l->stat->base);
    tidings_stat_done(l->stat, code, l->found, job->code < 0 ? &err : NULL);
    mem_free(l->found);
    mem_free(l);
}

static void job_stat_by_list(struct tidings_stat *stat, struct tidings_provider *p)
{
    struct lookup *l = mem_zalloc(sizeof(*l));
    if (!l) {
        job_begin(&stat->base);
        tidings_stat_done(stat, TIDINGS_E_NOMEM, NULL, NULL);
        return;
    }
    l->stat = stat;
    stat->base.provider = p;
    l->list.on_row = job_stat_row;
    job_init(&l->list.base, stat->base.worker, lookup_done, l, stat->base.uri);
    job_list(&l->list, p);
}

void job_stat(struct tidings_stat *stat, const struct catalog_hit *hit)
{
    if (hit->entry) {
        struct tidings_resource about = *hit->entry->about;
        about.uri = stat->base.uri;
        job_begin(&stat->base);
        tidings_stat_done(stat, 0, &about, NULL);
        return;
    }
    if (!hit->provider->ops->stat && hit->provider->ops->list) {
        job_stat_by_list(stat, hit->provider);
        return;
    }
    job_start(&stat->base, hit->provider, run_stat);
}

void job_free_stat(struct tidings_stat *stat)
{
    mem_free(stat->copy);
    stat->copy = NULL;
    if (stat->base.keeps_details) {
        mem_free(stat->base.details);
        stat->base.details = NULL;
    }
}

bool tidings_stat_shows(const struct tidings_stat *stat, struct tidings_str uri)
{
    return access_allows(stat->principal, ACCESS_LIST, uri);
}

void tidings_stat_explain(struct tidings_stat *stat, struct tidings_str object)
{
    job_explain(&stat->base, object);
}

void tidings_stat_done(struct tidings_stat *stat, int code, const struct tidings_resource *about,
                       const struct tidings_error *err)
{
    struct tidings_error wrong;
    if (code >= 0 && about && resource_check_meta(about, &wrong) < 0) {
        code = error_wrap(&wrong, TIDINGS_E_INTERNAL, "the provider of the resource");
        err = &wrong;
    }
    struct tidings_resource shown = about ? *about : (struct tidings_resource){0};
    if (code >= 0 && about) {
        job_hide_content(&stat->base, stat->principal, &shown);
        if (pthread_equal(stat->base.thread, pthread_self())) {
            stat->about = shown;
        } else {
            stat->copy = resource_dup(&shown);
            if (stat->copy) {
                stat->about = *stat->copy;
            } else {
                code = TIDINGS_E_NOMEM;
            }
        }
    }
    job_finish(&stat->base, code, err);
}

/* -------------------------------------------------------------------------------------------------
 * The provider jobs that change or complete something: tidings_write and tidings_complete.
 */

#define WRITE_ANSWER_MAX (64u << 20)

static void run_complete(struct job *r)
{
    struct tidings_complete *c = list_entry(r, struct tidings_complete, base);
    if (r->provider->ops->complete) {
        r->provider->ops->complete(r->provider, c, r->uri);
    } else {
        tidings_complete_done(c, 0, NULL); /* nothing to suggest */
    }
}

void job_complete(struct tidings_complete *c, struct tidings_provider *p)
{
    job_start(&c->base, p, run_complete);
}

struct tidings_str tidings_complete_name(const struct tidings_complete *c)
{
    return c->name;
}

struct tidings_str tidings_complete_value(const struct tidings_complete *c)
{
    return c->value;
}

struct tidings_str tidings_complete_argument(const struct tidings_complete *c, const char *name)
{
    return jv_str(jv_get(c->context, name));
}

bool tidings_complete_cancelled(const struct tidings_complete *c)
{
    return __atomic_load_n(&c->base.cancelled, __ATOMIC_ACQUIRE);
}

bool tidings_complete_shows(const struct tidings_complete *c, struct tidings_str uri)
{
    return access_reaches(c->principal, ACCESS_LIST, uri);
}

void tidings_complete_set_total(struct tidings_complete *c, size_t total)
{
    if (!access_is_full(c->principal)) {
        return; /* the total includes values that the principal may not see */
    }
    c->total = total > INT64_MAX ? INT64_MAX : (int64_t)total;
}

int tidings_complete_add(struct tidings_complete *c, struct tidings_str value)
{
    if (!access_is_full(c->principal) && !completion_access_allows(c, value)) {
        return 1;
    }
    if (c->count == c->max) {
        c->more = true;
        return 0;
    }
    jw_string(c->w, value);
    c->count++;
    return c->w->out->failed ? c->w->out->failed : 1;
}

void tidings_complete_done(struct tidings_complete *c, int code, const struct tidings_error *err)
{
    job_finish(&c->base, code, err);
}

static void job_write_run_write(struct job *r)
{
    struct tidings_write *w = list_entry(r, struct tidings_write, base);
    const struct tidings_provider_ops *ops = r->provider->ops;
    struct tidings_error err;
    if (ops->write && w->metadata.len > 0 && !(ops->flags & TIDINGS_PROVIDER_TAKES_METADATA)) {
        tidings_fail(
            &err, TIDINGS_E_INVALID,
            "'%.*s' takes no metadata, because its provider sets the metadata of its changes",
            STR_ARG(r->uri));
        tidings_write_done(w, TIDINGS_E_INVALID, STR_EMPTY, &err);
        return;
    }
    if (ops->write && (!w->is_patch || (ops->flags & TIDINGS_PROVIDER_PATCHES))) {
        ops->write(r->provider, w, r->uri);
        return;
    }
    tidings_fail(&err, TIDINGS_E_UNSUPPORTED, "'%.*s' %s", STR_ARG(r->uri),
                 ops->write ? "takes no patches, only the whole" : "is read-only");
    tidings_write_done(w, TIDINGS_E_UNSUPPORTED, STR_EMPTY, &err);
}

void job_write(struct tidings_write *w, struct tidings_provider *p)
{
    buf_init(&w->answer, WRITE_ANSWER_MAX);
    job_start(&w->base, p, job_write_run_write);
}

bool tidings_write_is_removal(const struct tidings_write *w)
{
    return w->is_removal;
}

bool tidings_write_is_patch(const struct tidings_write *w)
{
    return w->is_patch;
}

bool tidings_write_if_absent(const struct tidings_write *w)
{
    return w->if_absent;
}

struct tidings_str tidings_write_bytes(const struct tidings_write *w)
{
    return w->bytes;
}

struct tidings_str tidings_write_mime_type(const struct tidings_write *w)
{
    return w->mime_type;
}

struct tidings_str tidings_write_if_match(const struct tidings_write *w)
{
    return w->if_match;
}

struct tidings_str tidings_write_query(const struct tidings_write *w)
{
    return w->query;
}

struct tidings_str tidings_write_traceparent(const struct tidings_write *w)
{
    return w->traceparent;
}

struct tidings_str tidings_write_metadata(const struct tidings_write *w)
{
    return w->metadata;
}

void tidings_write_answer(struct tidings_write *w, struct tidings_str json)
{
    buf_clear(&w->answer);
    buf_puts(&w->answer, json);
}

void tidings_write_explain(struct tidings_write *w, struct tidings_str object)
{
    job_explain(&w->base, object);
}

void tidings_write_done(struct tidings_write *w, int code, struct tidings_str etag,
                        const struct tidings_error *err)
{
    buf_init(&w->etag, 1024);
    if (code >= 0 && buf_puts(&w->etag, etag) < 0) {
        code = w->etag.failed;
    }
    job_finish(&w->base, code, err);
}

void job_write_limit(struct tidings_write *w, const struct refusal *why)
{
    char sentence[REFUSAL_SENTENCE], data[REFUSAL_JSON];
    struct tidings_error err;
    tidings_fail(&err, TIDINGS_E_BUSY, "%s", refusal_sentence(why, sentence));
    w->limit = *why;
    tidings_write_explain(w, refusal_json(why, data));
    tidings_write_done(w, TIDINGS_E_BUSY, STR_EMPTY, &err);
}
