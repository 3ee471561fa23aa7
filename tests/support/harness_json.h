/* SPDX-License-Identifier: MIT
 *
 * Access to JSON by path, for tests.
 */
#ifndef SUPPORT_HARNESS_JSON_H
#define SUPPORT_HARNESS_JSON_H

#include <tidings/types.h>

/* The member at a path of keys and indices separated by '|', as text (strings without quotes); NULL
 * when there is none. Valid until some calls later. */
const char *json_at(const char *text, const char *path);
void assert_json(const char *text, const char *path, const char *expected);
/* A result without members but, optionally, the client's position in `_meta`. */
void assert_empty_result(const char *text);
void assert_no_json(const char *text, const char *path);
/* The sequence number in dev.tidings/cursor. */
uint64_t cursor_of(const char *text);
/* printf into one of a few buffers. */
const char *text_of(const char *fmt, ...) TIDINGS_PRINTF(1, 2);

#endif
