/* SPDX-License-Identifier: MIT
 *
 * A client of a session whose streams break at any point, with any number of events lost in
 * transit, and that resumes each with the id of the last event it saw there; its updates of
 * mem://x/0, mem://x/1 …, by subscription; and its missed changes. It has its own random sequence,
 * so a seed repeats a run.
 */
#ifndef SUPPORT_TORN_CLIENT_H
#define SUPPORT_TORN_CLIENT_H

#include "support/harness_client.h"
#include "support/harness_subs.h"

#define TORN_URIS 5u
#define TORN_SUBS 3u
#define TORN_LINES 2u
#define TORN_DEAD 3u

/* A stream as the client sees it, resumed over and over. */
struct torn_line {
    struct client *client; /* NULL: broken */
    size_t seen;
    char last_id[256];
};

struct torn_client {
    struct harness *harness;
    struct harness_session *session;
    unsigned uris;
    const char *const *subscribed; /* URIs; with a slash at the end: all below it */
    unsigned subs;
    unsigned deads;       /* streams the server may still believe in */
    bool reads_at_update; /* without a number it reads; otherwise a number is required */
    /* From here on zeroed to begin with. */
    uint64_t random;
    uint64_t seq;                /* nothing but what torn_change announces has a number */
    uint64_t changed[TORN_URIS]; /* the number of the newest change */
    uint64_t known[TORN_SUBS][TORN_URIS];
    bool has_subscribed[TORN_SUBS];
    struct torn_line lines[TORN_LINES];
    struct client *dead[TORN_DEAD]; /* gone for the client, not yet for the server */
};

/* Start its harness with mem://x/0, mem://x/1 … in `stub`, where no lists change. */
void torn_serve(const struct torn_client *t, struct stub *stub, size_t log_entries,
                size_t outbox_max);
void torn_seed(struct torn_client *t, unsigned seed);
unsigned torn_roll(struct torn_client *t, unsigned n); /* below n */

void torn_change(struct torn_client *t, unsigned uri);
/* The subscription knows how the resource was at `seq`. */
void torn_note(struct torn_client *t, unsigned sub, unsigned uri, uint64_t seq);
void torn_learn(struct torn_client *t, const struct utterance *u);
/* The first change that a subscription it has does not know of, in words; NULL: none. */
const char *torn_missing(const struct torn_client *t);

struct torn_line *torn_pick(struct torn_client *t);
/* Each does nothing to a broken line … */
void torn_see(struct torn_client *t, struct torn_line *l);   /* all that came */
void torn_choke(struct torn_client *t, struct torn_line *l); /* it takes nothing, or all again */
/* … but this, which comes back on it. Another one breaks, and what came last may be lost. */
void torn_break(struct torn_client *t, struct torn_line *l);
void torn_bury(struct torn_client *t); /* the server notices the end of one, if it is that one */
/* Every stream is whole again, and everything that is to come has come. */
void torn_mend(struct torn_client *t);
void torn_free(struct torn_client *t); /* the streams */

#endif
