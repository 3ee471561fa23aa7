/* SPDX-License-Identifier: MIT
 *
 * Byte access to one resource, without JSON-RPC: read, replace, patch or remove it in a separate
 * exchange (GET, PUT, PATCH and DELETE beside the HTTP endpoint). Lookup, access, ranges, formats,
 * conditions and limits are the same as for other requests.
 *
 *     resource_io_init(&p, worker, done, user);
 *     p.spelled = …; p.options.… = …;        // slices must outlive it
 *     resource_io_start(&p, RESOURCE_IO_READ);           // `done` may come before this returns
 *     … in done: look at the outcome, then resource_io_deinit(&p)
 *
 * A resource with children and no content reads as a page of them, JSON: {"resources": […], "next":
 * URI}. With `after` set to `next`, the next page is read; the last page has no `next`.
 *
 * Belongs to the thread of its worker. Once started it lives until `done`; resource_io_cancel makes
 * that come sooner and changes nothing else.
 */
#ifndef ENGINE_CATALOG_RESOURCE_IO_H
#define ENGINE_CATALOG_RESOURCE_IO_H

#include "base/mem.h"
#include "engine/catalog/job_read.h"

enum resource_io_op {
    RESOURCE_IO_READ,
    RESOURCE_IO_WRITE,
    RESOURCE_IO_PATCH,
    RESOURCE_IO_REMOVE,
};

struct resource_io {
    /* The request: */
    const struct principal *principal; /* who asks; held from resource_io_start on */
    struct tidings_str as_requested;   /* the URI */
    struct tidings_str after;       /* RESOURCE_IO_READ with children but no content: see below */
    struct read_options options;    /* RESOURCE_IO_READ; `formats` empty: the first one */
    struct tidings_str bytes;       /* RESOURCE_IO_WRITE, RESOURCE_IO_PATCH */
    struct tidings_str mime_type;   /* likewise; empty: unknown */
    struct tidings_str query;       /* writing: further parameters, see tidings_write_query */
    struct tidings_str metadata;    /* writing: of the change, a JSON object; or empty */
    struct tidings_str traceparent; /* likewise: the trace it belongs to; or empty */
    struct tidings_str if_match;    /* an etag, "*", or empty */
    bool if_absent;
    bool has_unmodified_since;      /* writing: fails (TIDINGS_E_CONFLICT) if the current content is
                                       known … */
    int64_t unmodified_since;       /* … to have been modified after this second */
    struct client_account *account; /* writing: a reference, taken: who pays for it */
    /* The outcome: */
    int code; /* a failure with its message in `err`; 1: created */
    struct tidings_error err;
    struct tidings_str reason;  /* of a failed read (engine/catalog/job_read.h), or empty */
    struct tidings_str details; /* of a failure: an object with further data; or empty */
    struct refusal limit;       /* of a failure: the limit reached; retry_ms 0: none */
    struct tidings_str scope;   /* of a failure: missing scopes, see access_put_missing */
    bool is_denied;             /* of a failure: it hides that the principal lacks the right */
    bool unchanged;             /* `etag` is held; there is no content */
    bool is_final;              /* the content will never change */
    bool is_stale;              /* the store cannot be reached: the content may be stale */
    bool is_text, is_part;
    int64_t from;                   /* of a part: its start */
    int64_t size;                   /* of the whole; -1: not known */
    struct tidings_resource *about; /* of the content; NULL when there is none */
    char *memory; /* the content, mem_free it; to take it over, set this to NULL. After a write:
                     JSON to answer with, or NULL */
    struct payload *content; /* or this, if it is read while it is sent */
    size_t len;
    struct output output;    /* books either; the caller initializes it */
    struct tidings_str etag; /* of the current content, or empty */
    /* Private: */
    struct worker *worker;
    void (*done)(struct resource_io *p);
    void *user;
    enum resource_io_op op;
    const struct principal *held; /* a reference to `principal` */
    struct job *job;              /* NULL: no job is under way */
    struct arena arena;
    struct catalog_hit hit;
    struct buf page;
    struct jw w;
    union {
        struct tidings_read read;
        struct tidings_list list;
        struct tidings_stat stat; /* before a write on condition of a date */
        struct tidings_write write;
    };
};

void resource_io_init(struct resource_io *p, struct worker *worker,
                      void (*done)(struct resource_io *p), void *user);
void resource_io_start(struct resource_io *p, enum resource_io_op op);
void resource_io_cancel(struct resource_io *p);
void resource_io_deinit(struct resource_io *p); /* not while a job is under way */

#endif
