/* SPDX-License-Identifier: MIT
 *
 * Prints text, JSON, times and sizes. Text from a server is untrusted: control characters, and
 * characters that change the direction of writing, are escaped, so that the text can neither
 * control a terminal nor imitate another line.
 */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <stdio.h>

#include <tidings/types.h>

struct cli;

/* The columns of text on a terminal: wide characters take two, combining ones none. */
size_t text_columns(struct tidings_str text);
/* Write as much as fits into `width` columns; returns the columns written. */
size_t put_columns(FILE *out, struct tidings_str text, size_t width);
/* On one line: line feeds and tabs are escaped too. Returns the columns written. */
size_t put_text(FILE *out, struct tidings_str text);
/* On several lines: line feeds and tabs are kept. */
void put_lines(FILE *out, struct tidings_str text);
/* JSON text, on one line, and a line feed. The JSON value is unchanged. */
void put_json(FILE *out, struct tidings_str json);
/* The same without the line feed, as part of a larger JSON text. */
void put_json_text(FILE *out, struct tidings_str json);
/* Pretty-printed over several lines. */
void put_pretty(FILE *out, struct tidings_str json);
/* A JSON string of this text. */
void put_quoted(FILE *out, struct tidings_str text);
/* A JSON text under construction, for put_quoted and the like: begin, write to the stream, take the
 * text (free it). NULL: no memory. */
struct json_text {
    FILE *out;
    char *text;
    size_t len;
};
bool json_text_begin(struct json_text *t);
char *json_text_take(struct json_text *t);

/* Unix time as 2026-07-28T10:00:00.012Z. */
void put_time(FILE *out, int64_t ms);
/* The line width: the terminal's, from 40 to 100; 80 if the stream is not a terminal. */
size_t output_width(FILE *out);
/* Wraps text at blanks to the width of the stream, starting at column `at`, the position of the
 * cursor. Lines of a paragraph are joined; an empty line, and a line that starts with a blank, are
 * kept. */
void put_wrapped(FILE *out, const char *text, size_t at);
/* The same for untrusted text, as put_text shows it; line feeds are kept. If the stream is not a
 * terminal, the text is not wrapped. */
void put_text_wrapped(FILE *out, struct tidings_str text, size_t at);
/* Blanks up to a column, at least one. */
void put_gap(FILE *out, size_t used, size_t column);

/* "1.2 MiB"; below 1024 "17 B". */
#define SIZE_TEXT_MAX 24u
const char *size_text(uint64_t bytes, char out[SIZE_TEXT_MAX]);

/* Returns true if the bytes are printable as text: UTF-8 without NUL. */
bool is_text(struct tidings_str bytes);

enum style {
    STYLE_PLAIN,
    STYLE_BOLD,
    STYLE_DIM,
    STYLE_GOOD,
    STYLE_BAD,
    STYLE_NAME,
};
/* Switch the style if the stream shows colours; STYLE_PLAIN switches back. */
void put_style(const struct cli *cli, FILE *out, enum style style);

bool is_terminal(FILE *out);

/* -------------------------------------------------------------------------------------------------
 * The end of a command: reports failures on standard error, always in the same form, and returns
 * the exit status.
 */

/* For `tidings probe`: no check failed, but the result proves nothing. */
#define EXIT_INCONCLUSIVE 2

/* Report the failure and a hint on standard error, with --json as an object; returns the exit
 * status. `command` (not found) and `hint` may be NULL. */
int command_fail(const char *command, const struct tidings_error *err, const char *hint);
/* The same for incorrect usage (exit 64). `argument` may be NULL. */
int command_misuse(const char *command, const char *problem, const char *argument);
/* Print failures as JSON objects from now on. */
void command_fails_in_json(bool is_wanted);

/* Flush standard output: 0, or the exit status of the failure, which is reported unless the reader
 * has gone. */
int command_finish(const char *command);

#endif
