/* SPDX-License-Identifier: MIT
 *
 * One resource as plain bytes: read, replaced, patched or removed by somebody who speaks no
 * JSON-RPC and has an exchange of its own (GET, PUT, PATCH and DELETE beside the HTTP endpoint).
 * Finding, access, ranges, formats, conditions and limits are those of everybody else.
 *
 *     plain_init(&p, core, done, user);
 *     p.spelled = …; p.options.… = …;        // slices must outlive it
 *     plain_start(&p, PLAIN_READ);           // `done` may come before this returns
 *     … in done: look at the outcome, then plain_deinit(&p)
 *
 * What has children and gives no content reads as a page of them, JSON: {"resources": […], "next":
 * URI}. With `after` set to `next` the page behind it is read; without `next` it was the last.
 *
 * Belongs to the thread of its core. Once started it lives until `done`; plain_cancel makes that
 * come sooner and changes nothing else.
 */
#ifndef CATALOG_RESOURCE_IO_H
#define CATALOG_RESOURCE_IO_H

#include "base/arena.h"
#include "catalog/job_read.h"

enum plain_op {
    PLAIN_READ,
    PLAIN_WRITE,
    PLAIN_PATCH,
    PLAIN_REMOVE,
};

struct plain {
    /* What is asked: */
    const struct principal *who;  /* on whose behalf; held from plain_start on */
    struct tidings_str spelled;   /* the URI */
    struct tidings_str after;     /* PLAIN_READ of what has children and no content: see below */
    struct read_options options;  /* PLAIN_READ; `formats` empty: whichever comes first */
    struct tidings_str bytes;     /* PLAIN_WRITE, PLAIN_PATCH */
    struct tidings_str mime_type; /* likewise; empty: not said */
    struct tidings_str query;     /* writing: what else was said, see tidings_write_query */
    struct tidings_str if_match;  /* an etag, "*", or empty */
    bool if_absent;
    struct allowance *allowance; /* writing: a reference, taken: at whose expense */
    /* The outcome: */
    int code; /* a failure with its sentence in `err`; 1: created */
    struct tidings_error err;
    struct tidings_str reason;  /* of a failed read (catalog/job_read.h), or empty */
    struct tidings_str details; /* of a failure: an object with what else is known; or empty */
    struct refusal limit;       /* of a failure: that was reached; retry_ms 0: none */
    struct tidings_str scope;   /* of a failure: what the token lacked, see access_put_missing */
    bool unchanged;             /* `etag` is held; there is no content */
    bool is_final;              /* it stays as it is */
    bool is_text, is_part;
    int64_t from;                   /* a part: where it begins */
    int64_t size;                   /* of the whole; -1: not known */
    struct tidings_resource *about; /* of the content; NULL when there is none */
    char *memory; /* the content, mem_free it; who takes it over sets this to NULL. After a write:
                   * JSON to answer with, or NULL */
    size_t len;
    struct tidings_str etag; /* of what is there now, or empty */
    /* Private: */
    struct core *core;
    void (*done)(struct plain *p);
    void *user;
    enum plain_op op;
    const struct principal *held; /* a reference to `who` */
    struct request *request;      /* NULL: nothing is under way */
    struct arena arena;
    struct catalog_hit hit;
    struct buf page;
    struct jw w;
    union {
        struct tidings_read read;
        struct tidings_list list;
        struct tidings_write write;
    };
};

void plain_init(struct plain *p, struct core *core, void (*done)(struct plain *p), void *user);
void plain_start(struct plain *p, enum plain_op op);
void plain_cancel(struct plain *p);
void plain_deinit(struct plain *p); /* not while something is under way */

#endif
