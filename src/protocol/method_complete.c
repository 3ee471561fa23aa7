/* SPDX-License-Identifier: MIT
 *
 * completion/complete: values for an argument of a prompt or a variable of a template, from the
 * function the application registered for it or from the provider of the mount it lies in.
 *
 * What is not offered cannot be completed: an unknown prompt, template, argument or variable is an
 * error. What is offered but has nobody to complete it has no suggestions.
 */
#include "access/access.h"
#include "base/str.h"
#include "catalog/job.h"
#include "handler/call.h"
#include "handler/completion.h"
#include "handler/handlers.h"
#include "protocol/method.h"

#define MAX_VALUES 100u /* the protocol's */
#define QUOTED_MAX 128  /* of a stranger's text in a sentence */

struct completing {
    struct tidings_complete complete;
    struct request *request;
    struct feature *feature; /* a reference; NULL: a provider answers, or nobody */
};

/* ---- the answer ------------------------------------------------------------------------------ */

static void method_complete_on_done(struct job *job)
{
    struct completing *c = job->user;
    struct request *request = c->request;
    request_end_job(request);
    feature_unref(c->feature);
    if (job->code < 0) {
        struct tidings_error err = job->err;
        request_fail_err(request, &err, job->uri);
        return;
    }
    const struct tidings_complete *done = &c->complete;
    bool more = done->more || (done->total >= 0 && (uint64_t)done->total > done->count);
    jw_end_array(&request->w);
    if (done->total >= 0 || !more) {
        int64_t count = (int64_t)done->count;
        jw_put_integer(&request->w, STR("total"), done->total > count ? done->total : count);
    }
    jw_put_bool(&request->w, STR("hasMore"), more);
    jw_end_object(&request->w);
    request_end(request, CACHE_NONE);
}

static void begin_values(struct completing *c)
{
    struct jw *w = &c->request->w;
    request_begin_job(c->request, &c->complete.base);
    request_begin(c->request);
    jw_key(w, STR("completion"));
    jw_begin_object(w);
    jw_key(w, STR("values"));
    jw_begin_array(w);
}

static void run_registered(struct job *r)
{
    struct completing *c = r->user;
    if (c->feature) {
        c->feature->complete(c->feature->user, &c->complete);
    } else {
        tidings_complete_done(&c->complete, 0, NULL);
    }
}

/* Ask what is registered for the prompt or template; nothing: no suggestions. */
static void ask_registered(struct completing *c, const char *what, struct tidings_str name)
{
    struct request *request = c->request;
    struct buf key;
    buf_init(&key, COMPLETE_KEY_MAX);
    complete_put_key(&key, what, name);
    const struct feature_list *all = request->worker->handlers->features[FEATURE_COMPLETION];
    struct feature *f = key.failed ? NULL : feature_find(all, buf_str(&key));
    int failed = key.failed == TIDINGS_E_NOMEM;
    buf_deinit(&key);
    if (failed) {
        request_fail(request, TIDINGS_E_NOMEM, STR_EMPTY, "out of memory");
        return;
    }
    c->feature = f ? feature_ref(f) : NULL;
    begin_values(c);
    job_start(&c->complete.base, NULL, run_registered);
}

/* ---- prompts --------------------------------------------------------------------------------- */

static bool has_argument(const struct json *prompt, struct tidings_str name)
{
    const struct json *arguments = jv_get(prompt, "arguments");
    for (size_t i = 0; i < jv_count(arguments); i++) {
        if (str_eq(jv_str(jv_get(jv_at(arguments, i), "name")), name)) {
            return true;
        }
    }
    return false;
}

static void complete_prompt(struct completing *c, struct tidings_str prompt)
{
    struct tidings_str name = c->complete.name;
    const struct feature *f =
        feature_find(c->request->worker->handlers->features[FEATURE_PROMPT], prompt);
    struct json *row = NULL;
    if (!f) {
        call_refuse_unknown(c->request, FEATURE_PROMPT, "prompt", prompt);
        return;
    }
    if (jv_parse(f->row, JSON_MAX_DEPTH, &row, NULL) < 0) {
        request_fail(c->request, TIDINGS_E_NOMEM, STR_EMPTY, "out of memory");
        return;
    }
    bool known = has_argument(row, name);
    jv_unref(row);
    if (!known) {
        request_fail(c->request, TIDINGS_E_INVALID, STR_EMPTY,
                     "the prompt '%.*s' has no argument '%.*s'", STR_ARG(prompt),
                     STR_ARG_MAX(name, QUOTED_MAX));
        return;
    }
    ask_registered(c, COMPLETE_PROMPT, prompt);
}

/* ---- templates ------------------------------------------------------------------------------- */

static bool has_variable(const struct uri_template *t, struct tidings_str name)
{
    for (size_t i = 0; i < template_variable_count(t); i++) {
        if (str_eq(template_variable(t, i), name)) {
            return true;
        }
    }
    return false;
}

/* The mount whose templates begin like this one. */
static struct tidings_provider *method_complete_find_mount(const struct catalog *c,
                                                           struct tidings_str text)
{
    for (size_t i = c->mount_count; i-- > 0;) {
        if (str_starts(text, c->mounts[i]->prefix)) {
            return c->mounts[i];
        }
    }
    return NULL;
}

static void complete_template(struct completing *c, struct tidings_str text)
{
    struct request *request = c->request;
    struct tidings_str name = c->complete.name;
    const struct catalog *catalog = request->worker->catalog;
    if (access_reaches(request->principal, ACCESS_LIST, text)) {
        c->complete.principal = request->principal;
        const struct catalog_entry *entry = catalog_find_template(catalog, text);
        struct tidings_provider *p = entry ? NULL : method_complete_find_mount(catalog, text);
        if (entry && !has_variable(entry->uri_template, name)) {
            request_fail(request, TIDINGS_E_INVALID, text, "this template has no variable '%.*s'",
                         STR_ARG_MAX(name, QUOTED_MAX));
            return;
        }
        if (entry) {
            ask_registered(c, COMPLETE_TEMPLATE, text);
            return;
        }
        if (p && p->ops->complete) {
            begin_values(c);
            job_complete(&c->complete, p);
            return;
        }
    }
    request_fail(request, TIDINGS_E_INVALID, text, "no such template is offered");
}

/* ---- the method ------------------------------------------------------------------------------ */

/* What is wrong with the parameters; NULL: nothing. */
static const char *method_complete_judge(struct json *params)
{
    struct json *ref = jv_get(params, "ref"), *argument = jv_get(params, "argument");
    struct json *context = jv_get(params, "context"), *given = jv_get(context, "arguments");
    struct tidings_str type = jv_str(jv_get(ref, "type")), key;
    bool is_prompt = str_eq(type, STR("ref/prompt"));
    if (!is_prompt && !str_eq(type, STR("ref/resource"))) {
        return "params.ref.type must be 'ref/prompt' or 'ref/resource'";
    }
    if (!jv_is(jv_get(ref, is_prompt ? "name" : "uri"), JV_STRING)) {
        return is_prompt ? "params.ref.name must be a string" : "params.ref.uri must be a string";
    }
    if (!jv_is(jv_get(argument, "name"), JV_STRING) ||
        !jv_is(jv_get(argument, "value"), JV_STRING)) {
        return "params.argument must have a name and a value, both strings";
    }
    if ((context && !jv_is(context, JV_OBJECT)) || (given && !jv_is(given, JV_OBJECT))) {
        return "params.context must be an object, and so must its arguments";
    }
    struct json *value = NULL;
    for (void *at = given ? jv_next(given, NULL, &key, &value) : NULL; at;
         at = jv_next(given, at, &key, &value)) {
        if (!jv_is(value, JV_STRING)) {
            return "params.context.arguments must be strings";
        }
    }
    return NULL;
}

/* The text of a template as it is offered, whichever alias it is written with. */
static struct tidings_str method_complete_uri(struct request *request, struct tidings_str text)
{
    const struct catalog *c = request->worker->catalog;
    struct tidings_str own = STR_EMPTY;
    struct buf canonical;
    buf_init(&canonical, URI_MAX * 3);
    if ((catalog_is_alias(c, text) || catalog_is_absolute(c, text)) &&
        catalog_canonical(c, text, true, &canonical, NULL) == 0) {
        own = arena_dup(&request->arena, buf_str(&canonical));
    }
    buf_deinit(&canonical);
    return own.len > 0 ? own : text;
}

void method_complete(struct request *request)
{
    struct json *params = request->msg.params, *ref = jv_get(params, "ref");
    const char *wrong = method_complete_judge(params);
    if (wrong) {
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY, "%s", wrong);
        return;
    }
    struct completing *c = arena_alloc(&request->arena, sizeof(*c));
    if (!c) {
        request_fail(request, TIDINGS_E_NOMEM, STR_EMPTY, "out of memory");
        return;
    }
    bool is_prompt = str_eq(jv_str(jv_get(ref, "type")), STR("ref/prompt"));
    struct tidings_str uri =
        is_prompt ? STR_EMPTY : method_complete_uri(request, jv_str(jv_get(ref, "uri")));
    job_init(&c->complete.base, request->worker, method_complete_on_done, c, uri);
    c->request = request;
    c->complete.name = jv_str(jv_get(jv_get(params, "argument"), "name"));
    c->complete.value = jv_str(jv_get(jv_get(params, "argument"), "value"));
    c->complete.context = jv_get(jv_get(params, "context"), "arguments");
    c->complete.w = &request->w;
    c->complete.max = MAX_VALUES;
    c->complete.total = -1;
    if (is_prompt) {
        complete_prompt(c, jv_str(jv_get(ref, "name")));
    } else {
        complete_template(c, uri);
    }
}
