/* SPDX-License-Identifier: MIT
 *
 * Finding changes that a server did not tell: what is watched is read, or listed, and compared with
 * how it was before.
 *
 * After an interruption that is done where the server cannot go on from where it was; every so
 * often, if the program asked for that (verify_ms). What has changed is told as an update of our
 * own, `synthetic`. Rather something is told twice than not at all: what changed shortly before the
 * connection was lost counts as changed. What cannot be compared, since there is too much of it or
 * the server does not show it, is a gap: told once, with `truncated`.
 */
#ifndef CLIENT_COMPARISON_H
#define CLIENT_COMPARISON_H

#include <tidings/types.h>

#include "base/hash.h"
#include "base/map.h"
#include "formats/json.h"

#define COMPARISON_MAX_ENTRIES 10000u /* resources of one watch … */
#define COMPARISON_MAX_ALL 100000u    /* … and of a client; beyond: a gap */
#define COMPARISON_MAX_PAGES 1000u    /* of a list */
#define COMPARISON_MAX_CHANGES 4096u  /* told one by one; more are a gap */
#define COMPARISON_MAX_BROKEN 3u   /* a watch that so often cost the connection is not looked at */
#define COMPARISON_QUIET_MS 500u   /* what was told of is read once it has been quiet so long */
#define COMPARISON_NOTIFY_MS 2000u /* a change may be notified so long after it can be read */

struct tidings_client;
struct watch;
void comparison_init(struct tidings_client *c);
/* The server has judged all watches. */
void comparison_decided(struct tidings_client *c);
void comparison_lost(struct tidings_client *c);
/* The server told of `uri`. */
void comparison_on_update(struct tidings_client *c, struct watch *w, struct tidings_str uri,
                          bool is_deleted);
/* Something came on the stream that cannot be read: a gap of everything that is watched, told once
 * until it is delivered. */
void comparison_missed(struct tidings_client *c, const char *why);
void comparison_forget(struct tidings_client *c, struct watch *w); /* it ends */

/* -------------------------------------------------------------------------------------------------
 * How the resources under one watched URI were when they were last seen: a digest of each.
 */

struct snapshot_entry {
    struct tidings_str uri;
    unsigned char digest[SHA256_BYTES];
    bool is_known;       /* … what the digest is */
    uint64_t updated_at; /* the server told of it, and it was not looked at since; 0: no */
    char text[];
};

struct snapshot {
    struct map entries; /* by URI */
    uint64_t read_at;   /* clock_monotonic_ms */
    /* The connection was lost within COMPARISON_NOTIFY_MS of that: it may have a change in it that
     * the server had not notified yet. */
    bool may_lack_notification;
};

#endif
