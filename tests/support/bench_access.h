/* SPDX-License-Identifier: MIT
 *
 * Access rules for tests of the worker, and streams compared byte for byte.
 */
#ifndef SUPPORT_BENCH_ACCESS_H
#define SUPPORT_BENCH_ACCESS_H

#include "support/bench_client.h"
#include "support/bench_subs.h"

#define BENCH_SEE (1u << ACCESS_LIST | 1u << ACCESS_READ | 1u << ACCESS_SUBSCRIBE)
#define BENCH_ALL (BENCH_SEE | 1u << ACCESS_WRITE)

/* A rule for a name ("*": everybody, "": who is not known) and a glob or URI ("": everything). */
struct bench_rule {
    const char *name, *scope, *uri;
    unsigned ops;
};
/* On all cores, as the hub does it; `count` 0: nobody may do anything. */
void bench_rules(struct bench *b, const struct bench_rule *rules, size_t count);
/* A worker with mem://x/a, and two each below hidden/ and open/, where list changes are told at
 * once and nobody has a name yet. */
void bench_access_start(struct bench *b, struct place *place);
/* The rights of whoever comes from now on. */
void bench_is(struct bench *b, const char *name, const char *scopes);

/* Everything said to the client, with what differs between any two runs masked: the times
 * `updated_at` and `timestamp`, and the seals, which are random (dev.tidings/cursor, and the same
 * in event ids). free() it. */
char *client_transcript(const struct client *c);

#endif
