/* SPDX-License-Identifier: MIT
 *
 * A provider: a source of resources below one URI prefix, its *mount*.
 *
 * A provider lists its resources (`list`, `children`, `stat`), returns their content (`read`), and
 * announces *that* they changed (`tidings_provider_changed`, thread-safe). The core handles
 * matching, coalescing, access and delivery.
 *
 * Threads of operations
 *   `open`, `watch`, `unwatch`, `close` and the function of tidings_provider_every run on the hub
 *   thread, one at a time per instance.
 *   `list`, `children`, `stat`, `read`, `complete` and `write` may run on any worker, several at
 *   once. Operations must not block, except that these six run on a thread pool if the instance has
 *   TIDINGS_PROVIDER_BLOCKING, and may block there. `covers` is pure and may run anywhere.
 *
 * Threads
 *   Functions about one request may be called by any thread, but only by one at a time. All others
 *   are thread-safe, except where their text names a thread.
 *
 * Completion
 *   Each operation that receives a request (`struct tidings_read`, …) must finish it exactly once
 *   with the matching `…_done`, now or later, from any thread. The request is valid until then.
 *   URIs passed to a provider are canonical and inside the mount; slices are valid until
 *   completion.
 *
 * Since 0.1. Operation tables grow only at the end, and `abi` says which fields exist. The server
 * accepts a table for an older version and rejects one for a newer version.
 */
#ifndef TIDINGS_PROVIDER_H
#define TIDINGS_PROVIDER_H

#include <tidings/types.h>

#ifdef __cplusplus
extern "C" {
/* These functions share the name of a struct; -Wshadow reports a hidden constructor. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

#define TIDINGS_PROVIDER_ABI 1u

enum tidings_provider_flag {
    TIDINGS_PROVIDER_BLOCKING = 1u << 0, /* its requests run on a thread pool */
    TIDINGS_PROVIDER_SINGLE = 1u << 1,   /* one resource: the prefix without its '/' */
    TIDINGS_PROVIDER_PATCHES = 1u << 2,  /* `write` supports patches */
    /* The list never changes, or the provider announces its changes without `watch`: subscribers of
     * lists need no watch. */
    TIDINGS_PROVIDER_FIXED_LIST = 1u << 3,
    TIDINGS_PROVIDER_TAKES_METADATA = 1u << 4, /* `write` passes tidings_write_metadata on */
    /* Changes never carry metadata. The server rejects subscriptions that select by metadata
     * (?key=value), because they would never receive an update, unless clients may notify. */
    TIDINGS_PROVIDER_BARE_CHANGES = 1u << 5,
};

/* The description of a resource or, with a template in `uri`, of all its resources. Empty or zero
 * members are unknown, and left out on the wire. The receiver borrows it. */
struct tidings_resource {
    struct tidings_str uri;
    struct tidings_str name; /* required */
    struct tidings_str title;
    struct tidings_str description;
    struct tidings_str mime_type;
    struct tidings_str formats; /* JSON array of all media types that a read can return, `mime_type`
                                   first; empty: only `mime_type` */
    struct tidings_str etag; /* changes with the content; "W/…": may stay the same for a moment */
    struct tidings_str icons;    /* JSON array text */
    struct tidings_str audience; /* JSON array text */
    int64_t modified_ms;         /* Unix time */
    int64_t size;                /* in bytes, if `has_size` */
    double priority;             /* 0 … 1, if `has_priority` */
    bool has_size;
    bool has_priority;
    bool listable;           /* has children */
    bool not_subscribable;   /* subscriptions receive no changes of it */
    struct tidings_str meta; /* JSON object text with free keys, at most 8 KiB and 16 levels, sent
                                in `_meta` of lists and contents; keys with a prefix of the protocol
                                or "dev.tidings" are rejected */
    void *reserved[4];       /* zero */
};

/* Describe a resource by its common fields. The strings are borrowed. `mime_type` may be NULL. */
static inline struct tidings_resource tidings_resource(const char *uri, const char *name,
                                                       const char *mime_type)
{
    struct tidings_resource resource;
    memset(&resource, 0, sizeof(resource));
    resource.uri = tidings_str(uri);
    resource.name = tidings_str(name);
    resource.mime_type = tidings_str(mime_type);
    return resource;
}

/* A change of one resource. Empty or zero members are unknown. */
struct tidings_change {
    struct tidings_str uri; /* canonical URI of the resource that changed; required */
    enum tidings_change_kind kind;
    struct tidings_str etag;
    struct tidings_str from;     /* for a move: the previous URI */
    struct tidings_str metadata; /* JSON object text with free keys, or empty */
    struct tidings_str checksum;
    struct tidings_str origin; /* client that made the change; its subscriptions may exclude it */
    struct tidings_str target; /* if `uri` is a link: the canonical URI of its target. Only clients
                                  that may see both receive the change */
    int64_t modified_ms;       /* Unix time */
    int64_t size;              /* in bytes, if `has_size` */
    bool has_size;
    bool not_subscribable; /* notify lists, but no subscriptions. Not needed for registered and
                              published resources */
    struct tidings_str traceparent; /* W3C Trace Context of the request that caused it, sent in
                                       `_meta`. Invalid values are left out */
    void *reserved[2];              /* zero */
};

struct tidings_provider; /* an open instance; `tidings_provider_state` returns its memory */
struct tidings_read;
struct tidings_list;
struct tidings_stat;
struct tidings_complete;
struct tidings_write;
struct tidings_watch;

/* Return the memory of a provider instance: `size` bytes, initially zero. */
TIDINGS_API void *tidings_provider_state(struct tidings_provider *provider);

/* Return the canonical URI prefix of a provider instance, which is valid while it is open. */
TIDINGS_API struct tidings_str tidings_provider_prefix(struct tidings_provider *provider);

/* Announce a change of a resource of a provider. The function copies everything and never blocks.
 * Changes of one thread keep their order. Thread-safe.
 *
 * TIDINGS_E_INVALID: the change is invalid. TIDINGS_E_BUSY, TIDINGS_E_NOMEM: as for
 * tidings_changed, every subscription receives a `truncated` update. */
TIDINGS_API int tidings_provider_changed(struct tidings_provider *provider,
                                         const struct tidings_change *change,
                                         struct tidings_error *err);

/* Report lost changes below a mount. The server sends one `truncated` update to every subscription
 * that overlaps the mount, so that clients read again. Never blocks. Thread-safe. */
TIDINGS_API void tidings_provider_missed(struct tidings_provider *provider);

/* Call a function of a provider every `ms` milliseconds, until close. A new call replaces the
 * timer; `ms` 0 stops it. It serves providers that poll and have no thread: start with the first
 * watch, stop with the last unwatch. `fn` runs on the hub thread and must not block. Call this only
 * on the hub thread: in open, watch, unwatch and `fn` itself.
 *
 * TIDINGS_E_NOMEM: memory runs out. */
TIDINGS_API int tidings_provider_every(struct tidings_provider *provider, uint64_t ms,
                                       void (*fn)(struct tidings_provider *provider));

/* ---- requests -------------------------------------------------------------------------------- */

/* Return true if a read is cancelled. Its client has gone, cancelled it, or waited too long
 * (`call-timeout`). A long operation can then stop early; it must still call `…_done`. */
TIDINGS_API bool tidings_read_cancelled(const struct tidings_read *read);

/* Return true if a read requests only a part of the content, which is stored in `*range`. A
 * provider may ignore it: the library cuts the content. A provider that can load a part passes it
 * to tidings_read_part, and finishes with TIDINGS_E_INVALID if the range starts after the end. */
TIDINGS_API bool tidings_read_range(const struct tidings_read *read, struct tidings_range *range);
/* Return true if the client of a read already has the content with this etag. The provider then
 * finishes with code 0 and no content, and the client learns that nothing changed. Use this if you
 * know the etag before you load the content; otherwise the library compares. An etag that starts
 * with "W/" never matches. */
TIDINGS_API bool tidings_read_unchanged(struct tidings_read *read, struct tidings_str etag);
/* Return true if a read would send an element of this media type. `uri` is the URI of the element;
 * empty means the requested URI. The provider need not create elements that are not wanted; the
 * library leaves them out. */
TIDINGS_API bool tidings_read_wants(const struct tidings_read *read, struct tidings_str uri,
                                    struct tidings_str mime_type);
/* Return true if the client of a read may know that `uri` exists. If the content of a container
 * lists names, leave out those that the client may not know. With an empty `uri`, the function
 * returns true if the client may see everything, so that further checks are unnecessary.
 * Thread-safe. */
TIDINGS_API bool tidings_read_shows(const struct tidings_read *read, struct tidings_str uri);
/* Return true if the client of a read may read `uri` too. Use this if the provider resolves the
 * requested URI to another one: if the client may not read that, answer as if it did not exist.
 * Thread-safe. */
TIDINGS_API bool tidings_read_may(const struct tidings_read *read, struct tidings_str uri);
/* Return the maximum content size of a read, in bytes. */
TIDINGS_API size_t tidings_read_max_bytes(const struct tidings_read *read);
/* Reserve memory for the content of a read before loading it. Without a reservation, content of
 * more than 256 KiB is counted when it is added. Thread-safe.
 *
 * TIDINGS_E_BUSY: the client, or all clients together, exceed their memory limit; finish the read
 * with this code. */
TIDINGS_API int tidings_read_reserve(struct tidings_read *read, size_t bytes,
                                     struct tidings_error *err);
/* Return the value of a template variable in the requested URI. It is empty if there is no such
 * variable. */
TIDINGS_API struct tidings_str tidings_read_variable(const struct tidings_read *read,
                                                     const char *name);

/* Add a content element to the answer of a read. If `about->uri` is empty, it is the requested URI;
 * unknown members (or about = NULL) come from the registration. Content is copied. Text that is not
 * valid UTF-8 is sent as a blob. An element without an etag gets one computed from its content.
 *
 * A resource without children must add at least one element, all with the requested URI; several
 * elements are the same content in different formats, each with its own mime_type. A listable
 * resource may add its children with their own URIs, or nothing. Otherwise the read fails. */
TIDINGS_API int tidings_read_text(struct tidings_read *read, const struct tidings_resource *about,
                                  struct tidings_str text, struct tidings_error *err);
TIDINGS_API int tidings_read_blob(struct tidings_read *read, const struct tidings_resource *about,
                                  struct tidings_str bytes, struct tidings_error *err);
/* Add a content element without copying its bytes. Valid UTF-8 is sent as by tidings_read_text,
 * other bytes as by tidings_read_blob. The function takes ownership of `bytes` (memory of
 * tidings_alloc), even on failure. */
TIDINGS_API int tidings_read_take(struct tidings_read *read, const struct tidings_resource *about,
                                  char *bytes, size_t len, struct tidings_error *err);
/* Add a part of the content, for a read with a range. It consists of the bytes at `offset`, of
 * about->size in total. For a range of bytes, include three more bytes on either side if they
 * exist, because text is cut at character boundaries. For a range of lines, pass exactly those
 * lines. The function takes ownership of `bytes`, even on failure. */
TIDINGS_API int tidings_read_part(struct tidings_read *read, const struct tidings_resource *about,
                                  int64_t offset, char *bytes, size_t len,
                                  struct tidings_error *err);
/* Content that the library reads in pieces: once to examine it, and again while sending it. */
struct tidings_piece;
struct tidings_pieces {
    void *user;
    int64_t size; /* total size */
    /* Copies exactly the `len` bytes from `offset` on into `bytes`. Returns 0 or a negative code:
     * TIDINGS_E_CONFLICT if the content has become shorter. Called by one thread at a time: first
     * by the caller of tidings_read_pieces, then, without `fetch`, by a worker, which must not wait
     * for a disk or a network. */
    int (*read)(void *user, int64_t offset, char *bytes, size_t len, struct tidings_error *err);
    /* Returns true if the content may have changed since the last call. NULL: it never does. */
    bool (*changed)(void *user);
    void (*close)(void *user); /* the last call; any thread */
    /* Optional: asynchronous `read`, for a worker. It calls tidings_piece_done exactly once: now if
     * the bytes are in memory, else later, from any thread. One piece at a time; `bytes` and `user`
     * stay valid until then. */
    void (*fetch)(void *user, int64_t offset, char *bytes, size_t len, struct tidings_piece *piece);
    void *reserved; /* zero */
};
/* Finish a fetch with 0, or with an error code as for `read` and its message in `err` (may be
 * NULL). Thread-safe. */
TIDINGS_API void tidings_piece_done(struct tidings_piece *piece, int code,
                                    const struct tidings_error *err);
/* Add a content element that is read again while it is sent, so that slow readers cost no memory.
 * It is text or a blob as with tidings_read_take. `about` needs an etag. Without a mime_type, that
 * of a provider's resource becomes text/plain or application/octet-stream. The library sends
 * exactly the bytes of the first reading; if they have changed, it ends the connection. Short
 * content, and a range of it, is read at once. The function takes ownership of `pieces->user`, even
 * on failure, and closes it exactly once.
 *
 * TIDINGS_E_BUSY: the content changes too often to be read. */
TIDINGS_API int tidings_read_pieces(struct tidings_read *read, const struct tidings_resource *about,
                                    const struct tidings_pieces *pieces, struct tidings_error *err);
/* Mark the content of a read as final: it never changes under its URI. Clients that have it need
 * not read again. */
TIDINGS_API void tidings_read_final(struct tidings_read *read);
/* Add details to the error that a read will finish with. `object` is a JSON object such as
 * {"reason":"deleted"}; its members become part of the error's `data`. It is copied, and replaces
 * an earlier one. It is left out if it is not an object or memory runs out. tidings_stat_explain
 * and tidings_write_explain work alike. */
TIDINGS_API void tidings_read_explain(struct tidings_read *read, struct tidings_str object);
/* Finish a read with code 0, or with an error code and its message in `err` (may be NULL). Call
 * this exactly once. Thread-safe. */
TIDINGS_API void tidings_read_done(struct tidings_read *read, int code,
                                   const struct tidings_error *err);

/* Answer a read with a string and finish it. It combines tidings_read_text, with the description of
 * the registration or list, and tidings_read_done. */
TIDINGS_API void tidings_read_answer(struct tidings_read *read, struct tidings_str text);

/* Add a row to a list, in ascending byte order of URIs. Rows up to `tidings_list_after` were on
 * earlier pages and are ignored: with few rows, add all of them; with many, start after it.
 *
 * Returns 1 if the list accepts more rows, 0 if the page is full (stop; this row was not added), or
 * a negative code. */
TIDINGS_API int tidings_list_add(struct tidings_list *list, const struct tidings_resource *row,
                                 struct tidings_error *err);
/* Return true if the client of a list may know that `uri` exists. Use this for a row that leads to
 * another resource (a link), and leave the row out otherwise. Thread-safe. */
TIDINGS_API bool tidings_list_shows(const struct tidings_list *list, struct tidings_str uri);
/* Return the last URI of the previous page of a list. It is empty on the first page. */
TIDINGS_API struct tidings_str tidings_list_after(const struct tidings_list *list);
/* Finish a list with code 0, or with an error code and its message in `err` (may be NULL). Use code
 * 0 after a full page, too. Call this exactly once. Thread-safe. */
TIDINGS_API void tidings_list_done(struct tidings_list *list, int code,
                                   const struct tidings_error *err);

/* Lists the resources below `uri`. Add rows, then call tidings_list_done, now or later, from any
 * thread. Called on a worker thread; must not block. */
typedef void (*tidings_children_fn)(void *user, struct tidings_list *list, struct tidings_str uri);

/* Return true if the client of a stat may know that `uri` exists. Use this if the provider resolves
 * the requested URI to another one, and otherwise answer as if it did not exist. Thread-safe. */
TIDINGS_API bool tidings_stat_shows(const struct tidings_stat *stat, struct tidings_str uri);
/* Add details to the error that a stat will finish with. It works like tidings_read_explain. */
TIDINGS_API void tidings_stat_explain(struct tidings_stat *stat, struct tidings_str object);
/* Finish a stat with the description of the resource, or with an error code. `resource` is used
 * only with code 0. Use TIDINGS_E_NOTFOUND for a missing resource and TIDINGS_E_GONE for a deleted
 * one. Call this exactly once. Thread-safe. */
TIDINGS_API void tidings_stat_done(struct tidings_stat *stat, int code,
                                   const struct tidings_resource *resource,
                                   const struct tidings_error *err);

/* Return the name or the start of the value of the variable or argument to complete. It is a
 * variable of a template, or an argument of a prompt. The slice is valid until the completion is
 * finished. */
TIDINGS_API struct tidings_str tidings_complete_name(const struct tidings_complete *complete);
TIDINGS_API struct tidings_str tidings_complete_value(const struct tidings_complete *complete);
/* Return the value of another variable or argument of a completion. It is empty if unknown. */
TIDINGS_API struct tidings_str tidings_complete_argument(const struct tidings_complete *complete,
                                                         const char *name);
/* Return true if the client of a completion has gone or cancelled it. */
TIDINGS_API bool tidings_complete_cancelled(const struct tidings_complete *complete);
/* Return true if the client of a completion may know that `uri` exists. A URI that contains "{"
 * stands for all URIs with the same start. The library checks each suggested value by the URI that
 * the template produces; use this function for values from other sources. Thread-safe. */
TIDINGS_API bool tidings_complete_shows(const struct tidings_complete *complete,
                                        struct tidings_str uri);
/* Add a value to a completion, best first.
 *
 * Returns 1 if the completion accepts more values, 0 if it has enough (100; this value was not
 * added), or a negative code. */
TIDINGS_API int tidings_complete_add(struct tidings_complete *complete, struct tidings_str value);
/* Set the total number of values of a completion, if it is larger than the number added. */
TIDINGS_API void tidings_complete_set_total(struct tidings_complete *complete, size_t total);
/* Finish a completion with the added values, or with an error code and its message in `err` (may be
 * NULL). Call this exactly once. Thread-safe. */
TIDINGS_API void tidings_complete_done(struct tidings_complete *complete, int code,
                                       const struct tidings_error *err);
/* Completes a value. Add values, then call tidings_complete_done, now or later, from any thread.
 * Called on a worker thread; must not block. An unknown value is not an error: add nothing. */
typedef void (*tidings_complete_fn)(void *user, struct tidings_complete *complete);

/* Return the operation, the bytes or the media type of a write. It removes the resource if
 * tidings_write_is_removal returns true, otherwise it stores the bytes. The media type is empty if
 * the client gave none. */
TIDINGS_API bool tidings_write_is_removal(const struct tidings_write *write);
TIDINGS_API struct tidings_str tidings_write_bytes(const struct tidings_write *write);
TIDINGS_API struct tidings_str tidings_write_mime_type(const struct tidings_write *write);
/* Return true if the bytes of a write are a patch, in the format of the media type. This is always
 * false for a provider without TIDINGS_PROVIDER_PATCHES. */
TIDINGS_API bool tidings_write_is_patch(const struct tidings_write *write);
/* Return the query of a write request, as the client encoded it ("origin=me"), or empty. It may
 * also contain `uri`. */
TIDINGS_API struct tidings_str tidings_write_query(const struct tidings_write *write);
/* Return the metadata that the client gave for a write. It is the text of a JSON object, or empty,
 * for `metadata` of the struct tidings_change that announces the write. The server rejects metadata
 * for a provider without TIDINGS_PROVIDER_TAKES_METADATA. */
TIDINGS_API struct tidings_str tidings_write_metadata(const struct tidings_write *write);
/* Return the trace of a write, for `traceparent` of the struct tidings_change that announces it. It
 * is empty if there is none. */
TIDINGS_API struct tidings_str tidings_write_traceparent(const struct tidings_write *write);
/* Return the etag that a write may replace. The current content must have this etag ("*": any
 * etag); if it is empty, there is no condition. Check the condition and make the change in one
 * atomic step. If the condition fails, finish with TIDINGS_E_CONFLICT. */
TIDINGS_API struct tidings_str tidings_write_if_match(const struct tidings_write *write);
/* Return true if a write may only create a resource. Check and create in one atomic step. If the
 * resource exists, finish with TIDINGS_E_CONFLICT. */
TIDINGS_API bool tidings_write_if_absent(const struct tidings_write *write);
/* Answer a write with a JSON text. It is copied. By default the answer is empty. */
TIDINGS_API void tidings_write_answer(struct tidings_write *write, struct tidings_str json);
/* Add details to the error that a write will finish with. It works like tidings_read_explain. */
TIDINGS_API void tidings_write_explain(struct tidings_write *write, struct tidings_str object);
/* Finish a write with code 1 if it created the resource, 0 if the resource existed, or an error
 * code. `etag` is that of the new content. Use TIDINGS_E_CONDITION if the write needs a condition,
 * and TIDINGS_E_FORMAT if the media type is not supported. Call this exactly once. Thread-safe. */
TIDINGS_API void tidings_write_done(struct tidings_write *write, int code, struct tidings_str etag,
                                    const struct tidings_error *err);

/* Finish a watch with code 0 if the provider announces changes, or with an error code. After code 0
 * the provider must announce every later change of the scope. An error rejects the subscription
 * with its message, before the client gets a confirmation. */
TIDINGS_API void tidings_watch_done(struct tidings_watch *watch, int code,
                                    const struct tidings_error *err);

/* ---- what subscriptions cover ---------------------------------------------------------------- */

/* Syntax of a subscribed URI. The server tests the forms in this order. */
enum tidings_form {
    TIDINGS_FORM_RESOURCE = 0,  /* names a resource */
    TIDINGS_FORM_QUERY = 1,     /* contains a raw '?' */
    TIDINGS_FORM_TEMPLATE = 2,  /* RFC 6570 */
    TIDINGS_FORM_GLOB = 3,      /* '*', '**', '[…]' */
    TIDINGS_FORM_CONTAINER = 4, /* ends in '/' */
    TIDINGS_FORM_REGEX = 5,     /* option `match: "regex"` */
    TIDINGS_FORM_RELATED = 6,   /* `covers` of the provider decides */
};

/* A row of a provider's table: a form, its spelling in that scheme, and its coverage. */
struct tidings_semantics {
    enum tidings_form form;
    const char *uri;    /* RFC 6570 template of such URIs: "file:///{+path}"; NULL ends the table */
    const char *covers; /* description for people */
};

/* ---- the table ------------------------------------------------------------------------------- */

struct tidings_provider_ops {
    uint32_t abi;     /* TIDINGS_PROVIDER_ABI */
    const char *name; /* short lower-case word: "file" */
    size_t size;      /* size of the instance state, which the core allocates and zeroes */
    uint32_t flags;   /* enum tidings_provider_flag */

    /* Required. `config` is the provider's configuration string (for files: the directory). After a
     * failure the core still calls close. */
    int (*open)(struct tidings_provider *provider, struct tidings_str config,
                struct tidings_error *err);

    /* Required. If the URI does not exist, finish with TIDINGS_E_NOTFOUND. */
    void (*read)(struct tidings_provider *provider, struct tidings_read *read,
                 struct tidings_str uri);

    /* Optional (NULL: the list is empty). Lists everything below the mount, flat. */
    void (*list)(struct tidings_provider *provider, struct tidings_list *list);

    /* Optional (NULL: the server searches `list`, which is acceptable for a few dozen resources;
     * without `list`, TIDINGS_E_NOTFOUND). */
    void (*stat)(struct tidings_provider *provider, struct tidings_stat *stat,
                 struct tidings_str uri);

    /* Optional. Lists the direct children of `uri`, in pages like list. NULL: everything that
     * `list` has below `uri`; for the mount itself, the whole list. */
    void (*children)(struct tidings_provider *provider, struct tidings_list *list,
                     struct tidings_str uri);

    /* Optional. Suggests values for a variable of a template. `uri_template` is the client's string
     * and starts with the prefix: the listed template of the mount (prefix + "{+path}") or another
     * one of the provider. If the template or variable is unknown, use TIDINGS_E_INVALID. */
    void (*complete)(struct tidings_provider *provider, struct tidings_complete *complete,
                     struct tidings_str uri_template);

    /* Optional (NULL: read-only). */
    void (*write)(struct tidings_provider *provider, struct tidings_write *write,
                  struct tidings_str uri);

    /* Optional (NULL: changes are always announced). The first subscriber needs changes of `uri`,
     * which need not exist yet. A `uri` that ends in '/' means everything below it, including later
     * resources. Called once per scope until the matching unwatch. The provider may reject the
     * watch, with TIDINGS_E_NOTFOUND if the URI can never exist. The server rejects subscribers
     * that wait longer than `watch-timeout`. The provider must still answer; if it accepts and no
     * subscriber is left, unwatch follows. */
    void (*watch)(struct tidings_provider *provider, struct tidings_watch *watch,
                  struct tidings_str uri);

    /* Optional. The last subscriber that needs `uri` has left. Called only after a successful
     * watch. */
    void (*unwatch)(struct tidings_provider *provider, struct tidings_str uri);

    /* Optional, pure. Returns true if a subscription to `subscribed` covers a change of `changed`,
     * in addition to the general rules. */
    bool (*covers)(struct tidings_provider *provider, struct tidings_str subscribed,
                   struct tidings_str changed);

    /* Required. Called once, even after a failed open. No request is pending. */
    void (*close)(struct tidings_provider *provider);

    /* Optional, pure. Translates `uri`, which contains a raw '?', to a glob over the canonical URIs
     * that it covers. `glob` has room for `*len` bytes; `*len` becomes the length. NULL: the query
     * names attributes that the metadata of a change must have. */
    int (*query)(struct tidings_provider *provider, struct tidings_str uri, char *glob, size_t *len,
                 struct tidings_error *err);

    /* Optional: rows for tidings://self/semantics. A form without a row has a general description.
     * Lives as long as the table. */
    const struct tidings_semantics *semantics;

    /* Optional: the listed templates of the mount, with complete URIs, instead of the default one;
     * an empty `uri` ends them. Lives as long as the table. */
    const struct tidings_resource *templates;

    /* Optional: an alias of the prefix for clients ("/entity/"). Answers and notifications use the
     * client's spelling. */
    const char *alias;

    /* Optional (NULL: the library keeps the JSON resources that it sent, and compares them).
     * Answers how `uri` changed since the version with the etag `baseline`, for subscriptions with
     * `include: "patch"`. Add one text (tidings_read_text): a JSON object with `baseline`, `etag`
     * and `patch`, or with `full: true` and `value` if no merge patch can express the change or
     * `baseline` is empty. The `etag` of the element is the version that the next patch can start
     * from. For a deleted resource, the object has `deleted: true`, and the etag of the element is
     * the baseline. The etags of a resource ascend in byte order. If the version does not exist, or
     * no longer, finish with TIDINGS_E_INVALID. */
    void (*patch)(struct tidings_provider *provider, struct tidings_read *read,
                  struct tidings_str uri, struct tidings_str baseline);

    /* Optional, pure. Tests whether subscriptions to `uri` receive patches of another resource.
     * Returns 1 if they do; the URI of that resource is written to `of`, which has room for `*len`
     * bytes, and `*len` becomes its length. Such subscriptions must name a baseline. Returns 0 if
     * not. A negative code rejects the subscription with its message. */
    int (*patches_of)(struct tidings_provider *provider, struct tidings_str uri, char *of,
                      size_t *len, struct tidings_error *err);

    /* Optional, with `patch`. Subscriptions start to need the version of `uri` with that etag,
     * because their next patch starts there. Returns a handle that `release` receives when no
     * subscription needs the version; NULL: the version is not kept. Called on workers, possibly by
     * several for one version; must not block. */
    void *(*hold)(struct tidings_provider *provider, struct tidings_str uri,
                  struct tidings_str etag);
    void (*release)(struct tidings_provider *provider, void *held);
};

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif

#endif
