/* SPDX-License-Identifier: MIT
 *
 * Batches in PostgreSQL. There are two ways.
 *
 * With the lock: `begin` locks the row that has the counter of positions, in one round trip.
 * Everything up to the commit goes into the pipeline, and the commit waits for all of it, in
 * another round trip.
 *
 * Without the lock, if the caller can rerun the batch:
 *
 * 1. It begins at position P, up to which this node has followed everything, and sends nothing. Its
 *    decisions rest on followed data, or on reads without the lock. Its writes (versions or
 *    announcements) are held back.
 * 2. The commit is one statement, a separate transaction. It takes the positions after P if the
 *    counter is still at P, and inserts the rows if it took them. The database locks the row of the
 *    counter and checks it again under the lock. So no position is taken twice, and no batch
 *    commits on outdated data. A batch without writes reads the counter instead: its refusals and
 *    no-ops were right if the counter is at P.
 * 3. If the counter is elsewhere, the batch had no effect: other nodes committed in between. The
 *    node follows their changes and reruns the whole batch with the lock: once, because no node can
 *    then interfere. Until then no client receives any result, not even an error.
 * 4. Operations that cannot be held back (other tables, too many rows, a second version of an
 *    entity, reading the batch's own writes) take the lock at that moment. If the counter is still
 *    at P, the batch continues with the lock; otherwise as in 3.
 * 5. If the connection is lost after the statement was sent, the commit is in doubt. On the rerun,
 *    `begin` takes the lock on another connection. If the counter is at P, the statement was not
 *    committed. It cannot commit after this batch either, because the batch advances the counter
 *    (with an unused position if it writes nothing). Otherwise the outcome is unknown:
 *    TIDINGS_E_UNKNOWN, even if the rerun fails.
 * 6. After a batch was overtaken, the next batches take the lock. Their number grows with each
 *    overtaking, and while they find changes of other nodes. The first batch of a connection takes
 *    the lock, too, to verify that the store has lost nothing.
 *
 * Other nodes are notified after the commit, so that no batch waits for that under the lock;
 * without the lock, only if the preceding statement committed.
 *
 * If the connection is lost between sending the commit with the lock and its answer, the outcome is
 * unknown: TIDINGS_E_UNKNOWN. The batch does not count as followed then.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/time.h"
#include "cluster/postgres_internal.h"

/* Unsent rows of the batch: versions (at most one per entity) or announcements. One statement for
 * all of them costs the database a fraction of one statement per row. */
#define POSTGRES_PENDING_MAX 64u
#define POSTGRES_PENDING_BYTES (64u << 10) /* larger rows are sent immediately */
#define POSTGRES_PENDING_COLUMNS 11
struct postgres_pending_table {
    int columns;
    enum postgres_element kinds[POSTGRES_PENDING_COLUMNS];
    enum postgres_statement put[2];    /* one row; many rows */
    enum postgres_statement commit[2]; /* the same with the commit, followed by the new position,
                                          the previous one, and the mark */
};
struct postgres_pending {
    const struct postgres_pending_table *table;
    struct postgres_array columns[POSTGRES_PENDING_COLUMNS]; /* as in PG_PUT, PG_ANNOUNCE */
    uint64_t ids[POSTGRES_PENDING_MAX];                      /* hashes */
    unsigned count;
    size_t bytes;
};

/* The current batch, and the state between batches. */
struct postgres_batch {
    struct postgres_pending pending; /* versions */
    struct postgres_pending announcing;
    struct notify_payload notify_payload;
    struct postgres_counters before; /* where the store was when it began */
    uint64_t doubted;
    bool is_unlocked;  /* it has no lock, and has sent nothing … */
    bool is_settled;   /* … which is allowed: this connection has had the lock once */
    bool is_overtaken; /* other nodes committed in between: it must be rerun with the lock … */
    bool is_in_doubt;  /* … to find out whether it was committed: then the store is no longer at
                          `doubted` */
    bool reads_ahead;  /* other nodes wrote before the last batch: follow them with the lock */
    unsigned locked_left;  /* batches with the lock before the next try without … */
    unsigned locked_after; /* … if that one is overtaken */
};

/* -------------------------------------------------------------------------------------------------
 * Versions of entities and announcements on their way to PostgreSQL. Those of a batch are collected
 * and inserted by one statement, with an array for each column. The cost of a statement for the
 * database (messages, a portal, start and end of its executor) then occurs once, not for each row.
 * In a batch without the lock they go with the commit, in the same statement.
 *
 * An entity occurs once, because a statement cannot make two rows current. All other statements of
 * the batch are sent after them, so that the database sees one order.
 */

#define T POSTGRES_TEXT
#define N POSTGRES_INT8
#define B POSTGRES_BYTEA
static const struct postgres_pending_table versions_table = {
    .columns = 11,
    .kinds = {T, N, N, N, B, T, T, T, T, T, N},
    .put = {PG_PUT, PG_PUT_MANY},
    .commit = {PG_COMMIT_PUT, PG_COMMIT_PUT_MANY},
};
static const struct postgres_pending_table announcements_table = {
    .columns = 3,
    .kinds = {N, N, B},
    .put = {PG_ANNOUNCE, PG_ANNOUNCE_MANY},
    .commit = {PG_COMMIT_ANNOUNCE, PG_COMMIT_ANNOUNCE_MANY},
};
#undef T
#undef N
#undef B

/* For one array, which may hold all of the bytes. */
#define COLUMN_BYTES (POSTGRES_PENDING_BYTES + 64u + 4u * POSTGRES_PENDING_MAX)

static void postgres_pending_init(struct postgres_pending *p,
                                  const struct postgres_pending_table *table)
{
    p->table = table;
    for (int i = 0; i < table->columns; i++) {
        postgres_array_init(&p->columns[i], COLUMN_BYTES);
    }
}

static void postgres_pending_deinit(struct postgres_pending *p)
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

/* If there are rows, sends them as parameters of their statement. */
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

int postgres_store_encode(struct postgres_store *s, const struct kept_record *r,
                          struct tidings_str *ret, struct tidings_error *err)
{
    buf_clear(&s->record);
    kept_record_put(r, &s->record);
    *ret = buf_str(&s->record);
    return buf_check(&s->record, "a change", NULL, err);
}

int postgres_store_log(struct postgres_store *s, const struct kept_record *r,
                       struct tidings_error *err)
{
    struct postgres_values v = {0};
    struct tidings_str bytes;
    int rc = postgres_store_encode(s, r, &bytes, err);
    if (rc < 0) {
        return rc;
    }
    postgres_put_int(&v, (int64_t)r->position);
    postgres_put_int(&v, s->now_ms);
    postgres_put_str(&v, bytes);
    return postgres_store_send(s, PG_LOG, &v, err);
}

int postgres_store_send_pending(struct postgres_store *s, struct tidings_error *err)
{
    int rc = postgres_store_take_lock(s, err);
    rc = rc == 0 ? pending_send(s, &s->batch->pending, err) : rc;
    return rc == 0 ? pending_send(s, &s->batch->announcing, err) : rc;
}

/* By hash, so possibly a false positive. */
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

/* Returns true if a row may be of the entity in the first parameter. */
static bool postgres_pending_may_have(const struct postgres_pending *p,
                                      const struct postgres_values *v)
{
    return pending_has(p, pending_hash(v));
}

static void postgres_pending_drop_latest(const struct postgres_pending *p,
                                         struct latest_versions *latest)
{
    struct tidings_str id;
    for (size_t at = 0; p->count > 0 && postgres_array_next(&p->columns[0], &at, &id);) {
        latest_drop(latest, id);
    }
}

static int postgres_batch_add(struct postgres_store *s, struct postgres_pending *p,
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

int postgres_store_add_version(struct postgres_store *s, const struct postgres_values *v,
                               struct tidings_error *err)
{
    return postgres_batch_add(s, &s->batch->pending, v, err);
}

int postgres_store_add_announcement(struct postgres_store *s, const struct postgres_values *v,
                                    struct tidings_error *err)
{
    return postgres_batch_add(s, &s->batch->announcing, v, err);
}

/* The mark that a commit leaves in the session for its notification; a rollback removes it. It is
 * the position, which is unique among the committed batches of a session. */
#define POSTGRES_BATCH_ID 24
static void postgres_store_mark(const struct postgres_store *s, char out[POSTGRES_BATCH_ID])
{
    (void)snprintf(out, POSTGRES_BATCH_ID, "%" PRIu64, s->now.position);
}

/* ---- what others are notified of ------------------------------------------------------------- */

/* Returns true if the newest position comes right after the rows in the payload. */
static bool payload_takes(struct postgres_store *s)
{
    bool takes = s->has_scope && s->has_notify && !s->batch->notify_payload.is_partial &&
                 s->now.position == s->batch->before.position + s->batch->notify_payload.count + 1;
    s->batch->notify_payload.is_partial = !takes;
    return takes;
}

void postgres_store_tell(struct postgres_store *s, const struct kept_record *r)
{
    if (payload_takes(s)) {
        notify_payload_add(&s->batch->notify_payload, r);
    }
}

void postgres_store_tell_replaced(struct postgres_store *s)
{
    s->batch->notify_payload.is_partial =
        s->batch->notify_payload.is_partial || s->batch->notify_payload.count > 0;
}

static int postgres_store_send_state(struct postgres_store *s, struct tidings_error *err)
{
    struct postgres_values v = {0};
    char mark[POSTGRES_BATCH_ID];
    bool is_marked = notify_payload_is_whole(&s->batch->notify_payload, s->batch->before.position,
                                             s->now.position);
    postgres_put_int(&v, (int64_t)s->now.position);
    postgres_put_int(&v, (int64_t)s->now.floor);
    postgres_put_int(&v, (int64_t)s->now.announced);
    postgres_put_int(&v, s->now.keys);
    postgres_put_int(&v, s->now.max_keys);
    if (is_marked) {
        postgres_store_mark(s, mark);
        postgres_put_str(&v, tidings_str(mark));
    }
    return postgres_store_send(s, is_marked ? PG_SET_STATE_AND_BATCH_ID : PG_SET_STATE, &v, err);
}

static unsigned postgres_store_notify(struct postgres_store *s)
{
    char channel[40], position[24], mark[POSTGRES_BATCH_ID];
    struct postgres_values v = {0};
    struct buf text;
    if (!s->has_notify) {
        return 0;
    }
    buf_init(&text, NOTIFY_PAYLOAD_TEXT_MAX + 1);
    bool has_rows = notify_payload_is_whole(&s->batch->notify_payload, s->batch->before.position,
                                            s->now.position) &&
                    notify_payload_put(&s->batch->notify_payload, &s->sealer, &s->scope,
                                       s->batch->before.position + 1, &text) == 0;
    (void)snprintf(position, sizeof position, "%" PRIu64, s->now.position);
    (void)snprintf(channel, sizeof channel, "tidings_%016" PRIx64, s->cluster_id);
    postgres_put_str(&v, tidings_str(channel));
    postgres_put_str(&v, has_rows ? buf_str(&text) : tidings_str(position));
    if (has_rows || s->batch->is_unlocked) {
        postgres_store_mark(s, mark);
        postgres_put_str(&v, tidings_str(mark));
    }
    int rc = postgres_send(s->db, v.count == 3 ? PG_NOTIFY_IF : PG_NOTIFY, &v, NULL);
    rc = rc == 0 ? postgres_end(s->db, NULL) : rc;
    buf_deinit(&text);
    return rc == 0 ? 1 : 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

struct postgres_batch *postgres_batch_create(void)
{
    struct postgres_batch *b = mem_zalloc(sizeof(*b));
    if (b) {
        postgres_pending_init(&b->pending, &versions_table);
        postgres_pending_init(&b->announcing, &announcements_table);
        notify_payload_init(&b->notify_payload);
    }
    return b;
}

void postgres_batch_destroy(struct postgres_batch *b)
{
    if (b) {
        postgres_pending_deinit(&b->pending);
        postgres_pending_deinit(&b->announcing);
        notify_payload_deinit(&b->notify_payload);
        mem_free(b);
    }
}

void postgres_batch_unsettle(struct postgres_store *s)
{
    s->batch->is_settled = false;
}

/* ---------------------------------------------------------------------------------------------- */

#define BEGIN_WAIT_MS 1000 /* for a connection */
#define UNKNOWN "whether it was kept is not known; read before you try again"

static void postgres_store_drop_next(struct postgres_store *s)
{
    postgres_free(s->next_page);
    s->next_page = NULL;
}

/* Discards all state of the batch. */
static void postgres_store_forget_batch(struct postgres_store *s)
{
    postgres_store_release(s);
    postgres_store_drop_next(s);
    if (s->batch->is_unlocked) { /* all of its writes are still held back */
        postgres_pending_drop_latest(&s->batch->pending, &s->latest);
    } else {
        latest_clear(&s->latest);
    }
    postgres_pending_clear(&s->batch->pending);
    postgres_pending_clear(&s->batch->announcing);
    notify_payload_clear(&s->batch->notify_payload);
    s->now = s->batch->before;
    s->is_in_batch = s->batch->is_unlocked = false;
    s->is_behind = false;
    s->batch->is_in_doubt = false;
}

/* If other nodes wrote between the last two batches, they probably did so again. Then the statement
 * that takes the lock also reads the changes to follow, to save a query under the lock. */
static int postgres_store_lock(struct postgres_store *s, struct pg_result *results[2],
                               struct tidings_error *err)
{
    int rc = postgres_store_ready(s, BEGIN_WAIT_MS, err);
    rc = rc == 0 ? postgres_store_send(s, PG_BEGIN, NULL, err) : rc;
    rc = rc == 0 ? postgres_store_send(s, PG_LOCK, NULL, err) : rc;
    s->next_after = s->followed;
    rc = rc == 0 && s->batch->reads_ahead ? postgres_store_send_page(s, err) : rc;
    rc = rc == 0 ? postgres_end(s->db, err) : rc;
    return rc == 0 ? postgres_finish(s->db, 0, results, 2, err) : rc;
}

static int postgres_store_begin_locked(struct postgres_store *s, struct tidings_error *err)
{
    struct pg_result *r[2] = {NULL, NULL};
    bool was_connected = postgres_is_connected(s->db);
    uint64_t asked_ms = clock_monotonic_ms();
    int rc = postgres_store_lock(s, r, err);
    /* An idle connection was lost (a restart, a failover): another connection may work. */
    if (rc == TIDINGS_E_BUSY && was_connected && !postgres_is_connected(s->db)) {
        rc = postgres_store_lock(s, r, err);
    }
    s->batch->before = s->now;
    notify_payload_clear(&s->batch->notify_payload);
    s->is_in_batch = true;
    s->is_durable = s->has_keys = false;
    rc = rc == 0 ? postgres_store_read_counters(s, r[0], &s->now, err) : rc;
    if (rc == 0) {
        s->now_ms = postgres_store_hear_clock(s, r[0], asked_ms);
    }
    postgres_free(r[0]);
    s->next_page = r[1];
    if (rc == 0 && s->now.position < s->followed) {
        /* Reconnecting finds the reason. */
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
    bool was_in_doubt = s->batch->is_in_doubt;
    postgres_store_release(s);
    if (s->is_in_batch) {
        return tidings_fail(err, TIDINGS_E_INTERNAL, "a batch has begun already");
    }
    s->batch->is_overtaken = false;
    int rc = postgres_store_begin_locked(s, err);
    if (rc == 0 && was_in_doubt && s->now.position != s->batch->doubted) {
        rc = tidings_fail(err, TIDINGS_E_UNKNOWN, "%s: the connection was lost",
                          postgres_name(s->db));
    }
    if (rc < 0) {
        postgres_store_rollback(store);
        return was_in_doubt ? error_wrap(err, TIDINGS_E_UNKNOWN, UNKNOWN) : rc;
    }
    s->is_behind = s->batch->reads_ahead = s->now.position > s->followed;
    s->batch->is_settled = true;
    s->batch->before = s->now;
    postgres_store_note_locked(s, s->is_behind);
    return 0;
}

void postgres_store_rollback(struct store *store)
{
    struct postgres_store *s = postgres_store_of(store);
    if (!s->is_in_batch) {
        return;
    }
    if (!s->batch->is_unlocked && postgres_is_connected(s->db)) {
        postgres_pending_clear(&s->batch->pending);
        postgres_pending_clear(&s->batch->announcing);
        /* No caller waits for it; the next answer follows it. Sent statements without an end are
         * skipped if one fails, and otherwise rolled back. */
        int rc = postgres_end(s->db, NULL);
        rc = rc == 0 ? postgres_store_send(s, PG_ROLLBACK, NULL, NULL) : rc;
        (void)(rc == 0 ? postgres_end(s->db, NULL) : rc);
    }
    postgres_store_forget_batch(s);
}

/* After sending the commit: returns true if the server certainly rejected it, even if the
 * connection is lost. */
static bool postgres_store_is_refused(const struct postgres_store *s)
{
    return postgres_is_connected(s->db) || strcmp(postgres_state(s->db), "25P03") == 0;
}

static int postgres_store_send_commit(struct postgres_store *s, struct tidings_error *err)
{
    int rc = s->has_keys ? postgres_store_bound_keys(s, err) : 0;
    s->now.position += s->batch->is_in_doubt && s->now.position == s->batch->before.position;
    rc = rc == 0 && s->now.position != s->batch->before.position && !s->is_durable
             ? postgres_store_send(s, PG_LAZY, NULL, err)
             : rc;
    bool is_changed = memcmp(&s->now, &s->batch->before, sizeof s->now) != 0;
    rc = rc == 0 && is_changed ? postgres_store_send_state(s, err) : rc;
    return rc == 0 ? postgres_store_send(s, PG_COMMIT, NULL, err) : rc;
}

static int postgres_store_commit_unlocked(struct postgres_store *s, struct tidings_error *err);

int postgres_store_commit(struct store *store, struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    postgres_store_release(s);
    postgres_store_drop_next(s);
    if (s->batch->is_unlocked &&
        (s->batch->pending.count == 0 || s->batch->announcing.count == 0)) {
        return postgres_store_commit_unlocked(s, err);
    }
    int rc = postgres_store_take_lock(s, err);
    rc = rc == 0 ? postgres_store_send_commit(s, err) : rc;
    if (rc < 0) {
        postgres_store_rollback(store); /* it was sent only in part */
        return rc;
    }
    bool notifies = s->now.position != s->batch->before.position;
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
    if (s->followed == s->batch->before.position) {
        /* otherwise local changes are announced with those of other nodes */
        postgres_store_note_followed(s, s->now.position, s->is_durable);
    } else {
        latest_clear(&s->latest);
    }
    s->is_in_batch = s->is_behind = s->batch->is_in_doubt = false;
    return 0;
}

/* -------------------------------------------------------------------------------------------------
 * Batches in PostgreSQL without the lock. This node's data decides them, and one statement commits
 * them unless another node has committed since. The rules are at the top of this file; this part
 * decides when to use them and when to leave them, and commits.
 */

/* Minimum and maximum of batches with the lock before the next try without. A failed try costs more
 * than the lock, so nodes that are overtaken repeatedly try less and less often. */
#define LOCKED_MIN 4u
#define LOCKED_MAX 64u

/* A batch began with the lock, or was committed without: decides when the next may do without. */
static void postgres_store_note_locked(struct postgres_store *s, bool is_behind)
{
    if (is_behind) {
        s->batch->locked_left = s->batch->locked_after;
    } else if (s->batch->locked_left > 0) {
        s->batch->locked_left--;
    }
}

bool postgres_store_begin_unlocked(struct store *store)
{
    struct postgres_store *s = postgres_store_of(store);
    postgres_store_release(s);
    if (s->is_in_batch || s->is_target || !s->batch->is_settled || s->batch->locked_left > 0 ||
        postgres_store_has_news(store) || !postgres_is_connected(s->db) ||
        s->now.position != s->followed) {
        return false;
    }
    s->batch->before = s->now;
    notify_payload_clear(&s->batch->notify_payload);
    s->now_ms = store_clock_now(&s->clock, clock_monotonic_ms(), clock_wall_ms());
    s->is_in_batch = s->batch->is_unlocked = true;
    s->is_durable = s->has_keys = s->is_behind = s->batch->is_overtaken = false;
    return true;
}

bool postgres_store_must_run_again(struct store *store)
{
    return postgres_store_of(store)->batch->is_overtaken;
}

/* Other nodes have committed since. The batch has committed nothing and must be rerun. */
static int postgres_store_overtaken(struct postgres_store *s, struct tidings_error *err)
{
    s->batch->is_overtaken = true;
    s->batch->locked_after = s->batch->locked_after < LOCKED_MIN       ? LOCKED_MIN
                             : s->batch->locked_after < LOCKED_MAX / 2 ? 2 * s->batch->locked_after
                                                                       : LOCKED_MAX;
    s->batch->locked_left = s->batch->locked_after;
    return tidings_fail(err, TIDINGS_E_BUSY, "%s: another node wrote first; retry",
                        postgres_name(s->db));
}

/* Makes it a batch with the lock. Counters other than the position may have changed in the
 * database, but not in this batch. */
int postgres_store_take_lock(struct postgres_store *s, struct tidings_error *err)
{
    struct pg_result *r = NULL;
    struct postgres_counters counters = {0};
    if (!s->batch->is_unlocked) {
        return 0;
    }
    s->batch->is_unlocked = false;
    uint64_t asked_ms = clock_monotonic_ms();
    int rc = postgres_send(s->db, PG_BEGIN, NULL, err);
    rc = rc == 0 ? postgres_ask(s->db, PG_LOCK, NULL, &r, err) : rc;
    if (rc < 0) {
        /* An idle connection was lost: another connection may work. */
        return postgres_is_connected(s->db) ? rc : postgres_store_overtaken(s, NULL);
    }
    rc = postgres_store_read_counters(s, r, &counters, err);
    if (rc == 0) {
        (void)postgres_store_hear_clock(s, r, asked_ms);
    }
    postgres_free(r);
    if (rc == 0 && counters.position != s->batch->before.position) {
        rc = postgres_store_overtaken(s, err);
    }
    if (rc < 0) {
        return rc;
    }
    uint64_t position = s->now.position;
    s->now = s->batch->before = counters;
    s->now.position = position;
    return 0;
}

/* Returns true if the statement can read without the lock and without the writes of the batch. */
static bool unlocked_may_look(const struct postgres_store *s, enum postgres_statement which,
                              const struct postgres_values *values)
{
    bool is_of_entity = which == PG_FIND || which == PG_FIND_AT || which == PG_NTH;
    return is_of_entity && !postgres_pending_may_have(&s->batch->pending, values);
}

int postgres_store_ask_in_batch(struct postgres_store *s, enum postgres_statement which,
                                const struct postgres_values *values, struct pg_result **ret,
                                struct tidings_error *err)
{
    bool looks = s->batch->is_unlocked && unlocked_may_look(s, which, values);
    int rc = looks ? 0 : postgres_store_send_pending(s, err);
    rc = rc == 0 ? postgres_ask(s->db, which, values, ret, err) : rc;
    /* An idle connection was lost, and nothing was sent: another connection may work. */
    return rc < 0 && looks && !postgres_is_connected(s->db) ? postgres_store_overtaken(s, NULL)
                                                            : rc;
}

/* ---- committing ------------------------------------------------------------------------------ */

/* Sends everything as one statement. Returns 0 with its result, if any, in *ret. */
static int unlocked_send(struct postgres_store *s, bool *ret_sent, struct pg_result **ret,
                         struct tidings_error *err)
{
    struct postgres_pending *p =
        s->batch->pending.count > 0 ? &s->batch->pending : &s->batch->announcing;
    enum postgres_statement which = PG_COMMIT_NOTHING;
    struct postgres_values v = {0};
    char mark[POSTGRES_BATCH_ID];
    unsigned unwaited = 0;
    if (p->count > 0) {
        which = p->table->commit[p->count > 1];
        postgres_pending_put(p, &v);
        postgres_put_int(&v, (int64_t)s->now.position);
    }
    postgres_put_int(&v, (int64_t)s->batch->before.position);
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

/* None of the batch is known to be committed. */
static int unlocked_failed(struct postgres_store *s, bool is_sent, int rc,
                           struct tidings_error *err)
{
    bool is_lost = !postgres_is_connected(s->db);
    bool writes = s->batch->pending.count + s->batch->announcing.count > 0;
    bool is_raced = strncmp(postgres_state(s->db), "40", 2) == 0; /* with serializable isolation */
    uint64_t before = s->batch->before.position;
    postgres_store_forget_batch(s);
    if (!is_lost && !is_raced) {
        return rc;
    }
    (void)postgres_store_overtaken(s, NULL);
    if (!is_lost || !is_sent || !writes) {
        return rc;
    }
    s->batch->is_in_doubt = true;
    s->batch->doubted = before;
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
    postgres_pending_clear(&s->batch->pending);
    postgres_pending_clear(&s->batch->announcing);
    postgres_store_note_followed(s, s->now.position, s->is_durable);
    s->batch->locked_after -= s->batch->locked_after > 0;
    s->is_in_batch = s->batch->is_unlocked = false;
    return 0;
}
