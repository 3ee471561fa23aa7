/* SPDX-License-Identifier: MIT
 *
 * An entity without a server (fake_transport.h): versions with a number, updated by patches of
 * which some get lost.
 */
#ifndef SUPPORT_FAKE_ENTITY_H
#define SUPPORT_FAKE_ENTITY_H

#include "support/fake_transport.h"

#define ENTITY_URI "entity:///T@1/a"
#define ENTITY_MAX_VERSIONS 64

/* Version n has the value {"n":n,"vN":true} of the versions before, without every third of them. */
struct entity {
    struct fake fake;
    bool is_legacy;
    int current; /* its version; 0: it never was */
    int oldest;  /* earlier versions are forgotten */
    int told;    /* where the next patch begins */
    bool is_deleted;
    bool refuses;      /* every subscription */
    bool is_open;      /* there is a subscription */
    bool overtakes;    /* versions arrive during a read, and are delivered before it */
    int returns_after; /* so many refusals, once it is deleted; 0: it does not */
    int64_t listen;
    char log[4096]; /* the read value, and the baselines of subscriptions */
};

/* Appends to a string in an array of `size` bytes. */
void entity_note(char *text, size_t size, const char *fmt, ...) TIDINGS_PRINTF(3, 4);
/* When a version begins. */
const char *entity_instant(int version, char text[32]);
void entity_put_value(char *text, size_t size, int version);

/* Answers the client (a fake_fn, whose user is the entity). */
void entity_serve(struct fake *f, const char *method, int64_t id, struct json *m);
/* The next patch, which gets lost unless `arrives`. */
void entity_tell(struct entity *e, bool arrives);
/* A notification with this as its content; empty: without. */
void entity_say(struct entity *e, const char *data);

#endif
