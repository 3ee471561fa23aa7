/* SPDX-License-Identifier: MIT
 *
 * What a server logs (notifications/message): asked for from a level on, in both eras, and told to
 * the program as it comes.
 */
#ifndef CLIENT_SERVER_LOG_H
#define CLIENT_SERVER_LOG_H

#include "json/write.h"

struct tidings_client;

/* Legacy: is it to be asked for, once the client is ready? With the parameters of
 * logging/setLevel. */
#define SERVER_LOG_PARAMS 48u
bool server_log_is_asked(const struct tidings_client *c, char params[SERVER_LOG_PARAMS]);
/* Modern: each request says in its `_meta`, whose own members are `meta`, what it wants to hear. */
void server_log_put_level(const struct tidings_client *c, const struct json *meta, struct jw *w);
/* It came. */
void server_log_received(struct tidings_client *c, struct json *params);

#endif
