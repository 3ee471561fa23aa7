/* SPDX-License-Identifier: MIT
 *
 * How a command ends: what failed is said on standard error, always in the same form, and gives the
 * exit status.
 */
#ifndef BIN_EXIT_STATUS_H
#define BIN_EXIT_STATUS_H

#include <tidings/types.h>

/* Of `tidings probe`: nothing failed, and nothing was proved. */
#define EXIT_INCONCLUSIVE 2

/* Say what failed and what to do next on standard error, with --json as an object; returns the exit
 * status. `command` (none was found) and `hint` may be NULL. */
int command_fail(const char *command, const struct tidings_error *err, const char *hint);
/* The same for misuse of the command line (exit 64). `argument` may be NULL. */
int command_misuse(const char *command, const char *problem, const char *argument);
/* Failures are objects from now on. */
void command_fails_in_json(bool is_wanted);

/* Standard output to its end: 0, or the exit status of the failure, which is told unless nobody
 * reads any more. */
int command_finish(const char *command);

#endif
