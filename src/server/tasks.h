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

/* The storage and the resources of tasks. */
struct server_tasks {
    /* set first */
    struct hub *hub;
    struct loop *loop;
    struct tasks *tasks;
    struct limit_counters *limits;

    struct task_store store;
    struct commit_thread *commit_thread;
    struct tidings_provider *provider; /* tidings://tasks/; NULL: none */
    /* For a store that nodes share: */
    struct loop_timer *timer; /* looks for expired tasks */
    bool is_looking;          /* atomic: a search is in progress */
    uint64_t checks_at;       /* commit thread: clock_monotonic_ms when silent nodes are dead */
};

/* Take over the tasks of the store (`commit_thread` NULL: no store); then mount tidings://tasks/,
 * if there are tasks or a tool that creates them. */
int server_tasks_mount(struct server_tasks *o, struct commit_thread *commit_thread,
                       struct tidings_error *err);
/* The store is closed, and no worker runs. */
void server_tasks_close(struct server_tasks *o);

/* On the commit thread: another node reports that this task has changed; the store has lost
 * committed data. */
void server_tasks_followed(struct server_tasks *o, struct tidings_str uri);
void server_tasks_on_data_loss(struct server_tasks *o);
/* On the commit thread: the store became unreachable, or reachable again. */
void server_tasks_reach(struct server_tasks *o, bool is_unreachable);

#endif
