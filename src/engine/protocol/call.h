/* SPDX-License-Identifier: MIT
 *
 * A call of a handler that the application registered: struct tidings_call (<tidings/call.h>) from
 * inside. Tools and prompts are handled the same way and differ in the few functions of a
 * call_kind.
 *
 *     request ── call_run: find the feature, judge the arguments, count, set the deadline
 *        │
 *     handler (now or on the pool), which may keep the call and finish it on any thread
 *        │
 *     done ── by message to the worker ── the result is written into the answer of the request
 *
 * A handler's output is collected in memory of the call, because its client may be gone (cancelled,
 * disconnected, answered after the deadline) while the handler still works. The call lives until it
 * is finished; its `request` lives only while a client waits.
 *
 * After its client has answered questions, the handler is called again with the answers. In the
 * modern era that is another request and another call. In the legacy era the server sends requests
 * to the client (call_ask.c), and then restarts this call.
 *
 * A call may be a task (call_task.c): its request is answered with a handle, and its result goes
 * into the task (engine/protocol/tasks.h) instead of an answer.
 */
#ifndef ENGINE_PROTOCOL_CALL_H
#define ENGINE_PROTOCOL_CALL_H

#include <tidings/call.h>

#include "engine/catalog/job.h"
#include "engine/protocol/feature.h"
#include "formats/http_fields.h"
#include "security/limits.h"

struct client_account;
struct request;
struct worker;

/* The differences between tools and prompts. */
struct call_kind {
    enum feature_kind feature;
    const char *what; /* "tool" */
    /* The arguments violate their schema: answers `request`. */
    void (*invalid)(struct request *request, const struct schema_error *e);
    /* Around each content block, which is an object; inside the array of blocks. */
    void (*begin_block)(struct tidings_call *h);
    void (*end_block)(struct tidings_call *h);
    /* Runs on the handler's thread when it succeeds: completes and checks the result. */
    int (*check)(struct tidings_call *h, struct tidings_error *err);
    /* Runs on the worker: writes the members of the result. */
    void (*write)(struct tidings_call *h, struct jw *w);
    /* Runs on the worker after a failure or a missed deadline (the result is unknown then). Answers
     * `request`. */
    void (*fail)(struct request *request, const struct tidings_error *err);
    /* Writes the same as members of a result, for a task; NULL: there are no tasks of this kind. */
    void (*write_failure)(struct jw *w, struct tidings_str text);
};

enum call_outcome {
    CALL_RESULT,
    CALL_FAILED,  /* base.err has the reason */
    CALL_REFUSED, /* the same, as a protocol error */
    CALL_LIMITED, /* by a limit: `limit` */
};

/* See call_done_on_worker. */
typedef int (*call_on_worker_fn)(void *user, struct tidings_call *h, struct tidings_error *err);

#define CALL_MAX_INPUT_REQUESTS 16u

/* State of handlers that ask their client questions (call_ask.c). */
struct call_ask {
    struct json *responses;                 /* by name; in the message, or … */
    struct json *gathered;                  /* … this reference (legacy era); NULL: none */
    struct buf opened_state;                /* opened requestState */
    struct buf requests;                    /* members of inputRequests */
    struct buf state;                       /* to be sealed */
    struct buf answer;                      /* the last answer returned */
    uint64_t keys[CALL_MAX_INPUT_REQUESTS]; /* hashes of the names used */
    unsigned key_count;
    unsigned can;     /* capabilities of the client: ASK_… of engine/protocol/dialect.h */
    unsigned missing; /* … and those that its questions need but it lacks */
    unsigned rounds;  /* legacy era: number of rounds so far */
    bool has_requests, has_state;
};

struct call_wait;
struct task;

/* The state of a call that becomes a task. */
enum call_task_state {
    CALL_TASK_NONE,
    CALL_TASK_OPENING, /* its request is answered when the task is kept */
    CALL_TASK_RUNNING,
    CALL_TASK_ASKING, /* its handler is done and the client is asked */
};

struct tidings_call {
    struct job base;         /* .done runs on the worker; .cancelled; .err */
    struct list link;        /* in worker->handlers->calls */
    struct request *request; /* NULL once the client has its answer */
    const struct call_kind *kind;
    const struct principal *principal; /* a reference: the principal it acts for, … */
    struct client_account *account;    /* … and another: the account that pays */
    const struct dialect_rules *rules; /* of the profile, in the era of the client */
    struct feature *feature;           /* a reference */
    struct json *root;                 /* a reference: the message */
    struct json *arguments;            /* in it; NULL: none */
    struct json *meta;                 /* in it: of a modern request; NULL in the legacy era */
    struct buf origin;                 /* the client's own name (principal_put_origin) */
    struct trace trace;                /* the trace it belongs to; empty: none */
    struct buf arguments_text, json_text;
    struct call_ask ask;
    struct call_wait *wait; /* legacy era: its handler is done and the client is asked; else NULL */
    struct task *task;      /* a reference: made by the handler's thread … */
    enum call_task_state task_state; /* … and the worker's: the state that the worker knows */
    bool starts_later, is_done; /* when the task is kept: start its handler, or handle its end */
    uint64_t deadline_ms;
    uint64_t begun_us;         /* of a tool, the first call of its handler; 0: not yet */
    bool is_late, is_observed; /* its deadline passed; its end was counted and reported */
    enum call_outcome outcome;
    struct refusal limit;
    call_on_worker_fn on_worker; /* NULL: the result is complete */
    void *on_worker_user;
    int cancel_state; /* atomic: enum in call.c */
    tidings_call_fn on_cancel;
    void *cancel_user;
    /* The handler's results. */
    struct buf content; /* of the array of blocks */
    struct jw w;
    size_t bytes, block_count;
    struct buf structured; /* JSON object, or empty */
    struct output output;  /* both are booked; `limit` has the reason for a failure */
    bool is_checked;       /* it satisfies the output schema */
    bool is_error;
    bool is_assistant;
    /* The handler's reports. */
    struct tidings_str progress_token; /* JSON; empty: the client wants no progress */
    double progress;
    uint64_t progress_ms; /* when it was last sent; 0: never */
    int log_level;  /* less severe messages are dropped; LOG_ASK_SESSION: as the session says */
    unsigned notes; /* atomic: on their way to the worker */
};

/* All calls of a worker, and the timer of their deadlines: from the worker's start to its end. */
bool calls_open(struct worker *worker); /* false: out of memory */
void calls_close(struct worker *worker);
/* The worker ends: notifies every handler that its client is gone. */
void calls_cancel(struct worker *worker);

/* Runs the feature with the name params.name; answers the request in every case. */
void call_run(struct request *request, const struct call_kind *kind);
/* Answers that no `what` ("tool") has that name, and suggests similar names. */
void call_refuse_unknown(struct request *request, enum feature_kind kind, const char *what,
                         struct tidings_str name);
/* Writes a page of the list of features, as the array `key`; `source` marks its cursors. */
void call_list(struct request *request, enum feature_kind kind, struct tidings_str key,
               char source);

/* Succeeds like tidings_call_done, but `fn` writes the result on the worker's thread: for handlers
 * that finish many calls on one thread while others wait for it. `fn` runs exactly once, even if no
 * client waits for the answer; a failure becomes the request's. */
void call_done_on_worker(struct tidings_call *h, call_on_worker_fn fn, void *user);

/* Finishes the call: the client has reached that limit, which was counted. */
void call_refuse_limit(struct tidings_call *h, const struct refusal *why);

/* Takes structured content from a built-in handler without a check: compact JSON of an object that
 * satisfies the output schema. `json` is empty afterwards. */
int call_take_structured(struct tidings_call *h, struct buf *json, struct tidings_error *err);

/* call_ask.c */
#define CALL_MAX_STATE (64u * 1024u)
/* Reads inputResponses and requestState. If they are invalid, answers the request and returns
 * false. */
bool call_read_answers(struct tidings_call *h, struct request *request);
bool call_has_asked(const struct tidings_call *h);
void call_write_asked(struct tidings_call *h, struct request *request);
/* Returns true, and answers, if the call failed because the client cannot be asked; false for other
 * failures. */
bool call_fail_missing(struct tidings_call *h, struct request *request);
void call_ask_deinit(struct tidings_call *h);

/* call.c, for call_ask.c: run the handler once more with `ask`; notify call_ask.c at `deadline_ms`;
 * answer the request with the outcome and free the call. */
void call_again(struct tidings_call *h);
void call_set_deadline(struct tidings_call *h, uint64_t deadline_ms);
void call_end(struct tidings_call *h);

/* call_ask.c: the handler has asked, in the legacy era. Sends the questions and waits for the
 * answers, then restarts the call with them or ends it. */
#define CALL_MAX_ROUNDS 100u
void call_wait(struct tidings_call *h);
/* The client has not answered in time. */
void call_wait_expire(struct tidings_call *h);
/* The client of `request` resumes: sends the questions after that event again. */
void call_resume(struct request *request, unsigned event);

/* call_task.c */
/* Returns true if the client of this request may be given a task. */
bool call_task_is_possible(const struct request *request);
/* If it may not: answers the request with the reason. */
void call_task_refuse(struct request *request, const char *text);
/* Starts it as a task: the request is answered with a handle, then the handler is called. Returns
 * false if the request was answered with an error, and the call is to be freed. */
bool call_task_begin(struct tidings_call *h);
/* The task was not kept in time: answers its request with an error. */
void call_task_give_up(struct tidings_call *h);
/* Its handler is done, with a result or questions. */
void call_task_done(struct tidings_call *h);
/* Its deadline has passed. */
void call_task_expire(struct tidings_call *h);
/* The time by which it must be done. */
uint64_t call_task_deadline(const struct tidings_call *h);
/* A short status for people. */
void call_task_progress(struct tidings_call *h, struct tidings_str message);
/* The call goes: ends its task without a result, if it has none. */
void call_task_deinit(struct tidings_call *h);

/* call.c, for call_task.c: call the handler; the request was cancelled. */
void call_start(struct tidings_call *h);
void call_cancel(struct tidings_call *h);
void call_free(struct tidings_call *h);
/* call_ask.c: restarts the call with these answers, an object by name. Takes `gathered`. */
void call_go_on(struct tidings_call *h, struct json *gathered);

/* Its handler is about to be called; negative: it must not be. The client has an answer, or will
 * get none. */
void call_observe_end(struct tidings_call *h);

#endif
