/* SPDX-License-Identifier: MIT
 *
 * A JSON-RPC request while it is being answered. Its answer is written directly into `out`,
 * envelope first, so that rows and contents are encoded once, at their source. A request is
 * answered exactly once. If its client goes or cancels, the request stays alive until its job or
 * call is done, and is then freed without an answer.
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
 * The access log (`--access-log`): a line at `info` for every answered request on any connection;
 * for messages that are refused before they become requests; and for HTTP requests beside JSON-RPC.
 *
 * Names and URIs are untrusted: the log quotes and escapes them. It never contains tokens, cookies,
 * other headers, bodies, query strings or session ids.
 */

struct channel;
struct channel_facts;
struct principal;
struct worker;

/* A number for a request of this worker, unique in a log that many runs write: hexadecimal. */
void access_log_number(struct worker *worker, char out[17]);

/* Common parts of all lines: a string that is left out; the duration; the address (NULL: the
 * channel has gone); the name of a principal that has one. */
#define ACCESS_LOG_NOTHING tidings_strn(NULL, 0)
struct tidings_str access_log_name(const struct principal *principal);

/* A line without a struct request: for HTTP below JSON-RPC, or a message that is not a request. The
 * line has the number of this thread's current work (log_enter); without one it gets a number
 * here. */
struct access_log_line {
    const char *method;        /* of HTTP; NULL: none */
    struct tidings_str path;   /* without its query; `ptr` NULL: none */
    struct tidings_str uri;    /* the URI concerned; `ptr` NULL: none */
    int status;                /* of HTTP; 0: none */
    int code;                  /* of JSON-RPC; 0: none */
    struct tidings_str reason; /* of a refusal, or empty */
    const struct principal *principal;
    uint64_t begun_ns; /* on the monotonic clock; 0: just now */
    size_t bytes_in, bytes_out;
};
void access_log_other(const struct channel *channel, const struct access_log_line *line);

/* -------------------------------------------------------------------------------------------------
 * Durations of requests on one worker, by method, era and outcome. The table of methods
 * (engine/protocol/method.h) numbers them; number 0 is all unknown methods.
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

/* A client with retained answers. */
struct retained_client {
    struct list link;
    struct client_account *account; /* held by each of … */
    struct list answers;            /* … struct request by `link`, oldest first */
    size_t count, bytes;
};

#define REQUESTS_RETAINED_BYTES (16u << 20)

/* The requests of one worker. */
struct requests {
    struct list with_job;  /* waiting for a provider, longest first */
    struct list ready;     /* with long answers to send at the end of the turn */
    struct list retained;  /* answered, but their clients are gone and may resume; oldest first */
    size_t retained_bytes; /* of these answers … */
    size_t retained_most;  /* … at most */
    struct list retained_clients; /* struct retained_client: the clients they are for */
    /* An answer with a `session_change` is complete. Returns true if request_release comes later.
     * Set where sessions are kept for other nodes. */
    bool (*hold)(struct request *request, int status);
    /* The request is answered with that error. Set where last errors of clients are kept. */
    void (*failed)(const struct request *request, const struct dialect_error *e);
    struct client_infos clients; /* the clients' names and versions */
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
    struct batch *batch;     /* NULL: not in a batch */
    struct session *session; /* legacy over HTTP; NULL once it has ended */
    enum era era;
    const struct revision *revision;
    struct json *meta; /* in `root`: `_meta` of a modern request; else NULL */
    struct json *root; /* a reference: the message */
    struct rpc_message msg;
    const char *method;    /* static; NULL: unknown method */
    uint8_t method_number; /* in the table of operations; 0: unknown */
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
    struct job *job;       /* with a provider, which is notified if the request is abandoned */
    struct list job_link;  /* in worker->requests->with_job while a provider has it, in `ready`, or
                            * in `retained` */
    uint64_t job_begun_ms; /* … or was answered */
    unsigned stream;       /* its number among the resumable ones; 0: not resumable */
    bool is_ready;         /* with a long answer, which waits until the connection is idle */
    struct retained_client
        *retained_for; /* answered, and waits for this client to resume; else NULL */
    int retained_status;
    uint64_t session_change; /* the answer waits until this change of its session is kept; 0: no */
    unsigned moves;          /* times its session moved to another node while it waited */
    /* Its log data (engine/protocol/request.h): */
    struct log_context context;
    struct trace *trace; /* in the arena; NULL: it belongs to none */
    uint64_t begun_ns;   /* 0: not logged, or logged by another request */
    size_t bytes_in;
    uint16_t client; /* the client's name when the request began (engine/protocol/channel.h) */
    int failed_code; /* 0: it has not failed */
    struct tidings_str failed_reason;
    bool has_error; /* a result that is an error */
};

struct request *request_create(struct channel *channel, struct json *root,
                               const struct rpc_message *msg);

/* Writes {"…","result":{ : then write members through request->w, then request_end. */
void request_begin(struct request *request);
void request_end(struct request *request, enum dialect_cache cache);
/* The same with members of `_meta`, written through request->w between the two. */
void request_begin_meta(struct request *request, enum dialect_cache cache);
void request_end_meta(struct request *request);
/* Begins and ends the result with no members. */
void request_empty(struct request *request);
/* Data of an error with TIDINGS_E_BUSY: data.reason "unavailable", unless there is another reason,
 * and when to retry. */
#define REQUEST_RETRY_MS "1000"
#define REQUEST_RETRY "{\"retryAfterMs\":" REQUEST_RETRY_MS "}"
#define REQUEST_LATER "{\"reason\":\"unavailable\",\"retryAfterMs\":" REQUEST_RETRY_MS "}"
/* Data of a failed job, as in a list of refusals; empty: none. */
struct tidings_str request_details_of(const struct job *r);

/* Discards the output and answers with an error. `uri` goes into data; empty: none. */
void request_fail(struct request *request, int code, struct tidings_str uri, const char *fmt, ...)
    TIDINGS_PRINTF(4, 5);
/* The same with a code for programs in data.reason (empty: none). */
void request_fail_reason(struct request *request, int code, struct tidings_str uri,
                         struct tidings_str reason, const char *text);
/* The same with further members of data: an object, or empty. */
void request_fail_details(struct request *request, int code, struct tidings_str text,
                          struct tidings_str details);
void request_fail_err(struct request *request, const struct tidings_error *err,
                      struct tidings_str uri);
/* A provider failed: answers with its error message and further data. `reason` empty: the one for
 * the code. */
void request_fail_job(struct request *request, const struct job *job, struct tidings_str uri,
                      struct tidings_str reason);
void request_fail_rpc(struct request *request, int rpc_code, struct tidings_str uri,
                      const char *fmt, ...) TIDINGS_PRINTF(4, 5);
/* The same with a complete error. */
void request_fail_with(struct request *request, const struct dialect_error *e);
/* A limit was reached: error data have its name and the time to retry; over HTTP the status is 429
 * or 503 with Retry-After, unless a retry cannot help. The caller counts the failure. */
void request_fail_limit(struct request *request, const struct refusal *why, struct tidings_str uri);
/* The request fails with that code about `as_requested`. If access rules caused it, the log reports
 * it; if the token lacks a scope, the answer names the scope (headers.scope). */
void request_note_denial(struct request *request, int code, struct tidings_str as_requested);
/* Returns true if the token of the client lacks a scope to read and subscribe to each of these URIs
 * (strings of an array). The caller's failure then names the scope, as above. Only over HTTP, which
 * has a header for it. */
bool request_lacks_scopes(struct request *request, struct json *uris);
/* The client lacks what this needs; `required_json` is an object of capabilities. */
void request_fail_capability(struct request *request, const char *text,
                             struct tidings_str required_json);
/* Sends a notification of this request, before its answer: over HTTP the exchange becomes a stream.
 * Returns false if the client has gone or the stream is full; the message is lost. */
bool request_notify(struct request *request, const struct buf *message);
/* Sends a message that must not be lost, before its answer. `event_id`: over HTTP the exchange
 * becomes a stream that can be resumed after it; empty: it cannot. TIDINGS_E_NOTFOUND: the client
 * has gone; TIDINGS_E_UNSUPPORTED: the client does not accept a stream; TIDINGS_E_BUSY: it does not
 * read. */
int request_message(struct request *request, const struct buf *message,
                    struct tidings_str event_id);
/* Sends the first event of such a stream, from which it can already be resumed. */
void request_prime(struct request *request, struct tidings_str event_id);
/* The client resumes: from now on the request is answered on `channel`, which becomes a stream. */
void request_resume(struct request *request, struct channel *channel);
/* Sends the answer that was made while the client was gone. Ends the request. */
void request_answer_retained(struct request *request);
/* The connection has sent everything: requests_send_ready will send its next long answer, at the
 * end of a turn, after notifications. Returns false if none waits. */
bool request_next_ready(struct channel *channel);
void requests_send_ready(struct worker *worker);
/* Returns the bytes booked for the requests of a channel. A request that waits for a provider
 * counts at least PAYLOAD_HELD. */
size_t request_output_of(const struct channel *channel);
/* Retains the answer for a client that is gone and may resume. Returns false if it cannot resume. A
 * worker retains at most REQUESTS_RETAINED_BYTES, each answer for REQUEST_RETAINED_MS. Beyond that,
 * the oldest answer of the client with the most bytes is dropped, so that no client displaces a
 * client with less. */
#define REQUEST_RETAINED_MS 60000u
/* Drops answers that were retained too long. */
void requests_drop_retained(struct worker *worker);
/* It was a notification whose exchange waits for an answer: accepts it. */
void request_accept(struct request *request);
/* Sends the held answer; or discards it and resets the request to its unprocessed state. */
void request_release(struct request *request, int status);
void request_unanswer(struct request *request);
/* Frees the request without an answer (a listen that became a stream and ended, a cancelled
 * request). */
void request_drop(struct request *request);
/* The client cancelled the request. */
void request_cancel(struct request *request);
/* The request has no client any longer: it leaves all lists, and the provider that has its job is
 * notified. It is freed when its job or call is done. */
void request_abandon(struct request *request);
/* A provider receives this job; it has finished it. In between the request has a deadline. */
void request_begin_job(struct request *request, struct job *job);
void request_end_job(struct request *request);
/* Requests that have waited longer than --call-timeout get an error, and their jobs and calls are
 * abandoned. */
void requests_expire(struct worker *worker);
/* The request with that id among `requests`. */
struct request *request_find(struct list *requests, struct tidings_str id_json, bool by_session);

/* Several requests in one array (2025-03-26): answered as one array when the last is done. */
struct batch *request_batch_create(struct channel *channel);
void request_batch_add(struct batch *batch, struct request *request);
/* An element that is not a message and has no id. */
void request_batch_refuse(struct batch *batch, int rpc_code, const char *text);
void request_batch_close(struct batch *batch); /* no more will be added */
/* The channel is going away: the answers collected for it are discarded. */
void request_batch_detach(struct channel *channel);

/* -------------------------------------------------------------------------------------------------
 * Pages of lists: the number of rows that a client wants, and the cursor where the next page
 * starts. A cursor is a letter for the list and the last row's name, base64url: it survives
 * restarts and needs no memory. Like all client input, it is untrusted.
 */

/* The requested number of rows (params.pageSize or params.limit), at most the server's; 0: the
 * request was answered with an error. */
size_t page_size(struct request *request);
/* Parses params.cursor: its letter, one of `sources` (the first without a cursor), and the name
 * after which to continue, in the request's arena (empty: from the start). `ret_source` may be
 * NULL. Returns false if the cursor is invalid; the request was answered then. */
bool page_read_cursor(struct request *request, const char *sources, char *ret_source,
                      struct tidings_str *ret_after);
/* Writes the member nextCursor. */
void page_write_cursor(struct jw *w, char source, struct tidings_str last);

#endif
