/* SPDX-License-Identifier: MIT
 *
 * Finds files of the user's own that the program keeps or looks for: below a directory that a
 * variable of the XDG base directories names, or below the home.
 */
#ifndef BIN_USER_FILE_H
#define BIN_USER_FILE_H

#include <limits.h>

#include <tidings/types.h>

/* "$XDG_STATE_HOME/tidings/NAME", or "$HOME/.local/state/tidings/NAME" for `below_home`
 * "/.local/state". TIDINGS_E_NOTFOUND: neither variable is an absolute path. */
int user_file_path(char path[PATH_MAX], const char *variable, const char *below_home,
                   const char *name, struct tidings_error *err);
/* Make the directories it is in, for the person alone. */
int user_file_make_directories(char path[PATH_MAX], struct tidings_error *err);

#endif
