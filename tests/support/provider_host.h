/* SPDX-License-Identifier: MIT
 *
 * A stand-in for the worker, for tests of providers: opens one instance, puts requests to it, waits
 * for their answers, and records the changes it announces.
 *
 * Every wait has a deadline (HOST_DEADLINE_MS) after which the test fails; nothing sleeps. Answers
 * are copies, freed by the caller. Functions are called on one thread, the test's.
 */
#ifndef TESTS_SUPPORT_PROVIDER_HOST_H
#define TESTS_SUPPORT_PROVIDER_HOST_H

#include <tidings/provider.h>

#include "support/provider_pieces.h"

#define HOST_DEADLINE_MS 20000

struct host;

/* Open a provider; NULL on failure (after calling its close), with the reason in err. */
struct host *host_open(const struct tidings_provider_ops *ops, const char *prefix,
                       const char *config, struct tidings_error *err);
void host_close(struct host *h);
struct tidings_provider *host_provider(struct host *h);

/* ---- requests -------------------------------------------------------------------------------- */

struct host_row {
    char *uri, *name, *mime_type, *etag; /* "" when not known */
    int64_t size, modified_ms;
    bool listable;
    bool is_text; /* contents only */
    char *bytes;  /* contents only; NUL-terminated */
    size_t length;
    bool is_part; /* given as a part, from `offset` on */
    int64_t offset;
};

struct host_answer {
    int code;
    char error[252];
    size_t count;
    struct host_row *rows;
    bool is_full;      /* a listing that was stopped */
    bool is_unchanged; /* a read that found its etag held */
};

struct host_answer *host_read(struct host *h, const char *uri);
/* The same in two steps, to have several under way; in between the client may go. */
struct host_reading;
struct host_reading *host_read_begin(struct host *h, const char *uri);
void host_read_cancel(struct host_reading *reading);
struct host_answer *host_read_end(struct host_reading *reading);
/* `range` NULL: all of it. `held`: an etag the client has, NULL: none. */
struct host_answer *host_read_with(struct host *h, const char *uri,
                                   const struct tidings_range *range, const char *held,
                                   size_t max_bytes);
struct host_answer *host_list(struct host *h, const char *after, size_t wanted);
struct host_answer *host_children(struct host *h, const char *uri, const char *after,
                                  size_t wanted);
struct host_answer *host_stat(struct host *h, const char *uri);
/* The values are the names of the rows. */
struct host_answer *host_complete(struct host *h, const char *uri_template, const char *name,
                                  const char *value, size_t wanted);
/* The one other argument that completions know from now on; NULL: none. Borrowed. */
void host_set_argument(const char *name, const char *value);
void host_answer_free(struct host_answer *a);
/* URIs with this prefix are hidden from the caller; NULL: none are. Borrowed. */
void host_hide(const char *prefix);
/* The reason of the last failure; "" if there was none. */
const char *host_explained(void);

/* Arm, and wait until watched; the code. */
int host_watch(struct host *h, const char *uri);
void host_unwatch(struct host *h, const char *uri);

/* ---- changes --------------------------------------------------------------------------------- */

struct host_change {
    enum tidings_change_kind kind;
    char *uri, *etag, *from;
    int64_t size, modified_ms;
    bool has_size;
    bool is_taken;
};

/* That changes were missed is recorded as an update of "". */
/* Wait for a change of this kind and URI that was not taken yet, and take it. Fails the test at the
 * deadline, listing what came instead. Borrowed until host_forget. */
const struct host_change *host_await(struct host *h, enum tidings_change_kind kind,
                                     const char *uri);
/* Wait for the change with this index (counted from the last host_forget), whether taken or not;
 * returns how many more there are already. */
size_t host_next(struct host *h, size_t index, struct host_change *ret);
/* The number of rejected ones: of this URI, or (NULL) in total. */
size_t host_untaken(struct host *h, const char *uri);
/* Drop all recorded changes. */
void host_forget(struct host *h);

#endif
