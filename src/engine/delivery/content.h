/* SPDX-License-Identifier: MIT
 *
 * The content behind a change, for subscriptions that want it in the notification: read once per
 * change, worker and class of those who may see the same, kept for as long as somebody is likely to
 * need it, bounded. Patches likewise: made once per change and baseline, however many subscriptions
 * are at that one.
 */
#ifndef ENGINE_DELIVERY_CONTENT_H
#define ENGINE_DELIVERY_CONTENT_H

#include "base/list.h"
#include "base/map.h"

/* -------------------------------------------------------------------------------------------------
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

#define BASELINES_MAX_BYTES (32u << 20) /* of contents, per worker */
#define PATCH_BASE_MAX 1024u            /* resources; what is beyond is told whole each time */

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
    unsigned patch_bases;            /* of these, those that are at it: */
    struct tidings_provider *holder; /* keeps that version for them, and … */
    void *pinned;                    /* … its word for it; NULL: nobody does */
    size_t uri_len, etag_len, content_len;
    char *content; /* JSON text, or NULL */
    char name[];   /* URI, NUL, etag */
};

/* The baseline of that name, a new reference; `content` may be empty. NULL: out of memory. */
struct baseline *baseline_get(struct baselines *all, struct tidings_str uri,
                              struct tidings_str etag, struct tidings_str content);
void baseline_unref(struct baseline *b); /* NULL is fine */

static inline struct tidings_str baseline_uri(const struct baseline *b)
{
    return tidings_strn(b->name, b->uri_len);
}
static inline struct tidings_str baseline_etag(const struct baseline *b)
{
    return tidings_strn(b->name + b->uri_len + 1, b->etag_len);
}

/* One resource, the ordinary case, needs no table. */
struct patch_base {
    struct baseline *one;
    struct map many; /* by URI */
};

struct patch_base *patch_base_create(void); /* NULL: out of memory */
void patch_base_destroy(struct patch_base *patch_base);
/* What was told last; NULL: nothing, or nothing that a patch can begin at. */
struct baseline *patch_base_at(const struct patch_base *patch_base, struct tidings_str uri);
/* This was told of `uri`; NULL: the next is told whole. Takes a reference of its own. */
void patch_base_move(struct patch_base *patch_base, struct tidings_str uri, struct baseline *to);

struct change;
struct principal;
struct subscription;

struct change_contents {
    struct list entries; /* oldest first */
    struct map by_key;   /* the same, by change and baseline */
    size_t count, bytes; /* of what was read */
    struct baselines baselines;
    uint64_t patches; /* made so far */
};

void change_content_init(struct change_contents *v, const struct worker *worker);
void change_content_deinit(struct change_contents *v); /* nothing is being read any more */

enum change_content_state {
    CHANGE_CONTENT_READING, /* come back; subscribers that wait are marked dirty when it is there */
    CHANGE_CONTENT_READY,   /* *ret_json is an array of content elements */
    CHANGE_CONTENT_NONE,    /* gone, unreadable or too large: tell without it */
};

/* ---- for subscriptions ----------------------------------------------------------------------- */

/* What `sub` is to be told of a change: the contents or, if it asked for that, a patch. *ret_to:
 * the baseline of its next patch once this is written. */
enum change_content_state change_content_for(const struct subscription *sub,
                                             const struct change *change,
                                             struct tidings_str *ret_json,
                                             struct baseline **ret_to);
/* That was written to its client. */
void change_content_written(const struct subscription *sub, const struct change *change,
                            struct baseline *to);
/* A change was left out because the client of `sub` made it itself. It has the result, so where the
 * provider makes patches the next one starts from that; elsewhere the next is told whole. */
void change_content_skipped(const struct subscription *sub, const struct change *change);

#endif
