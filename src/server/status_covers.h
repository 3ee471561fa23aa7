/* SPDX-License-Identifier: MIT
 *
 * Rows of tidings://self/subscriptions?covers=URI: the subscriptions of a worker that a change of
 * that URI would be told to. They are found by the match index, as a change finds them, so it costs
 * no more than one; regexes are not searched at their clients' expense, but named with `regex:
 * true` where they may match. Filters are not asked: they judge changes, not URIs.
 */
#ifndef SERVER_STATUS_COVERS_H
#define SERVER_STATUS_COVERS_H

#include "base/str.h"

struct worker;

/* Appends an array of at most STATUS_PAGE_ROWS rows. `uri` is canonical. On the worker's thread. */
void status_write_covers(struct buf *out, struct worker *worker, struct tidings_str uri);

#endif
