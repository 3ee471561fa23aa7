/* SPDX-License-Identifier: MIT
 *
 * Names of files from URIs. What a server calls its resources is a stranger's text: a name never
 * leads out of the directory it is meant for.
 */
#ifndef BIN_LOCAL_NAME_H
#define BIN_LOCAL_NAME_H

#include <tidings/types.h>

#define LOCAL_NAME_MAX 4096u /* with its NUL */
#define LOCAL_SEGMENT_MAX 255u
#define LOCAL_DEPTH_MAX 64u
/* Names at the top that begin so are not given away: they are those of the mirror itself. */
#define LOCAL_RESERVED ".tidings-"

/* The path below a directory that stands for `base`, which ends with a slash: what is behind it in
 * `uri`, percent-decoded, without a slash at either end. NULL, or why there is none: it is not
 * below `base`, has a query or a fragment, an empty segment, "." or "..", a slash or NUL that was
 * encoded, a percent sign that encodes nothing, a reserved name, or is too long or deep. */
const char *local_name(struct tidings_str base, struct tidings_str uri, char out[LOCAL_NAME_MAX]);

#endif
