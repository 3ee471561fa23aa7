/* SPDX-License-Identifier: MIT
 *
 * Descriptions of tools in the formats of other systems, for `tidings tools --format`.
 */
#ifndef BIN_TOOL_FORMAT_H
#define BIN_TOOL_FORMAT_H

#include <stdbool.h>

#include <tidings/types.h>

enum tool_format {
    TOOL_FORMAT_MCP = 0, /* as the server has them */
    TOOL_FORMAT_OPENAI,
    TOOL_FORMAT_OLLAMA,
    TOOL_FORMAT_MS_AGENT,
};
extern const char *const tool_format_names[]; /* NULL at the end */

/* One element of the array, to standard output. `tool` is the object of the server. Says on
 * standard error if that system does not take the name of the tool. */
void put_tool(enum tool_format format, struct tidings_str tool);

#endif
