/* SPDX-License-Identifier: MIT
 *
 * A PostgreSQL of the test's own: Debian's programs, in a directory of its own below /tmp, as a
 * user without rights, on a Unix socket there and on 127.0.0.1 with a free port. It ends with the
 * test. Never the system's.
 *
 * Users: `tidings` (everything, without a password), `guarded` (password `secret`, over TCP alone),
 * `reader` (may read and not make tables).
 */
#ifndef SUPPORT_POSTGRES_H
#define SUPPORT_POSTGRES_H

#include <stdbool.h>

#define POSTGRES_URL 256

struct postgres_server;

/* NULL, with a sentence on stderr: it is not installed, skip (77). Anything else that goes wrong
 * ends the program. */
struct postgres_server *postgres_server_start(void);
void postgres_server_stop(struct postgres_server *p); /* NULL is fine */

/* Of a schema with that name, made when it is missing; over the socket. */
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

/* For main() of a test: `run` has one that does not wait for the disk (what was written outlives a
 * process that is killed, not a machine). What it returns, or 77. */
int postgres_server_run(int (*run)(struct postgres_server *p));

/* Shut down as it should be, and no more; killed (-9). */
void postgres_server_down(struct postgres_server *p);
void postgres_server_kill(struct postgres_server *p);
/* Start it again. */
void postgres_server_up(struct postgres_server *p);

#endif
