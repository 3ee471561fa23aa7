/* SPDX-License-Identifier: MIT
 *
 * Agent Skills of a server (SEP-2640) as the client has them: whether it says it has any, and which
 * of its entries may be used.
 */
#ifndef CLIENT_SKILLS_H
#define CLIENT_SKILLS_H

#include "formats/json.h"

struct tidings_client;

/* Connect, and see whether the server declares the extension. TIDINGS_E_UNSUPPORTED: it does not.
 */
int skills_connect(struct tidings_client *c, struct tidings_error *err);
/* May that entry be used? False: the program was warned. */
bool skills_takes_entry(struct tidings_client *c, const struct json *entry);

#endif
