/* SPDX-License-Identifier: MIT
 *
 * The file in which `tidings watch --state` remembers how far it has come: a JSON object on one
 * line, with the server, and for each URI the cursor behind which to go on.
 *
 *     {"watch":1,"server":"http://…","subscriptions":[{"uri":"file:///a","cursor":"…"}]}
 *
 * It is replaced whole (written beside, then renamed), belongs to its user alone (mode 0600), and
 * is locked as long as somebody watches with it.
 */
#ifndef BIN_WATCH_STATE_H
#define BIN_WATCH_STATE_H

#include <stdio.h>

#include <tidings/types.h>

#define WATCH_STATE_BYTES (16u << 20) /* of the file */
#define WATCH_STATE_MAX 1000u         /* URIs */
#define WATCH_STATE_CURSOR 512u

struct watch_mark {
    char *uri;
    char cursor[WATCH_STATE_CURSOR]; /* "": none is known */
};

/* Zeroed: nothing. */
struct watch_state {
    char *server;
    struct watch_mark *marks;
    size_t count;
};

void watch_state_deinit(struct watch_state *s);
/* TIDINGS_E_PARSE: it is none; TIDINGS_E_NOMEM. */
int watch_state_parse(struct tidings_str text, struct watch_state *ret, struct tidings_error *err);
void watch_state_write(FILE *out, const struct watch_state *s);

/* The file: its path, and a descriptor that holds the lock. */
struct watch_state_file {
    const char *path; /* borrowed */
    int lock;         /* -1: none */
};
/* Lock the file, and read it into `ret`; a file that is not there yet is made, and nothing is read.
 * TIDINGS_E_BUSY: somebody watches with it; TIDINGS_E_DENIED: it is not the user's own, or others
 * can write it. Close it in any case. */
int watch_state_open(struct watch_state_file *f, const char *path, struct watch_state *ret,
                     struct tidings_error *err);
int watch_state_save(struct watch_state_file *f, const struct watch_state *s,
                     struct tidings_error *err);
void watch_state_close(struct watch_state_file *f);

#endif
