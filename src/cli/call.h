/* SPDX-License-Identifier: MIT
 *
 * Calls tools of the server from the command line, and prints their results.
 */
#ifndef CLI_CALL_H
#define CLI_CALL_H

#include <stdbool.h>
#include <stdio.h>

#include <tidings/types.h>

#include "cli/remote.h"

/* Call a tool of a tidings server: 0 with the structured answer (tidings_free it), or a negative
 * code with `err`. A known error reason becomes such a code; for any other failure of the tool the
 * function prints it and returns 1. A server without the tool: TIDINGS_E_UNSUPPORTED. */
int tool_ask(const struct cli *cli, struct tidings_client *client, const char *tool,
             const char *arguments, char **ret, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * Descriptions of tools in the formats of other systems, for `tidings tools --format`.
 */

enum tool_format {
    TOOL_FORMAT_MCP = 0, /* as the server sends them */
    TOOL_FORMAT_OPENAI,
    TOOL_FORMAT_OLLAMA,
    TOOL_FORMAT_MS_AGENT,
};
extern const char *const tool_format_names[]; /* NULL at the end */

/* Print one element of the array to standard output. `tool` is the object from the server. Warns on
 * standard error if the other system rejects the name of the tool. */
void put_tool(enum tool_format format, struct tidings_str tool);

#endif
