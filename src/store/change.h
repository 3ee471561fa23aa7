/* SPDX-License-Identifier: MIT
 *
 * A change: one change of one resource, numbered by the hub, immutable, shared by all threads,
 * encoded once.
 *
 * `uri_json` and `meta_json` are the parts of a notification that are the same for all subscribers;
 * flushing inserts a subscriber's own parts between them (engine/protocol/dialect).
 */
#ifndef STORE_CHANGE_H
#define STORE_CHANGE_H

#include <tidings/provider.h>

/* The lists that clients are notified about; bits, because a client can ask for several. */
enum change_list {
    LIST_RESOURCES = 1,
    LIST_TOOLS = 2,
    LIST_PROMPTS = 4,
};
#define LIST_COUNT 3u

struct change {
    uint64_t epoch, seq;
    uint64_t position; /* in the store; 0: it is not durable */
    enum tidings_change_kind kind;
    unsigned lists;  /* not a resource: these lists changed (enum change_list) */
    bool everything; /* not a resource: anything may have changed */
    int64_t size;    /* -1: unknown */
    int64_t modified_ms;
    uint64_t numbered_us;         /* time on the monotonic clock */
    struct tidings_str uri;       /* canonical */
    struct tidings_str uri_json;  /* quoted */
    struct tidings_str meta_json; /* `,"dev.tidings/version":"…",…` without braces */
    /* `"updated_at":…,…` without braces (they surround it in memory), and without change_type */
    struct tidings_str metadata_json;
    /* For subscribers who must not learn the number of changes or the previous URI of a move: the
     * version is the first member of meta_json and the last of metadata_json (unless the
     * application set it), `from` the last of meta_json. */
    uint32_t meta_version_len, meta_from_len, metadata_version_len;
    /* The application's own metadata is the beginning of metadata_json; if it set none, this part
     * is the time, size and checksum. Its `change_type`, as JSON, or empty. */
    uint32_t metadata_plain_len;
    struct tidings_str own_type_json;
    struct tidings_str etag, origin;
    struct tidings_str from; /* of a move: its previous URI; else empty */
    /* For the first half of a move (change_create_departure), the destination: its new URI, also
     * quoted; else empty. */
    struct tidings_str to, to_json;
    /* the second half of such a move: the first half notified the subscribers of `from` */
    bool is_arrival;
    struct tidings_str target; /* of a link: its target; else empty */
    bool is_mute;              /* of an unsubscribable resource: only lists are notified */
    /* private */
    size_t memory;
    unsigned refs;
};

/* The strings of a change, listed only here. Those that are also kept come first. */
#define CHANGE_TEXTS 8u
#define CHANGE_TEXTS_KEPT 7u
void change_texts(struct tidings_change *c, struct tidings_str *ret[CHANGE_TEXTS]);
/* Their total length, and copying them to `at`, which must have that much room. */
size_t change_texts_len(const struct tidings_change *c);
void change_pack(struct tidings_change *c, char *at);

/* The kind and name of `change` for a subscriber that sees it as `kind` (which can differ after a
 * merge): MOVED for the second half of a move, and for the first half if it names the destination.
 */
enum tidings_change_kind change_kind_of(const struct change *change, enum tidings_change_kind kind);
const char *change_type_name(const struct change *change, enum tidings_change_kind kind);

/* Returns true if the notification names the new URI, `to`. Subscribers who must not learn that URI
 * do not get it. */
static inline bool change_names_destination(const struct change *change,
                                            enum tidings_change_kind kind, bool hides_from)
{
    return change->to.len > 0 && kind == TIDINGS_CHANGE_DELETED && !hides_from;
}

/* Checks metadata given by a client or provider: a JSON object as text, or empty. TIDINGS_E_LIMIT,
 * TIDINGS_E_PARSE and TIDINGS_E_INVALID with the reason. */
#define CHANGE_METADATA_MAX (64u << 10)
#define CHANGE_METADATA_DEPTH 32u
int change_check_metadata(struct tidings_str text, struct tidings_error *err);
/* The same for a parsed value (NULL: none), written to `out`, whose maximum this sets. */
struct buf;
struct json;
int change_put_metadata(struct buf *out, const struct json *metadata, struct tidings_error *err);

/* metadata_json with its braces; empty if there is none. */
struct tidings_str change_metadata_object(const struct change *change);
struct tidings_str change_metadata_without_version(const struct change *change);
/* Only the application's metadata, without `change_type` (own_type_json): members without braces,
 * or empty. If it set none: the time, and the size and checksum if known. */
struct tidings_str change_metadata_plain(const struct change *change);

/* Creates a change with one reference. Copies everything into one block. `change->metadata` must be
 * a JSON object or empty; its keys take precedence. NULL: out of memory. */
struct change *change_create(const struct tidings_change *change, uint64_t epoch, uint64_t seq);
/* The first half of `move` (MOVED): the removal at the old URI, for subscribers who receive the new
 * one. */
struct change *change_create_departure(const struct tidings_change *move, uint64_t epoch,
                                       uint64_t seq);
/* Changes that concern no single resource. */
enum list_event {
    CHANGE_LIST, /* of resources */
    CHANGE_TOOLS,
    CHANGE_PROMPTS,
    CHANGE_EVERYTHING,
};
struct change *change_create_list_event(enum list_event what, uint64_t epoch, uint64_t seq);
/* A change that reports lost changes below `prefix`. */
struct change *change_create_missed(struct tidings_str prefix, uint64_t epoch, uint64_t seq);
/* Returns true if `uri` is the placeholder for a URI in a change with `everything`. */
bool change_is_missed_uri(struct tidings_str uri);
/* For a change with `everything`: the URI below which anything may have changed; empty: anywhere.
 */
struct tidings_str change_scope(const struct change *change);
struct change *change_ref(const struct change *c);
void change_unref(const struct change *c);   /* NULL is fine */
size_t change_bytes(const struct change *c); /* memory use */

#endif
