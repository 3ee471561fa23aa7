/* SPDX-License-Identifier: MIT
 *
 * A server whose tool asks its client a question, in either era, and continues with the answer; and
 * a program that answers. Over a transport without a server (support/fake_transport.h).
 */
#ifndef SUPPORT_ASKER_H
#define SUPPORT_ASKER_H

#include <tidings/question.h>

#include "support/fake_transport.h"

#define FORM_OF(properties)                                                                        \
    "{\"message\":\"who?\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{" properties   \
    "},\"required\":[]}}"
#define NAME_AND_AGE                                                                               \
    "\"name\":{\"type\":\"string\",\"title\":\"Your name\",\"default\":\"Ann\"},"                  \
    "\"age\":{\"type\":\"integer\",\"minimum\":0}"

/* A server whose tool asks and returns the answer; and a program that answers. */
struct asker {
    bool is_modern, is_endless, keeps_silent;
    const char *method, *params; /* of the question */
    const char *state;           /* requestState; NULL: none */
    int rounds;                  /* how often it asked */
    int waits;                   /* rounds with only a state, before the question */
    int64_t call, first_call;
    char heard[4096];        /* the answers, a line each */
    char capabilities[1024]; /* the client's declared capabilities */
    /* the program */
    int (*answer)(struct asker *a, struct tidings_question *q);
    struct tidings_question *kept;
    int asked, withdrawn;
    enum tidings_question_kind kind;
    struct fake fake;
    struct tidings_client *client;
};

/* All kinds of questions go to asker->answer; user is set by asker_begin. */
extern const struct tidings_question_handlers asker_everything;

/* The legacy server asks, because of whatever it is. */
void asker_ask_legacy(struct asker *a);
/* The program receives a question. */
void asker_on_question(void *user, struct tidings_question *q);
void asker_begin(struct asker *a, const struct tidings_question_handlers *handlers,
                 uint32_t timeout_ms);
/* Call the tool and wait: the code. */
int asker_call(struct asker *a, struct tidings_error *err);
/* The same from the beginning to the end of a client. */
int asker_run(struct asker *a, struct tidings_error *err);

/* Answers. */
int asker_accept(struct asker *a, struct tidings_question *q); /* nothing is filled in */
int asker_decline(struct asker *a, struct tidings_question *q);
int asker_cancel(struct asker *a, struct tidings_question *q);

#endif
