/* SPDX-License-Identifier: MIT
 *
 * A URI from an argument of the command line, which may be one or the path of a file.
 */
#ifndef CLI_PATHS_H
#define CLI_PATHS_H

#include <limits.h>

#include <tidings/types.h>

/* A URI as it is; a path as file:///absolute/path, with a slash at the end for an existing
 * directory. Free the text. NULL with `err` on failure. */
char *uri_of_argument(const char *argument, struct tidings_error *err);

/* Is it a path with wildcards (`*`, `?`, `[…]`) that is not the name of something that exists? */
bool argument_is_glob(const char *argument);
/* A pattern: a URI as it is, and so is `**` alone, everything there is; a path as
 * file:///absolute/path with `wildcards` left as they are. */
char *uri_of_pattern(const char *argument, const char *wildcards, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * Finds files of the user's own that the program keeps or looks for: below a directory that a
 * variable of the XDG base directories names, or below the home.
 */

/* "$XDG_STATE_HOME/tidings/NAME", or "$HOME/.local/state/tidings/NAME" for `below_home`
 * "/.local/state". TIDINGS_E_NOTFOUND: neither variable is an absolute path. */
int user_file_path(char path[PATH_MAX], const char *variable, const char *below_home,
                   const char *name, struct tidings_error *err);
/* Make the directories it is in, for the person alone. */
int user_file_make_directories(char path[PATH_MAX], struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * Keeps the memory of this process from other programs and from core files, and passwords from the
 * list of processes.
 */

/* Called as soon as it has a secret (keys, tokens): no core dumps, and other programs of the same
 * user can neither trace it nor read its memory. Of the programs it starts nothing is asked. */
void process_has_secrets(void);

/* Called first of all: arguments that hold a password (URL://user:password@…, password=…) are moved
 * to where the list of processes does not show them, and starred out there. */
void process_hide_passwords(int argc, char **argv);

#endif
