/* SPDX-License-Identifier: MIT
 *
 * The last error that each client of a worker was told, for whoever looks after the server. Few
 * have one, so they stand in a table beside the subscribers, which know their slot in it.
 */
#ifndef DELIVERY_PEER_ERRORS_H
#define DELIVERY_PEER_ERRORS_H

#include <tidings/types.h>

#define PEER_ERROR_TEXT 112u   /* bytes of the sentence, with its NUL */
#define PEER_ERRORS_MAX 65536u /* clients with an error; of others none is kept */

struct peer_error {
    int64_t at_ms; /* Unix time */
    int32_t code;
    uint32_t next_free; /* private */
    char text[PEER_ERROR_TEXT];
};

/* All zero: none. */
struct peer_errors {
    struct peer_error *at; /* by slot - 1 */
    uint32_t count, cap, free;
};
void peer_errors_deinit(struct peer_errors *all);

/* Keep it at *slot (0: it has none yet, and gets one as far as there is room). The text is cut
 * between characters, and control characters are replaced. */
void peer_errors_note(struct peer_errors *all, uint32_t *slot, int code, struct tidings_str text);
/* The client goes. */
void peer_errors_forget(struct peer_errors *all, uint32_t *slot);
/* NULL: none. */
const struct peer_error *peer_errors_get(const struct peer_errors *all, uint32_t slot);

#endif
