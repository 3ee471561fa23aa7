/* SPDX-License-Identifier: MIT
 *
 * One call of `changes_since` or `wait_for_change`: it queries (delivery/change_query.h), perhaps
 * waits, and answers.
 *
 *     query ── row, row, … ── done ── contents one after the other, if asked for ── the answer
 *
 * A wait without a cursor first reports the named resources that exist: its client has not seen
 * them yet. While a call waits it holds its subscriptions and one timer, and no thread. It ends
 * when something changed, at its deadline, when the server stops, and when nobody waits for the
 * answer any more.
 */
#ifndef SERVER_CHANGE_CALL_H
#define SERVER_CHANGE_CALL_H

#include "base/arena.h"
#include "catalog/job_read.h"
#include "delivery/change_query.h"
#include "handler/call.h"

#define CHANGE_LIMIT 100u /* rows, when the caller says nothing */
#define CHANGE_WAIT_MS 25000u
#define CHANGE_WAIT_MAX_MS 600000u
#define CHANGE_BYTES (256u * 1024u) /* of rows, and as much again of contents; see `budget` */

struct change_row {
    const struct change *change; /* a reference; NULL: it did not change, it exists: */
    enum tidings_change_kind kind;
    char *uri;
    int64_t modified_ms; /* 0: not known */
};

struct change_call {
    struct tidings_call *call;
    struct worker *worker;
    struct change_query *query; /* NULL: it is over */
    struct loop_timer *timer;   /* of one that waits */
    uint64_t begun_ms, wait_ms;
    bool waits, wants_contents;
    bool is_cancelled; /* while contents are read */

    struct change_row *rows;
    size_t count, room, limit, bytes;
    size_t budget;                      /* CHANGE_BYTES, or what an answer may have */
    struct buf lost, refused, warnings; /* elements of arrays */
    bool can_change;                    /* one of the URIs has no warning */
    struct tidings_error why;           /* the first refusal */
    struct log_cursor cursor;
    bool more;

    /* change_call_answer.c */
    struct buf out;
    struct jw w;
    size_t next; /* row to be written */
    bool is_writing, is_reading;
    struct catalog *catalog; /* a reference while something is read */
    struct arena arena;
    struct tidings_read read;
    struct buf contents;                   /* an array of what resources/read gives, of all rows */
    struct jw contents_w, contents_before; /* a failed read restores the state before it */
    size_t contents_before_len;
    size_t block_count; /* of the result so far; the first is the JSON text */
    bool is_full;       /* there is no space for further contents */
};

/* The two handlers; `user` is not used. */
void change_call_since(void *user, struct tidings_call *call);
void change_call_wait(void *user, struct tidings_call *call);

/* What was found becomes the answer; ends the call and frees everything, now or later. */
void change_answer(struct change_call *c);
/* The end: with what is in `out` (code 0), or a failure. */
void change_call_end(struct change_call *c, int code, struct tidings_error *err);

#endif
