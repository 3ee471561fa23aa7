/* SPDX-License-Identifier: MIT
 *
 * tidings://self/status as a few lines for people.
 */
#ifndef CLI_MONITOR_H
#define CLI_MONITOR_H

#include <stdio.h>

#include "cli/command.h"
#include "cli/remote.h"

/* Counters at one moment, so that the next sample can compute rates. Zeroed: no sample yet. */
struct overview_before {
    double now_ms, changes, deliveries, requests, bytes_out, cpu_ms;
};

/* The lines, each truncated to `width` columns and ended by `end`; returns their number. `before`
 * (may be NULL) is updated. */
size_t overview_put(const struct cli *cli, FILE *out, struct tidings_str status,
                    struct overview_before *before, size_t width, const char *end);

/* -------------------------------------------------------------------------------------------------
 * The clients of a server (tidings://self/peers) as a sorted table for people. Client names are
 * untrusted: they are truncated to their column and escaped for the terminal.
 */

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
/* Largest first (since: newest first). */
void peer_table_sort(struct peer_table *t, enum peer_order order);
/* A head and at most `max` rows from `first` on, each truncated to `width` columns and ended by
 * `end`. */
void peer_table_put(const struct cli *cli, FILE *out, const struct peer_table *t, size_t first,
                    size_t max, size_t width, double now_ms, const char *end);

/* The text in at most `width` columns, escaped as untrusted text; padded with blanks to the width
 * if `fills`. */
void put_cell(FILE *out, const char *text, size_t width, bool fills);

/* -------------------------------------------------------------------------------------------------
 * The state that a tidings server publishes below tidings://self/ (serve --self), for the commands
 * of operators.
 */

/* The JSON text of tidings://self/NAME; tidings_free it. NULL with `err`, whose message says how to
 * serve it if it is missing. */
char *self_state_read(struct tidings_client *client, const char *name, struct tidings_error *err);
/* The same for a paged resource: one array of all rows, at most SELF_STATE_PAGES pages. */
#define SELF_STATE_PAGES 200u
char *self_state_read_all(struct tidings_client *client, const char *name,
                          struct tidings_error *err);

/* The number at `pointer`, 0 if there is none. */
double self_state_number(struct tidings_str json, const char *pointer);

/* "350 ms", "2.5 s", "4 min", "3 h", "12 d". */
#define SPAN_TEXT_MAX 32u

#endif
