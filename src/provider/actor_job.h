/* SPDX-License-Identifier: MIT
 *
 * A read or a watch on its way to the thread of a provider that has one (base/actor.h). Whoever it
 * is delivered to finishes what it carries and frees it; when the thread has ended, both are
 * refused with TIDINGS_E_CLOSED.
 */
#ifndef PROVIDER_ACTOR_JOB_H
#define PROVIDER_ACTOR_JOB_H

#include <tidings/provider.h>

#include "base/mailbox.h"

struct actor_job {
    struct letter letter;
    struct list link; /* the provider's own, once delivered */
    struct tidings_read *read;
    struct tidings_watch *watch; /* neither: a watch was given up */
    int which;                   /* the provider's own */
};

typedef void (*actor_job_fn)(struct letter *letter, void *owner);

/* A copy of `job` goes to `to`, where `deliver` gets it. false: out of memory, nothing sent. */
bool actor_job_send(struct mailbox *to, const struct actor_job *job, actor_job_fn deliver);

#endif
