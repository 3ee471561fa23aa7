/* SPDX-License-Identifier: MIT
 *
 * Bearer tokens in requests and challenges in answers (RFC 6750, RFC 9728), without I/O.
 *
 * What a token means is nobody's business here; slices point into the request.
 */
#ifndef WIRE_BEARER_H
#define WIRE_BEARER_H

#include "wire/http.h"

#define BEARER_TOKEN_MAX 16384u /* bytes of a token */

enum bearer_result {
    BEARER_NONE,  /* no token: no Authorization, or one of another scheme */
    BEARER_TOKEN, /* one, well-formed */
    BEARER_BOUND, /* one, shown as "DPoP TOKEN" (RFC 9449), which wants a proof beside it */
    BEARER_BAD,   /* several, malformed, or in the query */
};

/* The token of a request, and of BEARER_BAD in *why a sentence that says what was wrong. */
enum bearer_result bearer_find(const struct http_request *req, struct tidings_str *token,
                               const char **why);
/* An Authorization field: "Bearer TOKEN" or "DPoP TOKEN", the scheme in any case, one or more
 * blanks, a token of letters, digits, - . _ ~ + / and a tail of '=' (RFC 6750 §2.1). */
enum bearer_result bearer_parse(struct tidings_str field, struct tidings_str *token,
                                const char **why);

/* What is said to whoever may not come in; empty slices are left out. */
struct bearer_challenge {
    struct tidings_str scheme; /* empty: Bearer. Only written */
    struct tidings_str error;  /* "invalid_token" */
    struct tidings_str description;
    struct tidings_str scope;    /* separated by blanks */
    struct tidings_str metadata; /* URL of the protected resource's metadata */
    struct tidings_str algs;     /* of proofs, separated by blanks. Only written */
};
/* `WWW-Authenticate: SCHEME …\r\n`. Values are quoted; what cannot stand in them (anything but
 * visible ASCII and blanks) becomes '?'. */
int bearer_put_challenge(struct buf *out, const struct bearer_challenge *challenge);
/* The first Bearer challenge of a WWW-Authenticate field, which may hold those of other schemes
 * too. Slices point into the field; what was quoted is as it stands there, backslashes and all.
 * Whatever is not understood is passed over. false: there is none. */
bool bearer_read_challenge(struct tidings_str field, struct bearer_challenge *ret);
/* The same for the first challenge of another scheme whose parameters have these names: "DPoP"
 * (RFC 9449). */
bool bearer_read_scheme(struct tidings_str field, struct tidings_str scheme,
                        struct bearer_challenge *ret);
/* TIDINGS_E_DENIED with a sentence for whoever was refused with 401 or 403, of visible ASCII: what
 * the field says they lack, and where to get it. */
int bearer_refused(long status, struct tidings_str field, struct tidings_error *err);

/* May `scope` be a scope: visible ASCII but " and \ (RFC 6749 §3.3), at least one byte? */
bool bearer_is_scope(struct tidings_str scope);

#endif
