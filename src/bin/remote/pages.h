/* SPDX-License-Identifier: MIT
 *
 * Bounds on an answer that a tool gives in pages, which a server may never end: how many there
 * were, how long was waited for them, and whether cursors repeat. Bounds as those of lists in
 * client/list.h and client/page_cursors.h.
 */
#ifndef BIN_PAGES_H
#define BIN_PAGES_H

#include <tidings/types.h>

/* Zeroed to begin with. */
struct pages {
    unsigned count;
    uint64_t waited_ms; /* for the server, which its user adds up: printing a page takes its time */
    char *mark;         /* a cursor that was given: after 1, 2, 4, 8 … pages the newest */
};

/* A page came and names the next: 0, or why that is not to be asked for.
 * TIDINGS_E_PARSE: it was given before; TIDINGS_E_LIMIT: there were too many; TIDINGS_E_TIMEOUT:
 * all together took ten times as long as one may, `answer_ms` (0: that of clients, 30 s). */
int pages_next(struct pages *p, const char *cursor, uint64_t answer_ms, struct tidings_error *err);
void pages_deinit(struct pages *p);

#endif
