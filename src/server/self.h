/* SPDX-License-Identifier: MIT
 *
 * The server's own state as resources below tidings://self/.
 *
 *     status          the server at a glance; live, and announced once a second while somebody
 *                     watches
 *     stats           what each worker counts; likewise
 *     peers           who is there; likewise
 *     subscriptions   what each client is subscribed to; likewise
 *     failures        requests that failed, by method and code; likewise
 *     limits          which limits were ever reached, and how often; likewise
 *     tokens          how many bearer tokens were verified, and why others were not; likewise
 *     nodes           those that share the store; none of a server by itself; likewise
 *     metrics         the same as text for Prometheus; this and what follows is not announced
 *     history         the last 15 minutes of a server with the console
 *     mounts          which provider serves which prefix
 *     sandbox         what the process has given up
 *     semantics       what subscriptions cover
 *     subscriptions/mine   what whoever reads it is subscribed to
 *
 * What is live is gathered from all workers when it is read. Peers and subscriptions come in
 * pages: `?after=` with the `row` of the last one gives the next, which is empty behind the end.
 * The last two can be read without --self too, and are listed only with the others. `semantics`
 * changes with what is registered.
 */
#ifndef SERVER_SELF_H
#define SERVER_SELF_H

#include <tidings/provider.h>
#include <tidings/types.h>

#include "engine/delivery/delivery.h"

struct auth;
struct worker;
struct sandbox;
struct cluster;
struct tidings_server;

extern const struct tidings_provider_ops provider_status_ops;    /* all of them, listed */
extern const struct tidings_provider_ops provider_semantics_ops; /* the last two, not listed */

#define STATUS_PREFIX "tidings://self/"

/* Which cores to ask; after workers exist and before clients can connect. */
void status_set_cores(struct tidings_provider *provider, struct worker *const *cores, size_t count);
/* What verifies tokens; NULL: nothing does (any more). */
void status_set_auth(struct tidings_provider *provider, const struct auth *auth);
/* Whose state it is; before clients can connect. */
void status_set_server(struct tidings_provider *provider, struct tidings_server *server);
/* Those that share the store; before clients can connect. NULL: none do. */
void status_set_cluster(struct tidings_provider *provider, struct cluster *cluster);
/* What to say of it; before clients can connect. */
void status_set_sandbox(struct tidings_provider *provider, const struct sandbox *sandbox);

/* -------------------------------------------------------------------------------------------------
 * One worker's rows of tidings://self/stats, /peers and /subscriptions, a page at a time.
 *
 * Rows ascend by the number of their peer and, within a peer, by index. A page begins
 * after a row: "PEER" or "PEER.INDEX", as the member `row` of each says it. A page ends
 * where it is full; what comes and goes between two pages may be missed or told twice.
 */

#define STATUS_PAGE_ROWS 1000u
#define STATUS_PAGE_BYTES (1u << 20)

enum status_rows {
    STATUS_ROWS_STATS,
    STATUS_ROWS_PEERS,
    STATUS_ROWS_SUBSCRIPTIONS,
    STATUS_ROWS_FAILURES,
};

struct status_after {
    uint64_t peer, index; /* 0, 0: the beginning */
};

/* false: not a row. */
bool status_after_parse(struct tidings_str text, struct status_after *ret);

/* The members that say whose a subscription is: `principal`, `by`, `address`, `client`. */
struct jw;
struct subscriber;
struct subscription;

/* -------------------------------------------------------------------------------------------------
 * Which capabilities a server that was started as root needs while it runs, by its configuration.
 */

struct config;

/* The server needs these from before it opens its listeners. */
uint64_t rights_of_server(const struct config *c, bool serves_http);
/* Its helper opens files of the configuration and of the log, and runs commands. */
uint64_t rights_of_helper(const struct config *c);

#endif
