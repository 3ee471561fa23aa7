/* SPDX-License-Identifier: MIT
 *
 * A question that a desk could not answer at once, on its way to the thread that fetches and home
 * again. Until it is home, the desk touches only its own fields, and the thread only the others.
 * It is freed at home (or with the mailbox that it can not be delivered to any more), also when it
 * was cancelled meanwhile.
 */
#ifndef AUTH_QUESTION_H
#define AUTH_QUESTION_H

#include "auth/auth_private.h"

struct auth_question {
    struct letter letter;
    struct mailbox *home; /* a reference */
    struct auth *auth;
    struct verdict verdict; /* what is needed; of an introspection, what came of it */
    unsigned generation;    /* when it was asked */
    struct list waiting;    /* the thread's */
    /* The desk's. */
    struct auth_desk *desk; /* NULL: cancelled */
    struct list link;
    auth_answer_fn fn;
    void *user;
    unsigned char digest[SHA256_BYTES];
    size_t token_len;
    char token[];
};

/* On the thread: send it home. */
void question_return(struct auth_question *q);
void question_destroy(struct auth_question *q);

#endif
