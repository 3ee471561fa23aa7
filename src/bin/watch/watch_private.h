/* SPDX-License-Identifier: MIT
 *
 * What the parts of `tidings watch` share.
 *
 *     watch.c          the command and its options
 *     watch_follow.c   the server: subscribing, what it tells, how the connection fares
 */
#ifndef BIN_WATCH_PRIVATE_H
#define BIN_WATCH_PRIVATE_H

#include <tidings/client.h>

#include "bin/cli/command.h"
#include "bin/watch/subscribe_options.h"

struct watch {
    struct cli cli;
    /* options: */
    uint64_t left; /* changes until the end; 0: no end */
    uint64_t end_ms;
    uint64_t parallel, debounce_ms;
    const char *command;
    struct subscribe_options subscribe;
    bool until_first, waits, reads, diffs, shows_cursor;
    bool has_parallel, batches, restarts, at_start, ends_with_nul;
    /* state: */
    struct tidings_client *client;
    struct jobs *jobs;         /* --exec */
    struct batch *batch;       /* --exec with --batch */
    struct content_kept *kept; /* --diff */
    char *uris[WORDS_MAX];
    bool are_globs[WORDS_MAX]; /* paths with wildcards */
    size_t count, settled;     /* of them, those that the server accepted or refused once */
    bool is_stranger;          /* the server does not know options of subscriptions */
    uint64_t begun_ms;
    bool has_watched;            /* the server accepted something once */
    struct tidings_error absent; /* the server was not there at first */
};

/* Subscribe and follow until the end: the exit status. */
int watch_follow(struct watch *w);

#endif
