/* SPDX-License-Identifier: MIT
 *
 * What servers ask clients (elicitation, sampling, roots): what a client declared that it can be
 * asked, what a question needs of it, and in the legacy era the requests themselves.
 */
#include "base/str.h"
#include "dialect/dialect.h"

static bool has_object(const struct json *object, const char *name)
{
    return jv_is(jv_get(object, name), JV_OBJECT);
}

unsigned dialect_askable(const struct json *capabilities)
{
    const struct json *elicitation = jv_get(capabilities, "elicitation");
    unsigned can = has_object(capabilities, "roots") ? ASK_ROOTS : 0;
    if (has_object(capabilities, "elicitation")) {
        bool has_url = has_object(elicitation, "url");
        can |= has_url ? ASK_URL : 0u;
        can |= has_object(elicitation, "form") || !has_url ? ASK_FORM : 0u; /* {} means forms */
    }
    if (has_object(capabilities, "sampling")) {
        can |= ASK_SAMPLING;
        can |= has_object(jv_get(capabilities, "sampling"), "tools") ? ASK_SAMPLING_TOOLS : 0u;
    }
    return can;
}

unsigned dialect_method_asks(struct tidings_str method)
{
    return str_eq(method, STR("elicitation/create"))       ? ASK_FORM | ASK_URL
           : str_eq(method, STR("sampling/createMessage")) ? ASK_SAMPLING
           : str_eq(method, STR("roots/list"))             ? ASK_ROOTS
                                                           : 0;
}

unsigned dialect_question_needs(struct tidings_str method, const struct json *params)
{
    unsigned asks = dialect_method_asks(method);
    if (asks & ASK_FORM) {
        return str_eq(jv_str(jv_get(params, "mode")), STR("url")) ? ASK_URL : ASK_FORM;
    }
    if (asks & ASK_SAMPLING && (jv_get(params, "tools") || jv_get(params, "toolChoice"))) {
        return ASK_SAMPLING | ASK_SAMPLING_TOOLS;
    }
    return asks;
}

const char *dialect_ask_name(unsigned bits)
{
    return bits & ASK_FORM             ? "elicitation"
           : bits & ASK_URL            ? "elicitation.url"
           : bits & ASK_SAMPLING       ? "sampling"
           : bits & ASK_SAMPLING_TOOLS ? "sampling.tools"
                                       : "roots";
}

void dialect_put_required(struct buf *out, unsigned bits)
{
    struct jw w;
    jw_init(&w, out);
    jw_begin_object(&w);
    if (bits & (ASK_FORM | ASK_URL)) {
        jw_put_raw(&w, STR("elicitation"), bits & ASK_URL ? STR("{\"url\":{}}") : STR("{}"));
    }
    if (bits & (ASK_SAMPLING | ASK_SAMPLING_TOOLS)) {
        jw_put_raw(&w, STR("sampling"),
                   bits & ASK_SAMPLING_TOOLS ? STR("{\"tools\":{}}") : STR("{}"));
    }
    if (bits & ASK_ROOTS) {
        jw_put_raw(&w, STR("roots"), STR("{}"));
    }
    jw_end_object(&w);
}

/* ---- requests of the legacy era -------------------------------------------------------------- */

void dialect_put_question(struct buf *out, uint64_t id, struct tidings_str method,
                          const struct json *params)
{
    struct jw w;
    jw_init(&w, out);
    jw_begin_object(&w);
    jw_put_string(&w, STR("jsonrpc"), STR("2.0"));
    jw_put_integer(&w, STR("id"), (int64_t)id);
    jw_put_string(&w, STR("method"), method);
    jw_key(&w, STR("params"));
    jw_value(&w, params);
    jw_end_object(&w);
}

void dialect_put_withdrawal(struct buf *out, uint64_t id, struct tidings_str reason)
{
    struct jw w;
    jw_init(&w, out);
    jw_begin_object(&w);
    jw_put_string(&w, STR("jsonrpc"), STR("2.0"));
    jw_put_string(&w, STR("method"), STR("notifications/cancelled"));
    jw_key(&w, STR("params"));
    jw_begin_object(&w);
    jw_put_integer(&w, STR("requestId"), (int64_t)id);
    jw_put_string(&w, STR("reason"), reason);
    jw_end_object(&w);
    jw_end_object(&w);
}

/* ---- their answers --------------------------------------------------------------------------- */

static const char *judge_roots(const struct json *result)
{
    struct json *roots = jv_get(result, "roots");
    bool are_good = jv_is(roots, JV_ARRAY);
    for (size_t i = 0; are_good && i < jv_count(roots); i++) {
        are_good = jv_is(jv_get(jv_at(roots, i), "uri"), JV_STRING);
    }
    return are_good ? NULL : "'roots' must be an array of objects with a 'uri'";
}

static const char *judge_elicitation(const struct json *result)
{
    struct json *content = jv_get(result, "content");
    struct tidings_str action = jv_str(jv_get(result, "action"));
    bool is_known = str_eq(action, STR("accept")) || str_eq(action, STR("decline")) ||
                    str_eq(action, STR("cancel"));
    return !is_known                               ? "'action' must be accept, decline or cancel"
           : content && !jv_is(content, JV_OBJECT) ? "'content' must be an object"
                                                   : NULL;
}

static const char *judge_sample(const struct json *result)
{
    struct json *content = jv_get(result, "content");
    return !jv_is(jv_get(result, "role"), JV_STRING)    ? "'role' must be a string"
           : !jv_is(jv_get(result, "model"), JV_STRING) ? "'model' must be a string"
           : !jv_is(content, JV_OBJECT) && !jv_is(content, JV_ARRAY)
               ? "'content' must be an object or an array"
               : NULL;
}

const char *dialect_judge_answer(struct tidings_str method, const struct json *result)
{
    unsigned asks = dialect_method_asks(method);
    return !jv_is(result, JV_OBJECT) ? "the result must be an object"
           : asks & ASK_ROOTS        ? judge_roots(result)
           : asks & ASK_SAMPLING     ? judge_sample(result)
                                     : judge_elicitation(result);
}
