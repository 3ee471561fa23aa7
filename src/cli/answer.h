/* SPDX-License-Identifier: MIT
 *
 * Answers of the command line to what a server asks while it works: those given with --answer, else
 * on the terminal, else none, and then it is told what was asked.
 *
 * What the server says (messages, titles, addresses) is a stranger's text, and shown as such.
 */
#ifndef CLI_ANSWER_H
#define CLI_ANSWER_H

#include <tidings/question.h>
#include <tidings/types.h>

#include "cli/command.h"

struct answers {
    const struct cli *cli; /* with --answer and --roots */
    char *json;            /* of --answer, compact */
    size_t next;           /* of an array: the next one */
    bool has_sent_roots;
    unsigned unanswered; /* questions that nobody could answer, … */
    unsigned unfit;      /* … of them those that an answer was given to which does not fit */
};

/* The client may be asked, and this answers, until the client is destroyed. `cli` is set. */
int answers_begin(struct answers *a, struct tidings_client *client, struct tidings_error *err);
void answers_end(struct answers *a); /* behind that */
/* 0, or that something was not answered, with what to do about it. */
int answers_check(const struct answers *a, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * What is given to a command: JSON as an argument, or the name of a file or standard input that
 * holds it.
 */

/* JSON from the command line: the text itself, "-" for standard input, "@FILE" for a file. Compact,
 * tidings_free it. NULL with `err`. */
char *input_json(const char *argument, struct tidings_error *err);

/* All of a file, or of standard input for "-", up to `max` bytes; free it. NULL with `err`. */
char *input_bytes(const char *path, size_t max, size_t *ret_len, struct tidings_error *err);

#endif
