/* SPDX-License-Identifier: MIT
 *
 * resources/list and resources/templates/list.
 *
 * The list is flat: registered resources by URI, then each mount in order of its prefix, each in
 * ascending byte order. A cursor is the source and the last URI, base64url: it survives restarts
 * and needs no memory. It is a stranger's input like any other.
 */
#include "access/access.h"
#include "base/str.h"
#include "catalog/job.h"
#include "catalog/resource.h"
#include "protocol/method.h"
#include "protocol/session.h"
#include "uri/uri.h"

#define CURSOR_MAX (URI_MAX * 8u)

enum cursor_source {
    FROM_REGISTERED = 'r',
    FROM_MOUNT = 'm',
    FROM_TEMPLATE = 't',
};

struct cursor {
    enum cursor_source source;
    struct tidings_str after; /* in the arena; empty: from the beginning */
};

/* Reads params.cursor; answers the request and returns false when it is not one of ours. */
static bool read_cursor(struct request *request, const char *sources, struct cursor *ret)
{
    ret->source = (enum cursor_source)sources[0];
    ret->after = STR_EMPTY;
    struct json *given = jv_get(request->msg.params, "cursor");
    if (!given || (jv_is(given, JV_STRING) && jv_str(given).len == 0)) {
        return true;
    }
    struct buf text;
    buf_init(&text, CURSOR_MAX);
    bool good = jv_is(given, JV_STRING) && base64url_decode(&text, jv_str(given)) == 0 &&
                text.len > 1 && text.ptr[0] != '\0' && strchr(sources, text.ptr[0]) &&
                str_is_utf8(buf_str(&text));
    if (good) {
        ret->source = (enum cursor_source)text.ptr[0];
        ret->after = arena_dup(&request->arena, str_skip(buf_str(&text), 1));
        good = ret->after.ptr != NULL;
    }
    buf_deinit(&text);
    if (!good) {
        request_fail(request, TIDINGS_E_INVALID, STR_EMPTY,
                     "params.cursor is not one this server gave out; begin again without it");
    }
    return good;
}

void method_write_cursor(struct jw *w, char source, struct tidings_str last)
{
    struct buf text, coded;
    buf_init(&text, CURSOR_MAX);
    buf_init(&coded, CURSOR_MAX * 2);
    buf_putc(&text, source);
    buf_puts(&text, last);
    base64url_put(&coded, buf_str(&text));
    jw_put_string(w, STR("nextCursor"), buf_str(&coded));
    if (text.failed || coded.failed) {
        w->out->failed = TIDINGS_E_NOMEM; /* half a cursor is none */
    }
    buf_deinit(&text);
    buf_deinit(&coded);
}

size_t method_page_size(struct request *request)
{
    const struct worker_limits *limits = request->worker->limits;
    static const char *const names[] = {"pageSize", "limit"};
    for (size_t i = 0; i < 2; i++) {
        struct json *hint = jv_get(request->msg.params, names[i]);
        if (!hint) {
            continue;
        }
        if (!jv_is(hint, JV_INT) || jv_int(hint) < 1) {
            request_fail(request, TIDINGS_E_INVALID, STR_EMPTY,
                         "params.%s must be an integer from 1 to %zu", names[i],
                         limits->max_page_size);
            return 0;
        }
        uint64_t n = (uint64_t)jv_int(hint);
        return n < limits->max_page_size ? (size_t)n : limits->max_page_size;
    }
    return limits->page_size;
}

bool method_read_cursor(struct request *request, const char *sources, struct tidings_str *ret)
{
    struct cursor cursor;
    bool good = read_cursor(request, sources, &cursor);
    *ret = good ? cursor.after : STR_EMPTY;
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
        method_write_cursor(&request->w, (char)l->source, buf_str(&l->list.last));
    }
    buf_deinit(&l->list.last);
    catalog_unref(l->catalog);
    request_asked(request);
    request_end(request, CACHE_NOW);
}

static void listing_fail(struct listing *l, const struct tidings_error *err)
{
    struct request *request = l->request;
    struct tidings_error copy = *err;
    buf_deinit(&l->list.last);
    catalog_unref(l->catalog);
    request_asked(request);
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
    request_asks(request, &l->list.base);
    job_list(&l->list, l->catalog->mounts[l->mount]);
}

/* The mount a cursor points into. */
static bool find_mount(struct listing *l, struct tidings_str after)
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
    size_t wanted = method_page_size(request);
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
    l->list.who = request->who;
    l->list.w = &request->w;
    buf_init(&l->list.last, CURSOR_MAX);
    if (cursor.source == FROM_MOUNT && !find_mount(l, cursor.after)) {
        struct tidings_error err;
        tidings_fail(&err, TIDINGS_E_INVALID,
                     "params.cursor points to a place that is not served any more; begin again "
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
    buf_init(&text, CURSOR_MAX);
    buf_puts(&text, p->prefix);
    buf_puts(&text, STR("{+path}"));
    struct tidings_resource about;
    tidings_resource_init(&about);
    about.uri = buf_str(&text);
    about.name = tidings_str(p->ops->name);
    about.description = STR("Anything below this prefix, by its path");
    about.listable = true;
    if (access_reaches(request->who, ACCESS_LIST, about.uri)) {
        write_template(&request->w, &about);
    }
    buf_deinit(&text);
}

void method_resources_templates_list(struct request *request)
{
    struct cursor cursor;
    size_t wanted = method_page_size(request);
    if (wanted == 0 || !read_cursor(request, "t", &cursor)) {
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
        bool may = access_reaches(request->who, ACCESS_LIST, about->uri);
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
            if (access_reaches(request->who, ACCESS_LIST, own->uri)) {
                write_template(&request->w, own);
            }
        }
        if (!own && ops->list && !(ops->flags & TIDINGS_PROVIDER_SINGLE)) {
            write_mount_template(request, catalog->mounts[i]);
        }
    }
    jw_end_array(&request->w);
    if (full) {
        method_write_cursor(&request->w, FROM_TEMPLATE, last);
    }
    request_end(request, CACHE_NOW);
}
