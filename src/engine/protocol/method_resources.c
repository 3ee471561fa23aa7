/* SPDX-License-Identifier: MIT
 *
 * resources/list and resources/templates/list.
 *
 * The list is flat: registered resources by URI, then each mount in order of its prefix, each in
 * ascending byte order.
 */
#include "engine/protocol/method_resources.h"

#include <stdio.h>

#include "base/str.h"
#include "engine/catalog/job.h"
#include "engine/catalog/job_read.h"
#include "engine/catalog/resource.h"
#include "engine/delivery/subscription.h"
#include "engine/protocol/call.h"
#include "engine/protocol/feature.h"
#include "engine/protocol/method.h"
#include "engine/protocol/method_listen.h"
#include "engine/protocol/request.h"
#include "engine/protocol/session.h"
#include "formats/json.h"
#include "formats/uri.h"
#include "formats/uri_template.h"
#include "security/access.h"

/* -------------------------------------------------------------------------------------------------
 * resources/read: finds the source, reads, and adds to the result's `_meta` how new the content is
 * and whether the client held it already. For the options see engine/catalog/read_options.h, for
 * the contents engine/catalog/job_read.h.
 */

struct reading {
    struct tidings_read read;
    struct read_options options;
    struct catalog_hit hit;
};

static void method_read_write_meta(struct request *request, const struct tidings_read *read)
{
    char version[64];
    if (access_is_full(request->principal)) { /* it counts everything */
        snprintf(version, sizeof(version), "%llx.%llu", (unsigned long long)request->worker->epoch,
                 (unsigned long long)read->version);
        jw_put_string(&request->w, STR("dev.tidings/version"), tidings_str(version));
    }
    if (read->is_stale) {
        jw_put_bool(&request->w, STR("dev.tidings/stale"), true);
    }
    if (read->unchanged) {
        jw_put_bool(&request->w, STR("dev.tidings/unchanged"), true);
        jw_put_string(&request->w, STR("dev.tidings/etag"), read->held);
    }
}

static void read_done(struct job *job)
{
    struct request *request = job->user;
    struct tidings_read *read = list_entry(job, struct tidings_read, base);
    request_end_job(request);
    if (job->code < 0 && read->refused.retry_ms > 0) {
        request_fail_limit(request, &read->refused, read->as_requested);
        return;
    }
    if (job->code < 0) {
        request_fail_job(request, job, read->as_requested, read->reason);
        return;
    }
    jw_end_array(&request->w);
    request_begin_meta(request, read->is_final ? CACHE_HOUR : CACHE_NOW);
    method_read_write_meta(request, read);
    request_end_meta(request);
}

void method_resources_read(struct request *request)
{
    struct json *param = jv_get(request->msg.params, "uri");
    if (!jv_is(param, JV_STRING)) {
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY, "params.uri must be a string");
        return;
    }
    struct tidings_str as_requested = jv_str(param);
    struct buf canonical;
    struct tidings_error err;
    buf_init(&canonical, URI_MAX * 3);
    int rc = catalog_canonical(request->worker->catalog, as_requested, false, &canonical, &err);
    struct tidings_str uri = rc < 0 ? STR_EMPTY : arena_dup(&request->arena, buf_str(&canonical));
    buf_deinit(&canonical);
    struct reading *r = arena_alloc(&request->arena, sizeof(*r));
    if (rc == 0 && (!uri.ptr || !r)) {
        rc = tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (rc == 0) {
        rc = read_options_parse(&r->options, jv_get(request->msg.params, "_meta"), &err);
    }
    if (rc < 0) {
        request_fail_err(request, &err, as_requested);
        return;
    }
    if (!catalog_may_ask(request->worker->catalog, request->principal, ACCESS_READ, uri) ||
        !catalog_find(request->worker->catalog, uri, &request->arena, &r->hit)) {
        request_fail(request, TIDINGS_E_NOTFOUND, as_requested, "resource not found");
        return;
    }
    struct tidings_read *read = &r->read;
    job_init(&read->base, request->worker, read_done, request, uri);
    read->w = &request->w;
    read->options = &r->options;
    read->principal = request->principal;
    read->reader = own_subscriber(request);
    read->as_requested = as_requested;
    read->max_bytes = request->worker->limits->max_read_bytes;
    read->takes_pieces = true;
    read->output = &request->output;
    read->payloads = &request->payloads;
    request_begin_job(request, &read->base);
    request_begin(request);
    jw_key(&request->w, STR("contents"));
    jw_begin_array(&request->w);
    job_read(read, &r->hit);
}

/* -------------------------------------------------------------------------------------------------
 * resources/metadata, and the direct children of one resource: resources/list with `uri`
 * (SEP-2093), alias resources/directory/read (SEP-2640). Two names, one function.
 *
 * The children of a registered container are the registered resources directly below its URI, with
 * one segment more; or the program lists them (tidings_server_on_children). A provider knows its
 * own; if it only lists, all resources below the URI are children, at all depths.
 *
 * Below `skill:` the directories of registered resources are containers without registration,
 * because SEP-2640 lists every directory of a skill.
 *
 * A cursor of children is bound to its parent: "c", the parent, a line break, the last child.
 */

/* A request for the metadata or the children of one resource. */
struct hierarchy_request {
    struct tidings_stat stat;
    struct tidings_list list;
    struct catalog_hit hit;
    struct request *request;
    struct feature *children;             /* a reference: the program lists them; or NULL */
    struct tidings_str as_requested, uri; /* in the arena */
    size_t wanted;
    void (*found)(struct hierarchy_request *l);
};

static void method_list_children(struct hierarchy_request *l);

/* A mount whose provider lists resources but knows no children: all of them are below it. */
static bool is_flat_mount(const struct tidings_provider *p, struct tidings_str uri)
{
    return p && p->ops->list && !p->ops->children && !(p->ops->flags & TIDINGS_PROVIDER_SINGLE) &&
           str_eq(uri, p->prefix);
}

static void method_hierarchy_stat_done(struct job *job)
{
    struct hierarchy_request *l = job->user;
    struct request *request = l->request;
    request_end_job(request);
    if (job->code == TIDINGS_E_NOTFOUND && l->found == method_list_children &&
        is_flat_mount(l->hit.provider, l->uri)) {
        job_free_stat(&l->stat);
        l->stat.about = (struct tidings_resource){.uri = l->uri, .listable = true};
        job->code = 0;
    }
    if (job->code < 0) {
        job_free_stat(&l->stat);
        request_fail_job(request, job, l->as_requested, STR_EMPTY);
        return;
    }
    l->found(l);
}

/* Returns true if a registered part of a skill, which the client may know, is below the requested
 * URI. */
static bool is_skill_directory(const struct hierarchy_request *l)
{
    const struct entries *rows = &l->request->worker->catalog->resources;
    bool is_there = false;
    struct buf below;
    buf_init(&below, URI_MAX * 3 + 1);
    buf_puts(&below, l->uri);
    buf_puts(&below, str_ends(l->uri, STR("/")) ? STR_EMPTY : STR("/"));
    struct entries_position at = entries_after(rows, buf_str(&below));
    struct catalog_entry *e = NULL;
    bool is_skill = !below.failed && str_starts(l->uri, STR(SKILL_SCHEME ":"));
    while (is_skill && !is_there && (e = entries_next(rows, &at)) != NULL &&
           str_starts(e->about->uri, buf_str(&below))) {
        is_there = access_allows(l->request->principal, ACCESS_LIST, e->about->uri);
    }
    buf_deinit(&below);
    return is_there;
}

/* Finds and describes the resource of `params.uri`; then calls `found`, or the request is
 * answered. */
static void method_hierarchy_find(struct request *request, size_t wanted,
                                  void (*found)(struct hierarchy_request *l))
{
    struct json *param = jv_get(request->msg.params, "uri");
    struct hierarchy_request *l = arena_alloc(&request->arena, sizeof(*l));
    if (!jv_is(param, JV_STRING) || !l) {
        request_fail(request, l ? TIDINGS_E_INVALID : TIDINGS_E_NOMEM, STR_EMPTY,
                     l ? "params.uri must be a string" : "out of memory");
        return;
    }
    struct buf canonical;
    struct tidings_error err;
    buf_init(&canonical, URI_MAX * 3);
    l->as_requested = jv_str(param);
    int rc = catalog_canonical(request->worker->catalog, l->as_requested, false, &canonical, &err);
    l->uri = rc < 0 ? STR_EMPTY : arena_dup(&request->arena, buf_str(&canonical));
    buf_deinit(&canonical);
    if (rc < 0) {
        request_fail_err(request, &err, l->as_requested);
        return;
    }
    if (!l->uri.ptr) {
        request_fail(request, TIDINGS_E_NOMEM, l->as_requested, "out of memory");
        return;
    }
    const struct catalog *catalog = request->worker->catalog;
    l->request = request;
    l->wanted = wanted;
    l->found = found;
    bool may = catalog_may_ask(catalog, request->principal, ACCESS_LIST, l->uri);
    if (!may || !catalog_find(catalog, l->uri, &request->arena, &l->hit)) {
        if (may && found == method_list_children && is_skill_directory(l)) {
            l->stat.about = (struct tidings_resource){.uri = l->uri, .listable = true};
            found(l);
            return;
        }
        request_fail(request, TIDINGS_E_NOTFOUND, l->as_requested, "resource not found");
        return;
    }
    job_init(&l->stat.base, request->worker, method_hierarchy_stat_done, l, l->uri);
    l->stat.principal = request->principal;
    request_begin_job(request, &l->stat.base);
    job_stat(&l->stat, &l->hit);
}

/* ---- resources/metadata ---------------------------------------------------------------------- */

static void method_hierarchy_describe(struct hierarchy_request *l)
{
    struct request *request = l->request;
    struct tidings_resource about = l->stat.about;
    if (str_eq(about.uri, l->uri)) {
        about.uri = l->as_requested;
    }
    request_begin(request);
    jw_key(&request->w, STR("resource"));
    jw_begin_object(&request->w);
    resource_write_with(&request->w, STR("uri"), &about,
                        &(struct resource_meta){.has_formats = true});
    jw_end_object(&request->w);
    job_free_stat(&l->stat);
    request_end(request, CACHE_NOW);
}

void method_resources_metadata(struct request *request)
{
    method_hierarchy_find(request, 0, method_hierarchy_describe);
}

/* ---- children -------------------------------------------------------------------------------- */

static void children_listed(struct hierarchy_request *l)
{
    struct request *request = l->request;
    jw_end_array(&request->w);
    if (l->list.last.failed) {
        request->out.failed = l->list.last.failed; /* no memory for the cursor: no answer */
    }
    if (l->list.full) {
        struct buf cursor;
        buf_init(&cursor, URI_MAX * 8);
        buf_puts(&cursor, l->uri);
        buf_putc(&cursor, '\n');
        buf_puts(&cursor, buf_str(&l->list.last));
        page_write_cursor(&request->w, 'c', buf_str(&cursor));
        buf_deinit(&cursor);
    }
    buf_deinit(&l->list.last);
    request_end(request, CACHE_NOW);
}

static void children_done(struct job *job)
{
    struct hierarchy_request *l = job->user;
    struct request *request = l->request;
    request_end_job(request);
    feature_unref(l->children);
    if (job->code < 0) {
        struct tidings_error err = job->err;
        buf_deinit(&l->list.last);
        request_fail_err(request, &err, l->as_requested);
        return;
    }
    children_listed(l);
}

/* Returns true if `uri`, which begins with `parent`, is one segment longer. */
static bool is_child(struct tidings_str parent, struct tidings_str uri)
{
    struct tidings_str rest, below = str_skip(uri, parent.len);
    if (!str_ends(parent, STR("/"))) {
        if (below.len == 0 || below.ptr[0] != '/') {
            return false;
        }
        below = str_skip(below, 1);
    }
    below = str_cut(below, '?', &rest, NULL);
    ptrdiff_t slash = str_find(below, '/');
    return below.len > 0 && (slash < 0 || (size_t)slash + 1 == below.len);
}

/* Lists the directory of a skill, directly below the parent, that contains the registered `about`.
 * A directory that the entry before had too is listed once. Returns 1, 0 when the page is full, or
 * a failure. */
static int list_skill_directory(struct hierarchy_request *l, const struct tidings_resource *about,
                                struct tidings_str *last)
{
    size_t begin = l->uri.len + !str_ends(l->uri, STR("/"));
    ptrdiff_t slash = str_find(str_skip(about->uri, begin), '/');
    struct tidings_str uri = tidings_strn(about->uri.ptr, begin + (size_t)(slash + 1));
    if (slash < 1 || about->uri.ptr[begin - 1] != '/' || str_eq(uri, *last) ||
        !access_allows(l->request->principal, ACCESS_LIST, about->uri)) {
        return 1;
    }
    *last = uri;
    struct tidings_resource row = {.uri = uri,
                                   .name = tidings_strn(uri.ptr + begin, (size_t)slash),
                                   .mime_type = STR("inode/directory"),
                                   .listable = true};
    return tidings_list_add(&l->list, &row, NULL);
}

/* Everything below the parent is contiguous in the sorted list of registered resources. */
static void list_registered(struct hierarchy_request *l)
{
    struct tidings_str last = STR_EMPTY;
    const struct catalog *catalog = l->request->worker->catalog;
    struct tidings_str after = l->list.after.len > 0 ? l->list.after : l->uri;
    struct entries_position at = entries_after(&catalog->resources, after);
    for (struct catalog_entry *e; (e = entries_next(&catalog->resources, &at)) != NULL;) {
        const struct tidings_resource *about = e->about;
        if (!str_starts(about->uri, l->uri)) {
            break;
        }
        int rc = is_child(l->uri, about->uri) ? tidings_list_add(&l->list, about, NULL)
                 : l->list.is_bare            ? list_skill_directory(l, about, &last)
                                              : 1;
        if (rc <= 0) {
            break; /* full; or it failed, which sticks in the buffer and fails the answer */
        }
    }
    children_listed(l);
}

static void run_children(struct job *job)
{
    struct hierarchy_request *l = job->user;
    l->children->children(l->children->user, &l->list, l->uri);
}

/* Ask the program, if it lists what is below this registered container. */
static bool list_by_program(struct hierarchy_request *l)
{
    struct worker *worker = l->request->worker;
    struct feature *f = feature_find(worker->handlers->features[FEATURE_CHILDREN], l->uri);
    if (!f) {
        return false;
    }
    l->children = feature_ref(f);
    l->list.below = l->uri;
    job_init(&l->list.base, worker, children_done, l, l->uri);
    request_begin_job(l->request, &l->list.base);
    job_start(&l->list.base, NULL, run_children);
    return true;
}

static void method_list_children(struct hierarchy_request *l)
{
    struct request *request = l->request;
    struct tidings_str uri = arena_dup(&request->arena, l->stat.about.uri);
    bool listable = l->stat.about.listable;
    job_free_stat(&l->stat);
    if (!uri.ptr) {
        request_fail(request, TIDINGS_E_NOMEM, l->as_requested, "out of memory");
        return;
    }
    if (!listable) {
        request_fail_reason(request, TIDINGS_E_NOTFOUND, l->as_requested, STR("not_listable"),
                            "this resource has no children");
        return;
    }
    l->uri = uri; /* in its provider's spelling */
    struct tidings_str after, parent;
    if (!page_read_cursor(request, "c", NULL, &after)) {
        return;
    }
    parent = str_cut(after, '\n', &after, NULL);
    if (parent.len > 0 && !str_eq(parent, uri)) {
        request_fail(request, TIDINGS_E_INVALID, l->as_requested,
                     "params.cursor belongs to another resource");
        return;
    }
    l->list.after = after;
    l->list.wanted = l->wanted;
    l->list.principal = request->principal;
    l->list.w = &request->w;
    /* SEP-2640 writes directories of skills this way. */
    l->list.is_bare = str_eq(request->msg.method, STR("resources/directory/read")) &&
                      str_starts(uri, STR(SKILL_SCHEME ":"));
    buf_init(&l->list.last, URI_MAX * 3);
    request_begin(request);
    jw_key(&request->w, STR("resources"));
    jw_begin_array(&request->w);
    if (!l->hit.provider) {
        if (!list_by_program(l)) {
            list_registered(l);
        }
        return;
    }
    job_init(&l->list.base, request->worker, children_done, l, l->uri);
    request_begin_job(request, &l->list.base);
    job_children(&l->list, l->hit.provider);
}

void method_resources_children(struct request *request)
{
    size_t wanted = page_size(request);
    if (wanted > 0) {
        method_hierarchy_find(request, wanted, method_list_children);
    }
}

/* -------------------------------------------------------------------------------------------------
 * completion/complete: values for an argument of a prompt or a variable of a template, from the
 * function that the application registered, or from the provider of the mount.
 *
 * Unknown prompts, templates, arguments and variables are errors. Known ones without a completion
 * function have no suggestions.
 */

#define MAX_VALUES 100u /* the protocol's */
#define QUOTED_MAX 128  /* bytes of a client's string in an error message */

struct completing {
    struct tidings_complete complete;
    struct request *request;
    struct feature *feature; /* a reference; NULL: a provider, or no suggestions */
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

/* Asks the completion function of the prompt or template; without one there are no suggestions. */
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

/* The error in the parameters; NULL: none. */
static const char *method_complete_check(struct json *params)
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

/* The listed form of a template, whichever alias it is written with. */
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
    const char *wrong = method_complete_check(params);
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

/* -------------------------------------------------------------------------------------------------
 * Whether a suggestion leads to a resource that the principal may list. With all variables known
 * the URI decides; else the part before the first unknown one does, if it contains the suggestion.
 */

/* The next name of an expression without its modifiers; `rest` is what is between the braces. */
static struct tidings_str next_name(struct tidings_str *rest)
{
    struct tidings_str name = str_cut(*rest, ',', rest, NULL), modifier;
    name = str_trim(str_cut(name, ':', &modifier, NULL), "+#./;?&");
    return str_trim(name, "*");
}

static bool is_known(const struct tidings_complete *c, struct tidings_str name)
{
    return str_eq(name, c->name) || jv_is(jv_get_str(c->context, name), JV_STRING);
}

/* Returns the length of the template before the first unknown variable; `has_own`: it contains the
 * suggestion. */
static size_t known_part(const struct tidings_complete *c, struct tidings_str text, bool *has_own)
{
    size_t at = 0;
    *has_own = false;
    while (at < text.len) {
        ptrdiff_t open = str_find(str_skip(text, at), '{');
        ptrdiff_t close = open < 0 ? -1 : str_find(str_skip(text, at + (size_t)open), '}');
        if (close < 0) {
            return text.len;
        }
        size_t begin = at + (size_t)open;
        struct tidings_str rest = tidings_strn(text.ptr + begin + 1, (size_t)close - 1);
        bool is_own = false;
        while (rest.len > 0) {
            struct tidings_str name = next_name(&rest);
            if (!is_known(c, name)) {
                return begin;
            }
            is_own = is_own || str_eq(name, c->name);
        }
        *has_own = *has_own || is_own;
        at = begin + (size_t)close + 1;
    }
    return text.len;
}

static int completion_access_expand(const struct tidings_complete *c, struct tidings_str text,
                                    struct tidings_str value, struct buf *out)
{
    struct template_variable known[TEMPLATE_MAX_VARIABLES];
    struct uri_template *t = NULL;
    size_t count = 0;
    int rc = template_create(text, &t, NULL);
    for (size_t i = 0; rc == 0 && i < template_variable_count(t); i++) {
        struct tidings_str name = template_variable(t, i);
        known[count++] = (struct template_variable){
            .name = name,
            .type = TEMPLATE_STRING,
            .string = str_eq(name, c->name) ? value : jv_str(jv_get_str(c->context, name)),
        };
    }
    rc = rc == 0 ? template_expand(t, known, count, out, NULL) : rc;
    template_destroy(t);
    return rc;
}

bool completion_access_allows(const struct tidings_complete *c, struct tidings_str value)
{
    struct tidings_str text = c->base.uri;
    if (text.len == 0) {
        return true; /* of a prompt */
    }
    bool has_own;
    size_t known = known_part(c, text, &has_own);
    bool is_whole = known == text.len;
    struct buf expanded, uri;
    buf_init(&expanded, URI_MAX * 3);
    buf_init(&uri, URI_MAX * 3);
    bool may = has_own &&
               completion_access_expand(c, tidings_strn(text.ptr, known), value, &expanded) == 0;
    if (may && is_whole) {
        may = uri_canonical(buf_str(&expanded), &uri, NULL) == 0 &&
              access_allows(c->principal, ACCESS_LIST, buf_str(&uri));
    } else if (may) {
        buf_putc(&expanded, '{'); /* and whatever follows */
        may = !expanded.failed && access_reaches(c->principal, ACCESS_LIST, buf_str(&expanded));
    }
    buf_deinit(&expanded);
    buf_deinit(&uri);
    return may;
}

/* ---------------------------------------------------------------------------------------------- */

#define LAST_URI_MAX (URI_MAX * 8u)

enum cursor_source {
    FROM_REGISTERED = 'r',
    FROM_MOUNT = 'm',
    FROM_TEMPLATE = 't',
};

struct cursor {
    enum cursor_source source;
    struct tidings_str after; /* in the arena; empty: from the beginning */
};

/* false: the request was answered. */
static bool read_cursor(struct request *request, const char *sources, struct cursor *ret)
{
    char source = sources[0];
    bool good = page_read_cursor(request, sources, &source, &ret->after);
    ret->source = (enum cursor_source)source;
    return good;
}

/* ---- resources/list -------------------------------------------------------------------------- */

struct listing {
    struct tidings_list list;
    struct request *request;
    struct catalog *catalog; /* a reference: pages of one answer come from one snapshot */
    size_t mount;
    size_t before;             /* rows when the mount was asked */
    enum cursor_source source; /* of list.last */
};

static void listing_end(struct listing *l)
{
    struct request *request = l->request;
    jw_end_array(&request->w);
    if (l->list.last.failed) {
        request->out.failed = l->list.last.failed; /* no memory for the cursor: no answer */
    }
    if (l->list.full) {
        page_write_cursor(&request->w, (char)l->source, buf_str(&l->list.last));
    }
    buf_deinit(&l->list.last);
    catalog_unref(l->catalog);
    request_end_job(request);
    request_end(request, CACHE_NOW);
}

static void listing_fail(struct listing *l, const struct tidings_error *err)
{
    struct request *request = l->request;
    struct tidings_error copy = *err;
    buf_deinit(&l->list.last);
    catalog_unref(l->catalog);
    request_end_job(request);
    request_fail_err(request, &copy, STR_EMPTY);
}

static void next_mount(struct listing *l);

static void mount_listed(struct job *job)
{
    struct listing *l = job->user;
    if (job->code < 0) {
        listing_fail(l, &job->err);
        return;
    }
    if (l->list.count > l->before) {
        l->source = FROM_MOUNT;
    }
    l->mount++;
    l->list.after = STR_EMPTY;
    next_mount(l);
}

static void next_mount(struct listing *l)
{
    struct request *request = l->request;
    if (l->list.full || l->mount >= l->catalog->mount_count || request->cancelled) {
        listing_end(l);
        return;
    }
    l->before = l->list.count;
    job_init(&l->list.base, request->worker, mount_listed, l, STR_EMPTY);
    request_begin_job(request, &l->list.base);
    job_list(&l->list, l->catalog->mounts[l->mount]);
}

/* The mount a cursor points into. */
static bool method_resources_find_mount(struct listing *l, struct tidings_str after)
{
    for (size_t i = l->catalog->mount_count; i-- > 0;) {
        if (uri_is_within(after, l->catalog->mounts[i]->prefix)) {
            l->mount = i;
            l->list.after = after;
            return true;
        }
    }
    return false;
}

void method_resources_list(struct request *request)
{
    struct json *parent = jv_get(request->msg.params, "uri");
    if (parent && !(jv_is(parent, JV_STRING) && jv_str(parent).len == 0)) {
        method_resources_children(request);
        return;
    }
    struct cursor cursor;
    size_t wanted = page_size(request);
    if (wanted == 0 || !read_cursor(request, "rm", &cursor)) {
        return;
    }
    if (request->session) {
        request->session->group->has_listed = true;
    }
    struct listing *l = arena_alloc(&request->arena, sizeof(*l));
    if (!l) {
        request_fail(request, TIDINGS_E_NOMEM, STR_EMPTY, "out of memory");
        return;
    }
    l->request = request;
    l->catalog = catalog_ref(request->worker->catalog);
    l->list.wanted = wanted;
    l->list.principal = request->principal;
    l->list.w = &request->w;
    buf_init(&l->list.last, LAST_URI_MAX);
    if (cursor.source == FROM_MOUNT && !method_resources_find_mount(l, cursor.after)) {
        struct tidings_error err;
        tidings_fail(&err, TIDINGS_E_INVALID,
                     "params.cursor points to a removed mount; retry without it");
        listing_fail(l, &err);
        return;
    }
    request_begin(request);
    jw_key(&request->w, STR("resources"));
    jw_begin_array(&request->w);
    if (cursor.source == FROM_REGISTERED) {
        const struct entries *rows = &l->catalog->resources;
        struct entries_position at = entries_after(rows, cursor.after);
        struct catalog_entry *e;
        while (!l->list.full && (e = entries_next(rows, &at)) != NULL) {
            if (tidings_list_add(&l->list, e->about, NULL) < 0) {
                break; /* sticks in the buffer and fails the answer */
            }
        }
        l->source = FROM_REGISTERED;
    }
    next_mount(l);
}

/* ---- resources/templates/list ---------------------------------------------------------------- */

static void write_template(struct jw *w, const struct tidings_resource *about)
{
    jw_begin_object(w);
    resource_write_members(w, STR("uriTemplate"), about);
    jw_end_object(w);
}

/* Writes the resources that a mount can produce, as a template. */
static void write_mount_template(struct request *request, const struct tidings_provider *p)
{
    struct buf text;
    buf_init(&text, LAST_URI_MAX);
    buf_puts(&text, p->prefix);
    buf_puts(&text, STR("{+path}"));
    struct tidings_resource about = {0};
    about.uri = buf_str(&text);
    about.name = tidings_str(p->ops->name);
    about.description = STR("Anything below this prefix, by its path");
    about.listable = true;
    if (access_reaches(request->principal, ACCESS_LIST, about.uri)) {
        write_template(&request->w, &about);
    }
    buf_deinit(&text);
}

static bool lists_paths(const struct request *request)
{
    return dialect_rules_in(request->worker->self, request->era)->lists_paths;
}

/* A template of a mount with `alias` in place of its prefix. */
static void write_alias_template(struct request *request, const struct tidings_provider *p,
                                 const struct tidings_resource *own, struct tidings_str alias)
{
    struct tidings_resource about = *own;
    struct buf text;
    buf_init(&text, LAST_URI_MAX);
    buf_puts(&text, alias);
    buf_puts(&text, str_skip(own->uri, p->prefix.len));
    about.uri = buf_str(&text);
    write_template(&request->w, &about);
    buf_deinit(&text);
}

/* A template of a mount, and the same with its absolute URIs. */
static void write_own_template(struct request *request, const struct tidings_provider *p,
                               const struct tidings_resource *own)
{
    if (!access_reaches(request->principal, ACCESS_LIST, own->uri)) {
        return;
    }
    const struct tidings_str *path = NULL, *absolute = NULL;
    for (unsigned i = 0; i < p->alias_count; i++) {
        bool is_path = p->aliases[i].from.ptr[0] == '/';
        path = is_path ? &p->aliases[i].from : path;
        absolute = is_path ? absolute : &p->aliases[i].from;
    }
    if (lists_paths(request) && (absolute || path)) {
        write_alias_template(request, p, own, absolute ? *absolute : *path);
        return;
    }
    write_template(&request->w, own);
    if (absolute) {
        write_alias_template(request, p, own, *absolute);
    }
}

void method_resources_templates_list(struct request *request)
{
    struct cursor cursor = {.after = STR_EMPTY};
    size_t wanted = lists_paths(request) ? SIZE_MAX : page_size(request);
    if (wanted == 0 || (wanted < SIZE_MAX && !read_cursor(request, "t", &cursor))) {
        return;
    }
    const struct catalog *catalog = request->worker->catalog;
    size_t count = 0;
    struct tidings_str last = STR_EMPTY;
    bool full = false;
    request_begin(request);
    jw_key(&request->w, STR("resourceTemplates"));
    jw_begin_array(&request->w);
    struct entries_position at = entries_after(&catalog->templates, cursor.after);
    for (struct catalog_entry *e; !full && (e = entries_next(&catalog->templates, &at)) != NULL;) {
        const struct tidings_resource *about = e->about;
        bool may = access_reaches(request->principal, ACCESS_LIST, about->uri);
        full = may && count == wanted;
        if (may && !full) {
            write_template(&request->w, about);
            last = about->uri;
            count++;
        }
    }
    /* The few templates of mounts follow on the last page, except for mounts that are not listed or
     * are a single resource. */
    for (size_t i = 0; i < catalog->mount_count && !full; i++) {
        const struct tidings_provider_ops *ops = catalog->mounts[i]->ops;
        const struct tidings_resource *own = ops->templates;
        for (; own && own->uri.len > 0; own++) {
            write_own_template(request, catalog->mounts[i], own);
        }
        if (!own && ops->list && !(ops->flags & TIDINGS_PROVIDER_SINGLE)) {
            write_mount_template(request, catalog->mounts[i]);
        }
    }
    jw_end_array(&request->w);
    if (full) {
        page_write_cursor(&request->w, FROM_TEMPLATE, last);
    }
    request_end(request, CACHE_NOW);
}
