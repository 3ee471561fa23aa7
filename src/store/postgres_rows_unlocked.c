/* SPDX-License-Identifier: MIT
 *
 * Batches in PostgreSQL that do not take the lock: decided from what this node knows, and committed
 * by one statement if nobody else has committed since. The rules are in
 * store/postgres_rows_commit.c; here is when they are used, how they are left, and the commit.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "store/postgres_rows_private.h"

/* Batches with the lock before another one is tried without: at least, and at most. What was tried
 * in vain costs more than the lock, so who is overtaken again and again tries ever less. */
#define LOCKED_MIN 4u
#define LOCKED_MAX 64u

void postgres_rows_note_locked(struct postgres_rows *s, bool is_behind)
{
    if (is_behind) {
        s->locked_left = s->locked_after;
    } else if (s->locked_left > 0) {
        s->locked_left--;
    }
}

bool postgres_rows_begin_unlocked(struct entity_rows *rows)
{
    struct postgres_rows *s = postgres_rows_of(rows);
    postgres_rows_release(s);
    if (s->is_in_batch || s->is_target || !s->is_settled || s->locked_left > 0 ||
        (s->is_listening && postgres_rows_hear(s) == 1) || !postgres_is_connected(s->db) ||
        s->now.position != s->followed) {
        return false;
    }
    s->before = s->now;
    row_notice_clear(&s->notice);
    s->now_ms = store_clock_now(&s->clock, clock_monotonic_ms(), clock_wall_ms());
    s->is_in_batch = s->is_unlocked = true;
    s->is_durable = s->has_keys = s->is_behind = s->is_overtaken = false;
    return true;
}

bool postgres_rows_must_run_again(struct entity_rows *rows)
{
    return postgres_rows_of(rows)->is_overtaken;
}

/* Others have committed since: the batch, of which nothing was committed, is to be run again. */
static int postgres_rows_overtaken(struct postgres_rows *s, struct tidings_error *err)
{
    s->is_overtaken = true;
    s->locked_after = s->locked_after < LOCKED_MIN       ? LOCKED_MIN
                      : s->locked_after < LOCKED_MAX / 2 ? 2 * s->locked_after
                                                         : LOCKED_MAX;
    s->locked_left = s->locked_after;
    return tidings_fail(err, TIDINGS_E_BUSY, "%s: another node wrote meanwhile: try again",
                        postgres_name(s->db));
}

/* From here on it is a batch like others. Counters besides the position may have changed without
 * it; in this batch they have not. */
int postgres_rows_take_lock(struct postgres_rows *s, struct tidings_error *err)
{
    struct pg_result *r = NULL;
    struct postgres_counters counters = {0};
    if (!s->is_unlocked) {
        return 0;
    }
    s->is_unlocked = false;
    uint64_t asked_ms = clock_monotonic_ms();
    int rc = postgres_send(s->db, PG_BEGIN, NULL, err);
    rc = rc == 0 ? postgres_ask(s->db, PG_LOCK, NULL, &r, err) : rc;
    if (rc < 0) {
        /* It was lost while nobody used it: another may do. */
        return postgres_is_connected(s->db) ? rc : postgres_rows_overtaken(s, NULL);
    }
    rc = postgres_rows_read_counters(s, r, &counters, err);
    if (rc == 0) {
        (void)postgres_rows_hear_clock(s, r, asked_ms);
    }
    postgres_free(r);
    if (rc == 0 && counters.position != s->before.position) {
        rc = postgres_rows_overtaken(s, err);
    }
    if (rc < 0) {
        return rc;
    }
    uint64_t position = s->now.position;
    s->now = s->before = counters;
    s->now.position = position;
    return 0;
}

/* May that be read without the lock, and without what the batch writes itself? */
static bool unlocked_may_look(const struct postgres_rows *s, enum postgres_statement which,
                              const struct postgres_values *values)
{
    bool is_of_entity = which == PG_FIND || which == PG_FIND_AT || which == PG_NTH;
    return is_of_entity && !postgres_pending_may_have(&s->pending, values);
}

int postgres_rows_ask_in_batch(struct postgres_rows *s, enum postgres_statement which,
                               const struct postgres_values *values, struct pg_result **ret,
                               struct tidings_error *err)
{
    bool looks = s->is_unlocked && unlocked_may_look(s, which, values);
    int rc = looks ? 0 : postgres_rows_send_pending(s, err);
    rc = rc == 0 ? postgres_ask(s->db, which, values, ret, err) : rc;
    /* It was lost while nobody used it, and nothing was sent: another may do. */
    return rc < 0 && looks && !postgres_is_connected(s->db) ? postgres_rows_overtaken(s, NULL) : rc;
}

/* ---- committing ------------------------------------------------------------------------------ */

/* All of it as one statement. 0: what came back of it, if anything, is in *ret. */
static int unlocked_send(struct postgres_rows *s, bool *ret_sent, struct pg_result **ret,
                         struct tidings_error *err)
{
    struct postgres_pending *p = s->pending.count > 0 ? &s->pending : &s->announcing;
    enum postgres_statement which = PG_COMMIT_NOTHING;
    struct postgres_values v = {0};
    char mark[POSTGRES_MARK];
    unsigned unwaited = 0;
    if (p->count > 0) {
        which = p->table->commit[p->count > 1];
        postgres_pending_put(p, &v);
        postgres_put_int(&v, (int64_t)s->now.position);
    }
    postgres_put_int(&v, (int64_t)s->before.position);
    if (p->count > 0) {
        postgres_rows_mark(s, mark);
        postgres_put_str(&v, tidings_str(mark));
    }
    int rc = postgres_send(s->db, (int)which, &v, err);
    if (rc < 0) {
        return rc;
    }
    *ret_sent = true;
    rc = postgres_end(s->db, err);
    if (rc == 0 && p->count > 0) {
        unwaited = postgres_rows_notify(s);
    }
    return rc == 0 ? postgres_finish(s->db, unwaited, ret, 1, err) : rc;
}

/* Nothing of it is known to be kept. */
static int unlocked_failed(struct postgres_rows *s, bool is_sent, int rc, struct tidings_error *err)
{
    bool is_lost = !postgres_is_connected(s->db);
    bool writes = s->pending.count + s->announcing.count > 0;
    bool is_raced = strncmp(postgres_state(s->db), "40", 2) == 0; /* where all is serializable */
    uint64_t before = s->before.position;
    postgres_rows_forget_batch(s);
    if (!is_lost && !is_raced) {
        return rc;
    }
    (void)postgres_rows_overtaken(s, NULL);
    if (!is_lost || !is_sent || !writes) {
        return rc;
    }
    s->is_in_doubt = true;
    s->doubted = before;
    return error_wrap(err, TIDINGS_E_UNKNOWN,
                      "whether it was kept is not known; read before you try again");
}

int postgres_rows_commit_unlocked(struct postgres_rows *s, struct tidings_error *err)
{
    struct pg_result *r = NULL;
    bool is_sent = false;
    uint64_t asked_ms = clock_monotonic_ms();
    int rc = unlocked_send(s, &is_sent, &r, err);
    if (rc < 0) {
        return unlocked_failed(s, is_sent, rc, err);
    }
    if (postgres_rows(r) != 1) {
        postgres_free(r);
        postgres_rows_forget_batch(s);
        return postgres_rows_overtaken(s, err);
    }
    (void)postgres_rows_read_counters(s, r, &s->now, NULL);
    (void)postgres_rows_hear_clock(s, r, asked_ms);
    postgres_free(r);
    postgres_pending_clear(&s->pending);
    postgres_pending_clear(&s->announcing);
    postgres_rows_note_followed(s, s->now.position, s->is_durable);
    s->locked_after -= s->locked_after > 0;
    s->is_in_batch = s->is_unlocked = false;
    return 0;
}
