/* SPDX-License-Identifier: MIT
 *
 * The listener of --metrics ADDR:PORT: /metrics, /livez and /readyz over plain HTTP and nothing
 * else, on the server's own thread. It stays open while the server drains. Each connection has one
 * request, and --header-timeout for all of it; beyond METRICS_CONNECTIONS the next is closed at
 * once.
 */
#ifndef SERVER_SERVER_METRICS_LISTENER_H
#define SERVER_SERVER_METRICS_LISTENER_H

#include <tidings/types.h>

#define METRICS_CONNECTIONS 16u
#define METRICS_HEAD_MAX 8192u

struct tidings_server;
struct metrics_listener;

/* What the setting says; nothing when it is empty or "path". */
int server_metrics_listen(struct tidings_server *s, struct tidings_error *err);
/* After the workers have gone. */
void server_metrics_close(struct tidings_server *s);

#endif
