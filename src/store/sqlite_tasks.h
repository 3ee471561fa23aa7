/* SPDX-License-Identifier: MIT
 *
 * Tasks of tools in the same file as the entities: a row for each, until its time to live has
 * passed. No change is numbered for them.
 */
#ifndef STORE_SQLITE_TASKS_H
#define STORE_SQLITE_TASKS_H

#include "store/kept.h"

/* Operations of struct kept_ops. */
int sqlite_tasks_put(struct entity_rows *rows, const struct kept_task *task,
                     struct tidings_error *err);
int sqlite_tasks_sweep(struct entity_rows *rows, int64_t now_ms, struct tidings_error *err);
int sqlite_tasks_each(struct entity_rows *rows, kept_task_fn fn, void *user,
                      struct tidings_error *err);

#endif
