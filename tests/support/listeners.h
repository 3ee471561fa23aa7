/* SPDX-License-Identifier: MIT
 *
 * Nodes on PostgreSQL that receive each other's writes, and an untrusted client that may connect
 * there without rights on any table: it listens and notifies.
 */
#ifndef SUPPORT_LISTENERS_H
#define SUPPORT_LISTENERS_H

#include "cluster/postgres_internal.h"
#include "support/postgres.h"
#include "support/store_steps.h"

/* A node that listens from here on. */
struct store *hearer_open(const char *url);
/* The received input; 1: there are changes to follow. */
int hearer_take(struct store *b);
/* Until there is. */
void hearer_await(struct store *b);
struct notification_counts hearer_heard(struct store *b);
/* It follows exactly that, with that number of notices, queries, and rejections. */
void hearer_follows(struct store *b, const char *lines, unsigned told, unsigned asked,
                    unsigned refused, const struct notification_counts *before);

struct stranger {
    struct postgres *db;
    char channel[48];
    struct buf seen; /* each on a line */
};

/* On the channel of the cluster in that schema; the role `stranger` is made when it is missing. */
void stranger_open(struct stranger *w, struct postgres_server *server, const char *schema);
void stranger_close(struct stranger *w);
/* The next notifications. */
struct tidings_str stranger_hears(struct stranger *w);
void stranger_says(struct stranger *w, struct tidings_str payload);

#endif
