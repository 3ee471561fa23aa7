/* SPDX-License-Identifier: MIT
 *
 * resources/metadata, and the direct children of one resource: resources/list with `uri`
 * (SEP-2093), alias resources/directory/read (SEP-2640). Two names, one function.
 *
 * The children of a registered container are the registered resources directly below its URI: those
 * that have one segment more; or what the program lists (tidings_server_on_children). A provider
 * knows its own; of one that only lists, everything below the URI is, in one go.
 *
 * Below `skill:` the directories of what is registered are containers without being registered:
 * SEP-2640 has every directory of a skill listed.
 *
 * A cursor of children is bound to its parent: "c", the parent, a line break, the last child.
 */
#include "access/access.h"
#include "base/str.h"
#include "catalog/job.h"
#include "catalog/resource.h"
#include "handler/handlers.h"
#include "protocol/method.h"
#include "request/page.h"
#include "uri/skill.h"
#include "uri/uri.h"

/* A request for the metadata or the children of one resource. */
struct hierarchy_request {
    struct tidings_stat stat;
    struct tidings_list list;
    struct catalog_hit hit;
    struct request *request;
    struct feature *children;        /* a reference: the program lists them; or NULL */
    struct tidings_str spelled, uri; /* in the arena */
    size_t wanted;
    void (*found)(struct hierarchy_request *l);
};

static void method_list_children(struct hierarchy_request *l);

/* A mount of a provider that lists what it has and knows no children: below it is all of that. */
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
        request_fail_job(request, job, l->spelled, STR_EMPTY);
        return;
    }
    l->found(l);
}

/* Is there something of a skill registered below what is asked for, which its client may know of?
 */
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

/* Find and describe what `params.uri` names; `found` goes on, or the request is answered. */
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
    l->spelled = jv_str(param);
    int rc = catalog_canonical(request->worker->catalog, l->spelled, false, &canonical, &err);
    l->uri = rc < 0 ? STR_EMPTY : arena_dup(&request->arena, buf_str(&canonical));
    buf_deinit(&canonical);
    if (rc < 0) {
        request_fail_err(request, &err, l->spelled);
        return;
    }
    if (!l->uri.ptr) {
        request_fail(request, TIDINGS_E_NOMEM, l->spelled, "out of memory");
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
        request_fail(request, TIDINGS_E_NOTFOUND, l->spelled, "resource not found");
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
        about.uri = l->spelled;
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
        request->out.failed = l->list.last.failed; /* no memory for where to go on: no answer */
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
        request_fail_err(request, &err, l->spelled);
        return;
    }
    children_listed(l);
}

/* Is `uri`, which begins with `parent`, one segment longer? */
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

/* The directory of a skill that the registered `about` is in, directly below the parent; one that
 * follows from the entry before, too, is told once. 1, 0 when the page is full, or a failure. */
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

/* Everything below the parent lies together in the sorted list of what is registered. */
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
        request_fail(request, TIDINGS_E_NOMEM, l->spelled, "out of memory");
        return;
    }
    if (!listable) {
        request_fail_reason(request, TIDINGS_E_NOTFOUND, l->spelled, STR("not_listable"),
                            "this resource has no children");
        return;
    }
    l->uri = uri; /* as its provider spells it */
    struct tidings_str after, parent;
    if (!page_read_cursor(request, "c", NULL, &after)) {
        return;
    }
    parent = str_cut(after, '\n', &after, NULL);
    if (parent.len > 0 && !str_eq(parent, uri)) {
        request_fail(request, TIDINGS_E_INVALID, l->spelled,
                     "params.cursor belongs to another resource");
        return;
    }
    l->list.after = after;
    l->list.wanted = l->wanted;
    l->list.principal = request->principal;
    l->list.w = &request->w;
    /* SEP-2640 writes directories of skills so. */
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
