/* SPDX-License-Identifier: MIT
 *
 * The text that `--help` and `tidings help` print about a command, for people and for programs.
 */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stdio.h>

#include "cli/command.h"

/* Print to standard output. NULL: the program's help. */
void help_print(const struct command *command);
/* All names, on `out`. */
void help_usage(FILE *out);
/* The same for programs, as an object. */
void help_json(const struct command *command);
/* The meaning of an exit status. Returns false if the status is unknown. */
#define EXIT_TEXT_MAX 256u
#define HELP_EXITS 160
#endif
