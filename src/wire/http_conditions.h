/* SPDX-License-Identifier: MIT
 *
 * Conditional requests (RFC 9110 §13), their preconditions judged in the order of §13.2.2:
 * If-Match, or without one If-Unmodified-Since; then If-None-Match, which is not looked at here but
 * keeps If-Modified-Since from counting.
 *
 * Dates have whole seconds, and something may change twice in one. So Last-Modified is never the
 * second that is not over yet, but the one before: whoever holds that date is sent what is there.
 * Without I/O.
 */
#ifndef WIRE_HTTP_CONDITIONS_H
#define WIRE_HTTP_CONDITIONS_H

#include "wire/http.h"

struct http_conditions {
    struct tidings_str if_match; /* the field; .ptr NULL: there is none */
    bool has_unmodified_since, has_modified_since;
    int64_t unmodified_since, modified_since; /* seconds */
};

enum http_condition {
    HTTP_CONDITION_HOLDS,
    HTTP_CONDITION_FAILED,    /* 412 */
    HTTP_CONDITION_UNCHANGED, /* 304 */
};

/* A date that is none, comes twice, or (If-Modified-Since) lies ahead of `now_ms` does not count,
 * nor does one that another field takes the place of. Slices point into the request. */
void http_conditions_read(struct http_conditions *c, const struct http_request *req,
                          int64_t now_ms);
/* Of what is there: its etag as resources have it (weak: "W/…"; empty: none) and Unix time (0: not
 * known). A weak one is not taken for unchanged. */
enum http_condition http_conditions_judge(const struct http_conditions *c, struct tidings_str etag,
                                          int64_t modified_ms);
/* What Last-Modified says of it, in seconds: neither in the future nor the present second. */
int64_t http_last_modified(int64_t modified_ms, int64_t now_ms);

#endif
