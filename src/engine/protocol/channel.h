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
 * What a client of the legacy era can be asked, and the questions that it has not answered yet: one
 * for each session over HTTP and for each message connection, so that an answer is taken from
 * nobody but whom was asked. Questions are numbered from 1 in each of them.
 *
 * At most CLIENT_REQUESTS_MAX questions are open at a time. Whoever asks implements struct
 * client_request.
 */

#define CLIENT_REQUESTS_MAX 64u

struct client_requests;
struct client_request;

struct client_request_ops {
    /* It was answered, and is not open any more: `result` (NULL: none), or `error`, an object. */
    void (*answered)(struct client_request *client_request, struct json *result,
                     struct json *error);
    /* The client has gone, and with it every question of whoever asked: none of them may be open
     * any more when this returns. */
    void (*lost)(struct client_request *client_request);
    /* The request as it is sent. */
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
    unsigned count, can;  /* open; what may be asked: ASK_… of engine/protocol/dialect.h */
    unsigned next_stream; /* of requests that can be resumed, … */
    unsigned next_event;  /* … and the events on them */
    const void *owner;    /* the channel, of message connections */
    const char *tag;      /* that ids of events begin with; NULL: there are no such ids */
};

/* NULL: there is nothing it can be asked, or no memory. */
struct client_requests *client_requests_create(unsigned can);
void client_requests_destroy(
    struct client_requests *client_requests); /* every question is lost; NULL is fine */
/* Numbers it. false: too many are open. `client_request->ops` is set. */
bool client_requests_add(struct client_requests *client_requests,
                         struct client_request *client_request);
void client_requests_remove(struct client_request *client_request);
/* A response came. One that answers nothing that is open is passed over. */
void client_requests_answer(struct client_requests *client_requests, const struct json *id,
                            struct json *message);

/* -------------------------------------------------------------------------------------------------
 * Where a subscriber writes: one open stream of messages to a client. Implemented by transports (an
 * SSE response, a message connection) and by tests (a buffer).
 *
 * The stream is written to in whole messages. When it ends for any reason the transport calls
 * `closed` once; after that the sink is gone. A writer that has more to say than the stream takes
 * is told by `drained` when there is room again.
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
    /* The first event of a resumable stream: an id, no data, and how long to wait before coming
     * back. */
    void (*prime)(struct sink *sink, struct tidings_str event_id, int64_t retry_ms);
    /* Bytes written but not yet taken by the kernel. */
    size_t (*pending)(const struct sink *sink);
    /* No more messages: finish what is pending, then end (HTTP: close the response; message
     * connections stay). */
    void (*end)(struct sink *sink);
    /* The same after one more message, which is produced while it is sent. Takes the source. NULL:
     * there are no such messages. */
    void (*end_long)(struct sink *sink, struct sendq_source *source);
    /* End at once, without ceremony, so that the client notices and comes back. */
    void (*cut)(struct sink *sink, const char *reason);
    /* What it is written through. NULL: it leads to the program. */
    struct channel *(*channel)(const struct sink *sink);
};

/* What the writer of a stream is told; each may be NULL. */
struct sink_events {
    void (*drained)(void *user);
    void (*closed)(void *user);
};

struct sink {
    const struct sink_ops *ops;
    const struct sink_events *events; /* NULL: nobody writes */
    void *user;
    bool blocked;    /* set by the writer: it has more to say and waits for `drained` */
    uint32_t booked; /* bytes of its queue (transport/connection.h) */
};

/* A stream that is always open and never full, and leads nowhere: for subscribers that are called
 * instead of written to (subscriber_ops.on_update). Acknowledgements and the like are not for
 * programs.
 */
extern const struct sink_ops sink_nowhere;

/* For whoever writes: be told from now on (`events` NULL: not any more). */
static inline void sink_attach(struct sink *sink, const struct sink_events *events, void *user)
{
    sink->events = events;
    sink->user = user;
}
/* For transports: it can take more; it is gone, which is told once. */
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
    struct tidings_str scope;  /* it was denied for want of these, separated by blanks */
    struct tidings_str extra;  /* whole lines, each with its line break */
    struct tidings_str reason; /* of a refusal, for the log; no header … */
    enum failure_cause cause;  /* … and why; ORDINARY: as its status says */
    struct tidings_str uri;    /* what it is about, for the log; */
    struct tidings_str path;   /* where it was asked for, when nothing is there */
};

/* What can be said of where it leads, for whoever looks after the server. */
#define CHANNEL_ADDRESS_MAX 64u
struct channel_facts {
    char address[CHANNEL_ADDRESS_MAX]; /* "192.0.2.1:50044", "[2001:db8::1]:50044", "uid:1000" */
    const char *listener;              /* "http", "https", "tcp", "tls", "unix", "stdio" */
    uint64_t bytes_out;                /* that the kernel took, of this connection */
    uint64_t bytes_in;                 /* of it; 0: it does not count them … */
    int fd;                            /* … and the kernel may; 0: there is nothing to ask */
    uint64_t stalled_ms;               /* it takes nothing for so long; 0: it does, or need not */
    uint64_t kernel_bytes;             /* that the kernel holds and the client has not received */
    bool is_local;                     /* from this machine */
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
    /* Nothing to say: 202 with no body (message connections: nothing). */
    void (*accepted)(struct channel *channel);
    /* HTTP: would the client of this exchange take a stream of messages for an answer? */
    bool (*takes_stream)(struct channel *channel);
    /* The exchange becomes a stream of messages (message connections: the connection itself). NULL:
     * impossible. */
    struct sink *(*stream)(struct channel *channel, const struct response_headers *headers);
    /* Where somebody without a name comes from, as far as the transport can say: what everybody may
     * have so much of is shared by all channels that give the same. NULL: one for the whole
     * transport. */
    void (*address)(const struct channel *channel, char out[PRINCIPAL_MAX]);
    /* Another principal is about to be set: gives back what is booked for its client until now.
     * NULL: nothing is. */
    void (*unbook)(struct channel *channel);
    /* Fills what it knows of *ret, which is all zero. */
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
    bool initialized;                /* message connections: the client said so */
    unsigned char promised; /* message connections: lists whose changes it will be told of */
    uint16_t handled;       /* messages, … */
    uint16_t turn;          /* … in this turn of the loop, whose number comes round */
    /* Where it leads, from the beginning of its stream on, since the kernel forgets it when a
     * socket fails: an address of IPv6, or of IPv4 as one. Port 0: not known. */
    uint16_t from_port;
    unsigned char from[16];
};

void channel_init(struct channel *channel, const struct channel_ops *ops, struct worker *worker);
/* May another message of it be handled in this turn? Each channel has CHANNEL_QUANTUM, so that one
 * that floods us does not starve the others; what is left waits for the next turn. Counts it. */
#define CHANNEL_QUANTUM 16u
bool channel_may_go_on(struct channel *channel);
/* What limits its client: who it has shown itself to be, or where it comes from. NULL: nothing. */
struct quota *channel_quota(const struct channel *channel);
/* From now on it is this one (takes a reference of its own). What is under way stays what it is. */
void channel_set_principal(struct channel *channel, const struct principal *principal);
/* A reference to the account of its client (security/client_account.h). NULL: out of memory. */
struct client_account *channel_account(const struct channel *channel);
/* Who takes shares because of it; the account is a reference, to be released. */
struct share_taker channel_taker(const struct channel *channel);
/* All that is known of where it leads. */
void channel_get_facts(const struct channel *channel, struct channel_facts *ret);
/* Something that came this way is refused, or failed: counted, and said in the log as far as there
 * is room. To be called once, where the answer is made. */
void channel_failed(const struct channel *channel, const struct failure *failure);
/* The same with an error of JSON-RPC, to `principal`; `method` as there. `is_denied`: it may be
 * there, but not for this one. */
void channel_failed_rpc(const struct channel *channel, const struct principal *principal,
                        const char *method, const struct dialect_error *e, bool is_denied);
/* It is about to be closed for that reason: what ends with it says so in the log, with what is
 * known of it, which is kept in `facts`; until channel_ended. While its descriptor is open. */
void channel_ending(struct channel *channel, const char *reason, struct channel_facts *facts);
void channel_ended(struct channel *channel);
/* Message connections: what the client can be asked, and was; NULL: nothing. In a table of the
 * worker, since most connections have none. */
struct client_requests *channel_client_requests(const struct channel *channel);
/* Its client declared that it can be asked this (ASK_…); without memory it cannot. */
void channel_declare(struct channel *channel, unsigned can);
/* The transport is going away: cancels what is under way, drops the subscriber of a message
 * connection. */
void channel_deinit(struct channel *channel);

/* -------------------------------------------------------------------------------------------------
 * What clients call themselves (`clientInfo`: name and version), on one worker. Equal ones are
 * kept once and named by a small number, so that a stream costs no more for having one. It is what
 * a stranger wrote: cut to CLIENT_NAME_MAX and CLIENT_VERSION_MAX bytes between characters, and
 * control characters, also those that turn the direction of writing, are replaced. Nobody may be
 * trusted for it.
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

/* A reference to what `info` (the object; NULL or anything else: none) says, as a number. 0: it
 * says nothing, or there is no room. */
uint16_t client_info_intern(struct client_infos *all, const struct json *info);
void client_info_release(struct client_infos *all, uint16_t number); /* 0 is fine */
/* NULL: 0. */
const struct client_info *client_info_get(const struct client_infos *all, uint16_t number);

#endif
