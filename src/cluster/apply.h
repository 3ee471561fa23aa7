/* SPDX-License-Identifier: MIT
 *
 * Rows of a store as changes: when the log is made again after a start, and when another node wrote
 * them.
 */
#ifndef CLUSTER_APPLY_H
#define CLUSTER_APPLY_H

#include <tidings/provider.h>

struct kept_change;

typedef void (*kept_described_fn)(void *user, const struct tidings_change *change);
/* Is it a row as we write them? TIDINGS_E_INVALID, TIDINGS_E_LIMIT: it can be neither told nor
 * served. */
int kept_check(const struct kept_change *k, struct tidings_error *err);
bool kept_is_resource(const struct tidings_resource *about);
/* What every kind of row says; what only some do is empty in the others. */
struct tidings_change kept_row_change(const struct kept_change *k);
/* What is told of a row that is not a file's: one change, or nothing. false: out of memory. */
bool kept_describe(const struct kept_change *k, bool has_entities, kept_described_fn fn,
                   void *user);

#endif
