/* SPDX-License-Identifier: MIT
 *
 * Bytes to and from one server, in order: a connection (TCP, TLS, a Unix socket), or the standard
 * input and output of a program that is launched. What frames messages in them is above.
 *
 * Nothing is told after carrier_close, which may be called inside what is told. What cannot be sent
 * at once is kept, bounded.
 */
#ifndef CLIENT_CARRIER_H
#define CLIENT_CARRIER_H

#include "client/private.h"

struct carrier;

struct carrier_events {
    void (*on_open)(void *user);
    void (*on_bytes)(void *user, struct tidings_str bytes);
    void (*on_end)(void *user, const struct tidings_error *why); /* it has to be closed then */
};

struct carrier_ops {
    /* Begin to connect; carrier_opened or carrier_ended follows, perhaps from inside. */
    int (*open)(struct carrier *k, struct tidings_error *err);
    /* As of fetch_send and fetch_recv. */
    ssize_t (*send)(struct carrier *k, const char *bytes, size_t len);
    ssize_t (*recv)(struct carrier *k, char *out, size_t room);
    void (*close)(struct carrier *k);
    /* As of struct link_ops; NULL: there is nothing to wait for. */
    bool (*leave)(struct carrier *k);
    /* The other side has closed; NULL: that is the end. True: more will be told. */
    bool (*is_ending)(struct carrier *k);
    void (*destroy)(struct carrier *k); /* what it has beyond the struct below */
};

struct carrier {
    const struct carrier_ops *ops;
    struct tidings_client *client;
    const struct carrier_events *events;
    void *user;
    struct pump_fd in, out; /* a socket is only `in` */
    struct buf pending;     /* to be sent */
    bool is_open;
};

/* Where to connect to. */
struct tunnel_address {
    const char *url;       /* http(s)://HOST:PORT */
    const char *unix_path; /* instead of host and port; NULL: none */
    bool no_proxy;
};
struct carrier *tunnel_create(struct tidings_client *c, const struct tunnel_address *address,
                              struct tidings_error *err);
/* Takes `argv` over (settings_copy_list), also when it fails. */
struct carrier *child_create(struct tidings_client *c, char **argv, struct tidings_error *err);

int carrier_open(struct carrier *k, struct tidings_error *err);
int carrier_send(struct carrier *k, struct tidings_str bytes, struct tidings_error *err);
bool carrier_leave(struct carrier *k);
void carrier_close(struct carrier *k);
void carrier_destroy(struct carrier *k); /* NULL is fine */

/* ---- for the kinds --------------------------------------------------------------------------- */

void carrier_init(struct carrier *k, const struct carrier_ops *ops, struct tidings_client *c);
/* `out` is the same for a socket. */
void carrier_opened(struct carrier *k, int in, int out);
void carrier_ended(struct carrier *k, const struct tidings_error *why);
void carrier_drain(struct carrier *k); /* read what is there to be read */

#endif
