/* SPDX-License-Identifier: MIT
 *
 * What a new subscription hears first, when it asked: the current state (`initial`), or what
 * changed since a cursor (`since`).
 */
#ifndef CORE_BEGINNING_H
#define CORE_BEGINNING_H

#include "core/subscribing.h"

/* The subscriptions of `s` exist and were acknowledged at number `seq`. */
void beginning(struct subscribing *s, uint64_t seq);

#endif
