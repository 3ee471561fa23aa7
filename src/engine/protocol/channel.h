/* SPDX-License-Identifier: MIT
 *
 * A way messages come in and answers go out: an HTTP connection (one exchange at a time) or a
 * message connection (stdio, sockets, WebSockets: messages interleave freely). Transports embed it
 * and implement the operations.
 */
#ifndef ENGINE_PROTOCOL_CHANNEL_H
#define ENGINE_PROTOCOL_CHANNEL_H

#include <tidings/types.h>

#include "base/list.h"
#include "base/map.h"
#include "engine/protocol/dialect.h"
#include "formats/json_write.h"
#include "formats/rpc.h"
#include "security/failures.h"
#include "security/limits.h"
#include "security/principal.h"

/* -------------------------------------------------------------------------------------------------
 * The questions that a legacy client can answer, and its open questions: one object for each
 * session over HTTP and for each message connection, so that the server accepts an answer only from
 * the client that it asked. Each object numbers its questions from 1.
 *
 * At most CLIENT_REQUESTS_MAX questions are open at a time. The code that asks implements struct
 * client_request.
 */

#define CLIENT_REQUESTS_MAX 64u

struct client_requests;
struct client_request;

struct client_request_ops {
    /* The client answered, and the question is closed: `result` (NULL: none), or `error`, an
     * object. */
    void (*answered)(struct client_request *client_request, struct json *result,
                     struct json *error);
    /* The client has gone, and all its questions with it. When this returns, none of the caller's
     * questions may be open. */
    void (*lost)(struct client_request *client_request);
    /* Writes the request as it is sent. */
    void (*put)(struct client_request *client_request, struct buf *out);
};

/* An open question. */
struct client_request {
    struct list link; /* in client_requests->open */
    const struct client_request_ops *ops;
    struct client_requests *client_requests;
    uint64_t id;
    bool is_on_session; /* on a GET stream of the session, not on its request's own; … */
    uint64_t event;     /* … with this event */
};

struct client_requests {
    struct list open; /* oldest first */
    uint64_t next_id;
    unsigned count, can;  /* open; capabilities: ASK_… of engine/protocol/dialect.h */
    unsigned next_stream; /* of requests that can be resumed, … */
    unsigned next_event;  /* … and the events on them */
    const void *owner;    /* the channel, for message connections */
    const char *tag;      /* prefix of event ids; NULL: there are no such ids */
};

/* Returns NULL if the client can answer no questions, or without memory. */
struct client_requests *client_requests_create(unsigned can);
void client_requests_destroy(
    struct client_requests *client_requests); /* every question is lost; NULL is fine */
/* Numbers the request. Returns false if too many are open. The caller sets
 * `client_request->ops`. */
bool client_requests_add(struct client_requests *client_requests,
                         struct client_request *client_request);
void client_requests_remove(struct client_request *client_request);
/* Handles a response. A response to a question that is not open is ignored. */
void client_requests_answer(struct client_requests *client_requests, const struct json *id,
                            struct json *message);

/* -------------------------------------------------------------------------------------------------
 * Where a subscriber writes: one open stream of messages to a client. Implemented by transports (an
 * SSE response, a message connection) and by tests (a buffer).
 *
 * Writers write whole messages. When the stream ends for any reason, the transport calls `closed`
 * once; after that the sink is gone. If a writer has more messages than the stream takes, `drained`
 * reports when there is room.
 */

struct channel;
struct sendq_source;
struct sink;

struct sink_ops {
    const char *name;
    /* Room for one message of exactly `len` bytes, framed; the caller fills it before anything else
     * is written. `event_id` is used where the framing has ids; empty: none. NULL: the stream is
     * broken and will be closed. */
    char *(*room)(struct sink *sink, struct tidings_str event_id, size_t len);
    /* The first event of a resumable stream: an id, no data, and the delay before the client
     * reconnects. */
    void (*prime)(struct sink *sink, struct tidings_str event_id, int64_t retry_ms);
    /* Bytes written but not yet taken by the kernel. */
    size_t (*pending)(const struct sink *sink);
    /* No more messages: finish what is pending, then end (HTTP: close the response; message
     * connections stay). */
    void (*end)(struct sink *sink);
    /* The same after one more message, which is produced while it is sent. Takes the source. NULL:
     * there are no such messages. */
    void (*end_long)(struct sink *sink, struct sendq_source *source);
    /* Ends at once, without finishing, so that the client notices and reconnects. */
    void (*cut)(struct sink *sink, const char *reason);
    /* The channel it writes through. NULL: the sink belongs to the program. */
    struct channel *(*channel)(const struct sink *sink);
};

/* Events for the writer of a stream; each may be NULL. */
struct sink_events {
    void (*drained)(void *user);
    void (*closed)(void *user);
};

struct sink {
    const struct sink_ops *ops;
    const struct sink_events *events; /* NULL: no writer */
    void *user;
    bool blocked;    /* set by the writer: it has more to say and waits for `drained` */
    uint32_t booked; /* bytes of its queue (transport/connection.h) */
};

/* A stream that is always open and never full, and leads nowhere: for subscribers that are called
 * instead of written to (subscriber_ops.on_update). Acknowledgements and the like are not for
 * programs.
 */
extern const struct sink_ops sink_nowhere;

/* For writers: attaches `events` (NULL: detaches). */
static inline void sink_attach(struct sink *sink, const struct sink_events *events, void *user)
{
    sink->events = events;
    sink->user = user;
}
/* For transports: the stream has room; the stream is gone, which is reported once. */
static inline void sink_drained(struct sink *sink)
{
    if (sink->events && sink->events->drained) {
        sink->events->drained(sink->user);
    }
}
static inline void sink_closed(struct sink *sink)
{
    const struct sink_events *events = sink->events;
    sink->events = NULL;
    if (events && events->closed) {
        events->closed(sink->user);
    }
}

struct client_account;
struct batch;
struct request;
struct worker;
struct subscriber;
struct quota;

/* Headers an answer may carry besides its body; empty slices are left out. */
struct response_headers {
    struct tidings_str session_id;
    struct tidings_str allow;
    struct tidings_str scope;  /* the missing scopes, separated by blanks */
    struct tidings_str extra;  /* whole lines, each with its line break */
    struct tidings_str reason; /* of a refusal, for the log; no header … */
    enum failure_cause cause;  /* … and why; ORDINARY: as its status says */
    struct tidings_str uri;    /* the URI concerned, for the log */
    struct tidings_str path;   /* the requested path, if nothing exists there */
};

/* Facts about the peer of a channel, for operators. */
#define CHANNEL_ADDRESS_MAX 64u
struct channel_facts {
    char address[CHANNEL_ADDRESS_MAX]; /* "192.0.2.1:50044", "[2001:db8::1]:50044", "uid:1000" */
    const char *listener;              /* "http", "https", "tcp", "tls", "unix", "stdio" */
    uint64_t bytes_out;                /* that the kernel took, of this connection */
    uint64_t bytes_in;                 /* of it; 0: it does not count them … */
    int fd;                            /* … and the kernel may; 0: there is nothing to ask */
    uint64_t stalled_ms; /* how long it has taken nothing; 0: it takes bytes, or has none to take */
    uint64_t kernel_bytes; /* in the kernel, not yet received by the client */
    bool is_local;         /* the peer is on this machine */
};

struct channel_ops {
    const char *name;
    /* Headers, statuses and one exchange at a time (HTTP), or not (message connections). */
    bool is_http;
    /* A complete JSON text that answers the exchange (message connections: one message). Takes the
     * memory of `text` and leaves it empty. */
    void (*answer)(struct channel *channel, int status, const struct response_headers *headers,
                   struct buf *text);
    /* The same for a long text, which is produced while it is sent. Takes the source. */
    void (*answer_long)(struct channel *channel, int status, const struct response_headers *headers,
                        struct sendq_source *source);
    /* Returns true if a long answer has to wait because the connection is sending something; then
     * the transport calls delivery_drained when it has sent everything. Sets the memory of the long
     * answers being sent. NULL: they never wait. */
    bool (*is_sending)(const struct channel *channel, size_t *ret_held);
    /* An empty answer: 202 with no body (message connections: nothing). */
    void (*accepted)(struct channel *channel);
    /* HTTP: returns true if the client of this exchange accepts a stream as its answer. */
    bool (*takes_stream)(struct channel *channel);
    /* The exchange becomes a stream of messages (message connections: the connection itself). NULL:
     * impossible. */
    struct sink *(*stream)(struct channel *channel, const struct response_headers *headers);
    /* The address of a client without a name, as far as the transport knows it: channels with the
     * same address share the limits of anonymous clients. NULL: one address for the whole
     * transport. */
    void (*address)(const struct channel *channel, char out[PRINCIPAL_MAX]);
    /* The principal is about to change: gives back what is booked for the client until now. NULL:
     * nothing is. */
    void (*unbook)(struct channel *channel);
    /* Fills the known members of *ret, which is all zero. */
    void (*facts)(const struct channel *channel, struct channel_facts *ret);
};

struct channel {
    const struct channel_ops *ops;
    struct worker *worker;
    const struct principal *principal; /* a reference; NULL: the program itself */
    struct quota *quota; /* of where it comes from; the transport holds it; NULL: no limits */
    struct client_account
        *origin;           /* the account of where it comes from, likewise; NULL: looked up */
    struct list requests;  /* requests under way */
    struct batch *batches; /* arrays of them */
    const struct revision *revision; /* message connections: negotiated by initialize, else NULL */
    struct subscriber *subscriber;   /* message connections: made when first needed */
    bool initialized;       /* message connections: the client sent notifications/initialized */
    unsigned char promised; /* message connections: lists whose changes the server announces */
    uint16_t handled;       /* messages, … */
    uint16_t turn;          /* … in this turn of the loop, whose number comes round */
    /* The peer's address, recorded when the stream begins because the kernel forgets it when a
     * socket fails: an IPv6 address, or an IPv4-mapped one. Port 0: not known. */
    uint16_t from_port;
    unsigned char from[16];
};

void channel_init(struct channel *channel, const struct channel_ops *ops, struct worker *worker);
/* Returns true if the channel may handle another message in this turn, and counts it. Each channel
 * may handle CHANNEL_QUANTUM messages, so that a busy client does not starve the others; the rest
 * waits for the next turn. */
#define CHANNEL_QUANTUM 16u
bool channel_may_go_on(struct channel *channel);
/* The quota that limits its client, by its principal or else by its address. NULL: unlimited. */
struct quota *channel_quota(const struct channel *channel);
/* Sets the principal and takes its own reference. Requests under way keep theirs. */
void channel_set_principal(struct channel *channel, const struct principal *principal);
/* A reference to the account of its client (security/client_account.h). NULL: out of memory. */
struct client_account *channel_account(const struct channel *channel);
/* Who takes shares because of it; the account is a reference, to be released. */
struct share_taker channel_taker(const struct channel *channel);
/* Fills *ret with all known facts about the peer. */
void channel_get_facts(const struct channel *channel, struct channel_facts *ret);
/* A request on this channel is refused, or failed: counts it, and logs it as far as the log has
 * room. Call it once, where the answer is made. */
void channel_failed(const struct channel *channel, const struct failure *failure);
/* The same with a JSON-RPC error to `principal`; `method` as there. `is_denied`: the resource may
 * exist, but this principal may not see it. */
void channel_failed_rpc(const struct channel *channel, const struct principal *principal,
                        const char *method, const struct dialect_error *e, bool is_denied);
/* The channel is about to be closed for that reason: until channel_ended, log entries about
 * requests that end with it contain the reason and the facts, which are kept in `facts`. Call it
 * while the descriptor is open. */
void channel_ending(struct channel *channel, const char *reason, struct channel_facts *facts);
void channel_ended(struct channel *channel);
/* Message connections: the questions that the client can answer and its open ones; NULL: none. Kept
 * in a table of the worker, since most connections have none. */
struct client_requests *channel_client_requests(const struct channel *channel);
/* The client declared these capabilities (ASK_…); without memory they are ignored. */
void channel_declare(struct channel *channel, unsigned can);
/* The transport is going away: cancels what is under way, drops the subscriber of a message
 * connection. */
void channel_deinit(struct channel *channel);

/* -------------------------------------------------------------------------------------------------
 * The names of clients (`clientInfo`: name and version), on one worker. Equal names are kept once
 * and have a small number, so that a name costs a stream nothing. Names are untrusted: they are cut
 * to CLIENT_NAME_MAX and CLIENT_VERSION_MAX bytes between characters, and control characters are
 * replaced, including those that change the direction of writing.
 */

#define CLIENT_NAME_MAX 128u
#define CLIENT_VERSION_MAX 64u
#define CLIENT_INFOS_MAX UINT16_MAX /* different ones; the next has no name */

struct json;

struct client_info {
    struct tidings_str name, version; /* either may be empty */
    /* private */
    struct tidings_str key;
    uint32_t refs;
    uint16_t number;
};

/* All zero but the map: none yet. */
struct client_infos {
    struct map by_key;
    struct client_info **at; /* by number - 1; NULL: free */
    size_t count, cap;       /* places used so far; places */
};
void client_infos_init(struct client_infos *all);
void client_infos_deinit(struct client_infos *all);

/* Returns a reference to the name and version in `info` (the object; NULL or anything else: none),
 * as a number. 0: it has none, or there is no room. */
uint16_t client_info_intern(struct client_infos *all, const struct json *info);
void client_info_release(struct client_infos *all, uint16_t number); /* 0 is fine */
/* NULL: 0. */
const struct client_info *client_info_get(const struct client_infos *all, uint16_t number);

#endif
