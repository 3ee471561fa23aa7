/* SPDX-License-Identifier: MIT
 *
 * Committing batches of entities to SQLite, and making certain what became of one whose commit
 * failed.
 *
 * A commit appends to FILE-wal and syncs it. When appending fails the end of the batch is not in
 * the file, so it has not happened. When only the sync fails it has not happened as far as this
 * connection is concerned, but it is in the file: after a crash it would be found there. So before
 * it is said that it was refused, what holds is copied into the database, the log is cut off, and a
 * commit that changes nothing writes (and syncs) a new beginning of the log, which makes whatever
 * was behind it worthless. If that fails too nobody knows: the batch ends with TIDINGS_E_UNKNOWN,
 * and nothing is written before it has been made certain.
 *
 * A file that somebody removed or replaced is written to by nobody: before each commit the path is
 * compared with what was opened.
 */
#include "base/clock.h"
#include "base/error.h"
#include "store/sqlite_private.h"

/* What a failed commit may have left behind is gone when this returns 0. */
static int make_certain(struct sqlite_entities *s, struct tidings_error *err)
{
    int rc = s->is_uncertain ? sqlite_cut_log(s->db, err) : 0;
    rc = rc == 0 && s->is_uncertain ? sqlite_exec(s->db, "UPDATE main.state SET keys=keys", err)
                                    : rc;
    s->is_uncertain = s->is_uncertain && rc < 0;
    return rc;
}

int sqlite_entities_begin(struct entity_rows *rows, struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    sqlite_entities_release(s);
    s->now_ms = clock_wall_ms();
    s->seq_before = s->last_seq;
    s->fresh_before = s->n_fresh;
    int rc = make_certain(s, err);
    return rc == 0 ? sqlite_statement_run(s, BEGIN, err) : rc;
}

void sqlite_entities_rollback(struct entity_rows *rows)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    sqlite_entities_release(s);
    sqlite_roll_back(s->db);
    heads_clear(&s->heads);
    s->max_keys = 0;
    s->last_seq = s->seq_before;
    s->n_fresh = s->fresh_before;
}

int sqlite_entities_commit(struct entity_rows *rows, struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    sqlite_entities_release(s);
    int rc = sqlite_check_file(s->db, err);
    if (rc == 0) {
        rc = sqlite_statement_run(s, COMMIT, err);
        s->is_uncertain = rc < 0 && !sqlite_has_not_written(s->db);
    }
    if (rc < 0) {
        sqlite_entities_rollback(rows);
        return make_certain(s, NULL) == 0
                   ? rc
                   : error_wrap(err, TIDINGS_E_UNKNOWN,
                                "whether it was kept is not known; read before you try again");
    }
    sqlite_mark(s->db, s->last_seq);
    /* Behind by too much: now, so that memory stays bounded. A failure is tried again later. */
    if (s->n_fresh >= SQLITE_MAX_FRESH) {
        (void)sqlite_apply(s, NULL);
    }
    return 0;
}
