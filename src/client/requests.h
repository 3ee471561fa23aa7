/* SPDX-License-Identifier: MIT
 *
 * JSON-RPC requests of the client: each has a number and waits for its response, a deadline or its
 * cancellation.
 */
#ifndef CLIENT_REQUESTS_H
#define CLIENT_REQUESTS_H

#include <tidings/types.h>

#include "formats/json.h"
#include "formats/json_write.h"

struct tidings_client;

struct response {
    int64_t id;
    struct json *result;      /* NULL: there is none */
    struct json *error;       /* what the server says instead; NULL: it says nothing */
    long status;              /* of HTTP; 0: none */
    struct tidings_error why; /* code 0: there is a result */
};
/* Exactly once, unless the request is cancelled. What it is given lives for the call. */
typedef void (*response_fn)(void *user, const struct response *a);
typedef void (*progress_fn)(void *user, struct json *params);

struct request_options {
    const char *method;
    struct tidings_str params; /* a JSON object; empty: none */
    response_fn fn;
    progress_fn on_progress; /* NULL: not asked for */
    void *user;
    uint32_t timeout_ms; /* 0: the client's */
    bool is_stream;      /* no time limit */
    bool is_connecting;  /* part of getting ready, so it does not wait for that */
    bool can_ask;        /* the server may want input first: the program is asked */
};

/* Its number, or an error. It goes out at once or when the client is ready. */
int64_t requests_start(struct tidings_client *c, const struct request_options *a,
                       struct tidings_error *err);
/* Nobody is interested any more: the server is told so. */
void requests_cancel(struct tidings_client *c, int64_t id);
/* … and the server need not be. */
void requests_forget(struct tidings_client *c, int64_t id);
/* Send it once more, when the client is ready again; false: it had that chance. */
bool requests_retry(struct tidings_client *c, int64_t id);
/* It ends like this. */
void requests_fail(struct tidings_client *c, int64_t id, long status,
                   const struct tidings_error *why);
/* Whose it is, when `fn` hears of it; else NULL. */
void *requests_user(const struct tidings_client *c, int64_t id, response_fn fn);
/* Whatever was waited for is over: each has its time again. */
void requests_prolong(struct tidings_client *c);
/* What waited for the client to become ready. */
void requests_send_all(struct tidings_client *c);
/* All of a kind end like this. */
enum requests_kind {
    REQUESTS_UNSENT = 1, /* those that wait for the client to become ready */
    REQUESTS_SENT = 2,
};
void requests_fail_all(struct tidings_client *c, const struct tidings_error *why, unsigned kinds);

/* ---- when the server asks ---------------------------------------------------------------------
 */

/* The server asks something because of the request that has this exchange (0, or another: of the
 * oldest that waits): how many questions that makes; 0: there is no such request. */
unsigned requests_count_question(struct tidings_client *c, int64_t exchange);
/* Respond to a request of the server, in the legacy era: `result` is JSON. */
void requests_reply(struct tidings_client *c, const struct json *id, struct tidings_str result);
void requests_reply_error(struct tidings_client *c, const struct json *id, int code,
                          const char *message);
/* A notification without parameters. */
void requests_notify(struct tidings_client *c, const char *method);

/* -------------------------------------------------------------------------------------------------
 * Dispatches messages of the server, from the transport to the request, stream or watch they
 * concern (struct transport_events).
 */

void inbound_message(struct tidings_client *c, struct tidings_str text, int64_t exchange,
                     long status);
void inbound_active(struct tidings_client *c, int64_t exchange, bool is_beat);

/* -------------------------------------------------------------------------------------------------
 * Rounds of a request of the modern era: its result says `input_required`, the questions in it are
 * answered, and it is sent again with the answers and with the server's `requestState`. Also the
 * error of 2025-11-25 that wants addresses visited first (-32042).
 *
 * A request has one struct input_round for all its rounds. How many there are, how many questions a
 * round has and how long a state is are bounded.
 */

struct input_round;

/* The same for an error: 1: it was -32042, and a round has begun; 0: it is another. */
struct tidings_client *input_round_client(const struct input_round *r);

/* ---- told by its questions ------------------------------------------------------------------- */

void input_round_answered(struct input_round *r, size_t index, struct tidings_str result);
void input_round_refused(struct input_round *r, const char *reason);

#endif
