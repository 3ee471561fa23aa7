/* SPDX-License-Identifier: MIT
 *
 * A URI from an argument of the command line, which may be one or the path of a file.
 */
#ifndef BIN_PATH_URI_H
#define BIN_PATH_URI_H

#include <tidings/types.h>

/* A URI as it is; a path as file:///absolute/path, with a slash at the end for an existing
 * directory. Free the text. NULL with `err` on failure. */
char *uri_of_argument(const char *argument, struct tidings_error *err);

/* Is it a path with wildcards (`*`, `?`, `[…]`) that is not the name of something that exists? */
bool argument_is_glob(const char *argument);
/* A pattern: a URI as it is, and so is `**` alone, everything there is; a path as
 * file:///absolute/path with `wildcards` left as they are. */
char *uri_of_pattern(const char *argument, const char *wildcards, struct tidings_error *err);

#endif
