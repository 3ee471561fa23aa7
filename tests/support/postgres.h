/* SPDX-License-Identifier: MIT
 *
 * A private PostgreSQL for the test: Debian's programs, in a directory below /tmp, as an
 * unprivileged user, on a Unix socket there and on 127.0.0.1 with a free port. It stops with the
 * test, and never touches the system's server.
 *
 * Users: `tidings` (all rights, without a password), `guarded` (password `secret`, only over TCP),
 * `reader` (can read, but cannot create tables).
 */
#ifndef SUPPORT_POSTGRES_H
#define SUPPORT_POSTGRES_H

#include <stdbool.h>

#define POSTGRES_URL 256

struct postgres_server;

/* NULL, with a message on stderr: it is not installed, skip (77). Any other failure ends the
 * program. */
struct postgres_server *postgres_server_start(void);
void postgres_server_stop(struct postgres_server *p); /* NULL is fine */

/* For a schema with that name, created if missing; over the socket. */
const char *postgres_server_url(struct postgres_server *p, const char *schema,
                                char out[POSTGRES_URL]);
/* The same of a new schema, each time another. */
const char *postgres_server_fresh(struct postgres_server *p, char out[POSTGRES_URL]);
/* The schema of such a URL; good until the next call. */
const char *postgres_url_schema(const char *url);
int postgres_server_port(const struct postgres_server *p);
const char *postgres_server_directory(const struct postgres_server *p); /* of the socket */
/* Statements without results, as the one who may everything; must succeed. */
void postgres_server_exec(struct postgres_server *p, const char *schema, const char *sql);
/* The first column of the first row, as a number; 0: none. */
long long postgres_server_number(struct postgres_server *p, const char *schema, const char *sql);

/* For main() of a test: `run` gets a server that does not sync to disk (writes survive a killed
 * process, but not a crashed machine). Returns the result of `run`, or 77. */
int postgres_server_run(int (*run)(struct postgres_server *p));

/* Shut down as it should be, and no more; killed (-9). */
void postgres_server_down(struct postgres_server *p);
void postgres_server_kill(struct postgres_server *p);
/* Start it again. */
void postgres_server_up(struct postgres_server *p);

#endif
