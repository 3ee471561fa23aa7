/* SPDX-License-Identifier: MIT
 *
 * Can the server do its work? It says no, and why, while it starts, while it ends, and while its
 * store or database fails.
 */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include <stdbool.h>
#include <stddef.h>

struct tidings_server;

#define HEALTH_REASONS 4u
/* The reasons why not, which live for ever; 0: it can. Any thread. */
size_t server_health_reasons(const struct tidings_server *s, const char *ret[HEALTH_REASONS]);
/* The answer to /livez or /readyz: 200 and "ok", or 503 and a line for each reason, of which only
 * the first word is said unless `is_detailed`. Who answers lives. Any thread. */
#define HEALTH_TEXT 512u
int server_health_text(const struct tidings_server *s, bool is_live, bool is_detailed,
                       char out[HEALTH_TEXT]);

#endif
