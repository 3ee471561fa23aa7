/* SPDX-License-Identifier: MIT
 *
 * Calls: requests to the server whose answer the client waits for. It turns its loop while it
 * waits.
 */
#ifndef CLIENT_CALLS_H
#define CLIENT_CALLS_H

#include <tidings/client.h>

#include "base/hash.h"
#include "formats/json.h"

/* Sends a request and waits. Returns the result, to be released with jv_unref, or NULL on
 * failure. */
struct json *ask(struct tidings_client *c, const char *method, struct tidings_str params,
                 struct tidings_error *err);
/* Returns the value, which lives in `root`, as a string, and releases `root`; NULL: nothing. */
char *ask_give_text(struct tidings_client *c, struct json *root, const struct json *value,
                    struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * The cursors of a list's pages, to detect a cycle. However many and long a server makes them, only
 * this is kept of them. Zeroed to begin with.
 */

#define PAGES_MAX_ANSWERS 10u  /* time limit of all pages of a list, in time limits of answers */
#define PAGE_CURSOR_MAX 65536u /* bytes of one */

struct page_cursors {
    unsigned count;
    unsigned char mark[SHA256_BYTES]; /* digest of an earlier cursor */
};

/* Accepts the cursor of the next page: 0; TIDINGS_E_LIMIT: it is too long; TIDINGS_E_PARSE: a
 * repeated cursor. A cycle is detected after at most three times the number of its pages and those
 * before it, and at once when a cursor follows itself. */
int page_cursors_next(struct page_cursors *c, struct tidings_str cursor);

#endif
