/* SPDX-License-Identifier: MIT
 *
 * A principal: who is at the other end, once a transport has found out: how it was found out, a
 * name, the scopes it was given and until when. NULL is the program itself (standard input,
 * in-process): it may do everything.
 *
 * A transport makes one when a request begins and gives it to its channel, which holds it until the
 * next one:
 *
 *     struct principal_spec spec = {
 *         .kind = PRINCIPAL_TOKEN, .name = sub, .scopes = scopes, .scope_count = n,
 *         .expires_ms = exp * 1000,
 *     };
 *     const struct principal *principal = NULL;
 *     int rc = principal_intern(worker, &spec, &principal, err); // no memory: 503; invalid: 401
 *     channel_set_principal(channel, principal);                 // takes a reference of its own
 *     principal_unref(principal);
 *
 * Requests, sessions and streams that begin then hold it too. Each request has a bearer token of
 * its own, so the channel's principal may be another each time; a session goes on with the newest
 * that has the same kind and name (principal_is_same), whatever its scopes and its end.
 *
 * Equal ones are one and the same per worker (interned), so a stream costs no more for having one;
 * they go with their last holder, so there are never more than holders. Immutable. Counting belongs
 * to the thread of the worker; any thread may read one that somebody holds for it.
 *
 * One that has expired: the worker ends its streams within half a second, gracefully (listens with
 * their result; a session stays, and is found again by who comes back with a token that is good).
 * Requests are the transport's: it asks principal_is_expired, or never interns such a token.
 */
#ifndef SECURITY_PRINCIPAL_H
#define SECURITY_PRINCIPAL_H

#include <tidings/types.h>

#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"

#define PRINCIPAL_MAX 256u       /* bytes of a name with its NUL */
#define PRINCIPAL_MAX_SCOPES 64u /* of one, and … */
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

/* How it was found out. Names of different kinds never mean the same. */
enum principal_kind {
    PRINCIPAL_ANONYMOUS,   /* nobody asked; its name is empty, its address no identity */
    PRINCIPAL_USER,        /* of a Unix socket: "uid:1000" */
    PRINCIPAL_CERTIFICATE, /* its subject: "CN=alice" */
    PRINCIPAL_TOKEN,       /* whatever the token says it is for */
};

struct principal {
    enum principal_kind kind;
    struct tidings_str name; /* NUL-terminated */
    size_t scope_count;
    const struct tidings_str *scopes;
    int64_t expires_ms;         /* Unix time; 0: never */
    uint64_t proof;             /* as in its spec */
    struct access_class *class; /* a reference: what it may do; NULL: there are no rules */
    /* private */
    unsigned refs;
    struct principals *all; /* the table it is in; NULL: removed, because the rules changed */
    struct tidings_str key;
    struct quota *quota; /* held; NULL: it is limited like whoever comes from where it does */
    struct client_account *account; /* held; NULL: anonymous, or out of memory */
};

struct principal_spec {
    enum principal_kind kind;
    struct tidings_str name;          /* not empty, except of ANONYMOUS; no control characters */
    const struct tidings_str *scopes; /* in any order; repeated ones count once */
    size_t scope_count;
    int64_t expires_ms; /* Unix time; 0: never */
    uint64_t proof;     /* identifies the key that signed its token, which the issuer may withdraw
                         * (auth_proof_is_valid); 0: nothing that can be withdrawn */
};

/* A reference to the one that is like `spec` on this worker. TIDINGS_E_LIMIT: name or scopes are
 * too long or too many; TIDINGS_E_INVALID: a name that none may have; TIDINGS_E_NOMEM. */
int principal_intern(struct principals *all, const struct principal_spec *spec,
                     const struct principal **ret, struct tidings_error *err);
const struct principal *principal_ref(const struct principal *p); /* NULL is fine, here … */
void principal_unref(const struct principal *p);                  /* … and here */

/* The same somebody: kind and name, not what it may do nor how long. NULL is only like NULL. */
bool principal_is_same(const struct principal *a, const struct principal *b);
/* … and with the same scopes, end and proof: whatever rules either was made by. */
bool principal_is_equal(const struct principal *a, const struct principal *b);
/* Its like by the rules of now, instead of it: takes the reference and gives one. Nearly always the
 * same. TIDINGS_E_NOMEM: nothing happened. */
int principal_renew(struct principals *all, const struct principal **p);
/* "anonymous", "user", "certificate" or "token". */
const char *principal_kind_name(enum principal_kind kind);
/* How it is known who it is: "anonymous", "user", "certificate", "token"; of NULL "program". */
const char *principal_by(const struct principal *p);
/* Who it is, as a value: {"name":"alice","by":"token"}; a name is missing where there is none. Of
 * NULL: {"by":"program"}. No two that are not the same have the same text. */
void principal_write(struct jw *w, const struct principal *p);
/* What a client calls itself as the origin of a change, bound to who it is: nobody else can claim
 * the same. Of NULL, and of programs that announce changes, it stays what it is, and is believed.
 * Nothing is put for an empty one. */
#define ORIGIN_MAX 256u                           /* bytes of what it calls itself */
#define PRINCIPAL_ORIGIN_MAX (PRINCIPAL_MAX + 2u) /* bytes that this adds */
void principal_put_origin(const struct principal *p, struct tidings_str origin, struct buf *out);
bool principal_has_scope(const struct principal *p, struct tidings_str scope);
typedef bool (*principal_test_fn)(void *user, const struct principal *p);
/* At that Unix time. */
bool principal_is_expired(const struct principal *p, int64_t now_ms);

/* The table of a worker. */
struct principals {
    struct loop *loop;                       /* whose time it is */
    struct quotas *quotas;                   /* of the whole server */
    struct client_accounts *client_accounts; /* likewise */
    struct access_rules *rules;              /* a reference; NULL: everybody may do everything */
    struct map by_key;
    struct list classes;    /* struct access_class (security/access.h) */
    int64_t next_expiry_ms; /* nobody expires before; 0: nobody ever */
};

void principals_init(struct principals *all, struct loop *loop, struct quotas *quotas,
                     struct client_accounts *client_accounts);
void principals_deinit(struct principals *all); /* those that are still held lose their place */
/* From now on everybody is another: those who are there lose their place (principal_renew). */
void principals_forget(struct principals *all);
/* When somebody expires next. */
void principals_find_expiry(struct principals *all, int64_t now_ms);

/* -------------------------------------------------------------------------------------------------
 * Whom a token stands for: the name, the scopes, until when. Verifiers make identities, a cache
 * (security/token_cache.h) keeps them.
 */

#define AUTH_TOKEN_MAX 8192u /* bytes of a token; a longer one is malformed */
#define AUTH_KEY_TEXT 44u    /* the name of a key (RFC 7638), and a NUL */
#define AUTH_NAME_MAX 255u   /* bytes of a name; a longer one makes its token invalid */
#define AUTH_SCOPES_MAX 64u  /* of one token, each of at most AUTH_SCOPE_MAX bytes, … */
#define AUTH_SCOPE_MAX 255u
#define AUTH_SCOPE_BYTES 2048u /* … and their bytes together */

enum auth_kind { AUTH_BY_FILE, AUTH_BY_JWT, AUTH_BY_INTROSPECTION };

/* What others see of one. */
struct auth_identity {
    /* `sub`, else `client_id`; of a file, the name there. UTF-8 without control characters, never
     * empty. With more than one issuer: the issuer, a blank, and that. */
    struct tidings_str name;
    const struct tidings_str *scopes; /* in the order of the token */
    size_t scope_count;
    int64_t expires_ms; /* Unix time from which it is not good any more, leeway included; 0: none */
    enum auth_kind kind;
    /* What it was verified with may be withdrawn (auth_proof_is_valid); 0: nothing of that kind. */
    uint64_t proof;
    /* It is good only with a proof by this key (security/dpop.h); "": it is bound to none. */
    char key[AUTH_KEY_TEXT];
    /* The asker's own, NULL at first: what it made of this identity. Released with it (the cache
     * was told how), so that a token seen again costs no second making. */
    void *attached;
};

struct identity {
    struct auth_identity is;
    /* The cache's. */
    struct list link;
    int64_t until_ms; /* remembered no longer; 0: as long as it is good */
    unsigned char digest[SHA256_BYTES];
};

/* Scopes gathered from wherever they stand; borrowed texts, bounded as above. */
struct scope_list {
    struct tidings_str items[AUTH_SCOPES_MAX];
    size_t count, bytes;
};

/* False: not of the form of a scope (RFC 6749 §3.3), or one too many. Repetitions are left out. */
bool scope_list_add(struct scope_list *l, struct tidings_str scope);
/* Several, with blanks between them. */
bool scope_list_add_all(struct scope_list *l, struct tidings_str scopes);

/* UTF-8, no control characters, not empty, and not longer than `max`. */
bool identity_is_name(struct tidings_str name, size_t max);

/* Is the whole name short enough? */
bool identity_fits(struct tidings_str issuer, struct tidings_str name);

/* `issuer` empty: the name alone. Everything is copied. NULL: out of memory. */
struct identity *identity_create(struct tidings_str issuer, struct tidings_str name,
                                 const struct scope_list *scopes, int64_t expires_ms,
                                 enum auth_kind kind);
void identity_destroy(struct identity *i); /* NULL is fine; what is attached is the cache's */

#endif
