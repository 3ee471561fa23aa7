/* SPDX-License-Identifier: MIT
 *
 * Batches in PostgreSQL. `begin` locks the row that has the counter of positions, in one round
 * trip; everything up to the commit goes into the pipeline, and the commit waits for all of it, in
 * another. Others are notified after the commit, so that nobody waits for that with the lock.
 *
 * When the connection breaks after the commit was sent and before it was answered nobody knows what
 * became of it: TIDINGS_E_UNKNOWN. Nothing of it counts as followed then.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "store/postgres_rows_private.h"

#define BEGIN_WAIT_MS 1000 /* for a connection */

static void postgres_rows_drop_next(struct postgres_rows *s)
{
    postgres_free(s->next_page);
    s->next_page = NULL;
}

/* Nothing of the batch is left here. */
static void postgres_rows_forget_batch(struct postgres_rows *s)
{
    postgres_rows_release(s);
    postgres_rows_drop_next(s);
    postgres_pending_clear(&s->pending);
    heads_clear(&s->heads);
    s->now = s->before;
    s->is_in_batch = false;
    s->is_behind = false;
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

int postgres_rows_begin(struct entity_rows *rows, struct tidings_error *err)
{
    struct postgres_rows *s = postgres_rows_of(rows);
    struct pg_result *r[2] = {NULL, NULL};
    postgres_rows_release(s);
    if (s->is_in_batch) {
        return tidings_fail(err, TIDINGS_E_INTERNAL, "a batch has begun already");
    }
    bool was_connected = postgres_is_connected(s->db);
    uint64_t asked_ms = clock_monotonic_ms();
    int rc = postgres_rows_lock(s, r, err);
    /* It was lost while nobody used it (a restart, a failover): another may do. */
    if (rc == TIDINGS_E_BUSY && was_connected && !postgres_is_connected(s->db)) {
        rc = postgres_rows_lock(s, r, err);
    }
    s->before = s->now;
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
        rc = tidings_fail(err, TIDINGS_E_BUSY,
                          "database '%s': it went back to position %" PRIu64 ": try again",
                          postgres_redacted_url(s->db), s->now.position);
    }
    if (rc < 0) {
        postgres_rows_rollback(rows);
        return rc;
    }
    s->is_behind = s->reads_ahead = s->now.position > s->followed;
    s->before = s->now;
    return 0;
}

void postgres_rows_rollback(struct entity_rows *rows)
{
    struct postgres_rows *s = postgres_rows_of(rows);
    if (!s->is_in_batch) {
        return;
    }
    postgres_pending_clear(&s->pending);
    if (postgres_is_connected(s->db)) {
        /* Nobody waits for it; the next answer comes after it. What was sent and not ended is
         * skipped if it fails, and rolled back if not. */
        int rc = postgres_end(s->db, NULL);
        rc = rc == 0 ? postgres_rows_send(s, PG_ROLLBACK, NULL, NULL) : rc;
        (void)(rc == 0 ? postgres_end(s->db, NULL) : rc);
    }
    postgres_rows_forget_batch(s);
}

static int postgres_rows_send_state(struct postgres_rows *s, struct tidings_error *err)
{
    struct postgres_values v = {0};
    postgres_put_int(&v, (int64_t)s->now.position);
    postgres_put_int(&v, (int64_t)s->now.floor);
    postgres_put_int(&v, (int64_t)s->now.announced);
    postgres_put_int(&v, s->now.keys);
    postgres_put_int(&v, s->now.max_keys);
    return postgres_rows_send(s, PG_SET_STATE, &v, err);
}

/* How many ends need not be waited for. */
static unsigned postgres_rows_notify(struct postgres_rows *s)
{
    char channel[40], position[24];
    struct postgres_values v = {0};
    (void)snprintf(channel, sizeof channel, "tidings_%016" PRIx64, s->cluster_id);
    (void)snprintf(position, sizeof position, "%" PRIu64, s->now.position);
    postgres_put_str(&v, tidings_str(channel));
    postgres_put_str(&v, tidings_str(position));
    return s->has_notify && postgres_rows_send(s, PG_NOTIFY, &v, NULL) == 0 &&
                   postgres_end(s->db, NULL) == 0
               ? 1
               : 0;
}

/* After it was sent. Was it certainly refused, when the connection is gone? */
static bool postgres_rows_is_refused(const struct postgres_rows *s)
{
    return postgres_is_connected(s->db) || strcmp(postgres_state(s->db), "25P03") == 0;
}

static int postgres_rows_send_commit(struct postgres_rows *s, struct tidings_error *err)
{
    int rc = s->has_keys ? postgres_rows_bound_keys(s, err) : 0;
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
    int rc = postgres_rows_send_commit(s, err);
    if (rc < 0) {
        postgres_rows_rollback(rows); /* it was not sent as a whole */
        return rc;
    }
    bool notifies = s->now.position != s->before.position;
    rc = postgres_end(s->db, err);
    unsigned unwaited = rc == 0 && notifies ? postgres_rows_notify(s) : 0;
    rc = rc == 0 ? postgres_finish(s->db, unwaited, NULL, 0, err) : rc;
    if (rc == 0 && strcmp(postgres_tag(s->db), "COMMIT") != 0) {
        rc = tidings_fail(err, TIDINGS_E_IO, "database '%s': it did not commit",
                          postgres_redacted_url(s->db));
    }
    if (rc < 0 && postgres_rows_is_refused(s)) {
        postgres_rows_rollback(rows);
        return rc;
    }
    if (rc < 0) {
        postgres_rows_forget_batch(s);
        return error_wrap(err, TIDINGS_E_UNKNOWN,
                          "whether it was kept is not known; read before you try again");
    }
    if (s->followed == s->before.position) {
        /* else ours are told with the others' */
        postgres_rows_note_followed(s, s->now.position, s->is_durable);
    } else {
        heads_clear(&s->heads);
    }
    s->is_in_batch = s->is_behind = false;
    return 0;
}
