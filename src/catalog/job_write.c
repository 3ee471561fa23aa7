/* SPDX-License-Identifier: MIT
 *
 * The provider jobs that change or complete something: tidings_write and tidings_complete.
 */
#include "base/error.h"
#include "base/str.h"
#include "catalog/completion_access.h"
#include "catalog/job.h"

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
        return; /* it counts what is not for everybody */
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
        tidings_fail(&err, TIDINGS_E_INVALID,
                     "'%.*s' takes no metadata: its changes have metadata of their own",
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
