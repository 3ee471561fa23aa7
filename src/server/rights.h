/* SPDX-License-Identifier: MIT
 *
 * Which capabilities a server that was started as root needs while it runs, by its configuration.
 */
#ifndef SERVER_RIGHTS_H
#define SERVER_RIGHTS_H

#include <tidings/types.h>

struct config;

/* The server needs these from before it opens its listeners. */
uint64_t rights_of_server(const struct config *c, bool serves_http);
/* Its helper opens files of the configuration and of the log, and runs commands. */
uint64_t rights_of_helper(const struct config *c);

#endif
