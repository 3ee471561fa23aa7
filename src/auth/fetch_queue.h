/* SPDX-License-Identifier: MIT
 *
 * HTTP requests of one thread, a bounded number at a time; the others wait for their turn.
 *
 * Answers are small and whole: a status, a body of at most FETCH_QUEUE_BODY_MAX bytes, 10 seconds
 * for all of it. Redirects are not followed: an address that moved is the operator's to change.
 */
#ifndef AUTH_FETCH_QUEUE_H
#define AUTH_FETCH_QUEUE_H

#include "base/loop.h"
#include "base/str.h"

#define FETCH_QUEUE_BODY_MAX (256u << 10)
#define FETCH_QUEUE_TIMEOUT_MS 10000u
#define FETCH_QUEUE_AT_ONCE 16u /* under way */

struct fetch_queue;

/* What was fetched for tokens; counted by those who ask for it. */
struct auth_fetches {
    uint64_t keys, introspections, failures;
};

/* Loads libcurl. `ca_file`: PEM, trusted for https, borrowed; NULL: the system's. What it waits for
 * includes the loop, which the caller turns. TIDINGS_E_UNSUPPORTED. */
int fetch_queue_create(struct fetch_queue **ret, struct loop *loop, const char *ca_file,
                       struct tidings_error *err);
void fetch_queue_destroy(struct fetch_queue *q); /* after fetch_queue_close; NULL is fine */

/* Wait for answers, or for something to do in the loop, and hand over what came. */
void fetch_queue_step(struct fetch_queue *q);
/* Break off everything: all are told so, and no more are taken. */
void fetch_queue_close(struct fetch_queue *q);

struct loop *fetch_queue_loop(const struct fetch_queue *q);

struct queued_request {
    const char *url;
    const char *authorization; /* "Authorization: …"; NULL: none */
    struct tidings_str form;   /* POSTed as a form; empty: GET */
};

/* `status` 0: there was no answer, and `err` says why. */
typedef void (*fetch_done_fn)(void *user, long status, struct tidings_str body,
                              const struct tidings_error *err);

/* What is asked for is copied. `done` is called exactly once, later. TIDINGS_E_NOMEM,
 * TIDINGS_E_CLOSED: it is not. */
int fetch_queue_add(struct fetch_queue *q, const struct queued_request *request, fetch_done_fn done,
                    void *user);

/* Any thread. */
void fetch_queue_count(uint64_t *count);
struct auth_fetches *fetch_queue_counts(struct fetch_queue *q);

#endif
