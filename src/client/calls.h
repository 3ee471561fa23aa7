/* SPDX-License-Identifier: MIT
 *
 * Requests to the server whose answer the client waits for, turning its loop meanwhile.
 */
#ifndef CLIENT_CALLS_H
#define CLIENT_CALLS_H

#include <tidings/client.h>

#include "base/hash.h"
#include "formats/json.h"

/* Ask and wait: the result, to be released with jv_unref. NULL on failure. */
struct json *ask(struct tidings_client *c, const char *method, struct tidings_str params,
                 struct tidings_error *err);
/* Hands the value, which lives in `root`, over as text, and releases that; NULL: nothing. */
char *ask_give_text(struct tidings_client *c, struct json *root, const struct json *value,
                    struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * The cursors of a list's pages, to notice when they go in a circle. However many and long a server
 * makes them, this is all that is kept of them. Zeroed to begin with.
 */

#define PAGES_MAX_ANSWERS 10u  /* all pages of a list take at most the time of so many answers */
#define PAGE_CURSOR_MAX 65536u /* bytes of one */

struct page_cursors {
    unsigned count;
    unsigned char mark[SHA256_BYTES]; /* digest of one that was given */
};

/* The cursor of the next page: 0; TIDINGS_E_LIMIT: it is too long; TIDINGS_E_PARSE: it was given
 * before. A circle is noticed at the latest after three times as many pages as there are up to its
 * end, at once when a cursor follows itself. */
int page_cursors_next(struct page_cursors *c, struct tidings_str cursor);

#endif
