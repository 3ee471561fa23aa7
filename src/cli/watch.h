/* SPDX-License-Identifier: MIT
 *
 * The state file of `tidings watch --state`: a JSON object on one line with the server and, for
 * each URI, the cursor to resume from.
 *
 *     {"watch":1,"server":"http://…","subscriptions":[{"uri":"file:///a","cursor":"…"}]}
 *
 * It is replaced atomically (written to a temporary file, then renamed), readable only by its user
 * (mode 0600), and locked while a watch uses it.
 */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include <stdio.h>

#include <tidings/types.h>

#define WATCH_STATE_BYTES (16u << 20) /* of the file */
#define WATCH_STATE_MAX 1000u         /* URIs */
#define WATCH_STATE_CURSOR 512u

struct watch_mark {
    char *uri;
    char cursor[WATCH_STATE_CURSOR]; /* "": unknown */
};

/* Zeroed: nothing. */
struct watch_state {
    char *server;
    struct watch_mark *marks;
    size_t count;
};

void watch_state_deinit(struct watch_state *s);
/* TIDINGS_E_PARSE: invalid; TIDINGS_E_NOMEM. */
int watch_state_parse(struct tidings_str text, struct watch_state *ret, struct tidings_error *err);
void watch_state_write(FILE *out, const struct watch_state *s);

/* The file: its path, and a descriptor that holds the lock. */
struct watch_state_file {
    const char *path; /* borrowed */
    int lock;         /* -1: none */
};

/* -------------------------------------------------------------------------------------------------
 * The options of a subscription (docs/reference/subscriptions.md) from the command line, for
 * `tidings watch`. tidings servers support them; other servers ignore them.
 */

enum include {
    INCLUDE_NONE = 0,
    INCLUDE_METADATA = 1,
    INCLUDE_VALUE = 2,
    INCLUDE_PATCH = 3,
};
enum match {
    MATCH_AUTO = 0,
    MATCH_LITERAL = 1,
    MATCH_CONTAINER = 2,
    MATCH_TEMPLATE = 3,
    MATCH_GLOB = 4,
    MATCH_REGEX = 5,
};
/* As they are spelled, NULL at the end. */
extern const char *const include_names[], *const match_names[], *const detail_names[];

struct subscribe_options {
    const char *options; /* a JSON object; the fields below override its members */
    const char *since, *filter;
    unsigned include, match, detail;
    bool is_initial, has_window, has_rate, has_detail;
    uint64_t window_ms, rate_ms;
};

#endif
