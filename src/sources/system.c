/* SPDX-License-Identifier: MIT
 *
 * The operations of the system provider, and its thread: load, memory, disk and network as
 * resources. Workers and the hub send jobs; the instance's thread samples, compares and announces.
 * Everything below "on the actor" belongs to that thread.
 */
#include "sources/system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "formats/json_write.h"
#include "sources/settings.h"

/* -------------------------------------------------------------------------------------------------
 * One sample of load, memory, disk and network of this machine, as JSON text.
 */

/* In ascending order of their names. */
enum system_metric { SYSTEM_DISK, SYSTEM_LOAD, SYSTEM_MEMORY, SYSTEM_NETWORK, SYSTEM_METRICS };

#define SYSTEM_TEXT_MAX 1048576u /* bytes read from one file of /proc */
#define SYSTEM_ROWS_MAX 64u      /* file systems, interfaces; further ones are omitted */
#define SYSTEM_JSON_MAX 262144u  /* bytes of one metric */

/* -------------------------------------------------------------------------------------------------
 * Parsers of /proc. The kernel writes these files, but a container may replace them: they are
 * parsed like untrusted input.
 */

/* Gets the next run of characters other than blanks and line breaks; *s advances past it. */
static struct tidings_str next_word(struct tidings_str *s)
{
    while (s->len > 0 && (*s->ptr == ' ' || *s->ptr == '\t' || *s->ptr == '\n')) {
        *s = str_skip(*s, 1);
    }
    size_t n = 0;
    while (n < s->len && s->ptr[n] != ' ' && s->ptr[n] != '\t' && s->ptr[n] != '\n') {
        n++;
    }
    struct tidings_str word = tidings_strn(s->ptr, n);
    *s = str_skip(*s, n);
    return word;
}

static bool to_u32(struct tidings_str s, uint32_t *ret)
{
    uint64_t n;
    if (!str_to_u64(s, &n) || n > UINT32_MAX) {
        return false;
    }
    *ret = (uint32_t)n;
    return true;
}

/* Converts "0.05" to 5: exactly two digits after the point. */
static bool to_hundredths(struct tidings_str s, uint32_t *ret)
{
    struct tidings_str rest;
    uint32_t whole, part;
    if (!to_u32(str_cut(s, '.', &rest, NULL), &whole) || rest.len != 2 || !to_u32(rest, &part) ||
        whole > UINT32_MAX / 100 - 1) {
        return false;
    }
    *ret = whole * 100 + part;
    return true;
}

bool system_parse_load(struct tidings_str text, struct system_load *ret)
{
    for (size_t i = 0; i < 3; i++) {
        if (!to_hundredths(next_word(&text), &ret->hundredths[i])) {
            return false;
        }
    }
    struct tidings_str threads;
    struct tidings_str running = str_cut(next_word(&text), '/', &threads, NULL);
    return to_u32(running, &ret->running) && to_u32(threads, &ret->threads);
}

bool system_parse_memory(struct tidings_str text, struct system_memory *ret)
{
    *ret = (struct system_memory){0};
    const struct {
        struct tidings_str name;
        uint64_t *field;
    } rows[] = {
        {STR("MemTotal"), &ret->total},         {STR("MemFree"), &ret->unused},
        {STR("MemAvailable"), &ret->available}, {STR("Buffers"), &ret->buffers},
        {STR("Cached"), &ret->cached},          {STR("SwapTotal"), &ret->swap_total},
        {STR("SwapFree"), &ret->swap_free},
    };
    while (text.len > 0) {
        struct tidings_str rest;
        struct tidings_str name = str_cut(str_cut(text, '\n', &text, NULL), ':', &rest, NULL);
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            uint64_t kib;
            if (!str_eq(name, rows[i].name)) {
                continue;
            }
            if (!str_to_u64(next_word(&rest), &kib) || kib > UINT64_MAX / 2048) {
                return false;
            }
            *rows[i].field = kib * 1024;
        }
    }
    return ret->total > 0;
}

/* The columns are: bytes packets errs drop fifo frame compressed multicast, and from the ninth on
 * the same for sent data. */
static bool parse_interface(struct tidings_str line, struct system_interface *ret)
{
    struct tidings_str rest;
    bool found;
    ret->name = str_trim(str_cut(line, ':', &rest, &found), " \t");
    if (!found || ret->name.len == 0) {
        return false;
    }
    for (size_t column = 0; column < 12; column++) {
        uint64_t n;
        if (!str_to_u64(next_word(&rest), &n) || n > INT64_MAX) {
            return false;
        }
        if (column < 4) {
            ret->received[column] = n;
        } else if (column >= 8) {
            ret->sent[column - 8] = n;
        }
    }
    return true;
}

bool system_next_interface(struct tidings_str *text, struct system_interface *ret)
{
    while (text->len > 0) {
        if (parse_interface(str_cut(*text, '\n', text, NULL), ret)) {
            return true;
        }
    }
    return false;
}

static bool is_octal(char c)
{
    return c >= '0' && c <= '7';
}

/* Decodes "\040" to a blank. Returns false if it is too long. */
static bool decode_path(struct tidings_str in, char *out, size_t room)
{
    size_t n = 0;
    for (size_t i = 0; i < in.len; i++) {
        char c = in.ptr[i];
        if (c == '\\' && i + 3 < in.len && in.ptr[i + 1] <= '3' && is_octal(in.ptr[i + 1]) &&
            is_octal(in.ptr[i + 2]) && is_octal(in.ptr[i + 3])) {
            c = (char)((in.ptr[i + 1] - '0') * 64 + (in.ptr[i + 2] - '0') * 8 +
                       (in.ptr[i + 3] - '0'));
            i += 3;
        }
        if (c == '\0' || n + 1 >= room) {
            return false;
        }
        out[n++] = c;
    }
    out[n] = '\0';
    return n > 0;
}

bool system_next_mount(struct tidings_str *text, struct system_mount *ret)
{
    while (text->len > 0) {
        struct tidings_str line = str_cut(*text, '\n', text, NULL);
        ret->device = next_word(&line);
        struct tidings_str path = next_word(&line);
        ret->type = next_word(&line);
        bool is_ours = str_starts(ret->device, STR("/")) || str_eq(path, STR("/"));
        if (is_ours && ret->type.len > 0 && decode_path(path, ret->path, sizeof(ret->path))) {
            return true;
        }
    }
    return false;
}

/* -------------------------------------------------------------------------------------------------
 * Reads /proc and the file systems. Values are current totals, not rates: clients compute rates
 * from two samples and their times.
 */

static int read_proc(const char *proc, const char *name, struct buf *text,
                     struct tidings_error *err)
{
    char path[4096 + 32];
    (void)snprintf(path, sizeof(path), "%s/%s", proc, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return error_errno(err, errno, "open '%s'", path);
    }
    int rc = 0;
    for (;;) {
        if (buf_reserve(text, 4096) < 0) {
            rc = tidings_fail(err, text->failed, "'%s' is larger than %u bytes", path,
                              SYSTEM_TEXT_MAX);
            break;
        }
        ssize_t n = read(fd, text->ptr + text->len, 4096);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            rc = n < 0 ? error_errno(err, errno, "read '%s'", path) : 0;
            break;
        }
        text->len += (size_t)n;
    }
    close(fd);
    return rc;
}

/* JSON integers are signed: quantities beyond 2^63 do not occur here. */
static void system_sample_put_count(struct jw *w, const char *key, uint64_t n)
{
    jw_put_integer(w, tidings_str(key), n > INT64_MAX ? INT64_MAX : (int64_t)n);
}

static bool write_load(struct tidings_str text, struct jw *w)
{
    static const char *const names[] = {"load1", "load5", "load15"};
    struct system_load load;
    if (!system_parse_load(text, &load)) {
        return false;
    }
    for (size_t i = 0; i < 3; i++) {
        jw_key(w, tidings_str(names[i]));
        jw_number(w, load.hundredths[i] / 100.0);
    }
    system_sample_put_count(w, "running", load.running);
    system_sample_put_count(w, "threads", load.threads);
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    system_sample_put_count(w, "cpus", cpus > 0 ? (uint64_t)cpus : 1);
    return true;
}

static bool write_memory(struct tidings_str text, struct jw *w)
{
    struct system_memory m;
    if (!system_parse_memory(text, &m)) {
        return false;
    }
    system_sample_put_count(w, "totalBytes", m.total);
    system_sample_put_count(w, "freeBytes", m.unused);
    system_sample_put_count(w, "availableBytes", m.available);
    system_sample_put_count(w, "buffersBytes", m.buffers);
    system_sample_put_count(w, "cachedBytes", m.cached);
    system_sample_put_count(w, "swapTotalBytes", m.swap_total);
    system_sample_put_count(w, "swapFreeBytes", m.swap_free);
    return true;
}

static void write_direction(struct jw *w, const char *key, const uint64_t counts[4])
{
    static const char *const names[] = {"bytes", "packets", "errors", "dropped"};
    jw_key(w, tidings_str(key));
    jw_begin_object(w);
    for (size_t i = 0; i < 4; i++) {
        system_sample_put_count(w, names[i], counts[i]);
    }
    jw_end_object(w);
}

static bool write_network(struct tidings_str text, struct jw *w)
{
    struct system_interface row;
    jw_key(w, STR("interfaces"));
    jw_begin_array(w);
    for (size_t n = 0; n < SYSTEM_ROWS_MAX && system_next_interface(&text, &row); n++) {
        jw_begin_object(w);
        jw_put_string(w, STR("name"), row.name);
        write_direction(w, "received", row.received);
        write_direction(w, "sent", row.sent);
        jw_end_object(w);
    }
    jw_end_array(w);
    return true;
}

/* A device that is mounted at several places (bind mounts) counts once, at the first. */
static bool seen_before(struct tidings_str devices[], size_t count, struct tidings_str device)
{
    for (size_t i = 0; i < count; i++) {
        if (str_eq(devices[i], device)) {
            return true;
        }
    }
    return false;
}

static bool write_disk(struct tidings_str text, struct jw *w)
{
    struct system_mount row;
    struct tidings_str devices[SYSTEM_ROWS_MAX];
    size_t n = 0;
    jw_key(w, STR("fileSystems"));
    jw_begin_array(w);
    while (n < SYSTEM_ROWS_MAX && system_next_mount(&text, &row)) {
        struct statvfs fs;
        if (seen_before(devices, n, row.device) || statvfs(row.path, &fs) < 0) {
            continue;
        }
        devices[n++] = row.device;
        jw_begin_object(w);
        jw_put_string(w, STR("path"), tidings_str(row.path));
        jw_put_string(w, STR("device"), row.device);
        jw_put_string(w, STR("type"), row.type);
        system_sample_put_count(w, "totalBytes", (uint64_t)fs.f_blocks * fs.f_frsize);
        system_sample_put_count(w, "freeBytes", (uint64_t)fs.f_bfree * fs.f_frsize);
        system_sample_put_count(w, "availableBytes", (uint64_t)fs.f_bavail * fs.f_frsize);
        system_sample_put_count(w, "files", fs.f_files);
        system_sample_put_count(w, "freeFiles", fs.f_ffree);
        jw_end_object(w);
    }
    jw_end_array(w);
    return true;
}

static const struct {
    const char *file;
    bool (*write)(struct tidings_str text, struct jw *w);
} sources[SYSTEM_METRICS] = {
    [SYSTEM_DISK] = {"self/mounts", write_disk},
    [SYSTEM_LOAD] = {"loadavg", write_load},
    [SYSTEM_MEMORY] = {"meminfo", write_memory},
    [SYSTEM_NETWORK] = {"self/net/dev", write_network},
};

/* Appends the metric as one JSON object to `out`. `proc` is the folder to read, "/proc". May block
 * as long as the system does. */
static int system_sample(const char *proc, enum system_metric metric, struct buf *out,
                         struct tidings_error *err)
{
    struct buf text;
    buf_init(&text, SYSTEM_TEXT_MAX);
    int rc = read_proc(proc, sources[metric].file, &text, err);
    if (rc == 0) {
        struct jw w;
        jw_init(&w, out);
        jw_begin_object(&w);
        bool understood = sources[metric].write(buf_str(&text), &w);
        jw_end_object(&w);
        if (!understood) {
            rc = tidings_fail(err, TIDINGS_E_PARSE,
                              "'%s/%s' does not have the format that is expected", proc,
                              sources[metric].file);
        } else {
            rc = buf_check(out, "the metric", NULL, err);
        }
    }
    buf_deinit(&text);
    return rc;
}

/* ---------------------------------------------------------------------------------------------- */

#define ALL SYSTEM_METRICS /* the container, in place of a metric */

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
    char known[SYSTEM_METRICS][ETAG_SIZE]; /* of the last sample; "": none yet */
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

/* Returns a metric, ALL for the container, or -1. */
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

/* Samples one metric; announces it if it is watched and differs from the last value. */
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

/* An unavailable metric is null: the others are still useful. */
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

static void system_deliver(struct thread_message *message, void *owner)
{
    struct system *s = owner;
    struct actor_job *e = list_entry(message, struct actor_job, message);
    if (e->read) {
        system_do_read(s, e);
    } else {
        count_needs(s, e->which, e->watch != NULL);
    }
    if (e->watch) {
        tidings_watch_done(e->watch, 0, NULL);
        system_on_tick(NULL, s); /* the baseline for later samples; after the answer, so that a
                                    difference from earlier reads is announced */
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
        tidings_watch_done(watch, TIDINGS_E_NOTFOUND, NULL); /* it will never exist */
    } else if (!system_send_job(s, NULL, watch, metric)) {
        tidings_watch_done(watch, TIDINGS_E_NOMEM, NULL);
    }
}

static void system_unwatch(struct tidings_provider *p, struct tidings_str uri)
{
    struct system *s = tidings_provider_state(p);
    (void)system_send_job(s, NULL, NULL, system_find(s, uri)); /* otherwise sampling continues */
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
