/* SPDX-License-Identifier: MIT
 *
 * Versions of entities in SQLite. What is committed is one row appended to `log` per version, which
 * is what makes a commit cheap; where to find them (`versions`, `current`) is brought up to date
 * later, many at a time (store/sqlite_apply.c).
 *
 * Until then the places of new versions are in tables of the same connection that live in memory
 * (`temp`), so that reads see them and a rollback takes them back with the rest:
 *
 *     temp.fresh  (id, vfrom) -> seq    versions in the log that `versions` does not know yet
 *     temp.gone   (id, vfrom)           versions in `versions` that are forgotten
 *
 * Invariant: the versions of an entity are those in `versions` without those in `gone`, followed by
 * those in `fresh`. After a crash both are made again from the rows of the log with a number above
 * `applied`.
 */
#include "store/sqlite_entities.h"

#include <assert.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/entity_sum.h"
#include "store/sqlite_changelog.h"
#include "store/sqlite_loss.h"
#include "store/sqlite_private.h"
#include "store/sqlite_published.h"
#include "store/sqlite_tasks.h"
#include "store/sqlite_transfer.h"

static const struct entity_rows_ops sqlite_ops;
static const struct kept_ops sqlite_kept;

struct sqlite_entities *sqlite_entities_of(struct entity_rows *rows)
{
    assert(rows->ops == &sqlite_ops);
    return (struct sqlite_entities *)(void *)rows;
}

void sqlite_entities_release(struct sqlite_entities *s)
{
    if (s->handed_out) {
        sqlite_reset(s->handed_out);
        s->handed_out = NULL;
    }
}

static uint64_t sqlite_position(struct entity_rows *rows)
{
    return (uint64_t)sqlite_entities_of(rows)->last_seq;
}

/* ---- versions -------------------------------------------------------------------------------- */

/* Where a version stands in the log, and when it begins. */
struct version_row {
    int64_t seq, from;
};

/* 1, or 0 when there is none. */
static int find_version_row(struct sqlite_entities *s, enum statement which, struct tidings_str id,
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

static int find_at(struct sqlite_entities *s, struct tidings_str id, int64_t at,
                   struct version_row *ret, struct tidings_error *err)
{
    int rc = find_version_row(s, FRESH_AT, id, at, ret, err);
    return rc != 0 ? rc : find_version_row(s, KNOWN_AT, id, at, ret, err);
}

/* The version after that which begins at `from`; without one: TIMELINE_FOREVER. */
static int find_next(struct sqlite_entities *s, struct tidings_str id, int64_t from,
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
    };
}

/* The row with that number; it stays handed out. */
static int sqlite_entities_fetch(struct sqlite_entities *s, int64_t seq, struct entity_version *ret,
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
                            "what is stored of '%.*s' is damaged: put a copy of the store in its "
                            "place",
                            STR_ARG(ret->id));
    }
    return 1;
}

static int sqlite_find(struct entity_rows *rows, struct tidings_str id, int64_t at,
                       struct entity_version *ret, struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    sqlite_entities_release(s);
    struct version_row row, next = {0, TIMELINE_FOREVER};
    const struct entity_version *head = at == TIMELINE_FOREVER ? heads_find(&s->heads, id) : NULL;
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
        rc = sqlite_entities_fetch(s, row.seq, ret, err);
    }
    if (rc == 1) {
        ret->to = next.from;
    }
    return rc;
}

static int sqlite_nth(struct entity_rows *rows, struct tidings_str id, int64_t n, int64_t *ret_from,
                      struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    sqlite_entities_release(s);
    struct version_row fresh = {0, 0}, found = {0, 0};
    int rc = n < 1 ? 0 : find_version_row(s, FRESH_COUNT, id, TIMELINE_NEVER, &fresh, err);
    if (rc == 1) {
        bool is_fresh = n <= fresh.seq; /* which is the count */
        rc = find_version_row(s, is_fresh ? FRESH_NTH : KNOWN_NTH, id,
                              n - 1 - (is_fresh ? 0 : fresh.seq), &found, err);
    }
    *ret_from = found.from;
    return rc;
}

static int sqlite_history(struct entity_rows *rows, struct tidings_str id, int64_t first,
                          entity_version_fn fn, void *user, struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    sqlite_entities_release(s);
    struct version_row row, next;
    int rc = find_next(s, id, first == TIMELINE_NEVER ? first : first - 1, &row, err);
    for (bool go_on = true; rc == 1 && go_on; row = next) {
        struct entity_version v;
        int more = find_next(s, id, row.from, &next, err);
        rc = more < 0 ? more : sqlite_entities_fetch(s, row.seq, &v, err);
        if (rc == 1) {
            v.to = next.from;
            go_on = fn(user, &v) && more == 1;
            sqlite_entities_release(s);
        }
    }
    return rc < 0 ? rc : 0;
}

int sqlite_entities_append(struct sqlite_entities *s, const struct entity_version *v,
                           int64_t replaces, int64_t forget, struct tidings_error *err)
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
    sqlite_bind_int(st, 17, entity_version_sum(v));
    rc = sqlite_run(s->db, st, err);
    s->last_seq += rc == 0;
    return rc;
}

/* The version that began at `from` is no more. */
static int sqlite_entities_hide(struct sqlite_entities *s, struct tidings_str id, int64_t from,
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

int sqlite_entities_enter(struct sqlite_entities *s, const struct sqlite_log_row *p,
                          struct tidings_error *err)
{
    s->n_fresh++;
    if (p->forget != TIMELINE_NEVER) {
        return sqlite_entities_hide(s, p->id, p->forget, err);
    }
    int rc = p->replaces != TIMELINE_NEVER ? sqlite_entities_hide(s, p->id, p->replaces, err) : 0;
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

int sqlite_entities_leave(struct sqlite_entities *s, const struct entity_version *v,
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

static int sqlite_put(struct entity_rows *rows, const struct entity_version *version,
                      bool replaces_current, struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    sqlite_entities_release(s);
    struct version_row current = {0, TIMELINE_NEVER};
    int rc = replaces_current ? find_at(s, version->id, TIMELINE_FOREVER, &current, err) : 0;
    rc = rc < 0                              ? rc
         : version->old_type_version.len > 0 ? sqlite_entities_leave(s, version, err)
                                             : 0;
    rc = rc < 0 ? rc : sqlite_entities_append(s, version, current.from, TIMELINE_NEVER, err);
    const struct sqlite_log_row row = {
        .id = version->id,
        .from = version->from,
        .replaces = current.from,
        .forget = TIMELINE_NEVER,
        .seq = s->last_seq,
    };
    rc = rc < 0 ? rc : sqlite_entities_enter(s, &row, err);
    if (rc == 0) {
        heads_put(&s->heads, version);
    }
    return rc;
}

static int sqlite_forget(struct entity_rows *rows, struct tidings_str id, int64_t end,
                         struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    sqlite_entities_release(s);
    for (;;) {
        struct version_row oldest, next;
        int rc = find_next(s, id, TIMELINE_NEVER, &oldest, err);
        rc = rc == 1 ? find_next(s, id, oldest.from, &next, err) : rc;
        if (rc != 1 || next.from > end) {
            return rc < 0 ? rc : 0;
        }
        const struct entity_version nothing = {.id = id, .from = oldest.from};
        const struct sqlite_log_row row = {.id = id, .forget = oldest.from};
        rc = sqlite_entities_append(s, &nothing, TIMELINE_NEVER, oldest.from, err);
        rc = rc == 0 ? sqlite_entities_enter(s, &row, err) : rc;
        if (rc < 0) {
            return rc;
        }
    }
}

static int sqlite_list(struct entity_rows *rows, const struct entity_scope *scope,
                       struct tidings_str after, entity_version_fn fn, void *user,
                       struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    sqlite_entities_release(s);
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

static int sqlite_idle(struct entity_rows *rows, struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    sqlite_entities_release(s);
    return sqlite_apply(s, err);
}

static void sqlite_destroy(struct entity_rows *rows)
{
    if (!rows) {
        return;
    }
    struct sqlite_entities *s = sqlite_entities_of(rows);
    for (size_t i = 0; i < STATEMENTS; i++) {
        sqlite_finalize(s->statements[i]);
    }
    heads_clear(&s->heads);
    sqlite_close(s->db);
    mem_free(s);
}

static int sqlite_check_whole(struct sqlite_entities *s, struct tidings_error *err)
{
    int64_t is_copying = 0;
    int rc = sqlite_transfer_is_copying(s, &is_copying, err);
    return rc == 0 && is_copying
               ? tidings_fail(err, TIDINGS_E_BUSY,
                              "a copy into it was begun and not ended: 'tidings store copy' with "
                              "the same names goes on with it")
               : rc;
}

/* Go on without the lost commits. Cursors of earlier runs may be of a later state. The log is cut
 * off, since frames after the damage would be taken for another loss. */
static int sqlite_entities_accept(struct sqlite_entities *s, struct tidings_error *err)
{
    int rc = sqlite_exec(s->db, "DELETE FROM main.epochs", err);
    return rc == 0 ? sqlite_cut_log(s->db, err) : rc;
}

static int sqlite_entities_load(const char *path, bool is_target, bool is_lossy,
                                struct entity_rows **ret, struct tidings_error *err)
{
    struct sqlite *db = NULL;
    int rc = sqlite_open(path, &db, err);
    if (rc < 0) {
        return rc;
    }
    struct sqlite_entities *s = mem_zalloc(sizeof(*s));
    if (!s) {
        sqlite_close(db);
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    s->base.ops = &sqlite_ops;
    s->base.kept = &sqlite_kept;
    s->db = db;
    rc = sqlite_entities_lay_out(s, err);
    rc = rc == 0 && !is_target ? sqlite_check_whole(s, err) : rc;
    rc = rc == 0 ? sqlite_entities_recover(s, err) : rc;
    rc = rc == 0 && is_lossy ? sqlite_entities_accept(s, err) : rc;
    if (rc < 0) {
        sqlite_destroy(&s->base);
        return error_wrap(err, rc, "database '%s'", path);
    }
    *ret = &s->base;
    return 0;
}

/* `loss` NULL: what has lost something is refused. */
static int sqlite_entities_open(const char *path, bool is_target, struct tidings_error *loss,
                                struct entity_rows **ret, struct tidings_error *err)
{
    struct commit_marker *making = NULL;
    int rc = sqlite_check_ours(path, &sqlite_entities_layout, err);
    if (loss) {
        *loss = (struct tidings_error){0};
    }
    int lost = rc == 0 ? sqlite_loss_check(path, loss ? loss : err) : 0;
    if (rc < 0 || (lost < 0 && !loss)) {
        return rc < 0 ? rc : error_wrap(err, lost, "database '%.100s'", path);
    }
    sqlite_loss_expect(path, &making);
    rc = sqlite_entities_load(path, is_target, lost < 0, ret, err);
    sqlite_loss_expect_no_more(path, making);
    return rc;
}

int entity_sqlite_open(const char *path, struct entity_rows **ret, struct tidings_error *err)
{
    return sqlite_entities_open(path, false, NULL, ret, err);
}

int entity_sqlite_open_lossy(const char *path, struct tidings_error *ret_loss,
                             struct entity_rows **ret, struct tidings_error *err)
{
    return sqlite_entities_open(path, false, ret_loss, ret, err);
}

int entity_sqlite_open_target(const char *path, struct entity_rows **ret, struct tidings_error *err)
{
    return sqlite_entities_open(path, true, NULL, ret, err);
}

int entity_sqlite_limit(struct entity_rows *rows, int64_t max_bytes, struct tidings_error *err)
{
    char sql[64];
    (void)snprintf(sql, sizeof sql, "PRAGMA max_page_count=%lld", (long long)(max_bytes / 4096));
    return sqlite_exec(sqlite_entities_of(rows)->db, sql, err);
}

static const struct entity_rows_ops sqlite_ops = {
    .name = "sqlite",
    .destroy = sqlite_destroy,
    .begin = sqlite_entities_begin,
    .commit = sqlite_entities_commit,
    .rollback = sqlite_entities_rollback,
    .position = sqlite_position,
    .put = sqlite_put,
    .forget = sqlite_forget,
    .find = sqlite_find,
    .nth = sqlite_nth,
    .history = sqlite_history,
    .list = sqlite_list,
    .put_type = sqlite_entities_put_type,
    .types = sqlite_entities_types,
    .put_key = sqlite_entities_put_key,
    .find_key = sqlite_entities_find_key,
    .idle = sqlite_idle,
};

static const struct kept_ops sqlite_kept = {
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
