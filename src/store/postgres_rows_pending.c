/* SPDX-License-Identifier: MIT
 *
 * Versions of entities and announcements on their way to PostgreSQL: those of a batch are gathered
 * and inserted by one statement, with an array for each column. What the database does for a
 * statement (messages, a portal, the start and end of its executor) is then done once, not for each
 * row. In a batch without the lock they go with the commit, in the same statement.
 *
 * An entity is among them once, since a statement cannot make two rows current. Everything else of
 * the batch is sent after them, so that the database sees one order.
 */
#include "store/postgres_rows_private.h"

#define T POSTGRES_TEXT
#define N POSTGRES_INT8
#define B POSTGRES_BYTEA
const struct postgres_pending_table postgres_pending_versions = {
    .columns = 15,
    .kinds = {T, N, N, T, T, T, N, N, N, N, N, T, T, T, T},
    .put = {PG_PUT, PG_PUT_MANY},
    .commit = {PG_COMMIT_PUT, PG_COMMIT_PUT_MANY},
};
const struct postgres_pending_table postgres_pending_announcements = {
    .columns = 14,
    .kinds = {N, N, N, N, N, N, B, B, B, B, B, B, B, N},
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

void postgres_pending_clear(struct postgres_pending *p)
{
    for (int i = 0; p->count > 0 && i < p->table->columns; i++) {
        postgres_array_clear(&p->columns[i]);
    }
    p->count = 0;
    p->bytes = 0;
}

void postgres_pending_put(struct postgres_pending *p, struct postgres_values *v)
{
    for (int i = 0; i < p->table->columns; i++) {
        if (p->count == 1) {
            postgres_put_first(v, &p->columns[i]);
        } else {
            postgres_put_array(v, &p->columns[i]);
        }
    }
}

static int pending_send(struct postgres_rows *s, struct postgres_pending *p,
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

int postgres_rows_send_pending(struct postgres_rows *s, struct tidings_error *err)
{
    int rc = postgres_rows_take_lock(s, err);
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

bool postgres_pending_may_have(const struct postgres_pending *p, const struct postgres_values *v)
{
    return pending_has(p, pending_hash(v));
}

void postgres_pending_drop_heads(const struct postgres_pending *p, struct heads *heads)
{
    struct tidings_str id;
    for (size_t at = 0; p->count > 0 && postgres_array_next(&p->columns[0], &at, &id);) {
        heads_drop(heads, id);
    }
}

int postgres_rows_add_pending(struct postgres_rows *s, struct postgres_pending *p,
                              const struct postgres_values *v, struct tidings_error *err)
{
    uint64_t hash = pending_hash(v);
    size_t bytes = 0;
    for (int i = 0; i < p->table->columns; i++) {
        bytes += (size_t)v->lengths[i];
    }
    bool is_full = p->count == POSTGRES_PENDING_MAX || p->bytes + bytes > POSTGRES_PENDING_BYTES;
    int rc = is_full || pending_has(p, hash) ? postgres_rows_send_pending(s, err) : 0;
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
