/* SPDX-License-Identifier: MIT
 *
 * Runs, breaks and marks in three small arrays under one lock.
 *
 * Invariants: breaks ascend by `began`. A mark says of `count` positions in a row which numbers
 * they have; marks ascend in both. Everything with a position above a mark has a number above the
 * mark's, so any of them can be left out: the answer is lower then, and something is told twice.
 */
#include "store/runs.h"

#include <pthread.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

struct run {
    uint64_t epoch, last;
};

struct run_mark {
    uint64_t number, position;
    uint64_t count; /* of changes in a row */
};

struct runs {
    pthread_mutex_t lock;
    uint64_t cluster, first;
    uint64_t followed, followed_durable;
    size_t run_count, run_oldest; /* a ring */
    size_t break_count;
    size_t mark_count;
    uint64_t forgotten; /* `began` of the newest break that is not remembered */
    uint64_t marked;    /* the highest position that has a number */
    struct run runs[RUNS_MAX];
    struct run_break breaks[RUNS_BREAKS_MAX];
    struct run_mark marks[RUNS_MARKS];
};

int runs_create(uint64_t cluster, uint64_t epoch, uint64_t first, struct runs **ret,
                struct tidings_error *err)
{
    struct runs *r = mem_zalloc(sizeof(*r));
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
    runs_add(r, epoch, RUN_LIVES);
    *ret = r;
    return 0;
}

void runs_destroy(struct runs *r)
{
    if (r) {
        pthread_mutex_destroy(&r->lock);
        mem_free(r);
    }
}

/* ---- what was read in the store -------------------------------------------------------------- */

static struct run *run_find(struct runs *r, uint64_t epoch)
{
    for (size_t i = 0; i < r->run_count; i++) {
        if (r->runs[i].epoch == epoch) {
            return &r->runs[i];
        }
    }
    return NULL;
}

void runs_add(struct runs *r, uint64_t epoch, uint64_t last)
{
    pthread_mutex_lock(&r->lock);
    struct run *run = run_find(r, epoch);
    if (!run && r->run_count < RUNS_MAX) {
        run = &r->runs[r->run_count++];
    } else if (!run) {
        run = &r->runs[r->run_oldest];
        r->run_oldest = (r->run_oldest + 1) % RUNS_MAX;
    }
    *run = (struct run){epoch, last};
    pthread_mutex_unlock(&r->lock);
}

bool runs_knows(struct runs *r, uint64_t epoch, uint64_t position)
{
    pthread_mutex_lock(&r->lock);
    const struct run *run = run_find(r, epoch);
    bool is_known = run && position <= run->last;
    pthread_mutex_unlock(&r->lock);
    return is_known;
}

static bool runs_knows_break(const struct runs *r, uint64_t began)
{
    for (size_t i = 0; i < r->break_count; i++) {
        if (r->breaks[i].began == began) {
            return true;
        }
    }
    return began <= r->forgotten;
}

void runs_add_break(struct runs *r, const struct run_break *b)
{
    pthread_mutex_lock(&r->lock);
    if (!runs_knows_break(r, b->began)) {
        if (r->break_count == RUNS_BREAKS_MAX) {
            r->forgotten = r->breaks[0].began;
            memmove(r->breaks, r->breaks + 1, --r->break_count * sizeof(r->breaks[0]));
        }
        size_t at = r->break_count++;
        while (at > 0 && r->breaks[at - 1].began > b->began) {
            r->breaks[at] = r->breaks[at - 1];
            at--;
        }
        r->breaks[at] = *b;
    }
    pthread_mutex_unlock(&r->lock);
}

uint64_t runs_broken(struct runs *r)
{
    pthread_mutex_lock(&r->lock);
    uint64_t began = r->break_count > 0 ? r->breaks[r->break_count - 1].began : r->forgotten;
    pthread_mutex_unlock(&r->lock);
    return began;
}

void runs_follow(struct runs *r, uint64_t position, bool is_durable)
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

uint64_t runs_followed(struct runs *r)
{
    pthread_mutex_lock(&r->lock);
    uint64_t followed = r->followed;
    pthread_mutex_unlock(&r->lock);
    return followed;
}

bool runs_misses(struct runs *r, uint64_t floor)
{
    return runs_followed(r) < floor;
}

/* ---- cursors --------------------------------------------------------------------------------- */

/* Every second of the older half goes: what is old is known less exactly. */
static void marks_thin(struct runs *r)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->mark_count; i += i < r->mark_count / 2 ? 2 : 1) {
        r->marks[kept++] = r->marks[i];
    }
    r->mark_count = kept;
}

/* A position that comes late makes those above it say too much: they are forgotten, and those up to
 * the highest are not taken any more. */
static void marks_forget_from(struct runs *r, uint64_t position)
{
    while (r->mark_count > 0) {
        struct run_mark *newest = &r->marks[r->mark_count - 1];
        if (newest->position >= position) {
            r->mark_count--;
            continue;
        }
        if (newest->position + newest->count > position) {
            newest->count = position - newest->position;
        }
        break;
    }
}

void runs_mark(struct runs *r, uint64_t number, uint64_t position)
{
    pthread_mutex_lock(&r->lock);
    struct run_mark *newest = r->mark_count > 0 ? &r->marks[r->mark_count - 1] : NULL;
    if (position <= r->marked) {
        marks_forget_from(r, position);
    } else if (newest && newest->position + newest->count == position &&
               newest->number + newest->count == number) {
        newest->count++;
    } else {
        if (r->mark_count == RUNS_MARKS) {
            marks_thin(r);
        }
        r->marks[r->mark_count++] = (struct run_mark){number, position, 1};
    }
    r->marked = position > r->marked ? position : r->marked;
    pthread_mutex_unlock(&r->lock);
}

/* The number of the newest change up to that position, as far as known. */
static uint64_t number_of(const struct runs *r, uint64_t position)
{
    size_t low = 0, high = r->mark_count; /* the first mark above it is in [low, high] */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (r->marks[middle].position <= position) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0) {
        return position < r->first ? position : r->first;
    }
    const struct run_mark *m = &r->marks[low - 1];
    uint64_t beyond = position - m->position;
    return m->number + (beyond < m->count ? beyond : m->count - 1);
}

/* Is what was told up to this position still so? */
static bool runs_holds(const struct runs *r, uint64_t position, bool is_durable)
{
    for (size_t i = r->break_count; i-- > 0 && r->breaks[i].began > position;) {
        if (!is_durable || r->breaks[i].is_lossy || position > r->breaks[i].kept) {
            return false;
        }
    }
    return position >= r->forgotten;
}

enum runs_answer runs_resume(struct runs *r, uint64_t epoch, uint64_t position, bool is_durable,
                             uint64_t *ret)
{
    enum runs_answer answer = RUNS_REFUSED;
    pthread_mutex_lock(&r->lock);
    const struct run *run = run_find(r, epoch);
    if (run && position <= run->last && runs_holds(r, position, is_durable)) {
        answer = position <= r->followed                    ? RUNS_GOOD
                 : position <= r->followed + RUNS_AHEAD_MAX ? RUNS_AHEAD
                                                            : RUNS_REFUSED;
        *ret = number_of(r, position);
    }
    pthread_mutex_unlock(&r->lock);
    return answer;
}

/* ---- the state of the store ------------------------------------------------------------------ */

/* Is something durable gone that was followed here? Also when others found that the store went
 * back, and not how far. */
static bool has_lost_durable(const struct runs *r, const struct store_state *state)
{
    bool is_recorded = false, is_below = state->position < r->followed_durable;
    for (size_t i = 0; i < state->break_count; i++) {
        const struct run_break *b = &state->breaks[i];
        if (b->began > r->followed && !runs_knows_break(r, b->began)) {
            is_recorded = is_recorded || b->is_lossy;
            is_below = is_below || b->kept < r->followed_durable;
        }
    }
    return is_below && !is_recorded;
}

static enum store_verdict store_judge(const struct runs *r, const struct store_state *state)
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
    if (!state->has_mark) {
        return STORE_CRASHED;
    }
    return r && state->position < r->followed ? STORE_WENT_BACK : STORE_SAME;
}

enum store_verdict runs_judge(struct runs *r, const struct store_state *state, uint64_t random,
                              struct run_break *ret)
{
    uint64_t highest = state->position;
    if (r) {
        pthread_mutex_lock(&r->lock);
        highest = r->followed > highest ? r->followed : highest;
    }
    enum store_verdict verdict = store_judge(r, state);
    if (r) {
        pthread_mutex_unlock(&r->lock);
    }
    if (verdict == STORE_SAME || verdict == STORE_OTHER) {
        return verdict;
    }
    if (highest > RUNS_POSITION_MAX) {
        return STORE_OTHER;
    }
    *ret = (struct run_break){
        .kept = state->position,
        .began = highest + RUNS_JUMP + random % RUNS_JUMP,
        .is_lossy = verdict != STORE_CRASHED,
    };
    return verdict;
}
