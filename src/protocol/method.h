/* SPDX-License-Identifier: MIT
 *
 * The table of methods: name -> handler, and in which eras it exists.
 */
#ifndef PROTOCOL_METHOD_H
#define PROTOCOL_METHOD_H

#include "request/request.h"

/* Answers the request, now or later. Unknown methods are answered too. */
void method_run(struct request *request);

/* Handlers in files of their own. */
void method_resources_list(struct request *request);
void method_resources_templates_list(struct request *request);
void method_resources_read(struct request *request);
void method_resources_metadata(struct request *request);
void method_resources_children(struct request *request);
void method_tools_list(struct request *request);
void method_prompts_get(struct request *request);
void method_prompts_list(struct request *request);
void method_complete(struct request *request);
void method_tools_call(struct request *request);

/* Answer resources/subscribe or unsubscribe: it is done. */
void method_confirm(struct request *request, bool subscribed, struct tidings_str uri);

#endif
