/* SPDX-License-Identifier: MIT
 *
 * What the files session_moving*.c share: sessions are written to the store (session_moving.c),
 * made again from it (session_moving_adopt.c), and answers wait for both (session_moving_held.c).
 */
#ifndef PROTOCOL_SESSION_MOVING_PRIVATE_H
#define PROTOCOL_SESSION_MOVING_PRIVATE_H

#include "protocol/session_moving.h"
#include "protocol/session_store.h"

#define SESSION_LOST 64u /* sessions that went, and are remembered for a moment */

/* Of one worker. */
struct session_movers {
    struct worker *worker;
    struct session_store *store;
    struct list all; /* struct session_moving; whose turn to be written comes first */
    size_t count;
    struct loop_timer *tick; /* runs while there are any */
    struct map adoptions;    /* struct adoption by key */
    bool is_failing;         /* the last write failed, and it was logged */
    struct {
        uint64_t hash, ms;
    } lost[SESSION_LOST]; /* ring */
    unsigned lost_next;
};

struct adoption;

struct session_moving {
    struct list link; /* in movers->all */
    struct session *session;
    struct session_movers *movers;
    char key[SESSION_KEY_LEN + 1];
    uint64_t generation;        /* of the row, when it was last taken or made */
    uint64_t changes, written;  /* so many there were, and so many of them are written */
    uint64_t under_way;         /* … and will be, when the job is done */
    uint64_t cursor, stream_no; /* as they were written last */
    uint64_t written_ms;
    struct session_job *job; /* one at a time; NULL: none */
    struct list held;        /* struct held_answer */
    struct map options;      /* struct kept_options: what subscriptions were asked with */
    struct buf refused;      /* quoted URIs of subscriptions that could not come along, each ends in
                              * a line break */
    struct adoption *confirming; /* is it ours still? NULL: nobody asks … */
    uint64_t confirmed;          /* … which the write of this change says */
    unsigned taken_stream;       /* the highest that had been written when it was adopted */
    bool is_adopted;
    bool is_arriving;   /* its subscriptions are not made yet: what is written stays as it is */
    bool is_incomplete; /* not all is known that would have to be written */
    bool is_unfit;      /* … or it is too large, which was said */
    bool is_unwritten;  /* there is no row of it */
    bool is_gone;       /* it is another node's */
    bool is_ended;      /* at every node */
};

/* session_moving_held.c: as `hold` of struct requests. */
bool session_hold(struct request *request, int status);
/* Answers to changes up to that one, into a list. Then they go out; or, when their session has
 * gone, are asked for again of wherever it is. Either may end any session. */
void session_take_held(struct session_moving *m, uint64_t upto, struct list *ret);
void session_release(struct list *held);
void session_ask_again(struct list *held, struct tidings_str id);
/* Its copy here ends, and its streams; it goes on elsewhere. */
void session_let_go(struct session_moving *m);
/* What a subscription was asked with, as text. false: out of memory. */
bool session_keep_options(struct session_moving *m, struct tidings_str spelled,
                          struct tidings_str options);
/* It is written: it is ours still (0), that cannot be found out (BUSY), or it is not (CONFLICT). */
void session_confirm(struct adoption *a, int code);
/* How long until it may be taken back. */
uint64_t session_hold_ms(const struct session_movers *movers, struct tidings_str key);
/* Frees what is under way. */
void session_adoptions_end(struct session_movers *movers);

#endif
