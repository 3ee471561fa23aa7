/* SPDX-License-Identifier: MIT
 *
 * A way messages come in and answers go out: an HTTP connection (one exchange at a time) or a
 * message connection (stdio, sockets, WebSockets: messages interleave freely). Transports embed it
 * and implement the operations.
 */
#ifndef REQUEST_CHANNEL_H
#define REQUEST_CHANNEL_H

#include "access/failures.h"
#include "access/principal.h"
#include "access/share.h"
#include "base/list.h"
#include "dialect/dialect.h"
#include "request/sink.h"

struct allowance;
struct asking;
struct sendq_source;
struct batch;
struct request;
struct channel;
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
    struct quota *quota;      /* of where it comes from; the transport holds it; NULL: no limits */
    struct allowance *origin; /* the account of where it comes from, likewise; NULL: looked up */
    struct list requests;     /* requests under way */
    struct batch *batches;    /* arrays of them */
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
/* A reference to the account of its client (access/allowance.h). NULL: out of memory. */
struct allowance *channel_allowance(const struct channel *channel);
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
struct asking *channel_asking(const struct channel *channel);
/* Its client declared that it can be asked this (ASK_…); without memory it cannot. */
void channel_declare(struct channel *channel, unsigned can);
void channel_end_asking(struct channel *channel);
/* The transport is going away: cancels what is under way, drops the subscriber of a message
 * connection. */
void channel_deinit(struct channel *channel);

#endif
