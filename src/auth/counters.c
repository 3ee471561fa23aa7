/* SPDX-License-Identifier: MIT
 *
 * The counters of all token caches, in a list that only grows, at its head. Each count has one
 * writer, so an atomic store suffices.
 */
#include "auth/counters.h"

#include "base/mem.h"

struct counters *counters_create(struct counters **head)
{
    struct counters *c = mem_zalloc(sizeof(*c));
    if (!c) {
        return NULL;
    }
    c->next = __atomic_load_n(head, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(head, &c->next, c, false, __ATOMIC_RELEASE,
                                        __ATOMIC_ACQUIRE)) {
    }
    return c;
}

void counters_destroy_all(struct counters *head)
{
    while (head) {
        struct counters *next = head->next;
        mem_free(head);
        head = next;
    }
}

void counters_add(uint64_t *count, int64_t n)
{
    __atomic_store_n(count, *count + (uint64_t)n, __ATOMIC_RELAXED);
}

void counters_refuse(struct counters *c, enum auth_outcome outcome, const char *why)
{
    counters_add(outcome == AUTH_MALFORMED ? &c->counts.malformed
                 : outcome == AUTH_INVALID ? &c->counts.invalid
                                           : &c->counts.unavailable,
                 1);
    for (size_t i = 0; i < COUNTERS_REASONS; i++) {
        if (!c->refused[i].why) {
            __atomic_store_n(&c->refused[i].why, why, __ATOMIC_RELEASE);
        }
        if (c->refused[i].why == why) {
            counters_add(&c->refused[i].count, 1);
            return;
        }
    }
}

static uint64_t counters_get(const uint64_t *count)
{
    return __atomic_load_n(count, __ATOMIC_RELAXED);
}

void counters_sum(struct counters *const *head, struct auth_counts *ret)
{
    *ret = (struct auth_counts){0};
    for (const struct counters *c = __atomic_load_n(head, __ATOMIC_ACQUIRE); c; c = c->next) {
        ret->verified += counters_get(&c->counts.verified);
        ret->remembered += counters_get(&c->counts.remembered);
        ret->malformed += counters_get(&c->counts.malformed);
        ret->invalid += counters_get(&c->counts.invalid);
        ret->unavailable += counters_get(&c->counts.unavailable);
        ret->waiting += counters_get(&c->counts.waiting);
    }
}

void counters_each_refusal(struct counters *const *head, auth_refusal_fn fn, void *user)
{
    struct counters sum = {.next = NULL};
    for (const struct counters *c = __atomic_load_n(head, __ATOMIC_ACQUIRE); c; c = c->next) {
        for (size_t i = 0; i < COUNTERS_REASONS; i++) {
            const char *why = __atomic_load_n(&c->refused[i].why, __ATOMIC_ACQUIRE);
            size_t n = 0;
            while (why && n < COUNTERS_REASONS && sum.refused[n].why && sum.refused[n].why != why) {
                n++;
            }
            if (why && n < COUNTERS_REASONS) {
                sum.refused[n].why = why;
                sum.refused[n].count += counters_get(&c->refused[i].count);
            }
        }
    }
    for (size_t n = 0; n < COUNTERS_REASONS && sum.refused[n].why; n++) {
        fn(user, sum.refused[n].why, sum.refused[n].count);
    }
}
