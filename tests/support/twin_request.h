/* SPDX-License-Identifier: MIT
 *
 * The requests of the restricted principal, chosen by bytes: every method in both eras, tools and
 * their arguments, plain HTTP with its fields, subscriptions of every kind, including invalid ones.
 * Entities are only created under ids without a hidden entity, because a writer can always detect
 * that an id is taken.
 */
#ifndef SUPPORT_TWIN_REQUEST_H
#define SUPPORT_TWIN_REQUEST_H

#include "support/twin_call.h"
#include "support/twin_world.h"

enum twin_step_kind {
    TWIN_STEP_ASK,     /* send `head` and `body` on `wire` */
    TWIN_STEP_ANEW,    /* … which is opened for that */
    TWIN_STEP_HANG_UP, /* close `wire` */
    TWIN_STEP_FILE,    /* put `body` at the path `head`; empty: remove the resource */
    TWIN_STEP_APPEAR,  /* the same; in the first world it is moved there from what is hidden */
    TWIN_STEP_VANISH,  /* remove what is at the path `head`; there it is moved to what is hidden */
};

struct twin_step {
    enum twin_step_kind kind;
    enum twin_wire_name wire;
    bool is_hidden; /* only in the first world */
    unsigned times; /* it is done so often */
    struct buf head, body;
};

/* Its initial requests: sessions, and subscriptions to everything visible. false: there are no
 * more. */
bool twin_request_begin(unsigned n, struct twin_step *s);
void twin_request_choose(struct twin_choices *c, unsigned number, struct twin_step *s);

#endif
