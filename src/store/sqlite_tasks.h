/* SPDX-License-Identifier: MIT
 *
 * Tasks of tools in the same file as the entities: a row for each, until its time to live has
 * passed. No change is numbered for them.
 */
#ifndef STORE_SQLITE_TASKS_H
#define STORE_SQLITE_TASKS_H

#include "store/kept.h"

struct sqlite3_stmt;

/* Operations of struct kept_ops. */
int sqlite_tasks_put(struct entity_rows *rows, const struct kept_task *task,
                     struct tidings_error *err);
int sqlite_tasks_sweep(struct entity_rows *rows, int64_t now_ms, struct tidings_error *err);
int sqlite_tasks_each(struct entity_rows *rows, kept_task_fn fn, void *user,
                      struct tidings_error *err);

/* A row of SQLITE_TASK_COLUMNS, from that column on. */
#define SQLITE_TASK_COLUMNS "id, client, status, created, updated, ttl, message, payload"
struct kept_task sqlite_tasks_row(struct sqlite3_stmt *st, int first);

#endif
