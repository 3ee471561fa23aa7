/* SPDX-License-Identifier: MIT
 *
 * The state of a client (struct tidings_client), by the part that it belongs to. From below:
 *
 *     loop             what it waits for, behind one descriptor (base/loop)
 *     transport        bytes <-> messages: HTTP, WebSocket, lines; byte_stream below the last two
 *     credentials      what an HTTP request shows to be let in
 *     requests         numbers, requests that wait for their response, deadlines, cancellation
 *     events           what the program hears, kept until a step hands it over
 *     heartbeat        a connection that is dead without a word
 *     comparison       what the server did not tell; snapshot: how something was
 *     subscriptions    what is subscribed to, in both eras; resume: where the stream was
 *     connection       opening, which era, the pause before the next attempt
 *     question         what the server asks; round: answers that go with the request once more
 *     inbound          a message that came: a response, a notification, a request
 *     ask, list, walk  requests that wait for their response
 *     call             of a tool; tool_schemas: what its result must be like; tool_headers: which
 *                      of its arguments are header fields too
 *     copy             live copies of entities, on top of subscriptions and requests
 *     client           life, running
 *
 *        connection                    subscriptions
 *   ┌──> open ─> discover ─────────> listen ────────── stream ──┐
 *   │               │ not modern                                │ lost: report, pause, again
 *   │               └──> initialize ─> GET, subscribe ─ stream ─┤
 *   └───────────────────────────────────────────────────────────┘   (a live session: GET alone)
 *
 * Only a step calls the program. Everything else runs in turns of the loop, never waits, and keeps
 * results for the program as events. A synchronous request takes its own turns until it is
 * answered. So the program may make requests inside its callbacks, and no code of the client is
 * entered twice.
 */
#ifndef CLIENT_CLIENT_INTERNAL_H
#define CLIENT_CLIENT_INTERNAL_H

#include <stdatomic.h>

#include <tidings/question.h>

#include "base/loop.h"
#include "base/map.h"
#include "base/rate.h"
#include "client/calls.h"
#include "client/client.h"
#include "client/subscriptions.h"
#include "client/transport.h"

#define CLIENT_MAX_WATCHES 1000u
#define CLIENT_MAX_REQUESTS 65536u
#define CLIENT_MAX_EVENTS 65536u
#define CLIENT_MAX_FADING 8u /* beyond: the oldest ends at once */

struct snapshot;
struct tool_headers;
struct tool_schemas;
struct watch;

enum client_stage {
    STAGE_IDLE,        /* no connection is needed, or it failed for good */
    STAGE_OPENING,     /* the transport connects */
    STAGE_NEGOTIATING, /* server/discover or initialize */
    STAGE_READY,
    STAGE_PAUSED, /* until the next attempt */
};

struct client_info {
    struct tidings_client_info public;
    char version[16];
    char *server_name, *server_version, *capabilities, *instructions, *answer;
    const char *children; /* the method that lists resources below a URI; NULL: there is none */
    bool has_bookmarks;   /* it sends the newest cursor from time to time, if asked to */
};

/* One watch at a time is compared. */
struct comparison {
    struct watch *watch; /* NULL: none */
    int64_t request;
    struct snapshot *fresh; /* the state read so far */
    unsigned pages;
    struct page_cursors cursors; /* of those pages */
    uint64_t began;              /* clock_monotonic_ms */
    size_t entries;              /* of all snapshots */
    uint64_t found;              /* changes that were reported */
    struct loop_timer next, quiet, verify;
};

struct heartbeat {
    bool is_listening;
    unsigned beats;
    uint64_t longest;      /* ms before one of them */
    uint64_t all, all_max; /* … over all connections: tidings_client_info */
    uint64_t received_at;  /* clock_monotonic_ms */
    struct loop_timer timer;
};

struct tidings_client {
    struct client_settings settings;
    struct loop *loop;
    struct client_host host; /* all zero: the loop is the client's own */
    unsigned holds;          /* functions on the stack that call the program, or wait */
    bool is_destroyed;       /* by a callback of one of them: the last one begins the end */
    uint64_t leave_until;    /* clock_monotonic_ms */
    struct loop_hook turn_end;
    struct loop_discard discard;
    atomic_bool stopping;
    struct transport *transport;
    struct loop_poll *credentials; /* the program's; NULL: none */
    uint64_t renewals;             /* … of them, that streams were begun with */
    unsigned held; /* exchanges that wait for credentials: no deadline runs out in this time */

    /* connection */
    enum client_stage stage;
    enum tidings_era era;    /* 0: not known */
    bool is_open;            /* the transport */
    bool has_session;        /* legacy: initialized */
    bool is_resumed;         /* … and was so before this attempt */
    bool is_eager;           /* the program runs it: it connects without a request */
    unsigned failures;       /* failed attempts in a row */
    unsigned broken_probes;  /* … and without an answer to server/discover */
    bool has_asked_again;    /* server/discover once more, after the revision was refused */
    bool is_unread;          /* the launched program ended without reading its input */
    bool is_token_refused;   /* by the current answer (401), or the last one */
    bool wants_credentials;  /* the last 401 or 403 asked for them */
    const char *challenge;   /* WWW-Authenticate of the current answer; "": none */
    uint32_t retry_after_ms; /* delay that the server asked for; 0: none */
    struct loop_timer retry;
    struct tidings_error failure;        /* for good; code 0: none */
    struct tidings_error loss;           /* the reason of the last loss */
    struct tidings_error refusal;        /* of the current subscriptions; code 0: none */
    uint64_t unread, replaced, repeated; /* tidings_client_info */
    char stray_error[160]; /* an error of the server without a request; "": none since it opened */
    struct client_info info;
    bool has_info;
    bool can_subscribe; /* advertised, or unknown */

    /* requests */
    struct map requests; /* by number */
    struct list unsent;  /* until it is ready */
    struct list in_flight;
    int64_t next_id;
    char *last_error;                  /* JSON; NULL: none */
    struct tool_schemas *tool_schemas; /* NULL: no tool is known */
    struct tool_headers *tool_headers; /* likewise */
    tidings_client_log_fn on_log;      /* NULL: the server's log is not requested */
    void *log_user;
    enum tidings_log_level log_least;
    bool can_log; /* the server has a log */
    tidings_client_warning_fn on_warning;
    void *warning_user;

    /* question */
    struct tidings_question_handlers handlers;
    struct list questions; /* struct tidings_question */
    size_t question_count;
    struct token_bucket uncaused; /* questions that no request led to */
    bool awaits_stream; /* legacy: requests that may lead to questions wait for the stream */
    struct loop_timer stream_patience; /* … for this long */
    struct loop_timer question_listen; /* the stream is reopened, … */
    unsigned question_listens;         /* … after this number of attempts */

    /* events */
    struct list events;
    size_t event_count, event_bytes;
    bool is_delivering, is_stepping;
    bool has_gap;            /* an undelivered event reports one */
    struct loop_timer nudge; /* makes the descriptor readable for what came outside a step */
    tidings_state_fn on_state;
    void *state_user;
    tidings_client_notification_fn on_notification;
    void *notification_user;

    /* subscriptions */
    struct list watches; /* struct watch */
    size_t watch_count;
    uint64_t last_watch;    /* number */
    bool has_watched;       /* at least one URI was ever accepted */
    bool is_streaming;      /* legacy: the stream of updates is open */
    uint64_t reopened;      /* streams: tidings_client_info */
    bool is_stale;          /* modern: the set changed since `coming` began */
    bool has_ended;         /* a subscription, in a callback */
    int64_t listen, coming; /* modern: the active listen, and the one that will replace it */
    int64_t fading[CLIENT_MAX_FADING]; /* … replaced listens that still receive for a short time */
    struct loop_timer fade;
    struct resume resume;
    uint64_t cursor_at;         /* legacy: when its cursor was received */
    int64_t cursor_listen;      /* modern: the listen whose cursor counts; stays when it is lost */
    struct loop_timer later;    /* subscribes again after a temporary refusal */
    struct loop_timer change;   /* the set changed: another listen */
    struct loop_timer patience; /* for the acknowledgement of `coming` */
    struct comparison comparison;
    struct heartbeat heartbeat;

    /* copy */
    struct list copies;
    size_t copy_count;
};

/* Every public function that can fail calls this first. */
static inline int client_check(const struct tidings_client *c, struct tidings_error *err)
{
    return c ? 0 : tidings_fail(err, TIDINGS_E_INVALID, "there is no client: it is NULL");
}

static inline bool client_is_stopping(const struct tidings_client *c)
{
    return atomic_load(&c->stopping);
}

/* A turn of the loop, which waits for at most `timeout_ms` (-1: no limit). Between hold and
 * release, after which the client may be used only until the turn around it ends. */
void client_turn(struct tidings_client *c, int timeout_ms);
void client_hold(struct tidings_client *c);
void client_release(struct tidings_client *c);
/* The descriptor of a client that was stopped stays readable: call this after turns. */
void client_show_stop(struct tidings_client *c);

#endif
