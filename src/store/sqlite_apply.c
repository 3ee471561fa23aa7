/* SPDX-License-Identifier: MIT
 *
 * Bringing the tables of versions up to the log of a SQLite store: where versions are to be found
 * moves from tables in memory into those of the file, and rows that nobody can reach any more leave
 * the log. In the order of ids, so that pages are written once.
 *
 * A crash in between loses nothing: either the transaction is there, with `applied`, or it is not.
 */
#include "base/list.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/sqlite_private.h"

/* `current` follows the newest version of every entity that a fresh or a gone version belongs to.
 */
static const char apply[] =
    "BEGIN IMMEDIATE;"
    "DELETE FROM main.log WHERE seq IN (SELECT v.seq FROM main.versions v JOIN temp.gone g ON"
    " g.id=v.id AND g.vfrom=v.vfrom);"
    "DELETE FROM main.versions WHERE (id, vfrom) IN (SELECT id, vfrom FROM temp.gone);"
    /* Replaced or forgotten before they were ever applied, and the notes that say so. */
    "DELETE FROM main.log WHERE seq>(SELECT applied FROM main.state) AND NOT EXISTS("
    "SELECT 1 FROM temp.fresh f WHERE f.id=log.id AND f.vfrom=log.vfrom AND f.seq=log.seq);"
    "INSERT INTO main.versions SELECT id, vfrom, seq FROM temp.fresh ORDER BY id, vfrom;"
    "INSERT OR REPLACE INTO main.current SELECT l.id, l.type, l.tversion, l.parent, l.deleted,"
    " l.seq FROM (SELECT id, max(vfrom) AS vfrom FROM temp.fresh GROUP BY id) f"
    " JOIN main.versions v ON v.id=f.id AND v.vfrom=f.vfrom JOIN main.log l ON l.seq=v.seq;"
    "DELETE FROM temp.fresh;"
    "DELETE FROM temp.gone;";

int sqlite_apply(struct sqlite_entities *s, struct tidings_error *err)
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

int sqlite_entities_number(struct sqlite_entities *s, const char *sql, int64_t *ret,
                           struct tidings_error *err)
{
    struct sqlite3_stmt *st = NULL;
    int rc = sqlite_prepare(s->db, sql, &st, err);
    rc = rc == 0 ? sqlite_step(s->db, st, err) : rc;
    *ret = rc == 1 ? sqlite_int(st, 0) : 0;
    sqlite_finalize(st);
    return rc < 0 ? rc : 0;
}

/* Numbers of rows that are gone stay used. */
int sqlite_entities_newest(struct sqlite_entities *s, int64_t *ret, struct tidings_error *err)
{
    return sqlite_entities_number(
        s,
        "SELECT max(applied, floor, ifnull((SELECT max(seq) FROM main.log), 0),"
        " ifnull((SELECT max(seq) FROM main.moved), 0),"
        " ifnull((SELECT max(seq) FROM main.types), 0),"
        " ifnull((SELECT max(seq) FROM main.published), 0),"
        " ifnull((SELECT max(seq) FROM main.file_changes), 0)) FROM main.state",
        ret, err);
}

int sqlite_entities_recover(struct sqlite_entities *s, struct tidings_error *err)
{
    int rc = sqlite_entities_newest(s, &s->last_seq, err);
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
        rc = sqlite_entities_enter(s, &row, err);
    }
    sqlite_finalize(st);
    return rc;
}
