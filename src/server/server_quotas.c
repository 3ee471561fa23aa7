/* SPDX-License-Identifier: MIT
 *
 * From the configuration to the quotas of one client.
 *
 * What nobody has set holds for clients of other machines alone. Over loopback and Unix sockets
 * comes this machine's own user, who can slow it down without us, or a proxy, behind which many
 * share one address: a limit that is right for one client would be wrong for it. What somebody has
 * set holds for all.
 */
#include "server/server_private.h"

static struct token_bucket_rule rule(uint64_t count, uint64_t burst, uint32_t period_ms)
{
    return (struct token_bucket_rule){
        .count = (uint32_t)count, .burst = (uint32_t)burst, .period_ms = period_ms};
}

/* Every limit that is a row of the configuration has its value. */
static void fill_limits(const struct config *c, struct limit_counters *counters)
{
    counters->fair_share = (unsigned)c->fair_share;
    for (size_t i = 0; i < LIMIT_COUNT; i++) {
        (void)config_get_number(c, limit_name((enum limit)i), &counters->values[i]);
    }
}

void server_set_quotas(struct tidings_server *s)
{
    const struct config *c = &s->config;
    struct quotas_options o = {.max_clients = c->max_clients};
    o.remote = (struct quota_rules){
        .max_connections = c->max_client_connections,
        .max_sessions = c->max_client_sessions,
        .connections = rule(c->connection_rate, c->connection_burst, 1000),
        .requests = rule(c->request_rate, c->request_burst, 1000),
        .subscribes = rule(c->subscribe_rate, c->subscribe_burst, 1000),
        .refusals = rule(c->block_after, c->block_after, 60000),
        .block_ms = c->block_time_ms,
    };
    o.local = o.remote;
    if (!config_is_given(c, "max-client-connections")) {
        o.local.max_connections = 0;
    }
    if (!config_is_given(c, "max-client-sessions")) {
        o.local.max_sessions = 0;
    }
    if (!config_is_given(c, "connection-rate")) {
        o.local.connections.count = 0;
    }
    if (!config_is_given(c, "request-rate")) {
        o.local.requests.count = 0;
    }
    if (!config_is_given(c, "subscribe-rate")) {
        o.local.subscribes.count = 0;
    }
    quotas_set(hub_quotas(s->hub), &o);
    fill_limits(c, hub_limit_counters(s->hub));
}
