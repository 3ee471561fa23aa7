/* SPDX-License-Identifier: MIT
 *
 * Tokens of the client under test in the auth/… scenarios: the credentials of <tidings/oauth.h>,
 * and a browser that accepts everything.
 */
#ifndef CONFORMANCE_LOGIN_H
#define CONFORMANCE_LOGIN_H

#include <tidings/oauth.h>

/* `context`: the context of the scenario (client_id, client_secret, private_key_pem …), a JSON
 * object or empty. NULL: no credentials needed, or `err` has the reason. */
struct tidings_oauth *login_create(const char *scenario, struct tidings_str context,
                                   struct tidings_error *err);

#endif
