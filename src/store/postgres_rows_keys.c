/* SPDX-License-Identifier: MIT
 *
 * Idempotency keys, in PostgreSQL. Each has a number that rises, so that it is known which are
 * oldest whatever the clock says. They are counted only when there may be too many: `max_keys`, in
 * the row that is locked, rises with each that is put and is never less than there are. Those that
 * are too many go with the commit.
 */
#include <string.h>

#include "store/postgres_rows_private.h"

/* All that an owner has but the newest. */
static int postgres_drop_but(struct postgres_rows *s, struct tidings_str digest, int64_t newest,
                             struct tidings_error *err)
{
    struct postgres_values v = {0};
    postgres_put_str(&v, digest);
    postgres_put_int(&v, newest);
    return postgres_rows_send(s, PG_DROP_OLDER_KEYS, &v, err);
}

static struct tidings_str owner_digest(const struct postgres_rows *s)
{
    return tidings_strn((const char *)s->owner, sizeof s->owner);
}

int postgres_rows_put_key(struct entity_rows *rows, const struct entity_key *key,
                          struct tidings_error *err)
{
    struct postgres_rows *s = postgres_rows_of(rows);
    unsigned char owner[32];
    postgres_rows_release(s);
    postgres_rows_digest(key->owner, owner);
    int rc = postgres_rows_take_lock(s, err); /* which says how many there are */
    rc = rc == 0 && s->has_keys && memcmp(owner, s->owner, sizeof owner) != 0
             ? postgres_drop_but(s, owner_digest(s), ENTITY_KEYS_OF_ONE, err)
             : rc;
    memcpy(s->owner, owner, sizeof owner);
    s->has_keys = s->is_durable = true;
    s->newest_key_ms = key->at;
    s->now.keys++;
    s->now.max_keys++;
    struct postgres_values v = {0};
    postgres_put_str(&v, owner_digest(s));
    postgres_put_str(&v, key->key);
    postgres_put_int(&v, s->now.keys);
    postgres_put_int(&v, key->at);
    postgres_put_str(&v, key->digest);
    postgres_put_str(&v, key->text);
    return rc == 0 ? postgres_rows_send(s, PG_PUT_KEY, &v, err) : rc;
}

int postgres_rows_find_key(struct entity_rows *rows, struct tidings_str owner,
                           struct tidings_str key, struct entity_key *ret,
                           struct tidings_error *err)
{
    struct postgres_rows *s = postgres_rows_of(rows);
    unsigned char digest[32];
    struct postgres_values v = {0};
    postgres_rows_release(s);
    postgres_rows_digest(owner, digest);
    postgres_put_str(&v, tidings_strn((const char *)digest, sizeof digest));
    postgres_put_str(&v, key);
    int rc = postgres_rows_ask(s, PG_FIND_KEY, &v, &s->handed_out, err);
    if (rc < 0 || postgres_rows(s->handed_out) == 0) {
        return rc;
    }
    *ret = (struct entity_key){
        .owner = owner,
        .key = key,
        .at = postgres_int(s->handed_out, 0, 0),
        .digest = postgres_str(s->handed_out, 0, 1),
        .text = postgres_str(s->handed_out, 0, 2),
    };
    return 1;
}

static int postgres_drop_of_largest(struct postgres_rows *s, struct tidings_error *err)
{
    struct pg_result *r = NULL;
    int rc = postgres_rows_ask(s, PG_MOST_KEYS, NULL, &r, err);
    if (rc == 0 && postgres_rows(r) == 1) {
        int64_t count = postgres_int(r, 0, 1);
        rc = postgres_drop_but(s, postgres_str(r, 0, 0), count - ENTITY_KEYS_DROPPED(count), err);
    }
    postgres_free(r);
    return rc;
}

int postgres_rows_bound_keys(struct postgres_rows *s, struct tidings_error *err)
{
    struct postgres_values v = {0};
    postgres_put_int(&v, s->newest_key_ms - ENTITY_KEY_AGE_MS);
    int rc = postgres_rows_send(s, PG_DROP_AGED_KEYS, &v, err);
    rc = rc == 0 ? postgres_drop_but(s, owner_digest(s), ENTITY_KEYS_OF_ONE, err) : rc;
    while (rc == 0 && s->now.max_keys > (int64_t)ENTITY_KEYS) {
        struct pg_result *r = NULL;
        rc = postgres_rows_ask(s, PG_KEY_COUNT, NULL, &r, err);
        s->now.max_keys = rc == 0 ? postgres_int(r, 0, 0) : s->now.max_keys;
        postgres_free(r);
        rc = rc == 0 && s->now.max_keys > (int64_t)ENTITY_KEYS ? postgres_drop_of_largest(s, err)
                                                               : rc;
    }
    return rc;
}
