/* SPDX-License-Identifier: MIT
 *
 * Finding out whether the database lost what it had committed (a *break*, store/runs.h). Checked
 * whenever a connection was made: nothing of that kind happens while one stands. store/runs.h
 * decides; here it is read what that is decided from, and written down what was decided.
 *
 * The unlogged table `tidings_mark` has one row, unless the database crashed; which server it is,
 * and which of its timelines, is compared with what was recorded.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "store/postgres_rows_private.h"

#define NO_IDENTITY 1 /* of an engine that cannot say who it is */

struct observed {
    struct postgres_counters counters;
    struct store_state state;
    struct run_break breaks[RUNS_BREAKS_MAX];
};

bool postgres_rows_is_unsupported(const struct postgres_rows *s)
{
    const char *state = postgres_state(s->db);
    return postgres_is_connected(s->db) &&
           (strncmp(state, "42", 2) == 0 || strncmp(state, "0A", 2) == 0);
}

/* A number of the server and its timeline. */
static int identify(struct postgres_rows *s, uint64_t *ret, struct tidings_error *err)
{
    struct pg_result *r = NULL;
    struct tidings_error why = {0};
    int rc = postgres_ask(s->db, PG_SERVER, NULL, &r, &why);
    *ret = NO_IDENTITY;
    if (rc < 0 && postgres_rows_is_unsupported(s)) {
        return 0; /* it has no such functions, or they are not for us */
    }
    if (rc < 0) {
        return tidings_fail(err, rc, "%s", why.text);
    }
    if (postgres_rows(r) == 1) {
        unsigned char digest[32];
        postgres_rows_digest(postgres_str(r, 0, 0), digest);
        memcpy(ret, digest, sizeof *ret);
        *ret = (*ret & INT64_MAX) | 2; /* fits the column, and is none of the others */
    }
    postgres_free(r);
    return 0;
}

static int observe_store(struct postgres_rows *s, struct observed *l, struct tidings_error *err)
{
    struct pg_result *results[2];
    struct postgres_values v = {0};
    postgres_put_int(&v, RUNS_BREAKS_MAX);
    int rc = postgres_rows_send(s, PG_STATE, NULL, err);
    rc = rc == 0 ? postgres_rows_send(s, PG_BREAKS, &v, err) : rc;
    rc = rc == 0 ? postgres_end(s->db, err) : rc;
    rc = rc == 0 ? postgres_finish(s->db, 0, results, 2, err) : rc;
    if (rc < 0) {
        return rc;
    }
    rc = postgres_rows_read_counters(s, results[0], &l->counters, err);
    if (rc == 0) {
        l->state.position = l->counters.position;
        l->state.recorded = (uint64_t)postgres_int(results[0], 0, 6);
        l->state.has_mark = postgres_int(results[0], 0, 7) > 0;
    }
    int count = postgres_rows(results[1]);
    for (int i = 0; i < count && i < (int)RUNS_BREAKS_MAX; i++) {
        l->breaks[count - 1 - i] = (struct run_break){
            .kept = (uint64_t)postgres_int(results[1], i, 0),
            .began = (uint64_t)postgres_int(results[1], i, 1),
            .is_lossy = postgres_int(results[1], i, 2) != 0,
        };
    }
    l->state.cluster = s->cluster_id;
    l->state.breaks = l->breaks;
    l->state.break_count = (size_t)count;
    postgres_free(results[0]);
    postgres_free(results[1]);
    return rc;
}

static int send_int(struct postgres_rows *s, enum postgres_statement which, int64_t n,
                    struct tidings_error *err)
{
    struct postgres_values v = {0};
    postgres_put_int(&v, n);
    return postgres_rows_send(s, which, &v, err);
}

/* Under the lock. NULL: none; the server is recorded. */
static int write_down(struct postgres_rows *s, const struct observed *l, const struct run_break *b,
                      struct tidings_error *err)
{
    struct postgres_values counters = {0}, row = {0};
    int rc = send_int(s, PG_SET_SERVER, (int64_t)l->state.server, err);
    rc = rc == 0 ? postgres_rows_send(s, PG_SET_MARK, NULL, err) : rc;
    if (b) {
        postgres_put_int(&row, (int64_t)b->began);
        postgres_put_int(&row, (int64_t)b->kept);
        postgres_put_int(&row, b->is_lossy);
        rc = rc == 0 ? postgres_rows_send(s, PG_ADD_BREAK, &row, err) : rc;
        rc = rc == 0 ? send_int(s, PG_DROP_BREAKS, RUNS_BREAKS_MAX, err) : rc;
        postgres_put_int(&counters, (int64_t)b->began);
        postgres_put_int(&counters, (int64_t)l->counters.floor);
        postgres_put_int(&counters, (int64_t)l->counters.announced);
        postgres_put_int(&counters, l->counters.keys);
        postgres_put_int(&counters, l->counters.max_keys);
        rc = rc == 0 ? postgres_rows_send(s, PG_SET_STATE, &counters, err) : rc;
    }
    rc = rc == 0 ? postgres_rows_send(s, PG_COMMIT, NULL, err) : rc;
    rc = rc == 0 ? postgres_end(s->db, err) : rc;
    return rc == 0 ? postgres_finish(s->db, 0, NULL, 0, err) : rc;
}

static enum store_verdict judge_server(struct postgres_rows *s, const struct observed *l,
                                       struct run_break *ret)
{
    uint64_t random = 0;
    if (l->state.recorded == 0) {
        return STORE_SAME; /* it is new, and will be */
    }
    (void)!random_bytes(&random, sizeof random); /* without: the shortest jump */
    return runs_judge(s->log ? s->log->runs : NULL, &l->state, random, ret);
}

/* With the lock, which is let go of at the end. */
static int judge_locked(struct postgres_rows *s, uint64_t server, struct tidings_error *err)
{
    struct observed l = {.state = {.server = server}};
    struct run_break fresh;
    struct pg_result *r = NULL;
    int rc = postgres_rows_send(s, PG_BEGIN, NULL, err);
    rc = rc == 0 ? postgres_ask(s->db, PG_LOCK, NULL, &r, err) : rc;
    postgres_free(r);
    rc = rc == 0 ? observe_store(s, &l, err) : rc;
    if (rc < 0) {
        return rc;
    }
    enum store_verdict verdict = judge_server(s, &l, &fresh);
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

int postgres_rows_check_server(struct postgres_rows *s, struct tidings_error *err)
{
    struct observed l = {.counters = {0}};
    struct run_break unused;
    uint64_t server = 0;
    int rc = identify(s, &server, err);
    rc = rc == 0 ? observe_store(s, &l, err) : rc;
    l.state.server = s->server = server;
    if (rc < 0 || (l.state.recorded != 0 && judge_server(s, &l, &unused) == STORE_SAME)) {
        return rc;
    }
    rc = judge_locked(s, server, err);
    if (rc < 0 && postgres_is_connected(s->db)) {
        (void)postgres_exec(s->db, "ROLLBACK", NULL);
    }
    return rc;
}
