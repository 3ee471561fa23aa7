/* SPDX-License-Identifier: MIT
 *
 * Clients for tests of the worker: connections made of nothing but a record of what was said to
 * them.
 *
 * The record is not the library's memory, so that failing or counting the library's allocations
 * does not touch it. Every text a client was sent must be one JSON value, an HTTP exchange is
 * answered at most once, and nothing is said to a connection that is gone: violations fail the
 * test.
 */
#ifndef SUPPORT_HARNESS_CLIENT_H
#define SUPPORT_HARNESS_CLIENT_H

#include "engine/protocol/channel.h"
#include "engine/protocol/inbound.h"
#include "support/harness_core.h"
#include "support/harness_json.h"

enum said {
    SAID_ANSWER,
    SAID_ACCEPTED,
    SAID_EVENT, /* a message on the stream */
    SAID_PRIME,
    SAID_END,
    SAID_CUT,
};

struct utterance {
    enum said kind;
    int status;
    char *text; /* NUL-terminated; NULL where there is none */
    size_t len;
    int64_t retry_ms;
    uint64_t seq; /* the newest change the worker knew of */
    char id[256];
    char session[48];
    char allow[16];
};

struct client {
    struct channel channel;
    struct sink sink;
    struct harness *harness;
    struct utterance *said;
    size_t count, cap;
    char *input;       /* the request, gone once it is answered or becomes a stream */
    bool is_waiting;   /* an HTTP exchange is not answered yet */
    bool is_streaming; /* it became a stream */
    bool is_gone;
    /* The simulated properties of the connection: */
    bool has_no_room;
    bool takes_no_stream; /* its Accept lacks text/event-stream */
    size_t pending;
    const char *address; /* of the client; NULL: one for all of its kind */
};

struct client *client_http(struct harness *b);
struct client *client_http_at(struct harness *b, size_t worker);
struct client *client_pipe(struct harness *b);
/* Its later requests come from this user; `scopes` are separated by spaces. */
void client_is(struct client *c, enum principal_kind kind, const char *name, const char *scopes,
               int64_t expires_ms);
/* The connection vanishes; the record stays. */
void client_vanish(struct client *c);
/* Vanishes, checks the record, frees. */
void client_free(struct client *c);
/* Room again. */
void client_drain(struct client *c);

/* One text as it is. `headers` NULL on pipes. */
void client_say(struct client *c, const struct dialect_headers *headers, const char *text);
/* {"jsonrpc":"2.0","id":ID,"method":METHOD,"params":{PARAMS}}; `params` NULL: none. The modern one
 * adds _meta and, over HTTP, the headers that go with it. */
void client_modern(struct client *c, const char *id, const char *method, const char *params);
/* The same with its own id, awaited: the text of the answer. */
const char *client_ask(struct client *c, const char *method, const char *params);
void client_legacy(struct client *c, const char *session, const char *id, const char *method,
                   const char *params);
/* A notification, legacy; `session` NULL on pipes. */
void client_notify(struct client *c, const char *session, const char *method, const char *params);
/* initialize and notifications/initialized on a pipe. */
void client_handshake(struct client *pipe, const char *revision);
/* subscriptions/listen for a JSON array of URIs. */
void client_listen(struct client *c, const char *id, const char *uris);

/* A session over HTTP, initialized. */
struct harness_session {
    struct harness *harness;
    char id[48];
};
void harness_session(struct harness *b, const char *revision, struct harness_session *s);
/* A request on its own connection. */
struct client *session_request(struct harness_session *s, const char *id, const char *method,
                               const char *params);
/* The same for resources/subscribe and unsubscribe, waiting for success. */
void session_subscribe(struct harness_session *s, const char *uri);
void session_unsubscribe(struct harness_session *s, const char *uri);
/* GET; `last_event_id` NULL: none. */
void client_stream(struct client *c, const char *session, const char *last_event_id);
struct client *session_stream(struct harness_session *s, const char *last_event_id);
/* DELETE; gives the status. */
int session_delete(struct harness_session *s);

/* ---- looking at what was said ---------------------------------------------------------------- */

#define SAID_UPDATED "notifications/resources/updated"
#define SAID_LIST "notifications/resources/list_changed"
#define SAID_ACK "notifications/subscriptions/acknowledged"
#define SAID_LOG "notifications/message"

size_t client_count(const struct client *c, const char *method);
/* The n-th text with that method; fails the test when there is none. */
const char *client_nth(const struct client *c, const char *method, size_t n);
const struct utterance *client_nth_said(const struct client *c, const char *method, size_t n);
size_t client_count_kind(const struct client *c, enum said kind);
/* For a struct client, for harness_until. */
bool client_has_answer(void *client);
const struct utterance *client_nth_kind(const struct client *c, enum said kind, size_t n);
/* Returns true if the cursor of a notification shows that the subscription has received everything
 * up to there. */
bool cursor_covers(const char *text, const char *spelled);
/* The only answer; fails the test when there is none or more. */
const struct utterance *client_answer(const struct client *c);

#endif
