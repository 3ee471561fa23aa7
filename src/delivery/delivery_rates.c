/* SPDX-License-Identifier: MIT
 *
 * How often subscriptions are told at most, set by the program at run time for what matches a URI.
 */
#include "base/map.h"
#include "base/mem.h"
#include "delivery/delivery.h"
#include "delivery/subscription.h"
#include "match/match.h"

#define RATES_MAX 10000u /* limits remembered for subscriptions to come */

struct delivery_rate {
    uint64_t ms;
    size_t len;
    char uri[];
};

void delivery_clear_rates(struct worker *worker)
{
    size_t pos = 0;
    void *rate;
    while ((rate = map_next(&worker->delivery->rates, &pos)) != NULL) {
        mem_free(rate);
    }
    map_deinit(&worker->delivery->rates);
}

uint64_t delivery_rate(const struct worker *worker, const struct subscription *sub)
{
    uint64_t longest = 0;
    size_t pos = 0;
    const struct delivery_rate *rate;
    while ((rate = map_next(&worker->delivery->rates, &pos)) != NULL) {
        if (rate->ms > longest &&
            pattern_matches(sub->kind, subscription_uri(sub), tidings_strn(rate->uri, rate->len))) {
            longest = rate->ms;
        }
    }
    return longest;
}

static void apply_rate(void *user, struct match_node *node)
{
    struct subscription *sub = list_entry(node, struct subscription, node);
    subscription_set_rate(sub, *(uint64_t *)user);
}

void delivery_set_rate(struct worker *worker, struct tidings_str uri, uint64_t ms)
{
    mem_free(map_remove(&worker->delivery->rates, uri));
    struct delivery_rate *rate = ms > 0 && worker->delivery->rates.count < RATES_MAX
                                     ? mem_zalloc(sizeof(*rate) + uri.len)
                                     : NULL;
    if (rate) {
        rate->ms = ms;
        rate->len = uri.len;
        memcpy(rate->uri, uri.ptr, uri.len);
        if (map_put(&worker->delivery->rates, tidings_strn(rate->uri, rate->len), rate, NULL) < 0) {
            mem_free(rate);
        }
    }
    match_find(&worker->delivery->match, uri, apply_rate, &ms);
}
