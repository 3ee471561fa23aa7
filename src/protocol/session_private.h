/* SPDX-License-Identifier: MIT
 *
 * What the files of session share: a stream, the ids of the events on it, and what is done where
 * sessions move.
 */
#ifndef PROTOCOL_SESSION_PRIVATE_H
#define PROTOCOL_SESSION_PRIVATE_H

#include "protocol/session.h"

struct session_stream {
    struct list link;
    struct session *session;
    struct sink *sink;
    unsigned no;
};

/* The one that messages go to; NULL: there is no stream. */
static inline struct session_stream *session_newest_stream(struct session *session)
{
    return list_empty(&session->streams)
               ? NULL
               : list_entry(session->streams.next, struct session_stream, link);
}

struct event_cursor {
    unsigned stream; /* 0: a fresh one */
    uint64_t event;  /* 0: none of ours */
    uint64_t cursor;
    uint64_t lists_upto;  /* lists that changed up to here are known */
    struct log_cursor id; /* the cursor in it, which says who has yet to be told to look again */
    bool is_foreign;      /* given out at another node, or here before the session was there */
    bool rewound; /* behind where the stream began: other streams' shares are of no interest */
};

/* One that its owner counts (session_enter); `id` empty: a fresh one. */
int session_create(struct worker *worker, const struct revision *revision,
                   const struct principal *principal, struct tidings_str id, struct session **ret,
                   struct tidings_error *err);
/* The value of a hexadecimal digit; -1: it is none. */
int session_hex(char c);
/* What event ids of it begin with, from the name of its principal. */
void session_make_tag(struct session *session);
/* The id of the next event, written to `out`; its length. */
size_t session_event_id(struct subscriber *subscriber, const struct log_cursor *at,
                        char out[EVENT_ID_MAX]);
/* Is it the id of an event of another than whose session this is? */
bool session_is_foreign_event(const struct session *session, struct tidings_str id);
/* What the id of an event of somebody like `principal` says, whoever gave it out. false: nothing
 * that another node understands. */
struct session_event {
    uint64_t number;
    struct log_cursor at; /* has a position */
};
bool session_read_event(struct worker *worker, const struct principal *principal,
                        struct tidings_str id, struct session_event *ret);
/* Is it the id of an event of ours, and known what followed it? */
bool session_parse_event_id(const struct session *session, struct tidings_str id,
                            struct event_cursor *ret);

/* session_asking.c */

/* Is it the id of an event on the stream of a request (and not of the session)? */
bool session_is_request_event(const struct session *session, struct tidings_str id);
/* That request goes on on `channel`. TIDINGS_E_NOTFOUND: it is not there any more. */
int session_resume_request(struct session *session, struct channel *channel, struct tidings_str id);
/* A stream of the session begins, for a client that has heard everything up to that event: what it
 * was asked later on the session's streams, and is open still, is sent again. */
void session_resend_questions(struct session *session, uint64_t event);
/* The session ends: nobody will answer what it was asked, nor fetch what is kept for it. */
void session_drop_requests(struct session *session);

/* session_moving.c, session_moving_adopt.c, where sessions may go on at another node: */

/* It is made (false: out of memory); it is about to go, and the last is written of it; it has gone.
 */
bool session_moving_begin(struct session *session);
void session_moving_last(struct session *session);
void session_moving_end(struct session *session);
/* When it goes, it goes everywhere. */
void session_moving_end_everywhere(struct session *session);
/* It has got a stream. */
void session_moving_streams(struct session *session);
/* Has it been at another node? Then ids of events may come from there. */
bool session_is_adopted(const struct session *session);
/* Is it another node's now, and its copy here about to go? */
bool session_has_moved(const struct session *session);
/* Was this stream there, or about to be, when another node last wrote it? */
bool session_was_written(const struct session *session, unsigned stream);
/* A cursor of another node becomes one of this epoch; false: it says nothing here. */
bool session_moving_resume(const struct session *session, struct log_cursor *cursor);
/* The worker ends; its sessions have. */
void sessions_unshare(struct worker *worker);

#endif
