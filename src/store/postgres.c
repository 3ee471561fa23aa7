/* SPDX-License-Identifier: MIT
 *
 * Statements in a pipeline to PostgreSQL: sending never waits, reading waits for as long as bytes
 * come and go.
 */
#include "store/postgres.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/postgres_private.h"

static const struct postgres_library *pq(void)
{
    return postgres_loaded_library();
}

/* ---- parameters and rows --------------------------------------------------------------------- */

static void postgres_put(struct postgres_values *v, const void *at, size_t len)
{
    v->at[v->count] = at;
    v->lengths[v->count] = (int)len;
    v->formats[v->count++] = 1;
}

void postgres_put_int(struct postgres_values *v, int64_t n)
{
    unsigned char *out = v->numbers[v->count];
    for (int i = 0; i < 8; i++) {
        out[i] = (unsigned char)((uint64_t)n >> (56 - 8 * i));
    }
    postgres_put(v, out, 8);
}

void postgres_put_str(struct postgres_values *v, struct tidings_str s)
{
    postgres_put(v, s.len > 0 ? s.ptr : "", s.len);
}

void postgres_put_null(struct postgres_values *v)
{
    postgres_put(v, NULL, 0);
}

/* Dimensions, whether there are NULLs, the type of elements, their number, the first index; then
 * each element as its length and its bytes. */
#define ARRAY_HEAD 20u
#define ARRAY_COUNT_AT 12u

static void postgres_write_u32(char *at, uint32_t n)
{
    for (int i = 0; i < 4; i++) {
        at[i] = (char)(n >> (24 - 8 * i));
    }
}

void postgres_array_init(struct postgres_array *a, size_t max_bytes)
{
    buf_init(&a->bytes, max_bytes);
    a->count = 0;
}

void postgres_array_deinit(struct postgres_array *a)
{
    buf_deinit(&a->bytes);
}

void postgres_array_clear(struct postgres_array *a)
{
    buf_clear(&a->bytes);
    a->count = 0;
}

int postgres_array_add(struct postgres_array *a, enum postgres_element kind,
                       const struct postgres_values *v, int index)
{
    char head[ARRAY_HEAD] = {0}, len[4];
    size_t before = a->bytes.len;
    if (a->count == 0) {
        postgres_write_u32(head, 1);
        postgres_write_u32(head + 8, kind);
        postgres_write_u32(head + 16, 1);
        buf_put(&a->bytes, head, sizeof head);
    }
    postgres_write_u32(len, (uint32_t)v->lengths[index]);
    buf_put(&a->bytes, len, sizeof len);
    int rc = buf_put(&a->bytes, v->at[index], (size_t)v->lengths[index]);
    a->count += rc == 0;
    a->bytes.len = rc == 0 ? a->bytes.len : before; /* no half of an element is left */
    return rc;
}

bool postgres_array_next(const struct postgres_array *a, size_t *at, struct tidings_str *ret)
{
    *at = *at == 0 ? ARRAY_HEAD : *at;
    if (*at >= a->bytes.len) {
        return false;
    }
    const unsigned char *len = (const unsigned char *)a->bytes.ptr + *at;
    *ret = tidings_strn((const char *)len + 4,
                        (size_t)len[0] << 24 | (size_t)len[1] << 16 | (size_t)len[2] << 8 | len[3]);
    *at += 4 + ret->len;
    return true;
}

void postgres_put_first(struct postgres_values *v, const struct postgres_array *a)
{
    struct tidings_str first = STR_EMPTY;
    size_t at = 0;
    (void)postgres_array_next(a, &at, &first);
    postgres_put_str(v, first);
}

void postgres_put_array(struct postgres_values *v, struct postgres_array *a)
{
    postgres_write_u32(a->bytes.ptr + ARRAY_COUNT_AT, a->count);
    postgres_put(v, a->bytes.ptr, a->bytes.len);
}

void postgres_free(struct pg_result *r)
{
    if (r) {
        pq()->clear(r);
    }
}

int postgres_rows(struct pg_result *r)
{
    return r ? pq()->ntuples(r) : 0;
}

int64_t postgres_int(struct pg_result *r, int row, int column)
{
    const unsigned char *at = (const unsigned char *)pq()->getvalue(r, row, column);
    int len = pq()->getlength(r, row, column);
    uint64_t n = len > 0 && len < 8 && (at[0] & 0x80) != 0 ? UINT64_MAX : 0;
    for (int i = 0; i < len && i < 8; i++) {
        n = (n << 8) | at[i];
    }
    return (int64_t)n;
}

struct tidings_str postgres_str(struct pg_result *r, int row, int column)
{
    return tidings_strn(pq()->getvalue(r, row, column), (size_t)pq()->getlength(r, row, column));
}

/* ---- sending --------------------------------------------------------------------------------- */

static int postgres_sent(struct postgres *c, int is_sent, struct tidings_error *err)
{
    c->has_unsent = true;
    return is_sent == 1 ? 0 : postgres_failed(c, NULL, err);
}

static int postgres_fail_unreachable(const struct postgres *c, struct tidings_error *err)
{
    return tidings_fail(err, TIDINGS_E_BUSY, "%s",
                        c->why.code != 0 ? c->why.text : "the connection is lost");
}

struct statement_name {
    char text[32];
};

static int postgres_prepare(struct postgres *c, int statement, struct statement_name *ret,
                            struct tidings_error *err)
{
    if (!c->conn) {
        return postgres_fail_unreachable(c, err);
    }
    (void)snprintf(ret->text, sizeof ret->text, "tidings_%d_%u", statement,
                   c->prepared[statement].name);
    if (c->prepared[statement].since > 0) {
        return 0;
    }
    int rc = postgres_sent(
        c, pq()->sendPrepare(c->conn, ret->text, c->statements[statement], 0, NULL), err);
    if (rc == 0) {
        c->prepared[statement].since = c->ended + 1;
    }
    return rc;
}

/* What was prepared in the part that fails, or after it, may be there or not. */
static void postgres_forget_prepared(struct postgres *c)
{
    for (size_t i = 0; i < POSTGRES_MAX_STATEMENTS; i++) {
        if (c->prepared[i].since > c->waited) {
            c->prepared[i].since = 0;
            c->prepared[i].name++;
        }
    }
}

int postgres_send(struct postgres *c, int statement, const struct postgres_values *values,
                  struct tidings_error *err)
{
    static const struct postgres_values none;
    const struct postgres_values *v = values ? values : &none;
    struct statement_name name;
    int rc = postgres_prepare(c, statement, &name, err);
    return rc < 0 ? rc
                  : postgres_sent(c,
                                  pq()->sendQueryPrepared(c->conn, name.text, v->count, v->at,
                                                          v->lengths, v->formats, 1),
                                  err);
}

/* SQL that is used once. */
static int postgres_send_text(struct postgres *c, const char *sql, struct tidings_error *err)
{
    if (!c->conn) {
        return postgres_fail_unreachable(c, err);
    }
    return postgres_sent(c, pq()->sendQueryParams(c->conn, sql, 0, NULL, NULL, NULL, NULL, 1), err);
}

int postgres_end(struct postgres *c, struct tidings_error *err)
{
    if (!c->conn) {
        return postgres_fail_unreachable(c, err);
    }
    if (pq()->pipelineSync(c->conn) != 1) {
        return postgres_failed(c, NULL, err);
    }
    c->has_unsent = false;
    c->ended++;
    return pq()->flush(c->conn) < 0 ? postgres_failed(c, NULL, err) : 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The next result of libpq's (NULL is one of its). Without the connection what was read before it
 * broke comes yet, among it why. */
static int postgres_next(struct postgres *c, PGresult **ret, struct tidings_error *err)
{
    uint64_t until = clock_monotonic_ms() + POSTGRES_DEADLINE_MS;
    for (;;) {
        int unflushed = c->is_lost ? 0 : pq()->flush(c->conn);
        if (c->is_lost || !pq()->isBusy(c->conn)) {
            *ret = pq()->getResult(c->conn);
            return 0;
        }
        bool is_readable = false;
        if (postgres_wait(c, unflushed > 0, until, &is_readable) == 0) {
            int rc = tidings_fail(err, TIDINGS_E_BUSY, "%s: it does not answer", postgres_name(c));
            c->state[0] = '\0';
            postgres_drop(c);
            return rc;
        }
        c->is_lost = is_readable && !pq()->consumeInput(c->conn);
        until = clock_monotonic_ms() + POSTGRES_DEADLINE_MS;
    }
}

static void postgres_note_tag(struct postgres *c, PGresult *r)
{
    (void)snprintf(c->tag, sizeof c->tag, "%s", pq()->cmdStatus(r));
}

/* Results up to the next end. 0, or the first failure. */
static int postgres_read_part(struct postgres *c, struct pg_result **results, size_t count,
                              struct tidings_error *err)
{
    unsigned nothing = 0; /* in a row: after a loss there is no end to wait for */
    int failed = 0;
    for (size_t n = 0;;) {
        PGresult *r = NULL;
        int rc = postgres_next(c, &r, failed < 0 ? NULL : err);
        if (rc < 0) {
            return failed < 0 ? failed : rc;
        }
        nothing = r ? 0 : nothing + 1;
        if (!r && c->is_lost && nothing > 1) {
            rc = postgres_failed(c, NULL, failed < 0 ? NULL : err);
            return failed < 0 ? failed : rc;
        }
        switch (r ? (int)pq()->resultStatus(r) : (int)PGRES_EMPTY_QUERY) {
        case PGRES_PIPELINE_SYNC:
            pq()->clear(r);
            c->waited++;
            return failed;
        case PGRES_TUPLES_OK:
            postgres_note_tag(c, r);
            if (n < count) {
                results[n++] = r;
                r = NULL;
            }
            break;
        case PGRES_COMMAND_OK:
            postgres_note_tag(c, r);
            break;
        case PGRES_FATAL_ERROR:
        case PGRES_BAD_RESPONSE:
            if (failed == 0) {
                postgres_forget_prepared(c);
                failed = postgres_failed(c, r, err);
            }
            if (!c->conn) {
                pq()->clear(r);
                return failed;
            }
            break;
        default:
            break;
        }
        pq()->clear(r);
    }
}

int postgres_finish(struct postgres *c, unsigned leave, struct pg_result **results, size_t count,
                    struct tidings_error *err)
{
    for (size_t i = 0; i < count; i++) {
        results[i] = NULL;
    }
    c->tag[0] = '\0';
    int rc = c->conn ? 0 : postgres_fail_unreachable(c, err);
    while (c->ended - c->waited > leave) {
        bool is_last = c->ended - c->waited == leave + 1;
        c->tag[0] = '\0';
        rc = postgres_read_part(c, results, is_last ? count : 0, err);
        if (!c->conn) {
            break;
        }
    }
    for (size_t i = 0; rc < 0 && i < count; i++) {
        postgres_free(results[i]);
        results[i] = NULL;
    }
    return rc;
}

const char *postgres_tag(const struct postgres *c)
{
    return c->tag;
}

int postgres_ask(struct postgres *c, int statement, const struct postgres_values *values,
                 struct pg_result **ret, struct tidings_error *err)
{
    int rc = postgres_send(c, statement, values, err);
    rc = rc == 0 ? postgres_end(c, err) : rc;
    return rc == 0 ? postgres_finish(c, 0, ret, ret ? 1 : 0, err) : rc;
}

int postgres_exec(struct postgres *c, const char *sql, struct tidings_error *err)
{
    int rc = 0;
    while (rc == 0 && *sql != '\0') {
        const char *end = strchr(sql, ';');
        size_t len = end ? (size_t)(end - sql) : strlen(sql);
        char *one = str_dup(tidings_strn(sql, len));
        rc = one ? postgres_send_text(c, one, err)
                 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
        mem_free(one);
        sql += len + (end ? 1 : 0);
    }
    rc = rc == 0 ? postgres_end(c, err) : rc;
    return rc == 0 ? postgres_finish(c, 0, NULL, 0, err) : rc;
}

/* Rows come one by one; the last result has none and says how it ended. */
static int postgres_read_rows(struct postgres *c, postgres_row_fn fn, void *user,
                              struct tidings_error *err)
{
    int stopped = 0, failed = 0;
    for (;;) {
        PGresult *r = NULL;
        int rc = postgres_next(c, &r, stopped < 0 ? NULL : err);
        if (rc < 0) {
            return stopped < 0 ? stopped : rc;
        }
        if (!r && c->is_lost) {
            rc = postgres_failed(c, NULL, stopped < 0 ? NULL : err);
            return stopped < 0 ? stopped : rc;
        }
        ExecStatusType status = r ? pq()->resultStatus(r) : PGRES_EMPTY_QUERY;
        if (status == PGRES_PIPELINE_SYNC) {
            pq()->clear(r);
            c->waited++;
            return stopped < 0 ? stopped : failed;
        }
        if (status == PGRES_SINGLE_TUPLE && stopped == 0) {
            stopped = fn(user, r, err);
            stopped = stopped < 0 ? stopped : 0;
        } else if (status == PGRES_FATAL_ERROR && failed == 0) {
            failed = postgres_failed(c, r, stopped < 0 ? NULL : err);
            if (!c->conn) {
                pq()->clear(r);
                return stopped < 0 ? stopped : failed;
            }
        }
        pq()->clear(r);
    }
}

int postgres_each(struct postgres *c, int statement, const struct postgres_values *values,
                  postgres_row_fn fn, void *user, struct tidings_error *err)
{
    struct statement_name name;
    int rc = postgres_prepare(c, statement, &name, err);
    rc = rc == 0 && c->has_unsent ? postgres_end(c, err) : rc;
    rc = rc == 0 ? postgres_finish(c, 0, NULL, 0, err) : rc;
    rc = rc == 0 ? postgres_send(c, statement, values, err) : rc;
    rc = rc == 0 ? postgres_end(c, err) : rc;
    if (rc < 0) {
        return rc;
    }
    (void)pq()->setSingleRowMode(c->conn);
    return postgres_read_rows(c, fn, user, err);
}

/* ---- notifications --------------------------------------------------------------------------- */

int postgres_descriptor(const struct postgres *c)
{
    return c->phase == POSTGRES_CONNECTED ? pq()->socket(c->conn) : -1;
}

/* Results of ends that nobody waits for, as far as they have arrived: libpq reads nothing that
 * comes after them, notifications neither. */
static void postgres_take_unwaited(struct postgres *c)
{
    unsigned nothing = 0; /* in a row: there is one between two statements */
    while (c->ended > c->waited && nothing < 2 && !pq()->isBusy(c->conn)) {
        PGresult *r = pq()->getResult(c->conn);
        nothing = r ? 0 : nothing + 1;
        switch (r ? (int)pq()->resultStatus(r) : (int)PGRES_EMPTY_QUERY) {
        case PGRES_PIPELINE_SYNC:
            c->waited++;
            break;
        case PGRES_FATAL_ERROR:
        case PGRES_BAD_RESPONSE:
            postgres_forget_prepared(c);
            break;
        default:
            break;
        }
        pq()->clear(r);
    }
}

int postgres_notified(struct postgres *c, postgres_notified_fn fn, void *user)
{
    if (c->phase != POSTGRES_CONNECTED || !pq()->consumeInput(c->conn)) {
        postgres_drop(c);
        return TIDINGS_E_BUSY;
    }
    postgres_take_unwaited(c);
    int own = pq()->backendPID(c->conn);
    for (PGnotify *n; (n = pq()->notifies(c->conn)) != NULL;) {
        if (n->be_pid != own) {
            fn(user, tidings_str(n->extra));
        }
        pq()->freemem(n);
    }
    return 0;
}
