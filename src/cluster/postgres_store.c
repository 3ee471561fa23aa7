/* SPDX-License-Identifier: MIT
 *
 * Versions of entities in PostgreSQL: reads and writes, and the life of the store.
 *
 * Writes of a batch go into the pipeline, and only the commit waits for them. Current versions that
 * this node wrote last are in the cache of heads. The cache is valid inside a batch, because all
 * changes of other nodes were followed under the lock.
 */
#include "cluster/postgres_store.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/time.h"
#include "cluster/postgres_internal.h"
#include "store/entities.h"
#include "store/store.h"

/* -------------------------------------------------------------------------------------------------
 * Idempotency keys in PostgreSQL. Each has an ascending number, so the oldest are known regardless
 * of clocks. Keys are counted only if there may be too many: `max_keys`, in the locked row,
 * increases with each added key and is an upper bound of their number. The commit removes excess
 * keys.
 */

/* Removes all keys of an owner but the newest. */
static int postgres_drop_but(struct postgres_store *s, struct tidings_str digest, int64_t newest,
                             struct tidings_error *err)
{
    struct postgres_values v = {0};
    postgres_put_str(&v, digest);
    postgres_put_int(&v, newest);
    return postgres_store_send(s, PG_DROP_OLDER_KEYS, &v, err);
}

static struct tidings_str owner_digest(const struct postgres_store *s)
{
    return tidings_strn((const char *)s->owner, sizeof s->owner);
}

static int postgres_store_put_key(struct store *store, const struct entity_key *key,
                                  struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    unsigned char owner[32];
    postgres_store_release(s);
    postgres_store_digest(key->owner, owner);
    int rc = postgres_store_take_lock(s, err); /* which returns their number */
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
    return rc == 0 ? postgres_store_send(s, PG_PUT_KEY, &v, err) : rc;
}

static int postgres_store_find_key(struct store *store, struct tidings_str owner,
                                   struct tidings_str key, struct entity_key *ret,
                                   struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    unsigned char digest[32];
    struct postgres_values v = {0};
    postgres_store_release(s);
    postgres_store_digest(owner, digest);
    postgres_put_str(&v, tidings_strn((const char *)digest, sizeof digest));
    postgres_put_str(&v, key);
    int rc = postgres_store_ask(s, PG_FIND_KEY, &v, &s->handed_out, err);
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

static int postgres_drop_of_largest(struct postgres_store *s, struct tidings_error *err)
{
    struct pg_result *r = NULL;
    int rc = postgres_store_ask(s, PG_MOST_KEYS, NULL, &r, err);
    if (rc == 0 && postgres_rows(r) == 1) {
        int64_t count = postgres_int(r, 0, 1);
        rc = postgres_drop_but(s, postgres_str(r, 0, 0), count - ENTITY_KEYS_DROPPED(count), err);
    }
    postgres_free(r);
    return rc;
}

int postgres_store_bound_keys(struct postgres_store *s, struct tidings_error *err)
{
    struct postgres_values v = {0};
    postgres_put_int(&v, s->newest_key_ms - ENTITY_KEY_AGE_MS);
    int rc = postgres_store_send(s, PG_DROP_AGED_KEYS, &v, err);
    rc = rc == 0 ? postgres_drop_but(s, owner_digest(s), ENTITY_KEYS_OF_ONE, err) : rc;
    while (rc == 0 && s->now.max_keys > (int64_t)ENTITY_KEYS) {
        struct pg_result *r = NULL;
        rc = postgres_store_ask(s, PG_KEY_COUNT, NULL, &r, err);
        s->now.max_keys = rc == 0 ? postgres_int(r, 0, 0) : s->now.max_keys;
        postgres_free(r);
        rc = rc == 0 && s->now.max_keys > (int64_t)ENTITY_KEYS ? postgres_drop_of_largest(s, err)
                                                               : rc;
    }
    return rc;
}

/* -------------------------------------------------------------------------------------------------
 * Published resources in PostgreSQL: one row per URI, which gets a new position with each change. A
 * digest of the URI is the key, because an index cannot hold the longest ones.
 */

#define FORGET_EVERY 256u /* removals between two checks of the retention limit */

int postgres_store_write_published(struct postgres_store *s, const struct published_row *row,
                                   const struct tidings_str *content, struct tidings_error *err)
{
    const struct tidings_resource *about = &row->about;
    const struct tidings_str texts[] = {about->name,      about->title, about->description,
                                        about->mime_type, about->icons, about->audience,
                                        about->meta,      row->metadata};
    unsigned char digest[32];
    struct postgres_values v = {0};
    postgres_store_release(s);
    postgres_store_digest(about->uri, digest);
    postgres_put_str(&v, tidings_strn((const char *)digest, sizeof digest));
    postgres_put_str(&v, about->uri);
    postgres_put_int(&v, (int64_t)++s->now.position);
    postgres_put_int(&v, row->created);
    postgres_put_str(&v, about->etag);
    postgres_put_int(&v, about->size);
    postgres_put_int(&v, about->modified_ms);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        postgres_put_str(&v, texts[i]);
    }
    postgres_put_int(&v, resource_priority_bits(about));
    postgres_put_int(&v, !about->not_subscribable);
    postgres_put_int(&v, s->now_ms);
    if (content) {
        postgres_put_str(&v, *content);
    } else {
        postgres_put_null(&v);
    }
    s->is_durable = true;
    int rc = postgres_store_send(s, PG_PUBLISH, &v, err);
    const struct kept_record record = {
        .kind = LOG_ENTRY_PUBLISHED,
        .position = s->now.position,
        .at_ms = s->now_ms,
        .resource = {.uri = about->uri,
                     .kind = !content       ? TIDINGS_CHANGE_DELETED
                             : row->created ? TIDINGS_CHANGE_CREATED
                                            : TIDINGS_CHANGE_UPDATED,
                     .etag = about->etag,
                     .metadata = row->metadata,
                     .modified_ms = about->modified_ms,
                     .size = about->size,
                     .not_subscribable = about->not_subscribable},
    };
    return rc == 0 ? postgres_store_log(s, &record, err) : rc;
}

static int postgres_store_publish(struct store *store, const struct published_row *row,
                                  uint64_t *ret_position, struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    if (row->content.len > PUBLISHED_MAX_CONTENT) {
        return tidings_fail(err, TIDINGS_E_LIMIT, "content has at most %u bytes",
                            PUBLISHED_MAX_CONTENT);
    }
    int rc = postgres_store_write_published(s, row, &row->content, err);
    *ret_position = s->now.position;
    return rc;
}

/* Only the newest removals are retained. Clients with older cursors must resync. */
static int postgres_forget_removed(struct postgres_store *s, struct tidings_error *err)
{
    struct pg_result *r = NULL;
    int rc = postgres_store_ask_int(s, PG_OLD_REMOVED, PUBLISHED_MAX_REMOVED, &r, err);
    if (rc == 0 && postgres_rows(r) == 1) {
        uint64_t oldest = (uint64_t)postgres_int(r, 0, 0);
        struct postgres_values v = {0};
        postgres_put_int(&v, (int64_t)oldest);
        rc = postgres_store_send(s, PG_FORGET_REMOVED, &v, err);
        s->now.floor = s->now.floor > oldest ? s->now.floor : oldest;
    }
    postgres_free(r);
    return rc;
}

static int postgres_store_unpublish(struct store *store, const struct published_row *gone,
                                    uint64_t *ret_position, struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    const struct tidings_resource *about = &gone->about;
    const struct published_row row = {
        .about = {.uri = about->uri, .not_subscribable = about->not_subscribable},
        .metadata = gone->metadata,
    };
    int rc = postgres_store_write_published(s, &row, NULL, err);
    *ret_position = s->now.position;
    return rc == 0 && ++s->n_removed % FORGET_EVERY == 0 ? postgres_forget_removed(s, err) : rc;
}

void postgres_store_read_published(struct pg_result *r, int row, struct published_row *ret)
{
    *ret = (struct published_row){
        .about =
            {
                .uri = postgres_str(r, row, 1),
                .etag = postgres_str(r, row, 2),
                .size = postgres_int(r, row, 3),
                .has_size = true,
                .modified_ms = postgres_int(r, row, 4),
                .name = postgres_str(r, row, 5),
                .title = postgres_str(r, row, 6),
                .description = postgres_str(r, row, 7),
                .mime_type = postgres_str(r, row, 8),
                .icons = postgres_str(r, row, 9),
                .audience = postgres_str(r, row, 10),
                .meta = postgres_str(r, row, 11),
                .not_subscribable = postgres_int(r, row, 14) == 0,
            },
        .metadata = postgres_str(r, row, 12),
        .created = postgres_int(r, row, 15) != 0,
        .content = postgres_str(r, row, 16),
    };
    resource_set_priority_bits(&ret->about, postgres_int(r, row, 13));
}

/* ---- all of them ----------------------------------------------------------------------------- */

struct reading {
    published_row_fn fn;
    void *user;
    int64_t after;
    unsigned count;
};

static int postgres_read_published(void *user, struct pg_result *r, struct tidings_error *err)
{
    struct reading *reading = user;
    struct published_row row;
    postgres_store_read_published(r, 0, &row);
    reading->after = postgres_int(r, 0, 0);
    reading->count++;
    return reading->fn(reading->user, &row, err);
}

static int postgres_store_each_published(struct store *store, published_row_fn fn, void *user,
                                         struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct reading reading = {.fn = fn, .user = user};
    postgres_store_release(s);
    int rc = s->is_in_batch ? 0 : postgres_store_ready(s, POSTGRES_DEADLINE_MS, err);
    while (rc == 0) {
        struct postgres_values v = {0};
        postgres_put_int(&v, reading.after);
        reading.count = 0;
        rc = postgres_each(s->db, PG_PUBLISHED, &v, postgres_read_published, &reading, err);
        if (reading.count == 0) {
            break;
        }
    }
    return rc;
}

/* ---------------------------------------------------------------------------------------------- */

#define READY_MS 1000 /* how long an operation waits for a connection */

static const struct store_ops postgres_ops;

bool postgres_store_is(const struct store *store)
{
    return store->ops == &postgres_ops;
}

struct postgres_store *postgres_store_of(struct store *store)
{
    assert(postgres_store_is(store));
    return (struct postgres_store *)(void *)store;
}

/* ---- asking ---------------------------------------------------------------------------------- */

void postgres_store_release(struct postgres_store *s)
{
    postgres_free(s->handed_out);
    s->handed_out = NULL;
}

/* Settings of each session. A stalled holder of the lock loses it, and waiting for it is
 * bounded. */
static const char session[] = "SET idle_in_transaction_session_timeout=2000;"
                              "SET lock_timeout=4000;"
                              "SET statement_timeout=60000;"
                              "SET standard_conforming_strings=on";

/* Every statement has an index, so the planner's estimates for tables that are unanalyzed or just
 * grew are irrelevant. Engines without these settings continue without. */
static const char planning[] = "SET enable_seqscan=off;SET enable_bitmapscan=off;SET jit=off";

/* For a stalled node that does not read, the server would store all notifications until it has no
 * space for any node's. Does not apply to Unix sockets; optional as above. */
static const char standing_still[] = "SET tcp_user_timeout=5000";

int postgres_store_ready(struct postgres_store *s, int wait_ms, struct tidings_error *err)
{
    int rc = postgres_ready(s->db, wait_ms, err);
    if (rc <= 0) {
        return rc;
    }
    struct tidings_error why = {0};
    latest_clear(&s->latest);
    postgres_batch_unsettle(s);
    postgres_follow_disconnected(s);
    store_clock_doubt(&s->clock);
    rc = postgres_exec(s->db, session, &why);
    int planned = rc == 0 ? postgres_exec(s->db, planning, &why) : 0;
    if (planned != TIDINGS_E_NOMEM && rc == 0 && postgres_is_connected(s->db)) {
        int bounded = postgres_exec(s->db, standing_still, &why);
        planned = bounded < 0 ? bounded : planned;
    }
    if (planned == TIDINGS_E_NOMEM || (planned < 0 && !postgres_is_connected(s->db))) {
        rc = planned;
    }
    rc = rc == 0 ? postgres_store_lay_out(s, &postgres_layout, &why) : rc;
    rc = rc == 0 ? postgres_store_check_server(s, &why) : rc;
    rc = rc == 0 ? postgres_store_read_place(s, &why) : rc;
    if (rc < 0) {
        postgres_put_off(s->db, &why);
        return tidings_fail(err, rc, "%s", why.text);
    }
    postgres_follow_connected(s);
    return 0;
}

int postgres_store_send(struct postgres_store *s, enum postgres_statement which,
                        const struct postgres_values *values, struct tidings_error *err)
{
    int rc = postgres_store_send_pending(s, err);
    return rc == 0 ? postgres_send(s->db, which, values, err) : rc;
}

int postgres_store_ask(struct postgres_store *s, enum postgres_statement which,
                       const struct postgres_values *values, struct pg_result **ret,
                       struct tidings_error *err)
{
    if (s->is_in_batch) {
        return postgres_store_ask_in_batch(s, which, values, ret, err);
    }
    int rc = postgres_store_ready(s, READY_MS, err);
    if (rc < 0) {
        return rc;
    }
    rc = postgres_ask(s->db, which, values, ret, err);
    /* An idle connection was lost (a restart, a failover): another connection may work. Queries
     * outside of batches can be repeated. */
    if (rc == TIDINGS_E_BUSY && !postgres_is_connected(s->db) &&
        postgres_store_ready(s, READY_MS, NULL) == 0) {
        rc = postgres_ask(s->db, which, values, ret, err);
    }
    return rc;
}

int postgres_store_ask_int(struct postgres_store *s, enum postgres_statement which, int64_t n,
                           struct pg_result **ret, struct tidings_error *err)
{
    struct postgres_values v = {0};
    postgres_put_int(&v, n);
    return postgres_store_ask(s, which, &v, ret, err);
}

static uint64_t postgres_read_floor(struct pg_result *r, int column, uint64_t position)
{
    int64_t floor = postgres_int(r, 0, column);
    return floor < 0 ? 0 : (uint64_t)floor > position ? position : (uint64_t)floor;
}

int postgres_store_read_counters(struct postgres_store *s, struct pg_result *r,
                                 struct postgres_counters *ret, struct tidings_error *err)
{
    int64_t position = postgres_int(r, 0, 0);
    if (postgres_rows(r) < 1) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "%s: its table 'tidings_state' is empty: put a copy of it "
                            "in its place",
                            postgres_name(s->db));
    }
    if (position < 0 || (uint64_t)position > INCARNATIONS_POSITION_MAX) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "%s: its counter of positions is damaged (%lld): put a copy "
                            "of it in its place",
                            postgres_name(s->db), (long long)position);
    }
    *ret = (struct postgres_counters){
        .position = (uint64_t)position,
        .floor = postgres_read_floor(r, 1, (uint64_t)position),
        .announced = postgres_read_floor(r, 2, (uint64_t)position),
        .keys = postgres_int(r, 0, 3),
        .max_keys = postgres_int(r, 0, 4),
    };
    return 0;
}

int64_t postgres_store_hear_clock(struct postgres_store *s, struct pg_result *r, uint64_t asked_ms)
{
    int64_t at_ms = postgres_int(r, 0, 5);
    store_clock_update(&s->clock, at_ms, asked_ms, clock_monotonic_ms());
    return at_ms;
}

void postgres_store_digest(struct tidings_str text, unsigned char out[32])
{
    struct sha256 version_checksum;
    sha256_init(&version_checksum);
    sha256_put(&version_checksum, text.ptr, text.len);
    sha256_end(&version_checksum, out);
}

static uint64_t postgres_position(struct store *store)
{
    return postgres_store_of(store)->now.position;
}

/* ---- versions -------------------------------------------------------------------------------- */

/* A damaged record gives a version with the id and the start only. */
void postgres_read_version(struct pg_result *r, int row, int first, struct kept_record *ret)
{
    struct tidings_str bytes = postgres_str(r, row, first + 2);
    if (!kept_record_take(&bytes, ret) || bytes.len > 0 || ret->kind != LOG_ENTRY_ENTITY) {
        *ret = (struct kept_record){.kind = LOG_ENTRY_ENTITY, .version.to = TIMELINE_FOREVER};
    }
    ret->version.id = postgres_str(r, row, first);
    ret->version.from = postgres_int(r, row, first + 1);
    ret->version.previous = postgres_str(r, row, first + 3);
    ret->version.value = postgres_str(r, row, first + 4);
}

/* Nodes write valid names, but other programs may have written the row. */
static bool postgres_has_names(const struct entity_version *v)
{
    return entity_id_is_valid(v->id) && entity_type_name_is_valid(v->type) &&
           entity_type_version_is_valid(v->type_version) &&
           (v->parent.len == 0 || entity_id_is_valid(v->parent));
}

/* 1: the row is undamaged. */
static int postgres_take_version(struct pg_result *r, int row, bool has_end,
                                 struct entity_version *ret, struct tidings_error *err)
{
    struct kept_record record;
    postgres_read_version(r, row, 0, &record);
    *ret = record.version;
    ret->to = has_end ? postgres_int(r, row, 5) : TIMELINE_FOREVER;
    return postgres_has_names(ret) && entity_version_is_whole(ret, record.version_checksum)
               ? 1
               : tidings_fail(err, TIDINGS_E_INTERNAL,
                              "stored entity '%.*s' is damaged: restore a copy of the store",
                              STR_ARG(ret->id));
}

static int postgres_find(struct store *store, struct tidings_str id, int64_t at,
                         struct entity_version *ret, struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    bool is_current = at == TIMELINE_FOREVER;
    const struct entity_version *head =
        is_current && !s->is_behind ? latest_find(&s->latest, id) : NULL;
    postgres_store_release(s);
    if (head) {
        *ret = *head;
        return 1;
    }
    if (!s->is_behind && !entity_ids_may_have(&s->ids, id)) {
        return 0;
    }
    struct postgres_values v = {0};
    postgres_put_str(&v, id);
    if (!is_current) {
        postgres_put_int(&v, at);
    }
    int rc = postgres_store_ask(s, is_current ? PG_FIND : PG_FIND_AT, &v, &s->handed_out, err);
    if (rc < 0 || postgres_rows(s->handed_out) == 0) {
        return rc;
    }
    int whole = postgres_take_version(s->handed_out, 0, !is_current, ret, err);
    if (whole == 1 && is_current && !s->is_behind) {
        latest_put(&s->latest, ret);
    }
    return whole;
}

static int postgres_nth(struct store *store, struct tidings_str id, int64_t n, int64_t *ret_from,
                        struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct postgres_values v = {0};
    struct pg_result *r = NULL;
    postgres_store_release(s);
    *ret_from = 0;
    postgres_put_str(&v, id);
    postgres_put_int(&v, n - 1);
    int rc = n < 1 ? 0 : postgres_store_ask(s, PG_NTH, &v, &r, err);
    if (rc == 0 && postgres_rows(r) == 1) {
        *ret_from = postgres_int(r, 0, 0);
        rc = 1;
    }
    postgres_free(r);
    return rc;
}

static int postgres_history(struct store *store, struct tidings_str id, int64_t first,
                            entity_version_fn fn, void *user, struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    postgres_store_release(s);
    for (int n = 1; n > 0;) {
        struct postgres_values v = {0};
        struct pg_result *r = NULL;
        postgres_put_str(&v, id);
        postgres_put_int(&v, first);
        int rc = postgres_store_ask(s, PG_HISTORY, &v, &r, err);
        n = postgres_rows(r);
        for (int i = 0; rc >= 0 && i < n; i++) {
            struct entity_version version;
            rc = postgres_take_version(r, i, true, &version, err);
            first = version.from + 1;
            if (rc == 1 && (!fn(user, &version) || version.to == TIMELINE_FOREVER)) {
                n = 0;
            }
        }
        postgres_free(r);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

static int postgres_list(struct store *store, const struct entity_scope *scope,
                         struct tidings_str after, entity_version_fn fn, void *user,
                         struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    enum postgres_statement which = scope->type.len == 0           ? PG_LIST_ALL
                                    : scope->type_version.len == 0 ? PG_LIST_TYPE
                                                                   : PG_LIST_VERSION;
    which += scope->by_parent ? PG_LIST_PARENT - PG_LIST_ALL : 0;
    struct pg_result *page = NULL; /* the previous page owns `after` */
    postgres_store_release(s);
    int rc = 0;
    for (bool more = true; rc == 0 && more;) {
        struct postgres_values v = {0};
        struct pg_result *next = NULL;
        postgres_put_str(&v, after);
        postgres_put_int(&v, scope->deleted);
        if (scope->type.len > 0) {
            postgres_put_str(&v, scope->type);
        }
        if (scope->type.len > 0 && scope->type_version.len > 0) {
            postgres_put_str(&v, scope->type_version);
        }
        if (scope->by_parent) {
            postgres_put_str(&v, scope->parent);
        }
        rc = postgres_store_ask(s, which, &v, &next, err);
        postgres_free(page);
        page = next;
        more = postgres_rows(page) > 0;
        for (int i = 0; rc == 0 && more && i < postgres_rows(page); i++) {
            struct kept_record record;
            postgres_read_version(page, i, 0, &record);
            after = record.version.id;
            more = !postgres_has_names(&record.version) || fn(user, &record.version);
        }
    }
    postgres_free(page);
    return rc;
}

/* The next version has all other fields. */
int postgres_put_moved(struct postgres_store *s, const struct entity_version *version,
                       struct tidings_error *err)
{
    const struct kept_record moved = {
        .kind = LOG_ENTRY_MOVED,
        .position = ++s->now.position,
        .version = {.id = version->id,
                    .type = version->type,
                    .type_version = version->type_version,
                    .from = version->from,
                    .old_type_version = version->old_type_version},
    };
    return postgres_store_log(s, &moved, err);
}

/* The parameters of PG_PUT. */
static int put_version_values(struct postgres_store *s, const struct kept_record *r,
                              struct postgres_values *v, struct tidings_error *err)
{
    const struct entity_version *version = &r->version;
    struct tidings_str bytes;
    int rc = postgres_store_encode(s, r, &bytes, err);
    if (rc < 0) {
        return rc;
    }
    postgres_put_str(v, version->id);
    postgres_put_int(v, version->from);
    postgres_put_int(v, (int64_t)r->position);
    postgres_put_int(v, r->at_ms);
    postgres_put_str(v, bytes);
    postgres_put_str(v, version->previous);
    postgres_put_str(v, version->value);
    postgres_put_str(v, version->type);
    postgres_put_str(v, version->type_version);
    postgres_put_str(v, version->parent);
    postgres_put_int(v, version->deleted);
    return 0;
}

static int postgres_put_version(struct store *store, const struct entity_version *version,
                                bool replaces_current, struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct postgres_values v = {0};
    s->is_durable = true;
    int rc = version->old_type_version.len > 0 ? postgres_put_moved(s, version, err) : 0;
    if (rc < 0) {
        return rc;
    }
    struct kept_record record = {
        .kind = LOG_ENTRY_ENTITY,
        .position = ++s->now.position,
        .at_ms = s->now_ms,
        .version = *version,
        .version_checksum = entity_version_checksum(version),
    };
    record.version.old_type_version = STR_EMPTY;
    rc = put_version_values(s, &record, &v, err);
    if (rc == 0) {
        rc = replaces_current ? postgres_store_send(s, PG_PUT_REPLACING, &v, err)
                              : postgres_store_add_version(s, &v, err);
    }
    entity_ids_add(&s->ids, version->id); /* even if it is rolled back: the entity may exist */
    if (rc == 0) {
        if (replaces_current) {
            postgres_store_tell_replaced(s);
        }
        postgres_store_tell(s, &record);
        latest_put(&s->latest, version); /* it may borrow from the last result */
    }
    postgres_store_release(s);
    return rc;
}

static int postgres_forget(struct store *store, struct tidings_str id, int64_t end,
                           struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct postgres_values v = {0};
    postgres_put_str(&v, id);
    postgres_put_int(&v, end);
    s->is_durable = true;
    int rc = postgres_store_send(s, PG_FORGET, &v, err);
    postgres_store_release(s);
    return rc;
}

/* ---- types ----------------------------------------------------------------------------------- */

static int postgres_put_type(struct store *store, const struct entity_type_row *row,
                             struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct postgres_values v = {0};
    struct pg_result *r = NULL;
    postgres_store_release(s);
    postgres_put_int(&v, (int64_t)s->now.position + 1);
    postgres_put_str(&v, row->name);
    postgres_put_str(&v, row->version);
    postgres_put_str(&v, row->schema);
    postgres_put_str(&v, row->description);
    postgres_put_str(&v, row->options);
    int rc = postgres_store_ask(s, PG_PUT_TYPE, &v, &r, err);
    bool is_new = postgres_rows(r) == 1;
    postgres_free(r);
    if (rc == 0 && !is_new) {
        return tidings_fail(err, TIDINGS_E_EXISTS, "entity type '%.*s@%.*s' already exists",
                            STR_ARG(row->name), STR_ARG(row->version));
    }
    s->is_durable = true;
    if (rc < 0) {
        return rc;
    }
    const struct kept_record record = {.kind = LOG_ENTRY_TYPES, .position = ++s->now.position};
    return postgres_store_log(s, &record, err);
}

static int postgres_types(struct store *store, entity_type_fn fn, void *user,
                          struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct pg_result *r = NULL;
    postgres_store_release(s);
    int rc = postgres_store_ask(s, PG_TYPES, NULL, &r, err);
    bool more = true;
    for (int i = 0; rc == 0 && more && i < postgres_rows(r); i++) {
        const struct entity_type_row row = {
            .name = postgres_str(r, i, 0),
            .version = postgres_str(r, i, 1),
            .schema = postgres_str(r, i, 2),
            .description = postgres_str(r, i, 3),
            .options = postgres_str(r, i, 4),
        };
        more = fn(user, &row);
    }
    postgres_free(r);
    return rc;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Reads the ids of existing entities in steps. Ids that are added during that are followed, or
 * written here. */
static int postgres_idle(struct store *store, struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct postgres_values v = {0};
    struct pg_result *r = NULL;
    postgres_store_release(s);
    if (s->ids.is_complete || s->ids.is_too_many) {
        return 0;
    }
    postgres_put_str(&v, s->ids_after ? tidings_str(s->ids_after) : STR_EMPTY);
    int rc = postgres_store_ask(s, PG_IDS, &v, &r, err);
    int count = postgres_rows(r);
    for (int i = 0; i < count; i++) {
        entity_ids_add(&s->ids, postgres_str(r, i, 0));
    }
    if (rc == 0) {
        mem_free(s->ids_after);
        s->ids_after = count > 0 ? str_dup(postgres_str(r, count - 1, 0)) : NULL;
        s->ids.is_complete = count == 0 && !s->ids.is_too_many;
    }
    postgres_free(r);
    return rc < 0 ? rc : count > 0 && s->ids_after ? 1 : 0;
}

static void postgres_store_destroy(struct store *store)
{
    if (!store) {
        return;
    }
    struct postgres_store *s = postgres_store_of(store);
    postgres_store_rollback(store);
    postgres_store_release(s);
    postgres_store_end_run(s);
    postgres_history_destroy(s->history);
    postgres_batch_destroy(s->batch);
    postgres_follow_destroy(s->follow);
    sealer_deinit(&s->sealer);
    buf_deinit(&s->record);
    latest_clear(&s->latest);
    entity_ids_clear(&s->ids);
    mem_free(s->ids_after);
    postgres_destroy(s->db);
    mem_free(s->cluster);
    mem_free(s);
}

bool postgres_store_is_url(struct tidings_str url)
{
    return str_starts(url, STR("postgres://")) || str_starts(url, STR("postgresql://"));
}

/* Reads the current position before anything is followed. */
static int postgres_read_start(struct postgres_store *s, struct tidings_error *err)
{
    struct pg_result *r = NULL;
    uint64_t asked_ms = clock_monotonic_ms();
    int rc = postgres_store_ask(s, PG_STATE, NULL, &r, err);
    rc = rc == 0 ? postgres_store_read_counters(s, r, &s->now, err) : rc;
    if (rc == 0) {
        postgres_store_hear_clock(s, r, asked_ms);
        s->followed = s->now.position;
    }
    postgres_free(r);
    return rc;
}

static int postgres_store_open_as(const char *url, struct tidings_str cluster, bool is_target,
                                  struct store **ret, struct tidings_error *err)
{
    if (cluster.len == 0 || cluster.len > POSTGRES_CLUSTER_MAX || !str_is_utf8(cluster) ||
        str_find(cluster, '\0') >= 0 || str_find(cluster, ';') >= 0) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "the name of a cluster has 1 to %u bytes, without ';' and NUL",
                            POSTGRES_CLUSTER_MAX);
    }
    struct postgres_store *s = mem_zalloc(sizeof(*s));
    if (!s) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    s->base.ops = &postgres_ops;
    s->batch = postgres_batch_create();
    s->follow = postgres_follow_create();
    s->history = postgres_history_create();
    buf_init(&s->record, KEPT_RECORD_MAX);
    s->has_notify = true;
    s->is_target = is_target;
    s->cluster = str_dup(cluster);
    (void)!random_bytes(&s->instance, sizeof s->instance);
    int rc = s->cluster && s->batch && s->follow && s->history
                 ? postgres_create(url, postgres_statements, &s->db, err)
                 : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    rc = rc == 0 ? postgres_store_ready(s, POSTGRES_DEADLINE_MS, err) : rc;
    rc = rc == 0 ? postgres_read_start(s, err) : rc;
    if (rc < 0) {
        postgres_store_destroy(&s->base);
        return rc;
    }
    *ret = &s->base;
    return 0;
}

int postgres_store_open(const char *url, struct tidings_str cluster, struct store **ret,
                        struct tidings_error *err)
{
    return postgres_store_open_as(url, cluster, false, ret, err);
}

int postgres_store_open_target(const char *url, struct tidings_str cluster, struct store **ret,
                               struct tidings_error *err)
{
    return postgres_store_open_as(url, cluster, true, ret, err);
}

/* -------------------------------------------------------------------------------------------------
 * Tasks in PostgreSQL: a row for each, written by the node that works on it, and by any other node
 * that cancels it, answers its questions, or finds its node dead.
 *
 * `run` is the epoch of its node (tidings_runs): a working task without a live run is lost.
 * `until`, its expiry, is by the database's clock; the times that clients see are those of its
 * node. Other nodes with a different clock cannot shorten that; only a revoked task (without time
 * to live) is removed immediately.
 */

_Static_assert(SHARED_TASK_ID_MAX == 128 && SHARED_TASK_CLIENT_MAX == 4096 &&
                   SHARED_TASK_MESSAGE_MAX == 4096 && SHARED_TASK_PAYLOAD_MAX == 67108864 &&
                   SHARED_TASK_ASKED_MAX == 41943040,
               "as TASK_IS_SHORT of the statements has them");

#define TASK_KEPT_LOST_MS 60000 /* minimum time for which a lost task can be queried */

static int tasks_check(struct tidings_str text, size_t max, const char *what,
                       struct tidings_error *err)
{
    return text.len <= max ? 0
                           : tidings_fail(err, TIDINGS_E_INVALID,
                                          "%s of a task has at most %zu "
                                          "bytes",
                                          what, max);
}

static int tasks_check_id(struct tidings_str id, struct tidings_error *err)
{
    return str_is_utf8(id) && str_find(id, '\0') < 0
               ? tasks_check(id, SHARED_TASK_ID_MAX, "the id", err)
               : tidings_fail(err, TIDINGS_E_INVALID, "the id of a task is text without NUL");
}

/* Converts a time of this machine's clock to the database's clock, inside a batch. */
static int64_t tasks_to_database(const struct postgres_store *s, int64_t wall_ms)
{
    return s->now_ms + (wall_ms - clock_wall_ms());
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Checks that there is room for one more task. */
static int tasks_check_room(struct postgres_store *s, const unsigned char owner[32],
                            const struct stored_task *task, struct tidings_error *err)
{
    struct stored_task_limits *room = task->room;
    struct postgres_values v = {0};
    struct pg_result *r = NULL;
    postgres_put_str(&v, tidings_strn((const char *)owner, 32));
    int rc = postgres_store_ask(s, PG_TASK_ROOM, &v, &r, err);
    if (rc < 0) {
        return rc;
    }
    uint64_t all = (uint64_t)postgres_int(r, 0, 0), bytes = (uint64_t)postgres_int(r, 0, 1),
             own = (uint64_t)postgres_int(r, 0, 2), own_bytes = (uint64_t)postgres_int(r, 0, 3);
    postgres_free(r);
    bool has_name = task->client.len > 0;
    bool is_many_own = has_name && room->max_client > 0 && own >= room->max_client;
    bool is_large_own = has_name && room->max_bytes > 0 && own_bytes > room->max_bytes / 4;
    bool is_many = is_many_own || (room->max > 0 && all >= room->max);
    bool is_large = is_large_own || (room->max_bytes > 0 && bytes > room->max_bytes);
    room->full = is_many ? STORED_TASKS_MANY : is_large ? STORED_TASKS_LARGE : STORED_TASKS_FIT;
    room->is_client = is_many ? is_many_own : is_large_own;
    return room->full == STORED_TASKS_FIT
               ? 0
               : tidings_fail(err, TIDINGS_E_LIMIT, "there is no room for one more task");
}

static int postgres_store_put_task(struct store *store, const struct stored_task *task,
                                   struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct postgres_values v = {0};
    struct pg_result *r = NULL;
    unsigned char owner[32];
    postgres_store_release(s);
    int rc = tasks_check_id(task->id, err);
    rc = rc == 0 ? tasks_check(task->client, SHARED_TASK_CLIENT_MAX, "the client", err) : rc;
    rc = rc == 0 ? tasks_check(task->message, SHARED_TASK_MESSAGE_MAX, "the message", err) : rc;
    rc = rc == 0 ? tasks_check(task->payload, SHARED_TASK_PAYLOAD_MAX, "the result", err) : rc;
    rc = rc == 0 ? tasks_check(task->questions, SHARED_TASK_ASKED_MAX, "the questions", err) : rc;
    postgres_store_digest(task->client, owner);
    rc = rc == 0 && task->room ? tasks_check_room(s, owner, task, err) : rc;
    if (rc < 0) {
        return rc;
    }
    postgres_put_str(&v, task->id);
    postgres_put_int(&v, (int64_t)postgres_history_run(s));
    postgres_put_str(&v, tidings_strn((const char *)owner, sizeof owner));
    postgres_put_str(&v, task->client);
    postgres_put_str(&v, task->status);
    postgres_put_int(&v, task->created_ms);
    postgres_put_int(&v, task->updated_ms);
    postgres_put_int(&v, task->ttl_ms);
    postgres_put_int(&v, tasks_to_database(s, task->created_ms + task->ttl_ms));
    postgres_put_int(&v, (int64_t)task->payload.len);
    postgres_put_str(&v, task->message);
    postgres_put_str(&v, task->payload);
    postgres_put_str(&v, task->questions);
    rc = postgres_store_ask(s, PG_PUT_TASK, &v, &r, err);
    bool is_kept = postgres_rows(r) == 1;
    postgres_free(r);
    s->is_durable = true;
    return rc < 0 || is_kept ? rc
                             : tidings_fail(err, TIDINGS_E_CONFLICT, "the task has ended already");
}

static int postgres_store_put_task_answers(struct store *store, struct tidings_str id,
                                           struct tidings_str answers, struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct postgres_values v = {0};
    postgres_store_release(s);
    int rc = tasks_check_id(id, err);
    rc = rc == 0 ? tasks_check(answers, SHARED_TASK_ASKED_MAX, "the answers", err) : rc;
    postgres_put_str(&v, id);
    postgres_put_str(&v, answers);
    s->is_durable = true;
    return rc == 0 ? postgres_store_send(s, PG_TASK_ANSWERS, &v, err) : rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

static struct stored_task postgres_store_read_task(struct pg_result *r)
{
    struct tidings_str status = postgres_str(r, 0, 2);
    bool runs = str_eq(status, STR("working")) || str_eq(status, STR("input_required"));
    return (struct stored_task){
        .id = postgres_str(r, 0, 0),
        .client = postgres_str(r, 0, 1),
        .status = status,
        .message = postgres_str(r, 0, 3),
        .payload = postgres_str(r, 0, 4),
        .questions = postgres_str(r, 0, 5),
        .answers = postgres_str(r, 0, 6),
        .created_ms = postgres_int(r, 0, 7),
        .updated_ms = postgres_int(r, 0, 8),
        .ttl_ms = postgres_int(r, 0, 9),
        .is_lost = runs && postgres_int(r, 0, 10) != 0,
    };
}

static int postgres_store_find_task(struct store *store, struct tidings_str id,
                                    struct stored_task *ret, struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct postgres_values v = {0};
    struct pg_result *r = NULL;
    postgres_store_release(s);
    int rc = tasks_check_id(id, err);
    postgres_put_str(&v, id);
    postgres_put_int(&v, s->is_in_batch ? s->now_ms : store->ops->now(store));
    rc = rc == 0 ? postgres_store_ask(s, PG_FIND_TASK, &v, &r, err) : rc;
    if (rc < 0 || postgres_rows(r) != 1) {
        postgres_free(r);
        return rc;
    }
    *ret = postgres_store_read_task(r);
    s->handed_out = r;
    return 1;
}

struct reading_tasks {
    stored_task_fn fn;
    void *user;
    char after[SHARED_TASK_ID_MAX + 1];
    unsigned count; /* of the page */
};

static int postgres_read_task(void *user, struct pg_result *r, struct tidings_error *err)
{
    struct reading_tasks *reading = user;
    const struct stored_task task = postgres_store_read_task(r);
    (void)err;
    memcpy(reading->after, task.id.ptr, task.id.len); /* the statement bounds it */
    reading->after[task.id.len] = '\0';
    reading->count++;
    reading->fn(reading->user, &task);
    return 0;
}

/* Row by row, because results can be large. */
static int postgres_store_each_task(struct store *store, stored_task_fn fn, void *user,
                                    struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct reading_tasks reading = {.fn = fn, .user = user};
    postgres_store_release(s);
    int rc = postgres_store_ready(s, POSTGRES_DEADLINE_MS, err);
    do {
        struct postgres_values v = {0};
        postgres_put_str(&v, tidings_str(reading.after));
        reading.count = 0;
        rc = rc == 0 ? postgres_each(s->db, PG_TASKS, &v, postgres_read_task, &reading, err) : rc;
    } while (rc == 0 && reading.count > 0);
    return rc;
}

/* ---- those that are over --------------------------------------------------------------------- */

static int postgres_store_sweep_tasks(struct store *store, int64_t now_ms,
                                      struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct postgres_values v = {0};
    postgres_store_release(s);
    postgres_put_int(&v, tasks_to_database(s, now_ms));
    s->is_durable = true;
    return postgres_store_send(s, PG_SWEEP_TASKS, &v, err);
}

static int postgres_store_has_stale_tasks(struct store *store, struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct pg_result *r = NULL;
    postgres_store_release(s);
    int rc = postgres_store_ask(s, PG_STALE_TASKS, NULL, &r, err);
    rc = rc == 0 && postgres_rows(r) > 0 ? 1 : rc;
    postgres_free(r);
    return rc;
}

static int postgres_store_end_stale_tasks(struct store *store, const struct stored_task *end,
                                          void (*fn)(void *user, struct tidings_str id,
                                                     bool is_gone),
                                          void *user, struct tidings_error *err)
{
    struct postgres_store *s = postgres_store_of(store);
    struct postgres_values old = {0}, lost = {0};
    struct pg_result *gone = NULL, *failed = NULL;
    postgres_store_release(s);
    postgres_put_int(&old, s->now_ms);
    postgres_put_int(&old, SHARED_TASKS_AT_ONCE);
    int rc = postgres_store_ask(s, PG_OLD_TASKS, &old, &gone, err);
    int left = (int)SHARED_TASKS_AT_ONCE - postgres_rows(gone);
    postgres_put_str(&lost, end->status);
    postgres_put_str(&lost, end->message);
    postgres_put_str(&lost, end->payload);
    postgres_put_int(&lost, s->now_ms);
    postgres_put_int(&lost, s->now_ms + TASK_KEPT_LOST_MS);
    postgres_put_int(&lost, left);
    rc = rc == 0 && left > 0 ? postgres_store_ask(s, PG_LOST_TASKS, &lost, &failed, err) : rc;
    s->is_durable = true;
    for (int i = 0; rc == 0 && i < postgres_rows(gone); i++) {
        fn(user, postgres_str(gone, i, 0), true);
    }
    for (int i = 0; rc == 0 && i < postgres_rows(failed); i++) {
        fn(user, postgres_str(failed, i, 0), false);
    }
    postgres_free(gone);
    postgres_free(failed);
    return rc;
}

static const struct store_ops postgres_ops = {
    .name = "postgres",
    .destroy = postgres_store_destroy,
    .begin = postgres_store_begin,
    .commit = postgres_store_commit,
    .rollback = postgres_store_rollback,
    .position = postgres_position,
    .put = postgres_put_version,
    .forget = postgres_forget,
    .find = postgres_find,
    .nth = postgres_nth,
    .history = postgres_history,
    .list = postgres_list,
    .put_type = postgres_put_type,
    .types = postgres_types,
    .put_key = postgres_store_put_key,
    .find_key = postgres_store_find_key,
    .idle = postgres_idle,
    .publish = postgres_store_publish,
    .unpublish = postgres_store_unpublish,
    .each_published = postgres_store_each_published,
    .each_change = postgres_store_each_change,
    .create_changelog = postgres_store_create_changelog,
    .transfer = &postgres_store_transfer,
    .put_task = postgres_store_put_task,
    .sweep_tasks = postgres_store_sweep_tasks,
    .each_task = postgres_store_each_task,
    .follow = postgres_store_follow,
    .followed = postgres_store_followed,
    .conceal = postgres_store_conceal,
    .explain = postgres_store_explain,
    .newest = postgres_store_newest,
    .descriptor = postgres_store_descriptor,
    .wake = postgres_store_wake,
    .has_news = postgres_store_has_news,
    .begin_unlocked = postgres_store_begin_unlocked,
    .must_run_again = postgres_store_must_run_again,
    .notifications = postgres_store_heard,
    .announce = postgres_store_announce,
    .now = postgres_store_now,
    .find_task = postgres_store_find_task,
    .put_task_answers = postgres_store_put_task_answers,
    .has_stale_tasks = postgres_store_has_stale_tasks,
    .end_stale_tasks = postgres_store_end_stale_tasks,
    .secret = postgres_store_secret,
};
