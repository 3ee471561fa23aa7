/* SPDX-License-Identifier: MIT
 *
 * Answers what a server asks, from the command line.
 */
#include "bin/remote/answer.h"

#include <stdlib.h>

#include <tidings/json.h>

#include "bin/cli/exit_status.h"
#include "bin/cli/output.h"
#include "bin/cli/path_uri.h"
#include "bin/remote/given.h"

/* ---- what was given -------------------------------------------------------------------------- */

/* The next answer of --answer, JSON; tidings_free it. NULL: there is none left. */
static char *answers_take(struct answers *a)
{
    char pointer[32] = "";
    if (a->json && a->json[0] == '[') {
        snprintf(pointer, sizeof(pointer), "/%zu", a->next++);
    }
    return a->json ? tidings_json_get(tidings_str(a->json), pointer) : NULL;
}

/* An object is filled in; "accept", "decline" and "cancel" are what they say. */
static int answers_give(struct tidings_question *q, const char *answer, struct tidings_error *err)
{
    bool is_form = tidings_question_kind(q) == TIDINGS_QUESTION_FORM;
    if (strcmp(answer, "\"decline\"") == 0) {
        tidings_question_decline(q);
        return 0;
    }
    if (strcmp(answer, "\"cancel\"") == 0) {
        tidings_question_cancel(q);
        return 0;
    }
    if (strcmp(answer, "\"accept\"") == 0) {
        return tidings_question_accept(q, tidings_str(NULL), err);
    }
    if (answer[0] != '{') {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "--answer takes an object for a form, \"accept\", \"decline\" or "
                            "\"cancel\", or an array of these");
    }
    if (!is_form) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "it is an address to visit: \"accept\", \"decline\" or \"cancel\"");
    }
    return tidings_question_accept(q, tidings_str(answer), err);
}

/* ---- nobody is there ------------------------------------------------------------------------- */

static int answers_show_field(void *user, const struct tidings_field *f)
{
    static const char *const types[] = {"text",      "number", "integer",
                                        "yes or no", "one of", "some of"};
    (void)user;
    fputs("  ", stderr);
    put_text(stderr, f->name);
    fprintf(stderr, " (%s", f->format.len > 0 ? "" : types[f->type]);
    put_text(stderr, f->format);
    for (size_t i = 0; i < f->choice_count; i++) {
        fputs(i > 0 ? ", " : " ", stderr);
        put_text(stderr, f->choices[i].value);
    }
    fputs(f->is_required ? ", required)" : ")", stderr);
    if (f->preset.len > 0) {
        fputs(", unless given ", stderr);
        put_text(stderr, f->preset);
    }
    fputs(f->description.len > 0 ? ": " : "", stderr);
    put_text(stderr, f->description);
    fputc('\n', stderr);
    return 0;
}

static void answers_show(const struct answers *a, struct tidings_question *q)
{
    if (a->cli->json) {
        return; /* the message of the failure is JSON */
    }
    fprintf(stderr, "tidings %s: the server asks: ", a->cli->command->name);
    put_text(stderr, tidings_question_message(q));
    fputc('\n', stderr);
    if (tidings_question_kind(q) == TIDINGS_QUESTION_FORM) {
        tidings_question_fields(q, answers_show_field, NULL);
    } else {
        fputs("  visit ", stderr);
        put_text(stderr, tidings_question_url(q));
        fputc('\n', stderr);
    }
}

int answers_judge(const struct answers *a, struct tidings_error *err)
{
    return a->unanswered == 0
               ? 0
               : tidings_fail(err, TIDINGS_E_CANCELLED,
                              "the server asked something that nobody answered: run it on a "
                              "terminal, or give --answer JSON");
}

/* ---- being asked ----------------------------------------------------------------------------- */

static void answers_on_question(void *user, struct tidings_question *q)
{
    struct answers *a = user;
    struct tidings_error err = {0};
    char *answer = answers_take(a);
    if (!answer && !a->cli->answer && !a->cli->json && is_terminal(stderr)) {
        answers_ask(a->cli, q);
        return;
    }
    if (answer && answers_give(q, answer, &err) == 0) {
        tidings_free(answer);
        return;
    }
    answers_show(a, q);
    if (answer) {
        (void)command_fail(a->cli->command->name, &err, NULL);
    }
    tidings_free(answer);
    a->unanswered++;
    tidings_question_cancel(q);
}

/* {"roots":[{"uri":"file:///…","name":"…"}]} */
static void answers_on_roots(void *user, struct tidings_question *q)
{
    struct answers *a = user;
    struct tidings_error err = {0};
    struct json_text t;
    char *text = NULL;
    if (json_text_begin(&t)) {
        fputs("{\"roots\":[", t.out);
        for (size_t i = 0; i < a->cli->roots.count; i++) {
            const char *name = strrchr(a->cli->roots.items[i], '/');
            char *uri = uri_of_argument(a->cli->roots.items[i], &err);
            fputs(i > 0 ? ",{\"uri\":" : "{\"uri\":", t.out);
            put_quoted(t.out, tidings_str(uri));
            fputs(",\"name\":", t.out);
            put_quoted(t.out, tidings_str(name && name[1] ? name + 1 : a->cli->roots.items[i]));
            fputc('}', t.out);
            free(uri);
        }
        fputs("]}", t.out);
        text = json_text_take(&t);
    }
    if (!text || tidings_question_answer(q, tidings_str(text), &err) < 0) {
        tidings_question_refuse(q, "the roots cannot be told");
    }
    free(text);
}

static int answers_check_roots(const struct words *roots, struct tidings_error *err)
{
    for (size_t i = 0; i < roots->count; i++) {
        char *uri = uri_of_argument(roots->items[i], err);
        bool is_file = uri && strncmp(uri, "file://", 7) == 0;
        free(uri);
        if (!is_file) {
            return tidings_fail(err, TIDINGS_E_INVALID, "--roots takes a directory, not '%.80s'",
                                roots->items[i]);
        }
    }
    return 0;
}

int answers_begin(struct answers *a, struct tidings_client *client, struct tidings_error *err)
{
    struct tidings_question_handlers on = {.on_form = answers_on_question,
                                           .on_url = answers_on_question,
                                           .on_roots =
                                               a->cli->roots.count > 0 ? answers_on_roots : NULL,
                                           .user = a};
    int rc = answers_check_roots(&a->cli->roots, err);
    if (rc == 0 && a->cli->answer && !(a->json = given_json(a->cli->answer, err))) {
        struct tidings_error why = *err;
        rc = tidings_fail(err, why.code, "--answer: %s", why.text);
    }
    return rc == 0 ? tidings_client_on_question(client, &on, err) : rc;
}

void answers_end(struct answers *a)
{
    tidings_free(a->json);
    a->json = NULL;
}
