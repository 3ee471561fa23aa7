/* SPDX-License-Identifier: MIT
 *
 * A proxy between stores and their PostgreSQL (support/postgres.h), which loses traffic on request:
 * one thread for all connections, on its own port on 127.0.0.1.
 */
#ifndef SUPPORT_POSTGRES_PROXY_H
#define SUPPORT_POSTGRES_PROXY_H

#include "support/postgres.h"

enum proxy_fate {
    PROXY_PASS,
    PROXY_LOSE_ANSWER,   /* the server's output is dropped, and the connection ends */
    PROXY_LOSE_QUESTION, /* the same, before the server receives it */
    PROXY_HOLD_QUESTION, /* the connection ends, and the server notices when it is released */
    PROXY_SILENT,        /* nothing comes through, and nothing ends */
};

struct postgres_proxy;

struct postgres_proxy *postgres_proxy_start(struct postgres_server *server);
void postgres_proxy_stop(struct postgres_proxy *p);
/* The schema of `url`, through the proxy. */
const char *postgres_proxy_url(const struct postgres_proxy *p, const char *url,
                               char out[POSTGRES_URL]);
/* The fate of all later traffic. */
void postgres_proxy_be(struct postgres_proxy *p, enum proxy_fate fate);
/* Sends held traffic to the server; returns when the server has answered all of it. */
void postgres_proxy_let_go(struct postgres_proxy *p);

#endif
