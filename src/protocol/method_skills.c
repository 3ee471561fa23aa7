/* SPDX-License-Identifier: MIT
 *
 * skills/list and skills/get (SEP-2640): the skills among the resources of the scheme `skill`.
 *
 * A page of the list is found first, as the URIs of files called SKILL.md in the order of
 * resources/list (what is registered, then each mount), and then told entry by entry. A page ends
 * early when it is large or much had to be read for it, so that no request takes long: the next one
 * goes on behind the last skill that was told. A SKILL.md that makes no skill is left out, and the
 * log says once why.
 */
#include "access/access.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "catalog/catalog.h"
#include "catalog/job.h"
#include "catalog/skill_cache.h"
#include "protocol/method.h"
#include "protocol/skill_entry.h"
#include "request/page.h"
#include "uri/uri.h"

#define SKILLS_PER_PAGE 64u
#define SKILLS_PAGE_BYTES (1u << 20) /* of entries … */
#define SKILLS_READ_BYTES (8u << 20) /* … and of files read for them, after which a page ends */

enum skills_source { SKILLS_REGISTERED = 'r', SKILLS_MOUNTED = 'm' };

struct skills_page {
    struct tidings_list list;
    struct skill_entry entry;
    struct request *request;
    struct catalog *catalog; /* a reference */
    size_t mount;
    struct tidings_str after; /* in the arena of the request: the cursor */
    size_t wanted, found, told;
    char *uris[SKILLS_PER_PAGE];
    enum skills_source sources[SKILLS_PER_PAGE];
    bool is_cut; /* there may be more */
    bool is_busy, goes_on;
    uint64_t bytes_read;
    int code;
    struct tidings_error err;
};

static void skills_run(struct skills_page *p);

static void skills_end(struct skills_page *p)
{
    struct request *request = p->request;
    struct tidings_error err = p->err;
    int code = p->code;
    bool is_cut = p->is_cut || p->told < p->found;
    if (code == 0) {
        jw_end_array(&request->w);
    }
    if (code == 0 && is_cut && p->told > 0) {
        page_write_cursor(&request->w, (char)p->sources[p->told - 1],
                          tidings_str(p->uris[p->told - 1]));
    }
    for (size_t i = 0; i < p->found; i++) {
        mem_free(p->uris[i]);
    }
    catalog_unref(p->catalog);
    if (code < 0) {
        request_fail_err(request, &err, STR_EMPTY);
    } else {
        request_end(request, CACHE_NOW);
    }
}

/* ---- finding --------------------------------------------------------------------------------- */

/* 1: go on, 0: the page is full. Of a mount without an authority the first directory is one, and if
 * it has capitals nobody can name it: skill_is_canonical. */
static int skills_found(struct skills_page *p, enum skills_source source, struct tidings_str uri)
{
    const struct principal *who = p->request->principal;
    if (skill_root(uri).len == 0 || str_cmp(uri, p->after) <= 0 || !skill_is_canonical(uri) ||
        !access_allows(who, ACCESS_LIST, uri) || !access_allows(who, ACCESS_READ, uri)) {
        return 1;
    }
    p->is_cut = p->found == p->wanted;
    char *copy = p->is_cut ? NULL : str_dup(uri);
    if (copy) {
        p->sources[p->found] = source;
        p->uris[p->found++] = copy;
    } else if (!p->is_cut) {
        p->code = tidings_fail(&p->err, TIDINGS_E_NOMEM, "out of memory");
    }
    return copy != NULL;
}

static int skills_on_row(struct tidings_list *list, const struct tidings_resource *row)
{
    struct skills_page *p = list->base.user;
    bool is_own = catalog_mount(p->catalog, row->uri) == list->base.provider &&
                  !entries_find(&p->catalog->resources, row->uri);
    return is_own ? skills_found(p, SKILLS_MOUNTED, row->uri) : 1;
}

static void skills_listed(struct job *job)
{
    struct skills_page *p = job->user;
    request_end_job(p->request);
    if (job->code < 0 && p->code == 0) {
        p->code = tidings_fail(&p->err, job->code, "%s", job->err.text);
    }
    p->after = STR_EMPTY;
    p->goes_on = true;
    skills_run(p);
}

/* Ask the next mount of the scheme. False: there is none, or the page is full. */
static bool skills_list_next(struct skills_page *p)
{
    for (; !p->is_cut && p->mount < p->catalog->mount_count; p->mount++) {
        struct tidings_provider *provider = p->catalog->mounts[p->mount];
        if (!provider->ops->list || !str_starts(provider->prefix, STR(SKILL_SCHEME ":"))) {
            continue;
        }
        memset(&p->list, 0, sizeof(p->list));
        job_init(&p->list.base, p->request->worker, skills_listed, p, STR_EMPTY);
        p->list.principal = p->request->principal;
        p->list.on_row = skills_on_row;
        p->list.after = p->after;
        p->mount++;
        request_begin_job(p->request, &p->list.base);
        job_list(&p->list, provider);
        return true;
    }
    return false;
}

/* The mount that a cursor points into, and where in it. */
static bool skills_find_mount(struct skills_page *p)
{
    for (size_t i = p->catalog->mount_count; i-- > 0;) {
        if (uri_is_within(p->after, p->catalog->mounts[i]->prefix)) {
            p->mount = i;
            return true;
        }
    }
    return false;
}

static void skills_find_registered(struct skills_page *p)
{
    const struct entries *rows = &p->catalog->resources;
    struct tidings_str scheme = STR(SKILL_SCHEME ":");
    struct entries_position at = entries_after(rows, p->after.len > 0 ? p->after : scheme);
    for (struct catalog_entry *e; (e = entries_next(rows, &at)) != NULL;) {
        if (!str_starts(e->about->uri, scheme) ||
            skills_found(p, SKILLS_REGISTERED, e->about->uri) == 0) {
            break;
        }
    }
    p->after = STR_EMPTY;
}

/* ---- telling --------------------------------------------------------------------------------- */

static void skills_warn(struct request *request, const struct skill_entry *e)
{
    bool is_gone = e->code == TIDINGS_E_NOTFOUND || e->code == TIDINGS_E_CANCELLED;
    if (!is_gone && !skill_cache_said(request->worker, e->uri, tidings_str(e->err.text))) {
        log_warn(LOG_PROVIDER, "a SKILL.md is no skill", KV("uri", e->uri),
                 KV("reason", e->err.text));
    }
}

static void skills_described(struct skill_entry *e)
{
    struct skills_page *p = e->user;
    if (e->code == 0) {
        jw_raw(&p->request->w, buf_str(&e->json));
    } else if (e->code == TIDINGS_E_BUSY || e->code == TIDINGS_E_NOMEM) {
        /* Without it the list would say that it is gone. */
        p->code = tidings_fail(&p->err, e->code, "%s", e->err.text);
    } else {
        skills_warn(p->request, e);
    }
    p->bytes_read += e->bytes_read;
    p->told++;
    skill_entry_deinit(e);
    p->goes_on = true;
    skills_run(p);
}

/* Make the entry of the next skill. False: the page is over. */
static bool skills_describe_next(struct skills_page *p)
{
    if (p->told == p->found || p->request->cancelled || p->bytes_read >= SKILLS_READ_BYTES ||
        p->request->out.len >= SKILLS_PAGE_BYTES) {
        return false;
    }
    memset(&p->entry, 0, sizeof(p->entry));
    p->entry.request = p->request;
    p->entry.uri = tidings_str(p->uris[p->told]);
    p->entry.done = skills_described;
    p->entry.user = p;
    skill_entry_start(&p->entry);
    return true;
}

/* The steps one after the other: whatever is done at once sets goes_on and comes back here, which
 * takes no more stack for many. */
static void skills_run(struct skills_page *p)
{
    if (p->is_busy) {
        return;
    }
    while (p->goes_on) {
        p->goes_on = false;
        p->is_busy = true;
        bool is_over = p->code < 0 || (!skills_list_next(p) && !skills_describe_next(p));
        p->is_busy = false;
        if (is_over) {
            skills_end(p);
            return;
        }
    }
}

void method_skills_list(struct request *request)
{
    size_t wanted = page_size(request);
    char source = SKILLS_REGISTERED;
    struct tidings_str after;
    if (wanted == 0 || !page_read_cursor(request, "rm", &source, &after)) {
        return;
    }
    struct skills_page *p = arena_alloc(&request->arena, sizeof(*p));
    if (!p) {
        request_fail(request, TIDINGS_E_NOMEM, STR_EMPTY, "out of memory");
        return;
    }
    memset(p, 0, sizeof(*p));
    p->request = request;
    p->catalog = catalog_ref(request->worker->catalog);
    p->after = after;
    p->wanted = wanted < SKILLS_PER_PAGE ? wanted : SKILLS_PER_PAGE;
    if (source == SKILLS_MOUNTED && !skills_find_mount(p)) {
        p->code = tidings_fail(&p->err, TIDINGS_E_INVALID,
                               "params.cursor points to a mount that is not served any more; begin "
                               "again without it");
        skills_end(p);
        return;
    }
    request_begin(request);
    jw_key(&request->w, STR("skills"));
    jw_begin_array(&request->w);
    if (source == SKILLS_REGISTERED) {
        skills_find_registered(p);
    }
    p->goes_on = true;
    skills_run(p);
}

/* ---- one skill ------------------------------------------------------------------------------- */

struct skills_getting {
    struct skill_entry entry;
    struct tidings_str spelled;
};

static void skills_refuse(struct request *request, struct tidings_str spelled, const char *why)
{
    request_note_denial(request, TIDINGS_E_NOTFOUND, spelled);
    request_fail_rpc(request, RPC_INVALID_PARAMS, spelled, "no skill is served at '%.*s'%s%s",
                     STR_ARG_MAX(spelled, 200), why[0] ? ": " : "", why);
}

static void skills_got(struct skill_entry *e)
{
    struct skills_getting *g = e->user;
    struct request *request = e->request;
    if (e->code == 0) {
        request_begin(request);
        jw_put_raw(&request->w, STR("skill"), buf_str(&e->json));
        skill_entry_deinit(e);
        request_end(request, CACHE_NOW);
        return;
    }
    struct tidings_error err = e->err;
    skill_entry_deinit(e);
    if (err.code == TIDINGS_E_NOTFOUND) {
        skills_refuse(request, g->spelled, "");
    } else if (err.code == TIDINGS_E_PARSE || err.code == TIDINGS_E_LIMIT) {
        skills_refuse(request, g->spelled, err.text);
    } else {
        request_fail_err(request, &err, g->spelled);
    }
}

void method_skills_get(struct request *request)
{
    struct json *param = jv_get(request->msg.params, "uri");
    struct skills_getting *g = arena_alloc(&request->arena, sizeof(*g));
    if (!jv_is(param, JV_STRING) || !g) {
        request_fail(request, g ? TIDINGS_E_INVALID : TIDINGS_E_NOMEM, STR_EMPTY,
                     g ? "params.uri must be a string" : "out of memory");
        return;
    }
    struct buf canonical;
    struct tidings_error err;
    memset(g, 0, sizeof(*g));
    g->spelled = jv_str(param);
    buf_init(&canonical, URI_MAX * 3);
    int rc = catalog_canonical(request->worker->catalog, g->spelled, false, &canonical, &err);
    g->entry.uri = rc < 0 ? STR_EMPTY : arena_dup(&request->arena, buf_str(&canonical));
    buf_deinit(&canonical);
    if (rc < 0 || !g->entry.uri.ptr) {
        skills_refuse(request, g->spelled, rc < 0 ? err.text : "out of memory");
        return;
    }
    g->entry.request = request;
    g->entry.done = skills_got;
    g->entry.user = g;
    skill_entry_start(&g->entry);
}
