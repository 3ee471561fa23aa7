/* SPDX-License-Identifier: MIT
 *
 * Finding out what a server did not tell: what is watched is read, or listed, and compared with how
 * it was before.
 *
 * After an interruption that is done where the server cannot go on from where it was; every so
 * often, if the program asked for that (verify_ms). What has changed is told as an update of our
 * own, `synthetic`. Rather something is told twice than not at all: what changed shortly before the
 * connection was lost counts as changed. What cannot be compared, since there is too much of it or
 * the server does not show it, is a gap: told once, with `truncated`.
 */
#ifndef CLIENT_COMPARE_H
#define CLIENT_COMPARE_H

#include "base/str.h"
#include "client/cursors.h"
#include "client/pump.h"

#define COMPARE_MAX_ENTRIES 10000u /* resources of one watch … */
#define COMPARE_MAX_ALL 100000u    /* … and of a client; beyond: a gap */
#define COMPARE_MAX_PAGES 1000u    /* of a list */
#define COMPARE_MAX_CHANGES 4096u  /* told one by one; more are a gap */
#define COMPARE_MAX_BROKEN 3u      /* a watch that so often cost the connection is not looked at */
#define COMPARE_QUIET_MS 500u      /* what was told of is read once it has been quiet so long */
#define COMPARE_SETTLE_MS 2000u    /* a change may be told so long after it can be read */

struct tidings_client;
struct watch;
struct view; /* how the resources of a watch were */

/* Why a watch is looked at. */
enum look {
    LOOK_NONE,
    LOOK_FIRST, /* to know it, telling nothing */
    LOOK_CHECK, /* to find what was not told */
    LOOK_AGAIN, /* the same, after an interruption */
};

/* One watch at a time is looked at. */
struct compare {
    struct watch *watch; /* NULL: none */
    int64_t request;
    struct view *fresh; /* how it is, as far as known */
    unsigned pages;
    struct cursors cursors; /* of those pages */
    uint64_t began;         /* clock_monotonic_ms */
    size_t entries;         /* of all views */
    uint64_t found;         /* changes that were told */
    struct pump_timer next, quiet, verify;
};

void compare_init(struct tidings_client *c);
/* The server has judged all watches. */
void compare_judged(struct tidings_client *c);
void compare_lost(struct tidings_client *c);
/* The server told of `uri`. */
void compare_told(struct tidings_client *c, struct watch *w, struct tidings_str uri,
                  bool is_deleted);
void compare_forget(struct tidings_client *c, struct watch *w); /* it ends */

#endif
