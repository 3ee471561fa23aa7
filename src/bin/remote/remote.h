/* SPDX-License-Identifier: MIT
 *
 * What commands that talk to a server share: connect, run, tell failures, end by a signal or a time
 * limit.
 */
#ifndef BIN_REMOTE_H
#define BIN_REMOTE_H

#include <tidings/client.h>

#include "bin/cli/command.h"

/* What a command does with its server: 0, or a negative code with `err`, or an exit status above 0
 * whose reason it has told. */
typedef int (*remote_fn)(struct cli *cli, struct tidings_client *client, struct tidings_error *err);

/* Do it with the command's target, tell what failed, write out what is left: the exit status. */
int remote_run(struct cli *cli, remote_fn fn);

/* Say of which resource it was that the server refused something; returns the code. */
int remote_about(struct tidings_client *client, const char *uri, struct tidings_error *err);

/* With each argument of the command; the failure of one is told and does not keep the others back,
 * unless it is the only one. The status of the first failure. */
typedef int (*remote_each_fn)(struct cli *cli, struct tidings_client *client, size_t index,
                              struct tidings_error *err);
int remote_each(struct cli *cli, struct tidings_client *client, remote_each_fn fn,
                struct tidings_error *err);

/* SIGINT and SIGTERM stop this client from now on, so that a launched server ends in order; a
 * second one kills. NULL: no client any more. */
void remote_interruptible(struct tidings_client *client);
/* The signal that came; 0: none. */
extern volatile int remote_caught;
/* Stop that client too when this time is over, whatever it waits for then. 0: never. */
void remote_end_after(uint64_t ms);
/* The time was over. */
extern volatile int remote_late;

/* Say on standard error what the server sent that was put right, since it was said last. */
void remote_say_mended(const struct cli *cli, struct tidings_client *client);

/* Milliseconds of a clock that only goes forward. */
uint64_t now_ms(void);

/* The string at `pointer`, "" where there is none; tidings_free it. NULL: no memory. */
char *text_at(struct tidings_str json, const char *pointer);
/* Is there a true at `pointer`? */
bool is_true_at(struct tidings_str json, const char *pointer);

#endif
