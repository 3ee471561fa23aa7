/* SPDX-License-Identifier: MIT
 *
 * One event of the client that waits to be handed to the program.
 */
#ifndef CLIENT_EVENTS_PRIVATE_H
#define CLIENT_EVENTS_PRIVATE_H

#include "base/list.h"
#include "client/events.h"

enum event_kind {
    EVENT_STATE,
    EVENT_NOTIFICATION,
    EVENT_FOUND,
    EVENT_ANSWER,
    EVENT_PROGRESS,
    EVENT_STDERR,
};

struct event {
    struct list link;
    enum event_kind kind;
    size_t bytes;
    struct json *root; /* NOTIFICATION, FOUND, PROGRESS: a message of ours to hold on to */
    int64_t received_ms;
    struct tidings_state_event state;
    char *cursor;       /* STATE */
    char *text, *error; /* STATE: URI and reason; ANSWER: result and error; STDERR: what it said */
    int64_t number;     /* ANSWER, PROGRESS: of the request; STATE: of the watch, 0: none */
    struct tidings_client_asking asking;
    struct tidings_error why;
};

/* It is not among those that wait any more. */
void events_remove(struct tidings_client *c, struct event *e);
void events_release(struct event *e);
/* The number of the watch of that URI, 0: none. */
int64_t events_watch_number(struct tidings_client *c, struct tidings_str uri);

#endif
