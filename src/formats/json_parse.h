/* SPDX-License-Identifier: MIT
 *
 * JSON in hand-written files: comments and trailing commas are replaced by blanks, which preserves
 * lines and columns, and a string may replace an array of one string.
 */
#ifndef FORMATS_JSON_PARSE_H
#define FORMATS_JSON_PARSE_H

#include <stddef.h>

#include "formats/json.h"

/* Comments: // to the end of the line, and C block comments. Returns the line of an unclosed one,
 * or 0. */
unsigned json_blank_comments(char *text, size_t len);
/* Commas that only blanks separate from the end of an object or array. */
void json_blank_commas(char *text, size_t len);

/* Returns true for an array, or for a string as an array of one. */
bool json_is_list(const struct json *v);
size_t json_list_count(const struct json *v);
const struct json *json_list_at(const struct json *v, size_t index);

#endif
