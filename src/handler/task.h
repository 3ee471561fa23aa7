/* SPDX-License-Identifier: MIT
 *
 * Tasks (extension io.modelcontextprotocol/tasks): calls of tools whose client got a handle instead
 * of the result, and asks for it later, over whichever connection. One table for the whole server;
 * all threads use it, under a lock that is held for a search or a copy.
 *
 *     working ──asked──> input_required ──answered──> working
 *        └───────┬──────────────┘
 *                └── completed, failed or cancelled: whichever comes first stays
 *
 * A task belongs to the principal that called (access/owned_uri.h: its id says so). What works on
 * it is a call (handler/call_task.c) on one worker, its home; what others want of the call is sent
 * there as a letter. A task that ends is kept until its time to live has passed since it began, at
 * least TASK_KEPT_MS since it ended; then tasks_sweep forgets it. Those that run have a deadline
 * like other calls.
 *
 * Bounded: `max_tasks` in all, `max_client_tasks` of one client, TASKS_BYTES of results, and of
 * what running calls were given, in all and a quarter of that of one client. A task that finds no
 * room is not begun; a result that finds none is replaced by an error that says so. A task counts
 * until its handler has finished, too.
 */
#ifndef HANDLER_TASK_H
#define HANDLER_TASK_H

#include "access/limit.h"
#include "access/owned_uri.h"
#include "base/str.h"
#include "json/write.h"

#define TASK_KEPT_MS 60000u
#define TASK_POLL_MS 1000 /* between two questions of a client how it is */
#define TASK_MAX_MESSAGE 1024u
#define TASKS_BYTES (64u << 20)
#define TASK_MAX_QUESTIONS 16u

struct mailbox;
struct principal;
struct task;
struct tasks;
struct tidings_call;

enum task_status {
    TASK_WORKING,
    TASK_INPUT_REQUIRED,
    TASK_COMPLETED, /* `payload` is the result, an object */
    TASK_FAILED,    /* … the error of JSON-RPC, an object */
    TASK_CANCELLED,
};
const char *task_status_name(enum task_status status);
/* The status of that name; -1: there is none. */
int task_status_find(struct tidings_str name);

/* What outlives the server of a task. */
struct task_row {
    struct tidings_str id, client; /* `client`: whose limits it counts against */
    enum task_status status;
    int64_t created_ms, updated_ms; /* Unix time */
    uint64_t ttl_ms;
    struct tidings_str message, payload;
};

/* Where rows are kept. Both may be called on any thread and answer on any. */
struct task_store {
    /* Keep the row, instead of one with its id; `done` (may be NULL) is called exactly once, maybe
     * before this returns. The row is copied. */
    void (*put)(struct task_store *store, const struct task_row *row,
                void (*done)(void *user, int code), void *user);
    /* Forget what has outlived its time to live by that Unix time. */
    void (*sweep)(struct task_store *store, int64_t now_ms);
};

/* ---- the table ------------------------------------------------------------------------------- */

/* NULL: out of memory. `counters` outlive it. */
struct tasks *tasks_create(struct limit_counters *counters);
void tasks_destroy(struct tasks *all); /* no call of one is under way; NULL is fine */
/* Before threads start: who is told, on any thread, that a task changed or went; where they are
 * kept (NULL: nowhere). */
typedef void (*tasks_changed_fn)(void *user, struct tidings_str uri, bool is_gone);
void tasks_on_change(struct tasks *all, tasks_changed_fn changed, void *user);
void tasks_set_store(struct tasks *all, struct task_store *store);
/* One that was kept: what ran then has failed. false: out of memory, or it is too old. */
bool tasks_restore(struct tasks *all, const struct task_row *row);

/* Monotonic: when tasks_sweep has something to do; UINT64_MAX: nothing is waited for. */
uint64_t tasks_due_ms(const struct tasks *all);
void tasks_sweep(struct tasks *all);

/* By status, of those that can be asked for. */
void tasks_count(struct tasks *all, size_t ret[TASK_CANCELLED + 1]);

/* ---- those who ask --------------------------------------------------------------------------- */

/* A reference to the task with that id, if it is of `p`; NULL: there is none, or it is somebody
 * else's, which must look the same. */
struct task *tasks_find(struct tasks *all, struct tidings_str id, const struct principal *p);
void task_unref(struct task *t); /* any thread; NULL is fine */
struct tidings_str task_id(const struct task *t);
struct tidings_str task_uri(const struct task *t);
int64_t task_updated_ms(struct task *t);

/* The members of it: `is_detailed`: with result, error or questions. */
void task_write(struct task *t, struct jw *w, bool is_detailed);
/* End it. Whatever its handler still gives is thrown away. Of one that has ended nothing changes.
 */
void task_cancel(struct task *t);
/* An object of answers by key. What is not asked (any more) is passed over. When the last is there
 * the handler goes on. TIDINGS_E_LIMIT: they are too long; TIDINGS_E_NOMEM. */
#define TASK_MAX_ANSWERS (1u << 20) /* bytes of all answers to one round */
int task_answer(struct task *t, struct json *answers, struct tidings_error *err);

/* ---- the call that works on it (handler/call_task.c) ------------------------------------------
 */

struct task_spec {
    const struct principal *principal; /* whose it is */
    struct tidings_str client;         /* its name where limits count; empty: it has none */
    size_t max, max_client;            /* of worker_limits */
    uint64_t ttl_ms;
    size_t bytes; /* of what the call was given */
    struct mailbox *home;
    struct tidings_call *call;
};
/* What the call does when it is told, on its home: */
struct task_ops {
    void (*answered)(struct tidings_call *call, struct buf *answers); /* an object; may be taken */
    void (*cancelled)(struct tidings_call *call);
};

/* A reference to a new one, which works. Nobody finds it before task_publish. TIDINGS_E_LIMIT with
 * `why`; TIDINGS_E_NOMEM; TIDINGS_E_IO. Any thread. */
int tasks_open(struct tasks *all, const struct task_spec *spec, const struct task_ops *ops,
               struct task **ret, struct refusal *why);
/* Keep it, then let it be found, then call `done` on any thread, maybe before this returns. */
void task_publish(struct task *t, void (*done)(void *user, int code), void *user);
/* Nobody will ask for it: it is as if it had not been. */
void task_discard(struct task *t);
/* The same of one that is kept: its row goes too. */
void task_retract(struct task *t);
/* On the home: the call is done with it. Takes the reference. */
void task_detach(struct task *t);

/* A word on how it is, for people; cut. */
void task_set_message(struct task *t, struct tidings_str message);
/* It needs answers: `questions` is an object by name. The keys that clients see have `round` in
 * front, so that none is ever used twice. */
int task_ask(struct task *t, unsigned round, struct json *questions, struct tidings_error *err);
/* It ends with that, which is copied. false: it had ended already. */
bool task_end(struct task *t, enum task_status status, struct tidings_str message,
              struct tidings_str payload);
/* Monotonic: when its time to live has passed. */
uint64_t task_deadline_ms(struct task *t);
uint64_t task_ttl_ms(struct task *t);

#endif
