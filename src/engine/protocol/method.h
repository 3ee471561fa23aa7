/* SPDX-License-Identifier: MIT
 *
 * JSON-RPC methods: which function answers each, and in which eras it exists.
 */
#ifndef ENGINE_PROTOCOL_METHOD_H
#define ENGINE_PROTOCOL_METHOD_H

#include <tidings/types.h>

#include "engine/protocol/request.h"

struct subscription_group;

/* Answers the request, now or later, even for an unknown method. */
void method_run(struct request *request);

/* The name of a method by its number in the table of operations (engine/protocol/request.h): 0 is
 * "other"; NULL: there is none. The string is static. */
const char *method_name(unsigned number);

/* Handlers in separate files. */
void method_resources_list(struct request *request);
void method_resources_templates_list(struct request *request);
void method_resources_read(struct request *request);
void method_resources_metadata(struct request *request);
void method_resources_children(struct request *request);
void method_complete(struct request *request);
void method_skills_list(struct request *request);
void method_skills_get(struct request *request);
/* subscriptions/listen: takes the request; acknowledges on the stream it becomes. */
void method_listen(struct request *request);
/* resources/subscribe: answers the request with {} or an error. */
void method_subscribe_one(struct request *request, struct subscription_group *group,
                          struct tidings_str as_requested);
/* resources/unsubscribe: succeeds even without a subscription, unless the profile forbids that. */
void method_unsubscribe_one(struct request *request, struct subscription_group *group,
                            struct tidings_str as_requested);
/* Returns true if its client has subscribed too often in a short time; the request was answered
 * then. */
bool method_subscribes_too_often(struct request *request);

/* Answers resources/subscribe or unsubscribe with success. */
void method_confirm(struct request *request, bool subscribed, struct tidings_str uri);

/* -------------------------------------------------------------------------------------------------
 * The instructions that initialize and server/discover return, unless the program has its own: the
 * roots that the client may list, and how to wait for a change. A host gives them to its model.
 */

struct buf;
struct request;

#define INSTRUCTIONS_MAX 600u /* bytes */

/* -------------------------------------------------------------------------------------------------
 * The last error of a client: kept with its session or its message connection, where operators find
 * it (tidings://self/peers).
 */

struct dialect_error;

/* `requests.failed`: the request is answered with that error. */
void last_error_note(const struct request *request, const struct dialect_error *e);

#endif
