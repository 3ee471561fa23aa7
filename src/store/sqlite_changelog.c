/* SPDX-License-Identifier: MIT
 *
 * The change log beside a file of SQLite: one in memory that begins where the file ends, and the
 * epochs before it. These do not change while the program runs, so any thread may ask for them.
 */
#include "store/sqlite_changelog.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/changelog_durable.h"
#include "store/sqlite_private.h"

struct past_epoch {
    uint64_t epoch, last; /* the highest position reached in it */
};

struct past {
    size_t count;
    struct past_epoch epochs[];
};

/* Nothing is announced through it. */
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

static int sqlite_changelog_run(struct sqlite_entities *s, const char *sql, int64_t parameter,
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

/* The epoch before this one came as far as the file does now. */
static int begin_epoch(struct sqlite_entities *s, uint64_t epoch, struct tidings_error *err)
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

static int read_past(struct sqlite_entities *s, struct past *past, size_t room,
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

int changelog_sqlite_create(struct entity_rows *rows, const struct changelog_limits *limits,
                            struct changelog **ret, struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    sqlite_entities_release(s);
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

/* ---- what the file knows --------------------------------------------------------------------- */

/* The columns of each kind stand for: kind, seq, id or URI, from or modified, type or where it came
 * from, version or target, parent, deleted or removed, created, changed by, old type version, etag,
 * size, when it was written, principal, metadata, not subscribable. Rows that only say that a
 * version was forgotten are none. */
static const char changes[] =
    "SELECT 0, l.seq, l.id, l.vfrom, l.type, l.tversion, l.parent, l.deleted, l.created,"
    " l.changed_by, m.tversion, '', 0, l.at, l.principal, '', 0 FROM main.log l LEFT JOIN "
    "main.moved "
    "m ON "
    "m.seq=l.seq-1 AND"
    " m.id=l.id WHERE l.seq>?1 AND l.forget=?2"
    " UNION ALL SELECT 1, m.seq, m.id, m.vfrom, m.type, m.became, l.parent, 0, 0,"
    " coalesce(l.changed_by, '[]'), m.tversion, '', 0, l.at, l.principal, '', 0 FROM main.moved m "
    "LEFT"
    " JOIN main.log l ON l.seq=m.seq+1 AND l.id=m.id WHERE m.seq>?1"
    " UNION ALL SELECT 2, max(seq), '', 0, '', '', '', 0, 0, '', '', '', 0, NULL, '', '', 0 FROM"
    " main.types"
    " HAVING max(seq)>?1"
    " UNION ALL SELECT 3, seq, uri, modified, '', '', '', content IS NULL, created, '', '', etag,"
    " size, at, '', metadata, subscribable=0 FROM main.published WHERE seq>?1"
    " UNION ALL SELECT 4, seq, uri, modified, came_from, target, '', kind=?4, kind=?3, '', '', "
    "etag,"
    " size, at, '', '', subscribable=0 FROM main.file_changes WHERE seq>?1"
    " UNION ALL SELECT 4, created, uri, modified, came_from, target, '', 0, 1, '', '', etag, size,"
    " at, '', '', subscribable=0 FROM main.file_changes WHERE created>?1 ORDER BY 2";

static void read_change(struct sqlite3_stmt *st, struct kept_change *c)
{
    *c = (struct kept_change){
        .kind = (enum kept_kind)sqlite_int(st, 0),
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
    };
}

int sqlite_changes_each(struct entity_rows *rows, size_t max, uint64_t *ret_floor,
                        kept_change_fn fn, void *user, struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    struct sqlite3_stmt *st = NULL;
    int64_t floor = 0;
    sqlite_entities_release(s);
    int rc = sqlite_entities_number(s, "SELECT floor FROM main.state", &floor, err);
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
        struct kept_change change;
        read_change(st, &change);
        more = fn(user, &change);
        rc = 0;
    }
    sqlite_finalize(st);
    *ret_floor = (uint64_t)floor;
    return rc;
}
