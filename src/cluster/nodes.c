/* SPDX-License-Identifier: MIT
 *
 * This server among the nodes that share its store: its row, which is valid for NODE_LEASE_MS and
 * renewed earlier, and tidings://self/nodes, which lists all nodes.
 *
 * The timer and the data that it collects belong to the server's thread. The commit thread reads
 * and writes rows.
 */
#include "cluster/nodes.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "cluster/cluster_internal.h"
#include "cluster/postgres_nodes.h"
#include "formats/json_write.h"
#include "security/limits.h"
#include "store/commit_thread.h"
#include "store/store.h"

#define NODE_LEASE_MS 6000
#define NODE_RENEW_MS 2000u
#define NODE_SILENT_MS 4500 /* age of a row at which the next one is overdue */
#define NODE_STATE_MAX 4096u
#define NODES_TEXT_MAX (8u << 20)
#define NODE_BEHIND_MS 10000   /* age of an unfollowed change that is logged as lag … */
#define NODE_CAUGHT_UP_MS 2000 /* … until the age is below this */
#define NODE_WAIT_MS 100u      /* between two checks for a stop request while it waits */
#define NODES_NOTED_MAX 64u    /* other nodes whose joins and exits are logged */

/* Another node, as of the last read of the rows. */
struct noted_node {
    char name[SHARED_NAME_MAX + 1];
    bool lives, is_there; /* is_there: it still has a row */
    bool is_behind;       /* and that was logged */
    bool differs;         /* it declares a mount differently, and that was logged */
};

struct cluster_nodes {
    struct cluster *cluster;
    struct loop_timer *timer;
    struct store_job job; /* writes the row; under way while `is_busy` */
    bool is_busy;         /* atomic */
    bool is_refused;      /* commit thread: another node has its name, and that was logged */
    bool is_behind;       /* commit thread: it lags, and that was logged */
    bool is_off; /* commit thread: the clock of this machine is wrong, and that was logged */
    struct noted_node noted[NODES_NOTED_MAX]; /* commit thread */
    size_t noted_count;
    uint64_t seen, unseen; /* commit thread: while counting, … */
    /* … atomic: live nodes, dead nodes, and the lag of this node */
    uint64_t count, silent, lag_ms;
    struct buf state;
    char name[SHARED_NAME_MAX + 1];
};

/* ---- its own row ----------------------------------------------------------------------------- */

static void gather_state(struct cluster_nodes *n)
{
    struct cluster *c = n->cluster;
    const struct limit_counters *counters = c->with.limits;
    const char *address = c->with.ops->address(c->with.user);
    struct jw w;
    buf_clear(&n->state);
    jw_init(&w, &n->state);
    jw_begin_object(&w);
    if (address) {
        jw_put_string(&w, STR("address"), tidings_str(address));
    }
    jw_put_integer(&w, STR("sessions"), (int64_t)limit_in_use(counters, LIMIT_SESSIONS));
    jw_put_integer(&w, STR("subscriptions"),
                   (int64_t)limit_in_use(counters, LIMIT_ALL_SUBSCRIPTIONS));
    cluster_owned_write(c, &w);
    cluster_declared_write(c, &w);
    jw_end_object(&w);
}

/* The clock of the store times everything that nodes share. Logs a deviation of the local clock. */
static void check_clock(struct cluster_nodes *n, struct store *store)
{
    int64_t off = postgres_clock_off(store);
    if (off != 0 && !n->is_off) {
        log_warn(LOG_NODES, "the clock of this machine is wrong, or the database's is",
                 KV("aheadMs", off),
                 KV("affects", "when tokens end, times in the log and of published resources; not "
                               "entities, sessions and leases"));
    } else if (off == 0 && n->is_off) {
        log_info(LOG_NODES, "the clock of this machine is that of the database again", NO_FIELDS);
    }
    n->is_off = off != 0;
}

static struct noted_node *find_noted(struct cluster_nodes *n, struct tidings_str name)
{
    for (size_t i = 0; i < n->noted_count; i++) {
        if (str_eq(tidings_str(n->noted[i].name), name)) {
            return &n->noted[i];
        }
    }
    if (n->noted_count == NODES_NOTED_MAX || name.len > SHARED_NAME_MAX) {
        return NULL;
    }
    struct noted_node *noted = &n->noted[n->noted_count++];
    *noted = (struct noted_node){.lives = false};
    memcpy(noted->name, name.ptr, name.len);
    return noted;
}

static void check_lag(const char *name, int64_t behind, bool *is_behind)
{
    if (!*is_behind && behind >= NODE_BEHIND_MS) {
        *is_behind = true;
        log_warn(LOG_NODES, "node is behind", KV("name", name), KV("lagMs", behind));
    } else if (*is_behind && behind < NODE_CAUGHT_UP_MS) {
        *is_behind = false;
        log_info(LOG_NODES, "node has caught up", KV("name", name));
    }
}

static void check_mounts(struct cluster_nodes *n, const struct node_row *row, bool *differs)
{
    struct mount_difference d;
    bool was = *differs;
    *differs = cluster_declared_differs(n->cluster, row->state, &d);
    if (*differs && !was) {
        log_warn(LOG_NODES, "mount is declared otherwise at another node: say the same at all",
                 KV("mount", d.mount), KV("here", mount_nodes_name(d.here)),
                 KV("there", mount_nodes_name(d.there)), KV("name", row->name));
    }
}

/* Logs changes of another node between live and silent. */
static void note_other(struct cluster_nodes *n, const struct node_row *row)
{
    struct noted_node *noted = find_noted(n, row->name);
    bool lives = row->left_ms > 0;
    if (!noted) {
        return;
    }
    if (lives && !noted->lives) {
        log_info(LOG_NODES, "node joined", KV("name", noted->name), KV("version", row->version));
    } else if (!lives && noted->lives) {
        log_warn(LOG_NODES, "node is silent", KV("name", noted->name),
                 KV("seenMs", (int64_t)(NODE_LEASE_MS - row->left_ms)),
                 KV("followed", row->followed));
    }
    if (lives) {
        check_lag(noted->name, row->behind_ms, &noted->is_behind);
        check_mounts(n, row, &noted->differs);
    }
    noted->lives = lives;
    noted->is_there = true;
}

/* Forgets nodes without rows: they ended cleanly, or were removed after a day. */
static void forget_gone(struct cluster_nodes *n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n->noted_count; i++) {
        struct noted_node *noted = &n->noted[i];
        if (!noted->is_there && noted->lives) {
            log_info(LOG_NODES, "node has ended", KV("name", noted->name));
        }
        if (noted->is_there) {
            noted->is_there = false;
            n->noted[kept++] = *noted;
        }
    }
    n->noted_count = kept;
}

static bool note_node(void *user, const struct node_row *row)
{
    struct cluster_nodes *n = user;
    n->seen += row->left_ms > 0;
    n->unseen += row->left_ms <= 0;
    if (!str_eq(row->name, tidings_str(n->name))) {
        note_other(n, row);
    }
    if (str_eq(row->name, tidings_str(n->name))) {
        int64_t behind = row->behind_ms;
        check_lag(n->name, behind, &n->is_behind);
        __atomic_store_n(&n->lag_ms, behind > 0 ? (uint64_t)behind : 0, __ATOMIC_RELAXED);
    }
    return true;
}

static int run_renew(struct store_job *job, struct entities *e)
{
    struct cluster_nodes *n = list_entry(job, struct cluster_nodes, job);
    struct store *store = entities_store(e);
    const struct node_row row = {
        .name = tidings_str(n->name),
        .version = tidings_str(tidings_version()),
        .state = n->state.failed ? STR("{}") : buf_str(&n->state),
        .followed = store->ops->followed(store),
    };
    int rc = postgres_put_node(store, &row, NODE_LEASE_MS, &job->err);
    if (rc == 0) {
        check_clock(n, store);
        n->seen = n->unseen = 0;
        if (postgres_each_node(store, note_node, n, NULL) == 0) {
            forget_gone(n);
            __atomic_store_n(&n->count, n->seen, __ATOMIC_RELAXED);
            __atomic_store_n(&n->silent, n->unseen, __ATOMIC_RELAXED);
        }
    }
    return rc;
}

static void cluster_nodes_on_renewed(struct store_job *job, int code)
{
    struct cluster_nodes *n = list_entry(job, struct cluster_nodes, job);
    if (code == TIDINGS_E_EXISTS && !n->is_refused) {
        log_error(LOG_NODES, "another node has this one's name", KV("node", n->name));
    }
    n->is_refused = code == TIDINGS_E_EXISTS;
    __atomic_store_n(&n->is_busy, false, __ATOMIC_RELEASE);
}

static void nodes_on_timer(struct loop_timer *timer, void *user)
{
    struct cluster_nodes *n = user;
    (void)timer;
    if (!__atomic_exchange_n(&n->is_busy, true, __ATOMIC_ACQ_REL)) {
        gather_state(n);
        n->job = (struct store_job){.run = run_renew, .done = cluster_nodes_on_renewed};
        list_init(&n->job.message.link);
        commit_thread_submit(n->cluster->commit_thread, &n->job);
    }
}

/* ---- all of them ----------------------------------------------------------------------------- */

struct nodes_reading {
    struct store_job job;
    struct tidings_read *read;
    struct jw w;
    struct buf text;
    struct tidings_str self;
    uint64_t newest; /* that any of them has reached */
};

static bool find_newest(void *user, const struct node_row *row)
{
    struct nodes_reading *r = user;
    r->newest = row->followed > r->newest ? row->followed : r->newest;
    return true;
}

/* Returns the lag in its row. If the node has been silent for too long: at least the time of its
 * silence, provided that there were changes to follow. */
static int64_t lag_of(const struct node_row *row, uint64_t newest)
{
    int64_t silent_ms = NODE_LEASE_MS - row->left_ms;
    if (silent_ms <= NODE_SILENT_MS) {
        return row->behind_ms;
    }
    return newest > row->followed && silent_ms > row->behind_now_ms ? silent_ms
                                                                    : row->behind_now_ms;
}

/* Returns true for members that other nodes observe, which a node must not state itself. */
static bool is_ours_to_say(struct tidings_str member)
{
    static const char *const known[] = {"name",  "version", "since", "followed", "lag",
                                        "lagMs", "seenMs",  "lives", "self"};
    bool is = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        is = is || str_eq(member, tidings_str(known[i]));
    }
    return is;
}

/* Writes the owned mounts that the reader may see. */
static void put_owned(struct nodes_reading *r, const struct json *owns)
{
    jw_begin_array(&r->w);
    for (size_t i = 0; i < jv_count(owns); i++) {
        struct tidings_str uri = jv_str(jv_at(owns, i));
        if (uri.len > 0 && tidings_read_shows(r->read, uri)) {
            jw_string(&r->w, uri);
        }
    }
    jw_end_array(&r->w);
}

static bool put_row(void *user, const struct node_row *row)
{
    struct nodes_reading *r = user;
    struct json *state = NULL;
    bool is_self = str_eq(row->name, r->self);
    jw_begin_object(&r->w);
    jw_put_string(&r->w, STR("name"), row->name);
    jw_put_string(&r->w, STR("version"), row->version);
    if (jv_parse(row->state, 8, &state, NULL) == 0 && jv_is(state, JV_OBJECT)) {
        struct tidings_str key;
        struct json *member = NULL;
        for (void *at = jv_next(state, NULL, &key, &member); at;
             at = jv_next(state, at, &key, &member)) {
            if (is_ours_to_say(key)) {
                continue;
            }
            jw_key(&r->w, key);
            if (str_eq(key, STR("owns")) || str_eq(key, STR("owned")) ||
                str_eq(key, STR("shared"))) {
                put_owned(r, member);
            } else {
                jw_value(&r->w, member);
            }
        }
    }
    jv_unref(state);
    jw_put_integer(&r->w, STR("since"), row->begun_ms);
    jw_put_integer(&r->w, STR("followed"), (int64_t)row->followed);
    jw_put_integer(&r->w, STR("lag"),
                   row->followed < r->newest ? (int64_t)(r->newest - row->followed) : 0);
    jw_put_integer(&r->w, STR("lagMs"), lag_of(row, r->newest));
    jw_put_integer(&r->w, STR("seenMs"),
                   row->left_ms < NODE_LEASE_MS ? NODE_LEASE_MS - row->left_ms : 0);
    jw_put_bool(&r->w, STR("lives"), row->left_ms > 0);
    if (is_self) {
        jw_put_bool(&r->w, STR("self"), true);
    }
    jw_end_object(&r->w);
    return true;
}

static int run_read_nodes(struct store_job *job, struct entities *e)
{
    struct nodes_reading *r = list_entry(job, struct nodes_reading, job);
    struct store *store = entities_store(e);
    r->newest = store->ops->followed(store);
    buf_init(&r->text, NODES_TEXT_MAX);
    jw_init(&r->w, &r->text);
    jw_begin_array(&r->w);
    int rc = postgres_each_node(store, find_newest, r, &job->err);
    rc = rc == 0 ? postgres_each_node(store, put_row, r, &job->err) : rc;
    jw_end_array(&r->w);
    return rc;
}

static void nodes_were_read(struct store_job *job, int code)
{
    struct nodes_reading *r = list_entry(job, struct nodes_reading, job);
    struct tidings_read *read = r->read;
    struct tidings_error err = job->err;
    struct tidings_resource about = {.name = STR("nodes"), .mime_type = STR("application/json")};
    int rc = code < 0 ? code : buf_check(&r->text, "the list of nodes", NULL, &err);
    rc = rc < 0 ? rc : tidings_read_text(read, &about, buf_str(&r->text), &err);
    buf_deinit(&r->text);
    mem_free(r);
    tidings_read_done(read, rc, &err);
}

void cluster_nodes_read(struct cluster *c, struct tidings_read *read)
{
    struct nodes_reading *r = mem_zalloc(sizeof(*r));
    if (!r) {
        tidings_read_done(read, TIDINGS_E_NOMEM, NULL);
        return;
    }
    r->job.run = run_read_nodes;
    r->job.done = nodes_were_read;
    list_init(&r->job.message.link);
    r->read = read;
    r->self = tidings_str(c->nodes->name);
    commit_thread_submit(c->commit_thread, &r->job);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Chooses a unique name, unless one was configured. */
static int choose_name(struct cluster_nodes *n, struct tidings_error *err)
{
    const char *given = n->cluster->with.node;
    unsigned char random[4];
    char host[64] = "node";
    if (given[0]) {
        snprintf(n->name, sizeof n->name, "%s", given);
        return 0;
    }
    if (gethostname(host, sizeof host - 1) < 0 || random_bytes(random, sizeof random) < 0) {
        return tidings_fail(err, TIDINGS_E_IO, "this node has no name: give it one (--node)");
    }
    snprintf(n->name, sizeof n->name, "%s-%02x%02x%02x%02x", host, random[0], random[1], random[2],
             random[3]);
    return 0;
}

static bool find_left(void *user, const struct node_row *row)
{
    struct nodes_reading *r = user;
    if (str_eq(row->name, r->self)) {
        r->newest = row->left_ms > 0 ? (uint64_t)row->left_ms : 0;
        return false;
    }
    return true;
}

static int run_find_left(struct store_job *job, struct entities *e)
{
    struct nodes_reading *r = list_entry(job, struct nodes_reading, job);
    struct store *store = entities_store(e);
    return postgres_each_node(store, find_left, r, &job->err);
}

/* Waits; signals can shorten that, and have no other effect unless they stop the server. Returns
 * false if the server must stop.
 */
static bool nodes_pause(const struct cluster *c, uint64_t ms)
{
    uint64_t end = clock_monotonic_ms() + ms, now;
    while (!c->with.ops->is_stopping(c->with.user) && (now = clock_monotonic_ms()) < end) {
        uint64_t left = end - now < NODE_WAIT_MS ? end - now : NODE_WAIT_MS;
        const struct timespec pause = {0, (long)left * 1000000};
        (void)nanosleep(&pause, NULL);
    }
    return !c->with.ops->is_stopping(c->with.user);
}

/* A node that restarts under its name after a crash waits until its old row has expired. */
static int enter_nodes(struct cluster_nodes *n, struct tidings_error *err)
{
    n->job = (struct store_job){.run = run_renew};
    int rc = commit_thread_run(n->cluster->commit_thread, &n->job);
    if (rc == TIDINGS_E_EXISTS) {
        struct nodes_reading r = {.self = tidings_str(n->name)};
        r.job.run = run_find_left;
        (void)commit_thread_run(n->cluster->commit_thread, &r.job);
        uint64_t left = r.newest < NODE_LEASE_MS ? r.newest : NODE_LEASE_MS;
        log_info(LOG_NODES, "waiting for the name of this node", KV("node", n->name),
                 KV("ms", left));
        if (!nodes_pause(n->cluster, left)) {
            return tidings_fail(err, TIDINGS_E_CLOSED, "stopped before it had started");
        }
        n->job = (struct store_job){.run = run_renew};
        rc = commit_thread_run(n->cluster->commit_thread, &n->job);
    }
    return rc < 0 ? tidings_fail(err, rc, "%s", n->job.err.text) : 0;
}

int cluster_nodes_open(struct cluster *c, struct tidings_error *err)
{
    struct cluster_nodes *n = mem_zalloc(sizeof(*n));
    if (!n) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    n->cluster = c;
    buf_init(&n->state, NODE_STATE_MAX);
    n->timer = loop_timer_open(c->with.loop, nodes_on_timer, n);
    int rc = n->timer ? choose_name(n, err) : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    gather_state(n);
    rc = rc == 0 ? enter_nodes(n, err) : rc;
    if (rc < 0) {
        loop_timer_close(n->timer);
        buf_deinit(&n->state);
        mem_free(n);
        return rc;
    }
    c->nodes = n;
    loop_timer_start(n->timer, NODE_RENEW_MS, NODE_RENEW_MS);
    log_info(LOG_NODES, "node", KV("name", n->name));
    return 0;
}

static int run_leave(struct store_job *job, struct entities *e)
{
    struct cluster_nodes *n = list_entry(job, struct cluster_nodes, job);
    struct store *store = entities_store(e);
    return postgres_drop_node(store, tidings_str(n->name), &job->err);
}

void cluster_nodes_close(struct cluster *c)
{
    struct cluster_nodes *n = c->nodes;
    if (!n) {
        return;
    }
    loop_timer_close(n->timer);
    struct cluster_nodes leaving = {.cluster = c};
    memcpy(leaving.name, n->name, sizeof leaving.name);
    leaving.job.run = run_leave;
    (void)commit_thread_run(c->commit_thread, &leaving.job); /* after a renewal under way */
    buf_deinit(&n->state);
    mem_free(n);
    c->nodes = NULL;
}

struct tidings_str cluster_nodes_name(const struct cluster *c)
{
    return tidings_str(c->nodes->name);
}

uint64_t cluster_nodes_silent(const struct cluster *c)
{
    return __atomic_load_n(&c->nodes->silent, __ATOMIC_RELAXED);
}

void cluster_nodes_get(const struct cluster *c, uint64_t *ret_count, uint64_t *ret_lag_us)
{
    *ret_count = __atomic_load_n(&c->nodes->count, __ATOMIC_RELAXED);
    *ret_lag_us = __atomic_load_n(&c->nodes->lag_ms, __ATOMIC_RELAXED) * 1000;
}
