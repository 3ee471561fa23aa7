/* SPDX-License-Identifier: MIT
 *
 * The table is searched from its beginning: it is small, and a call costs much more.
 */
#include "handler/tool_counts.h"

#include "base/str.h"

static struct tool_count *tool_counts_row(struct tool_counts *t, struct tidings_str tool)
{
    for (size_t i = 0; i < t->count; i++) {
        if (str_eq(tidings_str(t->rows[i].name), tool)) {
            return &t->rows[i];
        }
    }
    if (t->count == TOOL_COUNTS_ROWS || tool.len == 0 || tool.len > TOOL_COUNTS_NAME) {
        return &t->rows[TOOL_COUNTS_ROWS];
    }
    struct tool_count *row = &t->rows[t->count++];
    memcpy(row->name, tool.ptr, tool.len);
    return row;
}

void tool_counts_add(struct tool_counts *t, struct tidings_str tool,
                     enum tidings_call_outcome outcome, uint64_t us)
{
    struct tool_count *row = tool_counts_row(t, tool);
    bool is_first = durations_total(&row->took) == 0;
    row->outcomes[outcome]++;
    row->min_us = is_first || us < row->min_us ? us : row->min_us;
    row->max_us = us > row->max_us ? us : row->max_us;
    durations_count(&row->took, us);
}

static void tool_count_merge(void *user, const struct tool_count *from)
{
    struct tool_count *to = tool_counts_row(user, tidings_str(from->name));
    bool is_first = durations_total(&to->took) == 0;
    to->min_us = is_first || from->min_us < to->min_us ? from->min_us : to->min_us;
    to->max_us = from->max_us > to->max_us ? from->max_us : to->max_us;
    for (unsigned i = 0; i < TOOL_OUTCOMES; i++) {
        to->outcomes[i] += from->outcomes[i];
    }
    durations_add(&to->took, &from->took);
}

void tool_counts_merge(struct tool_counts *to, const struct tool_counts *from)
{
    tool_counts_each(from, tool_count_merge, to);
}

void tool_counts_each(const struct tool_counts *t,
                      void (*fn)(void *user, const struct tool_count *row), void *user)
{
    for (size_t i = 0; i <= TOOL_COUNTS_ROWS; i++) {
        if (durations_total(&t->rows[i].took) > 0) {
            fn(user, &t->rows[i]);
        }
    }
}

const char *tool_outcome_name(enum tidings_call_outcome outcome)
{
    static const char *const names[TOOL_OUTCOMES] = {"ok", "error", "refused", "timeout",
                                                     "cancelled"};
    return names[outcome];
}
