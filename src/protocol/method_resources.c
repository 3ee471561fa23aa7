/* SPDX-License-Identifier: MIT
 *
 * resources/list and resources/templates/list.
 *
 * The list is flat: registered resources by URI, then each mount in order of its prefix, each in
 * ascending byte order.
 */
#include "access/access.h"
#include "base/str.h"
#include "catalog/job.h"
#include "catalog/resource.h"
#include "delivery/listen.h"
#include "protocol/method.h"
#include "protocol/session.h"
#include "request/page.h"
#include "uri/uri.h"

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
        request->out.failed = l->list.last.failed; /* no memory for where to go on: no answer */
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
        request->session->listen->has_listed = true;
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
                     "params.cursor points to a mount that is not served any more; begin again "
                     "without it");
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

/* What a mount can produce, as a template. */
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
    /* The few templates of mounts follow on the last page, but of what is not listed or is one. */
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
