/* SPDX-License-Identifier: MIT
 *
 * Answers questions that a server asks during a command: from --answer, else on the terminal.
 * Otherwise the question stays unanswered, and the command reports it.
 *
 * Text from the server (messages, titles, addresses) is untrusted, and escaped for display.
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
    unsigned unanswered; /* questions without an answer, … */
    unsigned unfit;      /* … of which an answer was given but does not fit */
};

/* Handle the client's questions until the client is destroyed. `cli` is set. */
int answers_begin(struct answers *a, struct tidings_client *client, struct tidings_error *err);
void answers_end(struct answers *a); /* call it after that */
/* 0, or an error if a question was not answered, with a hint. */
int answers_check(const struct answers *a, struct tidings_error *err);

/* -------------------------------------------------------------------------------------------------
 * Reads command input: JSON as an argument, or the name of a file or standard input that contains
 * it.
 */

/* JSON from the command line: the text itself, "-" for standard input, "@FILE" for a file. Compact,
 * tidings_free it. NULL with `err`. */
char *input_json(const char *argument, struct tidings_error *err);

/* All of a file, or of standard input for "-", up to `max` bytes; free it. NULL with `err`. */
char *input_bytes(const char *path, size_t max, size_t *ret_len, struct tidings_error *err);

#endif
