/* SPDX-License-Identifier: MIT
 *
 * The subcommands of the program. Each takes the arguments behind its name and returns the exit
 * status. The program stands on <tidings/…> and libc alone.
 */
#ifndef BIN_COMMAND_H
#define BIN_COMMAND_H

#include <tidings/types.h>

int command_serve(int argc, char **argv);
int command_watch(int argc, char **argv);
int command_config(int argc, char **argv);
int command_token(int argc, char **argv);
int command_version(int argc, char **argv);

void serve_usage(void); /* to standard output */
void watch_usage(void);
void config_usage(void);
void token_usage(void);

/* Say what failed and what to do next on standard error; returns the exit status. `hint` may be
 * NULL. */
int command_fail(const char *command, const struct tidings_error *err, const char *hint);
/* The same for misuse of the command line (exit 64). */
int command_misuse(const char *command, const char *problem, const char *argument);

/* Is --help or -h among the arguments (before a "--")? */
bool command_wants_help(int argc, char **argv);

/* The candidate (NULL-terminated list) at most two edits away from `word`, the nearest; or NULL. */
const char *suggest(const char *word, const char *const *candidates);

/* A URI as it is; a path as file:///absolute/path, with a slash at the end for an existing
 * directory. Free the text. NULL with `err` on failure. */
char *uri_of_argument(const char *argument, struct tidings_error *err);

#endif
