/* SPDX-License-Identifier: MIT
 *
 * The table of methods: name -> handler, and in which eras it exists.
 */
#ifndef CORE_METHOD_H
#define CORE_METHOD_H

#include "core/call.h"

/* Answers the call, now or later. Unknown methods are answered too. */
void method_run(struct call *call);

/* Handlers in files of their own. */
void method_resources_list(struct call *call);
void method_resources_templates_list(struct call *call);
void method_resources_read(struct call *call);

#endif
