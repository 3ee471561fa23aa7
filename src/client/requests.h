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
    struct json *error;       /* the server's error; NULL: none */
    long status;              /* of HTTP; 0: none */
    struct tidings_error why; /* code 0: there is a result */
};
/* Called exactly once, unless the request is cancelled. Its arguments live for the call. */
typedef void (*response_fn)(void *user, const struct response *a);
typedef void (*progress_fn)(void *user, struct json *params);

struct request_options {
    const char *method;
    struct tidings_str params; /* a JSON object; empty: none */
    response_fn fn;
    progress_fn on_progress; /* NULL: not requested */
    void *user;
    uint32_t timeout_ms; /* 0: the client's */
    bool is_stream;      /* no time limit */
    bool is_connecting;  /* part of connecting, so it does not wait for that */
    bool can_ask;        /* the server may ask questions first, which go to the program */
};

/* Sends a request, at once or when the client is ready. Returns its number, or an error. */
int64_t requests_start(struct tidings_client *c, const struct request_options *a,
                       struct tidings_error *err);
/* The result is no longer needed: notifies the server. */
void requests_cancel(struct tidings_client *c, int64_t id);
/* The same without notifying the server. */
void requests_forget(struct tidings_client *c, int64_t id);
/* Sends it once more, when the client is ready again; false: that was done before. */
bool requests_retry(struct tidings_client *c, int64_t id);
/* Ends a request with this response. */
void requests_fail(struct tidings_client *c, int64_t id, long status,
                   const struct tidings_error *why);
/* The `user` of the request, if `fn` is its callback; else NULL. */
void *requests_user(const struct tidings_client *c, int64_t id, response_fn fn);
/* A wait is over: restarts the time limits of all requests. */
void requests_prolong(struct tidings_client *c);
/* Sends the requests that waited for the client to become ready. */
void requests_send_all(struct tidings_client *c);
/* Ends all requests of a kind with this response. */
enum requests_kind {
    REQUESTS_UNSENT = 1, /* those that wait for the client to become ready */
    REQUESTS_SENT = 2,
};
void requests_fail_all(struct tidings_client *c, const struct tidings_error *why, unsigned kinds);

/* ---- when the server asks ---------------------------------------------------------------------
 */

/* The server asks questions because of the request with this exchange (0, or an unknown one: of the
 * oldest that waits). Returns the number of the request's questions so far; 0: there is no such
 * request. */
unsigned requests_count_question(struct tidings_client *c, int64_t exchange);
/* Responds to a request of the server, in the legacy era: `result` is JSON. */
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
 * Rounds of a request of the modern era: its result is `input_required`, the program answers the
 * questions in it, and the client sends it once more with the answers and with the server's
 * `requestState`. Rounds also handle the error of 2025-11-25 that wants addresses visited first
 * (-32042).
 *
 * A request has one struct input_round for all its rounds. The number of rounds, the questions of a
 * round and the length of a state are bounded.
 */

struct input_round;

/* The same for an error: 1: it was -32042, and a round has begun; 0: another error. */
struct tidings_client *input_round_client(const struct input_round *r);

/* ---- told by its questions ------------------------------------------------------------------- */

void input_round_answered(struct input_round *r, size_t index, struct tidings_str result);
void input_round_refused(struct input_round *r, const char *reason);

#endif
