/* SPDX-License-Identifier: MIT
 *
 * tidings://self/status as a few lines for people.
 */
#ifndef BIN_OVERVIEW_H
#define BIN_OVERVIEW_H

#include <stdio.h>

#include "bin/cli/command.h"

/* What was counted at a moment, so that the next look can tell rates. Zeroed: never looked. */
struct overview_before {
    double now_ms, changes, deliveries, requests, bytes_out, cpu_ms;
};

/* The lines, each cut to `width` columns and ended by `end`; how many there were. `before` (may be
 * NULL) is brought up to date. */
size_t overview_put(const struct cli *cli, FILE *out, struct tidings_str status,
                    struct overview_before *before, size_t width, const char *end);

#endif
