/* SPDX-License-Identifier: MIT */
#include "support/nodes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/protocol/session_migration.h"
#include "store/change.h"
#include "support/fail_alloc_hold.h"

#define TURNS 100000

/* ---- the store of sessions ------------------------------------------------------------------- */

static struct session_memory_row *find_row(struct nodes *all, const char *key)
{
    for (size_t i = 0; i < NODES_ROWS; i++) {
        if (strcmp(all->rows[i].key, key) == 0) {
            return &all->rows[i];
        }
    }
    return NULL;
}

static int put(struct nodes *all, size_t node, struct session_job *job)
{
    struct session_memory_row *row = find_row(all, job->key);
    all->puts++;
    if ((row && (row->generation != job->generation || row->node != node)) ||
        (!row && job->generation > 0)) {
        return TIDINGS_E_CONFLICT;
    }
    row = row ? row : find_row(all, "");
    assert_non_null(row);
    snprintf(row->key, sizeof(row->key), "%s", job->key);
    mem_free(row->state);
    row->state = str_dup(buf_str(&job->state));
    row->generation = job->generation;
    row->node = node;
    return 0;
}

static void tell_taken(struct nodes *all, const struct session_memory_row *row, size_t by)
{
    struct node *before = &all->at[row->node];
    if (row->node != by) {
        assert_true(before->moved_count < NODES_ROWS);
        snprintf(before->moved[before->moved_count++], sizeof(before->moved[0]), "%s", row->key);
    }
}

static int take(struct nodes *all, size_t node, struct session_job *job)
{
    struct session_memory_row *row = find_row(all, job->key);
    all->takes++;
    if (!row) {
        return 0;
    }
    tell_taken(all, row, node);
    row->node = node;
    job->generation = ++row->generation;
    buf_puts(&job->state, tidings_str(row->state));
    return 1;
}

static int drop(struct nodes *all, size_t node, const struct session_job *job)
{
    struct session_memory_row *row = find_row(all, job->key);
    all->drops++;
    if (row && job->op == SESSION_DROP && row->generation != job->generation) {
        return TIDINGS_E_CONFLICT;
    }
    if (row) {
        tell_taken(all, row, node);
        mem_free(row->state);
        *row = (struct session_memory_row){.state = NULL};
    }
    return 0;
}

static void perform(struct node *n, struct session_job *job)
{
    struct nodes *all = n->all;
    fail_alloc_held++;
    if (all->is_unreachable) {
        job->code = tidings_fail(&job->err, TIDINGS_E_BUSY, "the store cannot be reached");
    } else {
        job->code = job->op == SESSION_PUT    ? put(all, n->index, job)
                    : job->op == SESSION_TAKE ? take(all, n->index, job)
                                              : drop(all, n->index, job);
    }
    fail_alloc_held--;
    session_job_answer(job);
}

static void submit(struct session_store *store, struct session_job *job)
{
    struct node *n = list_entry(store, struct node, store);
    struct nodes *all = n->all;
    if (!n->is_running) { /* it was killed */
        job->code = TIDINGS_E_CLOSED;
        session_job_answer(job);
    } else if (all->is_stuck) {
        assert_true(all->stuck_count < sizeof(all->stuck) / sizeof(all->stuck[0]));
        all->stuck[all->stuck_count++] = job;
    } else {
        perform(n, job);
    }
}

void nodes_unstick(struct nodes *all)
{
    size_t count = all->stuck_count;
    all->is_stuck = false;
    all->stuck_count = 0;
    for (size_t i = 0; i < count; i++) {
        struct session_job *job = all->stuck[i];
        size_t at = job->reply_to == all->at[0].b.worker[0]->mailbox ? 0 : 1;
        perform(&all->at[at], job);
    }
    nodes_run_until_idle(all);
}

struct session_memory_row *nodes_row(struct nodes *all, const struct harness_session *s)
{
    for (size_t i = 0; i < NODES_ROWS; i++) {
        if (strncmp(all->rows[i].key, s->id, SESSION_ID_LEN) == 0) {
            return &all->rows[i];
        }
    }
    return NULL;
}

/* ---- logs ------------------------------------------------------------------------------------ */

static struct node *node_of(const struct changelog *log)
{
    return list_entry((struct changelog *)(uintptr_t)log, struct node, log);
}

static void log_destroy(struct changelog *log)
{
    node_of(log)->rows->ops->destroy(node_of(log)->rows);
}
static uint64_t log_epoch(const struct changelog *log)
{
    return node_of(log)->rows->ops->epoch(node_of(log)->rows);
}
static uint64_t log_first(const struct changelog *log)
{
    (void)log;
    return 0;
}
static uint64_t log_last(const struct changelog *log)
{
    return node_of(log)->rows->ops->last(node_of(log)->rows);
}
static uint64_t log_floor(const struct changelog *log)
{
    return node_of(log)->rows->ops->floor(node_of(log)->rows);
}
static uint64_t log_next(struct changelog *log)
{
    return node_of(log)->rows->ops->next(node_of(log)->rows);
}
static size_t log_each(const struct changelog *log, uint64_t after, changelog_each_fn fn,
                       void *user)
{
    return node_of(log)->rows->ops->each(node_of(log)->rows, after, fn, user);
}

static int log_append(struct changelog *log, const struct change *change)
{
    struct node *n = node_of(log);
    if (change->position > 0) {
        assert_true(n->mark_count < sizeof(n->marks) / sizeof(n->marks[0]));
        n->marks[n->mark_count].position = change->position;
        n->marks[n->mark_count++].seq = change->seq;
    }
    return n->rows->ops->append(n->rows, change);
}

static bool log_knows(const struct changelog *log, uint64_t epoch, uint64_t position)
{
    const struct node *n = node_of(log);
    bool has_ended = n->others_ended > 0 && position > n->others_ended;
    return epoch == log_epoch(log) || !(n->is_lonely || has_ended);
}

static bool log_resume(const struct changelog *log, uint64_t epoch, uint64_t position,
                       bool is_durable, uint64_t *ret)
{
    (void)is_durable;
    struct node *n = node_of(log);
    bool is_known = false;
    for (size_t i = 0; i < NODES; i++) {
        is_known = is_known || log_epoch(&n->all->at[i].log) == epoch;
    }
    *ret = 0;
    for (size_t i = 0; i < n->mark_count && n->marks[i].position <= position; i++) {
        *ret = n->marks[i].seq;
    }
    return is_known && log_knows(log, epoch, position) && position >= n->all->lost_below;
}

static const struct changelog_ops log_ops = {
    .name = "shared",
    .destroy = log_destroy,
    .epoch = log_epoch,
    .first = log_first,
    .resume = log_resume,
    .knows = log_knows,
    .last = log_last,
    .floor = log_floor,
    .next = log_next,
    .append = log_append,
    .each = log_each,
};

/* ---- life ------------------------------------------------------------------------------------ */

void nodes_init(struct nodes *all)
{
    memset(all, 0, sizeof(*all));
    for (size_t i = 0; i < NODES; i++) {
        harness_init(&all->at[i].b);
        all->at[i].b.self.list_changed = all->at[i].b.options.list_changed = false;
    }
}

void nodes_start(struct nodes *all)
{
    for (size_t i = 0; i < NODES; i++) {
        struct node *n = &all->at[i];
        n->all = all;
        n->index = i;
        n->is_running = true;
        n->rows = changelog_memory_create(&n->b.options.log, NULL);
        assert_non_null(n->rows);
        n->log = (struct changelog){.ops = &log_ops, .is_durable = true};
        n->b.options.durable = &n->log;
        n->b.options.is_shared = true;
        harness_start(&n->b);
        stub_mount(&n->kept, &n->b, "kept://x/", 0);
        stub_mount(&n->local, &n->b, "mem://x/", 0);
        n->kept.provider->is_durable = true;
        for (char c = 'a'; c < 'f'; c++) {
            stub_add(&n->kept, text_of("kept://x/%c", c), false);
            stub_add(&n->local, text_of("mem://x/%c", c), false);
        }
        for (size_t k = 0; k < 3 * i; k++) { /* numbers of one mean nothing at the other */
            harness_update(&n->b, "mem://x/e");
        }
        harness_run_until_idle(&n->b);
        n->store = (struct session_store){.max_bytes = 256u << 10, .submit = submit};
        assert_int_equal(sessions_share(n->b.worker[0], &n->store, NULL), 0);
    }
}

void nodes_kill(struct nodes *all, size_t node)
{
    all->at[node].is_running = false;
    all->at[node].is_deaf = true;
}

void nodes_stop(struct nodes *all)
{
    nodes_run_until_idle(all);
    for (size_t i = 0; i < NODES; i++) {
        harness_stop(&all->at[i].b);
    }
    for (size_t i = 0; i < NODES_ROWS; i++) {
        mem_free(all->rows[i].state);
    }
}

static void tell_moved(struct node *n)
{
    while (n->moved_count > 0 && !n->is_deaf) {
        session_migrated(n->b.worker[0], tidings_str(n->moved[--n->moved_count]));
    }
}

void nodes_run_until_idle(struct nodes *all)
{
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < NODES; i++) {
            harness_run_until_idle(&all->at[i].b);
            tell_moved(&all->at[i]);
            harness_run_until_idle(&all->at[i].b);
        }
    }
}

void nodes_update(struct nodes *all, const char *uri)
{
    struct tidings_change change = {.uri = tidings_str(uri), .kind = TIDINGS_CHANGE_UPDATED};
    all->position++;
    for (size_t i = 0; i < NODES; i++) {
        struct node *n = &all->at[i];
        if (n->is_behind) {
            size_t len = strlen(n->missed);
            assert_true(len + 1 < sizeof(n->missed));
            n->missed_from = len == 0 ? all->position : n->missed_from;
            n->missed[len] = uri[strlen(uri) - 1];
        } else {
            assert_int_equal(hub_announce_durable(n->b.hub, &change, all->position, NULL), 0);
            hub_announce_applied(n->b.hub, all->position);
        }
    }
    nodes_run_until_idle(all);
}

void nodes_catch_up(struct nodes *all, size_t node)
{
    struct node *n = &all->at[node];
    n->is_lonely = false;
    n->others_ended = 0;
    for (size_t i = 0; n->missed[i]; i++) {
        struct tidings_change change = {.uri = tidings_str(text_of("kept://x/%c", n->missed[i])),
                                        .kind = TIDINGS_CHANGE_UPDATED};
        assert_int_equal(hub_announce_durable(n->b.hub, &change, n->missed_from + i, NULL), 0);
        hub_announce_applied(n->b.hub, n->missed_from + i);
    }
    hub_announce_applied(n->b.hub, all->position);
    memset(n->missed, 0, sizeof(n->missed));
    n->is_behind = false;
    nodes_run_until_idle(all);
}

void nodes_tick(struct nodes *all, size_t node)
{
    struct worker *worker = all->at[node].b.worker[0];
    loop_timer_start(worker->sessions->movers->tick, 0, SESSION_WRITE_MS);
    nodes_run_until_idle(all);
}

void nodes_forget_losses(struct nodes *all)
{
    for (size_t i = 0; i < NODES; i++) {
        struct session_migrations *movers = all->at[i].b.worker[0]->sessions->movers;
        memset(movers->lost, 0, sizeof(movers->lost));
    }
}

/* ---- sessions -------------------------------------------------------------------------------- */

void nodes_session(struct nodes *all, size_t node, struct harness_session *s)
{
    struct harness *b = &all->at[node].b;
    struct client *c = client_http(b);
    client_legacy(c, NULL, "1", "initialize",
                  "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},"
                  "\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}");
    nodes_run_until_idle(all);
    s->harness = b;
    snprintf(s->id, sizeof(s->id), "%s", client_answer(c)->session);
    client_notify(c, s->id, "notifications/initialized", NULL);
    client_free(c);
    nodes_run_until_idle(all);
}

static void brought(struct session_wait *wait, int code)
{
    *(int *)wait->user = code;
}

static bool is_brought(void *user)
{
    return *(int *)user != SESSION_AWAITED;
}

void nodes_bring_stream(struct nodes *all, size_t node, struct harness_session *s,
                        const char *last_event_id, struct session_wait *wait, int *ret)
{
    struct harness *b = &all->at[node].b;
    struct client *c = client_http(b);
    struct refusal why;
    const struct session_lookup asked = {
        .id = tidings_str(s->id),
        .is_stream = last_event_id != NULL,
        .last_event_id = last_event_id ? tidings_str(last_event_id) : STR_EMPTY,
    };
    *wait = (struct session_wait){.done = brought, .user = ret};
    *ret = SESSION_AWAITED;
    s->harness = b;
    int rc = (int)session_await(wait, &c->channel, &asked, &why);
    assert_int_equal(*ret, SESSION_AWAITED); /* not before it returned */
    *ret = rc;
    client_free(c);
}

int nodes_bring(struct nodes *all, size_t node, struct harness_session *s)
{
    struct session_wait wait;
    int code = 0;
    nodes_bring_stream(all, node, s, NULL, &wait, &code);
    if (code == SESSION_AWAITED) {
        harness_until(&all->at[node].b, is_brought, &code);
    }
    nodes_run_until_idle(all);
    return code;
}
