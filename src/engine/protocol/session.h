/* SPDX-License-Identifier: MIT
 *
 * Legacy sessions over HTTP: an id, the negotiated values, the subscriber, and the open GET
 * streams.
 *
 * A session lives on the worker that its id names, on each node, for any number of workers. Where
 * nodes share a store it may move to another node (engine/protocol/session_migration.h). Every
 * message goes to exactly one stream, the newest; when that ends, the next older one takes over.
 * Without a stream the session only remembers its cursor and catches up when a stream opens. Event
 * ids are `stream.n.cursor`, unique by n: a client that resumes with an id continues that stream
 * under its number, and receives what followed on it and what no stream has carried yet. For a
 * principal with a name the ids begin with a tag of that name and a '-', which distinguishes
 * another principal's id from one that is too old.
 *
 * An open stream keeps a session alive; without one it ends after the idle timeout.
 */
#ifndef ENGINE_PROTOCOL_SESSION_H
#define ENGINE_PROTOCOL_SESSION_H

#include "engine/delivery/subscriber.h"
#include "engine/protocol/channel.h"
#include "security/limits.h"

struct client_request;
struct client_requests;
struct refusal;
struct session_migrations;
struct session_migration;

#define SESSION_ID_LEN 35u /* ww-32 hex digits */
#define SESSION_MAX_STREAMS LIMIT_MAX_STREAMS
#define SESSION_PAST_STREAMS 8u
#define SESSION_REWINDS 4u
#define SESSION_ADDRESS_MAX 48u
#define SESSION_TAG_LEN 9u /* 8 hex digits and a '-' */

/* The sessions of one worker. */
struct sessions {
    struct map by_id;
    struct list all;                   /* least recently active first */
    struct list streamless;            /* without a stream, but their lists are still watched */
    struct session_migrations *movers; /* NULL: sessions do not move */
};
void sessions_init(struct sessions *sessions);
void sessions_deinit(struct worker *worker); /* ends the sessions */

/* Counts as one session: against its client's quota (NULL: unlimited) and its share. */
struct session_place {
    struct quota *quota;
    struct client_account *account;
};

struct session {
    struct list link; /* in worker->sessions->all */
    struct worker *worker;
    const struct revision *revision;
    const struct principal *principal; /* a reference: of the newest request */
    struct session_place place;        /* charged to its client */
    struct subscriber *subscriber;
    struct subscription_group *group; /* everything subscribed in this session */
    struct list requests;             /* requests under way */
    struct list streams;              /* newest first */
    struct list streamless_link; /* in worker->sessions->streamless, while it has no stream … */
    uint64_t streamless_ms;      /* … since then */
    unsigned stream_count, next_stream;
    uint64_t next_event;
    uint64_t active_ms;
    struct session_migration *migration; /* NULL: it does not move */
    struct client_requests
        *client_requests;    /* questions that its client can answer, and open ones; NULL: none */
    uint64_t delivered_upto; /* streams have carried everything up to this number */
    uint64_t newest_from;    /* … when the newest stream came: its part starts here */
    struct {
        unsigned no;
        uint64_t from, end;       /* numbers in (from, end] were written to it */
    } past[SESSION_PAST_STREAMS]; /* ring: the part of each stream while it was the newest */
    unsigned past_next;
    bool initialized;
    struct {
        uint64_t event, to; /* ids up to this event say nothing about numbers above this one … */
        bool is_gap;        /* … and the subscription is due for a resync */
    } rewinds[SESSION_REWINDS]; /* both ascend */
    unsigned rewind_count;
    struct {
        unsigned stream; /* was notified … */
        uint64_t event;  /* … with this one, … */
        uint64_t upto;   /* … of lists that changed up to here */
    } lists;
    struct subscriber_skips skips; /* of the newest stream */
    const char *listener;          /* of the connection that opened it or its newest stream; … */
    char address[SESSION_ADDRESS_MAX]; /* … and from where */
    char id[SESSION_ID_LEN + 1];
    char tag[SESSION_TAG_LEN + 1]; /* prefix of event ids; empty: the client has no name */
};

/* Opens a session for the client of `channel`. TIDINGS_E_LIMIT if there are too many, in all or for
 * the client: `why` has the limit. Otherwise the error message is in `err`. */
int session_open(struct channel *channel, const struct revision *revision, struct session **ret,
                 struct refusal *why, struct tidings_error *err);
/* Counts an import like a session, without one: the caller gives *ret back with session_left when
 * it has gone. */
bool session_enter(struct channel *channel, struct session_place *ret, struct refusal *why);
void session_left(struct worker *worker, const struct session_place *place);
/* Ends its streams and subscriptions. */
void session_destroy(struct session *session);
/* The same because a client or the operator ended it: it ends on every node. */
void session_end(struct session *session);
/* Returns NULL if the session is unknown, has ended, or belongs to another principal. Counts as
 * activity; the session continues with the rights of `principal`. */
struct session *session_find(struct worker *worker, struct tidings_str id,
                             const struct principal *principal);
/* The worker, of `count`, of the session with that id, whether it exists or not; -1: invalid id. */
int session_worker(struct tidings_str id, unsigned count);
/* Answers a GET: the exchange on `channel` becomes a stream of this session. Without
 * `last_event_id` it is a new stream; the id of an event on the stream of a request continues that
 * stream. TIDINGS_E_LIMIT: too many streams. TIDINGS_E_DENIED: another principal's event id.
 * TIDINGS_E_NOTFOUND: the request no longer exists. */
int session_open_stream(struct session *session, struct channel *channel,
                        struct tidings_str last_event_id);
/* Creates an id of this worker. Fails if no random bytes are available. */
int session_make_id(const struct worker *worker, char id[SESSION_ID_LEN + 1]);
/* The level below which the client of a request wants no log messages (logging/setLevel). */
int session_log_level(const struct request *request);
/* The questions that the client of a legacy request can answer, and open ones: those of its session
 * or its connection. NULL: none. */
struct client_requests *session_client_requests(const struct request *request);
/* Writes a message to the newest stream of the session of a request; `asked` (or NULL) is noted as
 * asked there. Returns false if there is no stream. */
bool session_send(const struct request *request, const struct buf *message,
                  struct client_request *asked);
/* Its client declared these capabilities (NULL: none). */
void session_declare(struct session *session, unsigned can);
/* Ends sessions that were idle too long. */
void session_sweep(struct worker *worker);

/* -------------------------------------------------------------------------------------------------
 * Shared by the session files: a stream, the ids of the events on it, and the hooks for sessions
 * that move.
 */

struct session_stream {
    struct list link;
    struct session *session;
    struct sink *sink;
    unsigned no;
};

/* The stream that messages go to; NULL: there is none. */
static inline struct session_stream *session_newest_stream(struct session *session)
{
    return list_empty(&session->streams)
               ? NULL
               : list_entry(session->streams.next, struct session_stream, link);
}

struct event_cursor {
    unsigned stream; /* 0: a fresh one */
    uint64_t event;  /* 0: not issued by this server */
    uint64_t cursor;
    uint64_t lists_upto;  /* lists that changed up to here are known */
    struct log_cursor id; /* its cursor, with the subscriptions due for a resync */
    bool is_foreign;      /* issued on another node, or here before the session existed */
    bool rewound;         /* before the stream began: other streams' shares do not matter */
};

/* Creates a session that its owner counts (session_enter); `id` empty: a new one. */
int session_create(struct worker *worker, const struct revision *revision,
                   const struct principal *principal, struct tidings_str id, struct session **ret,
                   struct tidings_error *err);
/* Parses the event id of a client like `principal`, issued by any node. Returns false if another
 * node cannot use it. */
struct session_event {
    uint64_t number;
    struct log_cursor at; /* has a position */
};
bool session_read_event(struct worker *worker, const struct principal *principal,
                        struct tidings_str id, struct session_event *ret);

/* session_migration.c and session_migration_import.c, for sessions that may move to another
 * node: */

/* The session was created (false: out of memory); it is about to go, and its last state is written;
 * it has gone. */
bool session_migration_begin(struct session *session);
void session_migration_last(struct session *session);
void session_migration_end(struct session *session);
/* The session ends on every node. */
void session_migration_end_everywhere(struct session *session);
/* It has a stream now. */
void session_migration_streams(struct session *session);
/* Returns true if the session has been on another node, whose event ids may arrive here. */
bool session_is_imported(const struct session *session);
/* Returns true if the session belongs to another node now, so that the copy here is about to go. */
bool session_has_migrated(const struct session *session);
/* Returns true if this stream existed, or was about to, when another node last wrote it. */
bool session_was_written(const struct session *session, unsigned stream);
/* Converts another node's cursor to this epoch; false: it has no meaning here. */
bool session_migration_resume(const struct session *session, struct log_cursor *cursor);
/* The worker ends; its sessions have ended. */
void sessions_unshare(struct worker *worker);

#endif
