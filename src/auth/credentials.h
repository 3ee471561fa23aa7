/* SPDX-License-Identifier: MIT
 *
 * The credentials with which this server introspects tokens at the authorization server: a client
 * id and a secret, kept as the header `Authorization: Basic …`.
 */
#ifndef AUTH_CREDENTIALS_H
#define AUTH_CREDENTIALS_H

#include "base/shared_map.h"
#include "base/str.h"

struct credentials; /* immutable, counted: a value of a shared map */

/* The file has one line, CLIENT_ID:SECRET (RFC 6749 §2.3.1). The value has the key
 * CREDENTIALS_KEY. */
int credentials_load(struct credentials **ret, const char *path, struct tidings_error *err);
#define CREDENTIALS_KEY STR("credentials")
struct shared_value *credentials_value(struct credentials *c);
struct credentials *credentials_of(struct shared_value *value); /* NULL for NULL */
/* "Authorization: Basic …" */
const char *credentials_header(const struct credentials *c);

/* application/x-www-form-urlencoded, of what needs it. */
void credentials_put_encoded(struct buf *out, struct tidings_str s);

#endif
