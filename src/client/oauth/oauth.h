/* SPDX-License-Identifier: MIT
 *
 * The options of <tidings/oauth.h>, checked and copied.
 */
#ifndef CLIENT_OAUTH_OAUTH_H
#define CLIENT_OAUTH_OAUTH_H

#include <tidings/oauth.h>

#include "security/signature.h"

struct oauth_settings {
    enum tidings_oauth_grant grant;
    char *client_name, *client_id, *client_secret, *client_url, *issuer, *scope, *ca_file;
    char *assertion, *id_token, *idp_endpoint, *idp_client_id;
    struct private_key *client_key; /* NULL: none */
    uint16_t redirect_port;
    uint32_t login_ms;
    tidings_oauth_open_fn on_open;
    tidings_oauth_device_fn on_device;
    void *user;
};

/* Returns true if a person has to agree. */
bool oauth_settings_ask_person(const struct oauth_settings *s);

#endif
