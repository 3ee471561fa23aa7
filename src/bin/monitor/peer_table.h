/* SPDX-License-Identifier: MIT
 *
 * The clients of a server (tidings://self/peers) as a table for people, sorted. What clients call
 * themselves is a stranger's: it is cut to its column and cannot drive the terminal.
 */
#ifndef BIN_PEER_TABLE_H
#define BIN_PEER_TABLE_H

#include <stdio.h>

#include "bin/cli/command.h"

enum peer_order {
    PEERS_BY_LAG,
    PEERS_BY_WAITING,
    PEERS_BY_BYTES,
    PEERS_BY_SUBSCRIPTIONS,
    PEERS_BY_SINCE,
};
extern const char *const peer_orders[]; /* names; ends with NULL */

struct peer_row {
    char *peer, *who, *address, *client, *via, *error;
    double lag_ms, waiting, unsent, bytes, subscriptions, since_ms;
};

struct peer_table {
    struct peer_row *rows;
    size_t count, cap;
};

/* From the array of rows. TIDINGS_E_NOMEM. */
int peer_table_read(struct peer_table *t, struct tidings_str json, struct tidings_error *err);
void peer_table_deinit(struct peer_table *t);
/* The most of it first (since: the newest first). */
void peer_table_sort(struct peer_table *t, enum peer_order order);
/* A head and at most `max` rows from `first` on, each cut to `width` columns and ended by `end`. */
void peer_table_put(const struct cli *cli, FILE *out, const struct peer_table *t, size_t first,
                    size_t max, size_t width, double now_ms, const char *end);

/* The text in at most `width` columns, escaped like all text of strangers; and blanks up to the
 * width when `fills`. */
void put_cell(FILE *out, const char *text, size_t width, bool fills);

#endif
