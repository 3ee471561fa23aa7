/* SPDX-License-Identifier: MIT
 *
 * What is given to a command: JSON as an argument, or the name of a file or standard input that
 * holds it.
 */
#ifndef BIN_GIVEN_H
#define BIN_GIVEN_H

#include <tidings/types.h>

/* JSON from the command line: the text itself, "-" for standard input, "@FILE" for a file. Compact,
 * tidings_free it. NULL with `err`. */
char *given_json(const char *argument, struct tidings_error *err);

/* All of a file, or of standard input for "-", up to `max` bytes; free it. NULL with `err`. */
char *given_bytes(const char *path, size_t max, size_t *ret_len, struct tidings_error *err);

#endif
