/* SPDX-License-Identifier: MIT
 *
 * The result of verifying a token: an identity, or why there is none, or what has to be fetched
 * before that can be said.
 */
#ifndef AUTH_VERDICT_H
#define AUTH_VERDICT_H

#include "auth/identity.h"

enum auth_outcome {
    AUTH_OK,
    AUTH_MALFORMED,   /* not of the form of a token at all (RFC 6750: invalid_request) */
    AUTH_INVALID,     /* expired, forged, for somebody else, unknown (invalid_token) */
    AUTH_UNAVAILABLE, /* cannot be found out now; ask again later */
};

enum verdict_need { VERDICT_FINAL, VERDICT_NEEDS_KEYS, VERDICT_NEEDS_INTROSPECTION };

struct verdict {
    enum auth_outcome outcome; /* not final: what it is when nothing more can be learnt */
    const char *why;           /* as auth_answer.description */
    struct identity *identity; /* AUTH_OK: the receiver's */
    enum verdict_need need;
    size_t issuer; /* whose keys */
};

#endif
