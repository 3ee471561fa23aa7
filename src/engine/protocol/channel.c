/* SPDX-License-Identifier: MIT
 *
 * Channels: their principal, quota and account, and how much each may do in a turn.
 */
#include "engine/protocol/channel.h"

#include <stdio.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "engine/protocol/request.h"
#include "engine/worker.h"
#include "formats/json.h"
#include "security/client_account.h"
#include "security/failures.h"

/* -------------------------------------------------------------------------------------------------
 * The open questions of a client.
 */

struct client_requests *client_requests_create(unsigned can)
{
    struct client_requests *client_requests = can ? mem_zalloc(sizeof(*client_requests)) : NULL;
    if (client_requests) {
        list_init(&client_requests->open);
        client_requests->can = can;
    }
    return client_requests;
}

void client_requests_destroy(struct client_requests *client_requests)
{
    while (client_requests && !list_empty(&client_requests->open)) {
        struct client_request *client_request =
            list_entry(client_requests->open.next, struct client_request, link);
        client_request->ops->lost(client_request);
    }
    mem_free(client_requests);
}

bool client_requests_add(struct client_requests *client_requests,
                         struct client_request *client_request)
{
    if (client_requests->count >= CLIENT_REQUESTS_MAX) {
        return false;
    }
    client_request->client_requests = client_requests;
    client_request->id = ++client_requests->next_id;
    client_requests->count++;
    list_append(&client_requests->open, &client_request->link);
    return true;
}

void client_requests_remove(struct client_request *client_request)
{
    if (client_request->client_requests) {
        list_remove(&client_request->link);
        client_request->client_requests->count--;
        client_request->client_requests = NULL;
    }
}

void client_requests_answer(struct client_requests *client_requests, const struct json *id,
                            struct json *message)
{
    if (!client_requests || !jv_is(id, JV_INT)) {
        return;
    }
    list_each (it, next, &client_requests->open) {
        struct client_request *client_request = list_entry(it, struct client_request, link);
        if (client_request->id == (uint64_t)jv_int(id)) {
            client_requests_remove(client_request);
            client_request->ops->answered(client_request, jv_get(message, "result"),
                                          jv_get(message, "error"));
            return;
        }
    }
}

/* -------------------------------------------------------------------------------------------------
 * The questions that the clients of message connections can answer, by channel.
 */

struct client_requests *channel_client_requests(const struct channel *channel)
{
    struct tidings_str key = tidings_strn((const char *)&channel, sizeof(channel));
    return channel->revision ? map_find(&channel->worker->requests->client_requests, key) : NULL;
}

void channel_declare(struct channel *channel, unsigned can)
{
    struct client_requests *client_requests = channel_client_requests(channel);
    if (client_requests) {
        client_requests->can = can;
        return;
    }
    client_requests = client_requests_create(can);
    if (client_requests) {
        client_requests->owner = channel;
        struct tidings_str key =
            tidings_strn((const char *)&client_requests->owner, sizeof(client_requests->owner));
        if (map_put(&channel->worker->requests->client_requests, key, client_requests, NULL) < 0) {
            client_requests_destroy(client_requests);
        }
    }
}

static void channel_end_client_requests(struct channel *channel)
{
    struct client_requests *client_requests = channel_client_requests(channel);
    if (client_requests) {
        map_remove(
            &channel->worker->requests->client_requests,
            tidings_strn((const char *)&client_requests->owner, sizeof(client_requests->owner)));
        client_requests_destroy(client_requests);
    }
}

/* -------------------------------------------------------------------------------------------------
 * The sink that discards what is written, for subscribers inside the program.
 */

static char *no_room(struct sink *sink, struct tidings_str event_id, size_t len)
{
    (void)sink;
    (void)event_id;
    (void)len;
    return NULL;
}

static void sink_ignore(struct sink *sink, struct tidings_str event_id, int64_t retry_ms)
{
    (void)sink;
    (void)event_id;
    (void)retry_ms;
}

static size_t never_pending(const struct sink *sink)
{
    (void)sink;
    return 0;
}

static void end_nothing(struct sink *sink)
{
    (void)sink;
}

static void cut_nothing(struct sink *sink, const char *reason)
{
    (void)sink;
    (void)reason;
}

const struct sink_ops sink_nowhere = {
    .name = "local",
    .room = no_room,
    .prime = sink_ignore,
    .pending = never_pending,
    .end = end_nothing,
    .cut = cut_nothing,
};

/* -------------------------------------------------------------------------------------------------
 * The table of what clients call themselves.
 */

#define CLIENT_INFOS_FIRST 16u

void client_infos_init(struct client_infos *all)
{
    *all = (struct client_infos){0};
    map_init(&all->by_key);
}

void client_infos_deinit(struct client_infos *all)
{
    for (size_t i = 0; i < all->count; i++) {
        mem_free(all->at[i]);
    }
    mem_free(all->at);
    map_deinit(&all->by_key);
    *all = (struct client_infos){0};
}

/* The code point at `i` and its bytes; the string is valid UTF-8, because it was JSON. */
static uint32_t client_info_code(struct tidings_str s, size_t i, size_t *ret_len)
{
    unsigned char c = (unsigned char)s.ptr[i];
    size_t len = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    uint32_t code = len == 1 ? c : c & (0x7fu >> len);
    for (size_t k = 1; k < len && i + k < s.len; k++) {
        code = code << 6 | ((unsigned char)s.ptr[i + k] & 0x3fu);
    }
    *ret_len = len;
    return code;
}

/* Returns true if it would move a terminal's cursor or change the direction of writing. */
static bool client_info_is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x061c || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff ||
           (c >= 0xfff9 && c <= 0xfffb) || (c >= 0xe0000 && c <= 0xe007f);
}

static void client_info_put_clean(struct buf *out, struct tidings_str text, size_t max)
{
    size_t begin = out->len;
    for (size_t i = 0, len = 0; i < text.len; i += len) {
        uint32_t code = client_info_code(text, i, &len);
        bool is_control = client_info_is_control(code);
        if (i + len > text.len || out->len - begin + (is_control ? 1 : len) > max) {
            break;
        }
        if (is_control) {
            buf_putc(out, '?');
        } else {
            buf_put(out, text.ptr + i, len);
        }
    }
}

/* The number of another: its index + 1. 0: there is no room. */
static size_t client_infos_take_number(struct client_infos *all)
{
    for (size_t i = 0; all->count > all->by_key.count && i < all->count; i++) {
        if (!all->at[i]) {
            return i + 1;
        }
    }
    if (all->count >= CLIENT_INFOS_MAX) {
        return 0;
    }
    if (all->count == all->cap) {
        size_t cap = all->cap ? all->cap * 2 : CLIENT_INFOS_FIRST;
        struct client_info **at = mem_realloc(all->at, cap * sizeof(*at));
        if (!at) {
            return 0;
        }
        all->at = at;
        all->cap = cap;
    }
    all->at[all->count] = NULL;
    return ++all->count;
}

static uint16_t client_infos_add(struct client_infos *all, struct tidings_str key, size_t name_len)
{
    size_t number = client_infos_take_number(all);
    struct client_info *info = number ? mem_zalloc(sizeof(*info) + key.len) : NULL;
    if (!info) {
        return 0;
    }
    char *text = (char *)(info + 1);
    memcpy(text, key.ptr, key.len);
    info->key = tidings_strn(text, key.len);
    info->name = tidings_strn(text, name_len);
    info->version = tidings_strn(text + name_len + 1, key.len - name_len - 1);
    info->refs = 1;
    info->number = (uint16_t)number;
    if (map_put(&all->by_key, info->key, info, NULL) < 0) {
        mem_free(info);
        return 0;
    }
    all->at[number - 1] = info;
    return info->number;
}

uint16_t client_info_intern(struct client_infos *all, const struct json *info)
{
    struct buf key;
    struct tidings_str name = jv_str(jv_get(info, "name"));
    struct tidings_str version = jv_str(jv_get(info, "version"));
    if (name.len == 0 && version.len == 0) {
        return 0;
    }
    buf_init(&key, CLIENT_NAME_MAX + 1 + CLIENT_VERSION_MAX);
    client_info_put_clean(&key, name, CLIENT_NAME_MAX);
    size_t name_len = key.len;
    buf_putc(&key, '\0'); /* no name has one */
    client_info_put_clean(&key, version, CLIENT_VERSION_MAX);
    uint16_t number = 0;
    if (!key.failed) {
        struct client_info *known = map_find(&all->by_key, buf_str(&key));
        if (known) {
            known->refs++;
        }
        number = known ? known->number : client_infos_add(all, buf_str(&key), name_len);
    }
    buf_deinit(&key);
    return number;
}

void client_info_release(struct client_infos *all, uint16_t number)
{
    struct client_info *info = number > 0 && number <= all->count ? all->at[number - 1] : NULL;
    if (info && --info->refs == 0) {
        map_remove(&all->by_key, info->key);
        all->at[number - 1] = NULL;
        mem_free(info);
    }
}

const struct client_info *client_info_get(const struct client_infos *all, uint16_t number)
{
    return number > 0 && number <= all->count ? all->at[number - 1] : NULL;
}

/* ---------------------------------------------------------------------------------------------- */

/* The name of the account of where it comes from. The program itself has one for each way in. */
static void channel_origin_name(const struct channel *channel, char out[CLIENT_ACCOUNT_NAME_MAX])
{
    char address[PRINCIPAL_MAX] = "";
    snprintf(address, sizeof(address), "%s", channel->ops->name);
    if (channel->ops->address) {
        channel->ops->address(channel, address);
    }
    snprintf(out, CLIENT_ACCOUNT_NAME_MAX, "%s %s", channel->principal ? "address" : "machine",
             address);
}

struct client_account *channel_account(const struct channel *channel)
{
    const struct principal *p = channel->principal;
    if (p && p->kind != PRINCIPAL_ANONYMOUS) {
        return client_account_ref(p->account);
    }
    if (channel->origin) {
        return client_account_ref(channel->origin);
    }
    char name[CLIENT_ACCOUNT_NAME_MAX];
    channel_origin_name(channel, name);
    return client_accounts_find(channel->worker->client_accounts, tidings_str(name),
                                loop_now_ms(channel->worker->loop));
}

struct share_taker channel_taker(const struct channel *channel)
{
    return (struct share_taker){.account = channel_account(channel),
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

/* -------------------------------------------------------------------------------------------------
 * Deinitializes a channel: ends the requests under way on it, and its subscriber.
 */

void channel_deinit(struct channel *channel)
{
    list_each (it, next, &channel->requests) {
        struct request *request = list_entry(it, struct request, link);
        request->channel = NULL;
        request->sink = NULL;
        if (request->is_ready) {
            request_drop(request); /* it is complete */
        } else if (request->session) {
            list_remove(&request->link); /* losing the connection cancels nothing in that era */
        } else {
            request_abandon(request);
        }
    }
    request_batch_detach(channel);
    channel_end_client_requests(channel);
    if (channel->subscriber) {
        channel->worker->requests->end_subscriber(channel);
    }
    channel_set_principal(channel, NULL);
}
