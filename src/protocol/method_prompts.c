/* SPDX-License-Identifier: MIT
 *
 * prompts/list and prompts/get. Each block a handler gives is a message with a role. What goes
 * wrong is an error of the protocol: a person chose the prompt, and no model is there to read it.
 */
#include "base/str.h"
#include "handler/call.h"
#include "protocol/method.h"

static void method_prompts_invalid(struct request *request, const struct schema_error *e)
{
    request_fail(request, TIDINGS_E_INVALID, STR_EMPTY, "params.arguments%s: %s", e->instance_path,
                 e->text);
}

static void begin_message(struct tidings_call *h)
{
    jw_begin_object(&h->w);
    jw_put_string(&h->w, STR("role"), h->is_assistant ? STR("assistant") : STR("user"));
    jw_key(&h->w, STR("content"));
}

static void end_message(struct tidings_call *h)
{
    jw_end_object(&h->w);
}

static int method_prompts_check(struct tidings_call *h, struct tidings_error *err)
{
    if (h->block_count == 0) {
        return tidings_fail(err, TIDINGS_E_INTERNAL, "the prompt '%.*s' gave no message",
                            STR_ARG(h->feature->name));
    }
    jw_end_array(&h->w);
    return h->content.failed ? tidings_fail(err, h->content.failed, "the messages do not fit") : 0;
}

static void method_prompts_write_result(struct tidings_call *h, struct jw *w)
{
    if (h->feature->description_json.len > 0) {
        jw_put_raw(w, STR("description"), h->feature->description_json);
    }
    jw_put_raw(w, STR("messages"), buf_str(&h->content));
}

static void method_prompts_fail(struct request *request, const struct tidings_error *err)
{
    request_fail_err(request, err, STR_EMPTY);
}

static const struct call_kind prompts = {
    .feature = FEATURE_PROMPT,
    .what = "prompt",
    .invalid = method_prompts_invalid,
    .begin_block = begin_message,
    .end_block = end_message,
    .check = method_prompts_check,
    .write = method_prompts_write_result,
    .fail = method_prompts_fail,
};

void method_prompts_get(struct request *request)
{
    call_run(request, &prompts);
}

void method_prompts_list(struct request *request)
{
    call_list(request, FEATURE_PROMPT, STR("prompts"), 'P');
}
