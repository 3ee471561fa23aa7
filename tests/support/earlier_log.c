/* SPDX-License-Identifier: MIT */
#include "support/earlier_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct changelog *rows; /* the underlying store */
static uint64_t began;

static void log_destroy(struct changelog *log)
{
    (void)log;
    rows->ops->destroy(rows);
}

static uint64_t log_epoch(const struct changelog *log)
{
    (void)log;
    return rows->ops->epoch(rows);
}

static uint64_t log_first(const struct changelog *log)
{
    (void)log;
    return began;
}

static bool log_resume(const struct changelog *log, uint64_t epoch, uint64_t position,
                       bool is_durable, uint64_t *ret)
{
    (void)is_durable;
    (void)log;
    *ret = position;
    return epoch == 0xea && position <= began;
}

static uint64_t log_last(const struct changelog *log)
{
    (void)log;
    return rows->ops->last(rows);
}

static uint64_t log_floor(const struct changelog *log)
{
    (void)log;
    return rows->ops->floor(rows);
}

static uint64_t log_next(struct changelog *log)
{
    (void)log;
    return rows->ops->next(rows);
}

static int log_append(struct changelog *log, const struct change *change)
{
    (void)log;
    return rows->ops->append(rows, change);
}

static size_t log_each(const struct changelog *log, uint64_t after, changelog_each_fn fn,
                       void *user)
{
    (void)log;
    return rows->ops->each(rows, after, fn, user);
}

static const struct changelog_ops log_ops = {
    .name = "stored",
    .destroy = log_destroy,
    .epoch = log_epoch,
    .first = log_first,
    .resume = log_resume,
    .last = log_last,
    .floor = log_floor,
    .next = log_next,
    .append = log_append,
    .each = log_each,
};

struct changelog *earlier_log(const struct changelog_limits *limits, uint64_t first)
{
    static struct changelog log = {.ops = &log_ops, .is_durable = true};
    rows = changelog_memory_create_at(limits, first, NULL);
    assert_non_null(rows);
    began = first;
    return &log;
}
