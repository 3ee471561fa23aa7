/* SPDX-License-Identifier: MIT
 *
 * Enforces changed access on streams that are open: the rules were replaced, the time a principal
 * had is over, or its token was revoked.
 *
 * Subscriptions are narrowed to what is left: one that names a resource it may not hear of any more
 * ends, which its client is told as of any that ends; a pattern stays and covers less; what waits
 * to be told is looked through again. Who may nothing at all, or is nobody any more, has its
 * streams ended. A session stays: whoever comes back with a good token finds it.
 *
 * Requests under way are answered by the rules they began with.
 */
#ifndef PROTOCOL_ACCESS_ENFORCE_H
#define PROTOCOL_ACCESS_ENFORCE_H

#include "access/principal.h"
#include "worker/worker.h"

struct access_rules;

/* From now on these say who may do what; NULL: everybody everything. Takes the reference. */
void access_enforce_rules(struct worker *worker, struct access_rules *rules);
/* End the streams of those whose time is over. */
void access_enforce_expiry(struct worker *worker);
/* End the streams of those who are nobody any more: what made them somebody was taken back. */
void access_enforce_revocation(struct worker *worker, principal_test_fn is_gone, void *user);

/* The first on all workers of a hub, or with TIDINGS_E_NOMEM on none. On the hub's thread; the
 * reference stays the caller's. */
int access_enforce_everywhere(struct hub *hub, struct access_rules *rules,
                              struct tidings_error *err);

#endif
