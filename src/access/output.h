/* SPDX-License-Identifier: MIT
 * The memory budget for the answers of all clients (`--max-output`, LIMIT_OUTPUT, in bytes), of
 * which each principal has a share (access/share.h). An answer is booked from the moment its
 * content is known until the client has received it.
 *
 * Large contents are booked before they are stored, and refused if there is no room. Short answers
 * are booked only if the client does not receive them at once. A connection with unread answers
 * waits while the budget or the share is used up.
 */
#ifndef ACCESS_OUTPUT_H
#define ACCESS_OUTPUT_H

#include "access/share.h"

/* The bytes booked for one answer. All zero: none, for no client. */
struct output {
    struct limit_counters *limit_counters;
    struct allowance *account; /* a reference */
    size_t bytes;              /* atomic: other threads read it */
    size_t text;               /* of them, for a text that grows */
    bool is_operator;
};

/* Takes over the reference of `who` to its account. */
void output_init(struct output *output, struct limit_counters *counters, struct share_taker who);
/* Books more bytes. Returns false and sets `why` if there is no room. Any thread. */
bool output_book(struct output *output, size_t bytes, struct refusal *why);
/* Books a text whose memory has grown to `held` bytes. By the thread that writes it. */
bool output_book_text(struct output *output, size_t held, struct refusal *why);
void output_end(struct output *output); /* gives all of it back; twice is fine */
/* Moves the bytes booked by `from` to `to`. */
void output_move(struct output *to, struct output *from);
/* Adds the bytes booked by `from` to `to`, for the account of `to`. It cannot be refused. */
void output_join(struct output *to, struct output *from);
static inline size_t output_booked(const struct output *output)
{
    return __atomic_load_n(&output->bytes, __ATOMIC_RELAXED);
}

/* Changes the booking of memory that exists from *booked to `held` bytes. It cannot be refused. */
void output_count(struct limit_counters *counters, struct allowance *account, uint32_t *booked,
                  size_t held);

#endif
