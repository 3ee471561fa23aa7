/* SPDX-License-Identifier: MIT
 *
 * The sandbox: what the process gives up when its server starts, if the program asked for that
 * (tidings_server_sandbox; docs/security.md).
 */
#ifndef SERVER_SANDBOX_RULES_H
#define SERVER_SANDBOX_RULES_H

#include <tidings/types.h>

struct config;
struct jw;

struct sandbox {
    bool is_wanted;    /* by the program */
    bool is_entered;   /* sandbox_enter has done its work */
    bool no_new_privs; /* what follows is in effect: … */
    bool has_helper;
    bool has_seccomp;
    char capabilities[17];                          /* as in /proc/PID/status */
    int landlock;                                   /* its version; 0: not */
    struct tidings_error landlock_why, seccomp_why; /* … or why not */
};

/* Before anything is opened and any thread is started: the helper, no_new_privs, Landlock. What the
 * kernel does not have is a warning; an error is that the process has threads already. */
int sandbox_enter(struct sandbox *b, const struct config *c, bool serves_http,
                  struct tidings_error *err);
/* When everything is open, before the first byte of a client is read: the list of system calls. */
void sandbox_seal(struct sandbox *b, const struct config *c);
/* What is in effect, as an object. */
void sandbox_write(const struct sandbox *b, struct jw *w);

#endif
