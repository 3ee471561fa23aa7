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
 * A call may be a task (call_task.c): its request is answered with a handle, and what it gives goes
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
    /* The arguments break their schema: answer `request`. */
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
    /* The same as members of a result, for a task; NULL: there are no tasks of this kind. */
    void (*write_failure)(struct jw *w, struct tidings_str text);
};

enum call_outcome {
    CALL_RESULT,
    CALL_FAILED,  /* base.err says why */
    CALL_REFUSED, /* the same as an error of the protocol */
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
    struct buf answer;                      /* the last one handed out */
    uint64_t keys[CALL_MAX_INPUT_REQUESTS]; /* hashes of the names asked under */
    unsigned key_count;
    unsigned can;     /* capabilities of the client: ASK_… of engine/protocol/dialect.h */
    unsigned missing; /* … and the questions beyond them */
    unsigned rounds;  /* legacy era: number of rounds so far */
    bool has_requests, has_state;
};

struct call_wait;
struct task;

/* How far a call is with being a task. */
enum call_task_state {
    CALL_TASK_NONE,
    CALL_TASK_OPENING, /* its request is answered when the task is kept */
    CALL_TASK_RUNNING,
    CALL_TASK_ASKING, /* its handler is done and the client is asked */
};

struct tidings_call {
    struct job base;         /* .done runs on the worker; .cancelled; .err */
    struct list link;        /* in worker->handlers->calls */
    struct request *request; /* NULL once the client has an answer */
    const struct call_kind *kind;
    const struct principal *principal; /* a reference: on whose behalf, … */
    struct client_account *account;    /* … and another: at whose expense */
    const struct dialect_rules *rules; /* of the profile, in the era of the client */
    struct feature *feature;           /* a reference */
    struct json *root;                 /* a reference: the message */
    struct json *arguments;            /* in it; NULL: none */
    struct json *meta;                 /* in it: of a modern request; NULL in the legacy era */
    struct buf origin;                 /* the client's own name (principal_put_origin) */
    struct trace trace;                /* it belongs to; empty: none */
    struct buf arguments_text, json_text;
    struct call_ask ask;
    struct call_wait *wait; /* legacy era: its handler is done and the client is asked; else NULL */
    struct task *task;      /* a reference: made by the handler's thread … */
    enum call_task_state task_state; /* … and the worker's: the state that the worker knows */
    bool starts_later, is_done;      /* its handler begins, or is done, when the task is kept */
    uint64_t deadline_ms;
    uint64_t begun_us;         /* of a tool, when its handler was called first; 0: not yet */
    bool is_late, is_observed; /* its deadline passed; its end was counted and reported */
    enum call_outcome outcome;
    struct refusal limit;
    call_on_worker_fn on_worker; /* NULL: everything was given already */
    void *on_worker_user;
    int cancel_state; /* atomic: enum in call.c */
    tidings_call_fn on_cancel;
    void *cancel_user;
    /* The handler's content: the array of blocks */
    struct buf content; /* of the array of blocks */
    struct jw w;
    size_t bytes, block_count;
    struct buf structured; /* JSON object, or empty */
    struct output output;  /* both are booked; `limit` says why not */
    bool is_checked;       /* it satisfies the output schema */
    bool is_error;
    bool is_assistant;
    /* The handler's reports. The token is JSON; empty: the client wants no progress */
    struct tidings_str progress_token; /* JSON; empty: the client does not want to know */
    double progress;
    uint64_t progress_ms; /* when it was sent last; 0: never */
    int log_level;        /* messages below it are not wanted; LOG_ASK_SESSION: the session says */
    unsigned notes;       /* atomic: on their way to the worker */
};

/* All calls of a worker, and the timer of their deadlines: with the worker's begin and end. */
bool calls_open(struct worker *worker); /* false: out of memory */
void calls_close(struct worker *worker);
/* The worker ends: notifies every handler that its client is gone. */
void calls_cancel(struct worker *worker);

/* Run what is registered under params.name; answers the request in every case. */
void call_run(struct request *request, const struct call_kind *kind);
/* Answers that no `what` ("tool") has that name, and suggests similar names. */
void call_refuse_unknown(struct request *request, enum feature_kind kind, const char *what,
                         struct tidings_str name);
/* A page of the list of features, written as the array `key`; `source` marks its cursors. */
void call_list(struct request *request, enum feature_kind kind, struct tidings_str key,
               char source);

/* Succeeds like tidings_call_done, but `fn` writes the result on the worker's thread: for handlers
 * that finish many calls on one thread while others wait for it. `fn` runs exactly once, even if no
 * client waits for the answer; a failure becomes the request's. */
void call_done_on_worker(struct tidings_call *h, call_on_worker_fn fn, void *user);

/* Finish: the client has reached that limit, which was counted. */
void call_refuse_limit(struct tidings_call *h, const struct refusal *why);

/* Takes structured content from a built-in handler without a check: compact JSON of an object that
 * satisfies the output schema. `json` is empty afterwards. */
int call_take_structured(struct tidings_call *h, struct buf *json, struct tidings_error *err);

/* call_ask.c */
#define CALL_MAX_STATE (64u * 1024u)
/* Reads inputResponses and requestState. If they are invalid, answers the request and returns
 * false.
 */
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
/* If not: answer so. */
void call_task_refuse(struct request *request, const char *text);
/* Begin it as a task: the request is answered with a handle, then the handler is called. false: the
 * request was answered with an error, and the call is to be freed. */
bool call_task_begin(struct tidings_call *h);
/* It is not kept in time: its request is answered so. */
void call_task_give_up(struct tidings_call *h);
/* Its handler is done, with something or questions. */
void call_task_done(struct tidings_call *h);
/* Its deadline has passed. */
void call_task_expire(struct tidings_call *h);
/* When it has to be done. */
uint64_t call_task_deadline(const struct tidings_call *h);
/* A word on how far it is. */
void call_task_progress(struct tidings_call *h, struct tidings_str message);
/* It goes: its task without a result, if it has none. */
void call_task_deinit(struct tidings_call *h);

/* call.c, for call_task.c: call the handler; the request was cancelled. */
void call_start(struct tidings_call *h);
void call_cancel(struct tidings_call *h);
void call_free(struct tidings_call *h);
/* call_ask.c: restarts the call with these answers, an object by name. Takes `gathered`. */
void call_go_on(struct tidings_call *h, struct json *gathered);

/* Its handler is about to be called, negative: it must not be; and its client has
 * an answer, or will get none. */
void call_observe_end(struct tidings_call *h);

#endif
