/* SPDX-License-Identifier: MIT
 *
 * The provider of tidings://self/. A read sends one letter to each worker; each adds its part on
 * its own thread, and the last one finishes the read. Nothing is locked and nothing is counted
 * twice.
 */
#include "server/status_provider.h"

#include "base/mem.h"
#include "base/str.h"
#include "catalog/job_read.h"
#include "catalog/semantics.h"
#include "delivery/hub.h"
#include "dialect/dialect.h"
#include "server/metrics_text.h"
#include "server/sandbox.h"
#include "server/server_history.h"
#include "server/server_metrics.h"
#include "server/server_nodes.h"
#include "server/server_overview.h"
#include "server/server_tool_figures.h"
#include "server/status_covers.h"
#include "server/status_mine.h"
#include "server/status_rows.h"
#include "json/write.h"

#define PART_MAX (8u << 20) /* a page and one row more */
#define ANNOUNCE_MS 1000u

/* The live ones come first. */
enum status_kind {
    STATUS_STATS,
    STATUS_PEERS,
    STATUS_SUBSCRIPTIONS,
    STATUS_FAILURES,
    STATUS_OVERVIEW, /* … and these are not gathered as rows */
    STATUS_NODES,
    STATUS_LIMITS,
    STATUS_TOKENS,
    STATUS_TOOLS,
    STATUS_METRICS, /* this and what follows cannot be subscribed to */
    STATUS_HISTORY,
    STATUS_MOUNTS,
    STATUS_SANDBOX,
    STATUS_SEMANTICS, /* this and what follows are there without --self */
    STATUS_MINE,
};
#define STATUS_LIVE ((unsigned)STATUS_METRICS)
#define STATUS_KINDS ((unsigned)STATUS_MINE + 1)

#define STATUS_TEXT(text)                                                                          \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }
#define STATUS_ROW(name, description)                                                              \
    {                                                                                              \
        STATUS_TEXT(STATUS_PREFIX name), STATUS_TEXT(name), STATUS_TEXT(description)               \
    }
static const struct {
    struct tidings_str uri, name, description;
} kinds[STATUS_KINDS] = {
    [STATUS_STATS] = STATUS_ROW("stats", "Counters of each worker"),
    [STATUS_PEERS] = STATUS_ROW("peers", "Clients that are there"),
    [STATUS_SUBSCRIPTIONS] = STATUS_ROW("subscriptions", "What each client is subscribed to"),
    [STATUS_FAILURES] = STATUS_ROW("failures", "Requests that failed, by method and code"),
    [STATUS_OVERVIEW] = STATUS_ROW("status", "The server at a glance"),
    [STATUS_NODES] = STATUS_ROW("nodes", "Servers that share the store"),
    [STATUS_LIMITS] = STATUS_ROW("limits", "Limits, and how often they were reached"),
    [STATUS_TOKENS] = STATUS_ROW("tokens", "Tokens that were verified, and why others were not"),
    [STATUS_TOOLS] = STATUS_ROW("tools", "Calls of each tool, and how long they took"),
    [STATUS_METRICS] = STATUS_ROW("metrics", "Metrics for Prometheus"),
    [STATUS_HISTORY] = STATUS_ROW("history", "The last 15 minutes, for the console"),
    [STATUS_MOUNTS] = STATUS_ROW("mounts", "Which provider serves what is below a URI"),
    [STATUS_SANDBOX] = STATUS_ROW("sandbox", "What the process has given up"),
    [STATUS_SEMANTICS] = STATUS_ROW("semantics", "What subscriptions cover, per scheme"),
    [STATUS_MINE] = STATUS_ROW("subscriptions/mine", "What whoever reads this is subscribed to"),
};

struct status {
    struct tidings_provider *provider;
    struct worker *const *cores;
    size_t worker_count;
    struct loop_timer *timer;
    unsigned watched; /* bit per kind */
    unsigned needs[STATUS_LIVE];
    const struct auth *auth; /* NULL: tokens are not looked at */
    const struct sandbox *sandbox;
    struct tidings_server *server;
    struct server_nodes *nodes; /* NULL: nobody else shares the store */
    bool all;                   /* false: STATUS_SEMANTICS and what follows */
};

/* ---- gathering ------------------------------------------------------------------------------- */

struct gather;

struct part {
    struct letter letter;
    struct gather *gather;
    struct buf text;  /* an array of rows */
    bool is_complete; /* there are no more behind them */
};

struct gather {
    struct tidings_read *read;
    enum status_kind kind;
    struct status_after after;
    char *covers; /* of subscriptions: the URI they have to cover; NULL: any */
    size_t count;
    size_t left; /* atomic */
    struct part parts[];
};

/* One array: the parts in order, up to the first that is not complete. */
static void status_join(struct gather *g, struct buf *text)
{
    bool more = true;
    buf_init(text, PART_MAX * g->count + 64);
    buf_putc(text, '[');
    for (size_t i = 0; i < g->count; i++) {
        const struct part *part = &g->parts[i];
        struct tidings_str rows = buf_str(&part->text);
        if (more && part->text.failed) {
            text->failed = part->text.failed;
        }
        if (more && rows.len > 2) { /* they have brackets of their own */
            if (text->len > 1) {
                buf_putc(text, ',');
            }
            buf_put(text, rows.ptr + 1, rows.len - 2);
        }
        more = more && part->is_complete;
    }
    buf_putc(text, ']');
}

static void status_finish(struct gather *g)
{
    struct buf text;
    struct tidings_error err = {0};
    status_join(g, &text);
    for (size_t i = 0; i < g->count; i++) {
        buf_deinit(&g->parts[i].text);
    }
    struct tidings_resource about = {0};
    about.name = kinds[g->kind].name;
    about.mime_type = STR("application/json");
    int rc = buf_check(&text, "the server's state", NULL, &err);
    rc = rc < 0 ? rc : tidings_read_text(g->read, &about, buf_str(&text), &err);
    tidings_read_done(g->read, rc, &err);
    buf_deinit(&text);
    mem_free(g->covers);
    mem_free(g);
}

static void status_part_done(struct part *part)
{
    struct gather *g = part->gather;
    if (__atomic_sub_fetch(&g->left, 1, __ATOMIC_ACQ_REL) == 0) {
        status_finish(g);
    }
}

static void status_part_deliver(struct letter *letter, void *owner)
{
    static const enum status_rows rows[] = {
        [STATUS_STATS] = STATUS_ROWS_STATS,
        [STATUS_PEERS] = STATUS_ROWS_PEERS,
        [STATUS_SUBSCRIPTIONS] = STATUS_ROWS_SUBSCRIPTIONS,
        [STATUS_FAILURES] = STATUS_ROWS_FAILURES,
    };
    struct part *part = list_entry(letter, struct part, letter);
    const struct gather *g = part->gather;
    if (g->covers) {
        status_write_covers(&part->text, owner, tidings_str(g->covers));
        part->is_complete = true;
        status_part_done(part);
        return;
    }
    part->is_complete = status_write_rows(&part->text, owner, rows[g->kind], &g->after);
    status_part_done(part);
}

static void status_part_drop(struct letter *letter)
{
    status_part_done(list_entry(letter, struct part, letter));
}

/* Ask every worker; `what` says for which rows, and gives away `covers`. */
static void gather_start(const struct status *status, struct tidings_read *read,
                         const struct gather *what)
{
    struct gather *g = mem_zalloc(sizeof(*g) + status->worker_count * sizeof(g->parts[0]));
    if (!g) {
        mem_free(what->covers);
        tidings_read_done(read, TIDINGS_E_NOMEM, NULL);
        return;
    }
    *g = *what;
    g->read = read;
    g->count = g->left = status->worker_count;
    for (size_t i = 0; i < g->count; i++) {
        g->parts[i].gather = g;
        g->parts[i].letter.deliver = status_part_deliver;
        g->parts[i].letter.drop = status_part_drop;
        buf_init(&g->parts[i].text, PART_MAX);
    }
    for (size_t i = 0, n = g->count; i < n; i++) {
        mailbox_send(status->cores[i]->mailbox, &g->parts[i].letter);
    }
}

/* ---- the provider ---------------------------------------------------------------------------- */

static int find_kind(const struct status *status, struct tidings_str uri)
{
    for (unsigned i = status->all ? 0 : STATUS_SEMANTICS; i < STATUS_KINDS; i++) {
        if (str_eq(kinds[i].uri, uri)) {
            return (int)i;
        }
    }
    return -1;
}

static void status_describe(enum status_kind kind, struct tidings_resource *about)
{
    *about = (struct tidings_resource){0};
    about->uri = kinds[kind].uri;
    about->name = kinds[kind].name;
    about->description = kinds[kind].description;
    about->mime_type = kind == STATUS_METRICS ? STR(METRICS_TYPE_PLAIN) : STR("application/json");
    about->not_subscribable = (unsigned)kind >= STATUS_LIVE;
}

static void write_mounts(struct jw *w, const struct catalog *catalog)
{
    jw_begin_array(w);
    for (size_t i = 0; i < catalog->mount_count; i++) {
        const struct tidings_provider *p = catalog->mounts[i];
        jw_begin_object(w);
        jw_put_string(w, STR("uri"), p->prefix);
        jw_put_string(w, STR("provider"), tidings_str(p->ops->name));
        jw_put_bool(w, STR("writable"), p->ops->write != NULL);
        if (!p->is_durable) {
            jw_put_string(w, STR("nodes"), tidings_str(mount_nodes_name(p->nodes)));
        }
        jw_end_object(w);
    }
    jw_end_array(w);
}

/* What this worker knows by itself: its catalog, and what all of them count in one place. */
static void read_catalog(const struct status *status, struct tidings_read *read,
                         enum status_kind kind)
{
    struct tidings_resource about;
    struct tidings_error err = {0};
    struct buf text;
    struct jw w;
    status_describe(kind, &about);
    buf_init(&text, PART_MAX);
    jw_init(&w, &text);
    if (kind == STATUS_NODES) {
        jw_begin_array(&w);
        jw_end_array(&w);
    } else if (kind == STATUS_LIMITS) {
        status_write_limits(&w, read->base.worker->limit_counters);
    } else if (kind == STATUS_TOKENS) {
        status_write_tokens(&w, status->auth);
    } else if (kind == STATUS_MOUNTS) {
        write_mounts(&w, read->base.worker->catalog);
    } else if (kind == STATUS_SANDBOX) {
        sandbox_write(status->sandbox, &w);
    } else {
        semantics_write(&w, read->base.worker->catalog, read->base.worker->self->allow_write);
    }
    int rc = buf_check(&text, "the server's state", NULL, &err);
    rc = rc < 0 ? rc : tidings_read_text(read, &about, buf_str(&text), &err);
    tidings_read_done(read, rc, &err);
    buf_deinit(&text);
}

/* Cut off `?covers=URI` of the subscriptions; *ret: that URI, canonical, NULL: none. */
static int take_covers(struct tidings_str *uri, char **ret, struct tidings_error *err)
{
    struct tidings_str query;
    bool has_query = false;
    struct tidings_str path = str_cut(*uri, '?', &query, &has_query);
    *ret = NULL;
    if (!has_query || !str_starts(query, STR("covers=")) ||
        !str_eq(path, kinds[STATUS_SUBSCRIPTIONS].uri)) {
        return 0;
    }
    struct buf text, canonical;
    buf_init(&text, URI_MAX + 1);
    buf_init(&canonical, URI_MAX + 1);
    int rc = uri_decode(&text, str_skip(query, sizeof("covers=") - 1), err);
    rc = rc == 0 ? uri_canonical(buf_str(&text), &canonical, err) : rc;
    if (rc == 0) {
        *ret = str_dup(buf_str(&canonical));
        rc = *ret ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        *uri = path;
    }
    buf_deinit(&text);
    buf_deinit(&canonical);
    return rc;
}

/* Cut off `?after=ROW`. */
static int take_after(struct tidings_str *uri, struct status_after *after,
                      struct tidings_error *err)
{
    struct tidings_str query;
    bool has_query = false;
    struct tidings_str path = str_cut(*uri, '?', &query, &has_query);
    *after = (struct status_after){0};
    if (!has_query) {
        return 0;
    }
    struct tidings_str value = str_skip(query, sizeof("after=") - 1);
    if (!str_starts(query, STR("after=")) || !status_after_parse(value, after)) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "the query must be 'after=' and the 'row' of the last row of a page");
    }
    *uri = path;
    return 0;
}

/* ---- reading -----------------------------------------------------------------------------------
 */

/* Its query, without a bad one; false: it is not about that. */
static bool is_mine(struct tidings_str uri, struct tidings_str *ret_after)
{
    struct tidings_str query;
    bool has_query = false;
    struct tidings_str path = str_cut(uri, '?', &query, &has_query);
    *ret_after = str_starts(query, STR("after=")) ? str_skip(query, sizeof("after=") - 1) : query;
    return str_eq(path, kinds[STATUS_MINE].uri);
}

static void status_read(struct tidings_provider *p, struct tidings_read *read,
                        struct tidings_str uri)
{
    struct status *status = tidings_provider_state(p);
    struct tidings_error err;
    struct status_after after;
    struct tidings_str mine_after;
    if (is_mine(uri, &mine_after)) {
        status_mine_read(read, mine_after);
        return;
    }
    char *covers = NULL;
    int rc = take_covers(&uri, &covers, &err);
    rc = rc == 0 ? take_after(&uri, &after, &err) : rc;
    if (rc < 0) {
        mem_free(covers);
        tidings_read_done(read, rc, &err);
        return;
    }
    int kind = find_kind(status, uri);
    static void (*const readers[STATUS_KINDS])(struct tidings_server *, struct tidings_read *) = {
        [STATUS_METRICS] = server_metrics_read,
        [STATUS_TOOLS] = server_tool_figures_read,
        [STATUS_OVERVIEW] = server_overview_read,
        [STATUS_HISTORY] = server_history_read,
    };
    if (kind >= 0 && readers[kind]) {
        readers[kind](status->server, read);
        return;
    }
    if (kind == (int)STATUS_NODES && status->nodes) {
        server_nodes_read(status->nodes, read);
        return;
    }
    if (kind >= (int)STATUS_NODES) {
        read_catalog(status, read, (enum status_kind)kind);
        return;
    }
    if (kind < 0 || status->worker_count == 0) {
        mem_free(covers);
        tidings_read_done(read, TIDINGS_E_NOTFOUND, NULL);
        return;
    }
    gather_start(
        status, read,
        &(struct gather){.kind = (enum status_kind)kind, .after = after, .covers = covers});
}

static void status_list(struct tidings_provider *p, struct tidings_list *list)
{
    (void)p;
    static const enum status_kind order[] = {
        STATUS_FAILURES, STATUS_HISTORY,       STATUS_LIMITS,  STATUS_METRICS,   STATUS_MOUNTS,
        STATUS_NODES,    STATUS_PEERS,         STATUS_SANDBOX, STATUS_SEMANTICS, STATUS_STATS,
        STATUS_OVERVIEW, STATUS_SUBSCRIPTIONS, STATUS_MINE,    STATUS_TOKENS,    STATUS_TOOLS};
    _Static_assert(sizeof(order) / sizeof(order[0]) == STATUS_KINDS, "each is listed");
    struct tidings_error err;
    int rc = 1;
    for (size_t i = 0; i < STATUS_KINDS && rc > 0; i++) {
        struct tidings_resource about;
        status_describe(order[i], &about);
        if (str_cmp(about.uri, tidings_list_after(list)) > 0) {
            rc = tidings_list_add(list, &about, &err);
        }
    }
    tidings_list_done(list, rc < 0 ? rc : 0, &err);
}

static void status_stat(struct tidings_provider *p, struct tidings_stat *stat,
                        struct tidings_str uri)
{
    int kind = find_kind(tidings_provider_state(p), uri);
    struct tidings_resource about;
    if (kind < 0) {
        tidings_stat_done(stat, TIDINGS_E_NOTFOUND, NULL, NULL);
        return;
    }
    status_describe((enum status_kind)kind, &about);
    tidings_stat_done(stat, 0, &about, NULL);
}

static void status_announce(struct loop_timer *timer, void *user)
{
    (void)timer;
    struct status *status = user;
    for (unsigned i = 0; i < STATUS_LIVE; i++) {
        if (status->watched & (1u << i)) {
            struct tidings_change change = {.uri = kinds[i].uri};
            (void)tidings_provider_changed(status->provider, &change, NULL);
        }
    }
}

static unsigned kinds_below(struct tidings_str uri)
{
    unsigned bits = 0;
    for (unsigned i = 0; i < STATUS_LIVE; i++) {
        if (str_eq(kinds[i].uri, uri) ||
            (uri.ptr[uri.len - 1] == '/' && str_starts(kinds[i].uri, uri))) {
            bits |= 1u << i;
        }
    }
    return bits;
}

static void status_watch(struct tidings_provider *p, struct tidings_watch *watch,
                         struct tidings_str uri)
{
    struct status *status = tidings_provider_state(p);
    if (kinds_below(uri) == 0) {
        tidings_watch_done(watch, TIDINGS_E_NOTFOUND, NULL); /* nor will there ever be one */
        return;
    }
    status->watched |= kinds_below(uri);
    for (unsigned i = 0; i < STATUS_LIVE; i++) {
        status->needs[i] += (kinds_below(uri) >> i) & 1u; /* scopes overlap */
    }
    if (!loop_timer_is_running(status->timer)) {
        loop_timer_start(status->timer, ANNOUNCE_MS, ANNOUNCE_MS);
    }
    tidings_watch_done(watch, 0, NULL);
}

static void status_unwatch(struct tidings_provider *p, struct tidings_str uri)
{
    struct status *status = tidings_provider_state(p);
    for (unsigned i = 0; i < STATUS_LIVE; i++) {
        status->needs[i] -= (kinds_below(uri) >> i) & 1u;
        status->watched &= status->needs[i] > 0 ? ~0u : ~(1u << i);
    }
    if (status->watched == 0) {
        loop_timer_stop(status->timer);
    }
}

static struct tidings_str status_row(size_t i, bool *ret_not_subscribable)
{
    *ret_not_subscribable = i >= STATUS_LIVE;
    return i < STATUS_KINDS ? kinds[i].name : STR_EMPTY;
}

static int status_open(struct tidings_provider *p, struct tidings_str config,
                       struct tidings_error *err)
{
    (void)config;
    struct status *status = tidings_provider_state(p);
    status->all = p->ops == &provider_status_ops;
    p->row = status->all ? status_row : NULL; /* without --self it refuses every watch */
    status->provider = p;
    status->timer = loop_timer_open(p->host->loop, status_announce, status);
    return status->timer ? 0 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
}

static void status_close(struct tidings_provider *p)
{
    struct status *status = tidings_provider_state(p);
    loop_timer_close(status->timer);
}

void status_set_cores(struct tidings_provider *p, struct worker *const *cores, size_t count)
{
    struct status *status = tidings_provider_state(p);
    status->cores = cores;
    status->worker_count = count;
}

void status_set_auth(struct tidings_provider *p, const struct auth *auth)
{
    struct status *status = tidings_provider_state(p);
    status->auth = auth;
}

void status_set_server(struct tidings_provider *p, struct tidings_server *server)
{
    struct status *status = tidings_provider_state(p);
    status->server = server;
}

void status_set_nodes(struct tidings_provider *p, struct server_nodes *nodes)
{
    struct status *status = tidings_provider_state(p);
    status->nodes = nodes;
}

void status_set_sandbox(struct tidings_provider *p, const struct sandbox *sandbox)
{
    struct status *status = tidings_provider_state(p);
    status->sandbox = sandbox;
}

/* Nothing of it is announced. */
static void refuse_watch(struct tidings_provider *p, struct tidings_watch *watch,
                         struct tidings_str uri)
{
    (void)p;
    (void)uri;
    tidings_watch_done(watch, TIDINGS_E_NOTFOUND, NULL);
}

const struct tidings_provider_ops provider_semantics_ops = {
    .abi = TIDINGS_PROVIDER_ABI,
    .name = "self",
    .size = sizeof(struct status),
    .flags = TIDINGS_PROVIDER_FIXED_LIST | TIDINGS_PROVIDER_BARE_CHANGES,
    .open = status_open,
    .read = status_read,
    .stat = status_stat,
    .watch = refuse_watch,
    .unwatch = status_unwatch,
    .close = status_close,
};

const struct tidings_provider_ops provider_status_ops = {
    .abi = TIDINGS_PROVIDER_ABI,
    .name = "self",
    .size = sizeof(struct status),
    .flags = TIDINGS_PROVIDER_FIXED_LIST | TIDINGS_PROVIDER_BARE_CHANGES,
    .open = status_open,
    .read = status_read,
    .list = status_list,
    .stat = status_stat,
    .watch = status_watch,
    .unwatch = status_unwatch,
    .close = status_close,
};
