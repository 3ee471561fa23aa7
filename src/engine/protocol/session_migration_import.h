/* SPDX-License-Identifier: MIT
 *
 * The state of a legacy session as a string, from which another node continues it: the negotiated
 * values, its owner, its subscriptions and their positions.
 *
 *     {"v":1,"by":{"name":"alice","by":"token"},"revision":"2025-11-25","initialized":true,
 *      "listed":true,"level":3,"turn":4,"asks":1,"stream":2,"event":17,"cursor":"ea.40.12",
 *      "rewinds":[{"event":9,"to":"ea.30.8"},{"event":11,"lost":true}],
 *      "subscriptions":[{"uri":"doc:///a","options":{"windowMs":100},"since":"ea.41.12"},
 *                       {"uri":"doc:///c","since":"ea.20.8","replay":true},
 *                       {"uri":"file:///b","lost":true,"initial":true}]}
 *
 * Another program wrote it, perhaps another version: unknown members are ignored, missing ones have
 * the values of a new session, invalid ones are errors. A format that older programs cannot read
 * has a higher `v`.
 */
#ifndef ENGINE_PROTOCOL_SESSION_MIGRATION_IMPORT_H
#define ENGINE_PROTOCOL_SESSION_MIGRATION_IMPORT_H

#include "engine/protocol/cursor.h"
#include "formats/json_write.h"

#define SESSION_STATE_VERSION 1
#define SESSION_STATE_DEPTH JSON_MAX_DEPTH
#define SESSION_STATE_SUBS 100000u /* subscriptions */
#define SESSION_STATE_REWINDS 4u   /* SESSION_REWINDS */
#define SESSION_STATE_EVENT_MAX (UINT64_MAX >> 2)
#define SESSION_STATE_STREAM_MAX 0x7ffffffu

struct session_rewind {
    uint64_t event;       /* ids up to this one say nothing about numbers above … */
    struct log_cursor to; /* … this, */
    bool is_gap;          /* or of anything */
};

struct session_state {
    struct tidings_str by; /* owner: the string that principal_write wrote */
    struct tidings_str revision;
    bool initialized;
    bool has_listed;     /* its client has called resources/list */
    int level;           /* of the wanted log messages */
    uint64_t generation; /* generation when this was written; 0: unknown. In the state `turn` */
    unsigned asks;       /* questions that its client can answer: ASK_… */
    unsigned stream;     /* the highest number of one … */
    uint64_t event;      /* … and of an event issued */
    struct log_cursor cursor;
    struct session_rewind rewinds[SESSION_STATE_REWINDS];
    unsigned rewind_count;
    struct tidings_str client_name, client_version; /* for writing: the client info */
    struct json *client; /* after reading: an object with these; NULL: none */
    /* After reading; private: */
    struct json *root, *subs;
    struct buf text; /* of `by` */
};

struct session_sub {
    struct tidings_str uri;  /* as the client wrote it */
    struct json *options;    /* as it gave them, without `since` and `initial`; NULL: none */
    struct log_cursor since; /* where `has_since`: changes up to here do not concern it */
    bool has_since;          /* else it existed when the cursor of the session was made */
    bool must_replay;        /* … and no stream has carried later changes, whatever the ids are */
    bool is_gap;             /* lost an unknown number of changes */
    bool is_initial;         /* its initial state is not sent yet */
    struct tidings_str raw;  /* to be written: the options as text, or empty */
    struct tidings_str
        baseline; /* … and the version sent last, which replaces the one in the options; or empty */
};

/* Writes everything but the subscriptions; then each of them; then the end. */
void session_state_begin(struct jw *w, const struct session_state *s);
void session_state_put(struct jw *w, const struct session_sub *sub);
void session_state_end(struct jw *w);

/* TIDINGS_E_PARSE, _INVALID (including later versions), _LIMIT, _NOMEM; `s` holds nothing then. */
int session_state_read(struct session_state *s, struct tidings_str text, struct tidings_error *err);
void session_state_deinit(struct session_state *s);
size_t session_state_count(const struct session_state *s);
/* Slices and values live as long as the state. */
void session_state_at(const struct session_state *s, size_t index, struct session_sub *ret);

#endif
