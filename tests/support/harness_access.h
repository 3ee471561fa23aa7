/* SPDX-License-Identifier: MIT
 *
 * Access rules for tests of the worker, and streams compared byte for byte.
 */
#ifndef SUPPORT_HARNESS_ACCESS_H
#define SUPPORT_HARNESS_ACCESS_H

#include "security/access.h"
#include "support/harness_client.h"
#include "support/harness_subs.h"

#define HARNESS_SEE (1u << ACCESS_LIST | 1u << ACCESS_READ | 1u << ACCESS_SUBSCRIBE)
#define HARNESS_ALL (HARNESS_SEE | 1u << ACCESS_WRITE)

/* A rule for a name ("*": everyone, "": anonymous) and a glob or URI ("": everything). */
struct harness_rule {
    const char *name, *scope, *uri;
    unsigned ops;
};
/* On all cores, like the hub; `count` 0: no client has any right. */
void harness_rules(struct harness *b, const struct harness_rule *rules, size_t count);
/* A worker with mem://x/a, and two resources each below hidden/ and open/; it reports list changes
 * at once, and no client has a name yet. */
void harness_access_start(struct harness *b, struct stub *stub);
/* The rights of new clients from now on. */
void harness_is(struct harness *b, const char *name, const char *scopes);

/* Everything said to the client, with what differs between any two runs masked: the times
 * `updated_at` and `timestamp`, and the seals, which are random (dev.tidings/cursor, and the same
 * in event ids). free() it. */
char *client_transcript(const struct client *c);

#endif
