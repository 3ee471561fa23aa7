/* SPDX-License-Identifier: MIT
 *
 * Answers questions of a server from the command line.
 */
#include "cli/answer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <tidings/json.h>

#include "cli/output.h"
#include "cli/paths.h"
#include "cli/target.h"

/* -------------------------------------------------------------------------------------------------
 * Asks the user on the terminal for the answer to a server's question: field by field, with the
 * accepted values. An address is shown with its host on a separate line, because users must judge
 * the host.
 */

#define LINE_MAX_BYTES 4096u

struct terminal {
    const struct cli *cli;
    int fd;
    bool is_over;          /* end of input: Ctrl-D, or a signal */
    struct json_text form; /* {"name":value… */
    bool has_any;
};

/* A byte from the terminal; returns false at the end of input. A signal interrupts poll even with
 * SA_RESTART. */
static bool terminal_read_byte(struct terminal *t, char *ret)
{
    struct pollfd p = {.fd = t->fd, .events = POLLIN};
    if (poll(&p, 1, -1) == 1 && read(t->fd, ret, 1) == 1) {
        return true;
    }
    t->is_over = true;
    fputc('\n', stderr);
    return false;
}

/* Reads a line from the terminal, whatever standard input is; returns false at the end of input. A
 * line longer than `size` is read to its end, so that its rest does not answer the next question,
 * and the prompt is repeated. */
static bool terminal_read(struct terminal *t, char *line, size_t size)
{
    size_t len;
    do {
        char c = 0;
        fflush(stderr);
        for (len = 0; terminal_read_byte(t, &c) && c != '\n'; len++) {
            line[len < size ? len : size - 1] = c;
        }
        if (!t->is_over && len >= size) {
            fprintf(stderr, "    a line has at most %zu bytes; once more: ", size - 1);
        }
    } while (!t->is_over && len >= size);
    line[len < size ? len : 0] = '\0';
    return !t->is_over;
}

static void terminal_put_choices(const struct tidings_field *f)
{
    for (size_t i = 0; i < f->choice_count; i++) {
        fprintf(stderr, "    %zu  ", i + 1);
        put_text(stderr, f->choices[i].title);
        if (!tidings_str_eq(f->choices[i].title, f->choices[i].value)) {
            fputs(" (", stderr);
            put_text(stderr, f->choices[i].value);
            fputc(')', stderr);
        }
        fputc('\n', stderr);
    }
}

static void terminal_put_prompt(const struct terminal *t, const struct tidings_field *f)
{
    static const char *const types[] = {"text", "number",         "integer",
                                        "y/n",  "number or name", "numbers or names, with commas"};
    fputs("  ", stderr);
    put_style(t->cli, stderr, STYLE_BOLD);
    put_text(stderr, f->title);
    put_style(t->cli, stderr, STYLE_PLAIN);
    fprintf(stderr, " (%s", f->format.len > 0 ? "" : types[f->type]);
    put_text(stderr, f->format);
    fputs(f->is_required && f->preset.len == 0 ? ", required)" : ")", stderr);
    if (f->preset.len > 0) {
        fputs(" [", stderr);
        put_text(stderr, f->preset);
        fputc(']', stderr);
    }
    fputs(": ", stderr);
}

/* Ask for one field until it is valid; not 0: stop. */
static int terminal_ask_field(void *user, const struct tidings_field *f)
{
    struct terminal *t = user;
    char line[LINE_MAX_BYTES];
    if (f->description.len > 0) {
        fputs("  ", stderr);
        put_text(stderr, f->description);
        fputc('\n', stderr);
    }
    terminal_put_choices(f);
    for (;;) {
        struct tidings_error err = {0};
        terminal_put_prompt(t, f);
        if (!terminal_read(t, line, sizeof(line))) {
            return 1;
        }
        if (line[0] == '\0' && (f->preset.len > 0 || !f->is_required)) {
            return 0; /* the preset value, or none */
        }
        if (line[0] == '\0') {
            fputs("    it has to be filled in; Ctrl-D leaves the form\n", stderr);
            continue;
        }
        char *value = tidings_field_read(f, tidings_str(line), &err);
        if (value) {
            fputs(t->has_any ? "," : "", t->form.out);
            put_quoted(t->form.out, f->name);
            fprintf(t->form.out, ":%s", value);
            t->has_any = true;
            tidings_free(value);
            return 0;
        }
        fputs("    ", stderr);
        put_text(stderr, tidings_str(err.text));
        fputc('\n', stderr);
    }
}

/* 'y', 'n', or 0: neither. */
static char terminal_agree(struct terminal *t, const char *prompt)
{
    char line[LINE_MAX_BYTES];
    for (;;) {
        fputs(prompt, stderr);
        if (!terminal_read(t, line, sizeof(line)) || strcmp(line, "c") == 0) {
            return 0;
        }
        if (line[0] == '\0' || strcmp(line, "y") == 0 || strcmp(line, "n") == 0) {
            return line[0] == 'n' ? 'n' : 'y';
        }
    }
}

/* The host of an address, without user information and port. */
static struct tidings_str terminal_host(struct tidings_str url)
{
    const char *begin = strstr(url.ptr, "://") + 3;
    size_t len = strcspn(begin, "/?#");
    for (size_t i = 0; i < len; i++) {
        if (begin[i] == '@') {
            begin += i + 1;
            len -= i + 1;
            i = (size_t)-1;
        }
    }
    return tidings_strn(begin, begin[0] == '['                ? len
                               : strcspn(begin, ":/?#") < len ? strcspn(begin, ":/?#")
                                                              : len);
}

static void terminal_visit(struct terminal *t, struct tidings_question *q)
{
    struct tidings_str url = tidings_question_url(q);
    fputs("  ", stderr);
    put_style(t->cli, stderr, STYLE_BOLD);
    put_text(stderr, url);
    put_style(t->cli, stderr, STYLE_PLAIN);
    fputs("\n  at ", stderr);
    put_text(stderr, terminal_host(url));
    fputs(". Open it in a browser if you trust that.\n", stderr);
    char answer = terminal_agree(t, "  Done? [Enter: done, n: no, c: cancel] ");
    if (answer == 'y' && tidings_question_accept(q, tidings_str(NULL), NULL) == 0) {
        return;
    }
    if (answer == 'n') {
        tidings_question_decline(q);
    } else {
        tidings_question_cancel(q);
    }
}

static void terminal_fill_in(struct terminal *t, struct tidings_question *q)
{
    struct tidings_error err = {0};
    char answer = 0;
    if (!json_text_begin(&t->form)) {
        tidings_question_cancel(q);
        return;
    }
    fputc('{', t->form.out);
    bool is_filled = tidings_question_fields(q, terminal_ask_field, t) == 0;
    fputc('}', t->form.out);
    char *content = json_text_take(&t->form);
    if (is_filled && content) {
        answer = terminal_agree(t, "  Send this? [Enter: yes, n: no, c: cancel] ");
    }
    if (answer == 'y' && tidings_question_accept(q, tidings_str(content), &err) < 0) {
        fputs("  ", stderr);
        put_text(stderr, tidings_str(err.text));
        fputs(": nothing is sent\n", stderr);
        tidings_question_cancel(q);
    } else if (answer == 'n') {
        tidings_question_decline(q);
    } else if (answer == 0) {
        tidings_question_cancel(q);
    }
    free(content);
}

/* Ask the user on the terminal, and send the answer. */
static void answers_ask(const struct cli *cli, struct tidings_question *q)
{
    struct terminal t = {.cli = cli, .fd = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY)};
    if (t.fd < 0) {
        tidings_question_cancel(q);
        return;
    }
    tcflush(t.fd, TCIFLUSH);   /* earlier input is not an answer to this question */
    fputs("\r\x1b[K", stderr); /* clears the progress line */
    put_style(cli, stderr, STYLE_BOLD);
    fputs("The server asks: ", stderr);
    put_style(cli, stderr, STYLE_PLAIN);
    put_lines(stderr, tidings_question_message(q));
    fputc('\n', stderr);
    if (tidings_question_kind(q) == TIDINGS_QUESTION_URL) {
        terminal_visit(&t, q);
    } else {
        terminal_fill_in(&t, q);
    }
    close(t.fd);
}

/* -------------------------------------------------------------------------------------------------
 * Reads command input: arguments that are JSON, files, standard input.
 */

#define INPUT_MAX (16u << 20)

char *input_bytes(const char *path, size_t max, size_t *ret_len, struct tidings_error *err)
{
    bool is_input = strcmp(path, "-") == 0;
    FILE *in = is_input ? stdin : fopen(path, "rbe");
    size_t len = 0, room = 0;
    char *text = NULL;
    if (!in) {
        tidings_fail(err, errno == ENOENT ? TIDINGS_E_NOTFOUND : TIDINGS_E_IO, "%.160s: %s", path,
                     strerror(errno));
        target_is_innocent();
        return NULL;
    }
    if (is_input && is_terminal(stdin) && is_terminal(stderr)) {
        fputs("(reading standard input; Ctrl-D ends it)\n", stderr);
    }
    for (size_t n = 1; n > 0 && len <= max; len += n) {
        if (room - len < 2) {
            room = room > 0 ? 2 * room : 65536;
            char *more = realloc(text, room);
            if (!more) {
                tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
                goto fail;
            }
            text = more;
        }
        n = fread(text + len, 1, room - len - 1, in);
    }
    if (ferror(in) || len > max) {
        tidings_fail(err, len > max ? TIDINGS_E_LIMIT : TIDINGS_E_IO, "%.160s: %s", path,
                     len > max ? "it is too large" : strerror(errno));
        goto fail;
    }
    text[len] = '\0';
    *ret_len = len;
    if (!is_input) {
        fclose(in);
    }
    return text;
fail:
    target_is_innocent();
    if (!is_input) {
        fclose(in);
    }
    free(text);
    return NULL;
}

char *input_json(const char *argument, struct tidings_error *err)
{
    struct tidings_error why = {0};
    size_t len = 0;
    char *input = NULL;
    if (strcmp(argument, "-") == 0 || argument[0] == '@') {
        input = input_bytes(argument[0] == '@' ? argument + 1 : "-", INPUT_MAX, &len, err);
        if (!input) {
            return NULL;
        }
    }
    char *json =
        tidings_json_compact(input ? tidings_strn(input, len) : tidings_str(argument), &why);
    if (!json) {
        bool is_pair = !input && strchr(argument, '=') && !strpbrk(argument, "{[\"");
        tidings_fail(err, why.code, "%s%.60s%s: %s%s", input ? "" : "'",
                     argument[0] == '@'           ? argument + 1
                     : strcmp(argument, "-") == 0 ? "standard input"
                                                  : argument,
                     input ? "" : "'", why.text,
                     is_pair ? "; JSON is wanted, such as {\"name\": \"value\"}" : "");
    }
    free(input);
    return json;
}

/* ---------------------------------------------------------------------------------------------- */

#define ANSWERS_ACCEPTED                                                                           \
    "an object for a form, such as '{\"name\": \"value\"}', accept, decline or cancel, or an "     \
    "array "                                                                                       \
    "of these, one for each question"

/* ---- --answer -------------------------------------------------------------------------------- */

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

/* Parse --answer as JSON, before the first question. A word needs no quotes. */
static int answers_read(struct answers *a, struct tidings_error *err)
{
    const char *given = a->cli->answer;
    char quoted[16];
    snprintf(quoted, sizeof(quoted), "\"%.12s\"", given);
    a->json = input_json(answers_is_word(quoted) ? quoted : given, err);
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

/* The next answer of --answer, JSON; tidings_free it. NULL: no more. */
static char *answers_take(struct answers *a)
{
    char pointer[32] = "";
    if (a->json && a->json[0] == '[') {
        snprintf(pointer, sizeof(pointer), "/%zu", a->next++);
    }
    return a->json ? tidings_json_get(tidings_str(a->json), pointer) : NULL;
}

/* An object fills in the form; "accept", "decline" and "cancel" are actions. */
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

/* ---- unanswered questions -------------------------------------------------------------------- */

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

int answers_check(const struct answers *a, struct tidings_error *err)
{
    if (a->unanswered == 0) {
        return 0;
    }
    return tidings_fail(err, TIDINGS_E_CANCELLED, "a question of the server was not answered: %s",
                        a->unfit > 0 ? "the value of --answer does not fit; see the message above"
                        : !a->cli->answer
                            ? "run the command on a terminal, or give --answer JSON"
                            : "--answer has too few answers; give an array with one for each");
}

/* ---- questions ------------------------------------------------------------------------------- */

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
        tidings_question_refuse(q, "the client cannot list its roots");
    }
    a->has_sent_roots = true;
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
                                : stat(root, &st) == 0 ? ", which is not a directory"
                                                       : ", which does not exist");
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
