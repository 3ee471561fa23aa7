/* SPDX-License-Identifier: MIT
 *
 * Which literal text must be there whenever a regex is found? An index looks for that first and
 * runs the regex only where it is.
 */
#ifndef URI_PATTERN_LITERALS_H
#define URI_PATTERN_LITERALS_H

#include <tidings/types.h>

#define REGEX_MAX_BYTES 1024u /* of the source of a regex for URIs */

/* Writes runs of bytes, each ended by a NUL; every text in which `source` is found holds every one
 * of them. Returns the bytes written: 0 when nothing is certain, which is also the answer to any
 * construct this does not know. `source` must compile. */
size_t regex_literals(struct tidings_str source, char out[2 * REGEX_MAX_BYTES]);

#endif
