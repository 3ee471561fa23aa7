/* SPDX-License-Identifier: MIT
 *
 * The access log (`--access-log`): a line at `info` for every request when it has been answered,
 * whatever it came on; for what is refused before it is a request; and for HTTP requests beside
 * JSON-RPC.
 *
 * Names and URIs are strangers': the log quotes and escapes them. Never said: tokens, cookies,
 * other headers, bodies, query strings, ids of sessions.
 */
#ifndef REQUEST_ACCESS_LOG_H
#define REQUEST_ACCESS_LOG_H

#include "base/log.h"

struct channel;
struct channel_facts;
struct principal;
struct worker;

/* A number for a request of this worker, unique in a log that many runs write: hexadecimal. */
void access_log_number(struct worker *worker, char out[17]);

/* What lines have in common: a text that is left out; how long it took; where it comes from (NULL:
 * it has gone); the name of a principal that has one. */
#define ACCESS_LOG_NOTHING tidings_strn(NULL, 0)
uint64_t access_log_us(uint64_t begun_ns);
struct tidings_str access_log_address(const struct channel *channel, struct channel_facts *facts);
struct tidings_str access_log_name(const struct principal *principal);

/* What is no struct request: HTTP below JSON-RPC, or a message that is none. What this thread works
 * on (log_enter) is told with it; where that is nothing, it gets a number here. */
struct access_log_line {
    const char *method;        /* of HTTP; NULL: none */
    struct tidings_str path;   /* without its query; `ptr` NULL: none */
    struct tidings_str uri;    /* what it is about; `ptr` NULL: nothing */
    int status;                /* of HTTP; 0: none */
    int code;                  /* of JSON-RPC; 0: none */
    struct tidings_str reason; /* of a refusal, or empty */
    const struct principal *principal;
    uint64_t begun_ns; /* by the monotonic clock; 0: just now */
    size_t bytes_in, bytes_out;
};
void access_log_other(const struct channel *channel, const struct access_log_line *line);

#endif
