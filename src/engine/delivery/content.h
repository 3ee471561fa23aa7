/* SPDX-License-Identifier: MIT
 *
 * Change content, for subscriptions that include it in notifications. It is read once per change,
 * worker and class of principals with the same rights, cached while it is likely to be needed, and
 * bounded. Patches likewise: made once per change and baseline, however many subscriptions are at
 * that baseline.
 */
#ifndef ENGINE_DELIVERY_CONTENT_H
#define ENGINE_DELIVERY_CONTENT_H

#include "base/list.h"
#include "base/map.h"

/* -------------------------------------------------------------------------------------------------
 * Baselines: the versions of resources that patches start from.
 *
 * A baseline is one version of one resource: its URI, its etag and, if the provider makes no
 * patches itself, its content. All subscriptions of a worker that are at the same version share
 * one. Contents are kept within a budget; beyond it a baseline is only a name, and the next update
 * has the whole content.
 *
 * A chain holds the last version that one subscription sent of each resource it covers. It moves
 * whenever an update was sent, so that every patch starts where the previous one ended, whatever
 * was held back, merged or left out in between.
 */

#define BASELINES_MAX_BYTES (32u << 20) /* of contents, per worker */
#define PATCH_BASE_MAX 1024u            /* resources; others are sent whole each time */

struct worker;

/* All baselines of a worker. */
struct baselines {
    struct map by_name;
    size_t bytes;
    const struct worker *worker; /* for providers that hold versions; NULL: none does */
};

struct baseline {
    struct baselines *all;
    unsigned refs;
    unsigned patch_bases;            /* number of chains at it; for them … */
    struct tidings_provider *holder; /* … this provider keeps the version, and … */
    void *pinned;                    /* … this is its handle; NULL: not kept */
    size_t uri_len, etag_len, content_len;
    char *content; /* JSON text, or NULL */
    char name[];   /* URI, NUL, etag */
};

/* Returns a new reference to the baseline of that name; `content` may be empty. NULL when out of
 * memory. */
struct baseline *baseline_get(struct baselines *all, struct tidings_str uri,
                              struct tidings_str etag, struct tidings_str content);
void baseline_unref(struct baseline *b); /* accepts NULL */

static inline struct tidings_str baseline_uri(const struct baseline *b)
{
    return tidings_strn(b->name, b->uri_len);
}
static inline struct tidings_str baseline_etag(const struct baseline *b)
{
    return tidings_strn(b->name + b->uri_len + 1, b->etag_len);
}

/* A single resource, the usual case, needs no table. */
struct patch_base {
    struct baseline *one;
    struct map many; /* by URI */
};

struct patch_base *patch_base_create(void); /* NULL when out of memory */
void patch_base_destroy(struct patch_base *patch_base);
/* Returns the last version sent; NULL if none was sent or a patch cannot start from it. */
struct baseline *patch_base_at(const struct patch_base *patch_base, struct tidings_str uri);
/* Records the version sent of `uri`; NULL: the next update is sent whole. Takes its own
 * reference. */
void patch_base_move(struct patch_base *patch_base, struct tidings_str uri, struct baseline *to);

struct change;
struct principal;
struct subscription;

struct change_contents {
    struct list entries; /* oldest first */
    struct map by_key;   /* the same, by change and baseline */
    size_t count, bytes; /* of contents read */
    struct baselines baselines;
    uint64_t patches; /* made so far */
};

void change_content_init(struct change_contents *v, const struct worker *worker);
void change_content_deinit(struct change_contents *v); /* no read may be under way */

enum change_content_state {
    CHANGE_CONTENT_READING, /* retry later; waiting subscribers are marked dirty when it is ready */
    CHANGE_CONTENT_READY,   /* *ret_json is an array of content elements */
    CHANGE_CONTENT_NONE,    /* gone, unreadable or too large: send without it */
};

/* ---- for subscriptions ----------------------------------------------------------------------- */

/* Gets what `sub` sends with a change: the contents or, if requested, a patch. *ret_to: the
 * baseline of its next patch once this is written. */
enum change_content_state change_content_for(const struct subscription *sub,
                                             const struct change *change,
                                             struct tidings_str *ret_json,
                                             struct baseline **ret_to);
/* The update was written to its client. */
void change_content_written(const struct subscription *sub, const struct change *change,
                            struct baseline *to);
/* A change was left out because the client of `sub` made it itself. The client has the result, so
 * if the provider makes patches, the next one starts from it; otherwise the next update is sent
 * whole. */
void change_content_skipped(const struct subscription *sub, const struct change *change);

#endif
