/* SPDX-License-Identifier: MIT
 *
 * MCP over HTTP: one request of the client is an exchange, and what comes back on it is one JSON
 * message or a stream of events.
 *
 * An exchange may be ended while a message of its own is handled: it is then only marked, and goes
 * when the stack is back.
 */
#ifndef CLIENT_TRANSPORT_HTTP_H
#define CLIENT_TRANSPORT_HTTP_H

#include "base/list.h"
#include "client/credentials.h"
#include "client/poller.h"
#include "client/transport.h"
#include "http_client/fetch.h"
#include "wire/sse.h"

struct http_transport {
    struct transport base;
    char *url, *unix_path;
    struct fetch *fetch;
    struct poller_fd fd;
    struct list exchanges;
    struct exchange *stream; /* legacy: what the server says by itself */
    struct poller_timer reopen;
    int64_t retry_ms; /* what the server asked for; negative: nothing */
    char session[512];
    unsigned sessions; /* how many there were before */
    struct buf last_event_id;
    struct exchange *leaving;
    bool has_left;
    bool is_sse;    /* HTTP+SSE */
    char *endpoint; /* … where to POST; NULL: not said yet */
};

struct exchange {
    struct list link;
    struct http_transport *http;
    struct fetch_transfer *transfer;
    int64_t id;      /* of the request; 0: none */
    struct buf body; /* an answer in JSON */
    struct sse_parser sse;
    struct poller_timer linger; /* its end, or its next part */
    struct credentials_lines shown;
    const char *method;       /* of HTTP */
    struct buf last_event_id; /* of a request's stream: what it goes on after */
    int64_t retry_ms;
    bool has_head, is_sse;
    bool is_standalone;
    bool is_tracked;
    bool is_reply; /* or a notification: a message that nothing answers */
    bool had_session;
    unsigned session;             /* … the one after so many */
    unsigned refusals;            /* another token was shown, since one was refused */
    bool is_waiting;              /* … for the program's credentials */
    bool is_unsent;               /* … before it goes out for the first time */
    struct tidings_error refusal; /* why there are no better ones; code 0: nothing of the kind */
    bool is_busy;                 /* one of its functions is running */
    bool is_over;                 /* … and is the last one */
};

/* `m` NULL: GET (the stream) or DELETE, without a message. NULL with an error. */
struct exchange *exchange_begin(struct http_transport *h, const char *method,
                                const struct transport_message *m, struct tidings_error *err);
void exchange_end(struct exchange *x);
/* It may end by itself, for so long. */
void exchange_linger(struct exchange *x, uint64_t ms);

/* HTTP+SSE, or Streamable HTTP. */
void transport_http_use_sse(struct http_transport *h, bool is_sse);

#endif
