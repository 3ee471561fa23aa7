/* SPDX-License-Identifier: MIT
 *
 * The server's own state, shared by server.c (life) and registry.c (what it serves).
 */
#ifndef SERVER_SERVER_PRIVATE_H
#define SERVER_SERVER_PRIVATE_H

#include <tidings/server.h>

#include "core/hub.h"
#include "server/config.h"
#include "server/local.h"
#include "server/rules.h"
#include "server/worker.h"
#include "transport/listener.h"

struct tidings_server {
    struct config config;
    struct loop *loop;
    struct hub *hub;
    struct worker **workers;
    struct http_worker **doors; /* of the workers, by index */
    size_t worker_count;
    size_t running_workers; /* atomic */
    struct listener *listener;
    struct core_limits limits;
    struct rules rules; /* behind limits.options */
    struct http_config http;
    struct server_identity self;
    struct buf implementation, instructions, ceiling;
    struct http_route *routes;
    size_t route_count;
    struct locals locals;            /* subscriptions of the program */
    struct core **cores;             /* of the workers, by index */
    struct tidings_provider *own;    /* tidings://self/ */
    struct published *published;     /* everything pushed */
    struct catalog *mounted;         /* atomic; the mounts, which stay while it runs; NULL before */
    struct tidings_server_info info; /* slices into info_text */
    struct buf info_text;
    tidings_ready_fn ready;
    void *ready_user;
    bool is_program; /* configured by a command line: must have something to serve */
    bool stopping;   /* atomic */
};

#endif
