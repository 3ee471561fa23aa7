/* SPDX-License-Identifier: MIT
 *
 * Parses the arguments of a command by its tables of options.
 */
#ifndef BIN_OPTIONS_H
#define BIN_OPTIONS_H

#include "bin/cli/command.h"

/* Fill the command's struct (which begins with `cli`) from its arguments: 0, or the exit status of
 * a misuse, which it has told. With `help` set nothing else is filled in. options_release in any
 * case. */
int options_parse(struct cli *cli, const struct command *command, int argc, char **argv);
/* Are there as many arguments as it takes, without the server? The same. `server` says which it is
 * for messages; NULL: there is none. */
int options_check(const struct cli *cli, const char *server);
void options_release(struct cli *cli);

/* Is that option among the arguments, before a "--"? For what must be known before they are parsed.
 */
bool options_have(int argc, char **argv, const char *flag);
/* Take it out: was it there? */
bool options_take(int *argc, char **argv, const char *flag);

#endif
