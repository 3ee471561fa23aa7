/* SPDX-License-Identifier: MIT
 *
 * Tasks in SQLite: written when they begin and when they end.
 */
#include "store/sqlite_tasks.h"

#include "base/str.h"
#include "store/sqlite_private.h"

int sqlite_tasks_put(struct entity_rows *rows, const struct kept_task *task,
                     struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    struct sqlite3_stmt *st = NULL;
    sqlite_entities_release(s);
    int rc = sqlite_statement(s, PUT_TASK, &st, err);
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

int sqlite_tasks_each(struct entity_rows *rows, kept_task_fn fn, void *user,
                      struct tidings_error *err)
{
    struct sqlite_entities *s = sqlite_entities_of(rows);
    struct sqlite3_stmt *st = NULL;
    sqlite_entities_release(s);
    int rc = sqlite_prepare(s->db,
                            "SELECT id, client, status, created, updated, ttl, message, payload"
                            " FROM main.tasks",
                            &st, err);
    while (rc == 0 && (rc = sqlite_step(s->db, st, err)) == 1) {
        const struct kept_task task = {
            .id = sqlite_str(st, 0),
            .client = sqlite_str(st, 1),
            .status = sqlite_str(st, 2),
            .created_ms = sqlite_int(st, 3),
            .updated_ms = sqlite_int(st, 4),
            .ttl_ms = sqlite_int(st, 5),
            .message = sqlite_str(st, 6),
            .payload = sqlite_str(st, 7),
        };
        fn(user, &task);
        rc = 0;
    }
    sqlite_finalize(st);
    return rc < 0 ? rc : 0;
}
