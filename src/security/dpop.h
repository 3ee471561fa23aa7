/* SPDX-License-Identifier: MIT
 *
 * DPoP proofs (RFC 9449): they prove that the sender of a key-bound token holds the key. A proof is
 * a JWT for one request, signed with a key that it contains.
 *
 *     why = dpop_check(d, &request, now, &proof);  // signature, request, age
 *     // ... verify the token and compare its key with proof.key
 *     use = dpop_use(d, &proof, name, now);        // not used before, on any thread
 *
 * A proof is valid for a minute before and after its creation time, and only once. Used proofs are
 * remembered that long, in a lock-free table of 1,048,576 entries for all keys (8 MiB, allocated
 * when the first proof arrives). A proof is rejected if there is no room for it, or if its
 * principal has used DPOP_SHARE proofs within about two minutes. Each process (node) has its own
 * table.
 *
 * With DPOP_NONCE a proof must also contain a nonce that this server issued within the last five
 * minutes, so that proofs cannot be made in advance. A nonce is computed from the time and a secret
 * of this process: nothing is stored.
 */
#ifndef SECURITY_DPOP_H
#define SECURITY_DPOP_H

#include "base/hash.h"
#include "base/str.h"

#define DPOP_KEY_TEXT 44u /* the SHA-256 of a key (RFC 7638) in base64url, and a NUL */
#define DPOP_NONCE_TEXT 44u
#define DPOP_PROOF_MAX 4096u /* bytes of a proof */
/* Maximum proofs of one principal, an eighth of the table: 1,024 per second. */
#define DPOP_SHARE (1u << 17)

/* Accepted algorithms by their JOSE names, as JSON and separated by blanks. */
#define DPOP_ALGORITHMS_JSON                                                                       \
    "[\"ES256\",\"ES384\",\"ES512\",\"EdDSA\",\"PS256\",\"PS384\",\"PS512\",\"RS256\",\"RS384\","  \
    "\"RS512\"]"
#define DPOP_ALGORITHMS "ES256 ES384 ES512 EdDSA PS256 PS384 PS512 RS256 RS384 RS512"

enum dpop_mode {
    DPOP_ACCEPT,  /* tokens may be bound to a key */
    DPOP_REQUIRE, /* tokens must be bound */
    DPOP_NONCE,   /* … and proofs must contain a nonce */
};

struct dpop;
/* `origin`, `path`: this server's address as clients see it, "https://host:1" and "/mcp", or as a
 * proxy maps it: "/below/mcp". */
int dpop_create(struct dpop **ret, struct tidings_str origin, struct tidings_str path,
                enum dpop_mode mode, struct tidings_error *err);
void dpop_destroy(struct dpop *d); /* NULL is fine */
bool dpop_is_required(const struct dpop *d);

struct dpop_request {
    struct tidings_str proof; /* the field DPoP */
    struct tidings_str method, path;
    struct tidings_str token; /* the token sent with it */
};

struct dpop_proof {
    char key[DPOP_KEY_TEXT]; /* the key that signed it; "": no proof */
    uint64_t id;             /* of the proof */
    int64_t until_ms;        /* expiry in Unix time */
    bool wants_nonce;        /* valid except for a missing or unknown nonce */
};

/* Any thread. NULL: the proof itself is valid, and *ret is filled. Otherwise a static error message
 * fit for error_description. */
const char *dpop_check(const struct dpop *d, const struct dpop_request *request, int64_t now_ms,
                       struct dpop_proof *ret);

enum dpop_use { DPOP_FRESH, DPOP_USED, DPOP_FULL };
/* Any thread. Marks the proof as used by the principal of that name. */
enum dpop_use dpop_use(struct dpop *d, const struct dpop_proof *proof, struct tidings_str who,
                       int64_t now_ms);

/* Any thread. The nonce that the next proofs must contain; false: none. */
bool dpop_put_nonce(const struct dpop *d, int64_t now_ms, char out[DPOP_NONCE_TEXT]);

/* Copies the key of the claim `cnf` into `out` ("" without the claim). NULL, or a static error
 * message. */
struct json;
const char *dpop_read_binding(const struct json *claims, char out[DPOP_KEY_TEXT]);

#endif
