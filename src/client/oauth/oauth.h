/* SPDX-License-Identifier: MIT
 *
 * The options of <tidings/oauth.h>, checked and copied.
 */
#ifndef CLIENT_OAUTH_OAUTH_H
#define CLIENT_OAUTH_OAUTH_H

#include <tidings/oauth.h>

#include "base/loop.h"
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

/* Does a person have to agree? */
bool oauth_settings_ask_person(const struct oauth_settings *s);

/* -------------------------------------------------------------------------------------------------
 * A timer of a loop that makes the loop's descriptor readable, so that whoever waits for that alone
 * misses nothing (base/loop.h keeps its own timers beside it).
 */

struct alarm {
    int fd;
    struct loop_poll *poll;
    void (*fn)(void *user);
    void *user;
};

int alarm_init(struct alarm *a, struct loop *loop, void (*fn)(void *user), void *user,
               struct tidings_error *err);
void alarm_deinit(struct alarm *a); /* one that was never there (fd -1), and twice: fine */
void alarm_set(struct alarm *a, uint64_t ms); /* once, so long from now; 0: not any more */

#endif
