/* SPDX-License-Identifier: MIT
 *
 * What clients publish counts as their share of --published-max and --published-bytes.
 */
#include "access/access.h"
#include "access/allowance.h"
#include "access/share.h"
#include "catalog/job.h"
#include "server/server_private.h"

static void *published_shares_owner(const struct tidings_write *write, bool *ret_is_operator)
{
    *ret_is_operator = access_is_operator(write->principal);
    return write->allowance;
}

static void published_shares_hold(void *owner)
{
    (void)allowance_ref(owner);
}

static void published_shares_release(void *owner)
{
    allowance_release(owner);
}

static bool published_shares_take(void *user, void *owner, bool is_operator, size_t bytes,
                                  struct tidings_error *err)
{
    struct tidings_server *s = user;
    struct limit_counters *counters = hub_limit_counters(s->hub);
    const struct share_taker who = {.account = owner, .is_operator = is_operator};
    char sentence[REFUSAL_SENTENCE];
    struct refusal why;
    if (!err) {
        share_add(counters, LIMIT_PUBLISHED, 1, owner);
        share_add(counters, LIMIT_PUBLISHED_BYTES, bytes, owner);
        return true;
    }
    if (!share_take(counters, LIMIT_PUBLISHED, s->config.published_max, 1, &who, &why)) {
        tidings_fail(err, TIDINGS_E_LIMIT, "%s", refusal_sentence(&why, sentence));
        return false;
    }
    if (!share_take(counters, LIMIT_PUBLISHED_BYTES, s->config.published_bytes, bytes, &who,
                    &why)) {
        share_give(counters, LIMIT_PUBLISHED, 1, owner);
        tidings_fail(err, TIDINGS_E_LIMIT, "%s", refusal_sentence(&why, sentence));
        return false;
    }
    return true;
}

static void published_shares_give(void *user, void *owner, size_t bytes)
{
    struct tidings_server *s = user;
    struct limit_counters *counters = hub_limit_counters(s->hub);
    share_give(counters, LIMIT_PUBLISHED_BYTES, bytes, owner);
    share_give(counters, LIMIT_PUBLISHED, 1, owner);
}

void server_share_published(struct tidings_server *s)
{
    s->published_shares = (struct published_shares){
        .user = s,
        .owner_of = published_shares_owner,
        .hold = published_shares_hold,
        .release = published_shares_release,
        .take = published_shares_take,
        .give = published_shares_give,
    };
    published_set_shares(s->published, &s->published_shares);
}
