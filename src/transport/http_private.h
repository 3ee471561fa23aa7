/* SPDX-License-Identifier: MIT
 *
 * One HTTP connection, shared by http.c (life, reading), http_request.c (what is asked) and
 * http_response.c (what is said).
 */
#ifndef TRANSPORT_HTTP_PRIVATE_H
#define TRANSPORT_HTTP_PRIVATE_H

#include <sys/types.h>
#include <time.h>

#include "request/channel.h"
#include "transport/http.h"
#include "wire/http.h"
#include "wire/ws.h"

/*     accept/handover --TLS--> SHAKING, until the handshake is done
 *          |                        |
 *          | <----------------------+
 *        IDLE <---------------------------+      no byte of a request yet
 *          | first byte                   |
 *        READING/BODY --complete--> BUSY --answered, keep-alive
 *          | ^                  |         |
 *          v | (head complete, its token is being judged)
 *        UNKNOWN                |         |
 *          |                    |  |\--becomes a stream--> STREAM --ended-+
 *          |                    |  \--WebSocket--> SOCKET <--> ASKED ------+
 *          |                    |                 ^ |  half a message        |
 *          |                    |                 | v                       |
 *          |                    |               MIDWAY ---------------------+
 *          |                    +--answered, close--> CLOSING <----------+
 *          +--refused--------------------> CLOSING --flushed--> gone
 *                                            \--refused: LINGER, input is discarded for a while so
 *                                               that the refusal is read before the reset; or a
 *                                               WebSocket that was ended by us says its own goodbye
 */
enum conn_state {
    CONN_SHAKING,
    CONN_IDLE,
    CONN_READING, /* the head of a request, … */
    CONN_BODY,    /* … and its body */
    CONN_UNKNOWN, /* the head was read; who it is from is being found out */
    CONN_REST,    /* whole requests, or messages, wait for the next turn */
    CONN_BUSY,
    CONN_STREAM,
    CONN_SOCKET, /* a WebSocket that was heard of lately, */
    CONN_ASKED,  /* and one that was pinged because it was not */
    CONN_MIDWAY, /* one of whose message a part has come */
    CONN_POLL,   /* a stream that ends with what there is to say first */
    CONN_CLOSING,
    CONN_LINGER,
    CONN_STATES,
};

/* Bytes read per connection and turn, so that one talker does not starve the rest; the messages
 * among them that are handled are counted by channel_may_go_on. */
#define READ_QUANTUM (4u * 65536u)

/* Paths beside the endpoint (http_legacy_sse.c). */
enum http_side {
    SIDE_NONE,
    SIDE_SSE,
    SIDE_MESSAGES,
    SIDE_EVENTS,
    SIDE_METADATA, /* http_auth.c */
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
    const struct http_route *route;      /* NULL: the endpoint, or … */
    struct http_exchange *exchange;      /* of /resource, while it is under way */
    struct pending_token *pending_token; /* of CONN_UNKNOWN */
    char *origin;                        /* to be echoed; NULL: none */
    bool is_accepted;                    /* the head passed all checks: the body may come */
    bool is_chunked, body_done, is_resource, is_upgrade;
    bool takes_events; /* the client accepts a stream for an answer */
    bool polls;        /* … and wants none for the stream of its session */
    enum http_side side;
};

struct http_conn {
    struct channel channel;
    struct http_worker *hw;
    union {
        struct {
            struct list link;      /* in hw->by_state[state], oldest first */
            struct list wait_link; /* in hw->waiting while the kernel takes no more */
        };
        struct loop_discard discard; /* once it is gone */
    };
    struct loop_poll poll;
    union {
        struct http_reading *r;   /* NULL once it is a stream */
        struct ws_reader *frames; /* of a WebSocket: while a message is half read, else NULL */
    };
    /* From here on what every message to a stream touches, close together. */
    struct sink sink;
    struct sendq out; /* also says its descriptor: out.fd */
    /* Times are the loop's, cut to 32 bits: no deadline is as long as that takes to come round. */
    uint32_t since_ms;  /* in this state, or written to */
    uint32_t listed_ms; /* when it was put at the end of its list */
    uint32_t wait_since_ms, wait_written;
    uint32_t booked; /* bytes of input (http_input_budget.c) */
    enum conn_state state : 8;
    bool keep_alive : 1, is_http10 : 1, is_head : 1, refused : 1, waits : 1;
    bool eof : 1;            /* the client will send nothing more */
    bool answering : 1;      /* inside the handling of its request */
    bool gone : 1;           /* closed; the memory goes at the end of the turn */
    bool is_websocket : 1;   /* since its upgrade */
    bool has_rest : 1;       /* messages that were read wait for room */
    bool awaits_close : 1;   /* a WebSocket that has yet to say its goodbye */
    bool was_enveloped : 1;  /* the last message was: so are answers */
    bool uses_envelopes : 1; /* some message was: so are notifications */
    bool has_polled : 1;     /* something was said to a poll */
};

struct http_worker {
    struct worker *worker;
    const struct http_config *config;
    struct worker_inbox inbox;
    http_find_worker_fn find;
    void *find_user;
    struct list by_state[CONN_STATES];
    struct list waiting;
    struct map side_streams; /* of HTTP+SSE, by id */
    struct loop_timer *tick;
    struct loop_timer *rested; /* runs while there are some in CONN_REST */
    struct loop_hook flush_hook;
    void (*drained)(void *user);
    void *drained_user;
    bool draining;
    int64_t next_expiry_ms;          /* of a WebSocket or a stream of HTTP+SSE; 0: never */
    struct buf head;                 /* of the answer being written, kept for the next */
    struct ws_reader *spare_reader;  /* an idle one; NULL: none */
    struct token_cache *token_cache; /* NULL: nobody showed a token yet */
    time_t date_second;
    char date[32];
    char scratch[65536];
};

/* A WebSocket on which messages may come and go? */
static inline bool conn_is_socket(const struct http_conn *conn)
{
    return !conn->gone &&
           (conn->state == CONN_SOCKET || conn->state == CONN_ASKED || conn->state == CONN_MIDWAY ||
            (conn->state == CONN_REST && conn->is_websocket));
}

extern const struct channel_ops http_channel_ops;
extern const struct sink_ops http_sink_ops;

/* http.c */
void conn_set_state(struct http_conn *conn, enum conn_state state);
void conn_close(struct http_conn *conn, const char *reason);
/* The request is done with: drop it from the input and go on with what follows. */
void conn_finish_request(struct http_conn *conn);
void conn_want(struct http_conn *conn);
/* http_tls.c: what the client sent, into hw->scratch. Returns the bytes; 0: none at the moment, or
 * none ever when `eof` is set, which may come with the last ones; -1: the connection was closed, or
 * will be when it has been told why. */
ssize_t conn_receive(struct http_conn *conn);
void conn_free_reading(struct http_conn *conn);
/* Handle every complete request that was read, as far as this turn goes. */
void conn_go_on(struct http_conn *conn);

/* http_input_budget.c: it may hold more or less of what it was sent than before; on this worker,
 * make room when all hold too much. */
void conn_book_input(struct http_conn *conn);
void conn_cut_input(struct http_conn *conn); /* say why, forget what came, and close */
void http_make_room(struct http_worker *hw);

/* http_fairness.c: may it handle another message in this turn? If not, it goes on in the next. */
bool conn_may_go_on(struct http_conn *conn);
/* At the end of a turn: there will be another for those who rest. */
void http_end_turn(struct http_worker *hw);
void http_on_rested(struct loop_timer *timer, void *user);

/* http_deadlines.c: four times a second. */
void http_on_tick(struct loop_timer *timer, void *user);
void http_start_tick(struct http_worker *hw); /* somebody comes; it ends by itself */
/* It goes on for longer than an exchange, and ends when its principal does. */
void conn_note_expiry(struct http_conn *conn);

/* http_request.c. Of a complete head: where does it lead, may it be asked from there, and by whom?
 * Then the rest of it. False: it was refused, or who asks is not known yet (CONN_UNKNOWN). */
bool conn_begin_request(struct http_conn *conn, const struct http_request *req);
bool conn_accept_request(struct http_conn *conn, const struct http_request *req);
/* Handle the complete request at the start of conn->in. */
void conn_run_request(struct http_conn *conn, const struct http_request *req);
/* Which worker should have this connection; -1: this one. */
int conn_belongs_to(struct http_conn *conn, const struct http_request *req);

/* http_response.c */
void conn_answer(struct http_conn *conn, int status, const struct answer_headers *headers,
                 struct tidings_str type, struct buf *text);
/* A refusal below JSON-RPC; closes the connection. */
void conn_refuse(struct http_conn *conn, int status, const char *text);
/* … with further header lines. */
void conn_refuse_with(struct http_conn *conn, int status, struct tidings_str fields,
                      const char *text);
/* The same because of a limit of its own size or time, which is counted. */
void conn_refuse_over(struct http_conn *conn, enum limit limit, int status, const char *text);
/* May its client ask for this now? Answers when it may not; the connection stays. */
bool conn_check_rate(struct http_conn *conn);
void conn_answer_preflight(struct http_conn *conn, const struct http_request *req);
/* What it may hold back in the kernel, now that it is to be told of changes. */
void conn_limit_kernel(struct http_conn *conn);
/* http_websocket.c: may the request begin one? Answers when it may not. */
bool websocket_check(struct http_conn *conn, const struct http_request *req);
void websocket_begin(struct http_conn *conn, const struct http_request *req);
/* There is something to read, from one that is open or is being ended. */
void websocket_read(struct http_conn *conn);
/* Is there room for what an open one may send? When there is again, go on with what waits. */
bool websocket_reads(const struct http_conn *conn);
void websocket_go_on(struct http_conn *conn);
/* Nothing was heard from it: ask whether it is there; it did not say so. */
void websocket_ask(struct http_conn *conn);
void websocket_miss(struct http_conn *conn);
/* The rest of a message did not come in time. */
void websocket_late(struct http_conn *conn);
/* Say why and close; whatever else it sends is thrown away for a while. */
void websocket_cut(struct http_conn *conn, unsigned code, struct tidings_str reason);
/* Say goodbye to those that wait for no answer. */
void websocket_drain(struct http_worker *hw);
/* … to those who are nobody any more, … */
void websocket_dismiss(struct http_worker *hw, principal_test_fn is_gone, void *user);
/* … and whose time is over at `now_ms`. Returns when that of the next is; 0: never. */
int64_t websocket_expire(struct http_worker *hw, int64_t now_ms);
/* http_resource.c: /resource?uri=…, and paths that are aliases of URIs */
#define RESOURCE_PATH "/resource"
bool resource_is_at(const struct http_conn *conn, struct tidings_str path);
/* Is the method one for it? Answers when it is not. */
bool resource_check_method(struct http_conn *conn, const struct http_request *req);
struct tidings_str resource_allows(const struct http_conn *conn);
void conn_run_resource(struct http_conn *conn, const struct http_request *req);
/* The connection goes while its exchange is under way. */
void resource_abandon(struct http_conn *conn);
/* http_auth.c, where tokens are configured: whom is the request from? False: it was refused, or it
 * waits. The connection goes, or its time is up, while it waits. */
bool conn_authenticate(struct http_conn *conn, const struct http_request *req);
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
/* http_legacy_sse.c: what is at that path; which methods it has. */
enum http_side side_find(const struct http_config *config, struct tidings_str path);
struct tidings_str side_allows(enum http_side side);
bool side_takes(enum http_side side, const struct http_request *req);
/* The session that the query names; ptr NULL: none. */
struct tidings_str side_session(enum http_side side, const struct http_request *req);
/* GET /sse becomes a stream; POST /messages; such streams end when their turn has come. */
void side_open(struct http_conn *conn);
void side_post(struct http_conn *conn, struct tidings_str id, struct tidings_str text);
void side_drain(struct http_worker *hw);
int64_t side_expire(struct http_worker *hw, int64_t now_ms); /* … or their time is over */
/* … or those who opened them are nobody any more. */
void side_dismiss(struct http_worker *hw, principal_test_fn is_gone, void *user);
/* Long polls: the head is written; say what there is and end; at the end of a turn. */
struct sink *poll_begin(struct http_conn *conn);
void poll_finish(struct http_conn *conn);
void poll_flush(struct http_worker *hw);
/* http_route.c: the program's own pages. */
const struct http_route *route_find(const struct http_config *config, struct tidings_str path);
void conn_run_route(struct http_conn *conn, const struct http_request *req);

#endif
