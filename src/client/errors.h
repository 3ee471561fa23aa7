/* SPDX-License-Identifier: MIT
 *
 * What servers mean when something fails, as a code of ours.
 */
#ifndef CLIENT_ERRORS_H
#define CLIENT_ERRORS_H

#include "json/json.h"

#include <tidings/types.h>

/* Of an error object; `status` as in struct response. */
int errors_from_response(struct json *error, long status, struct tidings_error *err);
/* … and of a status without one; `challenge`: WWW-Authenticate, or empty. */
int errors_from_status(long status, struct tidings_str challenge, struct tidings_error *err);

#endif
