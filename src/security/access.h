/* SPDX-License-Identifier: MIT
 *
 * Access control: which principal may do what with which URI. Checked by list, read, metadata,
 * completion, write and subscribe, and again at delivery, there once per change and class of
 * principals.
 *
 * Rules allow; everything else is denied, and a denied resource looks like a missing one. Without
 * rules every principal may do everything. A set of rules is immutable and reference counted,
 * because all threads read it. The rules that apply to a principal are selected when it is
 * interned; principals with the same rules form one class. Changing the rules creates new
 * principals (access_enforce_rules). Access to URIs that belong to one principal depends only on
 * that principal (see the end of this file).
 */
#ifndef SECURITY_ACCESS_H
#define SECURITY_ACCESS_H

#include <tidings/types.h>

#include "base/list.h"
#include "formats/pattern.h"
#include "security/principal.h"

struct buf;

enum access_op {
    ACCESS_LIST, /* see that it exists: lists, metadata, completion */
    ACCESS_READ,
    ACCESS_SUBSCRIBE, /* receive updates; needs ACCESS_READ as well */
    ACCESS_WRITE,     /* needs ACCESS_READ as well */
};
#define ACCESS_OPS 4u

/* ---- rules ----------------------------------------------------------------------------------- */

enum access_whom {
    ACCESS_ANYBODY,
    ACCESS_ANONYMOUS,     /* unauthenticated clients */
    ACCESS_AUTHENTICATED, /* every authenticated client */
    ACCESS_NAMED,         /* one principal */
};

struct access_rule {
    enum access_whom whom;
    struct tidings_str name; /* ACCESS_NAMED */
    /* 1u << enum principal_kind: how it was authenticated; for AUTHENTICATED and NAMED */
    unsigned kinds;
    struct tidings_str scope; /* scope it must have; empty: none */
    enum pattern_kind kind;
    struct tidings_str uri; /* canonical URI or pattern; empty: everything */
    unsigned ops;           /* 1u << enum access_op */
};

struct access_rules {
    const struct access_rule *at;
    size_t count;
    void (*destroy)(struct access_rules *rules); /* called with the last reference */
    unsigned refs;
};

struct access_rules *access_rules_ref(struct access_rules *rules); /* NULL is fine */
void access_rules_unref(struct access_rules *rules);

/* ---- classes --------------------------------------------------------------------------------- */

/* State shared by the members. The first part is immutable; the rest belongs to the worker. */
struct access_class {
    struct access_rules *rules; /* a reference */
    bool is_full;               /* may list, read and subscribe to everything */
    size_t count;
    /* private: */
    unsigned refs;
    struct principals *all; /* NULL: the table was removed */
    struct list link;       /* in all->classes */
    uint64_t decided_seq;   /* the last change that was checked … */
    bool decided;           /* … and the result */
    uint64_t from_seq;      /* the same for the previous URI of a move */
    bool shows_from;
    uint64_t list_notified_ms; /* when list_changed was last written to its members; 0: never */
    bool is_list_pending;      /* it changed since: sent again after a period */
    const struct access_rule *at[]; /* rules that apply */
};

/* Returns a reference to the class of `p` under the rules of its worker; NULL and 0 if there are no
 * rules. */
int access_class_of(const struct principal *p, struct access_class **ret);
void access_class_unref(struct access_class *class); /* NULL is fine */

/* ---- asking ---------------------------------------------------------------------------------- */

/* `uri` is canonical. Any thread. */
bool access_allows(const struct principal *principal, enum access_op op, struct tidings_str uri);
/* Returns true if the principal may subscribe to `uri`: ACCESS_SUBSCRIBE and ACCESS_READ. */
bool access_subscribes(const struct principal *principal, struct tidings_str uri);
/* Returns true if the principal may write `uri`: ACCESS_WRITE and ACCESS_READ, because responses
 * reveal the current content. */
bool access_writes(const struct principal *principal, struct tidings_str uri);
/* Returns true if rules limit the principal or if it is the program itself; false: it may do
 * everything because there are no rules. */
static inline bool access_is_by_rule(const struct principal *principal)
{
    return !principal || principal->class;
}
/* Returns true if the principal may write everything: by rules without URI, or as the program
 * itself. */
bool access_writes_everything(const struct principal *principal);
/* Returns true for an operator, which may end clients: the program itself; a principal whom the
 * rules let write ACCESS_OPERATOR_URI; without rules, a user of a Unix socket. */
#define ACCESS_OPERATOR_URI "tidings://self/peers"
bool access_is_operator(const struct principal *principal);
/* Returns true if the principal may perform `op` on some URI that a template can produce. `text` is
 * the template without its braces. */
bool access_reaches(const struct principal *principal, enum access_op op, struct tidings_str text);
bool access_class_reaches(const struct access_class *class, enum access_op op,
                          struct tidings_str text);
/* Returns true if the principal may list, read and subscribe to everything. Other principals get no
 * number that counts resources they cannot see: versions are omitted, cursors sealed. */
static inline bool access_is_full(const struct principal *principal)
{
    return !principal || !principal->class || principal->class->is_full;
}

/* Returns true if the principal may be notified of a change of `uri`, a link to `target` (empty: no
 * link). Call it on the worker, as often as necessary: it compares patterns once per change, which
 * `seq` identifies, and class. */
bool access_may_notify(const struct principal *principal, struct tidings_str uri,
                       struct tidings_str target, uint64_t seq);
/* Returns true if the principal may learn the other URI of a move, in the same way. */
bool access_shows_from(const struct principal *principal, struct tidings_str uri, uint64_t seq);

/* Writes the scopes, separated by blanks, that the token of `principal` lacks for all of `ops` (1u
 * << enum access_op) on `uri`. Writes nothing if access is allowed, if there is no token or if no
 * scope would help. Does not reveal whether the resource exists. */
int access_put_missing(const struct principal *principal, unsigned ops, struct tidings_str uri,
                       struct buf *out);

/* -------------------------------------------------------------------------------------------------
 * URIs that belong to one principal: tasks, tidings://tasks/ID. The id itself identifies its owner,
 * so an access check needs no lookup: 32 random hex digits, then 16 digits of a digest over them
 * and the principal. No client can create an id for another one. To others the URI does not exist,
 * whatever the access rules allow; its owner needs no rule.
 *
 * Unauthenticated clients are one principal: any of them that knows the id has access. Therefore no
 * pattern covers such a URI, only a subscription that names it.
 */

#define OWNED_URI_PREFIX "tidings://tasks/"
#define OWNED_ID_LEN 48u

struct principal;

/* Creates an id owned by `p` (NULL: the program itself), NUL-terminated. TIDINGS_E_IO: no
 * randomness. */
int owned_id_create(const struct principal *p, char ret[OWNED_ID_LEN + 1]);
/* Returns true if `p` owns the id; NULL owns all. */
bool owned_id_is_of(struct tidings_str id, const struct principal *p);

/* The same for a canonical URI. */
bool owned_uri_is(struct tidings_str uri);

#endif
