/* SPDX-License-Identifier: MIT
 *
 * What desks count. Each writes its own ledger, without a lock; anybody may read them all. Ledgers
 * stay until the auth they belong to closes, so that sums never go back when a desk goes.
 */
#ifndef AUTH_LEDGER_H
#define AUTH_LEDGER_H

#include "auth/auth.h"

#define LEDGER_REASONS                                                                             \
    48u /* there are fewer sentences than that; one more would not be counted                      \
         */

struct ledger {
    struct auth_counts counts;
    struct {
        const char *why; /* the static sentence itself; NULL: free from here on */
        uint64_t count;
    } refused[LEDGER_REASONS];
    struct ledger *next;
};

/* A new one in the list at `*head`. NULL: out of memory. */
struct ledger *ledger_create(struct ledger **head);
void ledger_destroy_all(struct ledger *head);

/* By the desk it belongs to. */
void ledger_add(uint64_t *count, int64_t n);
void ledger_refuse(struct ledger *l, enum auth_outcome outcome, const char *why);

#endif
