/* SPDX-License-Identifier: MIT
 *
 * Failures that a server reports, as TIDINGS_E_* codes: from JSON-RPC errors and HTTP statuses.
 */
#ifndef CLIENT_ERRORS_H
#define CLIENT_ERRORS_H

#include "json/json.h"

#include <tidings/types.h>

/* Of an error object; `status` as in struct response. */
int errors_from_response(struct json *error, long status, struct tidings_error *err);
/* The code that `data.reason` of an error names; 0: none. */
int errors_from_reason(struct json *data);
/* … and of a status without one; `url`: what was asked, or NULL; `challenge`: WWW-Authenticate, or
 * empty. */
int errors_from_status(const char *url, long status, struct tidings_str challenge,
                       struct tidings_error *err);

/* Append what the server says besides: the first line of a text, or the sentence in a JSON object.
 * A page of HTML, or anything else that is no text, adds nothing. */
void errors_add_body(struct tidings_str body, struct tidings_error *err);

/* A method that the server does not know, where its capabilities (JSON text) say that it has
 * nothing of the kind, is told so: "the server offers no prompts". */
void errors_name_missing(const char *method, const char *capabilities, struct tidings_error *err);
/* Is that what a port for TLS says to whoever speaks none? */
bool errors_want_tls(struct tidings_str text);

#endif
