/* SPDX-License-Identifier: MIT
 *
 * Subscriptions of the program itself. Each is a subscriber on the first worker; letters about them
 * go by way of the hub, which knows the workers, and wait there until the server runs.
 */
#ifndef SERVER_LOCAL_H
#define SERVER_LOCAL_H

#include <tidings/server.h>

#include "base/mailbox.h"
#include "base/map.h"

struct locals {
    struct map by_id; /* struct local; on the first worker's thread */
    int last;         /* the newest id; atomic */
};

void locals_init(struct locals *all);
void locals_deinit(struct locals *all);

/* A letter for the hub's mailbox that begins one. NULL with err. */
struct letter *local_create(struct locals *all, struct tidings_str uri,
                            const struct tidings_subscribe_options *options, tidings_update_fn fn,
                            void *user, struct tidings_error *err);
int local_id(struct letter *begin); /* before it is sent */
/* Likewise, one that ends it, or does nothing when it has ended. */
struct letter *local_end(struct locals *all, int id, struct tidings_error *err);

#endif
