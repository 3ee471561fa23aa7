/* SPDX-License-Identifier: MIT
 *
 * One HTTP connection and its worker, shared by the files of transport/http.
 *
 * The path of a request is http.c (bytes, then the request from its head to its handler;
 * http_check.c decides whether it is permitted), the handler (engine/protocol/inbound, or the files
 * of the other paths), and http_response.c.
 */
#ifndef TRANSPORT_HTTP_INTERNAL_H
#define TRANSPORT_HTTP_INTERNAL_H

#include <sys/types.h>
#include <time.h>

#include "base/log.h"
#include "engine/protocol/channel.h"
#include "formats/http.h"
#include "formats/http_fields.h"
#include "security/dpop.h"
#include "transport/connection.h"
#include "transport/http.h"
#include "transport/websocket.h"

/*   accept, handover ──TLS──> ┌───────────┐
 *        │                    │ HANDSHAKE │
 *        v      done          └───────────┘
 *    ┌────────┐ <─────────────────┘
 *    │  IDLE  │ <────────────────────────────────────────────┐  no byte of a request yet
 *    └────────┘                                              │
 *        │ first byte                                        │
 *        v                                                   │
 *    ┌────────┐ <── known ── ┌────────────────┐              │
 *    │  HEAD  │ ───────────> │ AUTHENTICATING │              │
 *    └────────┘  which client└────────────────┘              │
 *      │ │  ^ ^                                              │
 *      │ │  │ └───────────────────────────────────────────┐  │
 *      │ │  └──── ┌─────────┐  whole requests wait for    │  │
 *      │ │ ┌────> │THROTTLED│  the next turn              │  │
 *      │ │ │      └─────────┘                             │  │
 *      │ v │                                              │  │
 *      │ ┌────────┐                                       │  │
 *      │ │  BODY  │                                       │  │
 *      │ └────────┘                                       │  │
 *      v   v complete                          pipelined  │  │
 *    ┌─────────┐ ──────────── answered at once, keep-alive┴──┤
 *    │ RUNNING │                                          ^  │
 *    └─────────┘ ──> ┌──────────┐ answered later ─────────┴──┘
 *        │           │ AWAITING │
 *        │           └──────────┘
 *        ├─────────> ┌──────────┐ its session is here now,
 *        │           │ ADOPTING │ or not found: HEAD, and RUNNING again
 *        │           └──────────┘
 *        │  both: the answer is …
 *        ├─ a stream ──> STREAM ──────────────────┐ ended
 *        ├─ a long poll ──> POLL ──> POLLED ──────┤ message sent, the turn is over; or timeout
 *        ├─ the last one ─────────────────────────┴──> CLOSING ──written──> GONE
 *        └─ an upgrade ──> GONE, and a WebSocket takes over its socket
 *
 *  HANDSHAKE, IDLE, HEAD, BODY, AUTHENTICATING, RUNNING ──an error, a limit, a deadline──> REFUSED
 *  REFUSED ──written──> LINGER: input is discarded, so that the answer is read before the reset
 *  LINGER ──the client closes, or a second passes──> GONE; ──TLS fails: an alert──> REFUSED
 *  HANDSHAKE, IDLE, HEAD, BODY ──end of input, or of the server──> CLOSING
 *  HEAD ──its session is elsewhere──> GONE, and another worker takes over its socket
 *  from everywhere ──the socket fails, stalls or ends──> GONE
 */
enum conn_state {
    CONN_HANDSHAKE,
    CONN_IDLE,
    CONN_HEAD, /* the head of a request, … */
    CONN_BODY, /* … and its body */
    CONN_AUTHENTICATING,
    CONN_THROTTLED,
    CONN_RUNNING,  /* the handler of its request is on the stack */
    CONN_AWAITING, /* … and will answer later */
    CONN_ADOPTING, /* its session may be at another node */
    CONN_STREAM,
    CONN_POLL,   /* a stream that ends after the first messages, … */
    CONN_POLLED, /* … and a message was written */
    CONN_CLOSING,
    CONN_REFUSED,
    CONN_LINGER,
    CONN_GONE, /* its memory is freed at the end of the turn */
    CONN_STATES,
};

struct http_conn;

/* A page: its path, its methods, and its handler (the table is in http_pages.c). */
struct http_page {
    struct tidings_str path; /* its path; with `is_at` only its name in logs */
    bool (*is_at)(const struct http_conn *conn, struct tidings_str path);
    bool (*is_on)(const struct http_config *config); /* NULL: always */
    unsigned methods, write_methods; /* bits, 1u << enum http_method; the latter: --allow-write */
    bool takes_all : 1;              /* check_head or `run` checks the method */
    bool upgrades : 1;               /* it can become a WebSocket */
    bool is_public : 1;              /* no token is needed */
    bool has_messages : 1;           /* a POST contains messages: they are counted, not the POST */
    bool has_sessions : 1;           /* it belongs to a session, … */
    bool names_session : 1;          /* … which its query names */
    bool polls : 1;                  /* a GET can be a long poll */
    bool is_monitoring : 1;          /* the listener of --metrics also has it */
    bool is_resource : 1;            /* errors are JSON; headers of resources */
    /* After the checks of Host and Origin, before the body is read. Returns false if it rejected
     * the request. May be NULL. */
    bool (*check_head)(struct http_conn *conn, const struct http_request *req);
    bool (*check_body)(struct http_conn *conn, const struct http_request *req);
    void (*run)(struct http_conn *conn, const struct http_request *req); /* not OPTIONS */
};

#define ENDPOINT_PATH "/mcp"
#define RESOURCE_PATH "/resource"
#define HTTP_ENDPOINT_METHODS                                                                      \
    (1u << HTTP_GET | 1u << HTTP_POST | 1u << HTTP_DELETE | 1u << HTTP_OPTIONS)

/* The action on the connection after the answer. */
enum http_after {
    AFTER_CLOSE,
    AFTER_KEEP,
    AFTER_REFUSE, /* close, but only after the client has read the answer */
};

/* Where its session is (http_check.c). */
enum http_session {
    HTTP_SESSION_UNASKED,
    HTTP_SESSION_READY,
    HTTP_SESSION_UNKNOWN, /* its place could not be found */
};

/* State that only a connection that reads requests needs. */
struct http_reading {
    struct buf in;    /* the current request and the bytes after it */
    size_t scanned;   /* of its head */
    size_t head_len;  /* 0: not complete yet */
    size_t body_len;  /* decoded so far */
    size_t body_mark; /* its length when the deadline was last restarted */
    size_t body_need; /* Content-Length */
    struct http_chunked chunked;
    const struct http_page *page; /* NULL: none */
    void *work;                   /* the operation that answers the request later, and … */
    void (*abandon)(struct http_conn *conn); /* … its cancellation if the connection ends first */
    struct pending_token *pending_token;     /* of CONN_AUTHENTICATING */
    struct dpop_proof proof;                 /* that came with the token */
    struct deadline whole;                   /* in hw->whole, on the listener of --metrics */
    struct http_conn *conn;                  /* … its owner */
    char *origin;                            /* to be echoed; NULL: none */
    char traceparent[TRACE_PARENT_LEN + 1];  /* of its header; empty: none */
    struct log_context context;              /* the request's fields in the log … */
    uint64_t begun_ns;                       /* … and its time of arrival; 0: not needed */
    const char *method;                      /* "GET"; a static string */
    enum http_after after : 8;
    bool is_http10, is_head;
    bool is_accepted; /* the head passed all checks: the body may follow */
    bool is_chunked, body_done;
    bool token_waits;              /* its share of LIMIT_TOKENS is taken */
    bool takes_events;             /* the client accepts a stream for an answer */
    bool polls;                    /* … and not for the stream of its session */
    enum http_session session : 8; /* of this request */
    bool doubts_session;           /* it was imported, and requested again because it seemed old */
};

struct http_conn {
    struct connection base;
    struct http_reading *r; /* NULL when it is a stream */
};
_Static_assert(sizeof(void *) != 8 || sizeof(struct http_conn) <= 312, "an idle stream grows");

#define HTTP_ALLOWED_MAX 64u
#define REVIEW_MS 1000u /* interval of checks for revoked tokens */

struct http_worker {
    struct connection_worker base;
    struct connections conns; /* of HTTP; those of its WebSockets are separate */
    struct deadline_list whole;
    const struct http_config *config;
    http_find_worker_fn find;
    void *find_user;
    struct websocket_worker *websockets;
    struct map sse_streams;          /* of HTTP+SSE, by id */
    struct buf head;                 /* of the answer being written, kept for the next */
    struct token_cache *token_cache; /* NULL: no client has sent a token yet */
    struct refusal token_refusal;    /* why the current token may not wait */
    time_t date_second;
    char date[32];
    char allowed[HTTP_ALLOWED_MAX]; /* page_allows */
};

extern const struct channel_ops http_channel_ops;
extern const struct sink_ops http_sink_ops;

static inline struct http_conn *http_conn_of(struct connection *c)
{
    return (struct http_conn *)(void *)c;
}

static inline struct http_worker *http_worker_of_base(struct connection_worker *cw)
{
    return list_entry(cw, struct http_worker, base);
}

static inline struct http_worker *http_worker_of(const struct http_conn *conn)
{
    return list_entry(conn->base.all, struct http_worker, conns);
}

static inline struct http_conn *conn_of_channel(const struct channel *channel)
{
    return list_entry((struct channel *)(uintptr_t)channel, struct http_conn, base.channel);
}

static inline struct http_conn *conn_of_sink(const struct sink *sink)
{
    return list_entry((struct sink *)(uintptr_t)sink, struct http_conn, base.sink);
}

/* Returns true if it arrived at the listener of --metrics. */
static inline bool conn_is_monitoring(const struct http_conn *conn)
{
    return http_worker_of(conn)->config->scrape != NULL;
}

/* `work` NULL: it is done. */
static inline void conn_set_work(struct http_conn *conn, void *work,
                                 void (*abandon)(struct http_conn *conn))
{
    conn->r->work = work;
    conn->r->abandon = work ? abandon : NULL;
}

/* Returns the body of the current request. */
static inline struct tidings_str conn_body(const struct http_conn *conn)
{
    return tidings_strn(conn->r->in.ptr + conn->r->head_len, conn->r->body_len);
}

/* Limit of queued answers before pipelined requests have to wait. */
#define PIPELINE_HIGH_WATER (256u * 1024u)

extern const struct connection_kind http_kind;
extern const struct channel_ops http_channel_ops;
extern const struct sink_ops http_sink_ops;

/* ---- http.c ---------------------------------------------------------------------------------- */

/* Sets the events that the connection waits for now. */
void conn_set_events(struct http_conn *conn);
/* Handles every complete request that was read, within the limits of this turn. */
void conn_go_on(struct http_conn *conn);
/* The request is answered: drops it from the input and continues with the next one. */
void conn_finish_request(struct http_conn *conn);
/* A WebSocket takes over its socket and the bytes after the request. The connection is gone
 * then. */
void conn_become_websocket(struct http_conn *conn, struct websocket *ws);
void conn_free_reading(struct http_conn *conn);

/* ---- http_response.c ------------------------------------------------------------------------- */

void conn_answer(struct http_conn *conn, int status, const struct response_headers *headers,
                 struct tidings_str type, struct buf *text);
/* The same for a source, which it takes. */
void conn_answer_long(struct http_conn *conn, int status, const struct response_headers *headers,
                      struct tidings_str type, struct sendq_source *source);
void conn_answer_preflight(struct http_conn *conn, const struct http_request *req);
/* Rejects a request below JSON-RPC; closes the connection. */
void conn_refuse(struct http_conn *conn, int status, const char *text);
/* … for a reason that differs from its status. */
void conn_refuse_for(struct http_conn *conn, enum failure_cause cause, int status,
                     const char *text);
/* … with further header lines; headers->reason is a NUL-terminated string. */
void conn_refuse_with(struct http_conn *conn, int status, const struct response_headers *headers);
/* … because of a size or time limit of the request itself, which is counted. */
void conn_refuse_over(struct http_conn *conn, enum limit limit, int status, const char *text);

/* GET /sse becomes a stream, to which /messages belongs. It ends when the server does, and with the
 * credentials of its client. */
void legacy_sse_open(struct http_conn *conn);
void legacy_sse_post(struct http_conn *conn, struct tidings_str id, struct tidings_str text);
void legacy_sse_drain(struct http_worker *hw);
bool legacy_sse_has_credentials(const struct connection *c);
void legacy_sse_end_credentials(struct connection *c, bool is_revoked);
/* A long poll sends its messages and ends; called at the end of a turn for all that have
 * messages. */
void poll_finish(struct http_conn *conn);
void poll_flush(struct http_worker *hw);

/* ---- http_check.c ---------------------------------------------------------------------------- */

/* Checks a complete head: path, method, Host, Origin and the client; then the announced body.
 * Returns false if the request was rejected, or its token is being verified
 * (CONN_AUTHENTICATING). */
bool conn_check_head(struct http_conn *conn, const struct http_request *req);
bool conn_check_body(struct http_conn *conn, const struct http_request *req);
/* For pages with messages: checks Content-Type and Accept. */
bool conn_check_types(struct http_conn *conn, const struct http_request *req);
/* Counts the request towards the rate of its client. Returns false if it was answered; the
 * connection stays. */
bool conn_check_rate(struct http_conn *conn);
/* Returns the session in the header or the query of a request of the legacy era; ptr NULL: none. */
struct tidings_str conn_session_id(const struct http_page *page, const struct http_request *req);
struct tidings_str conn_session_named(const struct http_page *page, const struct http_request *req);
/* Returns true if the session must be imported first: the request waits, or was rejected. */
bool conn_awaits_session(struct http_conn *conn, const struct http_request *req);
/* The time to wait for a session or a token is over. */
void http_give_up_session(struct connection *c);
void http_give_up_token(struct connection *c);
/* Writes the challenge to a client that lacks these scopes; nothing without tokens. */
void conn_put_insufficient(struct http_conn *conn, struct buf *head, struct tidings_str scopes);
/* Ends everything that began with tokens or keys that were removed since the last call. Call it
 * before any decision that depends on the client. */
void http_review_tokens(struct http_worker *hw);
bool metadata_is_at(const struct http_conn *conn, struct tidings_str path);
void conn_run_metadata(struct http_conn *conn, const struct http_request *req);

/* ---- http_resource.c ------------------------------------------------------------------------- */

bool resource_is_at(const struct http_conn *conn, struct tidings_str path);
bool resource_check_method(struct http_conn *conn, const struct http_request *req);
void conn_run_resource(struct http_conn *conn, const struct http_request *req);
/* Rejects a request in JSON: {"error": "message"}. */
void resource_refuse(struct http_conn *conn, int status, const char *text);

/* ---- http_pages.c ---------------------------------------------------------------------------- */

const struct http_page *page_find(const struct http_conn *conn, struct tidings_str path);
/* Returns the methods of the page of a request here, also as the text of Allow, valid until the
 * next call. */
unsigned page_methods(const struct http_conn *conn);
struct tidings_str page_allows(struct http_conn *conn, unsigned methods);

#endif
