/* SPDX-License-Identifier: MIT
 *
 * Steps for tests of a store that several nodes share, which must each succeed; and the followed
 * changes, as lines of text.
 */
#ifndef SUPPORT_STORE_STEPS_H
#define SUPPORT_STORE_STEPS_H

#include "base/str.h"
#include "store/store.h"

struct store *store_open(const char *url);
void store_close(struct store *store);
void store_begin(struct store *store);
void store_commit(struct store *store);
/* Inside a batch. */
void store_put(struct store *store, const char *id, int64_t from, const char *value);
/* Announcements and publications at a URI with "dark" in it are unsubscribable. */
uint64_t store_announce(struct store *store, const char *uri);
uint64_t store_announce_mounted(struct store *store, const char *uri); /* LOG_ENTRY_MOUNTED */
/* Its own batch; returns the position. */
uint64_t store_put_alone(struct store *store, const char *id, int64_t from, const char *value);
uint64_t store_publish_alone(struct store *store, const char *uri, const char *content);
uint64_t store_announce_alone(struct store *store, const char *uri);
/* The current value, as a number; -1: none. */
long long store_value(struct store *store, const char *id);

/* "entity a@1=…" with `positions`: "3 entity a@1". The text lives until the next call. */
const char *store_followed(struct store *store, bool positions);
/* A log_entry_fn that appends such a line to a struct buf. */
bool store_print(void *user, const struct log_entry *change);

#endif
