/* SPDX-License-Identifier: MIT
 *
 * Pages of lists: how many rows a client wants, and the cursor that says where the next page
 * begins. A cursor is a letter for the list and the last row's name, base64url: it survives
 * restarts and needs no memory. It is a stranger's input like any other.
 */
#ifndef REQUEST_PAGE_H
#define REQUEST_PAGE_H

#include "request/request.h"

/* Rows asked for by params.pageSize or params.limit, at most the server's; 0: the request was
 * answered with an error. */
size_t page_size(struct request *request);
/* What params.cursor says: the letter, one of `sources` (the first when there is no cursor), and
 * the name to go on after, in the request's arena (empty: from the beginning). `ret_source` may be
 * NULL. false: it is none of ours, and the request was answered. */
bool page_read_cursor(struct request *request, const char *sources, char *ret_source,
                      struct tidings_str *ret_after);
/* The member nextCursor. */
void page_write_cursor(struct jw *w, char source, struct tidings_str last);

#endif
