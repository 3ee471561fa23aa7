/* SPDX-License-Identifier: MIT
 *
 * Looking for a member of an object in a text that could not be parsed, so that what it was an
 * answer to can be told. What is found is a guess, good for an error message and for nothing else.
 */
#ifndef JSON_PEEK_H
#define JSON_PEEK_H

#include <tidings/types.h>

/* The value of the first member `key` of the object that `text` is, as it is written: a number or a
 * string, quotes included. Empty: there is none, or it is neither. Reads the text once, whatever is
 * wrong with it. */
struct tidings_str json_peek(struct tidings_str text, struct tidings_str key);

#endif
