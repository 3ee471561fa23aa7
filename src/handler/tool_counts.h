/* SPDX-License-Identifier: MIT
 *
 * How often each tool was called on one worker, how the calls ended and how long they took. Only
 * tools that exist are counted, and only so many by name: what clients write makes no row.
 */
#ifndef HANDLER_TOOL_COUNTS_H
#define HANDLER_TOOL_COUNTS_H

#include <tidings/call.h>

#include "base/durations.h"

#define TOOL_COUNTS_ROWS 64u
#define TOOL_COUNTS_NAME 128u /* the longest name of a tool */
#define TOOL_OUTCOMES ((unsigned)TIDINGS_CALL_CANCELLED + 1)

struct tool_count {
    char name[TOOL_COUNTS_NAME + 1]; /* "": all tools that have no row */
    uint64_t outcomes[TOOL_OUTCOMES];
    uint64_t min_us, max_us;
    struct durations took;
};

/* All zero: no calls yet. */
struct tool_counts {
    size_t count;
    struct tool_count rows[TOOL_COUNTS_ROWS + 1]; /* the last: all others */
};

void tool_counts_add(struct tool_counts *t, struct tidings_str tool,
                     enum tidings_call_outcome outcome, uint64_t us);
void tool_counts_merge(struct tool_counts *to, const struct tool_counts *from);
/* Call `fn` for each row that has calls. */
void tool_counts_each(const struct tool_counts *t,
                      void (*fn)(void *user, const struct tool_count *row), void *user);
/* "ok", "error", "refused", "timeout", "cancelled". */
const char *tool_outcome_name(enum tidings_call_outcome outcome);

#endif
