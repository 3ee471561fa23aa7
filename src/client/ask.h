/* SPDX-License-Identifier: MIT
 *
 * Requests to the server whose answer the client waits for, turning its loop meanwhile.
 */
#ifndef CLIENT_ASK_H
#define CLIENT_ASK_H

#include "json/json.h"

#include <tidings/types.h>

struct tidings_client;

/* Ask and wait: the result, to be released with jv_unref. NULL on failure. */
struct json *ask(struct tidings_client *c, const char *method, struct tidings_str params,
                 struct tidings_error *err);

#endif
