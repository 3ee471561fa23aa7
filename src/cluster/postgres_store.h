/* SPDX-License-Identifier: MIT
 *
 * A store in a PostgreSQL database that several nodes share (store/store.h).
 *
 * The tables (`tidings_…`) are in the schema that the connection finds first; they are made when
 * they are missing, and brought up to date when they are older. One schema holds one cluster, which
 * has a name: nodes that were given another one are refused.
 */
#ifndef CLUSTER_POSTGRES_STORE_H
#define CLUSTER_POSTGRES_STORE_H

#include "store/store.h"

#define POSTGRES_CLUSTER_MAX 128u /* bytes of a cluster's name */

/* Connects, and fails where that is not possible now (TIDINGS_E_BUSY). TIDINGS_E_UNSUPPORTED: libpq
 * is missing, or the tables are too new. TIDINGS_E_INVALID: no URL of PostgreSQL, or a schema that
 * is not this cluster's. Messages never hold the password. */
int postgres_store_open(const char *url, struct tidings_str cluster, struct store **ret,
                        struct tidings_error *err);

/* The same for a copy into it (store/copy.h), which may have been begun before. */
int postgres_store_open_target(const char *url, struct tidings_str cluster, struct store **ret,
                               struct tidings_error *err);

/* Is that a URL of such a store? */
bool postgres_store_is_url(struct tidings_str url);

/* Returns true for a store that these functions opened. */
bool postgres_store_is(const struct store *store);

#endif
