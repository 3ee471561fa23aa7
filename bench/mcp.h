/* SPDX-License-Identifier: MIT
 *
 * Requests of both eras over HTTP and WebSocket, as bytes, and just enough HTTP to find the end of
 * an answer. They contain everything a server must check (headers, `_meta`); nothing is parsed as
 * JSON: a benchmark compares the output with the expected output as strings.
 */
#ifndef BENCH_MCP_H
#define BENCH_MCP_H

#include <stddef.h>

/* A blocking connection to 127.0.0.1:port, without delay. */
int mcp_connect(unsigned port);

/* Writes a POST of `method` to `bytes` and returns its length. `name` is the value of Mcp-Name or
 * NULL; `params` is what follows `_meta` inside params ("" or ",\"uri\":\"...\""). */
size_t mcp_request(char *bytes, size_t max, const char *method, const char *name,
                   const char *params);

/* The same over WebSocket: the upgrade and the message in one. */
size_t mcp_websocket_request(char *bytes, size_t max, const char *method, const char *params);

enum { MCP_SESSION_MAX = 128 };
/* The same of the 2025-11-25 revision; `session` is NULL for the first one. `params` is all of
 * them. */
size_t mcp_legacy_request(char *bytes, size_t max, const char *session, const char *method,
                          const char *params);
/* Begins a session of that revision. */
void mcp_session(int fd, char session[MCP_SESSION_MAX]);

/* The length of the whole answer (head and body) when its head is among the n bytes, else 0. Dies
 * unless it is a 200 with a Content-Length. */
size_t mcp_answer_length(const char *bytes, size_t n);

/* Sends and waits for the whole answer, which is NUL-terminated; returns its length. */
size_t mcp_call(int fd, const char *request, size_t n, char *answer, size_t max);

/* Reads until `needle` has come, at most BENCH_WAIT_MS. `bytes` holds `*have` bytes already and is
 * NUL-terminated afterwards. For streams; the caller removes what it has seen. */
void mcp_wait_for(int fd, const char *needle, char *bytes, size_t *have, size_t max);

#endif
