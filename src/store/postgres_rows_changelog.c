/* SPDX-License-Identifier: MIT
 *
 * The change log beside a database: one in memory that begins where this node began to follow, and
 * which other runs' cursors are good here (store/runs.h). Whoever follows the database adds runs
 * and breaks while the log is asked for them: the two share that, counted.
 */
#include "base/mem.h"
#include "store/change.h"
#include "store/changelog_durable.h"
#include "store/postgres_rows_private.h"

void postgres_log_unref(struct postgres_log *log)
{
    if (log && __atomic_sub_fetch(&log->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        runs_destroy(log->runs);
        mem_free(log);
    }
}

/* Who has not come so far goes on at the newest: some changes are heard twice then, none is missed.
 */
static bool postgres_log_resume(void *user, uint64_t epoch, uint64_t position, bool is_durable,
                                uint64_t *ret)
{
    const struct postgres_log *log = user;
    return runs_resume(log->runs, epoch, position, is_durable, ret) != RUNS_REFUSED;
}

static bool postgres_log_knows(void *user, uint64_t epoch, uint64_t position)
{
    const struct postgres_log *log = user;
    return runs_knows(log->runs, epoch, position);
}

/* Up to the first number, numbers are positions already. */
static void postgres_log_appended(void *user, const struct change *change)
{
    const struct postgres_log *log = user;
    if (change->position > 0 && change->seq > log->first) {
        runs_mark(log->runs, change->seq, change->position);
    }
}

static void postgres_log_destroy(void *user)
{
    postgres_log_unref(user);
}

static const struct changelog_durable_ops log_ops = {
    .resume = postgres_log_resume,
    .knows = postgres_log_knows,
    .appended = postgres_log_appended,
    .destroy = postgres_log_destroy,
};

/* ---- runs ------------------------------------------------------------------------------------ */

static int send_two(struct postgres_rows *s, enum postgres_statement which, uint64_t a, uint64_t b,
                    struct tidings_error *err)
{
    struct postgres_values v = {0};
    postgres_put_int(&v, (int64_t)a);
    postgres_put_int(&v, (int64_t)b);
    return postgres_rows_send(s, which, &v, err);
}

/* Runs whose nodes do not live any more came as far as the store is. */
static int begin_run(struct postgres_rows *s, uint64_t epoch, struct tidings_error *err)
{
    struct postgres_values run = {0}, most = {0};
    int rc = postgres_rows_begin(&s->base, err);
    if (rc < 0) {
        return rc;
    }
    uint64_t last = s->now.position++;
    s->is_durable = true;
    postgres_put_int(&run, (int64_t)epoch);
    postgres_put_int(&run, (int64_t)s->now.position);
    postgres_put_int(&run, POSTGRES_RUN_MS);
    postgres_put_int(&most, RUNS_MAX);
    rc = send_two(s, PG_END_RUNS, last, s->now.position, err);
    rc = rc == 0 ? postgres_rows_send(s, PG_ADD_RUN, &run, err) : rc;
    rc = rc == 0 ? postgres_rows_send(s, PG_DROP_RUNS, &most, err) : rc;
    if (rc < 0) {
        postgres_rows_rollback(&s->base);
        return rc;
    }
    return postgres_rows_commit(&s->base, err);
}

int postgres_rows_keep_run(struct postgres_rows *s, int64_t for_ms, struct tidings_error *err)
{
    struct pg_result *r = NULL;
    if (s->run == 0) {
        return 0;
    }
    struct postgres_values v = {0}, revived = {0};
    postgres_put_int(&v, (int64_t)s->run);
    postgres_put_int(&v, for_ms);
    int rc = postgres_rows_ask(s, PG_KEEP_RUN, &v, &r, err);
    bool lives = postgres_rows(r) == 1;
    postgres_free(r);
    if (rc < 0 || lives) {
        s->is_run_ended = s->is_run_ended && rc < 0;
        return rc;
    }
    /* Others took it for ended, or it is gone with what the store lost. */
    rc = postgres_rows_begin(&s->base, err);
    if (rc < 0) {
        return rc;
    }
    s->is_durable = true;
    postgres_put_int(&revived, (int64_t)s->run);
    postgres_put_int(&revived, (int64_t)++s->now.position);
    postgres_put_int(&revived, for_ms);
    rc = postgres_rows_send(s, PG_REVIVE_RUN, &revived, err);
    if (rc < 0) {
        postgres_rows_rollback(&s->base);
        return rc;
    }
    rc = postgres_rows_commit(&s->base, err);
    s->is_run_ended = s->is_run_ended && rc < 0;
    return rc;
}

void postgres_rows_end_run(struct postgres_rows *s)
{
    if (s->run != 0 && postgres_is_connected(s->db) &&
        send_two(s, PG_END_RUN, s->run, s->now.position, NULL) == 0 &&
        postgres_end(s->db, NULL) == 0) {
        (void)postgres_finish(s->db, 0, NULL, 0, NULL);
    }
}

/* ---- the log --------------------------------------------------------------------------------- */

/* Oldest first. */
int postgres_rows_read_runs(struct postgres_rows *s, struct runs *runs, struct tidings_error *err)
{
    struct pg_result *r = NULL, *breaks = NULL;
    int rc = postgres_rows_ask_int(s, PG_RUNS, RUNS_MAX, &r, err);
    for (int i = postgres_rows(r); rc == 0 && i-- > 0;) {
        int64_t last = postgres_int(r, i, 1);
        runs_add(runs, (uint64_t)postgres_int(r, i, 0), last < 0 ? RUN_LIVES : (uint64_t)last);
    }
    rc = rc == 0 ? postgres_rows_ask_int(s, PG_BREAKS, RUNS_BREAKS_MAX, &breaks, err) : rc;
    for (int i = postgres_rows(breaks); rc == 0 && i-- > 0;) {
        const struct run_break b = {
            .kept = (uint64_t)postgres_int(breaks, i, 0),
            .began = (uint64_t)postgres_int(breaks, i, 1),
            .is_lossy = postgres_int(breaks, i, 2) != 0,
        };
        runs_add_break(runs, &b);
    }
    postgres_free(r);
    postgres_free(breaks);
    return rc;
}

/* Its numbers begin where this node has followed to; what others did since is followed. */
int postgres_rows_create_changelog(struct entity_rows *rows, const struct changelog_limits *limits,
                                   struct changelog **ret, struct tidings_error *err)
{
    struct postgres_rows *s = postgres_rows_of(rows);
    struct postgres_log *shared = mem_zalloc(sizeof(*shared));
    struct changelog *log = NULL;
    postgres_rows_release(s);
    if (!shared) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    shared->refs = 1;
    shared->first = s->followed;
    int rc = changelog_durable_create(limits, shared->first, &log_ops, shared, &log, err);
    if (rc < 0) {
        postgres_log_unref(shared);
        return rc;
    }
    uint64_t epoch = log->ops->epoch(log);
    rc = runs_create(s->cluster_id, epoch, shared->first, &shared->runs, err);
    rc = rc == 0 ? begin_run(s, epoch, err) : rc;
    rc = rc == 0 ? postgres_rows_read_runs(s, shared->runs, err) : rc;
    if (rc < 0) {
        log->ops->destroy(log);
        return rc;
    }
    runs_follow(shared->runs, s->followed, s->followed == s->now.position); /* its own row */
    postgres_log_unref(s->log);
    __atomic_add_fetch(&shared->refs, 1, __ATOMIC_RELAXED);
    s->log = shared;
    s->run = epoch;
    *ret = log;
    return 0;
}
