/* SPDX-License-Identifier: MIT
 *
 * The rows of tools/list and prompts/list: what the descriptions of tools and prompts have in
 * common, from texts of the program that are checked first.
 */
#ifndef SERVER_FEATURE_ROW_H
#define SERVER_FEATURE_ROW_H

#include "json/write.h"

#define ROW_BYTES (4u << 20) /* of one row */
#define ROW_DEPTH 64u        /* nesting of the JSON texts in it */

/* Parse `text`, which must be of that type (an object or an array). */
int row_read_json(struct tidings_str text, const char *what, enum jv_type type, struct json **ret,
                  struct tidings_error *err);
/* The same, written as the member `key`; nothing when `text` is empty. */
int row_put_json(struct jw *w, const char *key, struct tidings_str text, enum jv_type type,
                 struct tidings_error *err);
/* A string member; nothing when `text` is empty. */
void row_put_text(struct jw *w, struct tidings_str key, struct tidings_str text);

#endif
