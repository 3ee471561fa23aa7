/* SPDX-License-Identifier: MIT
 *
 * A URI from an argument of the command line, which may be a URI or a file path.
 */
#ifndef CLI_PATHS_H
#define CLI_PATHS_H

#include <limits.h>

#include <tidings/types.h>

/* Returns a URI unchanged; a path as file:///absolute/path, with a final slash for an existing
 * directory. Free the string. NULL with `err` on failure. */
char *uri_of_argument(const char *argument, struct tidings_error *err);

/* Returns true if the argument is a path with wildcards (`*`, `?`, `[…]`) that does not name an
 * existing file. */
bool argument_is_glob(const char *argument);
/* A pattern: a URI unchanged, and also a bare `**`, which matches everything; a path as
 * file:///absolute/path with `wildcards` unescaped. */
char *uri_of_pattern(const char *argument, const char *wildcards, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * Finds the user's own files that the program reads or writes: below a directory from a variable of
 * the XDG base directories, or below the home directory.
 */

/* "$XDG_STATE_HOME/tidings/NAME", or "$HOME/.local/state/tidings/NAME" for `below_home`
 * "/.local/state". TIDINGS_E_NOTFOUND: neither variable is an absolute path. */
int user_file_path(char path[PATH_MAX], const char *variable, const char *below_home,
                   const char *name, struct tidings_error *err);
/* Make its parent directories, accessible only to the user. */
int user_file_make_directories(char path[PATH_MAX], struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * Protects the memory of this process from other programs and core dumps, and hides passwords from
 * the process list.
 */

/* Call it as soon as the process has a secret (keys, tokens). It disables core dumps, and prevents
 * other programs of the same user from tracing the process or reading its memory. Child processes
 * are not affected. */
void process_has_secrets(void);

/* Call it first: arguments that contain a password (URL://user:password@…, password=…) are copied
 * to memory that the process list does not show, and masked with asterisks in place. */
void process_hide_passwords(int argc, char **argv);

#endif
