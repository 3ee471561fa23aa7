/* SPDX-License-Identifier: MIT
 *
 * Calls tools of the server from the command line, and prints their results.
 */
#ifndef BIN_TOOL_H
#define BIN_TOOL_H

#include <stdio.h>

#include "bin/remote/remote.h"

/* The JSON object of "name=value" words. A value is JSON where `schema` (of the tool's input; may
 * be empty) says that the argument is no string and it reads as such, else a string; "name:=value"
 * is JSON whatever the schema says. tidings_free it. NULL with `err`. */
char *tool_arguments(const char *const *words, size_t count, struct tidings_str schema,
                     struct tidings_error *err);

/* Call it, with how far it is on a terminal: the result, tidings_free it. NULL with `err`. */
char *tool_call(const struct cli *cli, struct tidings_client *client, const char *tool,
                const char *arguments, struct tidings_error *err);

/* Print a `content` array: texts as they are (made harmless on a terminal), a line about the
 * rest. */
void put_contents(FILE *out, struct tidings_str result, const char *pointer);

/* Call a tool of ours: 0 with the structured answer (tidings_free it), or a negative code with
 * `err`; a reason that is known becomes such a code, another failure of the tool is told and is 1.
 * A server without the tool is TIDINGS_E_UNSUPPORTED. */
int tool_ask(const struct cli *cli, struct tidings_client *client, const char *tool,
             const char *arguments, char **ret, struct tidings_error *err);

#endif
