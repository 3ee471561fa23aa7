/* SPDX-License-Identifier: MIT
 *
 * Introspection (RFC 7662): the authorization server is asked what a token is. What it says is
 * believed for INTROSPECT_REMEMBER_MS, so that a token taken back is good for no longer than that.
 */
#ifndef AUTH_INTROSPECT_H
#define AUTH_INTROSPECT_H

#include "auth/remote.h"

#define INTROSPECT_REMEMBER_MS 30000

struct credentials; /* immutable, counted: a value of a shared map */

/* The file has one line, CLIENT_ID:SECRET (RFC 6749 §2.3.1). */
int credentials_load(struct credentials **ret, const char *path, struct tidings_error *err);
struct shared_value *credentials_value(struct credentials *c);

/* Ask about the token of `q` and send it home with a verdict. On the thread of `r`. */
void introspect(struct remote *r, struct auth_question *q);

/* The verdict on an answer with status 200. Pure. */
void introspect_read(const struct auth *a, struct tidings_str body, int64_t now_ms,
                     struct verdict *ret);

#endif
