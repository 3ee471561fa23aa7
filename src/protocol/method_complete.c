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
#include "handler/completion.h"
#include "protocol/method.h"

#define MAX_VALUES 100u /* the protocol's */
#define SHOWN_MAX 128   /* of a stranger's text in a sentence */

struct completing {
    struct tidings_complete complete;
    struct call *call;
    struct feature *feature; /* a reference; NULL: a provider answers, or nobody */
};

static int shown(struct tidings_str s)
{
    return s.len < SHOWN_MAX ? (int)s.len : SHOWN_MAX;
}

/* ---- the answer ------------------------------------------------------------------------------ */

static void completed(struct request *request)
{
    struct completing *c = request->user;
    struct call *call = c->call;
    call_asked(call);
    feature_unref(c->feature);
    if (request->code < 0) {
        struct tidings_error err = request->err;
        call_fail_err(call, &err, request->uri);
        return;
    }
    const struct tidings_complete *done = &c->complete;
    bool more = done->more || (done->total >= 0 && (uint64_t)done->total > done->count);
    jw_end_array(&call->w);
    if (done->total >= 0 || !more) {
        int64_t count = (int64_t)done->count;
        jw_put_integer(&call->w, STR("total"), done->total > count ? done->total : count);
    }
    jw_put_bool(&call->w, STR("hasMore"), more);
    jw_end_object(&call->w);
    call_end(call, CACHE_NONE);
}

static void begin_values(struct completing *c)
{
    struct jw *w = &c->call->w;
    call_asks(c->call, &c->complete.base);
    call_begin(c->call);
    jw_key(w, STR("completion"));
    jw_begin_object(w);
    jw_key(w, STR("values"));
    jw_begin_array(w);
}

static void run_registered(struct request *r)
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
    struct call *call = c->call;
    struct buf key;
    buf_init(&key, COMPLETE_KEY_MAX);
    complete_put_key(&key, what, name);
    const struct feature_list *all = call->core->features[FEATURE_COMPLETION];
    struct feature *f = key.failed ? NULL : feature_find(all, buf_str(&key));
    int failed = key.failed == TIDINGS_E_NOMEM;
    buf_deinit(&key);
    if (failed) {
        call_fail(call, TIDINGS_E_NOMEM, STR_EMPTY, "out of memory");
        return;
    }
    c->feature = f ? feature_ref(f) : NULL;
    begin_values(c);
    request_start(&c->complete.base, NULL, run_registered);
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
    const struct feature *f = feature_find(c->call->core->features[FEATURE_PROMPT], prompt);
    struct json *row = NULL;
    if (!f) {
        call_fail(c->call, TIDINGS_E_INVALID, STR_EMPTY, "unknown prompt '%.*s'", shown(prompt),
                  prompt.ptr);
        return;
    }
    if (jv_parse(f->row, JSON_MAX_DEPTH, &row, NULL) < 0) {
        call_fail(c->call, TIDINGS_E_NOMEM, STR_EMPTY, "out of memory");
        return;
    }
    bool known = has_argument(row, name);
    jv_unref(row);
    if (!known) {
        call_fail(c->call, TIDINGS_E_INVALID, STR_EMPTY, "the prompt '%.*s' has no argument '%.*s'",
                  STR_ARG(prompt), shown(name), name.ptr);
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
static struct tidings_provider *find_mount(const struct catalog *c, struct tidings_str text)
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
    struct call *call = c->call;
    struct tidings_str name = c->complete.name;
    const struct catalog *catalog = call->core->catalog;
    if (access_reaches(call->who, ACCESS_LIST, text)) {
        c->complete.who = call->who;
        const struct catalog_entry *entry = catalog_find_template(catalog, text);
        struct tidings_provider *p = entry ? NULL : find_mount(catalog, text);
        if (entry && !has_variable(entry->uri_template, name)) {
            call_fail(call, TIDINGS_E_INVALID, text, "this template has no variable '%.*s'",
                      shown(name), name.ptr);
            return;
        }
        if (entry) {
            ask_registered(c, COMPLETE_TEMPLATE, text);
            return;
        }
        if (p && p->ops->complete) {
            begin_values(c);
            request_complete(&c->complete, p);
            return;
        }
    }
    call_fail(call, TIDINGS_E_INVALID, text, "no such template is offered");
}

/* ---- the method ------------------------------------------------------------------------------ */

/* What is wrong with the parameters; NULL: nothing. */
static const char *judge(struct json *params)
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

void method_complete(struct call *call)
{
    struct json *params = call->msg.params, *ref = jv_get(params, "ref");
    const char *wrong = judge(params);
    if (wrong) {
        call_fail(call, TIDINGS_E_INVALID, STR_EMPTY, "%s", wrong);
        return;
    }
    struct completing *c = arena_alloc(&call->arena, sizeof(*c));
    if (!c) {
        call_fail(call, TIDINGS_E_NOMEM, STR_EMPTY, "out of memory");
        return;
    }
    bool is_prompt = str_eq(jv_str(jv_get(ref, "type")), STR("ref/prompt"));
    struct tidings_str uri = is_prompt ? STR_EMPTY : jv_str(jv_get(ref, "uri"));
    request_init(&c->complete.base, call->core, completed, c, uri);
    c->call = call;
    c->complete.name = jv_str(jv_get(jv_get(params, "argument"), "name"));
    c->complete.value = jv_str(jv_get(jv_get(params, "argument"), "value"));
    c->complete.context = jv_get(jv_get(params, "context"), "arguments");
    c->complete.w = &call->w;
    c->complete.max = MAX_VALUES;
    c->complete.total = -1;
    if (is_prompt) {
        complete_prompt(c, jv_str(jv_get(ref, "name")));
    } else {
        complete_template(c, uri);
    }
}
