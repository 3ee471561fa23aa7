/* SPDX-License-Identifier: MIT
 *
 * The required knowledge of clients, for random tests of delivery
 * (unit/engine/protocol/test_model.c).
 *
 * The truth is a few resources and the numbers of their changes. A client has a few subscriptions,
 * each with its own pattern. It knows of a change once it received that resource with a version as
 * new, or "re-read" (truncated) after it. Each update is checked at once: it matches, versions
 * never fall and only rise within a stream, and resuming with the newest cursor would lose nothing.
 * Failures name the seed.
 */
#ifndef SUPPORT_MODEL_H
#define SUPPORT_MODEL_H

#include <stdio.h>

#include "support/harness_client.h"

#define MODEL_URIS 8u
#define MODEL_SUBS 3u
#define MODEL_PATTERNS 9u
#define MODEL_HISTORY 512u

struct model_pattern {
    const char *spelled, *match;
    unsigned mask; /* of the resources it matches */
};
extern const struct model_pattern model_patterns[MODEL_PATTERNS];

struct truth {
    unsigned seed;
    bool traced;
    uint64_t epoch, seq; /* of the newest change */
    uint64_t history[MODEL_URIS][MODEL_HISTORY];
    size_t count[MODEL_URIS];
};
extern struct truth truth;

/* A trace of events, for the analysis of a failure. */
#define TRACE(...)                                                                                 \
    do {                                                                                           \
        if (truth.traced) {                                                                        \
            printf(__VA_ARGS__);                                                                   \
        }                                                                                          \
    } while (0)

void truth_begin(unsigned seed, bool traced, uint64_t epoch);
void truth_changed(unsigned resource);
void truth_changed_all(void);
const char *model_uri(unsigned resource);

struct model_sub {
    const struct model_pattern *pattern;
    bool is_strict;
    bool promised;                 /* the client saw that it has it … */
    uint64_t acked;                /* … when this was the newest change */
    uint64_t known[MODEL_URIS];    /* up to which number it knows each resource */
    uint64_t version[MODEL_URIS];  /* the newest it received */
    uint64_t streamed[MODEL_URIS]; /* the same, on this stream */
    uint64_t newest;               /* … of all of them */
};

struct model_client {
    unsigned no;
    char last_id[256];
    char cursor[CURSOR_TEXT]; /* empty: never saw one */
    struct model_sub subs[MODEL_SUBS];
};

/* Its subscription was acknowledged; `seq` was the newest change then. */
void model_promise(struct model_sub *s, uint64_t seq);
void model_new_stream(struct model_client *c);
/* A message arrived. `cursor_counts`: all subscriptions had been requested when it was sent. */
void model_learn(struct model_client *c, const struct utterance *u, bool cursor_counts);
void model_take_cursor(struct model_client *c, const char *cursor, const struct utterance *u);
/* At the end: everything that matters is known. */
void model_check(const struct model_client *c);

#endif
