/* SPDX-License-Identifier: MIT
 *
 * Cursors of the change log as clients see them, `epoch.seq`, and with a store
 * `epoch.seq.position`; and which position in the store belongs to a number.
 *
 * A client that missed too much is told to look again, one message for each of its subscriptions.
 * Until the last of them is told a cursor ends in `~from-to`: of the subscriptions whose order is
 * in that range some have yet to be told (`~from`, of before there were ranges: from there on). Who
 * is cut in between and comes back hears the rest and not everything again.
 *
 * A worker remembers the numbers of the newest durable changes. For one that is older the answer is
 * lower than it could be: then a client that comes back after a restart hears again of something it
 * knows, and never misses anything.
 */
#ifndef ENGINE_PROTOCOL_CURSOR_H
#define ENGINE_PROTOCOL_CURSOR_H

#include <tidings/types.h>

#define CURSOR_TEXT 80u
#define CURSOR_SEALED 144u /* bytes of a seal around it (engine/delivery/delivery.h) */

struct log_cursor {
    uint64_t epoch, seq;
    uint64_t position; /* everything durable up to here is told */
    bool has_position;
    uint32_t gap;    /* 0: there is nothing to say of that */
    uint32_t gap_to; /* 0: whatever is not below `gap` */
};
#define CURSOR_ALL_NOTIFIED UINT32_MAX /* as `gap`: everybody has been told to look again */

/* In which order subscriptions are told to look again, by what the client calls them: above 0 and
 * below CURSOR_ALL_NOTIFIED. */
uint32_t cursor_order(struct tidings_str as_requested);

/* Has a subscription of that order yet to be told to look again? */
bool cursor_has_gap(const struct log_cursor *cursor, uint32_t order);
/* What either of them says. */
void cursor_join_gap(struct log_cursor *into, const struct log_cursor *from);

/* Does it look like a seal? */
bool cursor_is_sealed(struct tidings_str text);
bool cursor_parse(struct tidings_str text, struct log_cursor *ret);
/* What is behind `~`. */
bool cursor_parse_gap(struct tidings_str text, struct log_cursor *ret);
/* The same with the `~`, of one that has something to say of that. */
#define CURSOR_GAP_TEXT 16u
struct tidings_str cursor_print_gap(const struct log_cursor *cursor, char out[CURSOR_GAP_TEXT]);
struct tidings_str cursor_print(const struct log_cursor *cursor, char out[CURSOR_TEXT]);

/* ---- numbers and positions ------------------------------------------------------------------- */

struct position_map_entry {
    uint64_t seq, position;
};

/* All zero: no store. */
struct position_map {
    struct position_map_entry *ring; /* by number, ascending from `at` */
    size_t count, at;
    uint64_t first; /* up to here numbers are positions */
};

/* With a store; false: out of memory. */
bool position_map_init(struct position_map *positions, uint64_t first);
void position_map_deinit(struct position_map *positions);
/* A durable change has that number. Both rise. */
void position_map_add(struct position_map *positions, uint64_t seq, uint64_t position);
/* The highest position, as far as known, of the changes up to that number. */
uint64_t position_map_find(const struct position_map *positions, uint64_t seq);

#endif
