/* SPDX-License-Identifier: MIT
 *
 * A read or a watch on its way to the thread of a provider that has one (base/actor.h). Whoever it
 * is delivered to finishes what it carries and frees it; when the thread has ended, both are
 * refused with TIDINGS_E_CLOSED.
 */
#ifndef PROVIDER_ERRAND_H
#define PROVIDER_ERRAND_H

#include <tidings/provider.h>

#include "base/mailbox.h"

struct errand {
    struct letter letter;
    struct list link; /* the provider's own, once delivered */
    struct tidings_read *read;
    struct tidings_watch *watch; /* neither: a watch was given up */
    int which;                   /* the provider's own */
};

typedef void (*errand_fn)(struct letter *letter, void *owner);

/* A copy of `errand` goes to `to`, where `deliver` gets it. false: out of memory, nothing sent. */
bool errand_send(struct mailbox *to, const struct errand *errand, errand_fn deliver);

#endif
