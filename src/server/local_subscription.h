/* SPDX-License-Identifier: MIT
 *
 * Subscriptions that the embedding program makes without a connection (tidings_server_subscribe).
 * Each is a subscriber on the first worker. Messages about them go through the hub, which knows the
 * workers, and wait there until the server runs.
 */
#ifndef SERVER_LOCAL_SUBSCRIPTION_H
#define SERVER_LOCAL_SUBSCRIPTION_H

#include <pthread.h>

#include <tidings/subscription.h>

#include "base/list.h"

struct hub;

struct inproc_subscriptions {
    struct hub *hub; /* set before the first subscription */
    struct list list;
    pthread_mutex_t lock; /* of the list */
};

void inproc_subscriptions_init(struct inproc_subscriptions *all);
/* The hub and the workers are gone; the program must have released its handles. */
void inproc_subscriptions_deinit(struct inproc_subscriptions *all);

/* Thread-safe. The program's handle; NULL with err. */
struct tidings_subscription *inproc_subscription_create(struct inproc_subscriptions *all,
                                                        struct tidings_str uri,
                                                        const struct tidings_subscribe_options *how,
                                                        struct tidings_error *err);

#endif
