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
 * A task belongs to the principal that called (security/access.h: its id says so). What works on
 * it is a call (engine/protocol/call_task.c) on one worker, its home; what others want of the call
 * is sent there as a message. A task that ends is kept until its time to live has passed since it
 * began, at least TASK_KEPT_MS since it ended; then tasks_sweep forgets it. Those that run have a
 * deadline like other calls.
 *
 * Where nodes share a store (struct task_store, `is_shared`) every state of a task is kept there,
 * and what the store has counts: a task has ended when that is kept, and whoever kept an end first
 * has ended it. Other nodes answer from there (tasks_ask), and write there that it is cancelled and
 * what was answered, which its own node follows (tasks_follow).
 *
 * Bounded: `max_tasks` in all, `max_client_tasks` of one client, TASKS_BYTES of results, and of
 * what running calls were given; of these two each client has its share. A task that finds no
 * room is not begun; a result that finds none is replaced by an error that says so. A task counts
 * until its handler has finished, too.
 */
#ifndef ENGINE_PROTOCOL_TASKS_H
#define ENGINE_PROTOCOL_TASKS_H

#include "base/str.h"
#include "formats/json_write.h"
#include "security/access.h"
#include "security/limits.h"

#define TASK_KEPT_MS 60000u
#define TASK_POLL_MS 1000 /* between two questions of a client how it is */
#define TASK_MAX_MESSAGE 1024u
#define TASKS_BYTES (64u << 20)
#define TASK_TEXT_MAX (TASKS_BYTES + (1u << 20)) /* bytes of one, written with all it has */
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
/* The status of that name; -1: there is none. */
int task_status_find(struct tidings_str name);

/* What outlives the server of a task. */
struct task_row {
    struct tidings_str id, client; /* `client`: whose limits it counts against */
    enum task_status status;
    int64_t created_ms, updated_ms; /* Unix time */
    uint64_t ttl_ms;
    struct tidings_str message, payload;
    /* Of a store that nodes share: */
    struct tidings_str questions; /* an object of what is asked; or empty */
    struct tidings_str answers;   /* an object: given at other nodes; or empty */
    size_t max, max_client;       /* it is new: there may be so many … */
    struct refusal *why;          /* … and here is said which were too many (TIDINGS_E_LIMIT);
                                   * lives until `done`. NULL: it is not new */
};

/* What a client wants of a task that another node works on. Lives until `done`, which is called
 * exactly once, on any thread. */
enum task_verb { TASK_GET, TASK_UPDATE, TASK_CANCEL };
struct task_asking {
    enum task_verb verb;
    struct tidings_str id;
    struct json *answers; /* TASK_UPDATE: an object of objects; borrowed until `done` */
    /* TIDINGS_E_NOTFOUND: there is none. */
    void (*done)(struct task_asking *asking, int code);
    struct task *found; /* by `done`: a reference, for whoever asks; TASK_GET */
    struct tidings_error err;
};

/* Where rows are kept. All may be called on any thread and answer on any. */
struct task_store {
    /* Other nodes ask for tasks of this one. It tells by itself that one changed or went. */
    bool is_shared;
    /* Keep the row, instead of one with its id; `done` (may be NULL) is called exactly once, maybe
     * before this returns. The row is copied. Of a shared one: TIDINGS_E_CONFLICT when it has ended
     * already; tasks_follow is given the row there is. */
    void (*put)(struct task_store *store, const struct task_row *row,
                void (*done)(void *user, int code), void *user);
    /* Forget what has outlived its time to live by that Unix time. */
    void (*sweep)(struct task_store *store, int64_t now_ms);
    /* Of a shared one. */
    void (*ask)(struct task_store *store, struct task_asking *asking);
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

/* ---- a store that nodes share ----------------------------------------
 */

/* Any thread: write again what could not be kept, some at a time; and count
 * everything as not kept, since the store may have lost it. */
void tasks_keep_again(struct tasks *all);
void tasks_doubt(struct tasks *all);
/* Is it one of this node that has not ended? Any thread. */
bool tasks_runs(struct tasks *all, struct tidings_str id);
/* What the store has of one of this node's: an end that another node wrote, answers that were given
 * there. true: these were taken. */
bool tasks_follow(struct tasks *all, const struct task_row *row);
/* A row of another node's, as a task to be written; in no table. NULL: it cannot be one, or out of
 * memory. */
struct task *task_of_row(struct tasks *all, const struct task_row *row);
/* The answers among `given` to what `row` asks and nobody has answered, behind those it has, as an
 * object; TIDINGS_E_LIMIT: they are too long. 1: there are new ones; 0: none. */
int task_merge_answers(const struct task_row *row, struct json *given, struct buf *ret,
                       struct tidings_error *err);

/* Monotonic: when tasks_sweep has something to do; UINT64_MAX: nothing is waited for. */
uint64_t tasks_due_ms(const struct tasks *all);
void tasks_sweep(struct tasks *all);

/* By status, of those that can be asked for. */
void tasks_count(struct tasks *all, size_t ret[TASK_CANCELLED + 1]);

/* ---- those who ask --------------------------------------------------------------------------- */

/* A reference to the task with that id, if it is of `p`; NULL: there is none, or it is somebody
 * else's, which must look the same. */
struct task *tasks_find(struct tasks *all, struct tidings_str id, const struct principal *p);
/* One that is not in the table may be another node's: may the store be asked? false: it cannot be
 * one of `p`, or there is no such store. And ask it. */
bool tasks_may_ask(const struct tasks *all, struct tidings_str id, const struct principal *p);
void tasks_ask(struct tasks *all, struct task_asking *asking);
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

/* ---- the call that works on it (engine/protocol/call_task.c)
 * ------------------------------------------
 */

struct task_spec {
    const struct principal *principal; /* whose it is */
    struct tidings_str client;         /* its name where limits count; empty: it has none */
    struct client_account *account;    /* whose shares it takes; NULL: only totals count */
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
/* `done` said TIDINGS_E_LIMIT: which. */
const struct refusal *task_refusal(const struct task *t);
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
