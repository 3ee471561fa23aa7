/* SPDX-License-Identifier: MIT
 *
 * The literal text that every text holds in which a regex is found. An index looks for that first
 * and runs the regex only where it is.
 */
#ifndef URI_PATTERN_LITERALS_H
#define URI_PATTERN_LITERALS_H

#include <tidings/types.h>

#define REGEX_MAX_BYTES 1024u /* of the source of a regex for URIs */

/* Writes runs of bytes, each ended by a NUL; every text in which `source` is found holds every one
 * of them. Returns the bytes written: 0 when nothing is certain, which is also the answer to any
 * construct this does not know. `source` must compile. */
size_t regex_literals(struct tidings_str source, char out[2 * REGEX_MAX_BYTES]);
/* Writes the literal that every text begins with in which `source` is found, without a NUL. Returns
 * its length: 0 if `source` is not anchored at the start, or the beginning is not certain. */
size_t regex_prefix(struct tidings_str source, char out[2 * REGEX_MAX_BYTES]);

#endif
