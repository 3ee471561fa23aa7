/* SPDX-License-Identifier: MIT
 *
 * The change tools, "since" and "wait", on their own bench with mem:///a,
 * mem:///b and mem:///row/{id}.
 *
 *     changes_begin as setup, changes_end as teardown
 *     ask_changes("since", "");                              // its cursor is kept
 *     harness_update(&harness_changes, "mem:///a");
 *     harness_run_until_idle(&harness_changes);
 *     assert_change(ask_changes("since", with_cursor("")), 0, "mem:///a", "updated");
 */
#ifndef SUPPORT_HARNESS_CHANGE_H
#define SUPPORT_HARNESS_CHANGE_H

#include "support/harness_client.h"
#include "support/harness_core.h"

#define FOUND "result|structuredContent|"

extern struct harness harness_changes;

int changes_begin(void **state);
int changes_begin_with_a_long_log(void **state);
/* After harness_init and whatever is to be otherwise. */
void changes_start(void);
/* Nothing is left of any call. */
int changes_end(void **state);

/* A call under way; `arguments` are members. */
struct client *begin_call(const char *tool, const char *arguments);
/* Its answer, whose cursor is kept; frees the client. Valid until the next. */
const char *end_call(struct client *c);
/* Both. */
const char *ask_changes(const char *tool, const char *arguments);
/* Arguments with the cursor of the last answer and these. */
const char *with_cursor(const char *more);

void assert_change(const char *text, int n, const char *uri, const char *what);
/* The n-th change names one block, and that is text. */
void assert_content(const char *text, int n, int block, const char *expected);
void assert_count(const char *text, int n); /* of changes */

#endif
