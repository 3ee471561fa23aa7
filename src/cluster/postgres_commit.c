/* SPDX-License-Identifier: MIT
 *
 * Batches in PostgreSQL. There are two ways.
 *
 * With the lock: `begin` locks the row that has the counter of positions, in one round trip;
 * everything up to the commit goes into the pipeline, and the commit waits for all of it, in
 * another.
 *
 * Without (cluster/postgres_commit.c), where the caller can run a batch again:
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

#include "base/error.h"
#include "base/time.h"
#include "cluster/postgres_internal.h"

/* -------------------------------------------------------------------------------------------------
 * Versions of entities and announcements on their way to PostgreSQL: those of a batch are gathered
 * and inserted by one statement, with an array for each column. What the database does for a
 * statement (messages, a portal, the start and end of its executor) is then done once, not for each
 * row. In a batch without the lock they go with the commit, in the same statement.
 *
 * An entity is among them once, since a statement cannot make two rows current. Everything else of
 * the batch is sent after them, so that the database sees one order.
 */

#define T POSTGRES_TEXT
#define N POSTGRES_INT8
#define B POSTGRES_BYTEA
const struct postgres_pending_table postgres_pending_versions = {
    .columns = 11,
    .kinds = {T, N, N, N, B, T, T, T, T, T, N},
    .put = {PG_PUT, PG_PUT_MANY},
    .commit = {PG_COMMIT_PUT, PG_COMMIT_PUT_MANY},
};
const struct postgres_pending_table postgres_pending_announcements = {
    .columns = 3,
    .kinds = {N, N, B},
    .put = {PG_ANNOUNCE, PG_ANNOUNCE_MANY},
    .commit = {PG_COMMIT_ANNOUNCE, PG_COMMIT_ANNOUNCE_MANY},
};
#undef T
#undef N
#undef B

/* Of one array: all of them may be in one. */
#define COLUMN_BYTES (POSTGRES_PENDING_BYTES + 64u + 4u * POSTGRES_PENDING_MAX)

void postgres_pending_init(struct postgres_pending *p, const struct postgres_pending_table *table)
{
    p->table = table;
    for (int i = 0; i < table->columns; i++) {
        postgres_array_init(&p->columns[i], COLUMN_BYTES);
    }
}

void postgres_pending_deinit(struct postgres_pending *p)
{
    for (int i = 0; p->table && i < p->table->columns; i++) {
        postgres_array_deinit(&p->columns[i]);
    }
}

static void postgres_pending_clear(struct postgres_pending *p)
{
    for (int i = 0; p->count > 0 && i < p->table->columns; i++) {
        postgres_array_clear(&p->columns[i]);
    }
    p->count = 0;
    p->bytes = 0;
}

/* There are some: as parameters of their statement. */
static void postgres_pending_put(struct postgres_pending *p, struct postgres_values *v)
{
    for (int i = 0; i < p->table->columns; i++) {
        if (p->count == 1) {
            postgres_put_first(v, &p->columns[i]);
        } else {
            postgres_put_array(v, &p->columns[i]);
        }
    }
}

static int pending_send(struct postgres_store *s, struct postgres_pending *p,
                        struct tidings_error *err)
{
    struct postgres_values v = {0};
    if (p->count == 0) {
        return 0;
    }
    postgres_pending_put(p, &v);
    int rc = postgres_send(s->db, (int)p->table->put[p->count > 1], &v, err);
    postgres_pending_clear(p);
    return rc;
}

struct tidings_str postgres_store_encode(struct postgres_store *s, const struct kept_record *r)
{
    buf_clear(&s->record);
    kept_record_put(r, &s->record);
    return s->record.failed ? STR_EMPTY : buf_str(&s->record);
}

int postgres_store_log(struct postgres_store *s, const struct kept_record *r,
                       struct tidings_error *err)
{
    struct postgres_values v = {0};
    struct tidings_str bytes = postgres_store_encode(s, r);
    if (bytes.len == 0) {
        return tidings_fail(err, s->record.failed, "a change has more than %u bytes",
                            KEPT_RECORD_MAX);
    }
    postgres_put_int(&v, (int64_t)r->position);
    postgres_put_int(&v, s->now_ms);
    postgres_put_str(&v, bytes);
    return postgres_store_send(s, PG_LOG, &v, err);
}

int postgres_store_send_pending(struct postgres_store *s, struct tidings_error *err)
{
    int rc = postgres_store_take_lock(s, err);
    rc = rc == 0 ? pending_send(s, &s->pending, err) : rc;
    return rc == 0 ? pending_send(s, &s->announcing, err) : rc;
}

/* Perhaps, by its hash. */
static bool pending_has(const struct postgres_pending *p, uint64_t hash)
{
    for (unsigned i = 0; i < p->count; i++) {
        if (p->ids[i] == hash) {
            return true;
        }
    }
    return false;
}

static uint64_t pending_hash(const struct postgres_values *v)
{
    return str_hash(tidings_strn(v->at[0], (size_t)v->lengths[0]), 0);
}

/* Is one of them perhaps of the entity that is the first parameter? */
static bool postgres_pending_may_have(const struct postgres_pending *p,
                                      const struct postgres_values *v)
{
    return pending_has(p, pending_hash(v));
}

static void postgres_pending_drop_heads(const struct postgres_pending *p, struct heads *heads)
{
    struct tidings_str id;
    for (size_t at = 0; p->count > 0 && postgres_array_next(&p->columns[0], &at, &id);) {
        heads_drop(heads, id);
    }
}

int postgres_store_add_pending(struct postgres_store *s, struct postgres_pending *p,
                               const struct postgres_values *v, struct tidings_error *err)
{
    uint64_t hash = pending_hash(v);
    size_t bytes = 0;
    for (int i = 0; i < p->table->columns; i++) {
        bytes += (size_t)v->lengths[i];
    }
    bool is_full = p->count == POSTGRES_PENDING_MAX || p->bytes + bytes > POSTGRES_PENDING_BYTES;
    int rc = is_full || pending_has(p, hash) ? postgres_store_send_pending(s, err) : 0;
    if (rc < 0 || bytes > POSTGRES_PENDING_BYTES) {
        return rc < 0 ? rc : postgres_send(s->db, (int)p->table->put[0], v, err);
    }
    p->ids[p->count++] = hash;
    p->bytes += bytes;
    for (int i = 0; rc == 0 && i < p->table->columns; i++) {
        rc = postgres_array_add(&p->columns[i], p->table->kinds[i], v, i);
    }
    return rc < 0 ? tidings_fail(err, rc, "out of memory") : 0;
}

/* ---------------------------------------------------------------------------------------------- */

#define BEGIN_WAIT_MS 1000 /* for a connection */
#define UNKNOWN "whether it was kept is not known; read before you try again"

static void postgres_store_drop_next(struct postgres_store *s)
{
    postgres_free(s->next_page);
    s->next_page = NULL;
}

/* Nothing of the batch is left here. */
static void postgres_store_forget_batch(struct postgres_store *s)
{
    postgres_store_release(s);
    postgres_store_drop_next(s);
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
static int postgres_store_lock(struct postgres_store *s, struct pg_result *results[2],
                               struct tidings_error *err)
{
    int rc = postgres_store_ready(s, BEGIN_WAIT_MS, err);
    rc = rc == 0 ? postgres_store_send(s, PG_BEGIN, NULL, err) : rc;
    rc = rc == 0 ? postgres_store_send(s, PG_LOCK, NULL, err) : rc;
    s->next_after = s->followed;
    rc = rc == 0 && s->reads_ahead ? postgres_store_send_page(s, err) : rc;
    rc = rc == 0 ? postgres_end(s->db, err) : rc;
    return rc == 0 ? postgres_finish(s->db, 0, results, 2, err) : rc;
}

static int postgres_store_begin_locked(struct postgres_store *s, struct tidings_error *err)
{
    struct pg_result *r[2] = {NULL, NULL};
    bool was_connected = postgres_is_connected(s->db);
    uint64_t asked_ms = clock_monotonic_ms();
    int rc = postgres_store_lock(s, r, err);
    /* It was lost while nobody used it (a restart, a failover): another may do. */
    if (rc == TIDINGS_E_BUSY && was_connected && !postgres_is_connected(s->db)) {
        rc = postgres_store_lock(s, r, err);
    }
    s->before = s->now;
    row_notice_clear(&s->notice);
    s->is_in_batch = true;
    s->is_durable = s->has_keys = false;
    rc = rc == 0 ? postgres_store_read_counters(s, r[0], &s->now, err) : rc;
    if (rc == 0) {
        s->now_ms = postgres_store_hear_clock(s, r[0], asked_ms);
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

static void postgres_store_note_locked(struct postgres_store *s, bool is_behind);

int postgres_store_begin(struct store *store, struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    bool was_in_doubt = s->is_in_doubt;
    postgres_store_release(s);
    if (s->is_in_batch) {
        return tidings_fail(err, TIDINGS_E_INTERNAL, "a batch has begun already");
    }
    s->is_overtaken = false;
    int rc = postgres_store_begin_locked(s, err);
    if (rc == 0 && was_in_doubt && s->now.position != s->doubted) {
        rc = tidings_fail(err, TIDINGS_E_UNKNOWN, "%s: the connection was lost",
                          postgres_name(s->db));
    }
    if (rc < 0) {
        postgres_store_rollback(store);
        return was_in_doubt ? error_wrap(err, TIDINGS_E_UNKNOWN, UNKNOWN) : rc;
    }
    s->is_behind = s->reads_ahead = s->now.position > s->followed;
    s->is_settled = true;
    s->before = s->now;
    postgres_store_note_locked(s, s->is_behind);
    return 0;
}

void postgres_store_rollback(struct store *store)
{
    struct postgres_store *s = postgres_store_of(store);
    if (!s->is_in_batch) {
        return;
    }
    if (!s->is_unlocked && postgres_is_connected(s->db)) {
        postgres_pending_clear(&s->pending);
        postgres_pending_clear(&s->announcing);
        /* Nobody waits for it; the next answer comes after it. What was sent and not ended is
         * skipped if it fails, and rolled back if not. */
        int rc = postgres_end(s->db, NULL);
        rc = rc == 0 ? postgres_store_send(s, PG_ROLLBACK, NULL, NULL) : rc;
        (void)(rc == 0 ? postgres_end(s->db, NULL) : rc);
    }
    postgres_store_forget_batch(s);
}

void postgres_store_mark(const struct postgres_store *s, char out[POSTGRES_MARK])
{
    (void)snprintf(out, POSTGRES_MARK, "%" PRIu64, s->now.position);
}

/* After it was sent. Was it certainly refused, when the connection is gone? */
static bool postgres_store_is_refused(const struct postgres_store *s)
{
    return postgres_is_connected(s->db) || strcmp(postgres_state(s->db), "25P03") == 0;
}

static int postgres_store_send_commit(struct postgres_store *s, struct tidings_error *err)
{
    int rc = s->has_keys ? postgres_store_bound_keys(s, err) : 0;
    s->now.position += s->is_in_doubt && s->now.position == s->before.position;
    rc = rc == 0 && s->now.position != s->before.position && !s->is_durable
             ? postgres_store_send(s, PG_LAZY, NULL, err)
             : rc;
    bool is_changed = memcmp(&s->now, &s->before, sizeof s->now) != 0;
    rc = rc == 0 && is_changed ? postgres_store_send_state(s, err) : rc;
    return rc == 0 ? postgres_store_send(s, PG_COMMIT, NULL, err) : rc;
}

static int postgres_store_commit_unlocked(struct postgres_store *s, struct tidings_error *err);

int postgres_store_commit(struct store *store, struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    postgres_store_release(s);
    postgres_store_drop_next(s);
    if (s->is_unlocked && (s->pending.count == 0 || s->announcing.count == 0)) {
        return postgres_store_commit_unlocked(s, err);
    }
    int rc = postgres_store_take_lock(s, err);
    rc = rc == 0 ? postgres_store_send_commit(s, err) : rc;
    if (rc < 0) {
        postgres_store_rollback(store); /* it was not sent as a whole */
        return rc;
    }
    bool notifies = s->now.position != s->before.position;
    rc = postgres_end(s->db, err);
    unsigned unwaited = rc == 0 && notifies ? postgres_store_notify(s) : 0;
    rc = rc == 0 ? postgres_finish(s->db, unwaited, NULL, 0, err) : rc;
    if (rc == 0 && strcmp(postgres_tag(s->db), "COMMIT") != 0) {
        rc = tidings_fail(err, TIDINGS_E_IO, "%s: it did not commit", postgres_name(s->db));
    }
    if (rc < 0 && postgres_store_is_refused(s)) {
        postgres_store_rollback(store);
        return rc;
    }
    if (rc < 0) {
        postgres_store_forget_batch(s);
        return error_wrap(err, TIDINGS_E_UNKNOWN, UNKNOWN);
    }
    if (s->followed == s->before.position) {
        /* else ours are told with the others' */
        postgres_store_note_followed(s, s->now.position, s->is_durable);
    } else {
        heads_clear(&s->heads);
    }
    s->is_in_batch = s->is_behind = s->is_in_doubt = false;
    return 0;
}

/* -------------------------------------------------------------------------------------------------
 * Batches in PostgreSQL that do not take the lock: decided from what this node knows, and committed
 * by one statement if nobody else has committed since. The rules are in
 * cluster/postgres_commit.c; here is when they are used, how they are left, and the commit.
 */

/* Batches with the lock before another one is tried without: at least, and at most. What was tried
 * in vain costs more than the lock, so who is overtaken again and again tries ever less. */
#define LOCKED_MIN 4u
#define LOCKED_MAX 64u

/* One began with the lock, or was committed without: when the next may do without. */
static void postgres_store_note_locked(struct postgres_store *s, bool is_behind)
{
    if (is_behind) {
        s->locked_left = s->locked_after;
    } else if (s->locked_left > 0) {
        s->locked_left--;
    }
}

bool postgres_store_begin_unlocked(struct store *store)
{
    struct postgres_store *s = postgres_store_of(store);
    postgres_store_release(s);
    if (s->is_in_batch || s->is_target || !s->is_settled || s->locked_left > 0 ||
        (s->is_listening && postgres_store_hear(s) == 1) || !postgres_is_connected(s->db) ||
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

bool postgres_store_must_run_again(struct store *store)
{
    return postgres_store_of(store)->is_overtaken;
}

/* Others have committed since: the batch, of which nothing was committed, is to be run again. */
static int postgres_store_overtaken(struct postgres_store *s, struct tidings_error *err)
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
int postgres_store_take_lock(struct postgres_store *s, struct tidings_error *err)
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
        return postgres_is_connected(s->db) ? rc : postgres_store_overtaken(s, NULL);
    }
    rc = postgres_store_read_counters(s, r, &counters, err);
    if (rc == 0) {
        (void)postgres_store_hear_clock(s, r, asked_ms);
    }
    postgres_free(r);
    if (rc == 0 && counters.position != s->before.position) {
        rc = postgres_store_overtaken(s, err);
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
static bool unlocked_may_look(const struct postgres_store *s, enum postgres_statement which,
                              const struct postgres_values *values)
{
    bool is_of_entity = which == PG_FIND || which == PG_FIND_AT || which == PG_NTH;
    return is_of_entity && !postgres_pending_may_have(&s->pending, values);
}

int postgres_store_ask_in_batch(struct postgres_store *s, enum postgres_statement which,
                                const struct postgres_values *values, struct pg_result **ret,
                                struct tidings_error *err)
{
    bool looks = s->is_unlocked && unlocked_may_look(s, which, values);
    int rc = looks ? 0 : postgres_store_send_pending(s, err);
    rc = rc == 0 ? postgres_ask(s->db, which, values, ret, err) : rc;
    /* It was lost while nobody used it, and nothing was sent: another may do. */
    return rc < 0 && looks && !postgres_is_connected(s->db) ? postgres_store_overtaken(s, NULL)
                                                            : rc;
}

/* ---- committing ------------------------------------------------------------------------------ */

/* All of it as one statement. 0: what came back of it, if anything, is in *ret. */
static int unlocked_send(struct postgres_store *s, bool *ret_sent, struct pg_result **ret,
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
        postgres_store_mark(s, mark);
        postgres_put_str(&v, tidings_str(mark));
    }
    int rc = postgres_send(s->db, (int)which, &v, err);
    if (rc < 0) {
        return rc;
    }
    *ret_sent = true;
    rc = postgres_end(s->db, err);
    if (rc == 0 && p->count > 0) {
        unwaited = postgres_store_notify(s);
    }
    return rc == 0 ? postgres_finish(s->db, unwaited, ret, 1, err) : rc;
}

/* Nothing of it is known to be kept. */
static int unlocked_failed(struct postgres_store *s, bool is_sent, int rc,
                           struct tidings_error *err)
{
    bool is_lost = !postgres_is_connected(s->db);
    bool writes = s->pending.count + s->announcing.count > 0;
    bool is_raced = strncmp(postgres_state(s->db), "40", 2) == 0; /* where all is serializable */
    uint64_t before = s->before.position;
    postgres_store_forget_batch(s);
    if (!is_lost && !is_raced) {
        return rc;
    }
    (void)postgres_store_overtaken(s, NULL);
    if (!is_lost || !is_sent || !writes) {
        return rc;
    }
    s->is_in_doubt = true;
    s->doubted = before;
    return error_wrap(err, TIDINGS_E_UNKNOWN,
                      "whether it was kept is not known; read before you try again");
}

static int postgres_store_commit_unlocked(struct postgres_store *s, struct tidings_error *err)
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
        postgres_store_forget_batch(s);
        return postgres_store_overtaken(s, err);
    }
    (void)postgres_store_read_counters(s, r, &s->now, NULL);
    (void)postgres_store_hear_clock(s, r, asked_ms);
    postgres_free(r);
    postgres_pending_clear(&s->pending);
    postgres_pending_clear(&s->announcing);
    postgres_store_note_followed(s, s->now.position, s->is_durable);
    s->locked_after -= s->locked_after > 0;
    s->is_in_batch = s->is_unlocked = false;
    return 0;
}
