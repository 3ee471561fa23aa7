/* SPDX-License-Identifier: MIT
 *
 * Printing text, JSON, times and sizes. Text of a server is a stranger's: control characters, and
 * characters that turn the direction of writing, are shown as escapes, so that it can neither drive
 * a terminal nor look like another line.
 */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <stdio.h>

#include <tidings/types.h>

struct cli;

/* The columns of text on a terminal: wide characters take two, combining ones none. */
size_t text_columns(struct tidings_str text);
/* Write what fits into so many columns; returns how many it took. */
size_t put_columns(FILE *out, struct tidings_str text, size_t width);
/* Of one line: line feeds and tabs are escaped too. Returns the columns it took. */
size_t put_text(FILE *out, struct tidings_str text);
/* Of several lines: line feeds and tabs are left. */
void put_lines(FILE *out, struct tidings_str text);
/* JSON text, on one line, and a line feed. It stays the same JSON. */
void put_json(FILE *out, struct tidings_str json);
/* The same without the line feed, as part of a larger JSON text. */
void put_json_text(FILE *out, struct tidings_str json);
/* Over several lines. */
void put_pretty(FILE *out, struct tidings_str json);
/* A JSON string of this text. */
void put_quoted(FILE *out, struct tidings_str text);
/* A JSON text that is put together with put_quoted and the like: begin, write to the stream, take
 * the text (free it). NULL: no memory. */
struct json_text {
    FILE *out;
    char *text;
    size_t len;
};
bool json_text_begin(struct json_text *t);
char *json_text_take(struct json_text *t);

/* Unix time as 2026-07-28T10:00:00.012Z. */
void put_time(FILE *out, int64_t ms);
/* Columns of a line: the terminal's, from 40 to 100; 80 where the stream is none. */
size_t output_width(FILE *out);
/* Text broken at blanks to the width of the stream, from column `at` on, where the cursor is. Lines
 * of a paragraph are joined; an empty line, and one that begins with a blank, stay lines. */
void put_wrapped(FILE *out, const char *text, size_t at);
/* The same of a stranger's text, as put_text shows it; line feeds are left. Where the stream is no
 * terminal it is one line. */
void put_text_wrapped(FILE *out, struct tidings_str text, size_t at);
/* Blanks up to a column, at least one. */
void put_gap(FILE *out, size_t used, size_t column);

/* "1.2 MiB"; below 1024 "17 B". */
#define SIZE_TEXT_MAX 24u
const char *size_text(uint64_t bytes, char out[SIZE_TEXT_MAX]);

/* Can these bytes be told as text: UTF-8 without NUL? */
bool is_text(struct tidings_str bytes);

enum style {
    STYLE_PLAIN,
    STYLE_BOLD,
    STYLE_DIM,
    STYLE_GOOD,
    STYLE_BAD,
    STYLE_NAME,
};
/* Switch, where colours are wanted on that stream; STYLE_PLAIN switches back. */
void put_style(const struct cli *cli, FILE *out, enum style style);

bool is_terminal(FILE *out);

/* -------------------------------------------------------------------------------------------------
 * How a command ends: what failed is said on standard error, always in the same form, and gives the
 * exit status.
 */

/* Of `tidings probe`: nothing failed, and nothing was proved. */
#define EXIT_INCONCLUSIVE 2

/* Say what failed and what to do next on standard error, with --json as an object; returns the exit
 * status. `command` (none was found) and `hint` may be NULL. */
int command_fail(const char *command, const struct tidings_error *err, const char *hint);
/* The same for misuse of the command line (exit 64). `argument` may be NULL. */
int command_misuse(const char *command, const char *problem, const char *argument);
/* Failures are objects from now on. */
void command_fails_in_json(bool is_wanted);

/* Standard output to its end: 0, or the exit status of the failure, which is told unless nobody
 * reads any more. */
int command_finish(const char *command);

#endif
