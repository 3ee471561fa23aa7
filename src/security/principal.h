/* SPDX-License-Identifier: MIT
 *
 * A principal: the identity of a client as the transport found it, with the kind of authentication,
 * a name, the scopes it was granted and the expiry. NULL is the program itself (standard input,
 * in-process): it may do everything.
 *
 * A transport creates one when a request begins and passes it to its channel, which holds it until
 * the next one:
 *
 *     struct principal_spec spec = {
 *         .kind = PRINCIPAL_TOKEN, .name = sub, .scopes = scopes, .scope_count = n,
 *         .expires_ms = exp * 1000,
 *     };
 *     const struct principal *principal = NULL;
 *     int rc = principal_intern(worker, &spec, &principal, err); // no memory: 503; invalid: 401
 *     channel_set_principal(channel, principal);                 // takes its own reference
 *     principal_unref(principal);
 *
 * Requests, sessions and streams that begin then hold it too. Each request has its own bearer
 * token, so the channel's principal can change with each; a session adopts the newest one of the
 * same kind and name (principal_is_same), whatever its scopes and expiry.
 *
 * Equal principals are interned per worker, so a stream costs no more memory for having one. They
 * are freed with their last holder, so there are never more than holders. Immutable. Only the
 * worker's thread changes reference counts; any thread may read a principal that is held for it.
 *
 * When a principal expires, the worker ends its streams within half a second, gracefully (listens
 * with their result; a session is kept, and a client with a valid token can resume it). The
 * transport checks requests: with principal_is_expired, or by not interning such a token.
 */
#ifndef SECURITY_PRINCIPAL_H
#define SECURITY_PRINCIPAL_H

#include <tidings/types.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"

#define PRINCIPAL_MAX 256u       /* bytes of a name, including the NUL */
#define PRINCIPAL_MAX_SCOPES 64u /* number of scopes, and … */
#define PRINCIPAL_SCOPE_MAX 256u /* … bytes of each */

struct access_class;
struct access_rules;
struct buf;
struct client_accounts;
struct loop;
struct principals;
struct quotas;
struct jw;
struct quota;
struct client_account;

/* How it was authenticated. Equal names of different kinds are different principals. */
enum principal_kind {
    PRINCIPAL_ANONYMOUS,   /* not authenticated; empty name, its address is not an identity */
    PRINCIPAL_USER,        /* user of a Unix socket: "uid:1000" */
    PRINCIPAL_CERTIFICATE, /* subject of a client certificate: "CN=alice" */
    PRINCIPAL_TOKEN,       /* subject of a token */
};

struct principal {
    enum principal_kind kind;
    struct tidings_str name; /* NUL-terminated */
    size_t scope_count;
    const struct tidings_str *scopes;
    int64_t expires_ms;         /* Unix time; 0: never */
    uint64_t proof;             /* as in its spec */
    struct access_class *class; /* a reference: its access; NULL: there are no rules */
    /* private */
    unsigned refs;
    struct principals *all; /* its table; NULL: removed, because the rules changed */
    struct tidings_str key;
    struct quota *quota;            /* held; NULL: limited by its address */
    struct client_account *account; /* held; NULL: anonymous, or out of memory */
};

struct principal_spec {
    enum principal_kind kind;
    struct tidings_str name;          /* not empty, except for ANONYMOUS; no control characters */
    const struct tidings_str *scopes; /* in any order; duplicates count once */
    size_t scope_count;
    int64_t expires_ms; /* Unix time; 0: never */
    /* identifies the key that signed its token, which the issuer can withdraw
     * (auth_proof_is_valid); 0: cannot be withdrawn */
    uint64_t proof;
};

/* Returns a reference to the principal equal to `spec` on this worker. TIDINGS_E_LIMIT: name or
 * scopes too long or too many; TIDINGS_E_INVALID: invalid name; TIDINGS_E_NOMEM. */
int principal_intern(struct principals *all, const struct principal_spec *spec,
                     const struct principal **ret, struct tidings_error *err);
const struct principal *principal_ref(const struct principal *p); /* NULL is fine, here … */
void principal_unref(const struct principal *p);                  /* … and here */

/* Returns true if kind and name are equal; access and expiry are not compared. NULL equals only
 * NULL. */
bool principal_is_same(const struct principal *a, const struct principal *b);
/* Returns true if scopes, expiry and proof are equal too; the rules in force at their creation are
 * ignored. */
bool principal_is_equal(const struct principal *a, const struct principal *b);
/* Replaces *p by the same principal under the current rules: takes the reference and returns one.
 * Nearly always the same object. TIDINGS_E_NOMEM: *p is unchanged. */
int principal_renew(struct principals *all, const struct principal **p);
/* "anonymous", "user", "certificate" or "token". */
const char *principal_kind_name(enum principal_kind kind);
/* How the client was authenticated: "anonymous", "user", "certificate", "token"; for NULL
 * "program". */
const char *principal_by(const struct principal *p);
/* Writes the identity as a value: {"name":"alice","by":"token"}, without "name" if it is empty. For
 * NULL: {"by":"program"}. Different principals have different values. */
void principal_write(struct jw *w, const struct principal *p);
/* Writes the origin of a change: the name that a client gives itself, bound to its principal, so
 * that no other client can claim the same. For NULL, and for programs that announce changes, the
 * name is trusted and unchanged. Writes nothing for an empty one. */
#define ORIGIN_MAX 256u                           /* bytes of the client's own name */
#define PRINCIPAL_ORIGIN_MAX (PRINCIPAL_MAX + 2u) /* bytes added by the principal */
void principal_put_origin(const struct principal *p, struct tidings_str origin, struct buf *out);
bool principal_has_scope(const struct principal *p, struct tidings_str scope);
typedef bool (*principal_test_fn)(void *user, const struct principal *p);
/* Returns true if it has expired at that Unix time. */
bool principal_is_expired(const struct principal *p, int64_t now_ms);

/* The principals of a worker. */
struct principals {
    struct loop *loop;                       /* clock */
    struct quotas *quotas;                   /* of the whole server */
    struct client_accounts *client_accounts; /* of the whole server */
    struct access_rules *rules;              /* a reference; NULL: everything is allowed */
    struct map by_key;
    struct list classes;    /* struct access_class (security/access.h) */
    int64_t next_expiry_ms; /* no principal expires before; 0: none ever expires */
};

void principals_init(struct principals *all, struct loop *loop, struct quotas *quotas,
                     struct client_accounts *client_accounts);
/* principals that are still held lose their place in the table */
void principals_deinit(struct principals *all);
/* Removes all principals from the table: their holders replace them (principal_renew). */
void principals_forget(struct principals *all);
/* Finds the next expiry. */
void principals_find_expiry(struct principals *all, int64_t now_ms);

/* -------------------------------------------------------------------------------------------------
 * The identity behind a token: name, scopes, expiry. Verifiers create identities, a cache
 * (security/token_cache.h) keeps them.
 */

#define AUTH_TOKEN_MAX 8192u /* bytes of a token; a longer one is malformed */
#define AUTH_KEY_TEXT 44u    /* thumbprint of a key (RFC 7638), and a NUL */
#define AUTH_NAME_MAX 255u   /* bytes of a name; a longer one makes its token invalid */
#define AUTH_SCOPES_MAX 64u  /* per token, each of at most AUTH_SCOPE_MAX bytes, … */
#define AUTH_SCOPE_MAX 255u
#define AUTH_SCOPE_BYTES 2048u /* … and their total bytes */

enum auth_kind { AUTH_BY_FILE, AUTH_BY_JWT, AUTH_BY_INTROSPECTION };

/* The public part of an identity. */
struct auth_identity {
    /* `sub`, else `client_id`; for a token file, the name there. UTF-8 without control characters,
     * never empty. With several issuers: issuer, blank, name. */
    struct tidings_str name;
    const struct tidings_str *scopes; /* in the order of the token */
    size_t scope_count;
    int64_t expires_ms; /* Unix time at which it expires, leeway included; 0: never */
    enum auth_kind kind;
    /* Its key can be withdrawn (auth_proof_is_valid); 0: it cannot. */
    uint64_t proof;
    /* Valid only with a proof by this key (security/dpop.h); "": not bound to a key. */
    char key[AUTH_KEY_TEXT];
    /* The caller's data for this identity, NULL at first, so that it is created once per token.
     * Released with the identity, by the function the cache was created with. */
    void *attached;
};

struct identity {
    struct auth_identity is;
    /* Private to the cache. */
    struct list link;
    int64_t until_ms; /* remembered until then; 0: until it expires */
    unsigned char digest[SHA256_BYTES];
};

/* Collects scopes from several sources; borrowed strings, bounded as above. */
struct scope_list {
    struct tidings_str items[AUTH_SCOPES_MAX];
    size_t count, bytes;
};

/* False: invalid scope syntax (RFC 6749 §3.3), or too many. Duplicates are omitted. */
bool scope_list_add(struct scope_list *l, struct tidings_str scope);
/* Adds several scopes separated by blanks. */
bool scope_list_add_all(struct scope_list *l, struct tidings_str scopes);

/* Returns true if it is UTF-8 without control characters, not empty, and not longer than `max`. */
bool identity_is_name(struct tidings_str name, size_t max);

/* Returns true if the whole name is short enough. */
bool identity_fits(struct tidings_str issuer, struct tidings_str name);

/* `issuer` empty: the name is used as it is. Everything is copied. NULL: out of memory. */
struct identity *identity_create(struct tidings_str issuer, struct tidings_str name,
                                 const struct scope_list *scopes, int64_t expires_ms,
                                 enum auth_kind kind);
void identity_destroy(struct identity *i); /* NULL is fine; the cache owns what is attached */

#endif
