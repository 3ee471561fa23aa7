/* SPDX-License-Identifier: MIT
 *
 * Calls of tools as the operator sees them: metrics, and tidings://self/tools.
 */
#ifndef SERVER_SERVER_TOOL_FIGURES_H
#define SERVER_SERVER_TOOL_FIGURES_H

#include "handler/tool_counts.h"

struct metrics_text;
struct tidings_read;
struct tidings_server;

void server_tool_figures_put(struct metrics_text *m, const struct tool_counts *tools);
/* tidings://self/tools, finished later. */
void server_tool_figures_read(struct tidings_server *server, struct tidings_read *read);

#endif
