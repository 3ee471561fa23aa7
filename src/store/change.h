/* SPDX-License-Identifier: MIT
 *
 * One change of one resource, numbered by the hub: immutable, shared by all threads, encoded once.
 *
 * `uri_json` and `meta_json` are the pieces of a notification that are the same for everybody; a
 * subscriber's own are spliced between them when it is flushed (engine/protocol/dialect).
 */
#ifndef STORE_CHANGE_H
#define STORE_CHANGE_H

#include <tidings/provider.h>

/* The lists whose changes are told; bits, because one may want to hear of several. */
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
    unsigned lists;  /* no resource: these lists changed (enum change_list) */
    bool everything; /* no resource: anything may have changed */
    int64_t size;    /* -1: not known */
    int64_t modified_ms;
    uint64_t numbered_us;             /* when, by the monotonic clock */
    struct tidings_str uri;           /* canonical */
    struct tidings_str uri_json;      /* quoted */
    struct tidings_str meta_json;     /* `,"dev.tidings/version":"…",…` without braces */
    struct tidings_str metadata_json; /* `"updated_at":…,…` without braces, which stand around it in
                                       * memory, and without change_type */
    /* For those who must not learn how many changes there are, nor where it moved from: the version
     * is the first member of meta_json and the last of metadata_json (unless the application gave
     * one), `from` the last of meta_json. */
    uint32_t meta_version_len, meta_from_len, metadata_version_len;
    /* The application's own metadata is the beginning of metadata_json; if it gave none, that is
     * the time, size and checksum. Its `change_type`, as JSON, or empty. */
    uint32_t metadata_plain_len;
    struct tidings_str own_type_json;
    struct tidings_str etag, origin;
    struct tidings_str from; /* of a move: its URI before; else empty */
    /* Of the first half of a move (change_create_departure), the destination: its URI now, also
     * quoted; else empty. */
    struct tidings_str to, to_json;
    bool is_arrival; /* the second half of such a move: who subscribed to `from` was told by the
                      * first */
    struct tidings_str target; /* what it leads to, of a link; else empty */
    bool is_mute;              /* of an unsubscribable resource: only lists are notified */
    /* private */
    size_t memory;
    unsigned refs;
};

/* The texts of a change, in the one place that lists them. Those that are also kept come first. */
#define CHANGE_TEXTS 8u
#define CHANGE_TEXTS_KEPT 7u
void change_texts(struct tidings_change *c, struct tidings_str *ret[CHANGE_TEXTS]);
/* How many bytes they have, and copying them to `at`, where there is room for these. */
size_t change_texts_len(const struct tidings_change *c);
void change_pack(struct tidings_change *c, char *at);

/* What `change` is to somebody for whom it counts as `kind` (what was merged may differ): MOVED for
 * the second half of a move, and for the first where it names the destination; and its name. */
enum tidings_change_kind change_kind_of(const struct change *change, enum tidings_change_kind kind);
const char *change_type_name(const struct change *change, enum tidings_change_kind kind);

/* Is it told with the URI it has now, `to`? Not to those who must not learn of that one. */
static inline bool change_names_destination(const struct change *change,
                                            enum tidings_change_kind kind, bool hides_from)
{
    return change->to.len > 0 && kind == TIDINGS_CHANGE_DELETED && !hides_from;
}

/* What somebody says of a change: the text of a JSON object, or empty. TIDINGS_E_LIMIT,
 * TIDINGS_E_PARSE and TIDINGS_E_INVALID say what is wrong with it. */
#define CHANGE_METADATA_MAX (64u << 10)
#define CHANGE_METADATA_DEPTH 32u
int change_check_metadata(struct tidings_str text, struct tidings_error *err);
/* The same of a value that was parsed already (NULL: none), and its text into `out`, whose maximum
 * this sets. */
struct buf;
struct json;
int change_put_metadata(struct buf *out, const struct json *metadata, struct tidings_error *err);

/* metadata_json with its braces; empty: there is none. */
struct tidings_str change_metadata_object(const struct change *change);
struct tidings_str change_metadata_without_version(const struct change *change);
/* Only what the application gave, without `change_type` (own_type_json): members without braces, or
 * empty. If it gave nothing: the time, and the size and checksum if they are known. */
struct tidings_str change_metadata_plain(const struct change *change);

/* One reference. Copies everything into one block. `change->metadata` must be a JSON object or
 * empty; its keys win over ours. NULL: out of memory. */
struct change *change_create(const struct tidings_change *change, uint64_t epoch, uint64_t seq);
/* The first half of `move` (MOVED): gone from there, for subscribers who are told where it is. */
struct change *change_create_departure(const struct tidings_change *move, uint64_t epoch,
                                       uint64_t seq);
/* Changes of no resource in particular. */
enum list_event {
    CHANGE_LIST, /* of resources */
    CHANGE_TOOLS,
    CHANGE_PROMPTS,
    CHANGE_EVERYTHING,
};
struct change *change_create_list_event(enum list_event what, uint64_t epoch, uint64_t seq);
/* Anything below `prefix` may have changed. */
struct change *change_create_missed(struct tidings_str prefix, uint64_t epoch, uint64_t seq);
/* Is that what stands for a URI in a change with `everything`? */
bool change_is_missed_uri(struct tidings_str uri);
/* Of one with `everything`: below which URI; empty: anywhere. */
struct tidings_str change_scope(const struct change *change);
struct change *change_ref(const struct change *c);
void change_unref(const struct change *c);   /* NULL is fine */
size_t change_bytes(const struct change *c); /* memory held */

#endif
