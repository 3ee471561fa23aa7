/* SPDX-License-Identifier: MIT
 *
 * `struct tidings_server`: its life cycle and its parts. The file that implements a part declares
 * it and takes only that part; only the code that connects the parts uses the whole struct.
 */
#ifndef SERVER_SERVER_INTERNAL_H
#define SERVER_SERVER_INTERNAL_H

#include <pthread.h>

#include <tidings/server.h>

#include "base/list.h"
#include "engine/delivery/hub.h"
#include "engine/shared.h"
#include "server/auth_setup.h"
#include "server/config.h"
#include "server/publish.h"
#include "server/registry.h"
#include "server/sandbox_rules.h"
#include "server/setup.h"
#include "server/stats.h"
#include "server/store_setup.h"

enum server_state {
    SERVER_NEW,
    SERVER_STARTING,
    SERVER_RUNNING, /* on its own threads */
    SERVER_STEPPED, /* stepped by the program */
    SERVER_ENDED,
};

struct tidings_server {
    struct config config;
    struct loop *loop;
    struct hub *hub;
    struct shared *shared;
    struct server_settings settings;
    struct server_workers workers;
    struct server_listeners listeners;
    struct server_registry registry;
    struct server_publishing publishing;
    struct server_store store;
    struct server_admin admin;
    struct oauth_setup oauth; /* target of settings.http.auth */
    struct sandbox sandbox;
    struct list timers; /* struct server_timer */
    size_t timer_count;

    /* life cycle */
    tidings_ready_fn ready;
    void *ready_user;
    tidings_reloaded_fn reloaded;
    void *reloaded_user;
    pthread_t stepper;       /* the thread of the turns */
    enum server_state state; /* atomic */
    bool stopping, hurries;  /* atomic */
    bool reloading;          /* atomic: a reload is requested */
    bool reopening;          /* likewise: reopen the log file */
    bool has_hurried;
    bool is_program; /* configured by a command line: must have something to serve */
    bool is_turning, is_winding_down, is_awaiting_jobs;
    struct tidings_error unheard; /* the first failure without an `err` of the program … */
    bool has_unheard;             /* … atomic: it is set */
    bool is_stuck;                /* a worker was leaked: a request of it was never answered */
};

enum server_state server_state(const struct tidings_server *s);
/* TIDINGS_E_INVALID: it is NULL. */
int server_check(const struct tidings_server *s, struct tidings_error *err);
/* `rc` of the function of that name, which failed with `own` because the program passed no `err`:
 * the first one is stored for tidings_server_main to print. Returns `rc`. */
int server_note(struct tidings_server *s, const char *function, int rc,
                const struct tidings_error *own);
/* For functions that need a server that has not ended: TIDINGS_E_CLOSED. */
int server_check_open(const struct tidings_server *s, struct tidings_error *err);
/* For functions that must be called before the server starts. */
int server_check_new(const struct tidings_server *s, struct tidings_error *err);

#endif
