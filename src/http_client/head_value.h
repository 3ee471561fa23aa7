/* SPDX-License-Identifier: MIT
 *
 * Values of header fields of an answer, kept in texts of a fixed size.
 */
#ifndef HTTP_CLIENT_HEAD_VALUE_H
#define HTTP_CLIENT_HEAD_VALUE_H

#include "base/str.h"

/* Copy a value when it fits and is visible ASCII; else leave `out` empty. */
void head_value_take(struct tidings_str value, char *out, size_t size);
/* A media type, in lower case and without its parameters. */
void head_value_take_type(struct tidings_str value, char *out, size_t size);
/* Fields of one name are one list (RFC 9110 §5.3). What does not fit is left out. */
void head_value_add(struct tidings_str value, char *out, size_t size);

#endif
