/* SPDX-License-Identifier: MIT
 *
 * A link carries messages between the client and one server, whatever they travel on. It knows
 * nothing of what they mean: which answer belongs to which request, which era it is, who
 * subscribed, is the business of the engine above it.
 *
 *     engine                                link
 *       open ───────────────────────────────>
 *       <────────────────────────── link_opened
 *       send (text) ────────────────────────>
 *       <───────────────────────── link_message     an answer, a notification, a request
 *       <────────────────────── link_unanswered     HTTP: the exchange ended without one
 *       stream ─────────────────────────────>       legacy: hear what the server says by itself
 *       <─────────────────────── link_streaming
 *       <──────────────────────────── link_lost     HTTP: the stream alone
 *
 * Everything happens inside turns of the client's pump, or inside the call that causes it.
 */
#ifndef CLIENT_LINK_H
#define CLIENT_LINK_H

#include <tidings/client.h>

#include "base/str.h"

struct link;

/* One message on its way out. */
struct link_message {
    struct tidings_str text;
    int64_t id;              /* of a request; 0: a notification, or an answer of ours */
    const char *method;      /* NULL: an answer of ours */
    struct tidings_str name; /* the resource, tool or prompt it is about; may be empty */
    bool is_stream;          /* its answer may take as long as it likes */
    bool is_tracked;         /* link_delivered once the server has it */
};

struct link_ops {
    const char *transport; /* tidings_client_info */
    /* Requests are exchanges of their own: losing what the server says by itself ends none of them,
     * and breaking one off is how a modern one is cancelled. */
    bool has_exchanges;
    /* Begin to connect; link_opened or link_lost follows, perhaps from inside. */
    int (*open)(struct link *l, struct tidings_error *err);
    /* Only between link_opened and link_lost. */
    int (*send)(struct link *l, const struct link_message *m, struct tidings_error *err);
    /* No answer to this request is wanted any more; `is_answered`: since it has come. */
    void (*forget)(struct link *l, int64_t id, bool is_answered);
    /* link_streaming or link_lost follows, perhaps from inside. NULL: nothing has to be done. */
    int (*stream)(struct link *l, struct tidings_error *err);
    /* Break off that stream, not the session. NULL: likewise. */
    void (*hang_up)(struct link *l);
    /* Forget the session: another begins. NULL: there is none but the connection. */
    void (*forget_session)(struct link *l);
    const char *(*session)(struct link *l); /* its id; NULL: likewise */
    /* There may be another way to the same server, to be tried by open: true. NULL: there is not.
     */
    bool (*fall_back)(struct link *l);
    /* Break off at once; open may be called again. Calls nothing. */
    void (*close)(struct link *l);
    /* End in order: begun by the first call; true once it is over. */
    bool (*leave)(struct link *l);
    void (*destroy)(struct link *l);
};

struct link {
    const struct link_ops *ops;
    struct tidings_client *client;
};

/* ---- what a link tells the engine ------------------------------------------------------------ */

void link_opened(struct tidings_client *c);
/* One message. `exchange`: the request whose exchange it came on, 0: none; `status`: of HTTP, 0:
 * none. */
void link_message(struct tidings_client *c, struct tidings_str text, int64_t exchange, long status);
/* There will be no answer to this request. */
void link_unanswered(struct tidings_client *c, int64_t id, long status,
                     const struct tidings_error *why);
/* The server does not know the session any more, the present one or one before; the request, 0:
 * none, was not handled. */
void link_session_lost(struct tidings_client *c, int64_t id, bool is_present);
/* The server can be heard; `is_seamless`: nothing since the stream before was missed. */
void link_streaming(struct tidings_client *c, bool is_seamless);
void link_delivered(struct tidings_client *c, const struct tidings_error *why); /* code 0: it is */
/* Bytes came on the exchange of that request, 0: none; `is_beat`: only to show that the server is
 * there. */
void link_heard(struct tidings_client *c, int64_t exchange, bool is_beat);
void link_lost(struct tidings_client *c, const struct tidings_error *why);

/* ---- kinds ----------------------------------------------------------------------------------- */

/* The one that an address stands for; NULL with an error. */
struct link *link_create(struct tidings_client *c, const char *address, struct tidings_error *err);

/* `unix_path`: connect there instead of to the host of `url`; NULL: no. */
struct link *link_http_create(struct tidings_client *c, const char *url, const char *unix_path,
                              struct tidings_error *err);
/* `url` is http:// or https:// for what is TCP or TLS. */
struct link *link_lines_create(struct tidings_client *c, const char *url, const char *unix_path,
                               struct tidings_error *err);
struct link *link_ws_create(struct tidings_client *c, const char *url, struct tidings_str host,
                            struct tidings_str path, struct tidings_error *err);
/* Takes `argv` over, also when it fails. */
struct link *link_child_create(struct tidings_client *c, char **argv, struct tidings_error *err);

#endif
