/* SPDX-License-Identifier: MIT
 *
 * What a task is made of, for task.c and the files beside it.
 */
#ifndef HANDLER_TASK_PRIVATE_H
#define HANDLER_TASK_PRIVATE_H

#include <pthread.h>

#include "base/map.h"
#include "handler/task.h"

/* Something a handler asks. */
struct task_question {
    struct buf key;              /* as clients see it: "2.name" */
    size_t name_at;              /* … where the handler's own begins */
    struct buf question, answer; /* JSON; the last is empty while it is open */
};

/* Who has tasks, as far as limits are concerned; goes with the last of them. */
struct task_client {
    size_t count;
    struct tidings_str name;
    char text[];
};

struct task {
    unsigned refs; /* atomic */
    struct tasks *all;
    char uri[sizeof(OWNED_URI_PREFIX) + OWNED_ID_LEN]; /* ends in its id */
    int64_t created_ms;                                /* Unix time */
    uint64_t begun_ms;                                 /* monotonic */
    struct mailbox *home;                              /* a reference; NULL: nobody works on it */
    const struct task_ops *ops;
    struct tidings_call *call; /* the home's; NULL: it is done */
    /* Under the lock: */
    struct task_client *client; /* NULL: another node's, in no table */
    struct allowance *account;  /* its shares hold it; NULL: of an earlier run */
    bool is_operator;           /* … and whose it is, is one */
    enum task_status status, end_status;
    bool is_published; /* it can be found */
    bool is_ending;    /* it has ended, which is seen when it is kept */
    bool is_counted;   /* in by_status */
    /* Where the store is shared: */
    bool is_keeping;        /* its state is on the way there … */
    bool is_stale;          /* … and is another since */
    bool is_unkept;         /* it could not be kept: tasks_keep_again tries */
    size_t max, max_client; /* there may be so many, as it began */
    struct refusal refused;
    uint64_t ttl_ms, due_ms;
    int64_t updated_ms, ended_ms; /* Unix time */
    size_t heap_at;               /* from 1; 0: it is not there */
    size_t held; /* bytes of what its call was given, which count like those of results */
    struct buf message, end_message, payload;
    struct task_question questions[TASK_MAX_QUESTIONS];
    unsigned question_count, open_count;
};

struct tasks {
    pthread_mutex_t lock;
    struct limit_counters *counters;
    struct map by_id;   /* struct task: each is a reference */
    struct map clients; /* struct task_client, by name */
    struct task **heap; /* those that have ended, the one that goes first at 1 */
    size_t heap_count, heap_room, count;
    size_t by_status[TASK_CANCELLED + 1];
    uint64_t due_ms; /* atomic: of the first in the heap; UINT64_MAX: none */
    tasks_changed_fn changed;
    void *changed_user;
    struct task_store *store;
};

void tasks_lock(struct tasks *all);
void tasks_unlock(struct tasks *all);

/* With the lock: its status becomes that, and the time of its last update now. */
void task_set_status(struct task *t, enum task_status status);
/* With the lock: nothing is asked any more. */
void task_clear_questions(struct task *t);
/* Without it: whoever listens hears that it changed. */
void task_tell(struct task *t);
struct task *task_ref(struct task *t);

/* With the lock: what it ends with, as far as there is room for it. */
void task_set_end(struct task *t, enum task_status status, struct tidings_str message,
                  struct tidings_str payload);
/* With the lock: it is ending, and goes at its time. */
void task_begin_end(struct task *t);
/* Without it: everybody sees how it ended. */
void task_show_end(struct task *t);
/* task_keep.c: keep how it ends, then show it. */
void task_keep_end(struct task *t);
/* A row as it is kept; with the lock, or when it has ended. */
struct task_row task_row_of(const struct task *t);
/* task_ask.c: its call is told that nobody waits for it. */
void task_cancel_call(struct task *t);
/* task_write.c: with the lock: what is asked, as an object. */
void task_put_questions(const struct task *t, struct jw *w);
/* With the lock: one more question, under the key that clients see. */
int task_add_question(struct task *t, struct tidings_str key, size_t name_at,
                      const struct json *value);
/* With the lock: what it was given, or its payload, counts no longer. */
void task_give_bytes(struct task *t, size_t bytes);
/* One in no table, with a reference. */
struct task *task_create(struct tasks *all, const char *id);

/* With the lock: there is room for one more task; it goes at its due_ms; the first that goes. */
int task_heap_reserve(struct tasks *all);
void task_heap_add(struct tasks *all, struct task *t);
struct task *task_heap_take(struct tasks *all);

#endif
