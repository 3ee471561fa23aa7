/* SPDX-License-Identifier: MIT
 *
 * JSON values as strings for the program, within the limits of its client.
 */
#ifndef CLIENT_JSON_API_H
#define CLIENT_JSON_API_H

#include "formats/json.h"

struct tidings_client;

/* NUL-terminated; NULL: too large, or out of memory. */
char *json_text_of(const struct tidings_client *c, const struct json *value, size_t *ret_len);

#endif
