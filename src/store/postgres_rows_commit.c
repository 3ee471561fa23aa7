/* SPDX-License-Identifier: MIT
 *
 * Batches in PostgreSQL. There are two ways.
 *
 * With the lock: `begin` locks the row that has the counter of positions, in one round trip;
 * everything up to the commit goes into the pipeline, and the commit waits for all of it, in
 * another.
 *
 * Without (store/postgres_rows_unlocked.c), where the caller can run a batch again:
 *
 * 1. It begins at position P, up to which this node has followed everything, and sends nothing:
 *    what it decides it decides from what it has followed, or reads without the lock. What it
 *    writes (versions, or announcements) is kept back.
 * 2. The commit is one statement, a transaction of its own, which takes the positions after P if
 *    the counter is still at P, and inserts the rows if it took them. The database locks the row
 *    of the counter and looks at it again when it has the lock, so nobody takes a position twice
 *    and nobody commits on what is not true any more. A batch that writes nothing reads the
 *    counter instead: what it refused, or left as it was, was decided rightly if that is at P.
 * 3. Is the counter elsewhere, nothing of the batch happened: others committed meanwhile. It is
 *    run again from the beginning, with the lock, after they were followed: once, since then
 *    nobody comes between. Until then nobody is told anything of it, not even a refusal.
 * 4. What cannot be kept back (other tables, too many rows, a second version of an entity, reading
 *    what it wrote itself) takes the lock at that moment. Is the counter still at P it goes on as a
 *    batch with the lock; else as in 3.
 * 5. Is the connection lost after the statement was sent, whether it was committed is in doubt.
 *    Run again, `begin` takes the lock on another connection. Is the counter at P, it was not
 *    committed, and cannot be any more when this batch is, since that leaves P behind (with a
 *    position that nobody uses, if it writes nothing now). Else it is not known: TIDINGS_E_UNKNOWN,
 *    also when the batch that is run again fails.
 * 6. After a batch was overtaken some take the lock, the more the more often that happens, and as
 *    long as others' changes are found with it. So does the first one of a connection, which is
 *    when it is known that the store has lost nothing.
 *
 * Others are notified after the commit, so that nobody waits for that with the lock; without the
 * lock only if the statement before it committed.
 *
 * When the connection breaks after the commit with the lock was sent and before it was answered
 * nobody knows what became of it: TIDINGS_E_UNKNOWN. Nothing of it counts as followed then.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "store/postgres_rows_private.h"

#define BEGIN_WAIT_MS 1000 /* for a connection */
#define UNKNOWN "whether it was kept is not known; read before you try again"

static void postgres_rows_drop_next(struct postgres_rows *s)
{
    postgres_free(s->next_page);
    s->next_page = NULL;
}

/* Nothing of the batch is left here. */
void postgres_rows_forget_batch(struct postgres_rows *s)
{
    postgres_rows_release(s);
    postgres_rows_drop_next(s);
    if (s->is_unlocked) { /* all that it wrote is there yet */
        postgres_pending_drop_heads(&s->pending, &s->heads);
    } else {
        heads_clear(&s->heads);
    }
    postgres_pending_clear(&s->pending);
    postgres_pending_clear(&s->announcing);
    row_notice_clear(&s->notice);
    s->now = s->before;
    s->is_in_batch = s->is_unlocked = false;
    s->is_behind = false;
    s->is_in_doubt = false;
}

/* Where others wrote between the last two batches they will have again: what there is to follow
 * comes with the lock, not by a question while it is held. */
static int postgres_rows_lock(struct postgres_rows *s, struct pg_result *results[2],
                              struct tidings_error *err)
{
    int rc = postgres_rows_ready(s, BEGIN_WAIT_MS, err);
    rc = rc == 0 ? postgres_rows_send(s, PG_BEGIN, NULL, err) : rc;
    rc = rc == 0 ? postgres_rows_send(s, PG_LOCK, NULL, err) : rc;
    s->next_after = s->followed;
    rc = rc == 0 && s->reads_ahead ? postgres_rows_send_page(s, err) : rc;
    rc = rc == 0 ? postgres_end(s->db, err) : rc;
    return rc == 0 ? postgres_finish(s->db, 0, results, 2, err) : rc;
}

static int postgres_rows_begin_locked(struct postgres_rows *s, struct tidings_error *err)
{
    struct pg_result *r[2] = {NULL, NULL};
    bool was_connected = postgres_is_connected(s->db);
    uint64_t asked_ms = clock_monotonic_ms();
    int rc = postgres_rows_lock(s, r, err);
    /* It was lost while nobody used it (a restart, a failover): another may do. */
    if (rc == TIDINGS_E_BUSY && was_connected && !postgres_is_connected(s->db)) {
        rc = postgres_rows_lock(s, r, err);
    }
    s->before = s->now;
    row_notice_clear(&s->notice);
    s->is_in_batch = true;
    s->is_durable = s->has_keys = false;
    rc = rc == 0 ? postgres_rows_read_counters(s, r[0], &s->now, err) : rc;
    if (rc == 0) {
        s->now_ms = postgres_rows_hear_clock(s, r[0], asked_ms);
    }
    postgres_free(r[0]);
    s->next_page = r[1];
    if (rc == 0 && s->now.position < s->followed) {
        /* Connecting again finds out why. */
        postgres_drop(s->db);
        rc =
            tidings_fail(err, TIDINGS_E_BUSY, "%s: it went back to position %" PRIu64 ": try again",
                         postgres_name(s->db), s->now.position);
    }
    return rc;
}

int postgres_rows_begin(struct entity_rows *rows, struct tidings_error *err)
{
    struct postgres_rows *s = postgres_rows_of(rows);
    bool was_in_doubt = s->is_in_doubt;
    postgres_rows_release(s);
    if (s->is_in_batch) {
        return tidings_fail(err, TIDINGS_E_INTERNAL, "a batch has begun already");
    }
    s->is_overtaken = false;
    int rc = postgres_rows_begin_locked(s, err);
    if (rc == 0 && was_in_doubt && s->now.position != s->doubted) {
        rc = tidings_fail(err, TIDINGS_E_UNKNOWN, "%s: the connection was lost",
                          postgres_name(s->db));
    }
    if (rc < 0) {
        postgres_rows_rollback(rows);
        return was_in_doubt ? error_wrap(err, TIDINGS_E_UNKNOWN, UNKNOWN) : rc;
    }
    s->is_behind = s->reads_ahead = s->now.position > s->followed;
    s->is_settled = true;
    s->before = s->now;
    postgres_rows_note_locked(s, s->is_behind);
    return 0;
}

void postgres_rows_rollback(struct entity_rows *rows)
{
    struct postgres_rows *s = postgres_rows_of(rows);
    if (!s->is_in_batch) {
        return;
    }
    if (!s->is_unlocked && postgres_is_connected(s->db)) {
        postgres_pending_clear(&s->pending);
        postgres_pending_clear(&s->announcing);
        /* Nobody waits for it; the next answer comes after it. What was sent and not ended is
         * skipped if it fails, and rolled back if not. */
        int rc = postgres_end(s->db, NULL);
        rc = rc == 0 ? postgres_rows_send(s, PG_ROLLBACK, NULL, NULL) : rc;
        (void)(rc == 0 ? postgres_end(s->db, NULL) : rc);
    }
    postgres_rows_forget_batch(s);
}

void postgres_rows_mark(const struct postgres_rows *s, char out[POSTGRES_MARK])
{
    (void)snprintf(out, POSTGRES_MARK, "%" PRIu64, s->now.position);
}

/* After it was sent. Was it certainly refused, when the connection is gone? */
static bool postgres_rows_is_refused(const struct postgres_rows *s)
{
    return postgres_is_connected(s->db) || strcmp(postgres_state(s->db), "25P03") == 0;
}

static int postgres_rows_send_commit(struct postgres_rows *s, struct tidings_error *err)
{
    int rc = s->has_keys ? postgres_rows_bound_keys(s, err) : 0;
    s->now.position += s->is_in_doubt && s->now.position == s->before.position;
    rc = rc == 0 && s->now.position != s->before.position && !s->is_durable
             ? postgres_rows_send(s, PG_LAZY, NULL, err)
             : rc;
    bool is_changed = memcmp(&s->now, &s->before, sizeof s->now) != 0;
    rc = rc == 0 && is_changed ? postgres_rows_send_state(s, err) : rc;
    return rc == 0 ? postgres_rows_send(s, PG_COMMIT, NULL, err) : rc;
}

int postgres_rows_commit(struct entity_rows *rows, struct tidings_error *err)
{
    struct postgres_rows *s = postgres_rows_of(rows);
    postgres_rows_release(s);
    postgres_rows_drop_next(s);
    if (s->is_unlocked && (s->pending.count == 0 || s->announcing.count == 0)) {
        return postgres_rows_commit_unlocked(s, err);
    }
    int rc = postgres_rows_take_lock(s, err);
    rc = rc == 0 ? postgres_rows_send_commit(s, err) : rc;
    if (rc < 0) {
        postgres_rows_rollback(rows); /* it was not sent as a whole */
        return rc;
    }
    bool notifies = s->now.position != s->before.position;
    rc = postgres_end(s->db, err);
    unsigned unwaited = rc == 0 && notifies ? postgres_rows_notify(s) : 0;
    rc = rc == 0 ? postgres_finish(s->db, unwaited, NULL, 0, err) : rc;
    if (rc == 0 && strcmp(postgres_tag(s->db), "COMMIT") != 0) {
        rc = tidings_fail(err, TIDINGS_E_IO, "%s: it did not commit", postgres_name(s->db));
    }
    if (rc < 0 && postgres_rows_is_refused(s)) {
        postgres_rows_rollback(rows);
        return rc;
    }
    if (rc < 0) {
        postgres_rows_forget_batch(s);
        return error_wrap(err, TIDINGS_E_UNKNOWN, UNKNOWN);
    }
    if (s->followed == s->before.position) {
        /* else ours are told with the others' */
        postgres_rows_note_followed(s, s->now.position, s->is_durable);
    } else {
        heads_clear(&s->heads);
    }
    s->is_in_batch = s->is_behind = s->is_in_doubt = false;
    return 0;
}
