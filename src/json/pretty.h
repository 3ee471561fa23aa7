/* SPDX-License-Identifier: MIT
 *
 * JSON for people: the same value over several lines, two blanks for each level.
 */
#ifndef JSON_PRETTY_H
#define JSON_PRETTY_H

#include "base/str.h"

/* Append `text`, which is one valid JSON value without blanks between its parts, as json/write.h
 * makes it. Empty objects and arrays stay "{}" and "[]". The failure of the buffer, or 0. */
int json_pretty(struct buf *out, struct tidings_str text);

#endif
