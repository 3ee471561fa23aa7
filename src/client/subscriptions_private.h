/* SPDX-License-Identifier: MIT
 *
 * Between the files of subscriptions: whether a watch was accepted, and how a server is asked in
 * each era.
 */
#ifndef CLIENT_SUBSCRIPTIONS_PRIVATE_H
#define CLIENT_SUBSCRIPTIONS_PRIVATE_H

#include "client/subscriptions.h"
#include "client/watch.h"

/* A watch was accepted (`why` NULL, or with code 0: its text is a warning), or refused. */
void subscriptions_judge(struct tidings_client *c, struct watch *w,
                         const struct tidings_error *why);
/* The reason given for `uri` among refusals or warnings; empty: none. */
struct tidings_str subscriptions_reason(struct json *given, const char *uri);
/* `data` of a refusal says when to ask again (retryAfterMs): so that is done, and the watch is
 * not judged. false: it says nothing of the kind. */
bool subscriptions_put_off(struct tidings_client *c, struct watch *w, struct json *data);
/* All were judged. */
void subscriptions_judged(struct tidings_client *c);
/* Queue a state event for the subscriptions of a watch. */
void subscriptions_report(struct tidings_client *c, const struct watch *w, enum tidings_state state,
                          const struct tidings_error *why);

/* ---- modern: one listen for everything ------------------------------------------------------- */

void modern_init(struct tidings_client *c);
/* The set changed while connected. */
void modern_changed(struct tidings_client *c);
void modern_lost(struct tidings_client *c);

/* ---- legacy: resources/subscribe for each URI ------------------------------------------------ */

void legacy_subscribe_all(struct tidings_client *c);
/* What is to be asked about it is asked, if nothing is under way. */
void legacy_ask(struct tidings_client *c, struct watch *w);
void legacy_ended(struct tidings_client *c, struct watch *w); /* nobody is left */
/* The stream goes on, with a gap before it. */
void legacy_interrupted(struct tidings_client *c, struct watch *w);
void legacy_lost(struct tidings_client *c, struct watch *w); /* the session */
/* An update of this very watch says how far the stream is. */
void legacy_on_update(struct tidings_client *c, struct watch *w, struct tidings_str cursor);

#endif
