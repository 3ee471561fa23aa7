/* SPDX-License-Identifier: MIT
 *
 * Who was asked what and who answered: every request with an id is answered exactly once, and
 * nothing else is answered at all. For fuzzing: a broken promise aborts.
 */
#ifndef SUPPORT_ACCOUNTS_H
#define SUPPORT_ACCOUNTS_H

#include <tidings/types.h>

void accounts_begin(void);
void accounts_end(void);
/* A message that is said to the server, which accepts JSON of that depth; one that it said. */
void accounts_asked(struct tidings_str message, unsigned max_depth);
void accounts_told(struct tidings_str message);
/* Nothing was answered that was not asked; and, `all`, everything was answered but listens, which
 * last, and what may have been cancelled. */
void accounts_check(bool all);

#endif
