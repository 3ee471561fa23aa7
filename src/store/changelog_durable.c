/* SPDX-License-Identifier: MIT
 *
 * The change log beside a store: everything but resuming from cursors of earlier epochs is passed
 * on to a log in memory.
 */
#include "store/changelog_durable.h"

#include <assert.h>

#include "base/mem.h"

struct durable {
    struct changelog base;
    struct changelog *memory;
    const struct changelog_durable_ops *of;
    void *user;
};

static const struct changelog_ops durable_ops;

static const struct durable *durable_of(const struct changelog *log)
{
    assert(log->ops == &durable_ops);
    return (const struct durable *)(const void *)log;
}

/* ---- the log --------------------------------------------------------------------------------- */

static struct changelog *changelog_durable_inner(const struct changelog *log)
{
    return durable_of(log)->memory;
}

static void durable_destroy(struct changelog *log)
{
    if (log) {
        changelog_durable_inner(log)->ops->destroy(changelog_durable_inner(log));
        durable_of(log)->of->destroy(durable_of(log)->user);
        mem_free(log);
    }
}

static uint64_t durable_epoch(const struct changelog *log)
{
    return changelog_durable_inner(log)->ops->epoch(changelog_durable_inner(log));
}

static uint64_t durable_first(const struct changelog *log)
{
    return changelog_durable_inner(log)->ops->first(changelog_durable_inner(log));
}

static bool durable_resume(const struct changelog *log, uint64_t epoch, uint64_t position,
                           bool is_durable, uint64_t *ret)
{
    const struct durable *d = durable_of(log);
    return d->of->resume(d->user, epoch, position, is_durable, ret);
}

static bool durable_knows(const struct changelog *log, uint64_t epoch, uint64_t position)
{
    const struct durable *d = durable_of(log);
    return !d->of->knows || d->of->knows(d->user, epoch, position);
}

static uint64_t durable_last(const struct changelog *log)
{
    return changelog_durable_inner(log)->ops->last(changelog_durable_inner(log));
}

static uint64_t durable_floor(const struct changelog *log)
{
    return changelog_durable_inner(log)->ops->floor(changelog_durable_inner(log));
}

static uint64_t durable_next(struct changelog *log)
{
    return changelog_durable_inner(log)->ops->next(changelog_durable_inner(log));
}

static int durable_append(struct changelog *log, const struct change *change)
{
    const struct durable *d = durable_of(log);
    if (d->of->appended) {
        d->of->appended(d->user, change);
    }
    return changelog_durable_inner(log)->ops->append(changelog_durable_inner(log), change);
}

static void durable_lost(struct changelog *log, uint64_t seq)
{
    changelog_durable_inner(log)->ops->lost(changelog_durable_inner(log), seq);
}

static size_t durable_each(const struct changelog *log, uint64_t after, changelog_each_fn fn,
                           void *user)
{
    return changelog_durable_inner(log)->ops->each(changelog_durable_inner(log), after, fn, user);
}

static size_t durable_count(const struct changelog *log)
{
    return changelog_durable_inner(log)->ops->count(changelog_durable_inner(log));
}

static size_t durable_bytes(const struct changelog *log)
{
    return changelog_durable_inner(log)->ops->bytes(changelog_durable_inner(log));
}

static const struct changelog_ops durable_ops = {
    .name = "durable",
    .destroy = durable_destroy,
    .epoch = durable_epoch,
    .first = durable_first,
    .resume = durable_resume,
    .knows = durable_knows,
    .last = durable_last,
    .floor = durable_floor,
    .next = durable_next,
    .append = durable_append,
    .lost = durable_lost,
    .each = durable_each,
    .count = durable_count,
    .bytes = durable_bytes,
};

int changelog_durable_create(const struct changelog_limits *limits, uint64_t first,
                             const struct changelog_durable_ops *ops, void *user,
                             struct changelog **ret, struct tidings_error *err)
{
    struct durable *d = mem_zalloc(sizeof(*d));
    struct changelog *memory = d ? changelog_memory_create_at(limits, first, err) : NULL;
    if (!memory) {
        mem_free(d);
        return d && err ? err->code : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    d->base = (struct changelog){.ops = &durable_ops, .is_durable = true};
    d->memory = memory;
    d->of = ops;
    d->user = user;
    *ret = &d->base;
    return 0;
}
