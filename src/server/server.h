/* SPDX-License-Identifier: MIT
 *
 * The health of a server: unhealthy, with reasons, while it starts, while it ends, and while its
 * store or database fails.
 */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include <stdbool.h>
#include <stddef.h>

struct tidings_server;

#define HEALTH_REASONS 4u
/* The reasons, static strings; 0: healthy. Thread-safe. */
size_t server_health_reasons(const struct tidings_server *s, const char *ret[HEALTH_REASONS]);
/* The answer to /livez or /readyz: 200 and "ok", or 503 and a line for each reason, with only its
 * first word unless `is_detailed`. A process that answers is live. Thread-safe. */
#define HEALTH_TEXT 512u
int server_health_text(const struct tidings_server *s, bool is_live, bool is_detailed,
                       char out[HEALTH_TEXT]);

#endif
