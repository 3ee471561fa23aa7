/* SPDX-License-Identifier: MIT
 *
 * Channels: their principal, quota and allowance, and how much each may do in a turn. How one ends
 * is in channel_end.c.
 */
#include "request/channel.h"

#include <stdio.h>

#include "access/allowance.h"
#include "access/failures.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/str.h"
#include "worker/worker.h"

/* The name of the account of where it comes from. The program itself has one for each way in. */
static void channel_origin_name(const struct channel *channel, char out[ALLOWANCE_NAME_MAX])
{
    char address[PRINCIPAL_MAX] = "";
    snprintf(address, sizeof(address), "%s", channel->ops->name);
    if (channel->ops->address) {
        channel->ops->address(channel, address);
    }
    snprintf(out, ALLOWANCE_NAME_MAX, "%s %s", channel->principal ? "address" : "machine", address);
}

struct allowance *channel_allowance(const struct channel *channel)
{
    const struct principal *p = channel->principal;
    if (p && p->kind != PRINCIPAL_ANONYMOUS) {
        return allowance_ref(p->account);
    }
    if (channel->origin) {
        return allowance_ref(channel->origin);
    }
    char name[ALLOWANCE_NAME_MAX];
    channel_origin_name(channel, name);
    return allowances_find(channel->worker->allowances, tidings_str(name),
                           loop_now_ms(channel->worker->loop));
}

struct share_taker channel_taker(const struct channel *channel)
{
    return (struct share_taker){.account = channel_allowance(channel),
                                .principal = channel->principal,
                                .is_operator = !channel->principal};
}

void channel_set_principal(struct channel *channel, const struct principal *principal)
{
    const struct principal *old = channel->principal;
    if (channel->ops->unbook) {
        channel->ops->unbook(channel);
    }
    channel->principal = principal_ref(principal);
    principal_unref(old);
}

void channel_init(struct channel *channel, const struct channel_ops *ops, struct worker *worker)
{
    memset(channel, 0, sizeof(*channel));
    channel->ops = ops;
    channel->worker = worker;
    list_init(&channel->requests);
}

bool channel_may_go_on(struct channel *channel)
{
    struct worker *worker = channel->worker;
    uint16_t turn = (uint16_t)loop_turn_number(worker->loop);
    if (channel->turn != turn) {
        channel->turn = turn;
        channel->handled = 0;
    }
    if (channel->handled >= CHANNEL_QUANTUM) {
        worker->stats.pauses++;
        return false;
    }
    channel->handled++;
    if (channel->handled > worker->stats.most_per_turn) {
        worker->stats.most_per_turn = channel->handled;
    }
    return true;
}

struct quota *channel_quota(const struct channel *channel)
{
    return channel->principal && channel->principal->quota ? channel->principal->quota
                                                           : channel->quota;
}

void channel_get_facts(const struct channel *channel, struct channel_facts *ret)
{
    *ret = (struct channel_facts){0};
    if (channel->ops->facts) {
        channel->ops->facts(channel, ret);
    }
}

void channel_failed(const struct channel *channel, const struct failure *failure)
{
    struct worker *worker = channel->worker;
    struct failure_row *row = failures_count(worker->failures, failure, loop_now_ms(worker->loop));
    char client[PRINCIPAL_MAX];
    snprintf(client, sizeof(client), "%s", channel->ops->name);
    if (channel->ops->address) {
        channel->ops->address(channel, client);
    }
    failures_note(worker->failures, failure, tidings_str(client), clock_wall_ms());
    if (row) {
        failures_log(row, failure, tidings_str(client));
    }
}

static enum failure_cause channel_cause_of(int rpc_code, struct tidings_str reason)
{
    if (str_eq(reason, STR("limit"))) {
        return FAILURE_LIMIT;
    }
    return rpc_code == RPC_PARSE_ERROR || rpc_code == RPC_INVALID_REQUEST ||
                   rpc_code == RPC_HEADER_MISMATCH
               ? FAILURE_MALFORMED
               : FAILURE_ORDINARY;
}

void channel_failed_rpc(const struct channel *channel, const struct principal *principal,
                        const char *method, const struct dialect_error *e, bool is_denied)
{
    const struct failure failure = {
        .kind = FAILURE_RPC,
        .cause = is_denied ? FAILURE_ACCESS : channel_cause_of(e->code, e->reason),
        .method = method,
        .code = e->code,
        .is_ours = e->code == RPC_INTERNAL && !str_eq(e->reason, STR("limit")),
        .reason = e->message,
        .principal = principal,
    };
    channel_failed(channel, &failure);
}

void channel_ending(struct channel *channel, const char *reason, struct channel_facts *facts)
{
    struct worker *worker = channel->worker;
    worker->ending = reason;
    if (log_wants(TIDINGS_LOG_INFO, LOG_DELIVERY) || log_wants_access()) {
        channel_get_facts(channel, facts);
        worker->ending_facts = facts;
    }
}

void channel_ended(struct channel *channel)
{
    channel->worker->ending = NULL;
    channel->worker->ending_facts = NULL;
}
