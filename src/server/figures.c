/* SPDX-License-Identifier: MIT
 *
 * The letters to the workers, and the sum of their answers.
 */
#include "server/figures.h"

#include "access/failures.h"
#include "base/clock.h"
#include "base/mailbox.h"
#include "base/mem.h"
#include "delivery/delivery.h"
#include "delivery/subscriber.h"

struct figures_part {
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

static void figures_take(struct worker_figures *f, const struct worker *worker)
{
    const struct delivery *d = worker->delivery;
    uint64_t now_us = clock_monotonic_ns() / 1000;
    f->stats = worker->stats;
    f->bytes_out = worker->batch.bytes;
    f->index_bytes = match_bytes(&d->match);
    for (size_t i = 0; i <= FAILURES_ROWS; i++) {
        f->failures += worker->failures->rows[i].count;
    }
    list_each (it, next, &d->behind) {
        const struct subscriber *subscriber = list_entry(it, struct subscriber, dirty_link);
        uint64_t age = subscriber_lag_us(subscriber, now_us);
        f->behind++;
        f->waiting += subscriber->outbox.count;
        f->oldest_us = age > f->oldest_us ? age : f->oldest_us;
    }
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
    to->failures += f->failures;
    to->bytes_out += f->bytes_out;
    to->index_bytes += f->index_bytes;
    to->behind += f->behind;
    to->waiting += f->waiting;
    to->oldest_us = f->oldest_us > to->oldest_us ? f->oldest_us : to->oldest_us;
    lag_counts_add(&to->lag, &f->lag);
    lag_counts_add(&to->recent, &f->recent);
}

static void figures_finish(struct figures_ask *ask)
{
    struct figures *f = ask->figures;
    for (size_t i = 0; i < f->count; i++) {
        figures_add(&f->all, &f->workers[i]);
    }
    ask->fn(ask->user, f);
    mem_free(f);
    mem_free(ask);
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
    figures_take(&part->ask->figures->workers[part->index], owner);
    figures_part_done(part);
}

static void figures_drop(struct letter *letter)
{
    figures_part_done(list_entry(letter, struct figures_part, letter));
}

void figures_gather(struct worker *const *cores, size_t count, figures_fn fn, void *user)
{
    struct figures *f = mem_zalloc(sizeof(*f) + count * sizeof(f->workers[0]));
    struct figures_ask *ask = mem_zalloc(sizeof(*ask) + count * sizeof(ask->parts[0]));
    if (!f || !ask || count == 0) {
        fn(user, f && ask ? f : NULL);
        mem_free(f);
        mem_free(ask);
        return;
    }
    f->count = count;
    *ask = (struct figures_ask){.figures = f, .fn = fn, .user = user, .left = count};
    for (size_t i = 0; i < count; i++) {
        ask->parts[i].ask = ask;
        ask->parts[i].index = i;
        ask->parts[i].letter.deliver = figures_deliver;
        ask->parts[i].letter.drop = figures_drop;
    }
    for (size_t i = 0; i < count; i++) { /* with the last it may all be gone */
        mailbox_send(cores[i]->mailbox, &ask->parts[i].letter);
    }
}
