/* SPDX-License-Identifier: MIT
 *
 * Requests that failed, on one worker: counted by method and code, and said in the log.
 *
 * Both are bounded whatever clients do. There is a row for each that occurred of a method there is
 * (all others are one), a code and a cause; when FAILURES_ROWS are taken, what is new is counted in
 * one row for all. The log has a line a second for each row and FAILURES_LINES a second for all
 * refusals and for all others, with a burst; what is left out is counted, and said in the next line
 * of its row or, when none comes, in one of its own a moment later.
 *
 * This is the one place that says how such a line looks. What clients wrote is quoted and escaped
 * in it, and cut; tokens and contents are never given to it.
 */
#ifndef SECURITY_FAILURES_H
#define SECURITY_FAILURES_H

#include <tidings/types.h>

#include "base/rate.h"

#define FAILURES_ROWS 128u
#define FAILURES_LINES 1u /* of the log in a second, … */
#define FAILURES_BURST 20u

struct jw;
struct principal;

enum failure_kind {
    FAILURE_RPC,    /* an error of JSON-RPC: `code` */
    FAILURE_HTTP,   /* refused below it: `code` is the status */
    FAILURE_CLOSE,  /* a WebSocket is closed: `code` */
    FAILURE_RESULT, /* a result with isError; 0 */
};

/* Why somebody was refused; an ordinary failure (not found, wrong parameters) is no refusal. */
enum failure_cause {
    FAILURE_ORDINARY,
    FAILURE_AUTHENTICATION, /* who it is: no token, a bad one, an expired one */
    FAILURE_ACCESS,         /* the rules do not allow it */
    FAILURE_LIMIT,
    FAILURE_HOST,
    FAILURE_ORIGIN,
    FAILURE_MALFORMED, /* neither JSON-RPC nor HTTP as it has to be */
};

struct failure {
    enum failure_kind kind;
    enum failure_cause cause;
    const char *method; /* of JSON-RPC, or the path; lives for ever. NULL: none there is */
    int code;
    bool is_ours;              /* the server's fault: a warning, as refusals are */
    struct tidings_str reason; /* the sentence that the client gets */
    struct tidings_str path;   /* of HTTP, without its query, where nothing is; or empty */
    struct tidings_str uri;    /* of the resource that was asked for below JSON-RPC; or empty */
    const struct principal *principal;
};

struct failure_row {
    enum failure_kind kind;
    enum failure_cause cause;
    int code;
    const char *method;
    uint64_t count;
    uint64_t logged_ms; /* 0: never */
    uint64_t left_out;  /* of the log, since then */
};

/* The newest, for whoever looks after the server; what clients wrote is cut. */
struct failure_last {
    int64_t at_ms; /* Unix time; 0: nothing failed yet */
    enum failure_kind kind;
    enum failure_cause cause;
    int code;
    const char *method;
    bool has_path;  /* `about` is a path of HTTP, else a URI */
    char about[96]; /* or empty */
    char reason[160], address[64];
};
/* `{"atMs", "method", "path" or "uri", "code", "cause", "reason", "address"}`, as the rows and
 * lines have them. */
void failure_last_write(const struct failure_last *last, struct jw *w);

/* All zero: nothing failed yet. */
struct failures {
    struct failure_last last;
    size_t row_count;
    struct failure_row rows[FAILURES_ROWS + 1]; /* the last: those that there is no row for */
    struct token_bucket lines, refusal_lines;
    uint64_t due_ms; /* when failures_say_left_out is to be called; 0: nothing was left out */
};

/* Count it. The row, when a line of the log is due; else NULL. */
struct failure_row *failures_count(struct failures *f, const struct failure *failure,
                                   uint64_t now_ms);
/* It is the newest. `address` is where it comes from. */
void failures_note(struct failures *f, const struct failure *failure, struct tidings_str address,
                   int64_t wall_ms);
/* Write the line. */
void failures_log(struct failure_row *row, const struct failure *failure,
                  struct tidings_str address);
/* Say how many were left out, as far as there is room, and when to be called again. */
void failures_say_left_out(struct failures *f, uint64_t now_ms);
/* A row of tidings://self/failures for each: {"worker", "method", "count"} "code",
 * "status", "close" or "isError", and "cause" of refusals. */
void failures_write(const struct failures *f, unsigned worker, struct jw *w);

#endif
