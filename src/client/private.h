/* SPDX-License-Identifier: MIT
 *
 * What the files of the client share. From below:
 *
 *     link_*.c        bytes <-> messages (link.h)
 *     inbound.c       a message that came: an answer, a notification, a request
 *     outbound.c       numbers, waiting requests, deadlines, cancellation
 *     connecting.c    opening, which era, the pause before the next attempt
 *     resume.c        where the stream was, what was told
 *     compare.c       what the server did not tell; view.c: how something was
 *     watching.c      what is subscribed to; watching_modern.c and watching_legacy.c: how
 *     silence.c       a connection that is dead without a word
 *     copy.c          live copies of entities, on top of subscriptions and questions
 *     event.c         what the program hears, kept until a step hands it over
 *     client.c        life, running; ask.c, list.c, walk.c: questions that wait for their answer
 *
 *        connecting                    watching
 *   ┌──> open ─> discover ─────────> listen ────────── stream ──┐
 *   │               │ not modern                                │ lost: report, pause, again
 *   │               └──> initialize ─> GET, subscribe ─ stream ─┤
 *   └───────────────────────────────────────────────────────────┘   (a live session: GET alone)
 *
 * Only a step calls the program. Everything else runs in turns of the pump, never waits, and keeps
 * what there is to tell as an event; a question that waits takes turns of its own until it is
 * answered. So the program may ask inside its callbacks, and nothing of ours is entered twice.
 */
#ifndef CLIENT_PRIVATE_H
#define CLIENT_PRIVATE_H

#include <stdatomic.h>

#include "base/map.h"
#include "client/compare.h"
#include "client/link.h"
#include "client/pump.h"
#include "client/resume.h"
#include "client/settings.h"
#include "client/silence.h"
#include "json/json.h"

#define CLIENT_MAX_WATCHES 1000u
#define CLIENT_MAX_REQUESTS 65536u
#define CLIENT_MAX_EVENTS 65536u
#define CLIENT_MAX_FADING 8u /* beyond: the oldest ends at once */

enum client_stage {
    STAGE_IDLE,    /* nothing is wanted, or it failed for good */
    STAGE_OPENING, /* the link connects */
    STAGE_ASKING,  /* server/discover or initialize */
    STAGE_READY,
    STAGE_PAUSED, /* until the next attempt */
};

struct client_info {
    struct tidings_client_info public;
    char version[16];
    char *server_name, *server_version, *capabilities, *instructions, *answer;
    const char *children; /* the method that lists what is below a URI; NULL: there is none */
    bool has_bookmarks;   /* it tells the newest cursor from time to time, if asked to */
};

/* One URI that is watched, by one subscription or several. */
struct watch {
    struct list link;
    char *uri;
    char *options; /* JSON object, or NULL */
    struct list subscriptions;
    uint64_t number; /* never used again */
    int64_t asked; /* legacy: number of the subscribe or unsubscribe under way; modern: of the last
                    * listen that names it */
    bool is_accepted;
    bool is_judged;        /* accepted or refused in the present connection */
    bool was_accepted;     /* … or in one before: it goes on from there */
    bool is_interrupted;   /* changes since may have been missed */
    bool is_ending;        /* nobody is left */
    bool is_named;         /* legacy: the session may know of it … */
    bool is_leaving;       /* … and shall forget it, before anything else is asked about it */
    bool is_doubtful;      /* … and knew of it before it was asked last, perhaps */
    char *since;           /* legacy: where to go on from, NULL: not known */
    uint64_t accepted_at;  /* legacy: in the present session; 0: not */
    bool is_patient;       /* refused, it is no reason to give up: it is asked for again */
    struct view *view;     /* how it was; NULL: not known */
    enum look look;        /* … or wanted */
    unsigned broken_looks; /* the connection was lost during so many in a row */
};

struct tidings_subscription {
    struct list link;
    struct tidings_client *client;
    struct watch *watch;
    tidings_client_update_fn fn;
    tidings_client_state_fn on_state;
    void *user;
    bool is_ended; /* in a callback; freed after it */
};

struct request;

struct tidings_client {
    struct client_settings settings;
    struct pump pump;
    struct pump_fd wake; /* eventfd: becomes readable by tidings_client_stop */
    int wake_fd;
    atomic_bool stopping;
    struct link *link;

    /* connecting.c */
    enum client_stage stage;
    enum tidings_era era;   /* 0: not known */
    bool is_open;           /* the link */
    bool has_session;       /* legacy: initialized */
    bool is_resumed;        /* … and was so before this attempt */
    bool is_eager;          /* somebody runs it: worth connecting without being asked anything */
    unsigned failures;      /* attempts in a row that led nowhere */
    unsigned broken_probes; /* … and without an answer to server/discover */
    bool is_token_refused;  /* by the answer at hand (401), or the last one */
    const char *challenge;  /* WWW-Authenticate of the answer at hand; "": none */
    uint32_t told_ms;       /* how long the server asked to be left alone; 0: it did not */
    struct pump_timer retry;
    struct tidings_error failure; /* for good; code 0: none */
    struct tidings_error loss;    /* why it was lost last */
    struct client_info info;
    bool has_info;
    bool can_subscribe; /* advertised, or not said */

    /* outbound.c */
    struct map requests; /* by number */
    struct list unsent;  /* until it is ready */
    struct list flight;
    int64_t next_id;
    char *last_error; /* JSON; NULL: none */

    /* event.c */
    struct list events;
    size_t event_count, event_bytes;
    bool is_delivering, is_stepping;
    struct pump_timer nudge; /* makes the descriptor readable for what came outside a step */
    tidings_client_state_fn on_state;
    void *state_user;
    tidings_client_notification_fn on_notification;
    void *notification_user;

    /* watching.c */
    struct list watches;
    size_t watch_count;
    uint64_t last_watch;    /* number */
    bool has_watched;       /* at least one URI was ever accepted */
    bool is_streaming;      /* legacy: the server can be heard */
    uint64_t reopened;      /* streams: tidings_client_info */
    bool is_stale;          /* modern: the set changed since `coming` began */
    bool has_ended;         /* a subscription, in a callback */
    int64_t listen, coming; /* modern: the listen that is heard, the one that shall replace it */
    int64_t fading[CLIENT_MAX_FADING]; /* … those that were replaced, heard a little longer */
    struct pump_timer fade;
    struct resume resume;
    uint64_t cursor_at; /* legacy: when its cursor was told */
    struct compare compare;
    struct silence silence;
    int64_t told_by;            /* modern: the listen whose cursor counts; stays when it is lost */
    struct pump_timer change;   /* the set changed: another listen */
    struct pump_timer patience; /* for the acknowledgement of `coming` */

    /* copy.c */
    struct list copies;
    size_t copy_count;
};

bool client_is_stopping(const struct tidings_client *c);
/* Outside a step: if the next one has something to do, the descriptor becomes readable. Turns of
 * the pump use that up, so whoever took them calls this last. */
void client_nudge(struct tidings_client *c);

/* ---- outbound.c -------------------------------------------------------------------------------
 */

struct answer {
    int64_t id;
    struct json *result;      /* NULL: there is none */
    struct json *error;       /* what the server says instead; NULL: it says nothing */
    long status;              /* of HTTP; 0: none */
    struct tidings_error why; /* code 0: there is a result */
};
/* Exactly once, unless the request is dropped. What it is given lives for the call. */
typedef void (*answer_fn)(void *user, const struct answer *a);
typedef void (*progress_fn)(void *user, struct json *params);

struct asking {
    const char *method;
    struct tidings_str params; /* a JSON object; empty: none */
    answer_fn fn;
    progress_fn on_progress; /* NULL: not asked for */
    void *user;
    uint32_t timeout_ms; /* 0: the client's */
    bool is_stream;      /* no time limit */
    bool is_connecting;  /* part of getting ready, so it does not wait for that */
};

/* Its number, or an error. It goes out at once or when the client is ready. */
int64_t outbound_start(struct tidings_client *c, const struct asking *a, struct tidings_error *err);
/* Nobody is interested any more: the server is told so. */
void outbound_drop(struct tidings_client *c, int64_t id);
/* … and the server need not be. */
void outbound_forget(struct tidings_client *c, int64_t id);
/* Send it once more, when the client is ready again; false: it had that chance. */
bool outbound_again(struct tidings_client *c, int64_t id);
/* It ends like this. */
void outbound_fail(struct tidings_client *c, int64_t id, long status,
                   const struct tidings_error *why);
/* Whose it is, when `fn` hears of it; else NULL. */
void *outbound_user(const struct tidings_client *c, int64_t id, answer_fn fn);
/* What waited for the client to become ready. */
void outbound_send_all(struct tidings_client *c);
/* All of a kind end like this. */
enum outbound_kind {
    OUTBOUND_UNSENT = 1, /* those that wait for the client to become ready */
    OUTBOUND_SENT = 2,
};
void outbound_fail_all(struct tidings_client *c, const struct tidings_error *why, unsigned kinds);
/* An answer came, `root` is the message; false: to nothing we asked. */
bool outbound_answered(struct tidings_client *c, int64_t id, struct json *root, long status);
void outbound_progressed(struct tidings_client *c, struct json *params);
/* A message that wants no answer. `params` is a JSON object, empty: none. */
int notification_send(struct tidings_client *c, const char *method, struct tidings_str params,
                      struct tidings_error *err);
/* Answer a request of the server. */
void reply_send(struct tidings_client *c, struct tidings_str method, const struct json *id);

/* errors.c: what an error object means; `status` as in struct answer. */
int error_from_answer(struct json *error, long status, struct tidings_error *err);
/* … and a status without one; `challenge`: WWW-Authenticate, or empty. */
int error_from_status(long status, struct tidings_str challenge, struct tidings_error *err);

/* ---- connecting.c ---------------------------------------------------------------------------- */

void connecting_init(struct tidings_client *c);
/* Something is wanted: connect, unless it is under way. */
void client_need(struct tidings_client *c);
/* The present connection is of no use: report, and come back after a pause when that may help. */
void client_lose(struct tidings_client *c, const struct tidings_error *why);
/* Running it makes no sense; asking may. */
void client_give_up(struct tidings_client *c, const struct tidings_error *why);
/* It has turned out not to be modern after all. */
void client_fall_back(struct tidings_client *c);
/* End in order, and be as before the first attempt. */
void client_leave(struct tidings_client *c);
void info_deinit(struct client_info *info);

/* ---- watching*.c ----------------------------------------------------------------------------- */

void watching_init(struct tidings_client *c);
void watching_deinit(struct tidings_client *c);
/* Connected: ask for everything. */
void watching_ready(struct tidings_client *c);
void watching_lost(struct tidings_client *c);
bool watching_wants(const struct tidings_client *c); /* is there a reason to stay connected? */
/* An update is routed to those it concerns. */
/* Nothing changed, but this is how far the stream came. */
void watching_bookmark(struct tidings_client *c, struct json *params);
void watching_updated(struct tidings_client *c, struct json *message, int64_t received_ms,
                      bool is_synthetic);
/* Could an update of `uri` be due to this watch? What cannot be known counts as yes. */
bool watching_covers(const struct watch *w, struct tidings_str uri);
void watching_sweep(struct tidings_client *c); /* what ended in callbacks */
/* Its subscriptions hear of it. */
void watching_tell_state(struct tidings_client *c, struct watch *w,
                         const struct tidings_client_event *e);
struct watch *watching_find(struct tidings_client *c, struct tidings_str uri);
/* A watch was accepted or refused. */
void watching_judge(struct tidings_client *c, struct watch *w, bool is_accepted,
                    struct tidings_str reason);
/* All were judged. */
void watching_judged(struct tidings_client *c);

void modern_init(struct tidings_client *c);
/* The set changed while connected. */
void modern_changed(struct tidings_client *c);
void modern_acknowledged(struct tidings_client *c, struct json *params, int64_t exchange);
void modern_cancelled(struct tidings_client *c, int64_t id); /* by the server */
void modern_lost(struct tidings_client *c);
void legacy_subscribe_all(struct tidings_client *c);
/* What is to be asked about it is asked, if nothing is under way. */
void legacy_ask(struct tidings_client *c, struct watch *w);
void legacy_ended(struct tidings_client *c, struct watch *w); /* nobody is left */
/* The stream goes on, with a gap before it. */
void legacy_interrupted(struct tidings_client *c, struct watch *w);
void legacy_lost(struct tidings_client *c, struct watch *w); /* the session */
/* An update of this very watch says how far the stream is. */
void legacy_told(struct tidings_client *c, struct watch *w, struct tidings_str cursor);

/* ---- copy.c ---------------------------------------------------------------------------------- */

void copies_end(struct tidings_client *c);

/* ---- event.c --------------------------------------------------------------------------------- */

void event_state(struct tidings_client *c, const struct tidings_client_event *e);
/* Keeps a reference to the message. */
void event_notification(struct tidings_client *c, struct json *root, size_t bytes);
/* The same, for what the client found out by itself: an update. */
void event_found(struct tidings_client *c, struct json *root, size_t bytes);
/* Of a request that is not waited for. */
void event_answer(struct tidings_client *c, const struct tidings_client_asking *asking,
                  const struct answer *a);
void event_progress(struct tidings_client *c, int64_t number,
                    const struct tidings_client_asking *asking, struct json *params);
void event_forget(struct tidings_client *c, int64_t number); /* it was cancelled */
void event_stderr(struct tidings_client *c, struct tidings_str bytes);
void event_deliver(struct tidings_client *c); /* the only place that calls the program … */
/* … but for the progress of a call that is waited for. */
void event_call_progress(tidings_client_progress_fn fn, void *user, struct json *params);
void event_drop_all(struct tidings_client *c);

/* ---- ask.c ----------------------------------------------------------------------------------- */

/* Ask and wait: the result, to be released with jv_unref. NULL on failure. */
struct json *ask(struct tidings_client *c, const char *method, struct tidings_str params,
                 struct tidings_error *err);
/* JSON text of a value, NUL-terminated; NULL: too large, or out of memory. */
char *json_text_of(const struct tidings_client *c, const struct json *value, size_t *ret_len);

#endif
