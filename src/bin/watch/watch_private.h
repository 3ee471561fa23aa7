/* SPDX-License-Identifier: MIT
 *
 * What the parts of `tidings watch` share.
 *
 *     watch.c          the command and its options
 *     watch_follow.c   the server: subscribing, what it tells, how the connection fares
 *     watch_resume.c   how far it has come, for the next time (--state)
 */
#ifndef BIN_WATCH_PRIVATE_H
#define BIN_WATCH_PRIVATE_H

#include <tidings/client.h>

#include "bin/cli/command.h"
#include "bin/watch/subscribe_options.h"
#include "bin/watch/watch_state.h"

/* A place between changes: those who were told of something are behind `cursor`, the others where
 * they began. */
struct watch_progress {
    char cursor[WATCH_STATE_CURSOR];
    bool is_behind_cursor[WORDS_MAX];
};

/* What was done with changes, so that the next watch goes on there. What arrives is stamped with
 * `turn`; a place is safe when nothing waits or runs that is stamped with its turn or a lower one.
 */
struct watch_resume {
    struct watch_state_file file;
    struct watch_state state; /* as it is in the file; marks are in the order of the URIs */
    uint64_t turn;
    struct watch_progress latest, waiting; /* what has come; what becomes safe next */
    uint64_t waiting_turn;
    bool has_latest, has_waiting, is_unsaved;
};

struct watch {
    struct cli cli;
    /* options: */
    uint64_t left; /* changes until the end; 0: no end */
    uint64_t end_ms;
    uint64_t parallel, debounce_ms;
    const char *command, *state_path;
    struct subscribe_options subscribe;
    bool until_first, waits, reads, diffs, shows_cursor;
    bool has_parallel, has_debounce, batches, restarts, at_start, ends_with_nul;
    /* state: */
    struct tidings_client *client;
    struct jobs *jobs;         /* --exec */
    struct batch *batch;       /* --exec with --batch */
    struct content_kept *kept; /* --diff */
    char *uris[WORDS_MAX];
    bool are_globs[WORDS_MAX];  /* paths with wildcards */
    int refused[WORDS_MAX];     /* TIDINGS_E_*; 0: it is not refused */
    size_t count, answered;     /* of them, those that the server accepted or refused once */
    bool is_stranger;           /* the server does not know options of subscriptions */
    struct watch_resume resume; /* --state */
    bool is_lost;               /* changes were dropped without anything done about them */
    uint64_t begun_ms;
    bool has_watched;            /* the server accepted something once */
    struct tidings_error absent; /* the server was not there at first */
};

/* Subscribe and follow until the end: the exit status. */
int watch_follow(struct watch *w);

/* Where to go on, once it is known which server it is. All of these do nothing without --state. */
int watch_resume_begin(struct watch *w, struct tidings_error *err);
void watch_resume_end(struct watch *w);
/* The cursor for the URI of that number; NULL: none. */
const char *watch_resume_since(const struct watch *w, size_t index);
/* The server accepted the URI, and named this cursor. */
void watch_resume_watching(struct watch *w, struct tidings_str uri, struct tidings_str cursor);
/* The server told something, of this URI that was subscribed to (NULL: of none). */
void watch_resume_advance(struct watch *w, const char *subscribed, struct tidings_str cursor);
/* Write down what is done; `oldest` is the lowest turn of what is not. */
int watch_resume_turn(struct watch *w, uint64_t oldest, struct tidings_error *err);

#endif
