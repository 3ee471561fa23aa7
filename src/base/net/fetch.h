/* SPDX-License-Identifier: MIT
 *
 * HTTP requests to other servers, several at a time, on one event loop. The only module that names
 * libcurl.
 *
 * A transfer progresses in turns of the loop. Receivers run outside the library, so they may start
 * and close transfers, and run nested turns of the loop (a receiver gets no more bytes while it
 * runs). Redirects are not followed.
 *
 * A *tunnel* is a transfer that only connects, through TLS or a proxy if the address requires it;
 * then the caller uses fetch_send and fetch_recv.
 */
#ifndef BASE_NET_FETCH_H
#define BASE_NET_FETCH_H

#include <sys/types.h>

#include "base/str.h"

#define FETCH_MAX_HEADERS 80u

struct fetch;
struct loop;

int fetch_create(struct loop *loop, size_t max_bytes, struct fetch **ret,
                 struct tidings_error *err);
/* Closes all transfers. Not inside a receiver. NULL is fine. */
void fetch_destroy(struct fetch *f);

/* The library's description of itself, static; NULL: the library is missing. */
const char *fetch_library(void);

/* Bytes of the body as they arrive. A negative result aborts the transfer with that code. */
typedef int (*fetch_bytes_fn)(void *user, struct tidings_str bytes);
/* The head is complete, the transfer is finished or the tunnel is connected: see fetch_status. */
typedef void (*fetch_change_fn)(void *user);

struct fetch_request {
    const char *method; /* "GET", "POST", "DELETE" */
    const char *url;
    const char *ca_file, *cert_file, *key_file; /* PEM, for https; NULL: none */
    struct tidings_str body;                    /* POST; copied */
    const char *headers[FETCH_MAX_HEADERS];     /* "Name: value"; copied; NULL at the end */
    uint32_t timeout_ms;                        /* for the whole transfer; 0: an unlimited stream */
    fetch_bytes_fn on_bytes;
    void *user;
    fetch_change_fn on_change; /* may be NULL */
    const char *unix_path;     /* connect to this socket instead of the host of the URL */
    bool is_tunnel;
    bool is_held;   /* sends nothing before fetch_again */
    bool is_secret; /* wipes sent and received bytes from memory after use */
    bool no_proxy;  /* ignores the proxy of the environment */
};

struct fetch_transfer; /* one request, running or finished and not yet closed */

int fetch_start(struct fetch *f, const struct fetch_request *request, struct fetch_transfer **ret,
                struct tidings_error *err);
/* Sends a finished or held transfer again, with these headers (NULL at the end) in place of those
 * with the same names. */
int fetch_again(struct fetch_transfer *t, const char *const *headers, struct tidings_error *err);
/* Aborts it if it is not finished; NULL is fine. */
void fetch_close(struct fetch_transfer *t);

struct fetch_status {
    long status;                /* HTTP status; 0 until the response head is complete */
    char content_type[64];      /* lower case, without parameters */
    char session[512];          /* Mcp-Session-Id; empty: none (or not visible ASCII) */
    char challenge[1024];       /* WWW-Authenticate, joined if several; empty: none that fits */
    char nonce[256];            /* DPoP-Nonce (RFC 9449); empty: none */
    uint32_t retry_after_s;     /* Retry-After, in seconds; 0: none */
    bool finished;              /* the receiver got all bytes */
    bool connected;             /* a tunnel, until it is closed */
    struct tidings_error error; /* when finished: code 0, or why it failed */
};
const struct fetch_status *fetch_status(const struct fetch_transfer *t);

/* For a connected tunnel. Only poll the socket: if it is readable or writable, try again. */
int fetch_socket(const struct fetch_transfer *t);
/* Returns the number of bytes sent; 0: would block. */
ssize_t fetch_send(struct fetch_transfer *t, const char *bytes, size_t len);
/* Returns the number of bytes received; 0: would block. TIDINGS_E_CLOSED at the end. */
ssize_t fetch_recv(struct fetch_transfer *t, char *out, size_t room);

#endif
