/* SPDX-License-Identifier: MIT
 *
 * Rounds of a request of the modern era: its result says `input_required`, the questions in it are
 * answered, and it is sent again with the answers and with the server's `requestState`. Also the
 * error of 2025-11-25 that wants addresses visited first (-32042).
 *
 * A request has one struct round for all its rounds. How many there are, how many questions a round
 * has and how long a state is are bounded.
 */
#ifndef CLIENT_ROUND_H
#define CLIENT_ROUND_H

#include "json/write.h"

struct round;
struct tidings_client;

/* May a result of this method ask for input? Nothing else may. */
bool round_is_of(const char *method);
/* Is it a result that wants input first? */
bool round_is_wanted(const struct json *result);
/* Begin a round of the request: 0, and requests_resend or requests_fail follows, perhaps from
 * inside. `*at`, NULL at first, is the request's; round_free releases it. */
int round_begin(struct tidings_client *c, struct round **at, int64_t request, struct json *result,
                struct tidings_error *err);
/* The same for an error: 1: it was -32042, and a round has begun; 0: it is another. */
int round_begin_visits(struct tidings_client *c, struct round **at, int64_t request,
                       struct json *error, struct tidings_error *err);
struct tidings_client *round_client(const struct round *r);
void round_free(struct round *r); /* withdraws its questions; NULL is fine */

/* The members that the next request of the round has: answers and state; `r` NULL: none. */
void round_put(const struct round *r, struct jw *w);

/* ---- told by its questions ------------------------------------------------------------------- */

void round_answered(struct round *r, size_t index, struct tidings_str result);
void round_refused(struct round *r, const char *reason);

#endif
