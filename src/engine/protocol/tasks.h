/* SPDX-License-Identifier: MIT
 *
 * Tasks (extension io.modelcontextprotocol/tasks): calls of tools whose client got a handle instead
 * of the result and polls for the result later, over any connection. The whole server has one
 * table; all threads use it, under a lock that is held only for a search or a copy.
 *
 *     working ──asked──> input_required ──answered──> working
 *        └───────┬──────────────┘
 *                └── completed, failed or cancelled: whichever comes first stays
 *
 * A task belongs to the calling principal (its id, see security/access.h). A call
 * (engine/protocol/call_task.c) on one worker, the task's home, does the work; other threads send
 * it messages. A finished task is kept until its time to live has passed since its start, and at
 * least TASK_KEPT_MS after its end; then tasks_sweep removes it. Running tasks have a deadline like
 * other calls.
 *
 * Where nodes share a store (struct task_store, `is_shared`), the store keeps every state of a task
 * and decides: a task has ended when the store has its end, and the first end kept wins. Other
 * nodes answer from the store (tasks_ask) and write cancellations and answers to it; the task's
 * node follows these (tasks_follow).
 *
 * Limits: `max_tasks` in all, `max_client_tasks` for one client, TASKS_BYTES of results, and the
 * input of running calls; each client has a share of the last two. Without room a task is not
 * started, and a result is replaced by an error that gives the limit. A task counts until its
 * handler has finished, even after its end.
 */
#ifndef ENGINE_PROTOCOL_TASKS_H
#define ENGINE_PROTOCOL_TASKS_H

#include "base/str.h"
#include "formats/json_write.h"
#include "security/access.h"
#include "security/limits.h"

#define TASK_KEPT_MS 60000u
#define TASK_POLL_MS 1000 /* pause between two polls of a client */
#define TASK_MAX_MESSAGE 1024u
#define TASKS_BYTES (64u << 20)
#define TASK_TEXT_MAX (TASKS_BYTES + (1u << 20)) /* bytes of one task, written completely */
#define TASK_MAX_QUESTIONS 16u

struct client_account;
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
/* The status of that name; -1: unknown. */
int task_status_find(struct tidings_str name);

/* The state of a task that outlives its server. */
struct task_row {
    struct tidings_str id, client; /* `client`: the account whose limits it counts against */
    enum task_status status;
    int64_t created_ms, updated_ms; /* Unix time */
    uint64_t ttl_ms;
    struct tidings_str message, payload;
    /* In shared stores only: */
    struct tidings_str questions; /* the open questions, an object; or empty */
    struct tidings_str answers;   /* an object: answers from other nodes; or empty */
    size_t max, max_client;       /* it is new: the limits on tasks are … */
    struct refusal *why; /* … and this receives the limit that was exceeded (TIDINGS_E_LIMIT); lives
                            until `done`. NULL: it is not new */
};

/* A client's request about a task of another node. Lives until `done`, which is called exactly
 * once, on any thread. */
enum task_verb { TASK_GET, TASK_UPDATE, TASK_CANCEL };
struct task_asking {
    enum task_verb verb;
    struct tidings_str id;
    struct json *answers; /* TASK_UPDATE: an object of objects; borrowed until `done` */
    /* TIDINGS_E_NOTFOUND: no such task. */
    void (*done)(struct task_asking *asking, int code);
    struct task *found; /* by `done`: a reference, for the caller; TASK_GET */
    struct tidings_error err;
};

/* The store of rows. Its functions may be called on any thread and answer on any. */
struct task_store {
    /* Other nodes query this node's tasks. The store reports by itself that a task changed or
     * went. */
    bool is_shared;
    /* Keeps the row, replacing any row with its id; `done` (may be NULL) is called exactly once,
     * maybe before this returns. The row is copied. Shared stores: TIDINGS_E_CONFLICT if the task
     * has ended already; tasks_follow receives the stored row. */
    void (*put)(struct task_store *store, const struct task_row *row,
                void (*done)(void *user, int code), void *user);
    /* Deletes rows whose time to live is over at that Unix time. */
    void (*sweep)(struct task_store *store, int64_t now_ms);
    /* Shared stores only. */
    void (*ask)(struct task_store *store, struct task_asking *asking);
};

/* ---- the table ------------------------------------------------------------------------------- */

/* NULL: out of memory. `counters` outlive it. */
struct tasks *tasks_create(struct limit_counters *counters);
void tasks_destroy(struct tasks *all); /* no task may have a call under way; NULL is fine */
/* Before threads start: sets the callback for tasks that changed or went, called on any thread, and
 * the store (NULL: none). */
typedef void (*tasks_changed_fn)(void *user, struct tidings_str uri, bool is_gone);
void tasks_on_change(struct tasks *all, tasks_changed_fn changed, void *user);
void tasks_set_store(struct tasks *all, struct task_store *store);
/* Restores a kept task; if it was running, it has failed. Returns false if it is too old or out of
 * memory. */
bool tasks_restore(struct tasks *all, const struct task_row *row);

/* ---- a store that nodes share ----------------------------------------
 */

/* Any thread: retries failed writes, some at a time; and treats everything as not kept, since the
 * store may have lost it. */
void tasks_keep_again(struct tasks *all);
void tasks_doubt(struct tasks *all);
/* Returns true if the task belongs to this node and has not ended. Any thread. */
bool tasks_runs(struct tasks *all, struct tidings_str id);
/* Takes over the stored state of a task of this node: an end that another node wrote, answers given
 * there. Returns true if it accepted these. */
bool tasks_follow(struct tasks *all, const struct task_row *row);
/* Makes a task from another node's row, to be written; it is in no table. NULL: invalid row, or out
 * of memory. */
struct task *task_of_row(struct tasks *all, const struct task_row *row);
/* Merges those answers of `given` that `row` asks for and lacks with the ones it has, as an object;
 * TIDINGS_E_LIMIT: they are too long. Returns 1 if there are new ones, 0 if not. */
int task_merge_answers(const struct task_row *row, struct json *given, struct buf *ret,
                       struct tidings_error *err);

/* Monotonic time when tasks_sweep has work to do; UINT64_MAX: none is due. */
uint64_t tasks_due_ms(const struct tasks *all);
void tasks_sweep(struct tasks *all);

/* The number of tasks by status. */
void tasks_count(struct tasks *all, size_t ret[TASK_CANCELLED + 1]);

/* ---- those who ask --------------------------------------------------------------------------- */

/* A reference to the task with that id, if it belongs to `p`. Returns NULL if there is none or if
 * another principal owns it; the client must not see the difference. */
struct task *tasks_find(struct tasks *all, struct tidings_str id, const struct principal *p);
/* A task that is not in the table may belong to another node. Returns true if the store may be
 * queried; false if the task cannot belong to `p` or there is no such store. tasks_ask queries
 * it. */
bool tasks_may_ask(const struct tasks *all, struct tidings_str id, const struct principal *p);
void tasks_ask(struct tasks *all, struct task_asking *asking);
void task_unref(struct task *t); /* any thread; NULL is fine */
struct tidings_str task_id(const struct task *t);
struct tidings_str task_uri(const struct task *t);
int64_t task_updated_ms(struct task *t);

/* The members of it: `is_detailed`: with result, error or questions. */
void task_write(struct task *t, struct jw *w, bool is_detailed);
/* Cancels the task. Later output of its handler is discarded. A task that has ended does not
 * change. */
void task_cancel(struct task *t);
/* Adds answers, an object by key. Answers to questions that are not open are ignored. The last
 * answer resumes the handler. TIDINGS_E_LIMIT: they are too long; TIDINGS_E_NOMEM. */
#define TASK_MAX_ANSWERS (1u << 20) /* bytes of all answers to one round */
int task_answer(struct task *t, struct json *answers, struct tidings_error *err);

/* ---- the call that works on it (engine/protocol/call_task.c)
 * ------------------------------------------
 */

struct task_spec {
    const struct principal *principal; /* the owner */
    struct tidings_str client;         /* its name for limits; empty: it has none */
    struct client_account *account;    /* whose shares it takes; NULL: only totals count */
    size_t max, max_client;            /* of worker_limits */
    uint64_t ttl_ms;
    size_t bytes; /* bytes of the call's input */
    struct mailbox *home;
    struct tidings_call *call;
};
/* How the call handles messages, on its home: */
struct task_ops {
    void (*answered)(struct tidings_call *call, struct buf *answers); /* an object; may be taken */
    void (*cancelled)(struct tidings_call *call);
};

/* Returns a reference to a new, working task, which cannot be found before task_publish.
 * TIDINGS_E_LIMIT with `why`; TIDINGS_E_NOMEM; TIDINGS_E_IO. Any thread. */
int tasks_open(struct tasks *all, const struct task_spec *spec, const struct task_ops *ops,
               struct task **ret, struct refusal *why);
/* Keeps it, then makes it visible, then calls `done` on any thread, maybe before this returns. */
void task_publish(struct task *t, void (*done)(void *user, int code), void *user);
/* The limit exceeded, if `done` received TIDINGS_E_LIMIT. */
const struct refusal *task_refusal(const struct task *t);
/* Removes a task that no client will ask for, without a trace. */
void task_discard(struct task *t);
/* The same for a kept task: its row goes too. */
void task_retract(struct task *t);
/* On the home: the call is done with it. Takes the reference. */
void task_detach(struct task *t);

/* A short status for people; truncated. */
void task_set_message(struct task *t, struct tidings_str message);
/* It needs answers: `questions` is an object by name. The keys that clients see begin with `round`,
 * so that none is used twice. */
int task_ask(struct task *t, unsigned round, struct json *questions, struct tidings_error *err);
/* Ends it with that outcome, which is copied. Returns false if it had ended already. */
bool task_end(struct task *t, enum task_status status, struct tidings_str message,
              struct tidings_str payload);
/* Monotonic: the end of its time to live. */
uint64_t task_deadline_ms(struct task *t);
uint64_t task_ttl_ms(struct task *t);

#endif
