/* SPDX-License-Identifier: MIT
 *
 * Prints a change that `tidings watch` was told of, as a line for people or as JSON.
 */
#ifndef BIN_CHANGE_H
#define BIN_CHANGE_H

#include <stdio.h>

#include "bin/watch/content.h"

struct cli;

/* `updated`, `created`, `deleted`; `initial` for a state when it was subscribed. */
const char *change_word(const struct tidings_update *u);

/* One JSON object on one line: time, change, uri; subscribedUri, version, cursor where they are
 * known; synthetic, truncated where they are true; params; and of `c` what it has:
 * before, after, diff, contents, error. */
void change_put_json(FILE *out, const struct tidings_update *u, const struct content *c);

/* What people see of a change besides its line. */
struct change_view {
    bool cursor;
    bool contents;    /* all of them, on lines of their own */
    unsigned include; /* enum include: metadata, value or patch on one line, cut when it is long */
};
#define CHANGE_CUT 240u /* bytes of such a line */

/* For people, on standard output: a line, and what there is besides on indented ones. */
void change_put_lines(const struct cli *cli, const struct change_view *view,
                      const struct tidings_update *u, const struct content *c);

#endif
