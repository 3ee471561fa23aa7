/* SPDX-License-Identifier: MIT
 *
 * A store in a PostgreSQL database that several nodes share (store/store.h).
 *
 * The tables (`tidings_…`) are in the first schema of the connection's search path. Opening a store
 * creates or upgrades them. A schema holds one cluster, which has a name; a node that is configured
 * with another name cannot open the store.
 */
#ifndef CLUSTER_POSTGRES_STORE_H
#define CLUSTER_POSTGRES_STORE_H

#include "store/store.h"

#define POSTGRES_CLUSTER_MAX 128u /* bytes of the name of a cluster */

/* Connects to the database. TIDINGS_E_BUSY: it is unreachable now. TIDINGS_E_UNSUPPORTED: libpq is
 * missing, or the tables are too new. TIDINGS_E_INVALID: not a URL of PostgreSQL, or the schema of
 * another cluster. Error messages never contain the password. */
int postgres_store_open(const char *url, struct tidings_str cluster, struct store **ret,
                        struct tidings_error *err);

/* Opens the target of a copy (store/copy.h), possibly of an interrupted one. */
int postgres_store_open_target(const char *url, struct tidings_str cluster, struct store **ret,
                               struct tidings_error *err);

/* Returns true for the URL of such a store. */
bool postgres_store_is_url(struct tidings_str url);

/* Returns true for a store that these functions opened. */
bool postgres_store_is(const struct store *store);

#endif
