/* SPDX-License-Identifier: MIT
 *
 * Prints a change that `tidings watch` was told of, as a line for people or as JSON.
 */
#ifndef BIN_CHANGE_H
#define BIN_CHANGE_H

#include <stdio.h>

#include "bin/watch/content.h"

struct cli;

/* One JSON object on one line: time, change, uri; subscribedUri, version, cursor where they are
 * known; synthetic, truncated where they are true; params; and of `c` what it has:
 * before, after, diff, contents, error. */
void change_put_json(FILE *out, const struct tidings_update *u, const struct content *c);

/* For people, on standard output: a line, and what `c` has behind it on indented ones. */
void change_put_lines(const struct cli *cli, const struct tidings_update *u,
                      const struct content *c);

#endif
