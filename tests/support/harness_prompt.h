/* SPDX-License-Identifier: MIT
 *
 * Prompts and completions for tests of the worker: registered at the hub as the server does it.
 */
#ifndef SUPPORT_HARNESS_PROMPT_H
#define SUPPORT_HARNESS_PROMPT_H

#include "support/harness_core.h"

/* A prompt with the arguments "code" (required) and "style", described as "about NAME"; `schema`
 * (NULL: none) judges what is given. Its handlers are those of tools (support/harness_tool.h). */
void harness_add_prompt(struct harness *b, const char *name, const char *schema,
                        tidings_call_fn handler, void *user);
/* `what`: COMPLETE_PROMPT or COMPLETE_TEMPLATE. */
void harness_add_completion(struct harness *b, const char *what, const char *name,
                            tidings_complete_fn fn, void *user);

#endif
