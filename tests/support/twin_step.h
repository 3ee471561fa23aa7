/* SPDX-License-Identifier: MIT
 *
 * The events in the two worlds, step by step, chosen by bytes: requests of the restricted principal
 * of every kind, changes it may see (in both worlds), and hidden changes (in one). Every choice is
 * a byte; when the bytes run out, numbers derived from them follow.
 */
#ifndef SUPPORT_TWIN_STEP_H
#define SUPPORT_TWIN_STEP_H

#include "support/twin_request.h"
#include "support/twin_world.h"

void twin_plan_choose(struct twin_choices *c, struct twin_plan *plan);

void twin_step_init(struct twin_step *s);
void twin_step_deinit(struct twin_step *s);
/* `number` counts the steps. */
void twin_step_choose(struct twin_choices *c, const struct twin_plan *plan, unsigned number,
                      struct twin_step *s);
/* Before the first step: the `n`th initial item. false: there are no more. */
bool twin_step_begin(const struct twin_plan *plan, unsigned n, struct twin_step *s);

#endif
