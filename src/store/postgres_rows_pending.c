/* SPDX-License-Identifier: MIT
 *
 * Versions of entities on their way to PostgreSQL: those of a batch are gathered and inserted by
 * one statement, with an array for each column. What the database does for a statement (messages, a
 * portal, the start and end of its executor) is then done once, not for each row.
 *
 * An entity is among them once, since a statement cannot make two rows current. Everything else of
 * the batch is sent after them, so that the database sees one order.
 */
#include "store/postgres_rows_private.h"

static const enum postgres_element kinds[POSTGRES_PENDING_COLUMNS] = {
    POSTGRES_TEXT, POSTGRES_INT8, POSTGRES_INT8, POSTGRES_TEXT, POSTGRES_TEXT,
    POSTGRES_TEXT, POSTGRES_INT8, POSTGRES_INT8, POSTGRES_INT8, POSTGRES_INT8,
    POSTGRES_INT8, POSTGRES_TEXT, POSTGRES_TEXT, POSTGRES_TEXT, POSTGRES_TEXT,
};

/* Of one array: all of them may be in one. */
#define COLUMN_BYTES (POSTGRES_PENDING_BYTES + 64u + 4u * POSTGRES_PENDING_MAX)

void postgres_pending_init(struct postgres_pending *p)
{
    for (size_t i = 0; i < POSTGRES_PENDING_COLUMNS; i++) {
        postgres_array_init(&p->columns[i], COLUMN_BYTES);
    }
}

void postgres_pending_deinit(struct postgres_pending *p)
{
    for (size_t i = 0; i < POSTGRES_PENDING_COLUMNS; i++) {
        postgres_array_deinit(&p->columns[i]);
    }
}

void postgres_pending_clear(struct postgres_pending *p)
{
    for (size_t i = 0; p->count > 0 && i < POSTGRES_PENDING_COLUMNS; i++) {
        postgres_array_clear(&p->columns[i]);
    }
    p->count = 0;
    p->bytes = 0;
}

int postgres_rows_send_pending(struct postgres_rows *s, struct tidings_error *err)
{
    struct postgres_pending *p = &s->pending;
    struct postgres_values v = {0};
    if (p->count == 0) {
        return 0;
    }
    for (size_t i = 0; i < POSTGRES_PENDING_COLUMNS; i++) {
        if (p->count == 1) {
            postgres_put_first(&v, &p->columns[i]);
        } else {
            postgres_put_array(&v, &p->columns[i]);
        }
    }
    int rc = postgres_send(s->db, p->count == 1 ? PG_PUT : PG_PUT_MANY, &v, err);
    postgres_pending_clear(p);
    return rc;
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

int postgres_rows_add_version(struct postgres_rows *s, const struct postgres_values *v,
                              struct tidings_error *err)
{
    struct postgres_pending *p = &s->pending;
    uint64_t hash = str_hash(tidings_strn(v->at[0], (size_t)v->lengths[0]), 0);
    size_t bytes = 0;
    for (int i = 0; i < POSTGRES_PENDING_COLUMNS; i++) {
        bytes += (size_t)v->lengths[i];
    }
    bool is_full = p->count == POSTGRES_PENDING_MAX || p->bytes + bytes > POSTGRES_PENDING_BYTES;
    int rc = is_full || pending_has(p, hash) ? postgres_rows_send_pending(s, err) : 0;
    if (rc < 0 || bytes > POSTGRES_PENDING_BYTES) {
        return rc < 0 ? rc : postgres_send(s->db, PG_PUT, v, err);
    }
    p->ids[p->count++] = hash;
    p->bytes += bytes;
    for (int i = 0; rc == 0 && i < POSTGRES_PENDING_COLUMNS; i++) {
        rc = postgres_array_add(&p->columns[i], kinds[i], v, i);
    }
    return rc < 0 ? tidings_fail(err, rc, "out of memory") : 0;
}
