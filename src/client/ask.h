/* SPDX-License-Identifier: MIT
 *
 * Requests to the server whose answer the client waits for, turning its loop meanwhile.
 */
#ifndef CLIENT_ASK_H
#define CLIENT_ASK_H

#include <tidings/client.h>

#include "json/json.h"

/* Ask and wait: the result, to be released with jv_unref. NULL on failure. */
struct json *ask(struct tidings_client *c, const char *method, struct tidings_str params,
                 struct tidings_error *err);
/* The same for a call of a tool, with progress (`on_progress` may be NULL). */
struct json *ask_tool(struct tidings_client *c, const char *tool, const char *arguments,
                      tidings_client_progress_fn on_progress, void *user,
                      struct tidings_error *err);
/* Hands the value, which lives in `root`, over as text, and releases that; NULL: nothing. */
char *ask_give_text(struct tidings_client *c, struct json *root, const struct json *value,
                    struct tidings_error *err);
/* What was asked last was answered without one, as far as the program is concerned. */
void ask_forget_error(struct tidings_client *c);

#endif
