/* SPDX-License-Identifier: MIT
 *
 * Reading a resource as plain bytes (with its own receiver, engine/catalog/job_read.h), and writing
 * it through its provider.
 */
#include "engine/catalog/resource_io.h"

#include "base/mem.h"
#include "base/str.h"
#include "engine/catalog/resource.h"
#include "engine/worker.h"
#include "formats/uri.h"
#include "security/client_account.h"
#include "store/change.h"

#define ARENA_MAX (1u << 16)
#define SCOPES_MAX 4096u

void resource_io_init(struct resource_io *p, struct worker *worker,
                      void (*done)(struct resource_io *p), void *user)
{
    memset(p, 0, sizeof(*p));
    p->worker = worker;
    p->done = done;
    p->user = user;
    p->size = -1;
    arena_init(&p->arena, ARENA_MAX);
}

void resource_io_deinit(struct resource_io *p)
{
    mem_free(p->about);
    mem_free(p->memory);
    payload_destroy(p->content);
    output_end(&p->output);
    principal_unref(p->held);
    client_account_release(p->account);
    arena_deinit(&p->arena);
}

void resource_io_cancel(struct resource_io *p)
{
    if (p->job) {
        job_cancel(p->job);
    }
}

static void resource_io_finish(struct resource_io *p)
{
    p->job = NULL;
    p->done(p);
}

static void resource_io_fail(struct resource_io *p, int code, const char *text)
{
    p->code = tidings_fail(&p->err, code, "%s", text);
    resource_io_finish(p);
}

/* ---- read ------------------------------------------------------------------------------------ */

static void resource_io_discard(struct tidings_read *read)
{
    struct resource_io *p = read->base.user;
    mem_free(p->about);
    mem_free(p->memory);
    payload_destroy(p->content);
    p->about = NULL;
    p->memory = NULL;
    p->content = NULL;
    p->etag = STR_EMPTY;
}

/* Runs on the provider's thread; no other thread uses the memory at that time. */
static int resource_io_keep(struct tidings_read *read, const struct read_element *e,
                            struct tidings_error *err)
{
    struct resource_io *p = read->base.user;
    if (p->about) {
        return 0; /* a container: clients can request its children separately */
    }
    size_t held = read->pieced ? read->pieced->held : e->bytes.len;
    int rc = held > PAYLOAD_LONG ? job_read_book(read, held, err) : 0;
    if (rc < 0) {
        return rc;
    }
    p->about = resource_dup(e->about);
    if (read->pieced) {
        p->content = read->pieced;
        read->pieced = NULL;
        payload_set_form(p->content, PAYLOAD_RAW);
    } else if (read->loaded && e->bytes.ptr == read->loaded && e->bytes.len > 0) {
        p->memory = read->loaded;
        read->loaded = NULL;
    } else {
        p->memory = mem_alloc(e->bytes.len + 1);
    }
    if (!p->about || (!p->memory && !p->content)) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    if (p->memory && e->bytes.ptr != p->memory && e->bytes.len > 0) {
        memcpy(p->memory, e->bytes.ptr, e->bytes.len);
    }
    p->len = e->bytes.len;
    p->is_text = e->is_text;
    p->is_part = e->is_part;
    p->from = e->from;
    p->size = e->about->has_size ? e->about->size : -1;
    p->etag = p->about->etag;
    return 0;
}

static const struct read_receiver receiver = {resource_io_keep, resource_io_discard};

static void list_done(struct job *job)
{
    struct resource_io *p = job->user;
    struct tidings_resource about = {0};
    about.uri = job->uri;
    about.name = STR("children");
    about.mime_type = STR("application/json");
    p->code = job->code;
    p->err = job->err;
    jw_end_array(&p->w);
    if (p->list.full) {
        jw_put_string(&p->w, STR("next"), buf_str(&p->list.last));
    }
    jw_end_object(&p->w);
    const struct buf *failed = p->page.failed ? &p->page : &p->list.last;
    if (p->code >= 0 && failed->failed) {
        p->code = buf_check(failed, "the page", "ask for fewer rows", &p->err);
    }
    if (p->code >= 0) {
        p->about = resource_dup(&about);
        p->memory = buf_detach(&p->page, &p->len);
        p->is_text = true;
    }
    if (p->code >= 0 && !p->about) {
        p->code = tidings_fail(&p->err, TIDINGS_E_NOMEM, "out of memory");
    }
    buf_deinit(&p->page);
    buf_deinit(&p->list.last);
    resource_io_finish(p);
}

static void start_list(struct resource_io *p, struct tidings_str uri)
{
    struct tidings_list *list = &p->list;
    memset(list, 0, sizeof(*list));
    job_init(&list->base, p->worker, list_done, p, uri);
    buf_init(&list->last, URI_MAX * 3);
    buf_init(&p->page, p->worker->limits->max_read_bytes);
    jw_init(&p->w, &p->page);
    jw_begin_object(&p->w);
    jw_key(&p->w, STR("resources"));
    jw_begin_array(&p->w);
    list->w = &p->w;
    list->principal = p->principal;
    list->after = p->after;
    list->wanted = p->worker->limits->page_size;
    p->job = &list->base;
    job_children(list, p->hit.provider);
}

static void resource_io_read_done(struct job *job)
{
    struct resource_io *p = job->user;
    const struct tidings_provider *provider = p->hit.provider;
    p->code = job->code;
    p->err = job->err;
    p->reason = p->read.reason;
    p->details = job_details(job);
    p->limit = p->read.refused;
    p->is_final = p->read.is_final;
    p->is_stale = p->read.is_stale;
    p->size = p->read.whole > 0 ? p->read.whole : p->size;
    p->unchanged = p->code >= 0 && p->read.unchanged;
    if (p->unchanged) {
        p->etag = p->read.held;
    } else if (p->code >= 0 && !p->about && provider && provider->ops->children) {
        if (access_allows(p->principal, ACCESS_LIST, job->uri)) {
            start_list(p, job->uri);
        } else {
            p->is_denied = true;
            resource_io_fail(p, TIDINGS_E_NOTFOUND, "resource not found");
        }
        return;
    } else if (p->code >= 0 && !p->about) {
        p->code = tidings_fail(&p->err, TIDINGS_E_INTERNAL, "the resource gave no content");
    }
    resource_io_finish(p);
}

static void start_read(struct resource_io *p, struct tidings_str uri)
{
    struct tidings_read *read = &p->read;
    if (p->options.format_count == 0) { /* one of several, whichever comes first */
        p->options.formats[p->options.format_count++] = STR("*/*");
    }
    memset(read, 0, sizeof(*read));
    job_init(&read->base, p->worker, resource_io_read_done, p, uri);
    read->receiver = &receiver;
    read->options = &p->options;
    read->principal = p->principal;
    read->own_only = true;
    read->raw = true;
    read->takes_pieces = true;
    read->output = &p->output;
    read->max_bytes = p->worker->limits->max_read_bytes;
    p->job = &read->base;
    job_read(read, &p->hit);
}

/* ---- write ----------------------------------------------------------------------------------- */

static void write_done(struct job *job)
{
    struct resource_io *p = job->user;
    p->code = job->code;
    p->err = job->err;
    p->details = job_details(job);
    p->limit = p->write.limit;
    if (p->code >= 0) {
        p->etag = arena_dup(&p->arena, buf_str(&p->write.etag));
        p->etag.len = p->etag.ptr ? p->etag.len : 0;
        p->memory = p->write.answer.failed ? NULL : buf_detach(&p->write.answer, &p->len);
    }
    buf_deinit(&p->write.etag);
    buf_deinit(&p->write.answer);
    resource_io_finish(p);
}

static void start_write(struct resource_io *p, struct tidings_str uri, enum resource_io_op op)
{
    struct tidings_write *write = &p->write;
    memset(write, 0, sizeof(*write));
    job_init(&write->base, p->worker, write_done, p, uri);
    write->principal = p->principal;
    write->account = p->account;
    write->bytes = p->bytes;
    write->mime_type = p->mime_type;
    write->if_match = p->if_match;
    write->if_absent = p->if_absent;
    write->query = p->query;
    write->metadata = p->metadata;
    write->traceparent = p->traceparent;
    write->is_removal = op == RESOURCE_IO_REMOVE;
    write->is_patch = op == RESOURCE_IO_PATCH;
    p->job = &write->base;
    job_write(write, p->hit.provider);
}

/* The current content's date is checked first; its etag ensures that it is unchanged when the write
 * comes. A missing resource has no date. */
static void on_date(struct job *job)
{
    struct resource_io *p = job->user;
    const struct tidings_resource *about = &p->stat.about;
    struct tidings_str uri = job->uri;
    int code = job->code == TIDINGS_E_NOTFOUND ? 0 : job->code;
    struct tidings_error err = job->err;
    if (job->code >= 0 && about->modified_ms / 1000 > p->unmodified_since) {
        code = tidings_fail(&err, TIDINGS_E_CONFLICT, "it was modified since");
    } else if (job->code >= 0 && about->etag.len > 0 && !str_starts(about->etag, STR("W/"))) {
        p->if_match = arena_dup(&p->arena, about->etag);
        code = p->if_match.ptr ? 0 : tidings_fail(&err, TIDINGS_E_NOMEM, "out of memory");
    }
    job_free_stat(&p->stat);
    if (code < 0) {
        resource_io_fail(p, code, err.text);
    } else {
        start_write(p, uri, p->op);
    }
}

static void start_stat(struct resource_io *p, struct tidings_str uri)
{
    struct tidings_stat *stat = &p->stat;
    memset(stat, 0, sizeof(*stat));
    job_init(&stat->base, p->worker, on_date, p, uri);
    stat->principal = p->principal;
    p->job = &stat->base;
    job_stat(stat, &p->hit);
}

/* ---- both ------------------------------------------------------------------------------------ */

static bool resource_io_may(struct resource_io *p, enum resource_io_op op, struct tidings_str uri)
{
    bool reads = op == RESOURCE_IO_READ;
    const struct catalog *c = p->worker->catalog;
    if (catalog_may_ask(c, p->principal, ACCESS_READ, uri) &&
        (reads || catalog_may_ask(c, p->principal, ACCESS_WRITE, uri))) {
        return true;
    }
    struct buf scopes;
    p->is_denied = true;
    buf_init(&scopes, SCOPES_MAX);
    unsigned ops = reads ? 1u << ACCESS_READ : 1u << ACCESS_READ | 1u << ACCESS_WRITE;
    if (access_put_missing(p->principal, ops, uri, &scopes) == 0 && scopes.len > 0) {
        p->scope = arena_dup(&p->arena, buf_str(&scopes));
    }
    buf_deinit(&scopes);
    return false;
}

void resource_io_start(struct resource_io *p, enum resource_io_op op)
{
    struct buf canonical;
    p->op = op;
    p->held = principal_ref(p->principal);
    buf_init(&canonical, URI_MAX * 3);
    p->code = catalog_canonical(p->worker->catalog, p->as_requested, false, &canonical, &p->err);
    struct tidings_str uri = p->code < 0 ? STR_EMPTY : arena_dup(&p->arena, buf_str(&canonical));
    buf_deinit(&canonical);
    if (p->code < 0) {
        resource_io_finish(p);
    } else if (!uri.ptr) {
        resource_io_fail(p, TIDINGS_E_NOMEM, "out of memory");
    } else if (!resource_io_may(p, op, uri) ||
               !catalog_find(p->worker->catalog, uri, &p->arena, &p->hit)) {
        resource_io_fail(p, TIDINGS_E_NOTFOUND, "resource not found");
    } else if (op == RESOURCE_IO_READ) {
        start_read(p, uri);
    } else if (!p->hit.provider) {
        resource_io_fail(p, TIDINGS_E_UNSUPPORTED,
                         "this resource was registered by the program: it is read-only here");
    } else if ((p->code = change_check_metadata(p->metadata, &p->err)) < 0) {
        resource_io_finish(p);
    } else if (p->has_unmodified_since) {
        start_stat(p, uri);
    } else {
        start_write(p, uri, op);
    }
}
