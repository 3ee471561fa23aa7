/* SPDX-License-Identifier: MIT
 *
 * Converts rows of a store to changes, to rebuild the log after a start and to announce commits of
 * other nodes.
 */
#ifndef CLUSTER_APPLY_H
#define CLUSTER_APPLY_H

#include <tidings/provider.h>

struct log_entry;

typedef void (*log_entry_described_fn)(void *user, const struct tidings_change *change);
/* Checks that a node could have written the row. TIDINGS_E_INVALID, TIDINGS_E_LIMIT: the row can be
 * neither announced nor served. */
int log_entry_check(const struct log_entry *k, struct tidings_error *err);
bool log_entry_is_resource(const struct tidings_resource *about);
/* Returns the members that all kinds of rows share. Members that only some kinds have are empty in
 * the others. */
struct tidings_change log_entry_to_change(const struct log_entry *k);
/* Finds the announcement of a row other than a file's: one change, or nothing. Returns false if
 * memory runs out. */
bool log_entry_describe(const struct log_entry *k, bool has_entities, log_entry_described_fn fn,
                        void *user);

#endif
