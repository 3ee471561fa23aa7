/* SPDX-License-Identifier: MIT
 *
 * Rows of a store as changes: when the log is made again after a start, and when another node wrote
 * them.
 */
#ifndef CLUSTER_APPLY_H
#define CLUSTER_APPLY_H

#include <tidings/provider.h>

struct log_entry;

typedef void (*log_entry_described_fn)(void *user, const struct tidings_change *change);
/* Is it a row as we write them? TIDINGS_E_INVALID, TIDINGS_E_LIMIT: it can be neither told nor
 * served. */
int log_entry_check(const struct log_entry *k, struct tidings_error *err);
bool log_entry_is_resource(const struct tidings_resource *about);
/* What every kind of row says; what only some do is empty in the others. */
struct tidings_change log_entry_to_change(const struct log_entry *k);
/* What is told of a row that is not a file's: one change, or nothing. false: out of memory. */
bool log_entry_describe(const struct log_entry *k, bool has_entities, log_entry_described_fn fn,
                        void *user);

#endif
