/* SPDX-License-Identifier: MIT
 *
 * Asks each worker for its counters, by a letter, and adds up the answers.
 */
#include "server/figures.h"

#include "access/failures.h"
#include "base/clock.h"
#include "base/mailbox.h"
#include "base/mem.h"
#include "delivery/delivery.h"
#include "delivery/subscriber.h"
#include "handler/handlers.h"
#include "request/request.h"
#include "server/kernel_lag.h"

/* What only some ask for, of one worker. */
struct figures_more {
    struct operations operations;
    struct tool_counts tools;
    struct failure_row rows[FAILURES_ROWS + 1];
};

struct figures_part {
    struct figures_more *more; /* NULL: not asked for, or out of memory */
    struct letter letter;
    struct figures_ask *ask;
    size_t index;
};

struct figures_ask {
    struct figures *figures;
    figures_fn fn;
    void *user;
    size_t left; /* atomic */
    struct figures_part parts[];
};

static void figures_take(struct worker_figures *f, struct worker *worker)
{
    const struct delivery *d = worker->delivery;
    uint64_t now_us = clock_monotonic_ns() / 1000;
    f->stats = worker->stats;
    f->bytes_out = worker->batch.bytes;
    f->index_bytes = match_bytes(&d->match);
    for (size_t i = 0; i <= FAILURES_ROWS; i++) {
        f->failures += worker->failures->rows[i].count;
    }
    f->last_failed = worker->failures->last;
    list_each (it, next, &d->behind) {
        const struct subscriber *subscriber = list_entry(it, struct subscriber, dirty_link);
        uint64_t age = subscriber_lag_us(subscriber, now_us);
        f->behind++;
        f->waiting += subscriber->outbox.count;
        f->oldest_us = age > f->oldest_us ? age : f->oldest_us;
    }
    uint64_t unread_us = kernel_lag_us(worker);
    f->oldest_us = unread_us > f->oldest_us ? unread_us : f->oldest_us;
    f->turns = *loop_turns(worker->loop);
    lag_total(&d->lag, &f->lag);
    lag_recent(&d->lag, now_us, &f->recent);
}

static void figures_add(struct worker_figures *to, const struct worker_figures *f)
{
    struct worker_stats *a = &to->stats;
    const struct worker_stats *b = &f->stats;
    a->changes = b->changes > a->changes ? b->changes : a->changes;
    a->requests += b->requests;
    a->deliveries += b->deliveries;
    a->coalesced += b->coalesced;
    a->truncated += b->truncated;
    a->cut += b->cut;
    a->pauses += b->pauses;
    a->bytes_in += b->bytes_in;
    a->subscriptions += b->subscriptions;
    a->subscribers += b->subscribers;
    a->sessions += b->sessions;
    a->streams += b->streams;
    for (size_t i = 0; i < WORKER_KINDS; i++) {
        a->by_kind[i] += b->by_kind[i];
    }
    durations_add(&to->turns, &f->turns);
    to->failures += f->failures;
    if (f->last_failed.at_ms > to->last_failed.at_ms) {
        to->last_failed = f->last_failed;
    }
    to->bytes_out += f->bytes_out;
    to->index_bytes += f->index_bytes;
    to->behind += f->behind;
    to->waiting += f->waiting;
    to->oldest_us = f->oldest_us > to->oldest_us ? f->oldest_us : to->oldest_us;
    lag_counts_add(&to->lag, &f->lag);
    lag_counts_add(&to->recent, &f->recent);
}

static void figures_add_failure(struct figures *f, const struct failure_row *row)
{
    size_t i = 0;
    while (i < f->failure_count &&
           (f->failures[i].kind != row->kind || f->failures[i].code != row->code ||
            f->failures[i].method != row->method)) {
        i++;
    }
    if (i == f->failure_count && i < FIGURES_FAILURES) {
        f->failures[f->failure_count++] =
            (struct figures_failure){.kind = row->kind, .code = row->code, .method = row->method};
    }
    if (i < FIGURES_FAILURES) {
        f->failures[i].count += row->count;
    }
}

static void figures_add_more(struct figures *f, const struct figures_more *more)
{
    struct durations *to = &f->operations->at[0][0][0];
    const struct durations *from = &more->operations.at[0][0][0];
    for (size_t i = 0; i < sizeof(struct operations) / sizeof(struct durations); i++) {
        durations_add(&to[i], &from[i]);
    }
    tool_counts_merge(f->tools, &more->tools);
    for (size_t i = 0; i <= FAILURES_ROWS; i++) {
        if (more->rows[i].count > 0) {
            figures_add_failure(f, &more->rows[i]);
        }
    }
}

static void figures_free(struct figures_ask *ask)
{
    for (size_t i = 0; ask && ask->figures && i < ask->figures->count; i++) {
        mem_free(ask->parts[i].more);
    }
    if (ask && ask->figures) {
        mem_free(ask->figures->operations);
        mem_free(ask->figures->tools);
        mem_free(ask->figures->failures);
        mem_free(ask->figures);
    }
    mem_free(ask);
}

static void figures_finish(struct figures_ask *ask)
{
    struct figures *f = ask->figures;
    for (size_t i = 0; i < f->count; i++) {
        figures_add(&f->all, &f->workers[i]);
        if (f->operations) {
            figures_add_more(f, ask->parts[i].more);
        }
    }
    ask->fn(ask->user, f);
    figures_free(ask);
}

static void figures_part_done(struct figures_part *part)
{
    struct figures_ask *ask = part->ask;
    if (__atomic_sub_fetch(&ask->left, 1, __ATOMIC_ACQ_REL) == 0) {
        figures_finish(ask);
    }
}

static void figures_deliver(struct letter *letter, void *owner)
{
    struct figures_part *part = list_entry(letter, struct figures_part, letter);
    struct worker *worker = owner;
    figures_take(&part->ask->figures->workers[part->index], worker);
    if (part->more) {
        part->more->operations = worker->requests->operations;
        if (worker->handlers->counts) {
            part->more->tools = *worker->handlers->counts;
        }
        memcpy(part->more->rows, worker->failures->rows, sizeof(part->more->rows));
    }
    figures_part_done(part);
}

static void figures_drop(struct letter *letter)
{
    figures_part_done(list_entry(letter, struct figures_part, letter));
}

/* False: out of memory. */
static bool figures_prepare(struct figures_ask *ask, struct figures *f, bool wants_all)
{
    bool is_whole = true;
    if (wants_all) {
        f->operations = mem_zalloc(sizeof(*f->operations));
        f->tools = mem_zalloc(sizeof(*f->tools));
        f->failures = mem_zalloc(FIGURES_FAILURES * sizeof(*f->failures));
        is_whole = f->operations && f->tools && f->failures;
    }
    for (size_t i = 0; i < f->count; i++) {
        struct figures_part *part = &ask->parts[i];
        part->ask = ask;
        part->index = i;
        part->letter.deliver = figures_deliver;
        part->letter.drop = figures_drop;
        part->more = wants_all ? mem_zalloc(sizeof(*part->more)) : NULL;
        is_whole = is_whole && (part->more || !wants_all);
    }
    return is_whole;
}

static void figures_send(struct worker *const *cores, size_t count, bool wants_all, figures_fn fn,
                         void *user)
{
    struct figures *f = mem_zalloc(sizeof(*f) + count * sizeof(f->workers[0]));
    struct figures_ask *ask = mem_zalloc(sizeof(*ask) + count * sizeof(ask->parts[0]));
    if (f && ask) {
        f->count = count;
        *ask = (struct figures_ask){.figures = f, .fn = fn, .user = user, .left = count};
    }
    if (!f || !ask || !figures_prepare(ask, f, wants_all) || count == 0) {
        fn(user, f && ask && count == 0 ? f : NULL);
        if (!ask) {
            mem_free(f);
        }
        figures_free(ask);
        return;
    }
    for (size_t i = 0; i < count; i++) { /* with the last it may all be gone */
        mailbox_send(cores[i]->mailbox, &ask->parts[i].letter);
    }
}

void figures_gather(struct worker *const *cores, size_t count, figures_fn fn, void *user)
{
    figures_send(cores, count, false, fn, user);
}

void figures_gather_all(struct worker *const *cores, size_t count, figures_fn fn, void *user)
{
    figures_send(cores, count, true, fn, user);
}
