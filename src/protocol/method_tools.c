/* SPDX-License-Identifier: MIT
 *
 * tools/list and tools/call.
 *
 * Everything that goes wrong inside a tool, and arguments its schema forbids (SEP-1303), is a
 * result with isError: the model reads it and can do better. Only a request that is no request of a
 * tool at all is an error of the protocol.
 */
#include "access/allowance.h"
#include "access/failures.h"
#include "base/clock.h"
#include "base/str.h"
#include "handler/call.h"
#include "protocol/method.h"

#define RESULT_TOO_LARGE "ask for less, or serve with a larger --max-read"

/* The content of a result that is one text. */
static void method_tools_put_text(struct jw *w, struct tidings_str text)
{
    jw_key(w, STR("content"));
    jw_begin_array(w);
    jw_begin_object(w);
    jw_put_string(w, STR("type"), STR("text"));
    jw_put_string(w, STR("text"), text);
    jw_end_object(w);
    jw_end_array(w);
}

static void method_tools_note(struct request *request, struct tidings_str reason)
{
    const struct failure failure = {
        .kind = FAILURE_RESULT,
        .method = request->method,
        .reason = reason,
        .principal = request->principal,
    };
    request->has_error = true;
    if (request->channel && !request->cancelled) {
        const struct log_context *before = log_enter(&request->context);
        channel_failed(request->channel, &failure);
        (void)log_enter(before);
    }
}

/* Its handler gave a result that is a failure: the sentence in it. */
static void method_tools_note_result(const struct tidings_call *h)
{
    struct json *blocks = NULL, *object = NULL;
    struct tidings_str text = buf_str(&h->structured);
    if (h->block_count > 0 && jv_parse(buf_str(&h->content), JSON_MAX_DEPTH, &blocks, NULL) == 0) {
        text = jv_str(jv_get(jv_at(blocks, 0), "text"));
    }
    if (jv_parse(text, JSON_MAX_DEPTH, &object, NULL) == 0 && jv_get(object, "error")) {
        text = jv_str(jv_get(object, "error"));
    }
    method_tools_note(h->request, text.len > 0 ? text : STR("the tool says that it failed"));
    jv_unref(object);
    jv_unref(blocks);
}

static void method_tools_write_failure(struct jw *w, struct tidings_str text)
{
    method_tools_put_text(w, text);
    jw_put_bool(w, STR("isError"), true);
}

static void answer_error(struct request *request, struct tidings_str text)
{
    request->has_failed = true;
    method_tools_note(request, text);
    request_begin(request);
    method_tools_write_failure(&request->w, text);
    request_end(request, CACHE_NONE);
}

static bool fails_calls(const struct request *request)
{
    return dialect_rules_in(request->worker->self, request->era)->fails_calls;
}

static void method_tools_invalid(struct request *request, const struct schema_error *e)
{
    struct buf text;
    buf_init(&text, 4096);
    buf_putf(&text, "invalid arguments: %s%s%s (schema: %s)",
             e->instance_path[0] ? e->instance_path : "", e->instance_path[0] ? ": " : "", e->text,
             e->schema_path[0] ? e->schema_path : "/");
    if (fails_calls(request)) {
        request_fail_rpc(request, RPC_INVALID_PARAMS, STR_EMPTY, "%.*s", STR_ARG(buf_str(&text)));
    } else {
        answer_error(request, buf_str(&text));
    }
    buf_deinit(&text);
}

static void block_border(struct tidings_call *h)
{
    (void)h; /* blocks are the elements themselves */
}

/* The value of what was given as structured content, against the output schema: at the expense of
 * the client, and whether it has enough or not, since the tool has done its work. */
static int check_structured(struct tidings_call *h, struct tidings_error *err)
{
    const struct json_schema *schema = h->feature->output;
    if (!schema || h->is_error || h->is_judged) {
        return 0;
    }
    if (h->structured.len == 0) {
        return tidings_fail(err, TIDINGS_E_INTERNAL,
                            "the tool '%.*s' has an output schema but gave no structured content",
                            STR_ARG(h->feature->name));
    }
    struct json *value = NULL;
    struct schema_error e;
    uint64_t most = schema_max_steps(schema), steps = most;
    int rc = jv_parse(buf_str(&h->structured), JSON_MAX_DEPTH, &value, err);
    bool is_valid = rc == 0 && schema_judge_within(schema, value, &e, &steps) == SCHEMA_VALID;
    allowance_pay(h->allowance, most - steps, clock_monotonic_ms());
    if (rc == 0 && !is_valid) {
        rc = tidings_fail(err, TIDINGS_E_INTERNAL,
                          "the tool '%.*s' gave structured content its schema forbids: %s: %s",
                          STR_ARG(h->feature->name), e.instance_path[0] ? e.instance_path : "/",
                          e.text);
    }
    jv_unref(value);
    return rc;
}

static int method_tools_check(struct tidings_call *h, struct tidings_error *err)
{
    int rc = buf_check(&h->structured, "the result", RESULT_TOO_LARGE, err);
    rc = rc < 0 ? rc : buf_check(&h->content, "the result", RESULT_TOO_LARGE, err);
    rc = rc < 0 ? rc : check_structured(h, err);
    if (rc == 0 && h->block_count > 0) {
        jw_end_array(&h->w);
        rc = buf_check(&h->content, "the result", RESULT_TOO_LARGE, err);
    }
    return rc;
}

static void method_tools_write_result(struct tidings_call *h, struct jw *w)
{
    if (h->block_count == 0 && h->structured.len > 0) {
        /* For clients that know no structured content. */
        method_tools_put_text(w, buf_str(&h->structured));
    } else {
        jw_put_raw(w, STR("content"), h->block_count > 0 ? buf_str(&h->content) : STR("[]"));
    }
    if (h->structured.len > 0) {
        jw_put_raw(w, STR("structuredContent"), buf_str(&h->structured));
    }
    if (h->rules->has_plain_writes && h->structured.len > 0) {
        dialect_put_plain_write(w, buf_str(&h->structured));
    }
    if (h->is_error && h->request) {
        h->request->has_failed = true;
        method_tools_note_result(h);
    }
    if (h->is_error) {
        jw_put_bool(w, STR("isError"), true);
    }
}

static void method_tools_fail(struct request *request, const struct tidings_error *err)
{
    if (fails_calls(request)) {
        request_fail_rpc(request, RPC_INTERNAL, STR_EMPTY, "%s", err->text);
    } else {
        answer_error(request, tidings_str(err->text));
    }
}

static const struct call_kind tools = {
    .feature = FEATURE_TOOL,
    .what = "tool",
    .invalid = method_tools_invalid,
    .begin_block = block_border,
    .end_block = block_border,
    .check = method_tools_check,
    .write = method_tools_write_result,
    .fail = method_tools_fail,
    .write_failure = method_tools_write_failure,
};

void method_tools_call(struct request *request)
{
    call_run(request, &tools);
}

void method_tools_list(struct request *request)
{
    call_list(request, FEATURE_TOOL, STR("tools"), 'T');
}
