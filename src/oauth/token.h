/* SPDX-License-Identifier: MIT
 *
 * A token with all that is needed to use it, to renew it and to give it back; and the answer of a
 * token endpoint that it is made of (RFC 6749 §5).
 */
#ifndef OAUTH_TOKEN_H
#define OAUTH_TOKEN_H

#include "base/str.h"

#define TOKEN_TEXT_MAX 16384u

struct token {
    char *resource; /* as the server names itself; what the token is good for */
    char *issuer, *token_endpoint;
    char *revocation_endpoint; /* NULL: none */
    char *client_id;
    char *client_secret;  /* NULL: none */
    unsigned client_auth; /* enum client_auth of oauth/metadata.h */
    char *access;
    char *refresh;      /* NULL: none */
    char *scope;        /* that was asked for and granted; "": not said */
    char *key;          /* PEM: the token is bound to it (DPoP); NULL: it is not */
    int64_t expires_ms; /* clock_wall_ms; 0: not said */
    int64_t life_ms;    /* from when it came until then; 0: not known */
    bool is_bound;      /* shown with a proof, as `DPoP` */
};

void token_deinit(struct token *t);                         /* wipes; all zero: fine */
int token_copy(struct token *to, const struct token *from); /* TIDINGS_E_NOMEM */

/* An answer of a token endpoint. */
struct token_answer {
    char *access, *refresh, *scope; /* the last two NULL: not said */
    int64_t expires_s;              /* negative: not said */
    bool is_bound;
    char error[64]; /* the code of a refusal: "invalid_grant"; "": another failure */
};

/* `is_assertion`: what is asked for is no token to be shown but an assertion for another endpoint
 * (RFC 8693, issued as an ID-JAG). TIDINGS_E_DENIED with what the endpoint says, `error` is set;
 * TIDINGS_E_PARSE. */
int token_answer_read(long status, struct tidings_str text, bool is_assertion,
                      struct token_answer *ret, struct tidings_error *err);
void token_answer_deinit(struct token_answer *a); /* wipes */

#endif
