/* SPDX-License-Identifier: MIT
 *
 * The options of <tidings/oauth.h>, checked and copied.
 */
#ifndef OAUTH_SETTINGS_H
#define OAUTH_SETTINGS_H

#include <tidings/oauth.h>

#include "base/private_key.h"

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

/* There is something to deinit also after a failure. */
int oauth_settings_init(struct oauth_settings *s, const struct tidings_oauth_options *options,
                        struct tidings_error *err);
void oauth_settings_deinit(struct oauth_settings *s);

/* Does a person have to agree? */
bool oauth_settings_ask_person(const struct oauth_settings *s);

#endif
