/* SPDX-License-Identifier: MIT
 *
 * Which rows of a page are followed, and of which tables the next one is read.
 */
#include "store/page.h"

/* Pages in a row that need not have been read of so many tables: then of fewer. */
#define MANY_PAGES 16u

/* How many of the rows are in a row from there on. */
static size_t page_in_a_row(const struct page *page, uint64_t after)
{
    size_t n = 0;
    while (n < page->count && page->position(page->rows, n) == after + 1 + n) {
        n++;
    }
    return n;
}

/* Of a full page: rows at the last position, which runs share, may go on in the next one. */
static size_t page_before_last(const struct page *page)
{
    size_t n = page->count;
    while (n > 0 &&
           page->position(page->rows, n - 1) == page->position(page->rows, page->count - 1)) {
        n--;
    }
    return n > 0 ? n : page->count;
}

size_t page_followable(struct page_reader *r, const struct page *page, uint64_t followed,
                       bool *ret_last)
{
    *ret_last = page->count < page->max;
    if (r->tables == PAGE_ALL) {
        return *ret_last ? page->count : page_before_last(page);
    }
    size_t n = page->is_missed ? 0 : page_in_a_row(page, followed);
    if (n < page->count || (*ret_last && followed + n < page->newest)) {
        *ret_last = false; /* something else lies between */
        r->tables = page->is_missed || r->tables == PAGE_RECENT ? PAGE_ALL : PAGE_RECENT;
        r->many = MANY_PAGES;
    }
    return n;
}

void page_choose(struct page_reader *r, enum page_tables least)
{
    if (least <= r->tables) {
        r->many = MANY_PAGES;
    } else if (r->many > 0) {
        r->many--;
    } else {
        r->tables = least;
    }
}
