/* SPDX-License-Identifier: MIT
 *
 * Provider jobs: requests to a provider (struct tidings_list, tidings_stat …; tidings_read is in
 * engine/catalog/job_read.h). A result that is ready on the worker's own thread is used at once;
 * from any other thread it is sent to the worker as a message.
 *
 * Rows and contents are written as JSON directly into the answer, on the thread on which the
 * provider adds them; no content is stored twice.
 */
#ifndef ENGINE_CATALOG_JOB_H
#define ENGINE_CATALOG_JOB_H

#include <pthread.h>

#include "base/thread.h"
#include "engine/catalog/catalog.h"
#include "formats/json_write.h"
#include "security/access.h"
#include "security/limits.h"

struct client_account;
struct worker;
struct job;
typedef void (*job_done_fn)(struct job *job);

/* The part common to all kinds. It lives in the memory of the request it serves. */
struct job {
    struct thread_message message;
    struct job *next, **at; /* of the worker's unfinished jobs */
    struct worker *worker;
    pthread_t thread;
    job_done_fn done; /* on the thread of `worker`, exactly once */
    void *user;
    struct tidings_provider *provider;
    struct tidings_str uri; /* canonical; outlives the job */
    int code;
    struct tidings_error err;
    char *details;                    /* of a failure: an object, compact; NULL: none */
    bool keeps_details;               /* valid until job_free_stat */
    bool cancelled;                   /* atomic */
    void (*on_cancel)(struct job *r); /* worker's thread, after the mark; NULL: none */
    void (*run)(struct job *job);     /* private: the job's work, maybe on the pool */
};

struct tidings_list {
    struct job base;
    struct jw *w; /* inside the array of rows */
    const struct principal *principal;
    struct tidings_str after; /* URI */
    struct buf last;          /* URI of the last row added */
    size_t wanted, count;
    bool children, full;
    struct tidings_str below; /* only rows below this URI; empty: all */
    bool subscribes;          /* the list is for a client that wants to subscribe to the rows */
    bool is_bare;             /* containers are written without the '/' at the end of their URIs */
    /* Receives each row instead of the JSON text; returns 1 to continue, 0 to stop. On the thread
     * that lists. */
    int (*on_row)(struct tidings_list *list, const struct tidings_resource *row);
};

struct tidings_stat {
    struct job base;
    const struct principal *principal;
    struct tidings_resource about; /* slices valid only inside `done` */
    struct tidings_resource *copy; /* private: set if it came from another thread */
};

struct tidings_complete {
    struct job base; /* .uri is the template */
    struct tidings_str name, value;
    const struct principal *principal;
    struct jw *w;               /* inside the array of values */
    const struct json *context; /* the other known arguments; NULL: none */
    size_t count, max;
    int64_t total; /* -1: unknown */
    bool more;     /* some values did not fit */
};

struct tidings_write {
    struct job base;
    const struct principal *principal;
    struct tidings_str bytes, mime_type, if_match, query;
    struct tidings_str metadata;    /* of the change, a JSON object that was checked; or empty */
    struct tidings_str traceparent; /* likewise, its cause; or empty */
    bool is_removal, is_patch, if_absent;
    struct client_account *account; /* who pays; the caller holds a reference */
    struct refusal limit;           /* reached by its client; retry_ms 0: none */
    struct buf etag;                /* of the written content */
    struct buf answer;              /* JSON, or empty */
};

/* Cancels on the thread of `worker`, where `done` runs too. */
void job_init(struct job *r, struct worker *worker, job_done_fn done, void *user,
              struct tidings_str uri);
void job_cancel(struct job *r);
/* The provider's details of the failure, for the error's data; empty: none. Inside `done`; with
 * keeps_details until job_free_stat. */
struct tidings_str job_details(const struct job *r);

/* Starts the job. `base` must be initialised; `done` may run before these return. */
void job_list(struct tidings_list *l, struct tidings_provider *p);
void job_children(struct tidings_list *l, struct tidings_provider *p);
void job_stat(struct tidings_stat *s, const struct catalog_hit *hit);
void job_free_stat(struct tidings_stat *s); /* after done: frees the data that came with it */
void job_complete(struct tidings_complete *c, struct tidings_provider *p);
void job_write(struct tidings_write *w, struct tidings_provider *p);

/* Finishes the job: the client has reached that limit, which was counted. */
void job_write_limit(struct tidings_write *w, const struct refusal *why);

/* Logs the unfinished jobs of the worker: the first eight, by provider and URI. */
void job_log_unfinished(const struct worker *worker);

/* Counts the job as begun until it is finished. job_start calls it. */
void job_begin(struct job *r);
/* For kinds of jobs in separate files: runs now or on the pool, and finishes on that thread. */
void job_start(struct job *r, struct tidings_provider *p, void (*run)(struct job *));
/* The part of job_start after the job has begun, for jobs that wait for something first. */
void job_go_on(struct job *r);
void job_finish(struct job *r, int code, const struct tidings_error *err);
/* The same, but never before this returns. */
void job_finish_later(struct job *r, int code, const struct tidings_error *err);
/* Implements tidings_…_explain. */
void job_explain(struct job *r, struct tidings_str object);

#endif
