/* SPDX-License-Identifier: MIT
 *
 * The results of tool calls that write entities, as JSON.
 */
#include "base/error.h"
#include "server/entity_call.h"

static void put_done(struct jw *w, const struct entity_done *done, bool is_replayed)
{
    const struct entity_version *v = &done->version;
    struct entity_uri parts = {
        .kind = ENTITY_URI_CURRENT, .type = v->type, .version = v->type_version, .id = v->id};
    char from[TIMELINE_TEXT];
    struct buf uri;
    buf_init(&uri, ENTITY_URI_MAX);
    (void)entity_uri_build(&parts, &uri);
    jw_begin_object(w);
    jw_put_bool(w, STR("success"), true);
    jw_put_string(w, STR("uri"), buf_str(&uri));
    entity_put_version(w, v);
    jw_put_string(w, STR("newValidFrom"), timeline_text(v->from, from));
    jw_put_bool(w, STR("changed"), done->changed);
    if (is_replayed) {
        jw_put_bool(w, STR("replayed"), true);
    }
    jw_put_raw(w, STR("value"), v->value);
    jw_end_object(w);
    buf_deinit(&uri);
}

/* About: so that it is made in one piece. */
static size_t entity_answer_bytes_of(const struct entity_call *c)
{
    size_t bytes = 64;
    for (size_t i = 0; i < c->count; i++) {
        const struct entity_version *v = &c->done[i].version;
        bytes += 512 + v->value.len + v->changed_by.len + 2 * v->id.len;
    }
    return bytes;
}

void entity_put_written(const struct entity_call *c, struct buf *out)
{
    struct jw w;
    (void)buf_reserve(out, entity_answer_bytes_of(c));
    jw_init(&w, out);
    if (c->is_transaction) {
        jw_begin_object(&w);
        jw_put_bool(&w, STR("success"), true);
        jw_put_bool(&w, STR("replayed"), c->is_replayed);
        jw_key(&w, STR("results"));
        jw_begin_array(&w);
    }
    for (size_t i = 0; i < c->count; i++) {
        put_done(&w, &c->done[i], c->is_replayed && !c->is_transaction);
    }
    if (c->is_transaction) {
        jw_end_array(&w);
        jw_end_object(&w);
    }
}

int entity_answer_writes(struct entity_call *c, struct tidings_error *err)
{
    struct buf out;
    buf_init(&out, ENTITY_ANSWER_MAX);
    entity_put_written(c, &out);
    int rc = buf_check(&out, "it was done, but the answer", "write fewer entities at a time", err);
    rc = rc < 0 ? TIDINGS_E_UNKNOWN : call_take_structured(c->call, &out, err);
    buf_deinit(&out);
    return rc;
}

#define RETRY_MS 1000 /* when the store may be there again */

/* The store cannot be reached: nothing is wrong with what was asked. */
static bool is_unavailable(const struct entity_call *c, int code)
{
    return code == TIDINGS_E_BUSY && c->job.is_lost;
}

static const char *entity_answer_reason_of(const struct entity_call *c, int code)
{
    static const char *const reasons[] = {
        [ENTITY_OK] = "refused",
        [ENTITY_INVALID] = "invalid",
        [ENTITY_UNKNOWN_TYPE] = "unknownType",
        [ENTITY_UNKNOWN] = "unknownEntity",
        [ENTITY_OTHER_TYPE] = "otherType",
        [ENTITY_DELETED] = "deleted",
        [ENTITY_EXISTS] = "exists",
        [ENTITY_UNKNOWN_BASELINE] = "unknownBaseline",
        [ENTITY_CONFLICT] = "conflict",
        [ENTITY_BAD_VALUE] = "validation",
        [ENTITY_CARELESS] = "conditionRequired",
        [ENTITY_KEY_REUSED] = "keyReused",
        [ENTITY_TAKEN] = "taken",
        [ENTITY_DAMAGED] = "damaged",
        [ENTITY_UNSUPPORTED] = "unsupported",
        [ENTITY_MEDIUM] = "storage",
    };
    if (code == TIDINGS_E_UNKNOWN) {
        return "outcomeUnknown";
    }
    if (is_unavailable(c, code)) {
        return "unavailable";
    }
    if (c->problem.reason != ENTITY_OK) {
        return reasons[c->problem.reason];
    }
    return code == TIDINGS_E_EXISTS        ? "exists"
           : code == TIDINGS_E_NOTFOUND    ? "unknownEntity"
           : code == TIDINGS_E_CONDITION   ? "conditionRequired"
           : code == TIDINGS_E_FORMAT      ? "format"
           : code == TIDINGS_E_UNSUPPORTED ? "unsupported"
           : c->job.is_lost                ? "storage"
           : code == TIDINGS_E_NOMEM       ? "storage"
                                           : "invalid";
}

static void entity_put_problem(const struct entity_call *c, int code, struct jw *w)
{
    const struct entity_problem *p = &c->problem;
    char text[TIMELINE_TEXT];
    jw_put_string(w, STR("reason"), tidings_str(entity_answer_reason_of(c, code)));
    if (is_unavailable(c, code)) {
        jw_put_integer(w, STR("retryAfterMs"), RETRY_MS);
    }
    if (c->is_transaction && p->reason != ENTITY_OK) {
        jw_put_integer(w, STR("index"), (int64_t)p->index);
    }
    if (p->current > 0) {
        jw_put_string(w, STR("current"), timeline_text(p->current, text));
    }
    if (p->reason == ENTITY_CONFLICT) {
        jw_put_raw(w, STR("patchFromBaseline"), p->patch.len > 0 ? p->patch : STR("null"));
    }
    if (p->reason == ENTITY_OTHER_TYPE) {
        jw_put_string(w, STR("entityTypeName"), p->type);
        jw_put_string(w, STR("entityTypeVersion"), p->version);
    }
    if (p->reason == ENTITY_BAD_VALUE) {
        jw_put_string(w, STR("path"), p->where);
        jw_put_string(w, STR("rule"), p->rule);
    }
}

int entity_answer_problem(struct entity_call *c, int code, struct tidings_error *err)
{
    struct buf out;
    struct jw w;
    buf_init(&out, ENTITY_ANSWER_MAX);
    jw_init(&w, &out);
    jw_begin_object(&w);
    jw_put_string(&w, STR("error"), tidings_str(c->job.err.text));
    entity_put_problem(c, code, &w);
    jw_end_object(&w);
    int rc = out.failed ? tidings_fail(err, code, "%s", c->job.err.text)
                        : tidings_call_text(c->call, buf_str(&out), err);
    tidings_call_mark_error(c->call);
    buf_deinit(&out);
    return rc;
}

/* Of an error of the protocol, by what that system answers: parameters, entities that are missing
 * or deleted, and everything else. */
static int refusal_code(const struct entity_call *c, int code)
{
    switch (c->problem.reason) {
    case ENTITY_BAD_VALUE:
    case ENTITY_UNKNOWN_BASELINE:
        return TIDINGS_E_INTERNAL;
    case ENTITY_OK:
        if (code == TIDINGS_E_EXISTS) { /* a type */
            return TIDINGS_E_INTERNAL;
        }
        break;
    case ENTITY_INVALID:
    case ENTITY_UNKNOWN_TYPE:
    case ENTITY_UNKNOWN:
    case ENTITY_OTHER_TYPE:
    case ENTITY_DELETED:
    case ENTITY_EXISTS:
    case ENTITY_CONFLICT:
    case ENTITY_CARELESS:
    case ENTITY_KEY_REUSED:
    case ENTITY_TAKEN:
    case ENTITY_DAMAGED:
    case ENTITY_UNSUPPORTED:
    case ENTITY_MEDIUM:
        break;
    }
    bool is_missing = code == TIDINGS_E_NOTFOUND || code == TIDINGS_E_GONE;
    return is_missing ? TIDINGS_E_INVALID : code;
}

void entity_problem_text(const struct entity_call *c, int code, struct buf *ret_text)
{
    struct jw w;
    buf_init(ret_text, ENTITY_ANSWER_MAX);
    jw_init(&w, ret_text);
    jw_begin_object(&w);
    entity_put_problem(c, code, &w);
    jw_end_object(&w);
}

void entity_answer_refusal(struct entity_call *c, int code)
{
    struct tidings_error err = c->job.err;
    struct buf text;
    entity_problem_text(c, code, &text);
    if (!text.failed) {
        job_explain(&c->call->base, buf_str(&text));
    }
    err.code = refusal_code(c, code);
    tidings_call_refuse(c->call, err.code, &err);
    buf_deinit(&text);
}
