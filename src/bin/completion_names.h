/* SPDX-License-Identifier: MIT
 *
 * `tidings completions --names`: what a server has that could stand at the end of a line which
 * somebody is typing: URIs of resources, names of tools or prompts.
 *
 * Nobody gave a command yet. So nothing is launched, nobody is asked, no server of a project is
 * reached that was never agreed to (trust.h), no address that stands in the line is shown
 * TIDINGS_TOKEN (a server that has a name is, and one of TIDINGS_SERVER), nothing is said, and it
 * ends with status 0 after 200 ms at most, with the names that have come by then. They are a
 * stranger's, and what a shell makes of a line it runs: those of plain characters alone are printed
 * (names_cache.h).
 */
#ifndef BIN_COMPLETION_NAMES_H
#define BIN_COMPLETION_NAMES_H

#include "bin/cli/command.h"

/* Are arguments of that command names that a server gives? */
bool completion_asks(const struct command *command);

/* Print those that fit the line: a command, what was typed behind it as it was typed, and what the
 * name begins with, which may be empty. The exit status, 0. */
int completion_names(const char **line, size_t count);

#endif
