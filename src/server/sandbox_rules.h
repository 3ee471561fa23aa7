/* SPDX-License-Identifier: MIT
 *
 * The sandbox: the permissions that the process drops when its server starts, if the program
 * requested it (tidings_server_sandbox; docs/explanation/security-model.md).
 */
#ifndef SERVER_SANDBOX_RULES_H
#define SERVER_SANDBOX_RULES_H

#include <tidings/types.h>

struct config;
struct jw;

struct sandbox {
    bool is_wanted;    /* by the program */
    bool is_entered;   /* sandbox_enter has done its work */
    bool no_new_privs; /* in effect: … */
    bool has_helper;
    bool has_seccomp;
    char capabilities[17];                          /* as in /proc/PID/status */
    int landlock;                                   /* its version; 0: not in effect */
    struct tidings_error landlock_why, seccomp_why; /* … or why not */
};

/* Before files are opened and threads started: the helper, no_new_privs, Landlock. A missing kernel
 * feature is a warning; an existing second thread is an error. */
int sandbox_enter(struct sandbox *b, const struct config *c, bool serves_http,
                  struct tidings_error *err);
/* When everything is open, before the first byte of a client is read: the system call filter. */
void sandbox_seal(struct sandbox *b, const struct config *c);
/* The restrictions in effect, as an object. */
void sandbox_write(const struct sandbox *b, struct jw *w);

#endif
