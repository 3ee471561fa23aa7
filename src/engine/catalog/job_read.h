/* SPDX-License-Identifier: MIT
 *
 * A read, the provider job (struct tidings_read): a request to a provider or to the function of a
 * registered resource, and the path of its elements. For all sources alike, this code completes the
 * description from the registration, cuts out the range, chooses one format, leaves out content
 * that the client already holds, and checks the rules of contents (engine/catalog/read_options.h).
 *
 * resources/read takes the elements as JSON. A caller that needs the bytes (an HTTP route) supplies
 * a receiver:
 *
 *     static int keep(struct tidings_read *read, const struct read_element *e, err) { … copy … }
 *     static void discard(struct tidings_read *read) { … drop what was copied … }
 *     static const struct read_receiver receiver = {keep, discard};
 *
 *     if (!catalog_find(worker->catalog, uri, &arena, &hit)) …           // canonical uri: 404
 *     options.has_range = true; options.range = …; options.etags[0] = …; // or none: leave NULL
 *     job_init(&read->base, worker, done, user, uri);                    // on the worker's thread
 *     read->receiver = &receiver;
 *     read->options = &options;                                          // must outlive the read
 *     read->max_bytes = worker->limits->max_read_bytes;
 *     job_read(read, &hit);                                              // done may come first
 *
 * The receiver is called on the provider's thread; `done` on the worker's. In `done`:
 *
 *     read->base.code < 0     read->base.err, and read->reason (below) where there is one
 *     read->unchanged         304: nothing was given; `read->held` is the etag
 *     else                    what the receiver kept: etag, mime_type and size (of the whole) of
 *                             e->about; of a part e->from and e->to: 206 with Content-Range
 *
 * Reasons: READ_OUT_OF_RANGE (416), READ_NOT_ACCEPTABLE (406), READ_RULE (500).
 */
#ifndef ENGINE_CATALOG_JOB_READ_H
#define ENGINE_CATALOG_JOB_READ_H

#include "engine/catalog/job.h"
#include "engine/catalog/payload.h"
#include "engine/catalog/read_options.h"

#define READ_OUT_OF_RANGE STR("out_of_range")
#define READ_NOT_ACCEPTABLE STR("not_acceptable")
#define READ_RULE STR("contents_rule")
#define READ_TOO_LARGE STR("too_large")
#define READ_STALE STR("stale")

struct read_element {
    const struct tidings_resource *about; /* complete; `size` is that of the whole, -1: not known */
    /* Raw: the requested part of them. If they are read in pieces (tidings_read.pieced), `ptr` is
     * NULL. */
    struct tidings_str bytes;
    bool is_text;
    bool is_part;     /* the requested range: */
    int64_t from, to; /* its position in the whole, in bytes */
};

struct read_receiver {
    int (*element)(struct tidings_read *read, const struct read_element *element,
                   struct tidings_error *err);
    /* Discards everything given so far. */
    void (*discard)(struct tidings_read *read);
};

struct tidings_read {
    struct job base;
    /* Set by the caller: */
    struct jw *w; /* inside the array of contents, when `receiver` is NULL */
    const struct read_receiver *receiver; /* NULL: JSON into `w` */
    const struct read_options *options;   /* NULL: everything */
    const struct principal *principal;
    uint64_t reader; /* its own subscriber (engine/protocol/method_listen.h); 0: unknown */
    struct tidings_str as_requested; /* the client's spelling of the URI, used in the contents */
    size_t max_bytes;
    bool own_only;                 /* without children */
    bool is_patch;                 /* the change since `patch_from`: calls the provider's `patch` */
    struct tidings_str patch_from; /* an etag; empty: everything */
    bool raw;                  /* ranges are exact to the byte, even in the middle of a character */
    bool takes_pieces;         /* the receiver supports `pieced` */
    struct output *output;     /* books stored content; NULL: not booked */
    struct payload **payloads; /* without a receiver: the list for long contents, which are
                                * left out of `w`; NULL: all are written */
    /* The outcome: */
    size_t count; /* elements given */
    bool unchanged;
    bool is_final;             /* the content will never change */
    bool is_stale;             /* the store cannot be reached: the content may be stale */
    struct tidings_str held;   /* the client's etag when unchanged */
    struct tidings_str reason; /* of a failure, its data.reason; or empty */
    int64_t whole;             /* READ_OUT_OF_RANGE: the size of the whole; 0: not known */
    struct refusal refused;    /* … by a limit; retry_ms 0: not limited */
    uint64_t version;          /* the newest change known at the start: the content is not older */
    /* For the receiver: memory that `element->bytes` begins, when it was handed over. To keep it,
     * set this to NULL and free it with mem_free later. */
    char *loaded;
    /* The same for the whole content, if it is read in pieces; else NULL. */
    struct payload *pieced;
    /* Private: */
    struct catalog_entry *entry;
    struct catalog *awaited; /* a reference while it waits for a cursor; contains `entry` */
    struct template_match variables;
    struct read_rules rules;
    size_t reserved; /* bytes booked that no content has taken yet */
    struct jw begun; /* the state of `w` before the first element, and … */
    size_t begun_len;
    size_t bytes; /* given */
    size_t rank;  /* of the format given */
    bool all_unchanged;
    struct tidings_error left_out; /* why elements were left out, in case none remains */
    struct tidings_str left_out_reason;
    struct tidings_error failed; /* the first failure, which is kept */
};

/* For receivers, before they store `bytes` more. Takes what is reserved first. TIDINGS_E_BUSY sets
 * `refused`. */
int job_read_book(struct tidings_read *read, size_t bytes, struct tidings_error *err);

/* Starts the read. `base` must be initialised; `done` may run before this returns. */
void job_read(struct tidings_read *read, const struct catalog_hit *hit);

#endif
