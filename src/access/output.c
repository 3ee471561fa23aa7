/* SPDX-License-Identifier: MIT
 *
 * Booking of answers as shares of LIMIT_OUTPUT.
 */
#include "access/output.h"

#include "access/access.h"
#include "access/allowance.h"

void output_init(struct output *output, struct limit_counters *counters, struct share_taker who)
{
    *output = (struct output){
        .limit_counters = counters,
        .account = who.account,
        .is_operator = who.is_operator || (who.principal && access_is_operator(who.principal)),
    };
}

bool output_book(struct output *output, size_t bytes, struct refusal *why)
{
    struct limit_counters *counters = output->limit_counters;
    const struct share_taker who = {.account = output->account, .is_operator = output->is_operator};
    if (!counters) {
        return true;
    }
    if (!share_take(counters, LIMIT_OUTPUT, counters->values[LIMIT_OUTPUT], bytes, &who, why)) {
        return false;
    }
    allowance_release(output->account); /* `output` has one */
    __atomic_fetch_add(&output->bytes, bytes, __ATOMIC_RELAXED);
    return true;
}

bool output_book_text(struct output *output, size_t held, struct refusal *why)
{
    if (held > output->text) {
        if (!output_book(output, held - output->text, why)) {
            return false;
        }
        output->text = held;
    }
    return true;
}

void output_end(struct output *output)
{
    if (output->limit_counters) {
        share_give(output->limit_counters, LIMIT_OUTPUT, output_booked(output), output->account);
    }
    *output = (struct output){0};
}

void output_move(struct output *to, struct output *from)
{
    output_end(to);
    *to = *from;
    *from = (struct output){0};
}

void output_join(struct output *to, struct output *from)
{
    size_t bytes = output_booked(from);
    if (to->limit_counters && bytes > 0) {
        share_add(to->limit_counters, LIMIT_OUTPUT, bytes, to->account);
        allowance_release(to->account); /* `to` has one */
        __atomic_fetch_add(&to->bytes, bytes, __ATOMIC_RELAXED);
    }
    output_end(from);
}

void output_count(struct limit_counters *counters, struct allowance *account, uint32_t *booked,
                  size_t held)
{
    held = held < UINT32_MAX ? held : UINT32_MAX;
    if (held != *booked) {
        share_add(counters, LIMIT_OUTPUT, held - *booked, account); /* modulo 2^64 */
        allowance_release(account);                                 /* the caller has one */
        *booked = (uint32_t)held;
    }
}
