/* SPDX-License-Identifier: MIT
 *
 * Which bytes of some content a range means. Pure: no memory, no I/O.
 *
 * Bytes and lines count from 0 and a range is half open: [from, to). A line ends behind its line
 * feed; what follows the last line feed is a line too, unless it is empty. A range may end behind
 * the end of the content (there it stops) and may begin exactly there (it is empty); one that
 * begins further back is TIDINGS_E_INVALID, with a sentence that says how much there is.
 *
 * Text is never cut inside a character: both ends move back to the beginning of the character they
 * fall into, so that ranges which meet before still meet afterwards.
 */
#ifndef BASE_BYTE_RANGE_H
#define BASE_BYTE_RANGE_H

#include <tidings/types.h>

/* How many bytes before and behind a range must be at hand to find the borders of characters. */
#define BYTE_RANGE_MARGIN 3

/* Is it something that can be asked for at all: nothing negative, not backwards? */
int byte_range_check(const struct tidings_range *range, struct tidings_error *err);
/* The bytes that a range of bytes means in content of `total` bytes. */
int byte_range_clip(const struct tidings_range *range, int64_t total, int64_t *ret_from,
                    int64_t *ret_to, struct tidings_error *err);
/* The bytes that a range of either unit means in content which is all at hand. */
int byte_range_find(const struct tidings_range *range, struct tidings_str whole, size_t *ret_from,
                    size_t *ret_to, struct tidings_error *err);

/* The beginning of the character that position `at` falls into; `at` itself when that is no UTF-8
 * there, or the end. */
size_t byte_range_border(struct tidings_str text, size_t at);
/* Move both ends to borders of characters. False, and nothing moves, when what is between them is
 * no text. */
bool byte_range_fit_text(struct tidings_str bytes, size_t *from, size_t *to);

/* For content that comes in pieces. The position behind *lines lines from the beginning of the
 * piece, or its length when it ends first; *lines becomes how many are still to be passed. */
size_t byte_range_skip_lines(struct tidings_str piece, int64_t *lines);
/* From the end of the piece backwards: the position behind the *lines-th line feed, or 0 when there
 * are not as many; *lines becomes how many are still to be found. */
size_t byte_range_back_lines(struct tidings_str piece, int64_t *lines);

#endif
