/* SPDX-License-Identifier: MIT
 *
 * The line of the access log about a request.
 */
#include "base/str.h"
#include "request/access_log.h"
#include "request/request_private.h"

/* What a client calls itself with each request, or said when it began. */
static struct client_info request_log_client(const struct request *request)
{
    const struct client_info *known =
        client_info_get(&request->worker->requests->clients, request->client);
    const struct json *info = dialect_client_info(request->meta);
    const struct json *name = jv_get(info, "name"), *version = jv_get(info, "version");
    if (known && !info) {
        return *known;
    }
    return (struct client_info){
        .name = jv_is(name, JV_STRING) ? jv_str(name) : ACCESS_LOG_NOTHING,
        .version = jv_is(version, JV_STRING) ? jv_str(version) : ACCESS_LOG_NOTHING,
    };
}

/* The tool or prompt, or the URI, that a request names. */
static struct tidings_str request_log_param(const struct request *request, const char *key)
{
    const struct json *value = jv_get(request->msg.params, key);
    return jv_is(value, JV_STRING) ? jv_str(value) : ACCESS_LOG_NOTHING;
}

void request_log(const struct request *request, size_t bytes)
{
    if (request->begun_ns == 0 || !log_wants_access()) {
        return;
    }
    struct channel_facts facts;
    const struct client_info client = request_log_client(request);
    int code = request->failed_code;
    bool is_answered = !request->cancelled && request->channel;
    const struct log_context *before = log_enter(&request->context);
    const struct log_field fields[] = {
        KV("method", request->method ? request->method : "unknown"),
        KV("name", request_log_param(request, "name")),
        KV("uri", request_log_param(request, "uri")),
        code != 0            ? KV("code", code)
        : !is_answered       ? KV("status", "cancelled")
        : request->has_error ? KV("status", "error")
                             : KV("status", "ok"),
        KV("reason", code != 0 ? request->failed_reason : ACCESS_LOG_NOTHING),
        KV("duration_us", access_log_us(request->begun_ns)),
        KV("bytes_in", request->bytes_in),
        KV("bytes_out", is_answered ? bytes : 0),
        KV("principal", access_log_name(request->principal)),
        KV("by", principal_by(request->principal)),
        KV("address", access_log_address(request->channel, &facts)),
        KV("transport", request->channel ? request->channel->ops->name : NULL),
        KV("client", client.name),
        KV("client_version", client.version),
        KV("era", dialect_era_name(request->era)),
        NO_FIELDS,
    };
    log_write_access("request", fields);
    (void)log_enter(before);
}
