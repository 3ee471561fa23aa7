/* SPDX-License-Identifier: MIT
 *
 * Agent Skills of a server (SEP-2640) in the client: whether the server declares any, and which of
 * its entries are usable.
 */
#ifndef CLIENT_SKILLS_H
#define CLIENT_SKILLS_H

#include "formats/json.h"

struct tidings_client;

/* Connects, and checks that the server declares the extension. TIDINGS_E_UNSUPPORTED: it does
 * not. */
int skills_connect(struct tidings_client *c, struct tidings_error *err);
/* Returns true if that entry may be used; if not, warns the program. */
bool skills_takes_entry(struct tidings_client *c, const struct json *entry);

#endif
