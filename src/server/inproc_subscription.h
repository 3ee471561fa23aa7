/* SPDX-License-Identifier: MIT
 *
 * Subscriptions that the embedding program makes itself, without a connection
 * (tidings_server_subscribe). Each is a subscriber on the first worker; letters about them go by
 * way of the hub, which knows the workers, and wait there until the server runs.
 */
#ifndef SERVER_INPROC_SUBSCRIPTION_H
#define SERVER_INPROC_SUBSCRIPTION_H

#include <tidings/server.h>

#include "base/mailbox.h"
#include "base/map.h"

struct inproc_subscriptions {
    struct map by_id; /* struct inproc_subscription; on the first worker's thread */
    int last;         /* the newest id; atomic */
};

void inproc_subscriptions_init(struct inproc_subscriptions *all);
void inproc_subscriptions_deinit(struct inproc_subscriptions *all);

/* A letter for the hub's mailbox that begins one. NULL with err. */
struct letter *inproc_subscription_create(struct inproc_subscriptions *all, struct tidings_str uri,
                                          const struct tidings_subscribe_options *options,
                                          tidings_update_fn fn, void *user,
                                          struct tidings_error *err);
int inproc_subscription_id(struct letter *begin); /* before it is sent */
/* Likewise, one that ends it, or does nothing when it has ended. */
struct letter *inproc_subscription_end(struct inproc_subscriptions *all, int id,
                                       struct tidings_error *err);

#endif
