/* SPDX-License-Identifier: MIT
 *
 * Following what others wrote to a store, a page of rows at a time, of as few tables as there is
 * something in: what of a page may be followed. Pure; asking the store is the caller's.
 *
 * Every change has a position, and most are in one table or two. Those are read alone first: if
 * there is a row at each position, one after the other up to where the store is, there is nothing
 * in the other tables. Else the rest is read with more of them. That holds from whichever snapshot
 * rows come, and however far somebody only says that the store has come: who says too much makes it
 * be read again, of all tables, with the store's own word for where it is.
 */
#ifndef CLUSTER_FOLLOW_H
#define CLUSTER_FOLLOW_H

#include <tidings/types.h>

#include "cluster/log_record.h"

/* Each has those of the next. */
enum page_tables { PAGE_ALL, PAGE_RECENT, PAGE_ENTITIES };

struct page_reader {
    enum page_tables tables; /* of which the next page is read */
    unsigned many;           /* pages to be read yet of more tables than there was something in */
};

/* A page was read of those tables, after `followed`. */
struct page {
    size_t count;    /* of rows, by position … */
    size_t max;      /* … of at most so many */
    uint64_t newest; /* where the store is at least, or is said to be */
    bool is_missed;  /* some of what came after `followed` is forgotten: no row says so */
    uint64_t (*position)(void *rows, size_t i);
    void *rows;
};

/* How many of the rows can be followed. *ret_last: and then everything up to `newest` was; else
 * read on. */
size_t page_followable(struct page_reader *r, const struct page *page, uint64_t followed,
                       bool *ret_last);
/* All was followed, and `least` would have given all of the last page. */
void page_choose(struct page_reader *r, enum page_tables least);

/* -------------------------------------------------------------------------------------------------
 * What other nodes of a cluster told of their batches, by notifications, and was not followed here
 * yet: which of it may be followed without asking the store. Pure.
 *
 * A notification is a position that the store has come to, or a notice with all rows of a batch
 * (cluster/log_record.h). Only the notice that begins right after what was followed may be
 * followed; if that leads up to the highest position that was heard of, nothing else has to be
 * asked for.
 */

#define HEARD_MAX 32u /* notices; more: the store is asked */

struct heard {
    char *texts[HEARD_MAX];
    unsigned count;
    uint64_t notified; /* the highest position */
};

void heard_clear(struct heard *h);
/* Any text that came. What was followed already is passed over. false: it is no notification of
 * ours. */
bool heard_add(struct heard *h, struct tidings_str text, uint64_t followed);
/* The notice to follow next. It points into the text. false: there is none. */
bool heard_find(const struct heard *h, uint64_t followed, struct row_notice_head *ret);

#endif
