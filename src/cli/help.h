/* SPDX-License-Identifier: MIT
 *
 * What `--help` and `tidings help` print about a command, for people and for programs.
 */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stdio.h>

#include "cli/command.h"

/* To standard output. NULL: the program's. */
void help_print(const struct command *command);
/* All names, on `out`. */
void help_usage(FILE *out);
/* The same for programs, as an object. */
void help_json(const struct command *command);
/* What an exit status means. False: it is none. */
#define EXIT_TEXT_MAX 256u
#define HELP_EXITS 160
#endif
