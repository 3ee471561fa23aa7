/* SPDX-License-Identifier: MIT
 *
 * The account of requests and answers: every request with an id is answered exactly once, and
 * nothing else is answered. For fuzzing: a broken promise aborts.
 */
#ifndef SUPPORT_ACCOUNTS_H
#define SUPPORT_ACCOUNTS_H

#include <tidings/types.h>

void accounts_begin(void);
void accounts_end(void);
/* A message sent to the server, which accepts JSON of that depth; and a message that it sent. */
void accounts_asked(struct tidings_str message, unsigned max_depth);
void accounts_told(struct tidings_str message);
/* Nothing was answered that was not asked; and, `all`, everything was answered but listens, which
 * last, and what may have been cancelled. */
void accounts_check(bool all);

#endif
