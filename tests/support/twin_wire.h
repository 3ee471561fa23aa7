/* SPDX-License-Identifier: MIT
 *
 * The connections of a world (support/twin_world.h), and the turns until everything that was sent
 * is answered.
 */
#ifndef SUPPORT_TWIN_WIRE_H
#define SUPPORT_TWIN_WIRE_H

#include <tidings/types.h>

#include "base/str.h"

#define TWIN_HEARD_MAX (64u << 20)

void twin_require(bool ok, const char *what);

enum twin_wire_name {
    TWIN_ASKS,    /* the principal's: requests, one after the other */
    TWIN_LISTENS, /* its streams */
    TWIN_LISTENS_TOO,
    TWIN_SESSION,
    TWIN_LINES,
    TWIN_SOCKET, /* a WebSocket: it sends messages, like on lines */
    TWIN_OWN,    /* the number of wires of the principal */
    TWIN_ROOT = TWIN_OWN,
    TWIN_EDITOR,
    TWIN_WIRES,
};

struct twin_wire {
    int fd; /* -1: not open */
    bool over;
    bool is_head;      /* the answer that is awaited has no body */
    bool is_post;      /* … is the first event, if it is a stream */
    bool is_awaited;   /* an answer is */
    char id[24];       /* for lines: the content of the answer */
    struct buf heard;  /* since it was opened */
    size_t begins;     /* where the answer does */
    size_t compared;   /* up to here */
    size_t remembered; /* searched up to here for the values of $… */
};

struct tidings_server;

struct twin_world {
    struct tidings_server *server;
    char directory[64];
    struct twin_wire wires[TWIN_WIRES];
    unsigned barriers, passed; /* marks that were written, and received */
    struct buf session, event, cursor, page, etag, messages;
};

/* Close it, if it is open, and open it. */
void twin_connect(struct twin_world *w, enum twin_wire_name name);
void twin_hang_up(struct twin_world *w, enum twin_wire_name name);
/* For HTTP: `head` is the request line without its version, then fields, each on its own line
 * ("\n"); the common fields are added. For lines: only `body` is used. */
void twin_send(struct twin_world *w, enum twin_wire_name name, struct tidings_str head,
               struct tidings_str body);
/* Turns, until everything is answered and the world is idle. */
void twin_run_until_idle(struct twin_world *w);

/* Another user's request, and its answer, which is valid until the next. */
struct tidings_str twin_ask(struct twin_world *w, enum twin_wire_name name, struct tidings_str head,
                            struct tidings_str body);

/* A file of the world's own directory. */
void twin_path(const struct twin_world *w, const char *folder, const char *path, char out[256]);

#endif
