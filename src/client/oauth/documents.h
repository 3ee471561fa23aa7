/* SPDX-License-Identifier: MIT
 *
 * What a server says of who may give tokens for it (RFC 9728), and what an authorization server
 * says of itself (RFC 8414, OpenID Connect Discovery). Everything is checked before it is believed:
 * a document that speaks for another resource or issuer, or of addresses where a secret must not
 * go, is refused.
 */
#ifndef CLIENT_OAUTH_DOCUMENTS_H
#define CLIENT_OAUTH_DOCUMENTS_H

#include "base/str.h"
#include "formats/json.h"
#include "security/signature.h"

struct resource_metadata {
    char *resource;   /* as it must be named in requests, to the letter */
    char *issuer;     /* the authorization server to ask */
    char *scopes;     /* with blanks between; NULL: not said */
    bool wants_proof; /* of the key that a token is bound to (DPoP, RFC 9449) */
};

/* Which of the issuers that a resource names. */
struct issuer_choice {
    const char *only;      /* this one; NULL: any */
    const char *preferred; /* this one if it is among them; NULL: the first */
};

/* `server`: the URL that was asked, which the resource must be or cover. TIDINGS_E_PARSE,
 * TIDINGS_E_DENIED: for another resource, an address that is not safe, or not of the issuer that is
 * wanted. */
int resource_metadata_read(struct tidings_str text, const char *server,
                           const struct issuer_choice *choice, struct resource_metadata *ret,
                           struct tidings_error *err);
void resource_metadata_deinit(struct resource_metadata *m); /* all zero: fine */

/* How a client shows who it is at the token endpoint, as bits. */
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
    bool lists_grants;      /* whether it says which grants it knows */
    bool has_client_grant, has_assertion_grant;
};

/* `issuer`: who was asked, which must be who answers, to the letter. */
int server_metadata_read(struct tidings_str text, const char *issuer, struct server_metadata *ret,
                         struct tidings_error *err);
/* Of one without a document (revision 2025-03-26): /authorize, /token and /register at its origin.
 */
int server_metadata_guess(struct tidings_str origin, struct server_metadata *ret,
                          struct tidings_error *err);
void server_metadata_deinit(struct server_metadata *m); /* all zero: fine */

/* -------------------------------------------------------------------------------------------------
 * Dynamic registration of a client (RFC 7591): what is asked for, and what comes back.
 */

struct registration_request {
    const char *client_name;
    const char *redirect_uri; /* NULL: none is used */
    enum client_auth method;
    const char *grant; /* the first of grant_types; refresh_token is the second */
};
/* The JSON body. Scopes are not named: those of the server may be unknown to the authorization
 * server, and more may be wanted later. */
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
 * JSON documents of authorization servers: members taken out with their limits, and what strangers
 * wrote made fit for a terminal.
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

/* Up to `size` - 1 bytes of what a stranger wrote; what is no visible ASCII becomes '?'. */
const char *document_shown(struct tidings_str text, char *out, size_t size);

/* -------------------------------------------------------------------------------------------------
 * What a client signs: assertions that show who it is (private_key_jwt, RFC 7523), and proofs that
 * it has the key a token is bound to (DPoP, RFC 9449). Also the random texts of OAuth: states and
 * the verifiers of PKCE (RFC 7636).
 */

#define RANDOM_TEXT_MAX 44u /* 32 bytes in base64url, and a NUL */

/* A JWT that says that this client is this client; good for a minute. */
int assertion_put(struct buf *out, const struct private_key *key, const char *client_id,
                  const char *audience);

struct proof {
    const char *method, *url; /* of the request that it goes along with */
    const char *token;        /* shown in it; NULL: none */
    const char *nonce;        /* that the server asked for; NULL or "": none */
};
int proof_put(struct buf *out, const struct private_key *key, const struct proof *proof);

/* 256 random bits. TIDINGS_E_IO. */
int random_text(char out[RANDOM_TEXT_MAX]);
/* The challenge of a verifier, by S256. */
int pkce_put_challenge(struct buf *out, const char *verifier);

/* -------------------------------------------------------------------------------------------------
 * A token with all that is needed to use it, to renew it and to give it back; and the answer of a
 * token endpoint that it is made of (RFC 6749 §5).
 */

#define TOKEN_TEXT_MAX 16384u

struct token {
    char *resource; /* as the server names itself; what the token is good for */
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

/* -------------------------------------------------------------------------------------------------
 * Scopes: words separated by blanks (RFC 6749 §3.3), as sets.
 */

#define SCOPE_MAX 4096u
#define SCOPES_MAX (4 * SCOPE_MAX) /* bytes of a list, with what is said twice */

/* Is every word of `part` in `all`? */
bool scope_has(struct tidings_str all, struct tidings_str part);
/* Append the words of `more` that are not there yet and may be scopes. */
void scope_add(struct buf *all, struct tidings_str more);

#endif
