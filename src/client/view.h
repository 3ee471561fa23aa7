/* SPDX-License-Identifier: MIT
 *
 * How the resources of one watch were: a digest of each.
 */
#ifndef CLIENT_VIEW_H
#define CLIENT_VIEW_H

#include "base/map.h"
#include "base/sha256.h"
#include "json/json.h"

struct view_entry {
    struct tidings_str uri;
    unsigned char digest[SHA256_BYTES];
    bool is_known;    /* … what the digest is */
    uint64_t told_at; /* the server told of it, and it was not looked at since; 0: no */
    char text[];
};

struct view {
    struct map entries; /* by URI */
    uint64_t read_at;   /* clock_monotonic_ms */
    bool is_unsettled;  /* the connection was lost so soon after that, that a change may be in it
                         * which  was not told yet */
};

struct view *view_create(void);    /* NULL: out of memory */
void view_destroy(struct view *v); /* NULL is fine */
struct view_entry *view_find(const struct view *v, struct tidings_str uri);
/* The one of `uri`, made if need be; NULL: out of memory. */
struct view_entry *view_add(struct view *v, struct tidings_str uri);
void view_remove(struct view *v, struct tidings_str uri);
/* It looks like this. -ve: a failure. */
int view_put(struct view *v, struct tidings_str uri, const struct json *value, size_t max_bytes);

#endif
