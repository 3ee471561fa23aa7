/* SPDX-License-Identifier: MIT
 *
 * The list only grows, at its head. A count has one writer, so a store suffices.
 */
#include "auth/ledger.h"

#include "auth/auth_private.h"
#include "base/mem.h"

struct ledger *ledger_create(struct ledger **head)
{
    struct ledger *l = mem_zalloc(sizeof(*l));
    if (!l) {
        return NULL;
    }
    l->next = __atomic_load_n(head, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(head, &l->next, l, false, __ATOMIC_RELEASE,
                                        __ATOMIC_ACQUIRE)) {
    }
    return l;
}

void ledger_destroy_all(struct ledger *head)
{
    while (head) {
        struct ledger *next = head->next;
        mem_free(head);
        head = next;
    }
}

void ledger_add(uint64_t *count, int64_t n)
{
    __atomic_store_n(count, *count + (uint64_t)n, __ATOMIC_RELAXED);
}

void ledger_refuse(struct ledger *l, enum auth_outcome outcome, const char *why)
{
    ledger_add(outcome == AUTH_MALFORMED ? &l->counts.malformed
               : outcome == AUTH_INVALID ? &l->counts.invalid
                                         : &l->counts.unavailable,
               1);
    for (size_t i = 0; i < LEDGER_REASONS; i++) {
        if (!l->refused[i].why) {
            __atomic_store_n(&l->refused[i].why, why, __ATOMIC_RELEASE);
        }
        if (l->refused[i].why == why) {
            ledger_add(&l->refused[i].count, 1);
            return;
        }
    }
}

static uint64_t get(const uint64_t *count)
{
    return __atomic_load_n(count, __ATOMIC_RELAXED);
}

void auth_get_counts(const struct auth *a, struct auth_counts *ret)
{
    *ret = (struct auth_counts){0};
    for (const struct ledger *l = __atomic_load_n(&a->ledgers, __ATOMIC_ACQUIRE); l; l = l->next) {
        ret->verified += get(&l->counts.verified);
        ret->remembered += get(&l->counts.remembered);
        ret->malformed += get(&l->counts.malformed);
        ret->invalid += get(&l->counts.invalid);
        ret->unavailable += get(&l->counts.unavailable);
        ret->waiting += get(&l->counts.waiting);
    }
}

void auth_each_refusal(const struct auth *a, auth_refusal_fn fn, void *user)
{
    struct ledger sum = {.next = NULL};
    for (const struct ledger *l = __atomic_load_n(&a->ledgers, __ATOMIC_ACQUIRE); l; l = l->next) {
        for (size_t i = 0; i < LEDGER_REASONS; i++) {
            const char *why = __atomic_load_n(&l->refused[i].why, __ATOMIC_ACQUIRE);
            size_t n = 0;
            while (why && n < LEDGER_REASONS && sum.refused[n].why && sum.refused[n].why != why) {
                n++;
            }
            if (why && n < LEDGER_REASONS) {
                sum.refused[n].why = why;
                sum.refused[n].count += get(&l->refused[i].count);
            }
        }
    }
    for (size_t n = 0; n < LEDGER_REASONS && sum.refused[n].why; n++) {
        fn(user, sum.refused[n].why, sum.refused[n].count);
    }
}
