/* SPDX-License-Identifier: MIT
 *
 * Answers what a server asks, from the command line.
 */
#include "bin/remote/answer.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <tidings/json.h>

#include "bin/cli/exit_status.h"
#include "bin/cli/output.h"
#include "bin/cli/path_uri.h"
#include "bin/remote/given.h"

#define ANSWERS_ACCEPTED                                                                           \
    "an object for a form, such as '{\"name\": \"value\"}', accept, decline or cancel, or an "     \
    "array "                                                                                       \
    "of these, one for each question"

/* ---- what was given -------------------------------------------------------------------------- */

static bool answers_is_word(const char *json)
{
    return strcmp(json, "\"accept\"") == 0 || strcmp(json, "\"decline\"") == 0 ||
           strcmp(json, "\"cancel\"") == 0;
}

static int answers_check_one(void *user, struct tidings_str key, struct tidings_str value)
{
    (void)user;
    (void)key;
    return value.ptr[0] == '{' || answers_is_word(value.ptr) ? 0 : 1;
}

/* --answer as JSON, before anybody is asked. A word needs no quotes. */
static int answers_read(struct answers *a, struct tidings_error *err)
{
    const char *given = a->cli->answer;
    char quoted[16];
    snprintf(quoted, sizeof(quoted), "\"%.12s\"", given);
    a->json = given_json(answers_is_word(quoted) ? quoted : given, err);
    if (!a->json) {
        struct tidings_error why = *err;
        bool is_file = given[0] == '@' && why.code != TIDINGS_E_PARSE;
        return is_file ? tidings_fail(err, why.code, "--answer: %s", why.text)
                       : tidings_fail(err, why.code, "--answer: %.80s; accepted: %s", why.text,
                                      ANSWERS_ACCEPTED);
    }
    bool is_array = a->json[0] == '[';
    bool is_fit = is_array ? tidings_json_each(tidings_str(a->json), "", answers_check_one, a) == 0
                           : answers_check_one(a, tidings_str(NULL), tidings_str(a->json)) == 0;
    return is_fit ? 0
                  : tidings_fail(err, TIDINGS_E_INVALID, "--answer takes %s, not %.40s",
                                 ANSWERS_ACCEPTED, a->json);
}

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
    if (!is_form) {
        return tidings_fail(err, TIDINGS_E_INVALID,
                            "it is an address to visit: --answer accept, decline or cancel");
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
    if (a->unanswered == 0) {
        return 0;
    }
    return tidings_fail(
        err, TIDINGS_E_CANCELLED, "the server asked something that %s",
        a->unfit > 0 ? "--answer does not fit, so it was cancelled: see what is said of it above"
        : !a->cli->answer ? "nobody answered: run it on a terminal, or give --answer JSON"
                          : "--answer has no answer left for: give an array with one for each");
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
        a->unfit++;
        (void)command_fail(a->cli->command->name, &err, NULL);
    }
    tidings_free(answer);
    a->unanswered++;
    tidings_question_cancel(q);
}

/* {"uri":"file:///…","name":"…"} of a directory. */
static void answers_put_root(FILE *out, const char *root)
{
    char *uri = uri_of_argument(root, NULL), *full = realpath(root, NULL);
    const char *slash = full ? strrchr(full, '/') : NULL;
    fputs("{\"uri\":", out);
    put_quoted(out, tidings_str(uri));
    fputs(",\"name\":", out);
    put_quoted(out, tidings_str(slash && slash[1] ? slash + 1 : root));
    fputc('}', out);
    free(full);
    free(uri);
}

static void answers_on_roots(void *user, struct tidings_question *q)
{
    struct answers *a = user;
    struct tidings_error err = {0};
    struct json_text t;
    char *text = NULL;
    if (json_text_begin(&t)) {
        fputs("{\"roots\":[", t.out);
        for (size_t i = 0; i < a->cli->roots.count; i++) {
            fputs(i > 0 ? "," : "", t.out);
            answers_put_root(t.out, a->cli->roots.items[i]);
        }
        fputs("]}", t.out);
        text = json_text_take(&t);
    }
    if (!text || tidings_question_answer(q, tidings_str(text), &err) < 0) {
        tidings_question_refuse(q, "the roots cannot be told");
    }
    a->has_told_roots = true;
    free(text);
}

static int answers_check_roots(const struct words *roots, struct tidings_error *err)
{
    for (size_t i = 0; i < roots->count; i++) {
        const char *root = roots->items[i];
        char *uri = uri_of_argument(root, err);
        bool is_file = uri && strncmp(uri, "file://", 7) == 0;
        bool is_path = strncmp(root, "file:", 5) != 0;
        struct stat st;
        free(uri);
        if (!is_file || (is_path && (stat(root, &st) != 0 || !S_ISDIR(st.st_mode)))) {
            return tidings_fail(err, TIDINGS_E_INVALID,
                                "--roots takes a directory, not '%.80s'%s; several are --roots A "
                                "--roots B",
                                root,
                                !is_file               ? ""
                                : stat(root, &st) == 0 ? ", which is none"
                                                       : ", which is not there");
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
    rc = rc == 0 && a->cli->answer ? answers_read(a, err) : rc;
    return rc == 0 ? tidings_client_on_question(client, &on, err) : rc;
}

void answers_end(struct answers *a)
{
    tidings_free(a->json);
    a->json = NULL;
}
