/* SPDX-License-Identifier: MIT
 *
 * Lists as the files of the client use them: elements as values, not as text.
 */
#ifndef CLIENT_LIST_H
#define CLIENT_LIST_H

#include "client/private.h"

#define STOP_LISTING 2
#define LIST_MAX_PAGES 10000u

/* 0: the next one; STOP_LISTING: enough; negative: a failure, `err` is the caller's business. */
typedef int (*json_item_fn)(void *user, struct json *item);

/* What is directly below a resource: 0, STOP_LISTING, or a failure. TIDINGS_E_UNSUPPORTED: the
 * server does not offer that. `pages` is how many may still be asked for, in this list and those to
 * come. */
int list_children(struct tidings_client *c, const char *uri, json_item_fn fn, void *user,
                  unsigned *pages, struct tidings_error *err);

#endif
