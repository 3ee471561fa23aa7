/* SPDX-License-Identifier: MIT
 *
 * Metadata documents of a protected resource (RFC 9728: which authorization servers issue tokens
 * for it) and of an authorization server (RFC 8414, OpenID Connect Discovery). Everything is
 * checked before use: a document for another resource or issuer, or with addresses where a secret
 * must not go, is rejected.
 */
#ifndef CLIENT_OAUTH_DOCUMENTS_H
#define CLIENT_OAUTH_DOCUMENTS_H

#include "base/str.h"
#include "formats/json.h"
#include "security/signature.h"

struct resource_metadata {
    char *resource;   /* as it must be named in requests, to the letter */
    char *issuer;     /* the authorization server to use */
    char *scopes;     /* with blanks between; NULL: not said */
    bool wants_proof; /* of the key that a token is bound to (DPoP, RFC 9449) */
};

/* The choice among the issuers that a resource names. */
struct issuer_choice {
    const char *only;      /* only this one; NULL: any */
    const char *preferred; /* this one if listed; NULL: the first */
};

/* `server`: the requested URL, which must be the resource or lie below it. TIDINGS_E_PARSE,
 * TIDINGS_E_DENIED: for another resource, an unsafe address, or not of the wanted issuer. */
int resource_metadata_read(struct tidings_str text, const char *server,
                           const struct issuer_choice *choice, struct resource_metadata *ret,
                           struct tidings_error *err);
void resource_metadata_deinit(struct resource_metadata *m); /* all zero: fine */

/* Client authentication at the token endpoint, as bits. */
enum client_auth {
    CLIENT_AUTH_NONE = 1,
    CLIENT_AUTH_BASIC = 2, /* client_secret_basic */
    CLIENT_AUTH_POST = 4,  /* client_secret_post */
    CLIENT_AUTH_KEY = 8,   /* private_key_jwt */
};

struct server_metadata {
    char *issuer;
    char *authorization_endpoint, *token_endpoint; /* NULL: not said, as all below */
    char *registration_endpoint, *device_endpoint, *revocation_endpoint;
    char *scopes;
    unsigned auth_methods;  /* enum client_auth; 0: not said */
    bool has_s256;          /* PKCE with SHA-256 */
    bool sends_issuer;      /* in its answers at the redirect (RFC 9207) */
    bool takes_client_urls; /* a URL of a document as client id */
    bool takes_proofs;      /* DPoP with ES256 */
    bool lists_grants;      /* whether it lists its supported grants */
    bool has_client_grant, has_assertion_grant;
};

/* `issuer`: the expected issuer, which the document must name exactly. */
int server_metadata_read(struct tidings_str text, const char *issuer, struct server_metadata *ret,
                         struct tidings_error *err);
/* For a server without a document (revision 2025-03-26): /authorize, /token and /register at its
 * origin. */
int server_metadata_guess(struct tidings_str origin, struct server_metadata *ret,
                          struct tidings_error *err);
void server_metadata_deinit(struct server_metadata *m); /* all zero: fine */

/* -------------------------------------------------------------------------------------------------
 * Dynamic registration of a client (RFC 7591): the request, and the answer.
 */

struct registration_request {
    const char *client_name;
    const char *redirect_uri; /* NULL: none is used */
    enum client_auth method;
    const char *grant; /* the first of grant_types; refresh_token is the second */
};
/* The JSON body. Scopes are left out: the authorization server may not know those of the server,
 * and the client may want more later. */
int registration_put(struct buf *out, const struct registration_request *r);

struct registration {
    char *client_id;
    char *client_secret; /* NULL: none */
    unsigned method;     /* enum client_auth; 0: not said */
};
int registration_read(long status, struct tidings_str text, struct registration *ret,
                      struct tidings_error *err);
void registration_deinit(struct registration *r);

/* The bit of a method's name, and its name. 0 and NULL: not known. */
unsigned client_auth_find(struct tidings_str name);
const char *client_auth_name(unsigned bit);

/* -------------------------------------------------------------------------------------------------
 * JSON documents of authorization servers: reads members within limits, and makes untrusted strings
 * safe for a terminal.
 */

#define DOCUMENT_MAX (256u << 10) /* bytes of one answer */

/* A JSON object, to be unref'ed. `what` names it in the error. */
int document_read(struct tidings_str text, const char *what, struct json **ret,
                  struct tidings_error *err);
/* A copy of a member that is a string of visible ASCII, of at most `max` bytes, to be mem_free'd:
 * *ret NULL when it is absent or null. TIDINGS_E_PARSE, TIDINGS_E_NOMEM. */
int document_text(const struct json *document, const char *name, size_t max, char **ret,
                  struct tidings_error *err);
/* The same for a URL a secret may be sent to (formats/url.h). */
int document_url(const struct json *document, const char *name, char **ret,
                 struct tidings_error *err);

/* Copies up to `size` - 1 bytes of an untrusted string; bytes that are not visible ASCII become
 * '?'. */
const char *document_shown(struct tidings_str text, char *out, size_t size);

/* -------------------------------------------------------------------------------------------------
 * Signatures of a client: assertions that authenticate it (private_key_jwt, RFC 7523), and proofs
 * that it has the key a token is bound to (DPoP, RFC 9449). This part also makes the random strings
 * of OAuth: states and the verifiers of PKCE (RFC 7636).
 */

#define RANDOM_TEXT_MAX 44u /* 32 bytes in base64url, and a NUL */

/* A JWT that authenticates this client; valid for a minute. */
int assertion_put(struct buf *out, const struct private_key *key, const char *client_id,
                  const char *audience);

struct proof {
    const char *method, *url; /* the request that it is sent with */
    const char *token;        /* shown in it; NULL: none */
    const char *nonce;        /* that the server asked for; NULL or "": none */
};
int proof_put(struct buf *out, const struct private_key *key, const struct proof *proof);

/* 256 random bits. TIDINGS_E_IO. */
int random_text(char out[RANDOM_TEXT_MAX]);
/* The challenge of a verifier, by S256. */
int pkce_put_challenge(struct buf *out, const char *verifier);

/* -------------------------------------------------------------------------------------------------
 * A token with all data to use, renew and revoke it; and the answer of a token endpoint from which
 * it is made (RFC 6749 §5).
 */

#define TOKEN_TEXT_MAX 16384u

struct token {
    char *resource; /* the server's own name for itself; the token is valid there */
    char *issuer, *token_endpoint;
    char *revocation_endpoint; /* NULL: none */
    char *client_id;
    char *client_secret;  /* NULL: none */
    unsigned client_auth; /* enum client_auth of client/oauth/documents.h */
    char *access;
    char *refresh;      /* NULL: none */
    char *scope;        /* that was asked for and granted; "": not said */
    char *key;          /* PEM: the token is bound to it (DPoP); NULL: it is not */
    int64_t expires_ms; /* clock_wall_ms; 0: not said */
    int64_t life_ms;    /* lifetime at receipt; 0: unknown */
    bool is_bound;      /* shown with a proof, as `DPoP` */
};

void token_deinit(struct token *t);                         /* wipes; all zero is fine */
int token_copy(struct token *to, const struct token *from); /* TIDINGS_E_NOMEM */

/* An answer of a token endpoint. */
struct token_answer {
    char *access, *refresh, *scope; /* the last two NULL: not said */
    int64_t expires_s;              /* negative: not said */
    bool is_bound;
    char error[64]; /* the code of a refusal: "invalid_grant"; "": another failure */
};

/* `is_assertion`: the expected result is an assertion for another endpoint, not an access token
 * (RFC 8693, issued as an ID-JAG). TIDINGS_E_DENIED with the endpoint's message, `error` is set;
 * TIDINGS_E_PARSE. */
int token_answer_read(long status, struct tidings_str text, bool is_assertion,
                      struct token_answer *ret, struct tidings_error *err);
void token_answer_deinit(struct token_answer *a); /* wipes */

/* -------------------------------------------------------------------------------------------------
 * Scopes: words separated by blanks (RFC 6749 §3.3), as sets.
 */

#define SCOPE_MAX 4096u
#define SCOPES_MAX (4 * SCOPE_MAX) /* bytes of a list, including duplicates */

/* Returns true if every word of `part` is in `all`. */
bool scope_has(struct tidings_str all, struct tidings_str part);
/* Appends the valid scopes of `more` that `all` lacks. */
void scope_add(struct buf *all, struct tidings_str more);

#endif
