/* SPDX-License-Identifier: MIT
 *
 * What the files of the client share: its state, one exchange with the server, the two eras.
 *
 *        connect                     watch
 *   ┌──> discover ──answered──────> listen ────────── stream ──┐
 *   │       │ not modern                                       │ lost: report, pause, again
 *   │       └────> initialize ───> GET, subscribe ──> stream ──┤
 *   └──────────────────────────────────────────────────────────┘   (a live session: GET alone)
 */
#ifndef CLIENT_PRIVATE_H
#define CLIENT_PRIVATE_H

#include <stdatomic.h>

#include <tidings/client.h>

#include "base/str.h"
#include "client/fetch.h"
#include "wire/sse.h"
#include "json/json.h"

#define CLIENT_MODERN "2026-07-28"
#define CLIENT_LEGACY "2025-11-25"
#define CLIENT_MAX_URIS 1000u

enum client_era {
    CLIENT_ERA_UNKNOWN,
    CLIENT_ERA_MODERN,
    CLIENT_ERA_LEGACY,
};

struct client_watch {
    char *uri;
    char *options;    /* JSON object, or NULL */
    bool is_accepted; /* in the present connection */
};

struct tidings_client {
    char *url, *name;
    uint32_t timeout_ms, retry_min_ms, retry_max_ms;
    size_t max_bytes;
    struct fetch *fetch;
    int wake_fd; /* eventfd: becomes readable by tidings_client_stop */
    atomic_bool stopping;

    struct client_watch *watches;
    size_t watch_count;
    tidings_client_update_fn on_update;
    void *update_user;
    tidings_client_state_fn on_state;
    void *state_user;

    enum client_era era;
    bool can_subscribe;  /* advertised */
    bool has_watched;    /* at least one URI was ever accepted */
    bool is_interrupted; /* … and the connection was lost since */
    unsigned failures;   /* attempts in a row that led nowhere */
    int64_t next_id;
    char *ca_file, *cert_file, *key_file; /* of https; NULL: none */

    /* legacy */
    char session[512]; /* empty: the server keeps none */
    char version[16];  /* negotiated */
    struct buf last_event_id;
    int64_t stream_retry_ms; /* what the server asked for; negative: nothing */
};

/* ---- exchange.c: one HTTP request and the messages that answer it --------------------------- */

struct exchange {
    struct tidings_client *client;
    struct fetch_call *call;
    int64_t id;      /* of our request; 0: none */
    struct buf body; /* an answer in JSON */
    struct sse_parser sse;
    bool has_begun, is_sse;
    bool is_standalone;   /* the GET stream: its event ids are kept */
    bool is_acknowledged; /* a listen: accepted or refused, see the watches */
    struct json *root;    /* the message that answers the request; NULL: none yet */
};

struct exchange_request {
    const char *method;         /* of the message; NULL: GET or DELETE without one */
    const char *http_method;    /* NULL: POST */
    struct tidings_str members; /* of params, JSON without braces */
    struct tidings_str meta;    /* … of params._meta, besides what the era wants there */
    struct tidings_str name;    /* modern: Mcp-Name */
    struct tidings_str raw;     /* instead of method: the whole message */
    bool is_notification;
    bool is_stream; /* may last */
};

int exchange_start(struct exchange *x, struct tidings_client *c, const struct exchange_request *r,
                   struct tidings_error *err);
void exchange_end(struct exchange *x);
/* Step until the request is answered, or its HTTP call finished, or the client is told to stop. */
int exchange_wait(struct exchange *x, struct tidings_error *err);
/* Step once. */
int exchange_step(struct exchange *x, int timeout_ms, struct tidings_error *err);
bool exchange_is_finished(const struct exchange *x);
long exchange_status(const struct exchange *x);
const char *exchange_session(const struct exchange *x);
/* 0 with the result (valid until exchange_end), or the reason there is none as an error; its code
 * says whether trying again may help. */
int exchange_result(const struct exchange *x, struct json **ret, struct tidings_error *err);
/* The JSON-RPC error code of the answer; 0: none. */
int64_t exchange_error_code(const struct exchange *x);

/* ---- client.c -------------------------------------------------------------------------------- */

bool client_is_stopping(const struct tidings_client *c);
/* Pause; ends early when told to stop. */
void client_pause(struct tidings_client *c, uint32_t ms);
void client_report(struct tidings_client *c, enum tidings_client_state state,
                   struct tidings_str uri, struct tidings_str reason);
/* A watch was accepted or refused. */
void client_judge(struct tidings_client *c, struct client_watch *w, bool is_accepted,
                  struct tidings_str reason);
/* All were judged: TIDINGS_E_NOTFOUND when the first attempt brought nothing. */
int client_judged(struct tidings_client *c, struct tidings_error *err);
/* A notification from whatever stream. */
void client_updated(struct tidings_client *c, struct json *params);

/* ---- modern.c, legacy.c ---------------------------------------------------------------------- */

/* Does the server speak the modern revision? 1 yes, 0 no. */
int modern_probe(struct tidings_client *c, struct tidings_error *err);
/* Listen until the stream ends, which is a failure, or the client stops: 0. TIDINGS_E_UNSUPPORTED:
 * the server knows no listen. */
int modern_watch(struct tidings_client *c, struct tidings_error *err);
void modern_acknowledged(struct exchange *x, struct json *params);

int legacy_open(struct tidings_client *c, struct tidings_error *err);
/* The same with a session. `is_resumed`: the subscriptions it accepted are there already. */
int legacy_watch(struct tidings_client *c, bool is_resumed, struct tidings_error *err);
void legacy_close(struct tidings_client *c); /* tell the server; at most one second */
/* Answer a request of the server. */
void legacy_reply(struct tidings_client *c, struct tidings_str method, const struct json *id);

#endif
