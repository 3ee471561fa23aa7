/* SPDX-License-Identifier: MIT
 *
 * Sizes and durations as people write them: "16m", "250ms". What is written here is read back to
 * the same value.
 */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include "base/str.h"

/* Digits and a unit: nothing, k, m, g (1024 each) for bytes; ms, s, m, h for milliseconds, where
 * nothing means seconds. False: not of that form, or too large for 64 bits. */
bool units_parse_size(struct tidings_str s, uint64_t *ret_bytes);
bool units_parse_duration(struct tidings_str s, uint64_t *ret_ms);

int units_put_size(struct buf *out, uint64_t bytes);
int units_put_duration(struct buf *out, uint64_t ms);

#endif
