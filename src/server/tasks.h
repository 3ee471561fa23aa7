/* SPDX-License-Identifier: MIT
 *
 * Tasks of tools in the store, and as resources below tidings://tasks/.
 */
#ifndef SERVER_TASKS_H
#define SERVER_TASKS_H

#include "engine/protocol/tasks.h"

struct hub;
struct commit_thread;
struct loop;
struct loop_timer;

/* Where tasks are kept, and served. */
struct server_tasks {
    /* set first */
    struct hub *hub;
    struct loop *loop;
    struct tasks *tasks;
    struct limit_counters *limits;

    struct task_store store;
    struct commit_thread *commit_thread;
    struct tidings_provider *provider; /* tidings://tasks/; NULL: there is none */
    /* Of a store that nodes share: */
    struct loop_timer *timer; /* looks for those that are over */
    bool is_looking;          /* atomic: it is under way */
    uint64_t
        checks_at; /* the commit thread's, clock_monotonic_ms: nodes are taken for gone from then */
};

/* Take over those that the store has (`commit_thread` NULL: none is kept); then mount
 * tidings://tasks/, if there are any or a tool makes some. */
int server_tasks_mount(struct server_tasks *o, struct commit_thread *commit_thread,
                       struct tidings_error *err);
/* The store is closed, and no worker runs. */
void server_tasks_close(struct server_tasks *o);

/* On the commit thread: another node said that this one has changed; the store has lost what was
 * committed. */
void server_tasks_followed(struct server_tasks *o, struct tidings_str uri);
void server_tasks_on_data_loss(struct server_tasks *o);
/* On the commit thread: the store cannot be reached, or can again. */
void server_tasks_reach(struct server_tasks *o, bool is_unreachable);

#endif
