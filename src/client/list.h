/* SPDX-License-Identifier: MIT
 *
 * Lists of a server as the other parts of the client use them: elements as values, not as text.
 */
#ifndef CLIENT_LIST_H
#define CLIENT_LIST_H

#include "json/json.h"

#include <tidings/types.h>

struct tidings_client;

#define STOP_LISTING 2
#define LIST_MAX_PAGES 10000u

/* What the pages of a list may still cost, or those of all lists of a walk. Only the waiting for
 * the server counts: what the program does with a page may take as long as it likes. */
struct list_budget {
    unsigned left; /* pages that may still be asked for */
    unsigned came;
    unsigned ended; /* lists; each is good for a tenth of an answer's time more */
    uint64_t waited_ms;
};

/* 0: the next one; STOP_LISTING: enough; negative: a failure, `err` is the caller's business. */
typedef int (*json_item_fn)(void *user, struct json *item);

/* What is directly below a resource: 0, STOP_LISTING, or a failure. TIDINGS_E_UNSUPPORTED: the
 * server does not offer that; TIDINGS_E_TIMEOUT: it takes too long, this time or in all. `budget`
 * is for this list and those to come. */
int list_children(struct tidings_client *c, const char *uri, json_item_fn fn, void *user,
                  struct list_budget *budget, struct tidings_error *err);

/* A tool that was listed is remembered; false: it must not be used, and the program was warned. */
bool list_takes_tool(struct tidings_client *c, struct json *tool);

/* The tools of the server, likewise. */
int list_all_tools(struct tidings_client *c, json_item_fn fn, void *user,
                   struct list_budget *budget, struct tidings_error *err);

#endif
