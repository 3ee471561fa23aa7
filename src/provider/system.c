/* SPDX-License-Identifier: MIT
 *
 * The operations of the system provider, and its thread: load, memory, disk and network as
 * resources. Workers and the hub send jobs; the instance's own thread samples, compares and
 * announces. Everything below "on the actor" is that thread's.
 */
#include "provider/system.h"

#include "base/actor.h"
#include "base/error.h"
#include "base/mem.h"
#include "provider/actor_job.h"
#include "provider/etag.h"
#include "provider/settings.h"
#include "provider/system_sample.h"
#include "json/write.h"

#define ALL SYSTEM_METRICS /* the container, where a metric is asked for */

struct system {
    struct tidings_provider *provider;
    struct tidings_str container;
    char *uris[SYSTEM_METRICS];
    char *proc;
    uint64_t interval_ms;
    struct actor actor;

    /* on the actor */
    struct loop_timer *timer;
    unsigned needs[SYSTEM_METRICS];        /* watches that cover it */
    char known[SYSTEM_METRICS][ETAG_SIZE]; /* of the last look; "": none yet */
};

static const struct {
    const char *name, *title, *description;
} metrics[SYSTEM_METRICS] = {
    [SYSTEM_DISK] = {"disk", "Disk", "Space and files of each local file system"},
    [SYSTEM_LOAD] = {"load", "Load", "Load averages, running threads and processors"},
    [SYSTEM_MEMORY] = {"memory", "Memory", "Main memory and swap, in bytes"},
    [SYSTEM_NETWORK] = {"network", "Network", "Traffic counters of each interface"},
};

static const struct setting rows[] = {
    {.key = "interval",
     .type = SETTING_DURATION,
     .offset = offsetof(struct system, interval_ms),
     .fallback = 2000,
     .min = 100,
     .max = 3600000},
    {.key = "proc", .type = SETTING_TEXT, .offset = offsetof(struct system, proc)},
};

static struct tidings_str system_uri_of(const struct system *s, unsigned metric)
{
    return metric == ALL ? s->container : tidings_str(s->uris[metric]);
}

/* A metric, ALL for the container, or -1. */
static int system_find(const struct system *s, struct tidings_str uri)
{
    for (unsigned i = 0; i <= SYSTEM_METRICS; i++) {
        if (str_eq(uri, system_uri_of(s, i))) {
            return (int)i;
        }
    }
    return str_eq(uri, tidings_provider_prefix(s->provider)) ? ALL : -1;
}

static void system_describe(const struct system *s, unsigned metric, struct tidings_resource *about)
{
    *about = (struct tidings_resource){0};
    about->uri = system_uri_of(s, metric);
    about->mime_type = STR("application/json");
    about->listable = metric == ALL;
    if (metric == ALL) {
        about->name = STR("metrics");
        about->title = STR("System metrics");
        about->description = STR("Load, memory, disk and network of this machine");
    } else {
        about->name = tidings_str(metrics[metric].name);
        about->title = tidings_str(metrics[metric].title);
        about->description = tidings_str(metrics[metric].description);
    }
}

/* ---- on the actor ---------------------------------------------------------------------------- */

/* Sample one metric; announce it when somebody watches and it differs from what was known. */
static int system_sample_one(struct system *s, unsigned metric, struct buf *out,
                             struct tidings_error *err)
{
    size_t start = out->len;
    int rc = system_sample(s->proc, (enum system_metric)metric, out, err);
    if (rc < 0) {
        return rc;
    }
    char etag[ETAG_SIZE];
    struct tidings_change change = {.uri = system_uri_of(s, metric)};
    change.etag = etag_of(str_skip(buf_str(out), start), etag);
    bool first = s->known[metric][0] == '\0';
    bool same = memcmp(s->known[metric], etag, ETAG_SIZE) == 0;
    memcpy(s->known[metric], etag, ETAG_SIZE);
    if (!first && !same && s->needs[metric] > 0) {
        (void)tidings_provider_changed(s->provider, &change, NULL);
    }
    return 0;
}

/* A metric that cannot be had is null: the others are still worth something. */
static int system_sample_all(struct system *s, struct buf *out, struct tidings_error *err)
{
    struct jw w;
    jw_init(&w, out);
    jw_begin_object(&w);
    for (unsigned i = 0; i < SYSTEM_METRICS; i++) {
        struct buf one;
        buf_init(&one, SYSTEM_JSON_MAX);
        bool had = system_sample_one(s, i, &one, NULL) == 0;
        jw_put_raw(&w, tidings_str(metrics[i].name), had ? buf_str(&one) : STR("null"));
        buf_deinit(&one);
    }
    jw_end_object(&w);
    return out->failed ? tidings_fail(err, out->failed, "the metrics do not fit") : 0;
}

static void system_on_tick(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct system *s = user;
    for (unsigned i = 0; i < SYSTEM_METRICS; i++) {
        if (s->needs[i] > 0) {
            struct buf json;
            buf_init(&json, SYSTEM_JSON_MAX);
            (void)system_sample_one(s, i, &json, NULL);
            buf_deinit(&json);
        }
    }
}

static void system_do_read(struct system *s, const struct actor_job *e)
{
    struct buf json;
    struct tidings_error err = {0};
    struct tidings_resource about;
    char etag[ETAG_SIZE];
    buf_init(&json, SYSTEM_METRICS * SYSTEM_JSON_MAX + 1024);
    int rc = e->which == ALL ? system_sample_all(s, &json, &err)
                             : system_sample_one(s, (unsigned)e->which, &json, &err);
    if (rc == 0) {
        system_describe(s, (unsigned)e->which, &about);
        about.etag = etag_of(buf_str(&json), etag);
        rc = tidings_read_text(e->read, &about, buf_str(&json), &err);
    }
    tidings_read_done(e->read, rc, &err);
    buf_deinit(&json);
}

static void count_needs(struct system *s, int metric, bool more)
{
    unsigned total = 0;
    for (int i = 0; i < (int)SYSTEM_METRICS; i++) {
        if (metric == i || metric == ALL) {
            s->needs[i] += more ? 1u : -1u;
        }
        total += s->needs[i];
    }
    if (total == 0) {
        loop_timer_stop(s->timer);
    } else if (!loop_timer_is_running(s->timer)) {
        loop_timer_start(s->timer, s->interval_ms, s->interval_ms);
    }
}

static void system_deliver(struct letter *letter, void *owner)
{
    struct system *s = owner;
    struct actor_job *e = list_entry(letter, struct actor_job, letter);
    if (e->read) {
        system_do_read(s, e);
    } else {
        count_needs(s, e->which, e->watch != NULL);
    }
    if (e->watch) {
        tidings_watch_done(e->watch, 0, NULL);
        system_on_tick(NULL, s); /* what later samples are compared with; after the answer, so that
                             a difference from what was read before is told */
    }
    mem_free(e);
}

/* ---- the operations -------------------------------------------------------------------------- */

static bool system_send_job(struct system *s, struct tidings_read *read,
                            struct tidings_watch *watch, int metric)
{
    const struct actor_job e = {.read = read, .watch = watch, .which = metric};
    return actor_job_send(s->actor.mailbox, &e, system_deliver);
}

static void system_read(struct tidings_provider *p, struct tidings_read *read,
                        struct tidings_str uri)
{
    struct system *s = tidings_provider_state(p);
    int metric = system_find(s, uri);
    if (metric < 0) {
        tidings_read_done(read, TIDINGS_E_NOTFOUND, NULL);
    } else if (!system_send_job(s, read, NULL, metric)) {
        tidings_read_done(read, TIDINGS_E_NOMEM, NULL);
    }
}

static void system_watch(struct tidings_provider *p, struct tidings_watch *watch,
                         struct tidings_str uri)
{
    struct system *s = tidings_provider_state(p);
    int metric = system_find(s, uri);
    if (metric < 0) {
        tidings_watch_done(watch, TIDINGS_E_NOTFOUND, NULL); /* nor will there ever be one */
    } else if (!system_send_job(s, NULL, watch, metric)) {
        tidings_watch_done(watch, TIDINGS_E_NOMEM, NULL);
    }
}

static void system_unwatch(struct tidings_provider *p, struct tidings_str uri)
{
    struct system *s = tidings_provider_state(p);
    (void)system_send_job(s, NULL, NULL, system_find(s, uri)); /* else it is sampled on: harmless */
}

static void list_rows(struct system *s, struct tidings_list *list, bool with_container)
{
    struct tidings_error err = {0};
    int rc = 1;
    for (unsigned i = 0; i <= SYSTEM_METRICS && rc > 0; i++) {
        unsigned metric = i == 0 ? ALL : i - 1; /* the container's URI is the shortest */
        struct tidings_resource about;
        system_describe(s, metric, &about);
        if ((metric != ALL || with_container) && str_cmp(about.uri, tidings_list_after(list)) > 0) {
            rc = tidings_list_add(list, &about, &err);
        }
    }
    tidings_list_done(list, rc < 0 ? rc : 0, &err);
}

static void system_list(struct tidings_provider *p, struct tidings_list *list)
{
    list_rows(tidings_provider_state(p), list, true);
}

static void system_children(struct tidings_provider *p, struct tidings_list *list,
                            struct tidings_str uri)
{
    struct system *s = tidings_provider_state(p);
    if (system_find(s, uri) == ALL) {
        list_rows(s, list, false);
    } else {
        tidings_list_done(list, TIDINGS_E_NOTFOUND, NULL);
    }
}

static void system_stat(struct tidings_provider *p, struct tidings_stat *stat,
                        struct tidings_str uri)
{
    struct system *s = tidings_provider_state(p);
    struct tidings_resource about;
    int metric = system_find(s, uri);
    if (metric < 0) {
        tidings_stat_done(stat, TIDINGS_E_NOTFOUND, NULL, NULL);
        return;
    }
    system_describe(s, (unsigned)metric, &about);
    tidings_stat_done(stat, 0, &about, NULL);
}

/* ---- open and close -------------------------------------------------------------------------- */

/* "system://metrics/" is the container "system://metrics"; a root stays as it is. */
static struct tidings_str container_of(struct tidings_str prefix)
{
    bool is_root = prefix.len < 2 || strchr("/:", prefix.ptr[prefix.len - 2]);
    return is_root ? prefix : tidings_strn(prefix.ptr, prefix.len - 1);
}

static int make_uris(struct system *s, struct tidings_str prefix)
{
    s->container = container_of(prefix);
    for (size_t i = 0; i < SYSTEM_METRICS; i++) {
        struct buf uri;
        buf_init(&uri, prefix.len + 16);
        buf_puts(&uri, prefix);
        buf_puts(&uri, tidings_str(metrics[i].name));
        bool failed = uri.failed != 0;
        s->uris[i] = buf_detach(&uri, NULL);
        if (failed) {
            return TIDINGS_E_NOMEM;
        }
    }
    return 0;
}

static int system_open(struct tidings_provider *p, struct tidings_str config,
                       struct tidings_error *err)
{
    struct system *s = tidings_provider_state(p);
    s->provider = p;
    int rc = settings_read(rows, sizeof(rows) / sizeof(rows[0]), config, s, err);
    if (rc < 0) {
        return rc;
    }
    if (!s->proc) {
        s->proc = str_dup(STR("/proc"));
    }
    if (!s->proc || make_uris(s, tidings_provider_prefix(p)) < 0) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    rc = actor_init(&s->actor, s, err);
    if (rc < 0) {
        return rc;
    }
    s->timer = loop_timer_open(s->actor.loop, system_on_tick, s);
    if (!s->timer) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    return actor_start(&s->actor, "tidings-system", err);
}

static void system_close(struct tidings_provider *p)
{
    struct system *s = tidings_provider_state(p);
    actor_stop(&s->actor);
    loop_timer_close(s->timer);
    actor_deinit(&s->actor);
    for (size_t i = 0; i < SYSTEM_METRICS; i++) {
        mem_free(s->uris[i]);
    }
    mem_free(s->proc);
    *s = (struct system){0};
}

struct tidings_str provider_system_row(size_t i, bool *ret_not_subscribable)
{
    *ret_not_subscribable = false;
    return i < SYSTEM_METRICS ? tidings_str(metrics[i].name) : STR_EMPTY;
}

static const struct tidings_semantics semantics[] = {
    {TIDINGS_FORM_RESOURCE, "system://metrics", "each of the four metrics, whenever it differs"},
    {TIDINGS_FORM_RESOURCE, "system://metrics/{metric}", "that metric, whenever it differs"},
    {TIDINGS_FORM_RESOURCE, NULL, NULL},
};

const struct tidings_provider_ops provider_system_ops = {
    .abi = TIDINGS_PROVIDER_ABI,
    .name = "system",
    .size = sizeof(struct system),
    .flags = TIDINGS_PROVIDER_FIXED_LIST | TIDINGS_PROVIDER_BARE_CHANGES,
    .open = system_open,
    .read = system_read,
    .list = system_list,
    .stat = system_stat,
    .children = system_children,
    .watch = system_watch,
    .unwatch = system_unwatch,
    .close = system_close,
    .semantics = semantics,
};
