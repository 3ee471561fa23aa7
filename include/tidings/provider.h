/* SPDX-License-Identifier: MIT
 *
 * Write a provider: a source of resources below one URI prefix (a *mount*).
 *
 * A provider says what exists (`list`, `children`, `stat`), hands out content (`read`), and says
 * *that* something changed (`tidings_provider_changed`, callable from any thread). It never decides
 * who is told, when, or in which words: matching, coalescing, access and delivery are the core's.
 *
 * Threads of operations
 *   `open`, `watch`, `unwatch`, `close` and what tidings_provider_every asked for are called on the
 *   hub thread, one at a time per instance.
 *   `list`, `children`, `stat`, `read`, `complete`, `write` may be called on any worker, several at
 *   once. None may block, except that an instance with TIDINGS_PROVIDER_BLOCKING has these six
 *   called on a pool of threads instead. `covers` is pure and may be called anywhere.
 *
 * Threads
 *   Functions about one request are called by one thread at a time, whichever it is; all others
 *   from any thread, except where their text names one.
 *
 * Completion
 *   Each call that carries a request (`struct tidings_read`, …) must be finished exactly once with
 *   the matching `…_done`, at once or later, from any thread. The request is valid until then.
 *   URIs handed in are canonical and lie inside the mount; slices are valid until completion.
 *
 * Since 0.1. Operation tables grow only at the end; `abi` says which fields exist: a table built
 * for an older version is accepted, one for a newer is refused.
 */
#ifndef TIDINGS_PROVIDER_H
#define TIDINGS_PROVIDER_H

#include <tidings/types.h>

#ifdef __cplusplus
extern "C" {
/* Functions named like the struct they return: -Wshadow calls that hiding its constructor. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

#define TIDINGS_PROVIDER_ABI 1u

enum tidings_provider_flag {
    TIDINGS_PROVIDER_BLOCKING = 1u << 0, /* requests are put to it on a pool of threads */
    TIDINGS_PROVIDER_SINGLE = 1u << 1,   /* one resource: the prefix without its '/' */
    TIDINGS_PROVIDER_PATCHES = 1u << 2,  /* `write` understands patches */
    /* What is listed never changes, or is announced without `watch`: who wants to hear of lists
     * needs no watch for it. */
    TIDINGS_PROVIDER_FIXED_LIST = 1u << 3,
    TIDINGS_PROVIDER_TAKES_METADATA = 1u << 4, /* `write` passes on tidings_write_metadata */
    /* Its changes never carry metadata. Subscriptions that select by metadata (?key=value) are
     * refused then, because they would never be told anything, unless clients may notify. */
    TIDINGS_PROVIDER_BARE_CHANGES = 1u << 5,
};

/* The description of one resource or, in `uri`, of one template. What is empty or zero is not
 * known, and left out on the wire. Borrowed by whoever receives it. */
struct tidings_resource {
    struct tidings_str uri;
    struct tidings_str name; /* required */
    struct tidings_str title;
    struct tidings_str description;
    struct tidings_str mime_type;
    struct tidings_str formats; /* JSON array of all media types a read may give, `mime_type` first;
                                 * empty: that one alone */
    struct tidings_str etag;    /* equality of content; "W/…": may stay the same for a moment */
    struct tidings_str icons;   /* JSON array text */
    struct tidings_str audience; /* JSON array text */
    int64_t modified_ms;         /* Unix time */
    int64_t size;                /* raw bytes, with `has_size` */
    double priority;             /* 0 … 1, with `has_priority` */
    bool has_size;
    bool has_priority;
    bool listable;           /* has children */
    bool not_subscribable;   /* no subscription is notified of its changes */
    struct tidings_str meta; /* JSON object text with free keys, at most 8 KiB and 16 deep, told in
                              * `_meta` of lists and contents; keys with a prefix that belongs to
                              * the protocol or begins with "dev.tidings" are refused */
    void *reserved[4];       /* zero */
};

/* Describe a resource by what nearly every one has. The texts are borrowed. `mime_type` may be
 * NULL. */
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

/* What a provider knows about one change. What is empty or zero is not known. */
struct tidings_change {
    struct tidings_str uri; /* canonical URI of the resource that changed; required */
    enum tidings_change_kind kind;
    struct tidings_str etag;
    struct tidings_str from;     /* a move: the URI it had before */
    struct tidings_str metadata; /* JSON object text with free keys, or empty */
    struct tidings_str checksum;
    struct tidings_str origin; /* who made it: subscriptions may leave out their own */
    struct tidings_str target; /* `uri` is a link, and this is what it leads to (canonical): told to
                                * those who may hear of both */
    int64_t modified_ms;       /* Unix time */
    int64_t size;              /* raw bytes, with `has_size` */
    bool has_size;
    bool not_subscribable; /* no subscription is notified, lists are. Not needed for registered
                            * and published resources: the server knows */
    struct tidings_str traceparent; /* of W3C Trace Context: of the request that caused it; told in
                                     * `_meta`. One that is not valid is left out */
    void *reserved[2];              /* zero */
};

struct tidings_provider; /* one open instance; `tidings_provider_state` gives its own memory */
struct tidings_read;
struct tidings_list;
struct tidings_stat;
struct tidings_complete;
struct tidings_write;
struct tidings_watch;

/* Return the memory of an instance of a provider: `size` bytes, zeroed at first. */
TIDINGS_API void *tidings_provider_state(struct tidings_provider *provider);

/* Return the canonical URI prefix that an instance is mounted at. Valid while it is open. */
TIDINGS_API struct tidings_str tidings_provider_prefix(struct tidings_provider *provider);

/* Announce a change of a resource of a provider. Any thread; copies everything; never blocks.
 * Changes announced by one thread keep their order. TIDINGS_E_INVALID; TIDINGS_E_BUSY and
 * TIDINGS_E_NOMEM as for tidings_changed: every subscription is told to look again. */
TIDINGS_API int tidings_provider_changed(struct tidings_provider *provider,
                                         const struct tidings_change *change,
                                         struct tidings_error *err);

/* Announce that changes below a mount may have been missed, nobody knows which. Every subscription
 * that may cover some of it is told to look again (`truncated`). Any thread; never blocks. */
TIDINGS_API void tidings_provider_missed(struct tidings_provider *provider);

/* Call a function of a provider every `ms` milliseconds. On the hub thread, from now on until
 * close; replaces what was asked for before, 0 ends it. For providers that have to look, without a
 * thread of their own: begin with the first watch, end with the last unwatch. `fn` must not block.
 * On the hub thread only: in open, watch, unwatch and `fn` itself. TIDINGS_E_NOMEM. */
TIDINGS_API int tidings_provider_every(struct tidings_provider *provider, uint64_t ms,
                                       void (*fn)(struct tidings_provider *provider));

/* ---- requests -------------------------------------------------------------------------------- */

/* Say whether the client of a read has gone, cancelled, or waited too long (`call-timeout`). Long
 * work may stop early (and still calls `…_done`). */
TIDINGS_API bool tidings_read_cancelled(const struct tidings_read *read);

/* Say which part of the content a read asks for. False: all of it. May be ignored: whatever is
 * given is cut to it. Who can do with loading a part gives that with tidings_read_part, and
 * finishes with TIDINGS_E_INVALID when it begins behind the end. */
TIDINGS_API bool tidings_read_range(const struct tidings_read *read, struct tidings_range *range);
/* Say whether the client of a read holds the content with this etag already. True: finish with code
 * 0 and give nothing, it will be told that nothing changed. For those who know the etag before they
 * load the content; for all others the library finds out. An etag that begins with "W/" never
 * counts. */
TIDINGS_API bool tidings_read_unchanged(struct tidings_read *read, struct tidings_str etag);
/* Say whether a read would send an element of a media type. Under `uri`; empty: the URI asked for.
 * One that would not need not be made; given nevertheless, it is left out. */
TIDINGS_API bool tidings_read_wants(const struct tidings_read *read, struct tidings_str uri,
                                    struct tidings_str mime_type);
/* Say whether whoever reads may be told that there is `uri`. For containers whose own content names
 * what is in them: a name that may not be told is left out of it. Of an empty `uri`: may all be
 * told, so that nobody needs to ask? Any thread. */
TIDINGS_API bool tidings_read_shows(const struct tidings_read *read, struct tidings_str uri);
/* Say whether whoever reads may read `uri` too. For a provider that finds out only now what the URI
 * asked for leads to: what may not be read under its own name is answered like what is not there.
 * Any thread. */
TIDINGS_API bool tidings_read_may(const struct tidings_read *read, struct tidings_str uri);
/* Return how many bytes of content a read accepts at most. */
TIDINGS_API size_t tidings_read_max_bytes(const struct tidings_read *read);
/* Reserve memory for the content of a read before there is content. Content of more than 256 KiB
 * for which nothing is reserved is booked when it is added. TIDINGS_E_BUSY: the client, or all
 * clients, have no room for so many bytes; finish the read with that. Any thread. */
TIDINGS_API int tidings_read_reserve(struct tidings_read *read, size_t bytes,
                                     struct tidings_error *err);
/* Return the value that a template variable took in the URI being read. Empty when there is none.
 */
TIDINGS_API struct tidings_str tidings_read_variable(const struct tidings_read *read,
                                                     const char *name);

/* Add a content element to the answer of a read. `about->uri` empty means the URI asked for; what
 * is not known about it (or about = NULL) is taken from the registration. Content is copied. Text
 * that is not valid UTF-8 is sent as a blob. An element without an etag gets one made of its
 * content.
 *
 * A resource without children gives at least one element, all under the URI asked for; several are
 * the same content in different formats, each with its own mime_type. A listable one may add its
 * children under their own URIs, or give nothing. Anything else fails the read. */
TIDINGS_API int tidings_read_text(struct tidings_read *read, const struct tidings_resource *about,
                                  struct tidings_str text, struct tidings_error *err);
TIDINGS_API int tidings_read_blob(struct tidings_read *read, const struct tidings_resource *about,
                                  struct tidings_str bytes, struct tidings_error *err);
/* Add a content element without copying its bytes. As tidings_read_text if they are valid UTF-8,
 * else as tidings_read_blob. Takes `bytes` over (memory of tidings_alloc), also on failure. */
TIDINGS_API int tidings_read_take(struct tidings_read *read, const struct tidings_resource *about,
                                  char *bytes, size_t len, struct tidings_error *err);
/* Add a part of the content, for a range that was asked for. It is the bytes from `offset` on, of
 * about->size. For a range of bytes it should have three bytes more on either side, where there are
 * as many: text is cut at characters. For a range of lines it is exactly those lines. Takes
 * `bytes`, as above. */
TIDINGS_API int tidings_read_part(struct tidings_read *read, const struct tidings_resource *about,
                                  int64_t offset, char *bytes, size_t len,
                                  struct tidings_error *err);
/* Content that the library reads in pieces: once to examine it, and again while it sends it. */
struct tidings_piece;
struct tidings_pieces {
    void *user;
    int64_t size; /* of the whole */
    /* Copies exactly the `len` bytes from `offset` on into `bytes`. Returns 0 or a negative code:
     * TIDINGS_E_CONFLICT if the content has become shorter. Called by one thread at a time: first
     * by the caller of tidings_read_pieces, then, without `fetch`, by a worker, which must not wait
     * for a disk or a network. */
    int (*read)(void *user, int64_t offset, char *bytes, size_t len, struct tidings_error *err);
    /* Returns true if the content may have changed since the last call. NULL: it never does. */
    bool (*changed)(void *user);
    void (*close)(void *user); /* the last call; any thread */
    /* Optional: the same as `read`, for a worker. Calls tidings_piece_done exactly once: now if the
     * bytes are in memory, else later, from any thread. One piece at a time; `bytes` and `user`
     * stay valid until then. */
    void (*fetch)(void *user, int64_t offset, char *bytes, size_t len, struct tidings_piece *piece);
    void *reserved; /* zero */
};
/* Finish a fetch with 0, or a code as of `read` with its sentence in `err` (may be NULL). Any
 * thread. */
TIDINGS_API void tidings_piece_done(struct tidings_piece *piece, int code,
                                    const struct tidings_error *err);
/* Add a content element that is read again while it is sent, so that slow readers cost no memory.
 * It is text or a blob as with tidings_read_take. `about` needs an etag. Without a mime_type, that
 * of a provider's resource becomes text/plain or application/octet-stream. The library sends
 * exactly the bytes of the first reading; if they have changed, it ends the connection. Short
 * content, and a range of it, is read at once. Takes `pieces->user` even on failure, and closes it
 * exactly once. TIDINGS_E_BUSY if the content does not stay the same for long enough to be read. */
TIDINGS_API int tidings_read_pieces(struct tidings_read *read, const struct tidings_resource *about,
                                    const struct tidings_pieces *pieces, struct tidings_error *err);
/* Say that the content of a read never changes under its URI. Who has it need not ask again. */
TIDINGS_API void tidings_read_final(struct tidings_read *read);
/* Add what programs should know of the failure a read will finish with. A JSON object,
 * {"reason":"deleted"}, whose members stand in the `data` of the error. Copied; replaces an earlier
 * one. Left out when it is no object, or when there is no memory. Likewise for stat and write. */
TIDINGS_API void tidings_read_explain(struct tidings_read *read, struct tidings_str object);
/* Finish a read. Code 0, or a failure with its sentence in `err` (may be NULL). Any thread, exactly
 * once. */
TIDINGS_API void tidings_read_done(struct tidings_read *read, int code,
                                   const struct tidings_error *err);

/* Answer a read with a text and finish it. It is tidings_read_text, described as it was registered
 * or listed, and tidings_read_done. */
TIDINGS_API void tidings_read_answer(struct tidings_read *read, struct tidings_str text);

/* Add a row to a list, in ascending byte order of URI. Returns 1 while more are wanted, 0 when the
 * page is full (stop; this row was not taken), or a failure. Rows up to `tidings_list_after` were
 * on pages before and are passed over: who has few may simply add them all, who has many begins
 * behind it. */
TIDINGS_API int tidings_list_add(struct tidings_list *list, const struct tidings_resource *row,
                                 struct tidings_error *err);
/* Say whether whoever lists may be told that there is `uri`. For a row that leads to another
 * resource (a link): one that may not be told of is left out. Any thread. */
TIDINGS_API bool tidings_list_shows(const struct tidings_list *list, struct tidings_str uri);
/* Return the last URI of the previous page of a list. Empty on the first. */
TIDINGS_API struct tidings_str tidings_list_after(const struct tidings_list *list);
/* Finish a list. Code 0, also after a full page, or a failure with its sentence in `err` (may be
 * NULL). Any thread, exactly once. */
TIDINGS_API void tidings_list_done(struct tidings_list *list, int code,
                                   const struct tidings_error *err);

/* A function that lists what is below `uri`: adds rows, then …_done, now or later, from any thread.
 * Called on a worker thread; must not block. */
typedef void (*tidings_children_fn)(void *user, struct tidings_list *list, struct tidings_str uri);

/* Say whether whoever asks for a description may be told that there is `uri`. For a provider that
 * finds out only now what the URI asked for leads to: else it is answered like what is not there.
 * Any thread. */
TIDINGS_API bool tidings_stat_shows(const struct tidings_stat *stat, struct tidings_str uri);
/* Add what programs should know of the failure a stat will finish with. As tidings_read_explain. */
TIDINGS_API void tidings_stat_explain(struct tidings_stat *stat, struct tidings_str object);
/* Finish a stat with the description of the resource, or a failure. `resource` is that description
 * when code is 0. Any thread, exactly once. Missing: TIDINGS_E_NOTFOUND; it was there and was
 * deleted: TIDINGS_E_GONE. */
TIDINGS_API void tidings_stat_done(struct tidings_stat *stat, int code,
                                   const struct tidings_resource *resource,
                                   const struct tidings_error *err);

/* Return which variable or argument is completed, and how its value begins. A variable of a
 * template or an argument of a prompt; valid until it is finished. */
TIDINGS_API struct tidings_str tidings_complete_name(const struct tidings_complete *complete);
TIDINGS_API struct tidings_str tidings_complete_value(const struct tidings_complete *complete);
/* Return what another variable or argument was given already. Empty: not known. */
TIDINGS_API struct tidings_str tidings_complete_argument(const struct tidings_complete *complete,
                                                         const char *name);
/* Say whether the client of a completion has gone or cancelled. */
TIDINGS_API bool tidings_complete_cancelled(const struct tidings_complete *complete);
/* Say whether whoever asks for a completion may be told that there is `uri`. Of a URI with "{" in
 * it: anything that goes on like that. What is suggested is judged by the URI that the template
 * makes of it; this is for values that were found elsewhere. Any thread. */
TIDINGS_API bool tidings_complete_shows(const struct tidings_complete *complete,
                                        struct tidings_str uri);
/* Add a value to a completion, the best first. 1 while more are wanted, 0 when there are enough
 * (100; this one was not taken), or a failure. */
TIDINGS_API int tidings_complete_add(struct tidings_complete *complete, struct tidings_str value);
/* Set how many values a completion has in all, if more than are added. */
TIDINGS_API void tidings_complete_set_total(struct tidings_complete *complete, size_t total);
/* Finish a completion, with what was added or a failure. As tidings_read_done. Any thread, exactly
 * once. */
TIDINGS_API void tidings_complete_done(struct tidings_complete *complete, int code,
                                       const struct tidings_error *err);
/* A function that completes: adds values, then …_done, now or later, from any thread. Called on a
 * worker thread; must not block. What it does not know is no failure: it adds nothing. */
typedef void (*tidings_complete_fn)(void *user, struct tidings_complete *complete);

/* Return what a write asks for: these bytes, or a removal of what is there. The media type is empty
 * when nothing was said. */
TIDINGS_API bool tidings_write_is_removal(const struct tidings_write *write);
TIDINGS_API struct tidings_str tidings_write_bytes(const struct tidings_write *write);
TIDINGS_API struct tidings_str tidings_write_mime_type(const struct tidings_write *write);
/* Say whether the bytes of a write are a patch to what is there. In the format of the media type.
 * Those of a provider without TIDINGS_PROVIDER_PATCHES never are. */
TIDINGS_API bool tidings_write_is_patch(const struct tidings_write *write);
/* Return the query of a write request, encoded as it came ("origin=me"), or empty. Beside what it
 * is for it may hold `uri`. */
TIDINGS_API struct tidings_str tidings_write_query(const struct tidings_write *write);
/* Return what the writer says of the change. It is for `metadata` of the struct tidings_change that
 * announces it: the text of a JSON object, or empty. Who gives some to a provider without
 * TIDINGS_PROVIDER_TAKES_METADATA is refused. */
TIDINGS_API struct tidings_str tidings_write_metadata(const struct tidings_write *write);
/* Return the trace that a write belongs to. It is for `traceparent` of the struct tidings_change
 * that announces it; empty: none. */
TIDINGS_API struct tidings_str tidings_write_traceparent(const struct tidings_write *write);
/* Return the etag that a write may replace. The content that is there must have it ("*": any);
 * empty: whatever is there. To be checked in one step with the change; a condition that does not
 * hold is TIDINGS_E_CONFLICT. */
TIDINGS_API struct tidings_str tidings_write_if_match(const struct tidings_write *write);
/* Say whether a write may only create. Where something is already, it is TIDINGS_E_CONFLICT; to be
 * checked in one step with the change. */
TIDINGS_API bool tidings_write_if_absent(const struct tidings_write *write);
/* Answer a write with a JSON text instead of nothing. Copied. */
TIDINGS_API void tidings_write_answer(struct tidings_write *write, struct tidings_str json);
/* Add what programs should know of the failure a write will finish with. As tidings_read_explain.
 */
TIDINGS_API void tidings_write_explain(struct tidings_write *write, struct tidings_str object);
/* Finish a write. Code 1 when it was created, 0 when it was there before, or a failure. `etag` is
 * that of what is there now. TIDINGS_E_CONDITION: only with a condition; TIDINGS_E_FORMAT: not in
 * that media type. */
TIDINGS_API void tidings_write_done(struct tidings_write *write, int code, struct tidings_str etag,
                                    const struct tidings_error *err);

/* Finish a watch: say whether changes will be announced. After code 0 every later change of the
 * scope is announced; a failure refuses the subscription, with its reason, before the client is
 * told it has one. */
TIDINGS_API void tidings_watch_done(struct tidings_watch *watch, int code,
                                    const struct tidings_error *err);

/* ---- what subscriptions cover ---------------------------------------------------------------- */

/* How a subscribed URI is written, in the order in which it is settled what one means. */
enum tidings_form {
    TIDINGS_FORM_RESOURCE = 0,  /* names a resource */
    TIDINGS_FORM_QUERY = 1,     /* holds a raw '?' */
    TIDINGS_FORM_TEMPLATE = 2,  /* RFC 6570 */
    TIDINGS_FORM_GLOB = 3,      /* '*', '**', '[…]' */
    TIDINGS_FORM_CONTAINER = 4, /* ends in '/' */
    TIDINGS_FORM_REGEX = 5,     /* option `match: "regex"` */
    TIDINGS_FORM_RELATED = 6,   /* `covers` of the provider decides */
};

/* A row of a provider's table: one form, in the spelling of its scheme, and what it covers. */
struct tidings_semantics {
    enum tidings_form form;
    const char *uri;    /* RFC 6570 template of such URIs: "file:///{+path}"; NULL ends the table */
    const char *covers; /* a sentence for people */
};

/* ---- the table ------------------------------------------------------------------------------- */

struct tidings_provider_ops {
    uint32_t abi;     /* TIDINGS_PROVIDER_ABI */
    const char *name; /* short lower-case word: "file" */
    size_t size;      /* instance state, allocated zeroed by the core */
    uint32_t flags;   /* enum tidings_provider_flag */

    /* Required. `config` is the provider's own text (for files: the directory). On failure the core
     * still calls close. */
    int (*open)(struct tidings_provider *provider, struct tidings_str config,
                struct tidings_error *err);

    /* Required. A URI that does not exist: TIDINGS_E_NOTFOUND. */
    void (*read)(struct tidings_provider *provider, struct tidings_read *read,
                 struct tidings_str uri);

    /* Optional (NULL: nothing is listed). Everything below the mount, flat. */
    void (*list)(struct tidings_provider *provider, struct tidings_list *list);

    /* Optional (NULL: it is looked for in `list`, which is fine for a few dozen; without that
     * either: not found). */
    void (*stat)(struct tidings_provider *provider, struct tidings_stat *stat,
                 struct tidings_str uri);

    /* Optional. The direct children of `uri`, paged like list. NULL: what `list` has below it,
     * which of the mount itself is all of that. */
    void (*children)(struct tidings_provider *provider, struct tidings_list *list,
                     struct tidings_str uri);

    /* Optional. Suggest values for a variable of a template, which is given as the client wrote it
     * and begins with the prefix: of the one that is listed for the mount (prefix + "{+path}"), and
     * of others of the provider's own. TIDINGS_E_INVALID: it knows no such template or variable. */
    void (*complete)(struct tidings_provider *provider, struct tidings_complete *complete,
                     struct tidings_str uri_template);

    /* Optional (NULL: read-only). */
    void (*write)(struct tidings_provider *provider, struct tidings_write *write,
                  struct tidings_str uri);

    /* Optional (NULL: changes are always announced). Somebody begins to need changes of `uri`; one
     * that ends in '/' means everything below it, existing yet or not; any other need not exist yet
     * either. Called once per scope until the matching unwatch. May refuse, with TIDINGS_E_NOTFOUND
     * a URI that can never exist. Those who wait for the answer longer than `watch-timeout`
     * are refused; it must be given all the same, and is followed by unwatch when it is yes and
     * nobody needs it any more. */
    void (*watch)(struct tidings_provider *provider, struct tidings_watch *watch,
                  struct tidings_str uri);

    /* Optional. The last one who needed `uri` left. Only after a watch that succeeded. */
    void (*unwatch)(struct tidings_provider *provider, struct tidings_str uri);

    /* Optional, pure: does a subscription to `subscribed` cover a change of `changed`, beyond the
     * general rules? */
    bool (*covers)(struct tidings_provider *provider, struct tidings_str subscribed,
                   struct tidings_str changed);

    /* Required, called once, also after a failed open. No request is outstanding. */
    void (*close)(struct tidings_provider *provider);

    /* Optional, pure: what a subscription to `uri`, which holds a raw '?', covers, as a glob over
     * canonical URIs written to `glob` (`*len` bytes of room, then its length). NULL: the query
     * names attributes that the metadata of a change must have. */
    int (*query)(struct tidings_provider *provider, struct tidings_str uri, char *glob, size_t *len,
                 struct tidings_error *err);

    /* Optional: rows for tidings://self/semantics; a form that has none is described in general
     * words. Lives as long as the table. */
    const struct tidings_semantics *semantics;

    /* Optional: the templates that are listed for the mount instead of the general one, with whole
     * URIs; an empty `uri` ends them. Lives as long as the table. */
    const struct tidings_resource *templates;

    /* Optional: a beginning that clients may write instead of the prefix ("/entity/"). Answers and
     * notifications keep their spelling. */
    const char *alias;

    /* Optional (NULL: the library keeps what it told of JSON resources, and compares): what became
     * of `uri` since the version with the etag `baseline`, for subscriptions with `include:
     * "patch"`. One text (tidings_read_text), a JSON object with `baseline`, `etag` and `patch`, or
     * with `full: true` and `value` where no merge patch can say it or `baseline` is empty; `etag`
     * of the element is the version that the next patch may begin at. Of something deleted: an
     * object with `deleted: true`, and the baseline as that etag. The etags of one resource ascend
     * by bytes. TIDINGS_E_INVALID: there is no such version (any more). */
    void (*patch)(struct tidings_provider *provider, struct tidings_read *read,
                  struct tidings_str uri, struct tidings_str baseline);

    /* Optional, pure: is `uri` one under which patches of another resource are told? 1: yes, of the
     * one written to `of` (`*len` bytes of room, then its length); its subscriptions must name a
     * baseline. 0: no. A failure refuses the subscription, with its reason. */
    int (*patches_of)(struct tidings_provider *provider, struct tidings_str uri, char *of,
                      size_t *len, struct tidings_error *err);

    /* Optional, with `patch`: subscriptions begin to need the version of `uri` with that etag,
     * since their next patch begins there. Gives what `release` gets when none does any more; NULL:
     * it is not kept for them. Called on workers, for one version by several; must not block. */
    void *(*hold)(struct tidings_provider *provider, struct tidings_str uri,
                  struct tidings_str etag);
    void (*release)(struct tidings_provider *provider, void *held);
};

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif

#endif
