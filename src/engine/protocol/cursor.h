/* SPDX-License-Identifier: MIT
 *
 * Cursors of the change log as clients see them, `epoch.seq`, and with a store
 * `epoch.seq.position`; and the position map, which gives the store's position for a number.
 *
 * A client that missed too much gets a resync, one message for each of its subscriptions. Until the
 * last of them is sent, a cursor ends in `~from-to`: subscriptions whose order is in that range
 * still wait for their resync (`~from`, in cursors of older versions: from there on). A client that
 * is disconnected in between and resumes receives the rest, and not everything once more.
 *
 * A worker remembers the numbers of the newest durable changes. For an older change the position is
 * lower than it could be: then a client that resumes after a restart receives known changes again,
 * and never misses any.
 */
#ifndef ENGINE_PROTOCOL_CURSOR_H
#define ENGINE_PROTOCOL_CURSOR_H

#include <tidings/types.h>

#define CURSOR_TEXT 80u
#define CURSOR_SEALED 144u /* bytes of a seal around it (engine/delivery/delivery.h) */

struct log_cursor {
    uint64_t epoch, seq;
    uint64_t position; /* every durable change up to here was sent */
    bool has_position;
    uint32_t gap;    /* 0: no gap */
    uint32_t gap_to; /* 0: no upper end */
};
#define CURSOR_ALL_NOTIFIED UINT32_MAX /* as `gap`: all subscriptions have had their resync */

/* The order in which subscriptions get their resync, by the URI that the client used: above 0 and
 * below CURSOR_ALL_NOTIFIED. */
uint32_t cursor_order(struct tidings_str as_requested);

/* Returns true if a subscription of that order still waits for its resync. */
bool cursor_has_gap(const struct log_cursor *cursor, uint32_t order);
/* Merges the gaps of two cursors. */
void cursor_join_gap(struct log_cursor *into, const struct log_cursor *from);

/* Returns true if the text looks like a seal. */
bool cursor_is_sealed(struct tidings_str text);
bool cursor_parse(struct tidings_str text, struct log_cursor *ret);
/* Parses the part after `~`. */
bool cursor_parse_gap(struct tidings_str text, struct log_cursor *ret);
/* Writes the gap with its `~`, if the cursor has one. */
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
    uint64_t first; /* numbers up to here are positions */
};

/* For use with a store; false: out of memory. */
bool position_map_init(struct position_map *positions, uint64_t first);
void position_map_deinit(struct position_map *positions);
/* Records the number of a durable change. Both rise. */
void position_map_add(struct position_map *positions, uint64_t seq, uint64_t position);
/* The highest known position of the changes up to that number. */
uint64_t position_map_find(const struct position_map *positions, uint64_t seq);

#endif
