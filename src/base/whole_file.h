/* SPDX-License-Identifier: MIT
 *
 * A small file read whole.
 */
#ifndef BASE_WHOLE_FILE_H
#define BASE_WHOLE_FILE_H

#include "base/str.h"

/* Append what is in `path`, which must be a regular file, also through links, of at most `max`
 * bytes. Errors begin with the path in quotes; what was appended before one is not taken back. */
int whole_file_read(const char *path, size_t max, struct buf *out, struct tidings_error *err);

#endif
