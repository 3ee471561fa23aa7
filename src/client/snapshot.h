/* SPDX-License-Identifier: MIT
 *
 * How the resources under one watched URI were when they were last seen: a digest of each.
 */
#ifndef CLIENT_SNAPSHOT_H
#define CLIENT_SNAPSHOT_H

#include "base/map.h"
#include "base/sha256.h"
#include "json/json.h"

struct snapshot_entry {
    struct tidings_str uri;
    unsigned char digest[SHA256_BYTES];
    bool is_known;       /* … what the digest is */
    uint64_t updated_at; /* the server told of it, and it was not looked at since; 0: no */
    char text[];
};

struct snapshot {
    struct map entries; /* by URI */
    uint64_t read_at;   /* clock_monotonic_ms */
    /* The connection was lost within COMPARISON_NOTICE_MS of that: it may have a change in it that
     * the server had not notified yet. */
    bool may_lack_notice;
};

struct snapshot *snapshot_create(void);    /* NULL: out of memory */
void snapshot_destroy(struct snapshot *v); /* NULL is fine */
struct snapshot_entry *snapshot_find(const struct snapshot *v, struct tidings_str uri);
/* The one of `uri`, made if need be; NULL: out of memory. */
struct snapshot_entry *snapshot_add(struct snapshot *v, struct tidings_str uri);
void snapshot_remove(struct snapshot *v, struct tidings_str uri);
/* It looks like this. -ve: a failure. */
int snapshot_put(struct snapshot *v, struct tidings_str uri, const struct json *value,
                 size_t max_bytes);

#endif
