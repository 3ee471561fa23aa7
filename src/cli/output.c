/* SPDX-License-Identifier: MIT
 *
 * Prints text with its control characters escaped, JSON, times and sizes.
 */
#include "cli/output.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <tidings/json.h>

#include "cli/command.h"

/* ---------------------------------------------------------------------------------------------- */

/* ---- untrusted text -------------------------------------------------------------------------- */

/* The first character and its length; 0: not UTF-8. */
static size_t output_decode(struct tidings_str s, uint32_t *ret)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char c = (unsigned char)s.ptr[0];
    size_t n = c < 0x80                ? 1
               : c >= 0xf0 && c < 0xf8 ? 4
               : c >= 0xe0 && c < 0xf0 ? 3
               : c >= 0xc0 && c < 0xe0 ? 2
                                       : 0;
    if (n == 0 || n > s.len) {
        return 0;
    }
    uint32_t value = n == 1 ? c : c & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        unsigned char next = (unsigned char)s.ptr[i];
        if ((next & 0xc0) != 0x80) {
            return 0;
        }
        value = value << 6 | (next & 0x3f);
    }
    *ret = value;
    return value < least[n] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000) ? 0 : n;
}

struct character_range {
    uint32_t first, last;
};

static bool output_is_within(const struct character_range *ranges, size_t count, uint32_t c)
{
    bool is_one = false;
    for (size_t i = 0; i < count && !is_one; i++) {
        is_one = c >= ranges[i].first && c <= ranges[i].last;
    }
    return is_one;
}

/* UAX #11, by blocks. */
static size_t character_columns(uint32_t c)
{
    static const struct character_range narrow[] = {
        {0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},   {0x610, 0x61a},   {0x64b, 0x65f},
        {0x900, 0x902},   {0xe31, 0xe31},   {0xe34, 0xe3a},   {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff},
        {0x200b, 0x200d}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xe0000, 0xe01ef},
    };
    static const struct character_range wide[] = {
        {0x1100, 0x115f},   {0x231a, 0x231b},   {0x23e9, 0x23ec},   {0x2e80, 0x303e},
        {0x3041, 0xa4cf},   {0xa960, 0xa97f},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},
        {0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x1f300, 0x1f64f},
        {0x1f680, 0x1f6ff}, {0x1f7e0, 0x1f7eb}, {0x1f900, 0x1f9ff}, {0x1fa70, 0x1faff},
        {0x20000, 0x3fffd},
    };
    return c < 0x300                                                         ? 1
           : output_is_within(narrow, sizeof(narrow) / sizeof(narrow[0]), c) ? 0
           : output_is_within(wide, sizeof(wide) / sizeof(wide[0]), c)       ? 2
                                                                             : 1;
}

/* The number of bytes that fit into `width` columns, and the columns they take. */
static size_t output_fit(struct tidings_str s, size_t width, size_t *ret_columns)
{
    size_t len = 0;
    *ret_columns = 0;
    while (len < s.len) {
        uint32_t c = 0;
        size_t n = output_decode(tidings_strn(s.ptr + len, s.len - len), &c);
        size_t columns = n > 0 ? character_columns(c) : 1;
        if (*ret_columns + columns > width) {
            break;
        }
        *ret_columns += columns;
        len += n > 0 ? n : 1;
    }
    return len;
}

size_t text_columns(struct tidings_str text)
{
    size_t columns;
    (void)output_fit(text, SIZE_MAX, &columns);
    return columns;
}

size_t put_columns(FILE *out, struct tidings_str text, size_t width)
{
    size_t columns, len = output_fit(text, width, &columns);
    fwrite(text.ptr, 1, len, out);
    return columns;
}

/* Controls, line and paragraph separators, and characters that change the direction of writing. */
static bool is_unsafe(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x200e || c == 0x200f || c == 0x61c ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

/* Returns the columns. With `keeps_lines`, line feeds and tabs pass through. Text without escapes
 * is written in one piece: standard error is unbuffered, and a launched server that shares it may
 * have made it nonblocking, so that many small writes soon fail. */
static size_t put_safe(FILE *out, struct tidings_str s, bool keeps_lines)
{
    size_t columns = 0, plain = 0; /* bytes before `s` that are not written yet */
    while (s.len > 0) {
        uint32_t c = 0;
        size_t n = output_decode(s, &c);
        char escape[16] = "";
        bool is_kept = keeps_lines && (c == '\n' || c == '\t');
        if (n == 0) {
            snprintf(escape, sizeof(escape), "\\x%02x", (unsigned char)s.ptr[0]);
        } else if (is_unsafe(c) && !is_kept) {
            snprintf(escape, sizeof(escape),
                     c == '\n'   ? "\\n"
                     : c == '\t' ? "\\t"
                     : c == '\r' ? "\\r"
                     : c < 0x100 ? "\\x%02x"
                                 : "\\u%04x",
                     (unsigned)c);
        }
        size_t step = n > 0 ? n : 1;
        if (escape[0]) {
            fwrite(s.ptr - plain, 1, plain, out);
            fputs(escape, out);
        }
        plain = escape[0] ? 0 : plain + step;
        columns += escape[0] ? strlen(escape) : character_columns(c);
        s = tidings_strn(s.ptr + step, s.len - step);
    }
    if (plain > 0) {
        fwrite(s.ptr - plain, 1, plain, out);
    }
    return columns;
}

size_t put_text(FILE *out, struct tidings_str text)
{
    return put_safe(out, text, false);
}

void put_lines(FILE *out, struct tidings_str text)
{
    put_safe(out, text, true);
}

bool is_text(struct tidings_str s)
{
    uint32_t c = 0;
    for (size_t n; s.len > 0; s = tidings_strn(s.ptr + n, s.len - n)) {
        n = output_decode(s, &c);
        if (n == 0 || c == 0) {
            return false;
        }
    }
    return true;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Such characters occur only in JSON strings, where \u can replace them. */
void put_json_text(FILE *out, struct tidings_str json)
{
    size_t plain = 0; /* as with put_safe */
    while (json.len > 0) {
        uint32_t c = 0;
        size_t n = output_decode(json, &c);
        size_t step = n > 0 ? n : 1;
        bool is_escaped = n > 0 && is_unsafe(c) && c != '\n';
        if (is_escaped) {
            fwrite(json.ptr - plain, 1, plain, out);
            fprintf(out, "\\u%04x", (unsigned)c);
        }
        plain = is_escaped ? 0 : plain + step;
        json = tidings_strn(json.ptr + step, json.len - step);
    }
    if (plain > 0) {
        fwrite(json.ptr - plain, 1, plain, out);
    }
}

void put_json(FILE *out, struct tidings_str json)
{
    put_json_text(out, json);
    fputc('\n', out);
}

void put_pretty(FILE *out, struct tidings_str json)
{
    char *text = tidings_json_pretty(json);
    put_json(out, text ? tidings_str(text) : json);
    tidings_free(text);
}

void put_quoted(FILE *out, struct tidings_str text)
{
    char *quoted = tidings_json_quote(text);
    put_json_text(out, tidings_str(quoted ? quoted : "null"));
    tidings_free(quoted);
}

bool json_text_begin(struct json_text *t)
{
    *t = (struct json_text){0};
    t->out = open_memstream(&t->text, &t->len);
    return t->out != NULL;
}

char *json_text_take(struct json_text *t)
{
    bool failed = ferror(t->out) != 0;
    if (fclose(t->out) != 0 || failed) {
        free(t->text);
        t->text = NULL;
    }
    return t->text;
}

/* ---- times, sizes and wrapping --------------------------------------------------------------- */

void put_time(FILE *out, int64_t ms)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    char text[32];
    if (gmtime_r(&seconds, &tm) && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm) > 0) {
        fprintf(out, "%s.%03dZ", text, (int)(ms % 1000));
    }
}

void put_gap(FILE *out, size_t used, size_t column)
{
    fprintf(out, "%*s", used < column ? (int)(column - used) : 1, "");
}

const char *size_text(uint64_t bytes, char out[SIZE_TEXT_MAX])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double n = (double)bytes / 1024;
    size_t unit = 0;
    if (bytes < 1024) {
        snprintf(out, SIZE_TEXT_MAX, "%u B", (unsigned)bytes);
        return out;
    }
    for (; n >= 1023.95 && unit + 1 < sizeof(units) / sizeof(units[0]); unit++) {
        n /= 1024;
    }
    snprintf(out, SIZE_TEXT_MAX, "%.1f %s", n, units[unit]);
    return out;
}

bool is_terminal(FILE *out)
{
    return isatty(fileno(out)) == 1;
}

#define WIDTH_MIN 40u
#define WIDTH_MAX 100u
#define WIDTH_DEFAULT 80u

size_t output_width(FILE *out)
{
    struct winsize size;
    if (ioctl(fileno(out), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
        return WIDTH_DEFAULT;
    }
    return size.ws_col < WIDTH_MIN ? WIDTH_MIN : size.ws_col > WIDTH_MAX ? WIDTH_MAX : size.ws_col;
}

/* At a line feed that is kept: the number of line feeds. */
static size_t kept_feeds(const char *text)
{
    size_t feeds = strspn(text, "\n");
    return feeds > 1 || (feeds == 1 && (text[1] == ' ' || text[1] == '\0')) ? feeds : 0;
}

void put_wrapped(FILE *out, const char *text, size_t at)
{
    size_t width = output_width(out), indent = at, column = at, feeds;
    while (*text) {
        if ((feeds = kept_feeds(text)) > 0) {
            fwrite(text, 1, feeds, out);
            text += feeds;
            indent = column = at + strspn(text, " ");
            text += column - at;
            fprintf(out, "%*s", *text ? (int)column : 0, "");
            continue;
        }
        size_t blanks = strspn(text, " \n");
        text += blanks;
        size_t n = strcspn(text, " \n"), columns = text_columns(tidings_strn(text, n));
        if (column > indent && column + blanks + columns > width) {
            fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            fprintf(out, "%*s", (int)blanks, "");
            column += blanks;
        }
        fwrite(text, 1, n, out);
        column += columns;
        text += n;
    }
}

void put_text_wrapped(FILE *out, struct tidings_str text, size_t at)
{
    struct json_text t;
    if (!is_terminal(out) || !json_text_begin(&t)) {
        put_text(out, text);
        return;
    }
    put_lines(t.out, text);
    char *shown = json_text_take(&t);
    if (shown) {
        put_wrapped(out, shown, at);
    }
    free(shown);
}

void put_style(const struct cli *cli, FILE *out, enum style style)
{
    static const char *const codes[] = {"0", "1", "2", "32", "31", "36"};
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    bool is_dumb = (no_color && *no_color) || (term && strcmp(term, "dumb") == 0);
    if (cli->color == 1 || (cli->color == 0 && !is_dumb && is_terminal(out))) {
        fprintf(out, "\x1b[%sm", codes[style]);
    }
}

/* -------------------------------------------------------------------------------------------------
 * Exit statuses of failures, and the error messages on standard error.
 */

static bool is_json;

void command_fails_in_json(bool is_wanted)
{
    is_json = is_wanted;
}

static void exit_status_put_member(const char *name, const char *text)
{
    fprintf(stderr, "\"%s\":", name);
    put_quoted(stderr, tidings_str(text));
    fputc(',', stderr);
}

static void exit_status_put_line(FILE *out, const char *blank, const char *name, const char *text)
{
    fprintf(out, "tidings%s%s: ", blank, name);
    put_text(out, tidings_str(text)); /* the text may come from a server */
}

/* On one line, but wrapped at blanks on a terminal, because most are too narrow for it. */
static void exit_status_put_sentence(const char *blank, const char *name, const char *text)
{
    struct json_text shown;
    char *sentence = NULL;
    if (is_terminal(stderr) && json_text_begin(&shown)) {
        exit_status_put_line(shown.out, blank, name, text);
        sentence = json_text_take(&shown);
    }
    if (sentence) {
        put_wrapped(stderr, sentence, 0);
    } else {
        exit_status_put_line(stderr, blank, name, text);
    }
    fputc('\n', stderr);
    free(sentence);
}

/* `command` and `hint` may be NULL. */
static int exit_status_report(const char *command, int code, const char *message, const char *hint)
{
    const char *blank = command ? " " : "", *name = command ? command : "";
    int status = tidings_code_exit(code);
    if (is_json) {
        fputc('{', stderr);
        if (command) {
            exit_status_put_member("command", command);
        }
        exit_status_put_member("error", tidings_code_text(code));
        exit_status_put_member("message", message);
        if (hint) {
            exit_status_put_member("hint", hint);
        }
        fprintf(stderr, "\"status\":%d}\n", status);
        return status;
    }
    exit_status_put_sentence(blank, name, message);
    if (hint) {
        exit_status_put_sentence(blank, name, hint);
    }
    return status;
}

int command_fail(const char *command, const struct tidings_error *err, const char *hint)
{
    return exit_status_report(command, err->code, err->text, hint);
}

int command_misuse(const char *command, const char *problem, const char *argument)
{
    char message[512], hint[96];
    snprintf(message, sizeof(message), "%s%s%.60s%s", problem, argument ? " '" : "",
             argument ? argument : "", argument ? "'" : "");
    snprintf(hint, sizeof(hint), "see 'tidings help %s'", command);
    return exit_status_report(command, TIDINGS_E_INVALID, message, hint);
}

/* Returns true if the reader of a pipe has gone. */
static bool is_abandoned(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    return poll(&p, 1, 0) == 1 && (p.revents & POLLERR) != 0;
}

int command_finish(const char *command)
{
    errno = 0;
    if ((fflush(stdout) == 0 && !ferror(stdout)) || errno == EPIPE || is_abandoned(STDOUT_FILENO)) {
        return 0;
    }
    struct tidings_error err = {TIDINGS_E_IO, ""};
    snprintf(err.text, sizeof(err.text), "cannot write the output%s%s", errno ? ": " : "",
             errno ? strerror(errno) : "");
    return command_fail(command, &err, NULL);
}
