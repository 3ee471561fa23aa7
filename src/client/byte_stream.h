/* SPDX-License-Identifier: MIT
 *
 * Bytes to and from one server, in order: a connection (TCP, TLS, a Unix socket), or the standard
 * input and output of a program that is launched. What frames messages in them is above.
 *
 * Nothing is told after byte_stream_close, which may be called inside what is told. What cannot be
 * sent at once is kept, bounded.
 */
#ifndef CLIENT_BYTE_STREAM_H
#define CLIENT_BYTE_STREAM_H

#include "base/str.h"
#include "client/poller.h"

struct tidings_client;

struct byte_stream;

struct byte_stream_events {
    void (*on_open)(void *user);
    void (*on_bytes)(void *user, struct tidings_str bytes);
    void (*on_end)(void *user, const struct tidings_error *why); /* it has to be closed then */
};

struct byte_stream_ops {
    /* Begin to connect; byte_stream_opened or byte_stream_ended follows, perhaps from inside. */
    int (*open)(struct byte_stream *k, struct tidings_error *err);
    /* As of fetch_send and fetch_recv. */
    ssize_t (*send)(struct byte_stream *k, const char *bytes, size_t len);
    ssize_t (*recv)(struct byte_stream *k, char *out, size_t room);
    void (*close)(struct byte_stream *k);
    /* As of struct transport_ops; NULL: there is nothing to wait for. */
    bool (*leave)(struct byte_stream *k);
    /* The other side has closed; NULL: that is the end. True: more will be told. */
    bool (*is_ending)(struct byte_stream *k);
    void (*destroy)(struct byte_stream *k); /* what it has beyond the struct below */
};

struct byte_stream {
    const struct byte_stream_ops *ops;
    struct tidings_client *client;
    const struct byte_stream_events *events;
    void *user;
    struct poller_fd in, out; /* a socket is only `in` */
    struct buf pending;       /* to be sent */
    bool is_open;
};

/* Where to connect to. */
struct byte_stream_address {
    const char *url;       /* http(s)://HOST:PORT */
    const char *unix_path; /* instead of host and port; NULL: none */
    bool no_proxy;
};
struct byte_stream *byte_stream_socket_create(struct tidings_client *c,
                                              const struct byte_stream_address *address,
                                              struct tidings_error *err);
/* Takes `argv` over (settings_copy_list), also when it fails. */
struct byte_stream *byte_stream_process_create(struct tidings_client *c, char **argv,
                                               struct tidings_error *err);

int byte_stream_open(struct byte_stream *k, struct tidings_error *err);
int byte_stream_send(struct byte_stream *k, struct tidings_str bytes, struct tidings_error *err);
bool byte_stream_leave(struct byte_stream *k);
void byte_stream_close(struct byte_stream *k);
void byte_stream_destroy(struct byte_stream *k); /* NULL is fine */

/* ---- for the kinds --------------------------------------------------------------------------- */

void byte_stream_init(struct byte_stream *k, const struct byte_stream_ops *ops,
                      struct tidings_client *c);
/* `out` is the same for a socket. */
void byte_stream_opened(struct byte_stream *k, int in, int out);
void byte_stream_ended(struct byte_stream *k, const struct tidings_error *why);
void byte_stream_drain(struct byte_stream *k); /* read what is there to be read */

#endif
