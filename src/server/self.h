/* SPDX-License-Identifier: MIT
 *
 * The server's own state as resources below tidings://self/.
 *
 *     status          an overview of the server; live, and announced once a second while subscribed
 *     stats           counters of each worker; likewise
 *     peers           connected clients; likewise
 *     subscriptions   the subscriptions of each client; likewise
 *     failures        failed requests by method and code; likewise
 *     limits          how often each limit was reached; likewise
 *     tokens          accepted and rejected bearer tokens, with reasons; likewise
 *     nodes           nodes that share the store; none on a single server; likewise
 *     metrics         the same as text for Prometheus; this and the following are not announced
 *     history         the last 15 minutes of a server with the console
 *     mounts          the provider of each prefix
 *     sandbox         permissions that the process has dropped
 *     semantics       how subscriptions match
 *     subscriptions/mine   the reader's subscriptions
 *
 * Live state is gathered from all workers on each read. Peers and subscriptions are paged:
 * `?after=` with the `row` of the last row returns the next page, which is empty after the end. The
 * last two resources can be read without --self too, but are listed only with it. `semantics`
 * changes with the registered resources.
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

/* The workers to ask; after workers exist and before clients can connect. */
void status_set_cores(struct tidings_provider *provider, struct worker *const *cores, size_t count);
/* The token verifier; NULL: none, or no longer. */
void status_set_auth(struct tidings_provider *provider, const struct auth *auth);
/* The server to describe; before clients can connect. */
void status_set_server(struct tidings_provider *provider, struct tidings_server *server);
/* The nodes that share the store; before clients can connect. NULL: none. */
void status_set_cluster(struct tidings_provider *provider, struct cluster *cluster);
/* The sandbox to describe; before clients can connect. */
void status_set_sandbox(struct tidings_provider *provider, const struct sandbox *sandbox);

/* -------------------------------------------------------------------------------------------------
 * One worker's rows of tidings://self/stats, /peers and /subscriptions, a page at a time.
 *
 * Rows ascend by the number of their peer and, within a peer, by index. A page starts after a row:
 * "PEER" or "PEER.INDEX", as in the member `row` of each row. A page ends when it is full; rows
 * that appear or vanish between two pages may be missed or repeated.
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
    uint64_t peer, index; /* 0, 0: the start */
};

/* Returns false if the text is not a row. */
bool status_after_parse(struct tidings_str text, struct status_after *ret);

/* The members that identify the client of a subscription: `principal`, `by`, `address`,
 * `client`. */
struct jw;
struct subscriber;
struct subscription;

/* -------------------------------------------------------------------------------------------------
 * The capabilities that a server started as root needs while it runs, by its configuration.
 */

struct config;

/* The server needs these from before it opens its listeners. */
uint64_t rights_of_server(const struct config *c, bool serves_http);
/* Its helper opens files of the configuration and of the log, and runs commands. */
uint64_t rights_of_helper(const struct config *c);

#endif
