/* SPDX-License-Identifier: MIT
 *
 * Subscriptions of the program itself, as letters to the core that will hold them.
 */
#ifndef SERVER_LOCAL_H
#define SERVER_LOCAL_H

#include <tidings/server.h>

#include "base/mailbox.h"

/* To be sent to the mailbox of a core. NULL with err. */
struct letter *local_create(struct tidings_str uri, const struct tidings_subscribe_options *options,
                            tidings_update_fn fn, void *user, struct tidings_error *err);

#endif
