/* SPDX-License-Identifier: MIT
 *
 * Proofs that whoever shows a token that is bound to a key has that key (DPoP, RFC 9449): a JWT for
 * one request, signed with the key that it holds itself.
 *
 *     why = dpop_check(d, &request, now, &proof);  // by itself: signature, request, age
 *     // ... the token is verified, and its key compared with proof.key
 *     use = dpop_use(d, &proof, name, now);        // not used before, by whatever thread
 *
 * A proof is good for a minute before and after the time it was made at, and once. Those that were
 * used are remembered for so long, in a table of 1,048,576 (8 MiB, made when the first one comes)
 * for all keys together, without a lock. When there is no room for one, or a principal has used
 * DPOP_SHARE of them within about two minutes, it is not accepted. In several processes (nodes)
 * each has its own.
 *
 * With DPOP_NONCE a proof must also hold a text that we gave within the last five minutes, so that
 * none can be made in advance. It is made of the time and a secret of this process: nothing is
 * kept.
 */
#ifndef SECURITY_DPOP_H
#define SECURITY_DPOP_H

#include "base/hash.h"
#include "base/str.h"

#define DPOP_KEY_TEXT 44u /* the SHA-256 of a key (RFC 7638) in base64url, and a NUL */
#define DPOP_NONCE_TEXT 44u
#define DPOP_PROOF_MAX 4096u /* bytes of a proof */
/* Proofs of one principal, an eighth of the table: 1,024 in a second. */
#define DPOP_SHARE (1u << 17)

/* Accepted, as JOSE names them, in JSON and with blanks. */
#define DPOP_ALGORITHMS_JSON                                                                       \
    "[\"ES256\",\"ES384\",\"ES512\",\"EdDSA\",\"PS256\",\"PS384\",\"PS512\",\"RS256\",\"RS384\","  \
    "\"RS512\"]"
#define DPOP_ALGORITHMS "ES256 ES384 ES512 EdDSA PS256 PS384 PS512 RS256 RS384 RS512"

enum dpop_mode {
    DPOP_ACCEPT,  /* tokens may be bound */
    DPOP_REQUIRE, /* … and must be */
    DPOP_NONCE,   /* … and their proofs hold what we gave */
};

struct dpop;
/* `origin`, `path`: of our address as clients have it, "https://host:1" and "/mcp", or what a proxy
 * makes of that: "/below/mcp". */
int dpop_create(struct dpop **ret, struct tidings_str origin, struct tidings_str path,
                enum dpop_mode mode, struct tidings_error *err);
void dpop_destroy(struct dpop *d); /* NULL is fine */
bool dpop_is_required(const struct dpop *d);

struct dpop_request {
    struct tidings_str proof; /* the field DPoP */
    struct tidings_str method, path;
    struct tidings_str token; /* that is shown with it */
};

struct dpop_proof {
    char key[DPOP_KEY_TEXT]; /* that signed it; "": there is none */
    uint64_t id;             /* of the proof */
    int64_t until_ms;        /* Unix time: good no longer */
    bool wants_nonce;        /* it is good but for the text that we did not give */
};

/* Any thread. NULL: it is good by itself, and *ret is filled. Otherwise a static sentence fit for
 * error_description. */
const char *dpop_check(const struct dpop *d, const struct dpop_request *request, int64_t now_ms,
                       struct dpop_proof *ret);

enum dpop_use { DPOP_FRESH, DPOP_USED, DPOP_FULL };
/* Any thread: it is used now, by the principal of that name. */
enum dpop_use dpop_use(struct dpop *d, const struct dpop_proof *proof, struct tidings_str who,
                       int64_t now_ms);

/* Any thread: what the next proofs must hold; false: nothing. */
bool dpop_put_nonce(const struct dpop *d, int64_t now_ms, char out[DPOP_NONCE_TEXT]);

/* Of the claim `cnf`: its key is put into `out`. NULL, or a static sentence. Without one: "". */
struct json;
const char *dpop_read_binding(const struct json *claims, char out[DPOP_KEY_TEXT]);

#endif
