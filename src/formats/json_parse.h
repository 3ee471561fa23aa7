/* SPDX-License-Identifier: MIT
 *
 * JSON as people write it into files: comments and trailing commas are turned into blanks, so that
 * lines and columns stay where they were; and a string may stand for an array of one.
 */
#ifndef FORMATS_JSON_PARSE_H
#define FORMATS_JSON_PARSE_H

#include <stddef.h>

#include "formats/json.h"

/* Comments, // to the end of the line and in the form of C. The line of an unclosed one, or 0. */
unsigned json_blank_comments(char *text, size_t len);
/* Commas with nothing but blanks between them and the end of an object or array. */
void json_blank_commas(char *text, size_t len);

/* Is it an array, or a string that stands for an array of it? */
bool json_is_list(const struct json *v);
size_t json_list_count(const struct json *v);
const struct json *json_list_at(const struct json *v, size_t index);

#endif
