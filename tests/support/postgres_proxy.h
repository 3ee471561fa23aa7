/* SPDX-License-Identifier: MIT
 *
 * A proxy between stores and their PostgreSQL (support/postgres.h), which loses what passes through
 * it when it is told to: one thread for all connections, on a port of its own on 127.0.0.1.
 */
#ifndef SUPPORT_POSTGRES_PROXY_H
#define SUPPORT_POSTGRES_PROXY_H

#include "support/postgres.h"

enum proxy_fate {
    PROXY_PASS,
    PROXY_LOSE_ANSWER,   /* what the server says is not passed on, and the connection ends */
    PROXY_LOSE_QUESTION, /* the same, before the server hears of it */
    PROXY_HOLD_QUESTION, /* the connection ends, and the server hears of it when it is let go */
    PROXY_SILENT,        /* nothing comes through, and nothing ends */
};

struct postgres_proxy;

struct postgres_proxy *postgres_proxy_start(struct postgres_server *server);
void postgres_proxy_stop(struct postgres_proxy *p);
/* The schema of `url`, through the proxy. */
const char *postgres_proxy_url(const struct postgres_proxy *p, const char *url,
                               char out[POSTGRES_URL]);
/* What becomes of whatever comes from now on. */
void postgres_proxy_be(struct postgres_proxy *p, enum proxy_fate fate);
/* What was held goes to the server; returns when that has answered all of it. */
void postgres_proxy_let_go(struct postgres_proxy *p);

#endif
