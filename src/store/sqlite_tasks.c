/* SPDX-License-Identifier: MIT
 *
 * Tasks in SQLite: written when they begin and when they end.
 */
#include "store/sqlite_tasks.h"

#include "base/str.h"
#include "store/sqlite_private.h"

/* 1: it has. */
static int sqlite_tasks_has_ended(struct sqlite_entities *s, struct tidings_str id,
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

int sqlite_tasks_put(struct entity_rows *rows, const struct kept_task *task,
                     struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    struct sqlite3_stmt *st = NULL;
    sqlite_entities_release(s);
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

int sqlite_tasks_sweep(struct entity_rows *rows, int64_t now_ms, struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    struct sqlite3_stmt *st = NULL;
    sqlite_entities_release(s);
    int rc = sqlite_statement(s, SWEEP_TASKS, &st, err);
    if (rc < 0) {
        return rc;
    }
    sqlite_bind_int(st, 1, now_ms);
    return sqlite_run(s->db, st, err);
}

struct kept_task sqlite_tasks_row(struct sqlite3_stmt *st, int first)
{
    return (struct kept_task){
        .id = sqlite_str(st, first),
        .client = sqlite_str(st, first + 1),
        .status = sqlite_str(st, first + 2),
        .created_ms = sqlite_int(st, first + 3),
        .updated_ms = sqlite_int(st, first + 4),
        .ttl_ms = sqlite_int(st, first + 5),
        .message = sqlite_str(st, first + 6),
        .payload = sqlite_str(st, first + 7),
    };
}

int sqlite_tasks_each(struct entity_rows *rows, kept_task_fn fn, void *user,
                      struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    struct sqlite3_stmt *st = NULL;
    sqlite_entities_release(s);
    int rc = sqlite_prepare(s->db, "SELECT " SQLITE_TASK_COLUMNS " FROM main.tasks", &st, err);
    while (rc == 0 && (rc = sqlite_step(s->db, st, err)) == 1) {
        const struct kept_task task = sqlite_tasks_row(st, 0);
        fn(user, &task);
        rc = 0;
    }
    sqlite_finalize(st);
    return rc < 0 ? rc : 0;
}
