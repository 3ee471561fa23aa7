/* SPDX-License-Identifier: MIT
 *
 * What the files of session share: a stream, and the ids of the events on it.
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
    uint64_t cursor;
    uint64_t lists_upto; /* lists that changed up to here are known */
    uint32_t lost;       /* who has yet to be told to look again; 0: nobody */
    bool rewound; /* behind where the stream began: other streams' shares are of no interest */
};

/* The value of a hexadecimal digit; -1: it is none. */
int session_hex(char c);
/* What event ids of it begin with, from the name of its principal. */
void session_make_tag(struct session *session);
/* The id of the next event, written to `out`; its length. */
size_t session_event_id(struct subscriber *subscriber, const struct log_cursor *at,
                        char out[EVENT_ID_MAX]);
/* Is it the id of an event of another than whose session this is? */
bool session_is_foreign_event(const struct session *session, struct tidings_str id);
/* Is it the id of an event of ours, and known what followed it? */
bool session_parse_event_id(const struct session *session, struct tidings_str id,
                            struct event_cursor *ret);

#endif
