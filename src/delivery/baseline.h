/* SPDX-License-Identifier: MIT
 *
 * Baselines: the versions of resources that patches start from.
 *
 * A baseline is one version of one resource: its URI, its etag and, where the provider makes no
 * patches itself, its content. All subscriptions of a worker that are at the same version share
 * one. Contents are kept within a budget; beyond it a baseline is a name, and what follows it is
 * told whole.
 *
 * A chain is what one subscription has told last of each resource it covers. It moves when
 * something was told, so that every patch begins where the one before it ended, whatever was held
 * back, merged or left out in between.
 */
#ifndef DELIVERY_BASELINE_H
#define DELIVERY_BASELINE_H

#include "base/map.h"

#define BASELINES_MAX_BYTES (32u << 20) /* of contents, per worker */
#define CHAIN_MAX 1024u                 /* resources; what is beyond is told whole each time */

struct worker;

/* All of a worker's. */
struct baselines {
    struct map by_name;
    size_t bytes;
    const struct worker *worker; /* whose providers hold versions; NULL: none does */
};

struct baseline {
    struct baselines *all;
    unsigned refs;
    unsigned chains;                 /* of these, those that are at it: */
    struct tidings_provider *holder; /* keeps that version for them, and … */
    void *held;                      /* … its word for it; NULL: nobody does */
    size_t uri_len, etag_len, content_len;
    char *content; /* JSON text, or NULL */
    char name[];   /* URI, NUL, etag */
};

void baselines_init(struct baselines *all, const struct worker *worker);
void baselines_deinit(struct baselines *all); /* no reference is left */

/* The baseline of that name, a new reference; `content` may be empty. NULL: out of memory. */
struct baseline *baseline_get(struct baselines *all, struct tidings_str uri,
                              struct tidings_str etag, struct tidings_str content);
struct baseline *baseline_ref(struct baseline *b); /* NULL is fine */
void baseline_unref(struct baseline *b);           /* NULL is fine */

static inline struct tidings_str baseline_uri(const struct baseline *b)
{
    return tidings_strn(b->name, b->uri_len);
}
static inline struct tidings_str baseline_etag(const struct baseline *b)
{
    return tidings_strn(b->name + b->uri_len + 1, b->etag_len);
}

/* One resource, the ordinary case, needs no table. */
struct chain {
    struct baseline *one;
    struct map many; /* by URI */
};

struct chain *chain_create(void); /* NULL: out of memory */
void chain_destroy(struct chain *chain);
/* What was told last; NULL: nothing, or nothing that a patch can begin at. */
struct baseline *chain_at(const struct chain *chain, struct tidings_str uri);
/* This was told of `uri`; NULL: the next is told whole. Takes a reference of its own. */
void chain_move(struct chain *chain, struct tidings_str uri, struct baseline *to);

#endif
