/* SPDX-License-Identifier: MIT
 *
 * Dynamic registration of a client (RFC 7591): what is asked for, and what comes back.
 */
#ifndef OAUTH_REGISTRATION_H
#define OAUTH_REGISTRATION_H

#include "base/str.h"
#include "oauth/metadata.h"

struct registration_request {
    const char *client_name;
    const char *redirect_uri; /* NULL: none is used */
    enum client_auth method;
    const char *grant; /* the first of grant_types; refresh_token is the second */
};
/* The JSON body. Scopes are not named: those of the server may be unknown to the authorization
 * server, and more may be wanted later. */
int registration_put(struct buf *out, const struct registration_request *r);

struct registration {
    char *client_id;
    char *client_secret; /* NULL: none */
    unsigned method;     /* enum client_auth; 0: not said */
};
int registration_read(long status, struct tidings_str text, struct registration *ret,
                      struct tidings_error *err);
void registration_deinit(struct registration *r);

/* The bit of a method's name, and its name. 0 and NULL: not known. */
unsigned client_auth_find(struct tidings_str name);
const char *client_auth_name(unsigned bit);

#endif
