/* SPDX-License-Identifier: MIT
 *
 * Asks a person on the terminal what a server wants to know: field by field, with what is accepted;
 * an address with its host by itself, since that is what a person has to judge.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include "bin/cli/output.h"
#include "bin/remote/answer.h"

#define LINE_MAX_BYTES 4096u

struct terminal {
    const struct cli *cli;
    int fd;
    bool is_over;          /* no more lines come: Ctrl-D, or a signal */
    struct json_text form; /* {"name":value… */
    bool has_any;
};

/* A byte from the terminal; false: there is none. A signal ends a poll, whatever is restarted. */
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

/* A line from the terminal, whatever standard input is; false: there is none. What is longer than
 * `size` is read to its end, lest the rest answer what is asked next, and asked for again. */
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

/* One field, until it is filled in; not 0: no more. */
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
            return 0; /* the preset, or nothing */
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

/* The host of an address, without whoever is named before it and without its port. */
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

void answers_ask(const struct cli *cli, struct tidings_question *q)
{
    struct terminal t = {.cli = cli, .fd = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY)};
    if (t.fd < 0) {
        tidings_question_cancel(q);
        return;
    }
    tcflush(t.fd, TCIFLUSH);   /* what was typed before is no answer to this */
    fputs("\r\x1b[K", stderr); /* the progress */
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
