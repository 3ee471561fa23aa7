/* SPDX-License-Identifier: MIT
 *
 * Judging JSON-RPC 2.0 envelopes. Every refusal names the member that is wrong. What the method,
 * the parameters or the result mean is none of its business.
 */
#include "wire/rpc.h"

#include "base/str.h"

static int rpc_refuse(struct tidings_error *err, const char *why)
{
    return tidings_fail(err, TIDINGS_E_PARSE, "%s", why);
}

/* NULL, or what is wrong with this id. */
static const char *judge_id(const struct json *id)
{
    if (jv_is(id, JV_INT)) {
        return NULL;
    }
    if (!jv_is(id, JV_STRING)) {
        return "'id' must be a string or an integer";
    }
    return jv_str(id).len > RPC_MAX_ID ? "'id' must be at most 1024 bytes long" : NULL;
}
_Static_assert(RPC_MAX_ID == 1024u && RPC_MAX_METHOD == 256u, "the sentences say so");

static int read_call(struct json *value, struct json *id, struct rpc_message *out,
                     struct tidings_error *err)
{
    struct json *method = jv_get(value, "method");
    struct json *params = jv_get(value, "params");
    if (!jv_is(method, JV_STRING) || jv_str(method).len == 0) {
        return rpc_refuse(err, "'method' must be a string that is not empty");
    }
    if (jv_str(method).len > RPC_MAX_METHOD) {
        return rpc_refuse(err, "'method' must be at most 256 bytes long");
    }
    if (params && !jv_is(params, JV_OBJECT)) {
        return rpc_refuse(err, "'params' must be an object");
    }
    out->kind = id ? RPC_REQUEST : RPC_NOTIFICATION;
    out->method = jv_str(method);
    out->params = params;
    return 0;
}

static int read_response(struct json *value, const struct json *id, struct rpc_message *out,
                         struct tidings_error *err)
{
    struct json *error = jv_get(value, "error");
    if (error && jv_get(value, "result")) {
        return rpc_refuse(err, "a response holds 'result' or 'error', not both");
    }
    if (error && !jv_is(error, JV_OBJECT)) {
        return rpc_refuse(err, "'error' must be an object");
    }
    if (!error && !id) {
        return rpc_refuse(err, "'id' is missing");
    }
    out->kind = RPC_RESPONSE;
    return 0;
}

int rpc_read(struct json *value, struct rpc_message *out, struct tidings_error *err)
{
    *out = (struct rpc_message){.method = STR_EMPTY};
    if (!jv_is(value, JV_OBJECT)) {
        return rpc_refuse(err, "a message must be a JSON object");
    }
    bool is_call = jv_get(value, "method") != NULL;
    bool is_error = !is_call && jv_get(value, "error") != NULL;
    struct json *id = jv_get(value, "id");
    if (is_error && jv_is(id, JV_NULL)) {
        id = NULL; /* JSON-RPC 2.0 §5: the other side could not tell which request failed */
    }
    const char *bad_id = id ? judge_id(id) : NULL;
    if (!bad_id) {
        out->id = id;
    }
    if (!str_eq(jv_str(jv_get(value, "jsonrpc")), STR("2.0"))) {
        return rpc_refuse(err, "'jsonrpc' must be \"2.0\"");
    }
    if (bad_id) {
        return rpc_refuse(err, bad_id);
    }
    bool is_answer = is_error || jv_get(value, "result") != NULL;
    if (is_call && (is_answer || jv_get(value, "error"))) {
        return rpc_refuse(err, "a message with 'method' must not hold 'result' or 'error'");
    }
    if (is_call) {
        return read_call(value, id, out, err);
    }
    if (is_answer) {
        return read_response(value, id, out, err);
    }
    return rpc_refuse(err, "'method' is missing");
}
