/* SPDX-License-Identifier: MIT
 *
 * Failed requests of one worker: counted by method and code, and logged.
 *
 * Both are bounded whatever clients do. There is a row for each existing method (all others share
 * one), code and cause that occurred; when FAILURES_ROWS are used, new combinations share one row.
 * The log gets a line per second for each row, and FAILURES_LINES per second for all refusals and
 * for all other failures, with a burst. Dropped lines are counted; the next line of the row, or a
 * separate line shortly after, reports their number.
 *
 * Only this module formats such lines. Client input is quoted, escaped and truncated in them;
 * tokens and contents are never passed to it.
 */
#ifndef SECURITY_FAILURES_H
#define SECURITY_FAILURES_H

#include <tidings/types.h>

#include "base/rate.h"

#define FAILURES_ROWS 128u
#define FAILURES_LINES 1u /* log lines per second, … */
#define FAILURES_BURST 20u

struct jw;
struct principal;

enum failure_kind {
    FAILURE_RPC,    /* a JSON-RPC error: `code` */
    FAILURE_HTTP,   /* rejected before JSON-RPC: `code` is the HTTP status */
    FAILURE_CLOSE,  /* a closed WebSocket: `code` */
    FAILURE_RESULT, /* a result with isError; `code` is 0 */
};

/* Why a request was refused; an ordinary failure (not found, invalid parameters) is not a refusal.
 */
enum failure_cause {
    FAILURE_ORDINARY,
    FAILURE_AUTHENTICATION, /* missing, invalid or expired token */
    FAILURE_ACCESS,         /* the rules do not allow it */
    FAILURE_LIMIT,
    FAILURE_HOST,
    FAILURE_ORIGIN,
    FAILURE_MALFORMED, /* invalid JSON-RPC or HTTP */
};

struct failure {
    enum failure_kind kind;
    enum failure_cause cause;
    const char *method; /* JSON-RPC method or HTTP path; static. NULL: unknown */
    int code;
    bool is_ours;              /* the server's fault: a warning, like refusals */
    struct tidings_str reason; /* the error message sent to the client */
    /* the HTTP path without its query, if nothing exists there; or empty */
    struct tidings_str path;
    struct tidings_str uri; /* of the resource that was requested outside JSON-RPC; or empty */
    const struct principal *principal;
};

struct failure_row {
    enum failure_kind kind;
    enum failure_cause cause;
    int code;
    const char *method;
    uint64_t count;
    uint64_t logged_ms; /* 0: never */
    uint64_t left_out;  /* log lines since then */
};

/* The newest failure, for operators; client input is truncated. */
struct failure_last {
    int64_t at_ms; /* Unix time; 0: nothing failed yet */
    enum failure_kind kind;
    enum failure_cause cause;
    int code;
    const char *method;
    bool has_path;  /* `about` is an HTTP path, else a URI */
    char about[96]; /* or empty */
    char reason[160], address[64];
};
/* `{"atMs", "method", "path" or "uri", "code", "cause", "reason", "address"}`, named like those of
 * rows and log lines. */
void failure_last_write(const struct failure_last *last, struct jw *w);

/* All zero: no failure yet. */
struct failures {
    struct failure_last last;
    size_t row_count;
    /* the last row counts everything that found no row */
    struct failure_row rows[FAILURES_ROWS + 1];
    struct token_bucket lines, refusal_lines;
    uint64_t due_ms; /* when to call failures_say_left_out; 0: no lines were dropped */
};

/* Counts a failure. Returns the row if a log line is due, else NULL. */
struct failure_row *failures_count(struct failures *f, const struct failure *failure,
                                   uint64_t now_ms);
/* Records the newest failure, with the client's address. */
void failures_note(struct failures *f, const struct failure *failure, struct tidings_str address,
                   int64_t wall_ms);
/* Writes the log line. */
void failures_log(struct failure_row *row, const struct failure *failure,
                  struct tidings_str address);
/* Logs how many lines were dropped, if the rate allows it, and sets the time of the next call. */
void failures_say_left_out(struct failures *f, uint64_t now_ms);
/* Writes a row of tidings://self/failures for each: {"worker", "method", "count"}, "code",
 * "status", "close" or "isError", and "cause" of refusals. */
void failures_write(const struct failures *f, unsigned worker, struct jw *w);

#endif
