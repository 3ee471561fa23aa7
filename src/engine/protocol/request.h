/* SPDX-License-Identifier: MIT
 *
 * One JSON-RPC request of a client while it is being answered. The answer is written straight into
 * `out`, envelope first, so that rows and contents are encoded once and where they arise. A request
 * is answered exactly once; if its client goes or cancels meanwhile it stays alive until whoever
 * works on it is done, and then vanishes.
 */
#ifndef ENGINE_PROTOCOL_REQUEST_H
#define ENGINE_PROTOCOL_REQUEST_H

#include <stdbool.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "engine/catalog/payload.h"
#include "engine/protocol/channel.h"
#include "engine/worker.h"
#include "security/limits.h"

/* -------------------------------------------------------------------------------------------------
 * The access log (`--access-log`): a line at `info` for every request when it has been answered,
 * whatever it came on; for what is refused before it is a request; and for HTTP requests beside
 * JSON-RPC.
 *
 * Names and URIs are strangers': the log quotes and escapes them. Never said: tokens, cookies,
 * other headers, bodies, query strings, ids of sessions.
 */

struct channel;
struct channel_facts;
struct principal;
struct worker;

/* A number for a request of this worker, unique in a log that many runs write: hexadecimal. */
void access_log_number(struct worker *worker, char out[17]);

/* What lines have in common: a text that is left out; how long it took; where it comes from (NULL:
 * it has gone); the name of a principal that has one. */
#define ACCESS_LOG_NOTHING tidings_strn(NULL, 0)
struct tidings_str access_log_name(const struct principal *principal);

/* What is no struct request: HTTP below JSON-RPC, or a message that is none. What this thread works
 * on (log_enter) is told with it; where that is nothing, it gets a number here. */
struct access_log_line {
    const char *method;        /* of HTTP; NULL: none */
    struct tidings_str path;   /* without its query; `ptr` NULL: none */
    struct tidings_str uri;    /* what it is about; `ptr` NULL: nothing */
    int status;                /* of HTTP; 0: none */
    int code;                  /* of JSON-RPC; 0: none */
    struct tidings_str reason; /* of a refusal, or empty */
    const struct principal *principal;
    uint64_t begun_ns; /* by the monotonic clock; 0: just now */
    size_t bytes_in, bytes_out;
};
void access_log_other(const struct channel *channel, const struct access_log_line *line);

/* -------------------------------------------------------------------------------------------------
 * How long requests took on one worker, by method, era and outcome. Methods are numbered by
 * whoever has the table of them (engine/protocol/method.h); number 0 is all that are none.
 */

#define OPERATIONS_METHODS 32u
#define OPERATIONS_ERAS 2u

struct operations {
    struct durations at[OPERATIONS_METHODS][OPERATIONS_ERAS][2]; /* [2]: well, with an error */
};

struct refusal;
struct batch;
struct job;
struct request;
struct session;
struct trace;

/* A client of whose answers some are kept. */
struct retained_client {
    struct list link;
    struct client_account *account; /* held by each of … */
    struct list answers;            /* … struct request by `link`, oldest first */
    size_t count, bytes;
};

#define REQUESTS_RETAINED_BYTES (16u << 20)

/* Those of one worker. */
struct requests {
    struct list with_job; /* that wait for a provider, longest first */
    struct list ready;    /* with long answers to send at the end of the turn */
    struct list retained; /* answered, and their clients are gone and may come back; oldest first */
    size_t retained_bytes;        /* of these answers … */
    size_t retained_most;         /* … at most */
    struct list retained_clients; /* struct retained_client: the clients they are for */
    /* An answer with a `session_change` is complete: true: request_release comes later. Set where
     * sessions are kept for other nodes. */
    bool (*hold)(struct request *request, int status);
    /* It is answered with that error. Set where last errors of clients are kept. */
    void (*failed)(const struct request *request, const struct dialect_error *e);
    struct client_infos clients; /* what they call themselves */
    struct map client_requests;  /* of message connections: struct client_requests, by channel */
    /* The subscriber of a message connection goes with its channel. Set where subscribers are made.
     */
    void (*end_subscriber)(struct channel *channel);
    struct operations operations;
};
static inline void requests_init(struct requests *requests)
{
    list_init(&requests->with_job);
    list_init(&requests->ready);
    list_init(&requests->retained);
    list_init(&requests->retained_clients);
    requests->retained_most = REQUESTS_RETAINED_BYTES;
    client_infos_init(&requests->clients);
    map_init(&requests->client_requests);
}
static inline void requests_deinit(struct requests *requests)
{
    client_infos_deinit(&requests->clients);
    map_deinit(&requests->client_requests);
}

struct request {
    struct list link;         /* in channel->requests, or in retained_for->answers */
    struct list session_link; /* in session->requests: legacy over HTTP */
    struct worker *worker;
    struct channel *channel; /* NULL once it is gone */
    const struct principal *principal;
    struct batch *batch;     /* NULL: answered by itself */
    struct session *session; /* legacy over HTTP; NULL once it has ended */
    enum era era;
    const struct revision *revision;
    struct json *meta; /* in `root`: what its client says of itself; NULL: it did when it began */
    struct json *root; /* a reference: the message */
    struct rpc_message msg;
    const char *method;    /* lives for ever; NULL: none there is */
    uint8_t method_number; /* in the table of operations; 0: none there is */
    bool has_failed;       /* it is answered with an error */
    uint64_t begun_us;
    struct tidings_str id_json; /* in the arena */
    struct arena arena;
    struct buf out;
    struct jw w;
    struct payload *payloads; /* long contents that belong into `out` */
    struct output output;     /* bytes booked for the answer */
    struct response_headers headers;
    bool cancelled;
    bool is_denied;        /* its error hides what it may not see */
    struct sink *sink;     /* HTTP: the exchange became a stream, which its answer ends */
    struct job *job;       /* asked of a provider, told when nobody waits any more */
    struct list job_link;  /* in worker->requests->with_job while a provider has it, in `ready`, or
                            * in `retained` */
    uint64_t job_begun_ms; /* … or was answered */
    unsigned stream;       /* its number among those that can be resumed; 0: it cannot be */
    bool is_ready;         /* with a long answer, which waits until the connection is idle */
    struct retained_client
        *retained_for; /* answered, and waits for this client to come back; else NULL */
    int retained_status;
    uint64_t session_change; /* the answer waits until this change of its session is kept; 0: no */
    unsigned moves;          /* its session has gone to another node meanwhile, so often */
    /* What the log says of it (engine/protocol/request.h): */
    struct log_context context;
    struct trace *trace; /* in the arena; NULL: it belongs to none */
    uint64_t begun_ns;   /* 0: nobody wants to know, or another request tells of it */
    size_t bytes_in;
    uint16_t client; /* what its client called itself when it began (engine/protocol/channel.h) */
    int failed_code; /* 0: it has not */
    struct tidings_str failed_reason;
    bool has_error; /* a result that is one */
};

struct request *request_create(struct channel *channel, struct json *root,
                               const struct rpc_message *msg);

/* {"…","result":{ : then write members through request->w, then request_end. */
void request_begin(struct request *request);
void request_end(struct request *request, enum dialect_cache cache);
/* The same with members of `_meta`, written through request->w between the two. */
void request_begin_meta(struct request *request, enum dialect_cache cache);
void request_end_meta(struct request *request);
/* Begin and end with nothing in between. */
void request_empty(struct request *request);
/* Data of an error with TIDINGS_E_BUSY: data.reason "unavailable", unless there is another reason,
 * and when to retry. */
#define REQUEST_RETRY_MS "1000"
#define REQUEST_RETRY "{\"retryAfterMs\":" REQUEST_RETRY_MS "}"
#define REQUEST_LATER "{\"reason\":\"unavailable\",\"retryAfterMs\":" REQUEST_RETRY_MS "}"
/* Data of a job that failed, as it stands in a list of refusals; empty: none. */
struct tidings_str request_details_of(const struct job *r);

/* Throw away what was written and answer with an error. `uri` goes into data; empty: none. */
void request_fail(struct request *request, int code, struct tidings_str uri, const char *fmt, ...)
    TIDINGS_PRINTF(4, 5);
/* The same with a word for programs in data.reason (empty: none). */
void request_fail_reason(struct request *request, int code, struct tidings_str uri,
                         struct tidings_str reason, const char *text);
/* The same with further members of data: an object, or empty. */
void request_fail_details(struct request *request, int code, struct tidings_str text,
                          struct tidings_str details);
void request_fail_err(struct request *request, const struct tidings_error *err,
                      struct tidings_str uri);
/* A provider failed: its sentence and what it said beside. `reason` empty: what fits the code. */
void request_fail_job(struct request *request, const struct job *job, struct tidings_str uri,
                      struct tidings_str reason);
void request_fail_rpc(struct request *request, int rpc_code, struct tidings_str uri,
                      const char *fmt, ...) TIDINGS_PRINTF(4, 5);
/* The same with an error that is complete. */
void request_fail_with(struct request *request, const struct dialect_error *e);
/* A limit was reached: error data name it and say when to try again; over HTTP the status is 429 or
 * 503 with Retry-After, unless trying again does not help. Counting is the caller's. */
void request_fail_limit(struct request *request, const struct refusal *why, struct tidings_str uri);
/* It fails with that code about `as_requested`. If that is because it may not have it, the log will
 * say so; where its token lacks a scope for it, the answer will say which (headers.scope). */
void request_note_denial(struct request *request, int code, struct tidings_str as_requested);
/* Does the token of the client lack a scope for each of these (strings of an array, to be read and
 * subscribed to)? Then the failure that the caller makes of it says which, as above. Only over
 * HTTP, where it can be said. */
bool request_lacks_scopes(struct request *request, struct json *uris);
/* The client lacks what this needs; `required_json` is an object of capabilities. */
void request_fail_capability(struct request *request, const char *text,
                             struct tidings_str required_json);
/* Send a notification that belongs to this request, before its answer: over HTTP the exchange
 * becomes a stream. false: nobody is there, or the stream cannot take it; the message is lost. */
bool request_notify(struct request *request, const struct buf *message);
/* Send a message that must not be lost, before its answer. `event_id`: over HTTP
 * the exchange becomes a stream that can be resumed after it; empty: it cannot. TIDINGS_E_NOTFOUND:
 * nobody is there now; TIDINGS_E_UNSUPPORTED: the client takes no stream; TIDINGS_E_BUSY: it does
 * not read. */
int request_message(struct request *request, const struct buf *message,
                    struct tidings_str event_id);
/* The first event of such a stream, with which it can be resumed already. */
void request_prime(struct request *request, struct tidings_str event_id);
/* Its client came back: from now on it is answered on `channel`, which becomes a stream. */
void request_resume(struct request *request, struct channel *channel);
/* It was answered while its client was gone: say so now. Ends the request. */
void request_answer_retained(struct request *request);
/* The connection has sent everything: requests_send_ready will send its next long answer, at the
 * end of a turn, behind notifications. Returns false if none waits. */
bool request_next_ready(struct channel *channel);
void requests_send_ready(struct worker *worker);
/* Returns the bytes booked for the requests of a channel. A request that waits for a provider
 * counts at least PAYLOAD_HELD. */
size_t request_output_of(const struct channel *channel);
/* Instead of answering a client that is gone and may come back: false: it may not. At most
 * REQUESTS_RETAINED_BYTES of a worker are kept, and REQUEST_RETAINED_MS each. If there are more,
 * the oldest of the client that has most is forgotten, so no client takes room from one that has
 * less. */
#define REQUEST_RETAINED_MS 60000u
/* Forget those that were kept too long. */
void requests_drop_retained(struct worker *worker);
/* It was a notification whose exchange waits to be ended: say that it was taken. */
void request_accept(struct request *request);
/* The answer that was held goes out; or it is thrown away, and the request is as if nothing had
 * been done for it. */
void request_release(struct request *request, int status);
void request_unanswer(struct request *request);
/* No answer any more (a listen that became a stream and ended, a cancelled request). */
void request_drop(struct request *request);
/* The client said it does not wait any more. */
void request_cancel(struct request *request);
/* Nobody waits for it any more: it is in no list, and the provider that has its job is told. It is
 * freed when whoever works on it is done. */
void request_abandon(struct request *request);
/* A provider is given this job; it has finished it. In between the request has a deadline. */
void request_begin_job(struct request *request, struct job *job);
void request_end_job(struct request *request);
/* Who has waited for longer than --call-timeout gets an error instead of an answer, and whoever
 * works on it is told that nobody waits any more. */
void requests_expire(struct worker *worker);
/* Among `requests` the one with that id. */
struct request *request_find(struct list *requests, struct tidings_str id_json, bool by_session);

/* Several requests in one array (2025-03-26): answered as one array when the last is done. */
struct batch *request_batch_create(struct channel *channel);
void request_batch_add(struct batch *batch, struct request *request);
/* An element that is no message and has no id. */
void request_batch_refuse(struct batch *batch, int rpc_code, const char *text);
void request_batch_close(struct batch *batch); /* no more will be added */
/* The channel is going away: nobody waits for what is gathered for it. */
void request_batch_detach(struct channel *channel);

/* -------------------------------------------------------------------------------------------------
 * Pages of lists: how many rows a client wants, and the cursor that says where the next page
 * begins. A cursor is a letter for the list and the last row's name, base64url: it survives
 * restarts and needs no memory. It is a stranger's input like any other.
 */

/* Rows asked for by params.pageSize or params.limit, at most the server's; 0: the request was
 * answered with an error. */
size_t page_size(struct request *request);
/* What params.cursor says: the letter, one of `sources` (the first when there is no cursor), and
 * the name to go on after, in the request's arena (empty: from the beginning). `ret_source` may be
 * NULL. false: it is none of ours, and the request was answered. */
bool page_read_cursor(struct request *request, const char *sources, char *ret_source,
                      struct tidings_str *ret_after);
/* The member nextCursor. */
void page_write_cursor(struct jw *w, char source, struct tidings_str last);

#endif
