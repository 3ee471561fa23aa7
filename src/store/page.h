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
#ifndef STORE_PAGE_H
#define STORE_PAGE_H

#include <tidings/types.h>

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

#endif
