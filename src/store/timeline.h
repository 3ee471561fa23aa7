/* SPDX-License-Identifier: MIT
 *
 * Valid time: instants in milliseconds, and the versions of one thing that tile it.
 *
 * Version i is valid in [start i, start i+1), the last one until TIMELINE_FOREVER. Starts rise
 * strictly, so each instant from the first start on belongs to exactly one version. Pure functions.
 */
#ifndef STORE_TIMELINE_H
#define STORE_TIMELINE_H

#include <tidings/types.h>

#define TIMELINE_FOREVER INT64_C(253370764800000) /* 9999-01-01T00:00:00.000Z */
#define TIMELINE_NEVER INT64_MIN                  /* before everything: "there is none" */
#define TIMELINE_TEXT 25                          /* bytes of an instant as text, with its NUL */

/* RFC 3339, any offset, at most milliseconds (further digits must be zero), years 0000 to 9998:
 * "2024-01-01T10:00:00Z" is the same instant as "2024-01-01T10:00:00.000Z". TIDINGS_E_INVALID with
 * a sentence that shows the form. */
int timeline_parse(struct tidings_str text, int64_t *ret_ms, struct tidings_error *err);
/* The one spelling we write: UTC, three decimals, Z. */
struct tidings_str timeline_text(int64_t ms, char out[TIMELINE_TEXT]);

/* When a new version begins: at `wanted`, or one millisecond after the newest if that is not later
 * (LU-17). `newest` may be TIMELINE_NEVER. TIDINGS_E_LIMIT at the end of time. */
int timeline_next(int64_t newest, int64_t wanted, int64_t *ret_ms, struct tidings_error *err);

#endif
