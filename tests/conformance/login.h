/* SPDX-License-Identifier: MIT
 *
 * How the client under test gets its tokens in the scenarios auth/…: the credentials of
 * <tidings/oauth.h>, and a browser that agrees to everything.
 */
#ifndef CONFORMANCE_LOGIN_H
#define CONFORMANCE_LOGIN_H

#include <tidings/oauth.h>

/* `context`: what the suite tells of the scenario (client_id, client_secret, private_key_pem …),
 * a JSON object or empty. NULL: none are needed, or `err` says why there are none. */
struct tidings_oauth *login_create(const char *scenario, struct tidings_str context,
                                   struct tidings_error *err);

#endif
