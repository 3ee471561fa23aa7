/* SPDX-License-Identifier: MIT
 *
 * A few threads for work that may block (large files, blocking providers). Threads start with the
 * first job and stay until pool_destroy. A job runs once on some pool thread; it reports back
 * through a mailbox of its owner. Jobs wait in line, at most `max_waiting` of them.
 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include <tidings/types.h>

struct pool;
struct pool *pool_create(unsigned threads, size_t max_waiting, struct tidings_error *err);
/* Runs what is waiting, joins the threads. No other thread may be in pool_submit any more, except
 * the pool's own jobs. NULL is fine. */
void pool_destroy(struct pool *p);
/* Any thread. The job runs with all signals blocked. TIDINGS_E_BUSY when the line is full,
 * TIDINGS_E_CLOSED while destroying, TIDINGS_E_NOMEM. */
int pool_submit(struct pool *p, void (*run)(void *job), void *job);

#endif
