/* SPDX-License-Identifier: MIT
 *
 * From JSON text to jansson values, as jv_parse (json/json.h) promises it. Private to this folder.
 *
 * RFC 8259 to the letter, and narrower where it leaves room: UTF-8 without a byte order mark,
 * objects whose keys are all different and hold no U+0000, integers (a number without fraction and
 * exponent) of 64 bits, other numbers within the range of a double, every \u escape a character or
 * half of a pair that is complete. Members keep their order.
 */
#ifndef JSON_PARSE_H
#define JSON_PARSE_H

#include <jansson.h>

#include <tidings/types.h>

/* No text is read that nests deeper, whatever the caller allows: jansson frees with recursion. */
#define PARSE_MAX_DEPTH 512u

/* The value of `text`, with one reference. TIDINGS_E_PARSE and TIDINGS_E_LIMIT say where, in
 * characters ("line 1 column 8: …"), and never echo the text; TIDINGS_E_NOMEM. */
int parse_text(struct tidings_str text, unsigned max_depth, json_t **ret_root,
               struct tidings_error *err);

#endif
