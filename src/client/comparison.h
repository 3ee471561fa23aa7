/* SPDX-License-Identifier: MIT
 *
 * Comparison: finds changes that a server did not report. The client reads or lists watched
 * resources and compares them with their previous state.
 *
 * The client compares after an interruption, if the server cannot resume, and periodically if the
 * program asked for that (verify_ms). A change is reported as a `synthetic` update of the client.
 * Reporting a change twice is better than missing it: a change shortly before the connection was
 * lost counts as new. Resources that cannot be compared, because there are too many or the server
 * does not show them, are a gap, which is reported once with `truncated`.
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
#define COMPARISON_MAX_CHANGES 4096u  /* changes reported one by one; more are a gap */
#define COMPARISON_MAX_BROKEN 3u      /* connections lost in a row before a watch is skipped */
#define COMPARISON_QUIET_MS 500u      /* quiet time after an update before the read */
#define COMPARISON_NOTIFY_MS 2000u    /* maximum delay between a change and its notification */

struct tidings_client;
struct watch;
void comparison_init(struct tidings_client *c);
/* The server has judged all watches. */
void comparison_decided(struct tidings_client *c);
void comparison_lost(struct tidings_client *c);
/* The server reported a change of `uri`. */
void comparison_on_update(struct tidings_client *c, struct watch *w, struct tidings_str uri,
                          bool is_deleted);
/* An unreadable message came on the stream: a gap of everything that is watched, reported once
 * until it is delivered. */
void comparison_missed(struct tidings_client *c, const char *why);
void comparison_forget(struct tidings_client *c, struct watch *w); /* it ends */

/* -------------------------------------------------------------------------------------------------
 * The state of the resources under one watched URI when last seen: a digest of each.
 */

struct snapshot_entry {
    struct tidings_str uri;
    unsigned char digest[SHA256_BYTES];
    bool is_known;       /* … the kind of digest */
    uint64_t updated_at; /* the server reported a change that was not compared yet; 0: none */
    char text[];
};

struct snapshot {
    struct map entries; /* by URI */
    uint64_t read_at;   /* clock_monotonic_ms */
    /* The connection was lost within COMPARISON_NOTIFY_MS of that: it may contain a change that the
     * server had not notified yet. */
    bool may_lack_notification;
};

#endif
