/* SPDX-License-Identifier: MIT
 *
 * What a client of the legacy era can be asked, and the questions that it has not answered yet: one
 * for each session over HTTP and for each message connection, so that an answer is taken from
 * nobody but whom was asked. Questions are numbered from 1 in each of them.
 *
 * At most ASKING_MAX questions are open at a time. Whoever asks implements struct asked.
 */
#ifndef REQUEST_ASKING_H
#define REQUEST_ASKING_H

#include "base/list.h"
#include "wire/rpc.h"
#include "json/write.h"

#define ASKING_MAX 64u

struct asking;
struct asked;

struct asked_ops {
    /* It was answered, and is not open any more: `result` (NULL: none), or `error`, an object. */
    void (*answered)(struct asked *asked, struct json *result, struct json *error);
    /* The client has gone, and with it every question of whoever asked: none of them may be open
     * any more when this returns. */
    void (*lost)(struct asked *asked);
    /* The request as it is sent. */
    void (*put)(struct asked *asked, struct buf *out);
};

/* An open question. */
struct asked {
    struct list link; /* in asking->open */
    const struct asked_ops *ops;
    struct asking *asking;
    uint64_t id;
    bool is_on_session; /* on a GET stream of the session, not on its request's own; … */
    uint64_t event;     /* … with this event */
};

struct asking {
    struct list open; /* oldest first */
    uint64_t next_id;
    unsigned count, can;  /* open; what may be asked: ASK_… of dialect/dialect.h */
    unsigned next_stream; /* of requests that can be resumed, … */
    unsigned next_event;  /* … and the events on them */
    const void *owner;    /* the channel, of message connections */
    const char *tag;      /* that ids of events begin with; NULL: there are no such ids */
};

/* NULL: there is nothing it can be asked, or no memory. */
struct asking *asking_create(unsigned can);
void asking_destroy(struct asking *asking); /* every question is lost; NULL is fine */
/* Numbers it. false: too many are open. `asked->ops` is set. */
bool asking_add(struct asking *asking, struct asked *asked);
void asking_remove(struct asked *asked);
/* A response came. One that answers nothing that is open is passed over. */
void asking_answer(struct asking *asking, const struct json *id, struct json *message);

#endif
