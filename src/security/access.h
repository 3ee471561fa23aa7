/* SPDX-License-Identifier: MIT
 *
 * Access control: who may do what with which URI. Asked by list, read, metadata, completion, write
 * and subscribe, and again at delivery, there once per change and class of principals.
 *
 * Rules allow; what none allows is denied, and who is denied is answered as if there were nothing.
 * Without rules everybody may do everything. A set of rules is immutable and counted, because all
 * threads read it; which of them hold for a principal is decided when it is interned, and
 * principals for whom the same hold are one class. Changing the rules makes new principals
 * (access_enforce_rules). What belongs to one principal (security/access.h) is judged by that
 * alone.
 */
#ifndef SECURITY_ACCESS_H
#define SECURITY_ACCESS_H

#include <tidings/types.h>

#include "base/list.h"
#include "formats/pattern.h"
#include "security/principal.h"

struct buf;

enum access_op {
    ACCESS_LIST, /* see that it is there: lists, metadata, completion */
    ACCESS_READ,
    ACCESS_SUBSCRIBE, /* hear of it; needs ACCESS_READ as well */
    ACCESS_WRITE,     /* likewise */
};
#define ACCESS_OPS 4u

/* ---- rules ----------------------------------------------------------------------------------- */

enum access_whom {
    ACCESS_ANYBODY,
    ACCESS_ANONYMOUS,     /* those whom nobody asked who they are */
    ACCESS_AUTHENTICATED, /* whoever proved who it is */
    ACCESS_NAMED,         /* this one */
};

struct access_rule {
    enum access_whom whom;
    struct tidings_str name; /* ACCESS_NAMED */
    unsigned kinds; /* 1u << enum principal_kind: found out like this; AUTHENTICATED and NAMED */
    struct tidings_str scope; /* which it must have been given; empty: none */
    enum pattern_kind kind;
    struct tidings_str uri; /* canonical URI or pattern; empty: everything */
    unsigned ops;           /* 1u << enum access_op */
};

struct access_rules {
    const struct access_rule *at;
    size_t count;
    void (*destroy)(struct access_rules *rules); /* nobody uses them any more */
    unsigned refs;
};

struct access_rules *access_rules_ref(struct access_rules *rules); /* NULL is fine */
void access_rules_unref(struct access_rules *rules);

/* ---- classes --------------------------------------------------------------------------------- */

/* What the members have in common. The first part is immutable; the rest is the worker's. */
struct access_class {
    struct access_rules *rules; /* a reference */
    bool is_full;               /* may list, read and hear of everything */
    size_t count;
    /* private: */
    unsigned refs;
    struct principals *all; /* NULL: they are gone */
    struct list link;       /* in all->classes */
    uint64_t decided_seq;   /* the change asked about last … */
    bool decided;           /* … and the answer; */
    uint64_t from_seq;      /* the same about where something moved from */
    bool shows_from;
    uint64_t list_notified_ms; /* when list_changed was last written to its members; 0: never */
    bool is_list_pending;      /* it changed since: written again when a period has passed */
    const struct access_rule *at[]; /* those that hold */
};

/* A reference to the class of `p` by the rules of its worker; NULL with 0: there are no rules. */
int access_class_of(const struct principal *p, struct access_class **ret);
void access_class_unref(struct access_class *class); /* NULL is fine */

/* ---- asking ---------------------------------------------------------------------------------- */

/* `uri` is canonical. Any thread. */
bool access_allows(const struct principal *principal, enum access_op op, struct tidings_str uri);
/* May it subscribe to that: ACCESS_SUBSCRIBE and ACCESS_READ. */
bool access_subscribes(const struct principal *principal, struct tidings_str uri);
/* May it write that: ACCESS_WRITE and ACCESS_READ, because what is answered shows what is there. */
bool access_writes(const struct principal *principal, struct tidings_str uri);
/* Is what it may do said by rules, or is it the program itself? Else everybody may do everything.
 */
static inline bool access_is_by_rule(const struct principal *principal)
{
    return !principal || principal->class;
}
/* May it write everything, by rules without URI or as the program itself? */
bool access_writes_everything(const struct principal *principal);
/* Returns true for an operator, who may end clients: the program itself; a principal whom the rules
 * let write ACCESS_OPERATOR_URI; without rules, a user of a Unix socket. */
#define ACCESS_OPERATOR_URI "tidings://self/peers"
bool access_is_operator(const struct principal *principal);
/* May it do so with some URI that a template produces? `text` may have none of the braces. */
bool access_reaches(const struct principal *principal, enum access_op op, struct tidings_str text);
bool access_class_reaches(const struct access_class *class, enum access_op op,
                          struct tidings_str text);
/* May it list, read and hear of everything? Who may not is shown no number that counts what it does
 * not see: versions are left out, cursors sealed. */
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

/* Put the scopes, separated by blanks, that the token of `principal` lacks to do all of `ops`
 * (1u << enum access_op) with `uri`. Nothing: it may, it came without a token, or no scopes would
 * do. Says nothing of whether there is such a resource. */
int access_put_missing(const struct principal *principal, unsigned ops, struct tidings_str uri,
                       struct buf *out);

/* -------------------------------------------------------------------------------------------------
 * URIs that belong to one principal: those of tasks, tidings://tasks/ID. An id says by itself whose
 * it is, so that nothing has to be looked up where access is asked: 32 random hex digits, and 16 of
 * a digest over them and the principal. Nobody can make one for somebody else, and to others it is
 * as if there were nothing, whatever the access rules say; its owner needs no rule.
 *
 * Clients that nobody asked who they are, are one principal: among them whoever knows the id may.
 * Therefore no pattern covers such a URI, only a subscription that names it.
 */

#define OWNED_URI_PREFIX "tidings://tasks/"
#define OWNED_ID_LEN 48u

struct principal;

/* An id for something of `p` (NULL: of the program itself), with a NUL. TIDINGS_E_IO: there is no
 * randomness. */
int owned_id_create(const struct principal *p, char ret[OWNED_ID_LEN + 1]);
/* Is it of `p`? NULL may use them all. */
bool owned_id_is_of(struct tidings_str id, const struct principal *p);

/* The same of a canonical URI. */
bool owned_uri_is(struct tidings_str uri);

#endif
