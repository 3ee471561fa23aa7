/* SPDX-License-Identifier: MIT
 *
 * Incarnations, data losses and positions in three small arrays under one lock.
 *
 * Invariants: data losses ascend by `began`. A position entry maps `count` consecutive positions to
 * their numbers; entries ascend in both. Every position above an entry has a number above the
 * entry's. Any entry can therefore be omitted: the answer is lower then, and some changes are sent
 * twice.
 */
#include "cluster/history.h"

#include <pthread.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "cluster/postgres_internal.h"
#include "store/change.h"
#include "store/change_log.h"

/* -------------------------------------------------------------------------------------------------
 * Detection of a *data loss* (cluster/history.h): whether the database lost committed data. It runs
 * after each connect, because a data loss breaks all connections. cluster/history.h decides; this
 * code reads the input of the decision and records its result.
 *
 * The unlogged table `tidings_mark` has one row, unless the database crashed. The server and its
 * timeline are compared with the recorded ones.
 */

#define NO_IDENTITY 1 /* of an engine that cannot identify itself */

/* Shared by the change log and follow.c. */
struct postgres_log {
    struct incarnations *incarnations;
    uint64_t first;
    unsigned refs;
};

struct postgres_history {
    struct postgres_log *log;  /* NULL: there is no change log yet */
    uint64_t incarnation;      /* its epoch; 0: none */
    uint64_t server;           /* that server and its timeline */
    bool is_incarnation_ended; /* other nodes marked it as ended, but it lives; they must be
                                  notified */
};

struct observed {
    struct postgres_counters counters;
    struct store_state state;
    struct data_loss data_losses[INCARNATIONS_LOSSES_MAX];
};

bool postgres_store_is_unsupported(const struct postgres_store *s)
{
    const char *state = postgres_state(s->db);
    return postgres_is_connected(s->db) &&
           (strncmp(state, "42", 2) == 0 || strncmp(state, "0A", 2) == 0);
}

/* Computes a number from the server and its timeline. */
static int identify(struct postgres_store *s, uint64_t *ret, struct tidings_error *err)
{
    struct pg_result *r = NULL;
    struct tidings_error why = {0};
    int rc = postgres_ask(s->db, PG_SERVER, NULL, &r, &why);
    *ret = NO_IDENTITY;
    if (rc < 0 && postgres_store_is_unsupported(s)) {
        return 0; /* the engine lacks these functions, or access is denied */
    }
    if (rc < 0) {
        return tidings_fail(err, rc, "%s", why.text);
    }
    if (postgres_rows(r) == 1) {
        unsigned char digest[32];
        postgres_store_digest(postgres_str(r, 0, 0), digest);
        memcpy(ret, digest, sizeof *ret);
        *ret = (*ret & INT64_MAX) | 2; /* fits the column, and differs from all reserved values */
    }
    postgres_free(r);
    return 0;
}

static int observe_store(struct postgres_store *s, struct observed *l, struct tidings_error *err)
{
    struct pg_result *results[2];
    struct postgres_values v = {0};
    postgres_put_int(&v, INCARNATIONS_LOSSES_MAX);
    int rc = postgres_store_send(s, PG_STATE, NULL, err);
    rc = rc == 0 ? postgres_store_send(s, PG_DATA_LOSSES, &v, err) : rc;
    rc = rc == 0 ? postgres_end(s->db, err) : rc;
    rc = rc == 0 ? postgres_finish(s->db, 0, results, 2, err) : rc;
    if (rc < 0) {
        return rc;
    }
    rc = postgres_store_read_counters(s, results[0], &l->counters, err);
    if (rc == 0) {
        l->state.position = l->counters.position;
        l->state.recorded = (uint64_t)postgres_int(results[0], 0, 6);
        l->state.has_crash_mark = postgres_int(results[0], 0, 7) > 0;
    }
    int count = postgres_rows(results[1]);
    for (int i = 0; i < count && i < (int)INCARNATIONS_LOSSES_MAX; i++) {
        l->data_losses[count - 1 - i] = (struct data_loss){
            .kept = (uint64_t)postgres_int(results[1], i, 0),
            .began = (uint64_t)postgres_int(results[1], i, 1),
            .is_lossy = postgres_int(results[1], i, 2) != 0,
        };
    }
    l->state.cluster = s->cluster_id;
    l->state.data_losses = l->data_losses;
    l->state.data_loss_count = (size_t)count;
    postgres_free(results[0]);
    postgres_free(results[1]);
    return rc;
}

static int send_int(struct postgres_store *s, enum postgres_statement which, int64_t n,
                    struct tidings_error *err)
{
    struct postgres_values v = {0};
    postgres_put_int(&v, n);
    return postgres_store_send(s, which, &v, err);
}

/* Under the lock. `b` NULL: no data loss; only the server is recorded. */
static int write_down(struct postgres_store *s, const struct observed *l, const struct data_loss *b,
                      struct tidings_error *err)
{
    struct postgres_values counters = {0}, row = {0};
    const struct kept_record record = {
        .kind = LOG_ENTRY_DATA_LOSS,
        .position = b ? b->began : 0,
        .resource = {.modified_ms = b ? (int64_t)b->kept : 0, .size = b && b->is_lossy}};
    int rc = send_int(s, PG_SET_SERVER, (int64_t)l->state.server, err);
    rc = rc == 0 ? postgres_store_send(s, PG_SET_CRASH_MARK, NULL, err) : rc;
    if (b) {
        postgres_put_int(&row, (int64_t)b->began);
        postgres_put_int(&row, (int64_t)b->kept);
        postgres_put_int(&row, b->is_lossy);
        rc = rc == 0 ? postgres_store_send(s, PG_ADD_DATA_LOSS, &row, err) : rc;
        rc = rc == 0 ? postgres_store_log(s, &record, err) : rc;
        rc = rc == 0 ? send_int(s, PG_DROP_DATA_LOSSES, INCARNATIONS_LOSSES_MAX, err) : rc;
        postgres_put_int(&counters, (int64_t)b->began);
        postgres_put_int(&counters, (int64_t)l->counters.floor);
        postgres_put_int(&counters, (int64_t)l->counters.announced);
        postgres_put_int(&counters, l->counters.keys);
        postgres_put_int(&counters, l->counters.max_keys);
        rc = rc == 0 ? postgres_store_send(s, PG_SET_STATE, &counters, err) : rc;
    }
    rc = rc == 0 ? postgres_store_send(s, PG_COMMIT, NULL, err) : rc;
    rc = rc == 0 ? postgres_end(s->db, err) : rc;
    return rc == 0 ? postgres_finish(s->db, 0, NULL, 0, err) : rc;
}

static enum store_verdict check_server(struct postgres_store *s, const struct observed *l,
                                       struct data_loss *ret)
{
    uint64_t random = 0;
    if (l->state.recorded == 0) {
        return STORE_SAME; /* it is new; check_locked records it */
    }
    (void)!random_bytes(&random, sizeof random); /* on failure: the shortest jump */
    return incarnations_check(s->history->log ? s->history->log->incarnations : NULL, &l->state,
                              random, ret);
}

/* Takes the lock, and releases it at the end. */
static int check_locked(struct postgres_store *s, uint64_t server, struct tidings_error *err)
{
    struct observed l = {.state = {.server = server}};
    struct data_loss fresh;
    struct pg_result *r = NULL;
    int rc = postgres_store_send(s, PG_BEGIN, NULL, err);
    rc = rc == 0 ? postgres_ask(s->db, PG_LOCK, NULL, &r, err) : rc;
    s->now_ms = rc == 0 ? postgres_int(r, 0, 5) : s->now_ms;
    postgres_free(r);
    rc = rc == 0 ? observe_store(s, &l, err) : rc;
    if (rc < 0) {
        return rc;
    }
    enum store_verdict verdict = check_server(s, &l, &fresh);
    if (verdict == STORE_SAME) {
        return write_down(s, &l, NULL, err);
    }
    if (verdict == STORE_OTHER) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "%s: it belongs to another cluster: name the right one",
                            postgres_name(s->db));
    }
    log_warn(LOG_STORE,
             verdict == STORE_CRASHED ? "database crashed"
                                      : "database was replaced, or restored to an older state",
             KV("database", postgres_redacted_url(s->db)), KV("kept", fresh.kept),
             KV("position", fresh.began));
    return write_down(s, &l, &fresh, err);
}

int postgres_store_check_server(struct postgres_store *s, struct tidings_error *err)
{
    struct observed l = {.counters = {0}};
    struct data_loss unused;
    uint64_t server = 0;
    int rc = identify(s, &server, err);
    rc = rc == 0 ? observe_store(s, &l, err) : rc;
    l.state.server = s->history->server = server;
    if (rc < 0 || (l.state.recorded != 0 && check_server(s, &l, &unused) == STORE_SAME)) {
        return rc;
    }
    rc = check_locked(s, server, err);
    if (rc < 0 && postgres_is_connected(s->db)) {
        (void)postgres_exec(s->db, "ROLLBACK", NULL);
    }
    return rc;
}

/* ---------------------------------------------------------------------------------------------- */

struct incarnation {
    uint64_t epoch, last;
};

struct mapped_position {
    uint64_t number, position;
    uint64_t count; /* of consecutive changes */
};

struct incarnations {
    pthread_mutex_t lock;
    uint64_t cluster, first;
    uint64_t followed, followed_durable;
    size_t incarnation_count, incarnation_oldest; /* a ring */
    size_t data_loss_count;
    size_t position_count;
    uint64_t forgotten; /* `began` of the newest data loss that was evicted */
    uint64_t marked;    /* the highest position that has a number */
    struct incarnation incarnations[INCARNATIONS_MAX];
    struct data_loss data_losses[INCARNATIONS_LOSSES_MAX];
    struct mapped_position positions[INCARNATIONS_POSITIONS_MAX];
};

int incarnations_create(uint64_t cluster, uint64_t epoch, uint64_t first, struct incarnations **ret,
                        struct tidings_error *err)
{
    struct incarnations *r = mem_zalloc(sizeof(*r));
    if (!r) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    int errnum = pthread_mutex_init(&r->lock, NULL);
    if (errnum) {
        mem_free(r);
        return error_errno(err, errnum, "create lock");
    }
    r->cluster = cluster;
    r->first = r->marked = r->followed = r->followed_durable = first;
    incarnations_add(r, epoch, INCARNATION_LIVES);
    *ret = r;
    return 0;
}

void incarnations_destroy(struct incarnations *r)
{
    if (r) {
        pthread_mutex_destroy(&r->lock);
        mem_free(r);
    }
}

/* ---- what was read in the store -------------------------------------------------------------- */

static struct incarnation *incarnation_find(struct incarnations *r, uint64_t epoch)
{
    for (size_t i = 0; i < r->incarnation_count; i++) {
        if (r->incarnations[i].epoch == epoch) {
            return &r->incarnations[i];
        }
    }
    return NULL;
}

void incarnations_add(struct incarnations *r, uint64_t epoch, uint64_t last)
{
    pthread_mutex_lock(&r->lock);
    struct incarnation *incarnation = incarnation_find(r, epoch);
    if (!incarnation && r->incarnation_count < INCARNATIONS_MAX) {
        incarnation = &r->incarnations[r->incarnation_count++];
    } else if (!incarnation) {
        incarnation = &r->incarnations[r->incarnation_oldest];
        r->incarnation_oldest = (r->incarnation_oldest + 1) % INCARNATIONS_MAX;
    }
    *incarnation = (struct incarnation){epoch, last};
    pthread_mutex_unlock(&r->lock);
}

/* Returns true if the incarnation is known to have reached this position. Otherwise another node
 * may just have begun it, or marked it as ended although it lives: incarnations_resume rejects its
 * cursors until that is followed. */
static bool incarnations_know(struct incarnations *r, uint64_t epoch, uint64_t position)
{
    pthread_mutex_lock(&r->lock);
    const struct incarnation *incarnation = incarnation_find(r, epoch);
    bool is_known = incarnation && position <= incarnation->last;
    pthread_mutex_unlock(&r->lock);
    return is_known;
}

static bool incarnations_know_loss(const struct incarnations *r, uint64_t began)
{
    for (size_t i = 0; i < r->data_loss_count; i++) {
        if (r->data_losses[i].began == began) {
            return true;
        }
    }
    return began <= r->forgotten;
}

void incarnations_add_loss(struct incarnations *r, const struct data_loss *b)
{
    pthread_mutex_lock(&r->lock);
    if (!incarnations_know_loss(r, b->began)) {
        if (r->data_loss_count == INCARNATIONS_LOSSES_MAX) {
            r->forgotten = r->data_losses[0].began;
            memmove(r->data_losses, r->data_losses + 1,
                    --r->data_loss_count * sizeof(r->data_losses[0]));
        }
        size_t at = r->data_loss_count++;
        while (at > 0 && r->data_losses[at - 1].began > b->began) {
            r->data_losses[at] = r->data_losses[at - 1];
            at--;
        }
        r->data_losses[at] = *b;
    }
    pthread_mutex_unlock(&r->lock);
}

uint64_t incarnations_newest_loss(struct incarnations *r)
{
    pthread_mutex_lock(&r->lock);
    uint64_t began =
        r->data_loss_count > 0 ? r->data_losses[r->data_loss_count - 1].began : r->forgotten;
    pthread_mutex_unlock(&r->lock);
    return began;
}

void incarnations_follow(struct incarnations *r, uint64_t position, bool is_durable)
{
    pthread_mutex_lock(&r->lock);
    if (position > r->followed) {
        r->followed = position;
    }
    if (is_durable && position > r->followed_durable) {
        r->followed_durable = position;
    }
    pthread_mutex_unlock(&r->lock);
}

uint64_t incarnations_followed(struct incarnations *r)
{
    pthread_mutex_lock(&r->lock);
    uint64_t followed = r->followed;
    pthread_mutex_unlock(&r->lock);
    return followed;
}

bool incarnations_miss(struct incarnations *r, uint64_t floor)
{
    return incarnations_followed(r) < floor;
}

/* ---- cursors --------------------------------------------------------------------------------- */

/* Removes every second entry of the older half: old positions become less exact. */
static void positions_thin(struct incarnations *r)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->position_count; i += i < r->position_count / 2 ? 2 : 1) {
        r->positions[kept++] = r->positions[i];
    }
    r->position_count = kept;
}

/* A late position invalidates the entries above it. They are removed, and positions up to the
 * highest one are no longer accepted. */
static void positions_forget_from(struct incarnations *r, uint64_t position)
{
    while (r->position_count > 0) {
        struct mapped_position *newest = &r->positions[r->position_count - 1];
        if (newest->position >= position) {
            r->position_count--;
            continue;
        }
        if (newest->position + newest->count > position) {
            newest->count = position - newest->position;
        }
        break;
    }
}

void incarnations_map_position(struct incarnations *r, uint64_t number, uint64_t position)
{
    pthread_mutex_lock(&r->lock);
    struct mapped_position *newest =
        r->position_count > 0 ? &r->positions[r->position_count - 1] : NULL;
    if (position <= r->marked) {
        positions_forget_from(r, position);
    } else if (newest && newest->position + newest->count == position &&
               newest->number + newest->count == number) {
        newest->count++;
    } else {
        if (r->position_count == INCARNATIONS_POSITIONS_MAX) {
            positions_thin(r);
        }
        r->positions[r->position_count++] = (struct mapped_position){number, position, 1};
    }
    r->marked = position > r->marked ? position : r->marked;
    pthread_mutex_unlock(&r->lock);
}

/* Returns the number of the newest known change up to that position. */
static uint64_t number_of(const struct incarnations *r, uint64_t position)
{
    size_t low = 0, high = r->position_count; /* the first mark above it is in [low, high] */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->positions[middle].position <= position) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0) {
        return position < r->first ? position : r->first;
    }
    const struct mapped_position *m = &r->positions[low - 1];
    uint64_t beyond = position - m->position;
    return m->number + (beyond < m->count ? beyond : m->count - 1);
}

/* Returns true if everything announced up to this position is still valid. */
static bool incarnations_vouch(const struct incarnations *r, uint64_t position, bool is_durable)
{
    for (size_t i = r->data_loss_count; i-- > 0 && r->data_losses[i].began > position;) {
        if (!is_durable || r->data_losses[i].is_lossy || position > r->data_losses[i].kept) {
            return false;
        }
    }
    return position >= r->forgotten;
}

enum incarnations_answer incarnations_resume(struct incarnations *r, uint64_t epoch,
                                             uint64_t position, bool is_durable, uint64_t *ret)
{
    enum incarnations_answer answer = INCARNATIONS_REFUSED;
    pthread_mutex_lock(&r->lock);
    const struct incarnation *incarnation = incarnation_find(r, epoch);
    if (incarnation && position <= incarnation->last &&
        incarnations_vouch(r, position, is_durable)) {
        answer = position <= r->followed                            ? INCARNATIONS_GOOD
                 : position <= r->followed + INCARNATIONS_AHEAD_MAX ? INCARNATIONS_AHEAD
                                                                    : INCARNATIONS_REFUSED;
        *ret = number_of(r, position);
    }
    pthread_mutex_unlock(&r->lock);
    return answer;
}

/* ---- the state of the store ------------------------------------------------------------------ */

/* Returns true if durable changes that were followed here are lost. This includes losses that other
 * nodes recorded without knowing their extent. */
static bool has_lost_durable(const struct incarnations *r, const struct store_state *state)
{
    bool is_recorded = false, is_below = state->position < r->followed_durable;
    for (size_t i = 0; i < state->data_loss_count; i++) {
        const struct data_loss *b = &state->data_losses[i];
        if (b->began > r->followed && !incarnations_know_loss(r, b->began)) {
            is_recorded = is_recorded || b->is_lossy;
            is_below = is_below || b->kept < r->followed_durable;
        }
    }
    return is_below && !is_recorded;
}

static enum store_verdict store_check(const struct incarnations *r, const struct store_state *state)
{
    if (r && state->cluster != r->cluster) {
        return STORE_OTHER;
    }
    if (state->server != state->recorded) {
        return STORE_REPLACED;
    }
    if (r && has_lost_durable(r, state)) {
        return STORE_WENT_BACK;
    }
    if (!state->has_crash_mark) {
        return STORE_CRASHED;
    }
    return r && state->position < r->followed ? STORE_WENT_BACK : STORE_SAME;
}

enum store_verdict incarnations_check(struct incarnations *r, const struct store_state *state,
                                      uint64_t random, struct data_loss *ret)
{
    uint64_t highest = state->position;
    if (r) {
        pthread_mutex_lock(&r->lock);
        highest = r->followed > highest ? r->followed : highest;
    }
    enum store_verdict verdict = store_check(r, state);
    if (r) {
        pthread_mutex_unlock(&r->lock);
    }
    if (verdict == STORE_SAME || verdict == STORE_OTHER) {
        return verdict;
    }
    if (highest > INCARNATIONS_POSITION_MAX) {
        return STORE_OTHER;
    }
    *ret = (struct data_loss){
        .kept = state->position,
        .began = highest + INCARNATIONS_JUMP + random % INCARNATIONS_JUMP,
        .is_lossy = verdict != STORE_CRASHED,
    };
    return verdict;
}

/* -------------------------------------------------------------------------------------------------
 * The change log of a node with a database: an in-memory log that begins where this node began to
 * follow, plus the rules for cursors of other incarnations (cluster/history.h). The thread that
 * follows the database adds incarnations and data losses while others query the log. Both share the
 * reference-counted `incarnations`.
 */

static void postgres_log_unref(struct postgres_log *log)
{
    if (log && __atomic_sub_fetch(&log->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        incarnations_destroy(log->incarnations);
        mem_free(log);
    }
}

/* If this node has not reached the position, resumes at the newest number: the client receives some
 * changes twice and misses none.
 */
static bool postgres_log_resume(void *user, uint64_t epoch, uint64_t position, bool is_durable,
                                uint64_t *ret)
{
    const struct postgres_log *log = user;
    return incarnations_resume(log->incarnations, epoch, position, is_durable, ret) !=
           INCARNATIONS_REFUSED;
}

static bool postgres_log_knows(void *user, uint64_t epoch, uint64_t position)
{
    const struct postgres_log *log = user;
    return incarnations_know(log->incarnations, epoch, position);
}

/* Numbers up to the first one are positions already. */
static void postgres_log_appended(void *user, const struct change *change)
{
    const struct postgres_log *log = user;
    if (change->position > 0 && change->seq > log->first) {
        incarnations_map_position(log->incarnations, change->seq, change->position);
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

/* Oldest first. */
static int read_runs(struct postgres_store *s, struct incarnations *incarnations,
                     struct tidings_error *err)
{
    struct pg_result *r = NULL, *data_losses = NULL;
    int rc = postgres_store_ask_int(s, PG_INCARNATIONS, INCARNATIONS_MAX, &r, err);
    for (int i = postgres_rows(r); rc == 0 && i-- > 0;) {
        int64_t last = postgres_int(r, i, 1);
        incarnations_add(incarnations, (uint64_t)postgres_int(r, i, 0),
                         last < 0 ? INCARNATION_LIVES : (uint64_t)last);
    }
    rc = rc == 0
             ? postgres_store_ask_int(s, PG_DATA_LOSSES, INCARNATIONS_LOSSES_MAX, &data_losses, err)
             : rc;
    for (int i = postgres_rows(data_losses); rc == 0 && i-- > 0;) {
        const struct data_loss b = {
            .kept = (uint64_t)postgres_int(data_losses, i, 0),
            .began = (uint64_t)postgres_int(data_losses, i, 1),
            .is_lossy = postgres_int(data_losses, i, 2) != 0,
        };
        incarnations_add_loss(incarnations, &b);
    }
    postgres_free(r);
    postgres_free(data_losses);
    return rc;
}

/* ---- for follow.c --------------------------------------------------------------------------- */

int postgres_history_note(struct postgres_store *s, const struct log_entry *c,
                          struct tidings_error *err)
{
    if (!s->history->log) {
        return 0;
    }
    if (c->kind == LOG_ENTRY_INCARNATION) {
        incarnations_add(s->history->log->incarnations, (uint64_t)c->modified_ms,
                         c->size < 0 ? INCARNATION_LIVES : (uint64_t)c->size);
        s->history->is_incarnation_ended =
            s->history->is_incarnation_ended ||
            ((uint64_t)c->modified_ms == s->history->incarnation && c->size >= 0);
    } else if (c->kind == LOG_ENTRY_DATA_LOSS) {
        const struct data_loss b = {
            .kept = (uint64_t)c->modified_ms, .began = c->position, .is_lossy = c->size != 0};
        incarnations_add_loss(s->history->log->incarnations, &b);
        return b.is_lossy ? read_runs(s, s->history->log->incarnations, err) : 0;
    }
    return 0;
}

void postgres_history_follow(struct postgres_store *s, uint64_t position, bool is_durable)
{
    if (s->history->log) {
        incarnations_follow(s->history->log->incarnations, position, is_durable);
    }
}

uint64_t postgres_history_broken(const struct postgres_store *s)
{
    return s->history->log ? incarnations_newest_loss(s->history->log->incarnations) : 0;
}

bool postgres_history_must_revive(const struct postgres_store *s)
{
    return s->history->is_incarnation_ended;
}

uint64_t postgres_history_server(const struct postgres_store *s)
{
    return s->history->server;
}

uint64_t postgres_history_run(const struct postgres_store *s)
{
    return s->history->incarnation;
}

struct postgres_history *postgres_history_create(void)
{
    return mem_zalloc(sizeof(struct postgres_history));
}

void postgres_history_destroy(struct postgres_history *h)
{
    if (h) {
        postgres_log_unref(h->log);
        mem_free(h);
    }
}

/* ---- incarnations ---------------------------------------------------------------------------- */

static int send_two(struct postgres_store *s, enum postgres_statement which, uint64_t a, uint64_t b,
                    struct tidings_error *err)
{
    struct postgres_values v = {0};
    postgres_put_int(&v, (int64_t)a);
    postgres_put_int(&v, (int64_t)b);
    return postgres_store_send(s, which, &v, err);
}

/* `last` below 0: it lives. */
static int log_run(struct postgres_store *s, uint64_t epoch, int64_t last,
                   struct tidings_error *err)
{
    const struct kept_record record = {
        .kind = LOG_ENTRY_INCARNATION,
        .position = s->now.position,
        .resource = {.modified_ms = (int64_t)epoch, .size = last},
    };
    return postgres_store_log(s, &record, err);
}

/* Incarnations of dead nodes end at the newest position of the store. */
static int end_dead_runs(struct postgres_store *s, struct tidings_error *err)
{
    struct pg_result *r = NULL;
    int64_t last = (int64_t)s->now.position;
    int rc = postgres_store_ask(s, PG_DEAD_RUNS, NULL, &r, err);
    for (int i = 0; rc == 0 && i < postgres_rows(r); i++) {
        struct postgres_values v = {0};
        int64_t epoch = postgres_int(r, i, 0);
        postgres_put_int(&v, epoch);
        postgres_put_int(&v, last);
        postgres_put_int(&v, (int64_t)++s->now.position);
        rc = postgres_store_send(s, PG_END_DEAD_RUN, &v, err);
        rc = rc == 0 ? send_int(s, PG_UNLOG, postgres_int(r, i, 1), err) : rc;
        rc = rc == 0 ? log_run(s, (uint64_t)epoch, last, err) : rc;
    }
    postgres_free(r);
    return rc;
}

static int begin_incarnation(struct postgres_store *s, uint64_t epoch, struct tidings_error *err)
{
    struct postgres_values incarnation = {0}, most = {0};
    int rc = postgres_store_begin(&s->base, err);
    if (rc < 0) {
        return rc;
    }
    s->is_durable = true;
    rc = end_dead_runs(s, err);
    postgres_put_int(&incarnation, (int64_t)epoch);
    postgres_put_int(&incarnation, (int64_t)++s->now.position);
    postgres_put_int(&incarnation, POSTGRES_INCARNATION_MS);
    postgres_put_int(&most, INCARNATIONS_MAX);
    rc = rc == 0 ? postgres_store_send(s, PG_ADD_INCARNATION, &incarnation, err) : rc;
    rc = rc == 0 ? log_run(s, epoch, -1, err) : rc;
    rc = rc == 0 ? postgres_store_send(s, PG_DROP_INCARNATIONS, &most, err) : rc;
    if (rc < 0) {
        postgres_store_rollback(&s->base);
        return rc;
    }
    return postgres_store_commit(&s->base, err);
}

int postgres_store_keep_run(struct postgres_store *s, int64_t for_ms, struct tidings_error *err)
{
    struct pg_result *r = NULL;
    if (s->history->incarnation == 0) {
        return 0;
    }
    struct postgres_values v = {0}, revived = {0};
    postgres_put_int(&v, (int64_t)s->history->incarnation);
    postgres_put_int(&v, for_ms);
    int rc = postgres_store_ask(s, PG_KEEP_INCARNATION, &v, &r, err);
    bool lives = postgres_rows(r) == 1;
    postgres_free(r);
    if (rc < 0 || lives) {
        s->history->is_incarnation_ended = s->history->is_incarnation_ended && rc < 0;
        return rc;
    }
    /* Other nodes marked it as ended, or it was part of a data loss. */
    rc = postgres_store_begin(&s->base, err);
    if (rc < 0) {
        return rc;
    }
    s->is_durable = true;
    postgres_put_int(&revived, (int64_t)s->history->incarnation);
    postgres_put_int(&revived, (int64_t)++s->now.position);
    postgres_put_int(&revived, for_ms);
    rc = postgres_store_send(s, PG_REVIVE_INCARNATION, &revived, err);
    rc = rc == 0 ? log_run(s, s->history->incarnation, -1, err) : rc;
    if (rc < 0) {
        postgres_store_rollback(&s->base);
        return rc;
    }
    rc = postgres_store_commit(&s->base, err);
    s->history->is_incarnation_ended = s->history->is_incarnation_ended && rc < 0;
    return rc;
}

void postgres_store_end_run(struct postgres_store *s)
{
    if (s->history && s->history->incarnation != 0 && postgres_is_connected(s->db) &&
        send_two(s, PG_END_INCARNATION, s->history->incarnation, s->now.position, NULL) == 0 &&
        postgres_end(s->db, NULL) == 0) {
        (void)postgres_finish(s->db, 0, NULL, 0, NULL);
    }
}

/* ---- the log --------------------------------------------------------------------------------- */

/* Its numbers begin at the position that this node has followed to. Later changes of other nodes
 * are followed. */
int postgres_store_create_changelog(struct store *store, const struct changelog_limits *limits,
                                    struct changelog **ret, struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct postgres_log *shared = mem_zalloc(sizeof(*shared));
    struct changelog *log = NULL;
    postgres_store_release(s);
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
    rc = incarnations_create(s->cluster_id, epoch, shared->first, &shared->incarnations, err);
    rc = rc == 0 ? begin_incarnation(s, epoch, err) : rc;
    rc = rc == 0 ? read_runs(s, shared->incarnations, err) : rc;
    if (rc < 0) {
        log->ops->destroy(log);
        return rc;
    }
    incarnations_follow(shared->incarnations, s->followed,
                        s->followed == s->now.position); /* its own row */
    postgres_log_unref(s->history->log);
    __atomic_add_fetch(&shared->refs, 1, __ATOMIC_RELAXED);
    s->history->log = shared;
    s->history->incarnation = epoch;
    *ret = log;
    return 0;
}
