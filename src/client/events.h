/* SPDX-License-Identifier: MIT
 *
 * Events for the program (updates, states, notifications), in the order they happened, kept until a
 * step delivers them.
 */
#ifndef CLIENT_EVENTS_H
#define CLIENT_EVENTS_H

#include <tidings/client.h>

#include "client/requests.h"

void events_put_state(struct tidings_client *c, const struct tidings_state_event *e);
/* Keeps a reference to the message. */
void events_put_notification(struct tidings_client *c, struct json *root, size_t bytes);
/* The same, for an update that the client made itself. */
void events_put_found(struct tidings_client *c, struct json *root, size_t bytes);
/* The answer to an asynchronous request. */
void events_put_answer(struct tidings_client *c, const struct tidings_client_asking *asking,
                       const struct response *a);
void events_put_progress(struct tidings_client *c, int64_t number,
                         const struct tidings_client_asking *asking, struct json *params);
void events_put_stderr(struct tidings_client *c, struct tidings_str bytes);
void events_forget(struct tidings_client *c, int64_t number); /* the request was cancelled */
void events_drop_all(struct tidings_client *c);

/* Outside a step: makes the descriptor readable if the next step has work to do. Turns of the loop
 * reset that, so functions that take turns call this last. */
void events_nudge(struct tidings_client *c);

/* Returns true if the method notifies of a change. */
bool events_is_update(struct tidings_str method);
void events_deliver(struct tidings_client *c); /* the only place that calls the program … */
/* … except the progress of a synchronous call. */
void events_call_progress(tidings_client_progress_fn fn, void *user, struct json *params);

#endif
