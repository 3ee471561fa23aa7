/* SPDX-License-Identifier: MIT
 *
 * Tools for hosts that cannot subscribe: `changes_since` and `wait_for_change`.
 */
#ifndef SERVER_TOOLS_CHANGES_H
#define SERVER_TOOLS_CHANGES_H

#include <tidings/types.h>

#include "base/mem.h"
#include "engine/catalog/job_read.h"
#include "engine/delivery/change_query.h"
#include "engine/protocol/call.h"

struct tidings_server;

/* Offer both or none. TIDINGS_E_EXISTS: the program has a tool of that name. */
int change_tools_add(struct tidings_server *s, struct tidings_error *err);
void change_tools_remove(struct tidings_server *s);

/* -------------------------------------------------------------------------------------------------
 * One call of `changes_since` or `wait_for_change`: it queries (engine/delivery/change_query.h),
 * may wait, and answers.
 *
 *     query ── row, row, … ── done ── contents one after the other, if requested ── the answer
 *
 * A wait without a cursor first reports the named resources that exist, because its client has not
 * seen them yet. While a call waits it holds its subscriptions and one timer, and no thread. It
 * ends after a change, at its deadline, when the server stops, and when the client no longer waits
 * for the answer.
 */

#define CHANGE_LIMIT 100u /* default number of rows */
#define CHANGE_WAIT_MS 25000u
#define CHANGE_WAIT_MAX_MS 600000u
#define CHANGE_BYTES (256u * 1024u) /* of rows, and the same for contents; see `budget` */

struct change_row {
    const struct change *change; /* a reference; NULL: no change, but the resource exists: */
    enum tidings_change_kind kind;
    char *uri;
    int64_t modified_ms; /* 0: unknown */
};

struct change_call {
    struct tidings_call *call;
    struct worker *worker;
    struct change_query *query; /* NULL: it has finished */
    struct loop_timer *timer;   /* of a waiting call */
    uint64_t begun_ms, wait_ms;
    bool waits, wants_contents;
    bool is_cancelled; /* while contents are read */

    struct change_row *rows;
    size_t count, room, limit, bytes;
    size_t budget;                      /* CHANGE_BYTES, or the maximum of an answer */
    struct buf lost, refused, warnings; /* elements of arrays */
    bool can_change;                    /* one of the URIs has no warning */
    struct tidings_error why;           /* the first refusal */
    struct log_cursor cursor;
    bool more;

    struct buf out;
    struct jw w;
    size_t next; /* next row to write */
    bool is_writing, is_reading;
    struct catalog *catalog; /* a reference during a read */
    struct arena arena;
    struct tidings_read read;
    struct buf contents; /* the contents of resources/read, of all rows, as an array */
    struct jw contents_w, contents_before; /* a failed read restores the state before it */
    size_t contents_before_len;
    size_t block_count; /* of the result so far; the first is the JSON text */
    bool is_full;       /* no space for further contents */
};

/* The two handlers; `user` is not used. */
void change_call_since(void *user, struct tidings_call *call);
void change_call_wait(void *user, struct tidings_call *call);

#endif
