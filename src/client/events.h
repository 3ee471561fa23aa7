/* SPDX-License-Identifier: MIT
 *
 * Events for the program (updates, states, notifications), in the order they happened, kept until a
 * step hands them over.
 */
#ifndef CLIENT_EVENTS_H
#define CLIENT_EVENTS_H

#include <tidings/client.h>

#include "client/requests.h"

void events_put_state(struct tidings_client *c, const struct tidings_state_event *e);
/* Keeps a reference to the message. */
void events_put_notification(struct tidings_client *c, struct json *root, size_t bytes);
/* The same, for what the client found out by itself: an update. */
void events_put_found(struct tidings_client *c, struct json *root, size_t bytes);
/* Of a request that is not waited for. */
void events_put_answer(struct tidings_client *c, const struct tidings_client_asking *asking,
                       const struct response *a);
void events_put_progress(struct tidings_client *c, int64_t number,
                         const struct tidings_client_asking *asking, struct json *params);
void events_put_stderr(struct tidings_client *c, struct tidings_str bytes);
void events_forget(struct tidings_client *c, int64_t number); /* the request was cancelled */
void events_drop_all(struct tidings_client *c);

/* Outside a step: if the next one has something to do, the descriptor becomes readable. Turns of
 * the loop use that up, so whoever took them calls this last. */
void events_nudge(struct tidings_client *c);

/* Is it what a server notifies of a change with? */
bool events_is_update(struct tidings_str method);
void events_deliver(struct tidings_client *c); /* the only place that calls the program … */
/* … but for the progress of a call that is waited for. */
void events_call_progress(tidings_client_progress_fn fn, void *user, struct json *params);

#endif
