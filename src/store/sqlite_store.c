/* SPDX-License-Identifier: MIT
 *
 * The SQLite store. A commit is cheap because it appends one row per version to `log`; the index of
 * versions (`versions`, `current`) is updated later, many at a time (see below).
 *
 * Until then the positions of new versions are in in-memory tables of the same connection (`temp`),
 * so that reads see them and a rollback reverts them with the rest:
 *
 *     temp.fresh  (id, vfrom) -> seq    versions in the log that are not in `versions` yet
 *     temp.gone   (id, vfrom)           versions in `versions` that were removed
 *
 * Invariant: the versions of an entity are those in `versions` without those in `gone`, followed by
 * those in `fresh`. After a crash both are rebuilt from the rows of the log with a number above
 * `applied`.
 */
#include "store/sqlite_store.h"

#include <assert.h>
#include <stdio.h>

#include "base/error.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "store/change_log.h"
#include "store/copy.h"
#include "store/sqlite_damage.h"
#include "store/sqlite_internal.h"
#include "store/store.h"

/* -------------------------------------------------------------------------------------------------
 * Applies the log of a SQLite store to the tables of versions: index entries move from the
 * in-memory tables into those of the file, and unreachable rows are removed from the log. In the
 * order of ids, so that pages are written once.
 *
 * A crash in between loses nothing: the transaction is either there, with `applied`, or not.
 */

/* `current` gets the newest version of every entity with a fresh or a gone version. */
static const char apply[] =
    "BEGIN IMMEDIATE;"
    "DELETE FROM main.log WHERE seq IN (SELECT v.seq FROM main.versions v JOIN temp.gone g ON"
    " g.id=v.id AND g.vfrom=v.vfrom);"
    "DELETE FROM main.versions WHERE (id, vfrom) IN (SELECT id, vfrom FROM temp.gone);"
    /* Versions replaced or removed before they were applied, and the rows that record the removal.
     */
    "DELETE FROM main.log WHERE seq>(SELECT applied FROM main.state) AND NOT EXISTS("
    "SELECT 1 FROM temp.fresh f WHERE f.id=log.id AND f.vfrom=log.vfrom AND f.seq=log.seq);"
    "INSERT INTO main.versions SELECT id, vfrom, seq FROM temp.fresh ORDER BY id, vfrom;"
    "INSERT OR REPLACE INTO main.current SELECT l.id, l.type, l.tversion, l.parent, l.deleted,"
    " l.seq FROM (SELECT id, max(vfrom) AS vfrom FROM temp.fresh GROUP BY id) f"
    " JOIN main.versions v ON v.id=f.id AND v.vfrom=f.vfrom JOIN main.log l ON l.seq=v.seq;"
    "DELETE FROM temp.fresh;"
    "DELETE FROM temp.gone;";

int sqlite_apply(struct sqlite_store *s, struct tidings_error *err)
{
    if (s->n_fresh == 0) {
        return 0;
    }
    int rc = sqlite_exec(s->db, apply, err);
    struct sqlite3_stmt *st = NULL;
    rc = rc == 0 ? sqlite_prepare(s->db, "UPDATE main.state SET applied=?1", &st, err) : rc;
    if (rc == 0) {
        sqlite_bind_int(st, 1, s->last_seq);
        rc = sqlite_run(s->db, st, err);
    }
    sqlite_finalize(st);
    rc = rc == 0 ? sqlite_exec(s->db, "COMMIT", err) : rc;
    if (rc < 0) {
        sqlite_roll_back(s->db);
        return rc;
    }
    s->n_fresh = 0;
    return 0;
}

int sqlite_store_number(struct sqlite_store *s, const char *sql, int64_t *ret,
                        struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_prepare(s->db, sql, &st, err);
    rc = rc == 0 ? sqlite_step(s->db, st, err) : rc;
    *ret = rc == 1 ? sqlite_int(st, 0) : 0;
    sqlite_finalize(st);
    return rc < 0 ? rc : 0;
}

/* Numbers of removed rows are not reused. */
int sqlite_store_newest(struct sqlite_store *s, int64_t *ret, struct tidings_error *err)
{
    return sqlite_store_number(
        s,
        "SELECT max(applied, floor, ifnull((SELECT max(seq) FROM main.log), 0),"
        " ifnull((SELECT max(seq) FROM main.moved), 0),"
        " ifnull((SELECT max(seq) FROM main.types), 0),"
        " ifnull((SELECT max(seq) FROM main.published), 0),"
        " ifnull((SELECT max(seq) FROM main.file_changes), 0)) FROM main.state",
        ret, err);
}

static int sqlite_store_enter(struct sqlite_store *s, const struct sqlite_log_row *p,
                              struct tidings_error *err);

/* After opening: fills the in-memory tables from the rows that are not applied. */
static int sqlite_store_recover(struct sqlite_store *s, struct tidings_error *err)
{
    int rc = sqlite_store_newest(s, &s->last_seq, err);
    struct sqlite3_stmt *st = NULL;
    rc = rc == 0 ? sqlite_prepare(s->db,
                                  "SELECT id, vfrom, seq, replaces, forget FROM main.log WHERE"
                                  " seq>(SELECT applied FROM main.state) ORDER BY seq",
                                  &st, err)
                 : rc;
    while (rc == 0 && (rc = sqlite_step(s->db, st, err)) == 1) {
        const struct sqlite_log_row row = {
            .id = sqlite_str(st, 0),
            .from = sqlite_int(st, 1),
            .seq = sqlite_int(st, 2),
            .replaces = sqlite_int(st, 3),
            .forget = sqlite_int(st, 4),
        };
        rc = sqlite_store_enter(s, &row, err);
    }
    sqlite_finalize(st);
    return rc;
}

/* -------------------------------------------------------------------------------------------------
 * Types of entities in SQLite: a small table, written directly.
 */

int sqlite_store_put_type(struct store *store, const struct entity_type_row *row,
                          struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    sqlite_store_release(s);
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_statement(s, PUT_TYPE, &st, err);
    if (rc < 0) {
        return rc;
    }
    sqlite_bind_str(st, 1, row->name);
    sqlite_bind_str(st, 2, row->version);
    sqlite_bind_str(st, 3, row->schema);
    sqlite_bind_str(st, 4, row->description);
    sqlite_bind_str(st, 5, row->options);
    sqlite_bind_int(st, 6, s->last_seq + 1);
    rc = sqlite_run(s->db, st, err);
    s->last_seq += rc == 0;
    if (rc == TIDINGS_E_EXISTS) {
        return tidings_fail(err, rc, "entity type '%.*s@%.*s' already exists", STR_ARG(row->name),
                            STR_ARG(row->version));
    }
    return rc;
}

static int sqlite_store_types(struct store *store, entity_type_fn fn, void *user,
                              struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    sqlite_store_release(s);
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_statement(s, TYPES, &st, err);
    if (rc < 0) {
        return rc;
    }
    while ((rc = sqlite_step(s->db, st, err)) == 1) {
        const struct entity_type_row row = {
            .name = sqlite_str(st, 0),
            .version = sqlite_str(st, 1),
            .schema = sqlite_str(st, 2),
            .description = sqlite_str(st, 3),
            .options = sqlite_str(st, 4),
        };
        if (!fn(user, &row)) {
            rc = 0;
            break;
        }
    }
    sqlite_reset(st);
    return rc;
}

/* -------------------------------------------------------------------------------------------------
 * Idempotency keys in SQLite. Their numbers increase, so that the oldest keys are known whatever
 * the clock shows. They are counted only if there may be too many: `max_keys` increases with each
 * put and is never below the actual number.
 */

static int drop_aged(struct sqlite_store *s, int64_t now, struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_statement(s, DROP_AGED_KEYS, &st, err);
    if (rc < 0) {
        return rc;
    }
    sqlite_bind_int(st, 1, now - ENTITY_KEY_AGE_MS);
    return sqlite_run(s->db, st, err);
}

/* Removes all keys of an owner except the newest. */
static int drop_but(struct sqlite_store *s, struct tidings_str owner, int64_t newest,
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

static int count_keys(struct sqlite_store *s, struct tidings_error *err)
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

static int drop_of_largest(struct sqlite_store *s, struct tidings_error *err)
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

static int sqlite_store_put_key(struct store *store, const struct entity_key *key,
                                struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    sqlite_store_release(s);
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
    /* once: this adds one key and removes at least one */
    if (rc == 0 && s->max_keys > ENTITY_KEYS) {
        rc = drop_of_largest(s, err);
        rc = rc == 0 ? count_keys(s, err) : rc;
    }
    return rc;
}

static int sqlite_store_find_key(struct store *store, struct tidings_str owner,
                                 struct tidings_str key, struct entity_key *ret,
                                 struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    sqlite_store_release(s);
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

/* -------------------------------------------------------------------------------------------------
 * Published resources in SQLite: one row per URI, which gets a new number with each change. So the
 * table is in the order of changes, and reading the changes since a position is a scan from there.
 */

#define FORGET_EVERY 256u /* removals between two checks of their number */

int sqlite_published_write(struct sqlite_store *s, const struct published_row *row,
                           const struct tidings_str *content, struct tidings_error *err)
{
    const struct tidings_resource *about = &row->about;
    struct sqlite3_stmt *st = NULL;
    sqlite_store_release(s);
    int rc = sqlite_statement(s, PUBLISH, &st, err);
    if (rc < 0) {
        return rc;
    }
    const struct tidings_str texts[] = {about->name,      about->title, about->description,
                                        about->mime_type, about->icons, about->audience};
    sqlite_bind_int(st, 1, s->last_seq + 1);
    sqlite_bind_str(st, 2, about->uri);
    sqlite_bind_int(st, 3, row->created);
    sqlite_bind_str(st, 4, about->etag);
    sqlite_bind_int(st, 5, about->size);
    sqlite_bind_int(st, 6, about->modified_ms);
    for (int i = 0; i < 6; i++) {
        sqlite_bind_str(st, 7 + i, texts[i]);
    }
    sqlite_bind_int(st, 13, resource_priority_bits(about));
    sqlite_bind_int(st, 14, !about->not_subscribable);
    sqlite_bind_int(st, 15, s->now_ms);
    sqlite_bind_bytes(st, 16, content);
    sqlite_bind_str(st, 17, row->metadata);
    sqlite_bind_str(st, 18, about->meta);
    rc = sqlite_run(s->db, st, err);
    s->last_seq += rc == 0;
    return rc;
}

int sqlite_published_put(struct store *store, const struct published_row *row,
                         uint64_t *ret_position, struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    int rc = sqlite_published_write(s, row, &row->content, err);
    *ret_position = (uint64_t)s->last_seq;
    return rc;
}

/* Only the newest removals are kept; clients that resume from before get a resync. */
static int forget_removed(struct sqlite_store *s, struct tidings_error *err)
{
    static const enum statement both[] = {FORGET_REMOVED, RAISE_FLOOR};
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_statement(s, OLD_REMOVED, &st, err);
    if (rc < 0) {
        return rc;
    }
    sqlite_bind_int(st, 1, PUBLISHED_MAX_REMOVED);
    rc = sqlite_step(s->db, st, err);
    int64_t oldest = rc == 1 ? sqlite_int(st, 0) : 0;
    sqlite_reset(st);
    for (size_t i = 0; rc == 1 && i < 2; i++) {
        int made = sqlite_statement(s, both[i], &st, err);
        if (made == 0) {
            sqlite_bind_int(st, 1, oldest);
            made = sqlite_run(s->db, st, err);
        }
        rc = made < 0 ? made : 1;
    }
    return rc < 0 ? rc : 0;
}

int sqlite_published_remove(struct store *store, const struct published_row *gone,
                            uint64_t *ret_position, struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    const struct tidings_resource *about = &gone->about;
    const struct published_row row = {
        .about = {.uri = about->uri, .not_subscribable = about->not_subscribable},
        .metadata = gone->metadata,
    };
    int rc = sqlite_published_write(s, &row, NULL, err);
    *ret_position = (uint64_t)s->last_seq;
    if (rc == 0 && ++s->n_removed % FORGET_EVERY == 0) {
        rc = forget_removed(s, err);
    }
    return rc;
}

int sqlite_published_each(struct store *store, published_row_fn fn, void *user,
                          struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    struct sqlite *db = s->db;
    struct sqlite3_stmt *st = NULL;
    sqlite_store_release(s);
    int rc =
        sqlite_prepare(db,
                       "SELECT uri, etag, size, modified, name, title, description, mime,"
                       " icons, audience, priority, subscribable, content, meta FROM main.published"
                       " WHERE content IS NOT NULL",
                       &st, err);
    while (rc == 0 && (rc = sqlite_step(db, st, err)) == 1) {
        struct published_row row = {
            .about =
                {
                    .uri = sqlite_str(st, 0),
                    .etag = sqlite_str(st, 1),
                    .size = sqlite_int(st, 2),
                    .has_size = true,
                    .modified_ms = sqlite_int(st, 3),
                    .name = sqlite_str(st, 4),
                    .title = sqlite_str(st, 5),
                    .description = sqlite_str(st, 6),
                    .mime_type = sqlite_str(st, 7),
                    .icons = sqlite_str(st, 8),
                    .audience = sqlite_str(st, 9),
                    .not_subscribable = sqlite_int(st, 11) == 0,
                    .meta = sqlite_str(st, 13),
                },
            .content = sqlite_bytes(st, 12),
        };
        resource_set_priority_bits(&row.about, sqlite_int(st, 10));
        rc = fn(user, &row, err);
        rc = rc < 0 ? rc : 0;
    }
    sqlite_finalize(st);
    return rc < 0 ? rc : 0;
}

/* -------------------------------------------------------------------------------------------------
 * Tasks in SQLite: written when they begin and when they end.
 */

/* Returns 1 if it has ended. */
static int sqlite_tasks_has_ended(struct sqlite_store *s, struct tidings_str id,
                                  struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_statement(s, TASK_HAS_ENDED, &st, err);
    if (rc < 0) {
        return rc;
    }
    sqlite_bind_str(st, 1, id);
    rc = sqlite_step(s->db, st, err);
    sqlite_reset(st);
    return rc;
}

static int sqlite_tasks_put(struct store *store, const struct stored_task *task,
                            struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    struct sqlite3_stmt *st = NULL;
    sqlite_store_release(s);
    int rc = sqlite_tasks_has_ended(s, task->id, err);
    if (rc == 1) {
        return tidings_fail(err, TIDINGS_E_CONFLICT, "the task has ended already");
    }
    rc = rc == 0 ? sqlite_statement(s, PUT_TASK, &st, err) : rc;
    if (rc < 0) {
        return rc;
    }
    sqlite_bind_str(st, 1, task->id);
    sqlite_bind_str(st, 2, task->client);
    sqlite_bind_str(st, 3, task->status);
    sqlite_bind_int(st, 4, task->created_ms);
    sqlite_bind_int(st, 5, task->updated_ms);
    sqlite_bind_int(st, 6, task->ttl_ms);
    sqlite_bind_str(st, 7, task->message);
    sqlite_bind_str(st, 8, task->payload);
    return sqlite_run(s->db, st, err);
}

static int sqlite_tasks_sweep(struct store *store, int64_t now_ms, struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    struct sqlite3_stmt *st = NULL;
    sqlite_store_release(s);
    int rc = sqlite_statement(s, SWEEP_TASKS, &st, err);
    if (rc < 0) {
        return rc;
    }
    sqlite_bind_int(st, 1, now_ms);
    return sqlite_run(s->db, st, err);
}

static struct stored_task sqlite_tasks_row(struct sqlite3_stmt *st)
{
    return (struct stored_task){
        .id = sqlite_str(st, 0),
        .client = sqlite_str(st, 1),
        .status = sqlite_str(st, 2),
        .created_ms = sqlite_int(st, 3),
        .updated_ms = sqlite_int(st, 4),
        .ttl_ms = sqlite_int(st, 5),
        .message = sqlite_str(st, 6),
        .payload = sqlite_str(st, 7),
    };
}

static int sqlite_tasks_each(struct store *store, stored_task_fn fn, void *user,
                             struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    struct sqlite3_stmt *st = NULL;
    sqlite_store_release(s);
    int rc = sqlite_prepare(s->db,
                            "SELECT id, client, status, created, updated, ttl, message, payload "
                            "FROM main.tasks ORDER BY id",
                            &st, err);
    while (rc == 0 && (rc = sqlite_step(s->db, st, err)) == 1) {
        const struct stored_task task = sqlite_tasks_row(st);
        fn(user, &task);
        rc = 0;
    }
    sqlite_finalize(st);
    return rc < 0 ? rc : 0;
}

/* ---------------------------------------------------------------------------------------------- */

static const struct store_ops sqlite_ops;

struct sqlite_store *sqlite_store_of(struct store *store)
{
    assert(store->ops == &sqlite_ops);
    return (struct sqlite_store *)(void *)store;
}

void sqlite_store_release(struct sqlite_store *s)
{
    if (s->handed_out) {
        sqlite_reset(s->handed_out);
        s->handed_out = NULL;
    }
}

static uint64_t sqlite_position(struct store *store)
{
    return (uint64_t)sqlite_store_of(store)->last_seq;
}

/* ---- versions -------------------------------------------------------------------------------- */

/* The position of a version in the log, and its start. */
struct version_row {
    int64_t seq, from;
};

/* 1, or 0 if there is none. */
static int find_version_row(struct sqlite_store *s, enum statement which, struct tidings_str id,
                            int64_t at, struct version_row *ret, struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_statement(s, which, &st, err);
    if (rc < 0) {
        return rc;
    }
    sqlite_bind_str(st, 1, id);
    sqlite_bind_int(st, 2, at);
    rc = sqlite_step(s->db, st, err);
    if (rc == 1) {
        *ret = (struct version_row){sqlite_int(st, 0), sqlite_int(st, 1)};
    }
    sqlite_reset(st);
    return rc;
}

static int find_at(struct sqlite_store *s, struct tidings_str id, int64_t at,
                   struct version_row *ret, struct tidings_error *err)
{
    int rc = find_version_row(s, FRESH_AT, id, at, ret, err);
    return rc != 0 ? rc : find_version_row(s, KNOWN_AT, id, at, ret, err);
}

/* The version after the one that begins at `from`; none: TIMELINE_FOREVER. */
static int find_next(struct sqlite_store *s, struct tidings_str id, int64_t from,
                     struct version_row *ret, struct tidings_error *err)
{
    *ret = (struct version_row){0, TIMELINE_FOREVER};
    int rc = find_version_row(s, KNOWN_AFTER, id, from, ret, err);
    return rc != 0 ? rc : find_version_row(s, FRESH_AFTER, id, from, ret, err);
}

static void read_row(struct sqlite3_stmt *st, struct entity_version *v)
{
    *v = (struct entity_version){
        .id = sqlite_str(st, 0),
        .from = sqlite_int(st, 1),
        .to = TIMELINE_FOREVER,
        .type = sqlite_str(st, 2),
        .type_version = sqlite_str(st, 3),
        .parent = sqlite_str(st, 4),
        .deleted = sqlite_int(st, 5) != 0,
        .changed_by = sqlite_str(st, 6),
        .previous = sqlite_str(st, 7),
        .value = sqlite_str(st, 8),
        .created = sqlite_int(st, 9) != 0,
        .since = sqlite_int(st, 10),
        .principal = sqlite_str(st, 11),
        .old_parent = sqlite_str(st, 13),
    };
}

/* The row with that number; it stays in use until released. */
static int sqlite_store_fetch(struct sqlite_store *s, int64_t seq, struct entity_version *ret,
                              struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_statement(s, ROW, &st, err);
    if (rc < 0) {
        return rc;
    }
    sqlite_bind_int(st, 1, seq);
    rc = sqlite_step(s->db, st, err);
    if (rc != 1) {
        sqlite_reset(st);
        return rc < 0 ? rc
                      : tidings_fail(err, TIDINGS_E_INTERNAL, "the log has no row %lld",
                                     (long long)seq);
    }
    read_row(st, ret);
    s->handed_out = st;
    if (!entity_version_is_whole(ret, sqlite_int(st, 12))) {
        return tidings_fail(err, TIDINGS_E_INTERNAL,
                            "stored entity '%.*s' is damaged: restore a copy of the store",
                            STR_ARG(ret->id));
    }
    return 1;
}

static int sqlite_find(struct store *store, struct tidings_str id, int64_t at,
                       struct entity_version *ret, struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    sqlite_store_release(s);
    struct version_row row, next = {0, TIMELINE_FOREVER};
    const struct entity_version *head = at == TIMELINE_FOREVER ? latest_find(&s->latest, id) : NULL;
    if (head) {
        *ret = *head;
        return 1;
    }
    int rc = find_at(s, id, at, &row, err);
    if (rc == 1 && at != TIMELINE_FOREVER) {
        int found = find_next(s, id, row.from, &next, err);
        rc = found < 0 ? found : 1;
    }
    if (rc == 1) {
        rc = sqlite_store_fetch(s, row.seq, ret, err);
    }
    if (rc == 1) {
        ret->to = next.from;
    }
    return rc;
}

static int sqlite_nth(struct store *store, struct tidings_str id, int64_t n, int64_t *ret_from,
                      struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    sqlite_store_release(s);
    struct version_row fresh = {0, 0}, found = {0, 0};
    int rc = n < 1 ? 0 : find_version_row(s, FRESH_COUNT, id, TIMELINE_NEVER, &fresh, err);
    if (rc == 1) {
        bool is_fresh = n <= fresh.seq; /* the number of rows */
        rc = find_version_row(s, is_fresh ? FRESH_NTH : KNOWN_NTH, id,
                              n - 1 - (is_fresh ? 0 : fresh.seq), &found, err);
    }
    *ret_from = found.from;
    return rc;
}

static int sqlite_history(struct store *store, struct tidings_str id, int64_t first,
                          entity_version_fn fn, void *user, struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    sqlite_store_release(s);
    struct version_row row, next;
    int rc = find_next(s, id, first == TIMELINE_NEVER ? first : first - 1, &row, err);
    for (bool go_on = true; rc == 1 && go_on; row = next) {
        struct entity_version v;
        int more = find_next(s, id, row.from, &next, err);
        rc = more < 0 ? more : sqlite_store_fetch(s, row.seq, &v, err);
        if (rc == 1) {
            v.to = next.from;
            go_on = fn(user, &v) && more == 1;
            sqlite_store_release(s);
        }
    }
    return rc < 0 ? rc : 0;
}

int sqlite_store_append(struct sqlite_store *s, const struct entity_version *v, int64_t replaces,
                        int64_t forget, struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_statement(s, APPEND, &st, err);
    if (rc < 0) {
        return rc;
    }
    sqlite_bind_int(st, 1, s->last_seq + 1);
    sqlite_bind_str(st, 2, v->id);
    sqlite_bind_int(st, 3, v->from);
    sqlite_bind_int(st, 4, replaces);
    sqlite_bind_int(st, 5, forget);
    sqlite_bind_str(st, 6, v->type);
    sqlite_bind_str(st, 7, v->type_version);
    sqlite_bind_str(st, 8, v->parent);
    sqlite_bind_int(st, 9, v->deleted);
    sqlite_bind_str(st, 10, v->changed_by);
    sqlite_bind_str(st, 11, v->previous);
    sqlite_bind_str(st, 12, v->value);
    sqlite_bind_int(st, 13, v->created);
    sqlite_bind_int(st, 14, s->now_ms);
    sqlite_bind_int(st, 15, v->since);
    sqlite_bind_str(st, 16, v->principal);
    sqlite_bind_int(st, 17, entity_version_checksum(v));
    sqlite_bind_str(st, 18, v->old_parent);
    rc = sqlite_run(s->db, st, err);
    s->last_seq += rc == 0;
    return rc;
}

/* Removes the version that began at `from`. */
static int sqlite_store_hide(struct sqlite_store *s, struct tidings_str id, int64_t from,
                             struct tidings_error *err)
{
    static const enum statement both[] = {REMOVE_FRESH, ADD_GONE};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < 2; i++) {
        struct sqlite3_stmt *st = NULL;
        rc = sqlite_statement(s, both[i], &st, err);
        if (rc == 0) {
            sqlite_bind_str(st, 1, id);
            sqlite_bind_int(st, 2, from);
            rc = sqlite_run(s->db, st, err);
        }
    }
    return rc;
}

/* Adds a row of the log to the in-memory tables. */
static int sqlite_store_enter(struct sqlite_store *s, const struct sqlite_log_row *p,
                              struct tidings_error *err)
{
    s->n_fresh++;
    if (p->forget != TIMELINE_NEVER) {
        return sqlite_store_hide(s, p->id, p->forget, err);
    }
    int rc = p->replaces != TIMELINE_NEVER ? sqlite_store_hide(s, p->id, p->replaces, err) : 0;
    struct sqlite3_stmt *st = NULL;
    rc = rc == 0 ? sqlite_statement(s, ADD_FRESH, &st, err) : rc;
    if (rc < 0) {
        return rc;
    }
    sqlite_bind_str(st, 1, p->id);
    sqlite_bind_int(st, 2, p->from);
    sqlite_bind_int(st, 3, p->seq);
    return sqlite_run(s->db, st, err);
}

int sqlite_store_leave(struct sqlite_store *s, const struct entity_version *v,
                       struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_statement(s, ADD_MOVED, &st, err);
    if (rc < 0) {
        return rc;
    }
    sqlite_bind_int(st, 1, s->last_seq + 1);
    sqlite_bind_str(st, 2, v->id);
    sqlite_bind_str(st, 3, v->type);
    sqlite_bind_str(st, 4, v->old_type_version);
    sqlite_bind_str(st, 5, v->type_version);
    sqlite_bind_int(st, 6, v->from);
    rc = sqlite_run(s->db, st, err);
    s->last_seq += rc == 0;
    return rc;
}

static int sqlite_put(struct store *store, const struct entity_version *version,
                      bool replaces_current, struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    sqlite_store_release(s);
    struct version_row current = {0, TIMELINE_NEVER};
    int rc = replaces_current ? find_at(s, version->id, TIMELINE_FOREVER, &current, err) : 0;
    rc = rc < 0 ? rc : version->old_type_version.len > 0 ? sqlite_store_leave(s, version, err) : 0;
    rc = rc < 0 ? rc : sqlite_store_append(s, version, current.from, TIMELINE_NEVER, err);
    const struct sqlite_log_row row = {
        .id = version->id,
        .from = version->from,
        .replaces = current.from,
        .forget = TIMELINE_NEVER,
        .seq = s->last_seq,
    };
    rc = rc < 0 ? rc : sqlite_store_enter(s, &row, err);
    if (rc == 0) {
        latest_put(&s->latest, version);
    }
    return rc;
}

static int sqlite_forget(struct store *store, struct tidings_str id, int64_t end,
                         struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    sqlite_store_release(s);
    for (;;) {
        struct version_row oldest, next;
        int rc = find_next(s, id, TIMELINE_NEVER, &oldest, err);
        rc = rc == 1 ? find_next(s, id, oldest.from, &next, err) : rc;
        if (rc != 1 || next.from > end) {
            return rc < 0 ? rc : 0;
        }
        const struct entity_version nothing = {.id = id, .from = oldest.from};
        const struct sqlite_log_row row = {.id = id, .forget = oldest.from};
        rc = sqlite_store_append(s, &nothing, TIMELINE_NEVER, oldest.from, err);
        rc = rc == 0 ? sqlite_store_enter(s, &row, err) : rc;
        if (rc < 0) {
            return rc;
        }
    }
}

static int sqlite_list(struct store *store, const struct entity_scope *scope,
                       struct tidings_str after, entity_version_fn fn, void *user,
                       struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    sqlite_store_release(s);
    enum statement which = scope->type.len == 0           ? LIST_ALL
                           : scope->type_version.len == 0 ? LIST_TYPE
                                                          : LIST_VERSION;
    which += scope->by_parent ? LIST_PARENT - LIST_ALL : 0;
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_statement(s, which, &st, err);
    if (rc < 0) {
        return rc;
    }
    sqlite_bind_str(st, 1, after);
    sqlite_bind_int(st, 2, scope->deleted);
    if (scope->type.len > 0) {
        sqlite_bind_str(st, 3, scope->type);
    }
    if (scope->type.len > 0 && scope->type_version.len > 0) {
        sqlite_bind_str(st, 4, scope->type_version);
    }
    if (scope->by_parent) {
        sqlite_bind_str(st, 5, scope->parent);
    }
    while ((rc = sqlite_step(s->db, st, err)) == 1) {
        struct entity_version v;
        read_row(st, &v);
        if (!fn(user, &v)) {
            rc = 0;
            break;
        }
    }
    sqlite_reset(st);
    return rc;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int sqlite_idle(struct store *store, struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    sqlite_store_release(s);
    return sqlite_apply(s, err);
}

static void sqlite_destroy(struct store *store)
{
    if (!store) {
        return;
    }
    struct sqlite_store *s = sqlite_store_of(store);
    for (size_t i = 0; i < STATEMENTS; i++) {
        sqlite_finalize(s->statements[i]);
    }
    latest_clear(&s->latest);
    sqlite_close(s->db);
    mem_free(s);
}

static int sqlite_check_whole(struct sqlite_store *s, struct tidings_error *err)
{
    int64_t is_copying = 0;
    int rc = sqlite_transfer_is_copying(s, &is_copying, err);
    return rc == 0 && is_copying ? tidings_fail(err, TIDINGS_E_BUSY,
                                                "an unfinished copy is in it; 'tidings store copy' "
                                                "with the same names resumes it")
                                 : rc;
}

/* Continues without the lost commits. Cursors of earlier runs can refer to a later state. The log
 * is truncated, because frames after the damage would look like another loss. */
static int sqlite_store_accept(struct sqlite_store *s, struct tidings_error *err)
{
    int rc = sqlite_exec(s->db, "DELETE FROM main.epochs", err);
    return rc == 0 ? sqlite_cut_log(s->db, err) : rc;
}

static int sqlite_store_load(const char *path, bool is_target, bool is_lossy, struct store **ret,
                             struct tidings_error *err)
{
    struct sqlite *db = NULL;
    int rc = sqlite_open(path, &db, err);
    if (rc < 0) {
        return rc;
    }
    struct sqlite_store *s = mem_zalloc(sizeof(*s));
    if (!s) {
        sqlite_close(db);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    s->base.ops = &sqlite_ops;
    s->db = db;
    rc = sqlite_store_lay_out(s, err);
    rc = rc == 0 && !is_target ? sqlite_check_whole(s, err) : rc;
    rc = rc == 0 ? sqlite_store_recover(s, err) : rc;
    rc = rc == 0 && is_lossy ? sqlite_store_accept(s, err) : rc;
    if (rc < 0) {
        sqlite_destroy(&s->base);
        return error_wrap(err, rc, "database '%s'", path);
    }
    *ret = &s->base;
    return 0;
}

/* `loss` NULL: a store that lost data is rejected. */
static int sqlite_store_open_as(const char *path, bool is_target, struct tidings_error *loss,
                                struct store **ret, struct tidings_error *err)
{
    struct commit_marker *making = NULL;
    int rc = sqlite_check_ours(path, &sqlite_store_layout, err);
    if (loss) {
        *loss = (struct tidings_error){0};
    }
    int lost = rc == 0 ? sqlite_loss_check(path, loss ? loss : err) : 0;
    if (rc < 0 || (lost < 0 && !loss)) {
        return rc < 0 ? rc : error_wrap(err, lost, "database '%.100s'", path);
    }
    sqlite_loss_expect(path, &making);
    rc = sqlite_store_load(path, is_target, lost < 0, ret, err);
    sqlite_loss_expect_no_more(path, making);
    return rc;
}

int sqlite_store_open(const char *path, struct store **ret, struct tidings_error *err)
{
    return sqlite_store_open_as(path, false, NULL, ret, err);
}

int sqlite_store_open_lossy(const char *path, struct tidings_error *ret_loss, struct store **ret,
                            struct tidings_error *err)
{
    return sqlite_store_open_as(path, false, ret_loss, ret, err);
}

int sqlite_store_open_target(const char *path, struct store **ret, struct tidings_error *err)
{
    return sqlite_store_open_as(path, true, NULL, ret, err);
}

int sqlite_store_limit(struct store *store, int64_t max_bytes, struct tidings_error *err)
{
    char sql[64];
    (void)snprintf(sql, sizeof sql, "PRAGMA max_page_count=%lld", (long long)(max_bytes / 4096));
    return sqlite_exec(sqlite_store_of(store)->db, sql, err);
}

static const struct store_ops sqlite_ops = {
    .name = "sqlite",
    .destroy = sqlite_destroy,
    .begin = sqlite_store_begin,
    .commit = sqlite_store_commit,
    .rollback = sqlite_store_rollback,
    .position = sqlite_position,
    .put = sqlite_put,
    .forget = sqlite_forget,
    .find = sqlite_find,
    .nth = sqlite_nth,
    .history = sqlite_history,
    .list = sqlite_list,
    .put_type = sqlite_store_put_type,
    .types = sqlite_store_types,
    .put_key = sqlite_store_put_key,
    .find_key = sqlite_store_find_key,
    .idle = sqlite_idle,
    .publish = sqlite_published_put,
    .unpublish = sqlite_published_remove,
    .each_published = sqlite_published_each,
    .each_change = sqlite_changes_each,
    .create_changelog = changelog_sqlite_create,
    .transfer = &sqlite_transfer,
    .put_task = sqlite_tasks_put,
    .sweep_tasks = sqlite_tasks_sweep,
    .each_task = sqlite_tasks_each,
};

/* -------------------------------------------------------------------------------------------------
 * The change log of a SQLite file: a log in memory that starts at the end of the file, and the
 * epochs before it. These do not change while the program runs, so any thread can read them.
 */

struct past_epoch {
    uint64_t epoch, last; /* the epoch and its highest position */
};

struct past {
    size_t count;
    struct past_epoch epochs[];
};

/* No changes are announced through this store. */
static bool past_resume(void *user, uint64_t epoch, uint64_t position, bool is_durable,
                        uint64_t *ret)
{
    (void)is_durable;
    const struct past *past = user;
    for (size_t i = 0; i < past->count; i++) {
        if (past->epochs[i].epoch == epoch) {
            *ret = position;
            return position <= past->epochs[i].last;
        }
    }
    return false;
}

static const struct changelog_durable_ops past_ops = {.resume = past_resume, .destroy = mem_free};

/* ---- epochs ---------------------------------------------------------------------------------- */

static int sqlite_changelog_run(struct sqlite_store *s, const char *sql, int64_t parameter,
                                struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_prepare(s->db, sql, &st, err);
    if (rc == 0) {
        sqlite_bind_int(st, 1, parameter);
        rc = sqlite_run(s->db, st, err);
    }
    sqlite_finalize(st);
    return rc;
}

/* The previous epoch ends at the newest position of the file. */
static int begin_epoch(struct sqlite_store *s, uint64_t epoch, struct tidings_error *err)
{
    int rc = sqlite_exec(s->db, "BEGIN IMMEDIATE", err);
    rc = rc == 0 ? sqlite_changelog_run(s, "UPDATE main.epochs SET last=?1 WHERE last IS NULL",
                                        s->last_seq, err)
                 : rc;
    rc = rc == 0 ? sqlite_changelog_run(s, "INSERT INTO main.epochs(epoch) VALUES(?1)",
                                        (int64_t)epoch, err)
                 : rc;
    rc = rc == 0 ? sqlite_changelog_run(s, "UPDATE main.epochs SET first=?1 WHERE last IS NULL",
                                        s->last_seq, err)
                 : rc;
    rc = rc == 0 ? sqlite_changelog_run(
                       s,
                       "DELETE FROM main.epochs WHERE number<=(SELECT max(number) FROM main.epochs)"
                       "-?1",
                       SQLITE_MAX_EPOCHS, err)
                 : rc;
    rc = rc == 0 ? sqlite_exec(s->db, "COMMIT", err) : rc;
    if (rc < 0) {
        sqlite_roll_back(s->db);
    }
    return rc;
}

static int read_past(struct sqlite_store *s, struct past *past, size_t room,
                     struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_prepare(s->db, "SELECT epoch, last FROM main.epochs WHERE last IS NOT NULL",
                            &st, err);
    while (rc == 0 && past->count < room && (rc = sqlite_step(s->db, st, err)) == 1) {
        past->epochs[past->count++] =
            (struct past_epoch){(uint64_t)sqlite_int(st, 0), (uint64_t)sqlite_int(st, 1)};
        rc = 0;
    }
    sqlite_finalize(st);
    return rc;
}

int changelog_sqlite_create(struct store *store, const struct changelog_limits *limits,
                            struct changelog **ret, struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    sqlite_store_release(s);
    struct past *past = mem_zalloc(sizeof(*past) + SQLITE_MAX_EPOCHS * sizeof(past->epochs[0]));
    struct changelog *log = NULL;
    int rc =
        past ? changelog_durable_create(limits, (uint64_t)s->last_seq, &past_ops, past, &log, err)
             : tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    if (rc < 0) {
        mem_free(past);
        return rc;
    }
    rc = begin_epoch(s, log->ops->epoch(log), err);
    struct tidings_error why;
    if (rc == 0 && sqlite_keep_mark(s->db, log->ops->epoch(log), s->last_seq, &why) < 0) {
        log_warn(LOG_STORE, "a store that is damaged may not be noticed", KV("reason", why.text));
    }
    rc = rc == 0 ? read_past(s, past, SQLITE_MAX_EPOCHS, err) : rc;
    if (rc < 0) {
        log->ops->destroy(log);
        return rc;
    }
    *ret = log;
    return 0;
}

/* ---- contents of the file -------------------------------------------------------------------- */

/* The columns of each kind mean: kind, seq, id or URI, from or modified, type or previous URI,
 * version or target, parent, deleted or removed, created, changed by, old type version, etag, size,
 * write time, principal, metadata, not subscribable, old parent. Rows that only record the removal
 * of a version are omitted. */
static const char changes[] =
    "SELECT 0, l.seq, l.id, l.vfrom, l.type, l.tversion, l.parent, l.deleted, l.created,"
    " l.changed_by, m.tversion, '', 0, l.at, l.principal, '', 0, l.old_parent FROM main.log l LEFT "
    "JOIN "
    "main.moved "
    "m ON "
    "m.seq=l.seq-1 AND"
    " m.id=l.id WHERE l.seq>?1 AND l.forget=?2"
    " UNION ALL SELECT 1, m.seq, m.id, m.vfrom, m.type, m.became, l.parent, 0, 0,"
    " coalesce(l.changed_by, '[]'), m.tversion, '', 0, l.at, l.principal, '', 0,"
    " coalesce(l.old_parent, '') FROM main.moved m "
    "LEFT"
    " JOIN main.log l ON l.seq=m.seq+1 AND l.id=m.id WHERE m.seq>?1"
    " UNION ALL SELECT 2, max(seq), '', 0, '', '', '', 0, 0, '', '', '', 0, NULL, '', '', 0, '' "
    "FROM"
    " main.types"
    " HAVING max(seq)>?1"
    " UNION ALL SELECT 3, seq, uri, modified, '', '', '', content IS NULL, created, '', '', etag,"
    " size, at, '', metadata, subscribable=0, '' FROM main.published WHERE seq>?1"
    " UNION ALL SELECT 4, seq, uri, modified, came_from, target, '', kind=?4, kind=?3, '', '', "
    "etag,"
    " size, at, '', '', subscribable=0, '' FROM main.file_changes WHERE seq>?1"
    " UNION ALL SELECT 4, created, uri, modified, came_from, target, '', 0, 1, '', '', etag, size,"
    " at, '', '', subscribable=0, '' FROM main.file_changes WHERE created>?1 ORDER BY 2";

static void read_change(struct sqlite3_stmt *st, struct log_entry *c)
{
    *c = (struct log_entry){
        .kind = (enum log_entry_kind)sqlite_int(st, 0),
        .position = (uint64_t)sqlite_int(st, 1),
        .uri = sqlite_str(st, 2),
        .modified_ms = sqlite_int(st, 3),
        .removed = sqlite_int(st, 7) != 0,
        .created = sqlite_int(st, 8) != 0,
        .old_type_version = sqlite_str(st, 10),
        .etag = sqlite_str(st, 11),
        .size = sqlite_int(st, 12),
        .at_ms = sqlite_int(st, 13),
        .metadata = sqlite_str(st, 15),
        .not_subscribable = sqlite_int(st, 16) != 0,
        .came_from = sqlite_str(st, 4),
        .target = sqlite_str(st, 5),
    };
    c->version = (struct entity_version){
        .id = c->uri,
        .from = c->modified_ms,
        .to = TIMELINE_FOREVER,
        .type = sqlite_str(st, 4),
        .type_version = sqlite_str(st, 5),
        .parent = sqlite_str(st, 6),
        .deleted = c->removed,
        .created = c->created,
        .changed_by = sqlite_str(st, 9),
        .principal = sqlite_str(st, 14),
        .old_parent = sqlite_str(st, 17),
    };
}

int sqlite_changes_each(struct store *store, size_t max, uint64_t *ret_floor, log_entry_fn fn,
                        void *user, struct tidings_error *err)
{
    struct sqlite_store *s = sqlite_store_of(store);
    struct sqlite3_stmt *st = NULL;
    int64_t floor = 0;
    sqlite_store_release(s);
    int rc = sqlite_store_number(s, "SELECT floor FROM main.state", &floor, err);
    if ((uint64_t)s->last_seq > max && s->last_seq - (int64_t)max > floor) {
        floor = s->last_seq - (int64_t)max;
    }
    rc = rc == 0 ? sqlite_prepare(s->db, changes, &st, err) : rc;
    if (rc == 0) {
        sqlite_bind_int(st, 1, floor);
        sqlite_bind_int(st, 2, TIMELINE_NEVER);
        sqlite_bind_int(st, 3, TIDINGS_CHANGE_CREATED);
        sqlite_bind_int(st, 4, TIDINGS_CHANGE_DELETED);
    }
    bool more = true;
    while (rc == 0 && more && (rc = sqlite_step(s->db, st, err)) == 1) {
        struct log_entry change;
        read_change(st, &change);
        more = fn(user, &change);
        rc = 0;
    }
    sqlite_finalize(st);
    *ret_floor = (uint64_t)floor;
    return rc;
}
