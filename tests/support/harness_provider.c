/* SPDX-License-Identifier: MIT
 *
 * The fake provider. Its instance state is only a pointer to the struct the test looks at.
 */
#include "support/harness_provider.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

/* cmocka puts its own in front of these when UNIT_TESTING is set; here libc's are meant. */
#undef malloc
#undef calloc
#undef realloc
#undef free
#include <stdlib.h>

#include "base/str.h"

static struct fake *next_fake; /* whom the instance being opened belongs to */

static struct fake *of(struct tidings_provider *p)
{
    return *(struct fake **)tidings_provider_state(p);
}

static void count(unsigned *counter, int by)
{
    __atomic_add_fetch(counter, (unsigned)by, __ATOMIC_SEQ_CST);
}

static struct fake_resource *find(struct fake *f, struct tidings_str uri)
{
    for (size_t i = 0; i < f->count; i++) {
        if (str_eq(tidings_str(f->resources[i].uri), uri)) {
            return &f->resources[i];
        }
    }
    return NULL;
}

static void keep_uri(char out[96], struct tidings_str uri)
{
    snprintf(out, 96, "%.*s", STR_ARG(uri));
}

static int fake_open(struct tidings_provider *p, struct tidings_str config,
                     struct tidings_error *err)
{
    (void)config;
    (void)err;
    *(struct fake **)tidings_provider_state(p) = next_fake;
    next_fake->provider = p;
    next_fake->opens++;
    return 0;
}

static void fake_close(struct tidings_provider *p)
{
    struct fake *f = of(p);
    f->closes++;
    f->outstanding_at_close = __atomic_load_n(&f->outstanding, __ATOMIC_SEQ_CST);
    if (f->stops_at_gate && f->outstanding_at_close > 0) {
        f->opened_gate = true;
        sem_post(&f->gate);
    }
}

static void describe(const struct fake_resource *from, struct tidings_resource *about)
{
    *about = (struct tidings_resource){0};
    about->uri = tidings_str(from->own);
    about->name = tidings_str(from->uri);
    about->listable = from->is_listable;
    about->not_subscribable = from->is_mute;
}

static void read_now(struct fake *f, struct tidings_read *read, struct tidings_str uri)
{
    struct tidings_error err = {0};
    int rc = TIDINGS_E_NOTFOUND;
    if (tidings_read_cancelled(read)) {
        f->saw_cancel = true;
        rc = TIDINGS_E_CANCELLED;
    } else if (find(f, uri)) {
        size_t len = f->content_bytes > 0 ? f->content_bytes : 11 + uri.len;
        char *text = malloc(len + 128);
        memset(text, 'x', len);
        if (f->content_bytes == 0) {
            snprintf(text, len + 128, "content of %.*s", STR_ARG(uri));
        }
        rc = tidings_read_text(read, NULL, tidings_strn(text, len), &err);
        free(text);
    }
    count(&f->outstanding, -1);
    tidings_read_done(read, rc, &err);
}

static void fake_read(struct tidings_provider *p, struct tidings_read *read, struct tidings_str uri)
{
    struct fake *f = of(p);
    count(&f->reads, 1);
    count(&f->outstanding, 1);
    if (f->stops_at_gate) {
        while (sem_wait(&f->gate) != 0) {
        }
    }
    if (f->holds_reads) {
        assert_true(f->read_count < FAKE_WAITING);
        keep_uri(f->waiting_uris[f->read_count], uri);
        f->waiting_reads[f->read_count++] = read;
        return;
    }
    read_now(f, read, uri);
}

static void list_now(struct fake *f, struct tidings_list *list)
{
    struct tidings_str after = tidings_list_after(list);
    struct tidings_error err = {0};
    int rc = 1;
    for (size_t i = 0; i < f->count && rc > 0; i++) { /* the test adds them in order */
        struct tidings_resource row;
        describe(&f->resources[i], &row);
        if (after.len == 0 || str_cmp(row.uri, after) > 0) {
            rc = tidings_list_add(list, &row, &err);
        }
    }
    count(&f->outstanding, -1);
    tidings_list_done(list, rc < 0 ? rc : 0, &err);
}

static void fake_list(struct tidings_provider *p, struct tidings_list *list)
{
    struct fake *f = of(p);
    count(&f->lists, 1);
    count(&f->outstanding, 1);
    if (f->holds_lists) {
        f->waiting_lists[f->list_count++] = list;
        return;
    }
    list_now(f, list);
}

static void stat_now(struct fake *f, struct tidings_stat *stat, struct tidings_str uri)
{
    struct fake_resource *r = find(f, uri);
    struct tidings_resource about;
    if (r) {
        describe(r, &about);
    }
    count(&f->outstanding, -1);
    tidings_stat_done(stat, r ? 0 : TIDINGS_E_NOTFOUND, r ? &about : NULL, NULL);
}

static void fake_stat(struct tidings_provider *p, struct tidings_stat *stat, struct tidings_str uri)
{
    struct fake *f = of(p);
    count(&f->stats, 1);
    count(&f->outstanding, 1);
    if (f->holds_stats) {
        assert_true(f->stat_count < FAKE_WAITING);
        keep_uri(f->waiting_uris[f->stat_count], uri);
        f->waiting_stats[f->stat_count++] = stat;
        return;
    }
    stat_now(f, stat, uri);
}

static void watch_now(struct fake *f, struct tidings_watch *watch, int code, const char *reason)
{
    struct tidings_error err = {0};
    if (code < 0) {
        tidings_fail(&err, code, "%s", reason);
    } else {
        f->armed++;
    }
    tidings_watch_done(watch, code, &err);
}

static void fake_watch(struct tidings_provider *p, struct tidings_watch *watch,
                       struct tidings_str uri)
{
    struct fake *f = of(p);
    f->watches++;
    keep_uri(f->last_watch, uri);
    if (f->holds_watches) {
        assert_true(f->watch_count < FAKE_WAITING);
        f->waiting_watches[f->watch_count++] = watch;
    } else if (f->refuses) {
        watch_now(f, watch, TIDINGS_E_LIMIT, f->refuses);
    } else {
        watch_now(f, watch, 0, NULL);
    }
}

static void fake_unwatch(struct tidings_provider *p, struct tidings_str uri)
{
    struct fake *f = of(p);
    (void)uri;
    f->unwatches++;
    f->armed--;
}

#define FAKE_OPS(flag)                                                                             \
    {                                                                                              \
        .abi = TIDINGS_PROVIDER_ABI, .name = "fake", .size = sizeof(struct fake *),                \
        .flags = (flag), .open = fake_open, .read = fake_read, .list = fake_list,                  \
        .stat = fake_stat, .watch = fake_watch, .unwatch = fake_unwatch, .close = fake_close,      \
    }

static const struct tidings_provider_ops fake_ops = FAKE_OPS(0);
static const struct tidings_provider_ops blocking_ops = FAKE_OPS(TIDINGS_PROVIDER_BLOCKING);

static void mount(struct fake *f, struct harness *b, const struct tidings_provider_ops *ops)
{
    struct tidings_error err = {0};
    memset(f, 0, sizeof(*f));
    sem_init(&f->gate, 0, 0);
    next_fake = f;
    assert_int_equal(hub_mount(b->hub, ops, STR("mem://x/"), STR_EMPTY, NULL, &err), 0);
    harness_run_until_idle(b);
}

void fake_mount(struct fake *f, struct harness *b)
{
    mount(f, b, &fake_ops);
}

void fake_mount_blocking(struct fake *f, struct harness *b)
{
    mount(f, b, &blocking_ops);
}

struct fake_resource *fake_add(struct fake *f, const char *uri)
{
    assert_true(f->count < FAKE_RESOURCES);
    struct fake_resource *r = &f->resources[f->count++];
    memset(r, 0, sizeof(*r));
    keep_uri(r->uri, tidings_str(uri));
    keep_uri(r->own, tidings_str(uri));
    return r;
}

void fake_clear(struct fake *f)
{
    f->count = 0;
}

/* ---- finishing what waits -------------------------------------------------------------------- */

struct finishing {
    struct fake *fake;
    int code;
    const char *reason;
    void (*fn)(struct finishing *f);
};

static void *finish_here(void *arg)
{
    struct finishing *f = arg;
    f->fn(f);
    return NULL;
}

static void finish(struct fake *fake, int code, const char *reason, void (*fn)(struct finishing *f))
{
    struct finishing f = {.fake = fake, .code = code, .reason = reason, .fn = fn};
    if (!fake->on_thread) {
        fn(&f);
        return;
    }
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, finish_here, &f), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void watches(struct finishing *f)
{
    size_t n = f->fake->watch_count;
    f->fake->watch_count = 0;
    for (size_t i = 0; i < n; i++) {
        watch_now(f->fake, f->fake->waiting_watches[i], f->code, f->reason);
    }
}

static void stats(struct finishing *f)
{
    size_t n = f->fake->stat_count;
    f->fake->stat_count = 0;
    for (size_t i = 0; i < n; i++) {
        stat_now(f->fake, f->fake->waiting_stats[i], tidings_str(f->fake->waiting_uris[i]));
    }
}

static void reads(struct finishing *f)
{
    size_t n = f->fake->read_count;
    f->fake->read_count = 0;
    for (size_t i = 0; i < n; i++) {
        read_now(f->fake, f->fake->waiting_reads[i], tidings_str(f->fake->waiting_uris[i]));
    }
}

static void lists(struct finishing *f)
{
    size_t n = f->fake->list_count;
    f->fake->list_count = 0;
    for (size_t i = 0; i < n; i++) {
        list_now(f->fake, f->fake->waiting_lists[i]);
    }
}

void fake_finish_watches(struct fake *f, int code, const char *reason)
{
    finish(f, code, reason, watches);
}

void fake_finish_stats(struct fake *f)
{
    finish(f, 0, NULL, stats);
}

void fake_finish_reads(struct fake *f)
{
    finish(f, 0, NULL, reads);
}

void fake_finish_lists(struct fake *f)
{
    finish(f, 0, NULL, lists);
}
