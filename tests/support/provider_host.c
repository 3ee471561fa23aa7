/* SPDX-License-Identifier: MIT
 *
 * The stand-in worker: one mutex and condition for everything, whatever thread a provider is on.
 */
#include "support/provider_host.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/str.h"
#include <cmocka.h>

/* libc's own: cmocka's are not for threads, and the library's may be made to fail by a test. */
#undef malloc
#undef calloc
#undef realloc
#undef free

struct tidings_provider {
    const struct tidings_provider_ops *ops;
    struct host *host;
    char *prefix;
    void *state;
};

struct host {
    struct tidings_provider provider;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    struct host_change *changes;
    size_t change_count, change_cap;
};

/* The base of every request; the public request types are this one. */
struct job {
    struct host *host;
    struct host_answer *answer;
    bool is_done;
    struct tidings_str after;
    size_t wanted;
    struct tidings_range range;
    bool has_range;
    struct tidings_str held;
    size_t max_bytes;
    struct tidings_str name, value; /* of what is completed */
    bool is_cancelled;              /* atomic */
};

struct tidings_read {
    struct job r;
};
struct tidings_list {
    struct job r;
};
struct tidings_stat {
    struct job r;
};
struct tidings_watch {
    struct job r;
};
struct tidings_complete {
    struct job r;
};

static void *must(void *memory)
{
    if (!memory) {
        abort();
    }
    return memory;
}

static char *copy_of(struct tidings_str s)
{
    char *text = must(malloc(s.len + 1));
    if (s.len) {
        memcpy(text, s.ptr, s.len);
    }
    text[s.len] = '\0';
    return text;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static struct timespec deadline(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += HOST_DEADLINE_MS / 1000;
    return at;
}

static void finish(struct job *r, int code, const struct tidings_error *err)
{
    pthread_mutex_lock(&r->host->lock);
    r->answer->code = code;
    if (err) {
        (void)snprintf(r->answer->error, sizeof r->answer->error, "%s", err->text);
    }
    r->is_done = true;
    pthread_cond_broadcast(&r->host->moved);
    pthread_mutex_unlock(&r->host->lock);
}

static void await(struct job *r)
{
    struct timespec at = deadline();
    int rc = 0;
    pthread_mutex_lock(&r->host->lock);
    while (!r->is_done && rc == 0) {
        rc = pthread_cond_timedwait(&r->host->moved, &r->host->lock, &at);
    }
    bool is_done = r->is_done;
    pthread_mutex_unlock(&r->host->lock);
    if (!is_done) {
        fail_msg("the provider did not finish a request in time");
    }
}

static struct job request_for(struct host *h)
{
    struct host_answer *answer = must(calloc(1, sizeof *answer));
    return (struct job){.host = h, .answer = answer, .max_bytes = SIZE_MAX};
}

static struct host_row *add_row(struct host_answer *a, const struct tidings_resource *about)
{
    a->rows = must(realloc(a->rows, (a->count + 1) * sizeof *a->rows));
    struct host_row *row = &a->rows[a->count++];
    *row = (struct host_row){
        .uri = copy_of(about->uri),
        .name = copy_of(about->name),
        .mime_type = copy_of(about->mime_type),
        .etag = copy_of(about->etag),
        .size = about->has_size ? about->size : -1,
        .modified_ms = about->modified_ms,
        .listable = about->listable,
    };
    return row;
}

void host_answer_free(struct host_answer *a)
{
    for (size_t i = 0; i < a->count; i++) {
        free(a->rows[i].uri);
        free(a->rows[i].name);
        free(a->rows[i].mime_type);
        free(a->rows[i].etag);
        free(a->rows[i].bytes);
    }
    free(a->rows);
    free(a);
}

/* ---- what providers call --------------------------------------------------------------------- */

void *tidings_provider_state(struct tidings_provider *provider)
{
    return provider->state;
}

struct tidings_str tidings_provider_prefix(struct tidings_provider *provider)
{
    return tidings_str(provider->prefix);
}

int tidings_provider_changed(struct tidings_provider *provider, const struct tidings_change *change,
                             struct tidings_error *err)
{
    struct host *h = provider->host;
    (void)err;
    pthread_mutex_lock(&h->lock);
    if (h->change_count == h->change_cap) {
        h->change_cap = h->change_cap ? 2 * h->change_cap : 64;
        h->changes = must(realloc(h->changes, h->change_cap * sizeof *h->changes));
    }
    h->changes[h->change_count++] = (struct host_change){
        .kind = change->kind,
        .uri = copy_of(change->uri),
        .etag = copy_of(change->etag),
        .from = copy_of(change->from),
        .size = change->size,
        .modified_ms = change->modified_ms,
        .has_size = change->has_size,
    };
    pthread_cond_broadcast(&h->moved);
    pthread_mutex_unlock(&h->lock);
    return 0;
}

void tidings_provider_missed(struct tidings_provider *provider)
{
    (void)tidings_provider_changed(provider, &(struct tidings_change){0}, NULL);
}

bool tidings_read_cancelled(const struct tidings_read *read)
{
    return __atomic_load_n(&read->r.is_cancelled, __ATOMIC_ACQUIRE);
}

bool tidings_read_range(const struct tidings_read *read, struct tidings_range *range)
{
    *range = read->r.range;
    return read->r.has_range;
}

bool tidings_read_unchanged(struct tidings_read *read, struct tidings_str etag)
{
    bool is_held = str_eq(etag, read->r.held);
    read->r.answer->is_unchanged = is_held;
    return is_held;
}

bool tidings_read_wants(const struct tidings_read *read, struct tidings_str uri,
                        struct tidings_str mime_type)
{
    (void)uri;
    (void)mime_type;
    return !read->r.has_range;
}

size_t tidings_read_max_bytes(const struct tidings_read *read)
{
    return read->r.max_bytes;
}

struct tidings_str tidings_read_variable(const struct tidings_read *read, const char *name)
{
    (void)read;
    (void)name;
    return STR_EMPTY;
}

static int add_content(struct tidings_read *read, const struct tidings_resource *about,
                       struct tidings_str bytes, bool is_text)
{
    struct host_row *row = add_row(read->r.answer, about);
    row->is_text = is_text;
    row->bytes = copy_of(bytes);
    row->length = bytes.len;
    return 0;
}

int tidings_read_text(struct tidings_read *read, const struct tidings_resource *about,
                      struct tidings_str text, struct tidings_error *err)
{
    (void)err;
    return add_content(read, about, text, true);
}

int tidings_read_blob(struct tidings_read *read, const struct tidings_resource *about,
                      struct tidings_str bytes, struct tidings_error *err)
{
    (void)err;
    return add_content(read, about, bytes, false);
}

int tidings_read_take(struct tidings_read *read, const struct tidings_resource *about, char *bytes,
                      size_t len, struct tidings_error *err)
{
    (void)err;
    int rc =
        add_content(read, about, tidings_strn(bytes, len), str_is_utf8(tidings_strn(bytes, len)));
    tidings_free(bytes);
    return rc;
}

int tidings_read_pieces(struct tidings_read *read, const struct tidings_resource *about,
                        const struct tidings_pieces *pieces, struct tidings_error *err)
{
    return provider_pieces_read(read, about, pieces, err);
}

int tidings_read_part(struct tidings_read *read, const struct tidings_resource *about,
                      int64_t offset, char *bytes, size_t len, struct tidings_error *err)
{
    int rc = tidings_read_take(read, about, bytes, len, err);
    struct host_answer *a = read->r.answer;
    a->rows[a->count - 1].is_part = true;
    a->rows[a->count - 1].offset = offset;
    return rc;
}

void tidings_read_done(struct tidings_read *read, int code, const struct tidings_error *err)
{
    finish(&read->r, code, err);
}

int tidings_list_add(struct tidings_list *list, const struct tidings_resource *row,
                     struct tidings_error *err)
{
    (void)err;
    if (list->r.answer->count == list->r.wanted) {
        list->r.answer->is_full = true;
        return 0;
    }
    add_row(list->r.answer, row);
    return 1;
}

struct tidings_str tidings_list_after(const struct tidings_list *list)
{
    return list->r.after;
}

void tidings_list_done(struct tidings_list *list, int code, const struct tidings_error *err)
{
    finish(&list->r, code, err);
}

void tidings_stat_done(struct tidings_stat *stat, int code, const struct tidings_resource *resource,
                       const struct tidings_error *err)
{
    if (code >= 0) {
        add_row(stat->r.answer, resource);
    }
    finish(&stat->r, code, err);
}

void tidings_watch_done(struct tidings_watch *watch, int code, const struct tidings_error *err)
{
    finish(&watch->r, code, err);
}

struct tidings_str tidings_complete_name(const struct tidings_complete *complete)
{
    return complete->r.name;
}

struct tidings_str tidings_complete_value(const struct tidings_complete *complete)
{
    return complete->r.value;
}

int tidings_complete_add(struct tidings_complete *complete, struct tidings_str value)
{
    if (complete->r.answer->count == complete->r.wanted) {
        complete->r.answer->is_full = true;
        return 0;
    }
    struct tidings_resource row = {0};
    row.name = value;
    add_row(complete->r.answer, &row);
    return 1;
}

void tidings_complete_done(struct tidings_complete *complete, int code,
                           const struct tidings_error *err)
{
    finish(&complete->r, code, err);
}

/* ---- what tests call ------------------------------------------------------------------------- */

struct host *host_open(const struct tidings_provider_ops *ops, const char *prefix,
                       const char *config, struct tidings_error *err)
{
    struct host *h = must(calloc(1, sizeof *h));
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&h->moved, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&h->lock, NULL);
    h->provider.ops = ops;
    h->provider.host = h;
    h->provider.prefix = copy_of(tidings_str(prefix));
    h->provider.state = must(calloc(1, ops->size));
    if (ops->open(&h->provider, tidings_str(config), err) < 0) {
        host_close(h);
        return NULL;
    }
    return h;
}

void host_close(struct host *h)
{
    h->provider.ops->close(&h->provider);
    host_forget(h);
    free(h->changes);
    free(h->provider.prefix);
    free(h->provider.state);
    pthread_cond_destroy(&h->moved);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

struct tidings_provider *host_provider(struct host *h)
{
    return &h->provider;
}

struct host_answer *host_read_with(struct host *h, const char *uri,
                                   const struct tidings_range *range, const char *held,
                                   size_t max_bytes)
{
    struct tidings_read read = {request_for(h)};
    read.r.has_range = range != NULL;
    if (range) {
        read.r.range = *range;
    }
    read.r.held = tidings_str(held);
    read.r.max_bytes = max_bytes;
    h->provider.ops->read(&h->provider, &read, tidings_str(uri));
    await(&read.r);
    return read.r.answer;
}

struct host_answer *host_read(struct host *h, const char *uri)
{
    return host_read_with(h, uri, NULL, NULL, SIZE_MAX);
}

struct host_reading {
    struct tidings_read read;
    char *uri;
};

struct host_reading *host_read_begin(struct host *h, const char *uri)
{
    struct host_reading *r = must(calloc(1, sizeof *r));
    r->read.r = request_for(h);
    r->uri = copy_of(tidings_str(uri));
    h->provider.ops->read(&h->provider, &r->read, tidings_str(r->uri));
    return r;
}

void host_read_cancel(struct host_reading *r)
{
    __atomic_store_n(&r->read.r.is_cancelled, true, __ATOMIC_RELEASE);
}

struct host_answer *host_read_end(struct host_reading *r)
{
    await(&r->read.r);
    struct host_answer *answer = r->read.r.answer;
    free(r->uri);
    free(r);
    return answer;
}

static struct host_answer *run_list(struct host *h, const char *uri, const char *after,
                                    size_t wanted)
{
    struct tidings_list list = {request_for(h)};
    list.r.after = tidings_str(after);
    list.r.wanted = wanted;
    if (uri) {
        h->provider.ops->children(&h->provider, &list, tidings_str(uri));
    } else {
        h->provider.ops->list(&h->provider, &list);
    }
    await(&list.r);
    return list.r.answer;
}

struct host_answer *host_list(struct host *h, const char *after, size_t wanted)
{
    return run_list(h, NULL, after, wanted);
}

struct host_answer *host_children(struct host *h, const char *uri, const char *after, size_t wanted)
{
    return run_list(h, uri, after, wanted);
}

struct host_answer *host_stat(struct host *h, const char *uri)
{
    struct tidings_stat stat = {request_for(h)};
    h->provider.ops->stat(&h->provider, &stat, tidings_str(uri));
    await(&stat.r);
    return stat.r.answer;
}

struct host_answer *host_complete(struct host *h, const char *uri_template, const char *name,
                                  const char *value, size_t wanted)
{
    struct tidings_complete complete = {request_for(h)};
    complete.r.name = tidings_str(name);
    complete.r.value = tidings_str(value);
    complete.r.wanted = wanted;
    h->provider.ops->complete(&h->provider, &complete, tidings_str(uri_template));
    await(&complete.r);
    return complete.r.answer;
}

int host_watch(struct host *h, const char *uri)
{
    struct tidings_watch watch = {request_for(h)};
    h->provider.ops->watch(&h->provider, &watch, tidings_str(uri));
    await(&watch.r);
    int code = watch.r.answer->code;
    host_answer_free(watch.r.answer);
    return code;
}

void host_unwatch(struct host *h, const char *uri)
{
    h->provider.ops->unwatch(&h->provider, tidings_str(uri));
}

/* ---- changes --------------------------------------------------------------------------------- */

static const char *const kinds[] = {"updated", "created", "deleted"};

static struct host_change *find_change(struct host *h, enum tidings_change_kind kind,
                                       const char *uri)
{
    for (size_t i = 0; i < h->change_count; i++) {
        struct host_change *c = &h->changes[i];
        if (!c->is_taken && c->kind == kind && strcmp(c->uri, uri) == 0) {
            return c;
        }
    }
    return NULL;
}

static void print_changes(const struct host *h)
{
    size_t first = h->change_count > 40 ? h->change_count - 40 : 0;
    for (size_t i = first; i < h->change_count; i++) {
        const struct host_change *c = &h->changes[i];
        print_message("  %s %s%s%s%s\n", kinds[c->kind], c->uri, c->from[0] ? " from " : "",
                      c->from, c->is_taken ? " (taken)" : "");
    }
}

const struct host_change *host_await(struct host *h, enum tidings_change_kind kind, const char *uri)
{
    static struct host_change taken;
    struct timespec at = deadline();
    int rc = 0;
    pthread_mutex_lock(&h->lock);
    struct host_change *c;
    while (!(c = find_change(h, kind, uri)) && rc == 0) {
        rc = pthread_cond_timedwait(&h->moved, &h->lock, &at);
    }
    if (c) {
        c->is_taken = true;
        taken = *c; /* the array may move; the strings stay */
    } else {
        print_changes(h);
    }
    pthread_mutex_unlock(&h->lock);
    if (!c) {
        fail_msg("no change '%s' of '%s' in time", kinds[kind], uri);
    }
    return &taken;
}

size_t host_next(struct host *h, size_t index, struct host_change *ret)
{
    struct timespec at = deadline();
    int rc = 0;
    pthread_mutex_lock(&h->lock);
    while (index >= h->change_count && rc == 0) {
        rc = pthread_cond_timedwait(&h->moved, &h->lock, &at);
    }
    bool is_there = index < h->change_count;
    if (is_there) {
        *ret = h->changes[index];
    }
    size_t left = is_there ? h->change_count - index - 1 : 0;
    pthread_mutex_unlock(&h->lock);
    if (!is_there) {
        fail_msg("no further change in time");
    }
    return left;
}

size_t host_untaken(struct host *h, const char *uri)
{
    size_t count = 0;
    pthread_mutex_lock(&h->lock);
    for (size_t i = 0; i < h->change_count; i++) {
        const struct host_change *c = &h->changes[i];
        count += !c->is_taken && (!uri || strcmp(c->uri, uri) == 0);
    }
    if (count > 0) {
        print_changes(h);
    }
    pthread_mutex_unlock(&h->lock);
    return count;
}

void host_forget(struct host *h)
{
    pthread_mutex_lock(&h->lock);
    for (size_t i = 0; i < h->change_count; i++) {
        free(h->changes[i].uri);
        free(h->changes[i].etag);
        free(h->changes[i].from);
    }
    h->change_count = 0;
    pthread_mutex_unlock(&h->lock);
}
