/* SPDX-License-Identifier: MIT
 *
 * Idempotency keys, in SQLite. Each has a number that rises, so that it is known which are
 * oldest whatever the clock says. They are counted only when there may be too many: `max_keys`
 * rises with each that is put and is never less than there are.
 */
#include "base/str.h"
#include "store/sqlite_private.h"

static int drop_aged(struct sqlite_entities *s, int64_t now, struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_statement(s, DROP_AGED_KEYS, &st, err);
    if (rc < 0) {
        return rc;
    }
    sqlite_bind_int(st, 1, now - ENTITY_KEY_AGE_MS);
    return sqlite_run(s->db, st, err);
}

/* All that an owner has but the newest. */
static int drop_but(struct sqlite_entities *s, struct tidings_str owner, int64_t newest,
                    struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_statement(s, DROP_OLDER_KEYS, &st, err);
    if (rc < 0) {
        return rc;
    }
    sqlite_bind_str(st, 1, owner);
    sqlite_bind_int(st, 2, newest);
    return sqlite_run(s->db, st, err);
}

static int count_keys(struct sqlite_entities *s, struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_statement(s, KEY_COUNT, &st, err);
    rc = rc == 0 ? sqlite_step(s->db, st, err) : rc;
    if (rc == 1) {
        s->max_keys = (size_t)sqlite_int(st, 0);
    }
    if (st) {
        sqlite_reset(st);
    }
    return rc < 0 ? rc : 0;
}

static int drop_of_largest(struct sqlite_entities *s, struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_statement(s, MOST_KEYS, &st, err);
    rc = rc == 0 ? sqlite_step(s->db, st, err) : rc;
    if (rc == 1) {
        int64_t count = sqlite_int(st, 1);
        rc = drop_but(s, sqlite_str(st, 0), count - ENTITY_KEYS_DROPPED(count), err);
    }
    if (st) {
        sqlite_reset(st);
    }
    return rc;
}

int sqlite_entities_put_key(struct entity_rows *rows, const struct entity_key *key,
                            struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    sqlite_entities_release(s);
    struct sqlite3_stmt *put = NULL;
    int rc = sqlite_statement(s, PUT_KEY, &put, err);
    rc = rc == 0 ? sqlite_statement_run(s, COUNT_KEY, err) : rc;
    if (rc < 0) {
        return rc;
    }
    sqlite_bind_str(put, 1, key->owner);
    sqlite_bind_str(put, 2, key->key);
    sqlite_bind_int(put, 3, key->at);
    sqlite_bind_str(put, 4, key->digest);
    sqlite_bind_str(put, 5, key->text);
    rc = sqlite_run(s->db, put, err);
    rc = rc == 0 ? drop_aged(s, key->at, err) : rc;
    rc = rc == 0 ? drop_but(s, key->owner, ENTITY_KEYS_OF_ONE, err) : rc;
    bool is_known = s->max_keys > 0;
    s->max_keys++;
    rc = rc == 0 && (!is_known || s->max_keys > ENTITY_KEYS) ? count_keys(s, err) : rc;
    if (rc == 0 && s->max_keys > ENTITY_KEYS) { /* once: it adds one and drops as much at least */
        rc = drop_of_largest(s, err);
        rc = rc == 0 ? count_keys(s, err) : rc;
    }
    return rc;
}

int sqlite_entities_find_key(struct entity_rows *rows, struct tidings_str owner,
                             struct tidings_str key, struct entity_key *ret,
                             struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    sqlite_entities_release(s);
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_statement(s, FIND_KEY, &st, err);
    if (rc < 0) {
        return rc;
    }
    sqlite_bind_str(st, 1, owner);
    sqlite_bind_str(st, 2, key);
    rc = sqlite_step(s->db, st, err);
    if (rc == 1) {
        *ret = (struct entity_key){
            .owner = sqlite_str(st, 0),
            .key = sqlite_str(st, 1),
            .at = sqlite_int(st, 2),
            .digest = sqlite_str(st, 3),
            .text = sqlite_str(st, 4),
        };
        s->handed_out = st;
    } else {
        sqlite_reset(st);
    }
    return rc;
}
