/* SPDX-License-Identifier: MIT
 *
 * One HTTP connection and its worker, shared by the files of transport/http.
 *
 * The way of a request is http.c (bytes come), http.c (the request from its head to whoever
 * handles it; http_check.c says whether it may), the handler (engine/protocol/inbound, or the files
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
 *    └────────┘  whose is it?└────────────────┘              │
 *      │ │  ^ ^                                              │
 *      │ │  │ └───────────────────────────────────────────┐  │
 *      │ │  └──── ┌─────────┐  whole requests wait for    │  │
 *      │ │ ┌────> │ YIELDED │  the next turn              │  │
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
 *        │           │ ADOPTING │ or nobody knows: HEAD, and RUNNING again
 *        │           └──────────┘
 *        │  both: the answer is …
 *        ├─ a stream ──> STREAM ──────────────────┐ ended
 *        ├─ a long poll ──> POLL ──> POLLED ──────┤ something was said, the turn is over; too long
 *        ├─ the last one ─────────────────────────┴──> CLOSING ──written──> GONE
 *        └─ an upgrade ──> GONE, and a WebSocket goes on with its socket
 *
 *  HANDSHAKE, IDLE, HEAD, BODY, AUTHENTICATING, RUNNING ──a mistake, a limit, a deadline──> REFUSED
 *  REFUSED ──written──> LINGER: input is discarded, so that the refusal is read before the reset
 *  LINGER ──the client is done, or a second went by──> GONE; ──TLS fails: an alert──> REFUSED
 *  HANDSHAKE, IDLE, HEAD, BODY ──end of input, or of the server──> CLOSING
 *  HEAD ──its session is elsewhere──> GONE, and another worker goes on with its socket
 *  from everywhere ──the socket fails, stalls or ends──> GONE
 */
enum conn_state {
    CONN_HANDSHAKE,
    CONN_IDLE,
    CONN_HEAD, /* the head of a request, … */
    CONN_BODY, /* … and its body */
    CONN_AUTHENTICATING,
    CONN_YIELDED,
    CONN_RUNNING,  /* what handles its request is on the stack */
    CONN_AWAITING, /* … will answer later */
    CONN_ADOPTING, /* its session may be at another node */
    CONN_STREAM,
    CONN_POLL,   /* a stream that ends with what there is to say first, … */
    CONN_POLLED, /* … and something was said */
    CONN_CLOSING,
    CONN_REFUSED,
    CONN_LINGER,
    CONN_GONE, /* its memory goes at the end of the turn */
    CONN_STATES,
};

/* Where a request leads (http.c). */
enum http_path {
    PATH_NOWHERE,
    PATH_ENDPOINT,
    PATH_ROUTE,    /* a page of the program: http_pages.c */
    PATH_RESOURCE, /* http_resource.c */
    PATH_NOTIFY,   /* http_pages.c */
    PATH_SSE,      /* http_response.c */
    PATH_MESSAGES,
    PATH_EVENTS,   /* http_response.c */
    PATH_METADATA, /* http_check.c */
    PATH_CONSOLE,  /* http_pages.c */
    PATH_HEALTH,   /* http_pages.c */
};

/* What becomes of the connection after the answer. */
enum http_after {
    AFTER_CLOSE,
    AFTER_KEEP,
    AFTER_REFUSE, /* close, but only when the answer was read */
};

/* Where its session is (http_check.c). */
enum http_session {
    HTTP_SESSION_UNASKED,
    HTTP_SESSION_READY,
    HTTP_SESSION_UNKNOWN, /* nobody could say */
};

/* What only a connection that reads requests needs. */
struct http_reading {
    struct buf in;    /* the request being read and what follows it */
    size_t scanned;   /* of its head */
    size_t head_len;  /* 0: not complete yet */
    size_t body_len;  /* decoded so far */
    size_t body_mark; /* as much of it was there when its time was last counted anew */
    size_t body_need; /* Content-Length */
    struct http_chunked chunked;
    const struct http_route *route;         /* of PATH_ROUTE */
    struct http_exchange *exchange;         /* of PATH_RESOURCE, while it is under way */
    struct http_notifying *notifying;       /* of PATH_NOTIFY, likewise */
    struct pending_token *pending_token;    /* of CONN_AUTHENTICATING */
    struct dpop_proof proof;                /* that came with the token */
    struct session_wait *awaiting;          /* of CONN_ADOPTING */
    char *origin;                           /* to be echoed; NULL: none */
    char traceparent[TRACE_PARENT_LEN + 1]; /* of its header; empty: none */
    struct log_context context;             /* what the log says of the request … */
    uint64_t begun_ns;  /* … and since when it is here; 0: nobody wants to know */
    const char *method; /* "GET"; lives for ever */
    enum http_path path : 8;
    enum http_after after : 8;
    bool is_http10, is_head;
    bool is_accepted; /* the head passed all checks: the body may come */
    bool is_chunked, body_done;
    bool token_waits;              /* its share of LIMIT_TOKENS is taken */
    bool takes_events;             /* the client accepts a stream for an answer */
    bool polls;                    /* … and wants none for the stream of its session */
    enum http_session session : 8; /* of this request */
    bool doubts_session; /* it was brought here, and asked for again because it seemed old */
};

struct http_conn {
    struct connection base;
    struct http_reading *r; /* NULL once it is a stream */
};
_Static_assert(sizeof(void *) != 8 || sizeof(struct http_conn) <= 312, "an idle stream grows");

#define REVIEW_MS 1000u /* revoked tokens are looked for */

struct http_worker {
    struct connection_worker base;
    struct connections conns; /* its own; those of its WebSockets are beside them */
    const struct http_config *config;
    http_find_worker_fn find;
    void *find_user;
    struct websocket_worker *websockets;
    struct map sse_streams;          /* of HTTP+SSE, by id */
    struct buf head;                 /* of the answer being written, kept for the next */
    struct token_cache *token_cache; /* NULL: nobody showed a token yet */
    struct refusal token_refusal;    /* why the token that is asked about may not wait */
    time_t date_second;
    char date[32];
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

/* Does it read a request, or wait for one? */
static inline bool conn_is_reading(const struct http_conn *conn)
{
    return conn->base.state == CONN_IDLE || conn->base.state == CONN_HEAD ||
           conn->base.state == CONN_BODY;
}

extern const struct connection_kind http_kind;

/* Ask the loop for what it waits for now. */
void conn_want(struct http_conn *conn);
/* Another goes on with its socket: the worker where it belongs (at the start of a request, of which
 * nothing was handled), or a WebSocket, which takes what follows the request. It is gone then. */
void conn_become_websocket(struct http_conn *conn, struct websocket *ws);
void conn_free_reading(struct http_conn *conn);
/* Answers pile up only so far before pipelined requests have to wait. */
#define PIPELINE_HIGH_WATER (256u * 1024u)

/* http.c: handle every complete request that was read, as far as this turn goes; and the
 * request is answered: drop it from the input and go on with what follows. */
void conn_go_on(struct http_conn *conn);
void conn_finish_request(struct http_conn *conn);

/* http_check.c. Of a complete head: where does it lead, may it be asked from there, and by whom?
 * Then: may it have the body it announces? False: it was refused, or who asks is not known yet
 * (CONN_AUTHENTICATING). */
bool conn_check_head(struct http_conn *conn, const struct http_request *req);
bool conn_check_body(struct http_conn *conn, const struct http_request *req);
/* May its client ask for this now? Answers when it may not; the connection stays. */
bool conn_check_rate(struct http_conn *conn);

/* http.c: what is at that path (*route: of PATH_ROUTE); which methods it has; the session that
 * the query names, ptr NULL: none. */
enum http_path path_find(const struct http_conn *conn, struct tidings_str path,
                         const struct http_route **route);
const char *path_name(enum http_path path); /* for people; NULL: of none */
struct tidings_str path_allows(enum http_path path);
bool path_takes(enum http_path path, const struct http_request *req);
struct tidings_str path_session(enum http_path path, const struct http_request *req);

/* http_response.c */
void conn_answer(struct http_conn *conn, int status, const struct response_headers *headers,
                 struct tidings_str type, struct buf *text);
/* The same for a source, which it takes. */
void conn_answer_long(struct http_conn *conn, int status, const struct response_headers *headers,
                      struct tidings_str type, struct sendq_source *source);
/* A refusal below JSON-RPC; closes the connection. */
void conn_refuse(struct http_conn *conn, int status, const char *text);
/* … for a reason that its status does not say. */
void conn_refuse_for(struct http_conn *conn, enum failure_cause cause, int status,
                     const char *text);
/* … with further header lines; headers->reason is a string with its NUL. */
void conn_refuse_with(struct http_conn *conn, int status, const struct response_headers *headers);
/* The same because of a limit of its own size or time, which is counted. */
void conn_refuse_over(struct http_conn *conn, enum limit limit, int status, const char *text);
void conn_answer_preflight(struct http_conn *conn, const struct http_request *req);

/* http_check.c: does the session of this request have to be brought here first? Then it waits, or
 * was refused. The connection goes, or its time is up, while it waits. */
bool conn_awaits_session(struct http_conn *conn, const struct http_request *req);
void conn_forget_session(struct http_conn *conn);
void conn_give_up_session(struct http_conn *conn);
/* The session that a request of the legacy era names; ptr NULL: none. */
struct tidings_str http_session_id(enum http_path path, const struct http_request *req);

/* http_pages.c: may the request begin a WebSocket? Answers when it may not. */
bool upgrade_check(struct http_conn *conn, const struct http_request *req);
void conn_run_upgrade(struct http_conn *conn, const struct http_request *req);

/* http_resource.c: /resource?uri=…, and paths that are aliases of URIs */
#define RESOURCE_PATH "/resource"
bool resource_is_at(const struct http_conn *conn, struct tidings_str path);
/* Is the method one for it? Answers when it is not. */
bool resource_check_method(struct http_conn *conn, const struct http_request *req);
struct tidings_str resource_allows(const struct http_conn *conn);
void conn_run_resource(struct http_conn *conn, const struct http_request *req);
/* Failures are JSON there: {"error": "a sentence"}. */
void resource_refuse(struct http_conn *conn, int status, const char *text);
/* The connection goes while its exchange is under way. */
void resource_abandon(struct http_conn *conn);

/* http_pages.c: GET /console, a page without anything of the server in it. */
#define CONSOLE_PATH "/console"
void conn_run_console(struct http_conn *conn);

/* http_pages.c: POST /notify, where clients may write. */
#define NOTIFY_PATH "/notify"
void conn_run_notify(struct http_conn *conn);
/* The connection goes before the answer. */
void http_notify_abandon(struct http_conn *conn);

/* http_check.c, where tokens are configured: whom is the request from? False: it was refused, or it
 * waits. The connection goes, or its time is up, while it waits. */
void conn_forget_pending_token(struct http_conn *conn);
void conn_give_up_pending_token(struct http_conn *conn);
/* The challenge to whoever lacks these scopes for what it asked; nothing without tokens. */
void conn_put_insufficient(struct http_conn *conn, struct buf *head, struct tidings_str scopes);
/* When tokens or keys were loaded since the last time: what was begun by those that are gone ends.
 * To be called before what depends on who somebody is. */
void http_review_tokens(struct http_worker *hw);
/* The metadata: is it at that path (`auth` may be NULL)? */
bool metadata_is_at(const struct http_auth *auth, struct tidings_str path);
void conn_run_metadata(struct http_conn *conn, const struct http_request *req);

/* http_response.c: GET /sse becomes a stream; POST /messages;
 * such streams end when their turn has come, and with the credentials of their clients. */
void legacy_sse_open(struct http_conn *conn);
void legacy_sse_post(struct http_conn *conn, struct tidings_str id, struct tidings_str text);
void legacy_sse_drain(struct http_worker *hw);
bool legacy_sse_is_on(const struct connection *c);
void legacy_sse_end_credentials(struct connection *c, bool is_revoked);

/* http_response.c, long polls: the head is written; say what there is and end; at the end of a
 * turn. */
void poll_finish(struct http_conn *conn);
void poll_flush(struct http_worker *hw);

/* http_pages.c: /livez and /readyz, for everybody. */
bool health_is_at(const struct http_config *config, struct tidings_str path);
void conn_run_health(struct http_conn *conn, const struct http_request *req);

/* http_pages.c: the program's own pages. */
const struct http_route *route_find(const struct http_config *config, struct tidings_str path);
void conn_run_route(struct http_conn *conn, const struct http_request *req);

#endif
