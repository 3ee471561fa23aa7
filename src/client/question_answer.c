/* SPDX-License-Identifier: MIT
 *
 * What a program learns of a question, and its answers.
 */
#include "base/mem.h"
#include "client/form.h"
#include "client/json_text.h"
#include "client/question.h"
#include "client/requests.h"
#include "client/round.h"
#include "client/state.h"

#define ANSWER_REFUSED (-1) /* what the specification's examples give for a user that says no */

/* ---- what is asked --------------------------------------------------------------------------- */

enum tidings_question_kind tidings_question_kind(const struct tidings_question *q)
{
    return q->kind;
}

struct tidings_str tidings_question_params(struct tidings_question *q)
{
    if (!q->text) {
        q->text = q->params ? json_text_of(q->client, q->params, NULL) : str_dup(STR("{}"));
    }
    return tidings_str(q->text);
}

struct tidings_str tidings_question_message(const struct tidings_question *q)
{
    return jv_str(jv_get(q->params, "message"));
}

struct tidings_str tidings_question_url(const struct tidings_question *q)
{
    return q->kind == TIDINGS_QUESTION_URL ? jv_str(jv_get(q->params, "url")) : STR_EMPTY;
}

int tidings_question_fields(struct tidings_question *q, tidings_field_fn fn, void *user)
{
    return q->kind == TIDINGS_QUESTION_FORM
               ? form_each(jv_get(q->params, "requestedSchema"), fn, user)
               : TIDINGS_E_INVALID;
}

/* ---- sending --------------------------------------------------------------------------------- */

void question_send(struct tidings_question *q, struct tidings_str result)
{
    if (q->id) {
        requests_reply(q->client, q->id, result);
    } else if (q->round) {
        round_answered(q->round, q->index, result);
    }
}

void question_send_error(struct tidings_question *q, const char *reason)
{
    if (q->id) {
        requests_reply_error(q->client, q->id, ANSWER_REFUSED, reason);
    } else if (q->round) {
        round_refused(q->round, reason);
    }
}

/* It is answered. Whom a round tells may withdraw what else it has. */
static void question_finish(struct tidings_question *q, struct tidings_str result,
                            const char *reason)
{
    struct tidings_question answered = *q;
    if (q->state == QUESTION_LEAVING) {
        return; /* and gone as soon as on_withdrawn returns */
    }
    q->id = NULL;
    question_release(q);
    if (reason) {
        question_send_error(&answered, reason);
    } else {
        question_send(&answered, result);
    }
    jv_unref(answered.id);
}

/* ---- answers --------------------------------------------------------------------------------- */

int tidings_question_accept(struct tidings_question *q, struct tidings_str content,
                            struct tidings_error *err)
{
    struct buf filled, out;
    int rc = 0;
    if (q->kind != TIDINGS_QUESTION_FORM && q->kind != TIDINGS_QUESTION_URL) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "only a form or an address is accepted: use tidings_question_answer");
    }
    if (q->kind == TIDINGS_QUESTION_URL && content.len > 0) {
        return tidings_fail(err, TIDINGS_E_INVALID, "there is nothing to fill in");
    }
    buf_init(&filled, q->client->settings.max_bytes);
    buf_init(&out, q->client->settings.max_bytes);
    if (q->kind == TIDINGS_QUESTION_FORM) {
        rc = form_complete(jv_get(q->params, "requestedSchema"), content, &filled, err);
    }
    buf_puts(&out, STR("{\"action\":\"accept\""));
    if (q->kind == TIDINGS_QUESTION_FORM) {
        buf_puts(&out, STR(",\"content\":"));
        buf_puts(&out, buf_str(&filled));
    }
    buf_putc(&out, '}');
    if (rc == 0 && out.failed) {
        rc = tidings_fail(err, out.failed, "what is filled in is too large");
    }
    if (rc == 0) {
        question_finish(q, buf_str(&out), NULL);
    }
    buf_deinit(&filled);
    buf_deinit(&out);
    return rc;
}

static void question_say_no(struct tidings_question *q, struct tidings_str result)
{
    bool is_asked = q->kind == TIDINGS_QUESTION_FORM || q->kind == TIDINGS_QUESTION_URL;
    question_finish(q, result, is_asked ? NULL : "the user rejected the request");
}

void tidings_question_decline(struct tidings_question *q)
{
    question_say_no(q, STR("{\"action\":\"decline\"}"));
}

void tidings_question_cancel(struct tidings_question *q)
{
    question_say_no(q, STR("{\"action\":\"cancel\"}"));
}

void tidings_question_refuse(struct tidings_question *q, const char *reason)
{
    question_finish(q, STR_EMPTY, reason && reason[0] ? reason : "the user rejected the request");
}

static const char *question_judge_roots(const struct json *result)
{
    struct json *roots = jv_get(result, "roots");
    bool are_good = jv_is(roots, JV_ARRAY);
    for (size_t i = 0; are_good && i < jv_count(roots); i++) {
        are_good = str_starts(jv_str(jv_get(jv_at(roots, i), "uri")), STR("file://"));
    }
    return are_good ? NULL : "'roots' must be an array of objects with a 'uri' that is file://…";
}

static const char *question_judge_sample(const struct json *result)
{
    struct json *content = jv_get(result, "content");
    struct tidings_str role = jv_str(jv_get(result, "role"));
    bool has_content = jv_is(content, JV_OBJECT) || jv_is(content, JV_ARRAY);
    return !str_eq(role, STR("assistant")) && !str_eq(role, STR("user"))
               ? "'role' must be assistant or user"
           : !jv_is(jv_get(result, "model"), JV_STRING) ? "'model' must be a string"
           : !has_content                               ? "'content' must be an object or an array"
                                                        : NULL;
}

int tidings_question_answer(struct tidings_question *q, struct tidings_str result,
                            struct tidings_error *err)
{
    struct json *root = NULL;
    struct tidings_error why = {0};
    if (q->kind == TIDINGS_QUESTION_FORM || q->kind == TIDINGS_QUESTION_URL) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "a form or an address is accepted, declined or cancelled");
    }
    int rc = jv_parse(result, JSON_MAX_DEPTH, &root, &why);
    const char *wrong = rc < 0                                 ? why.text
                        : !jv_is(root, JV_OBJECT)              ? "it is no object"
                        : q->kind == TIDINGS_QUESTION_SAMPLING ? question_judge_sample(root)
                                                               : question_judge_roots(root);
    char *text = wrong ? NULL : json_text_of(q->client, root, NULL);
    jv_unref(root);
    if (!text) {
        return tidings_fail(err, wrong ? TIDINGS_E_INVALID : TIDINGS_E_LIMIT, "the answer: %s",
                            wrong ? wrong : "it is too large");
    }
    question_finish(q, tidings_str(text), NULL);
    mem_free(text);
    return 0;
}

void tidings_client_roots_changed(struct tidings_client *c)
{
    if (c && c->stage == STAGE_READY && c->era == TIDINGS_ERA_LEGACY && c->handlers.on_roots) {
        requests_notify(c, "notifications/roots/list_changed");
    }
}
