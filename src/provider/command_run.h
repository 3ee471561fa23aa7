/* SPDX-License-Identifier: MIT
 *
 * One run of a command, from its start to its outcome, on a loop.
 *
 *     IDLE --start--> RUNNING --its end--> IDLE, `done` is called
 *                        \--abort--> IDLE, `done` is not called
 *
 * After the timeout, or too much output, all of it is killed; the run ends when that has happened.
 */
#ifndef PROVIDER_COMMAND_RUN_H
#define PROVIDER_COMMAND_RUN_H

#include "base/loop.h"
#include "base/spawn.h"
#include "base/str.h"

struct command_settings;

#define COMMAND_TAIL 160u /* bytes of standard error that are kept: the last */

struct command_run {
    const struct command_settings *settings;
    struct loop *loop;
    void (*done)(struct command_run *run, void *user);
    void *user;
    struct loop_timer *deadline;

    bool running;
    struct spawn child;
    struct loop_poll *out_poll, *err_poll, *exit_poll;
    char tail[2 * COMMAND_TAIL];
    size_t tail_len;

    /* the outcome, valid in `done` */
    int code; /* 0, or a failure with its sentence in err */
    struct tidings_error err;
    struct buf output;
};

/* `settings` are borrowed until deinit. */
int command_run_init(struct command_run *r, struct loop *loop,
                     const struct command_settings *settings,
                     void (*done)(struct command_run *run, void *user), void *user);
/* Not while running. A program that cannot be started has its outcome at once: `done` is called
 * before this returns. */
void command_run_start(struct command_run *r);
void command_run_abort(struct command_run *r); /* kills and waits for its end; idle: fine */
void command_run_deinit(struct command_run *r);

#endif
