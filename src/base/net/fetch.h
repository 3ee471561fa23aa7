/* SPDX-License-Identifier: MIT
 *
 * HTTP requests to other servers, several at a time, on one event loop. The only module that names
 * libcurl.
 *
 * A transfer progresses in turns of the loop. Its bytes are handed over outside the library, so a
 * receiver may start and close transfers, and take nested turns of the loop (it gets no more bytes
 * while it runs). Redirects are not followed.
 *
 * A *tunnel* is a transfer that only connects, through TLS or a proxy where the address says so;
 * then its bytes go out and in by fetch_send and fetch_recv.
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

/* The library's own description of itself, valid for ever; NULL: the library is missing. */
const char *fetch_library(void);

/* Bytes of the body as they come. A negative result ends the transfer with that code. */
typedef int (*fetch_bytes_fn)(void *user, struct tidings_str bytes);
/* The head is complete, or the transfer is finished, or the tunnel connected: see fetch_status. */
typedef void (*fetch_change_fn)(void *user);

struct fetch_request {
    const char *method; /* "GET", "POST", "DELETE" */
    const char *url;
    const char *ca_file, *cert_file, *key_file; /* PEM, for https; NULL: none */
    struct tidings_str body;                    /* POST; copied */
    const char *headers[FETCH_MAX_HEADERS];     /* "Name: value"; copied; NULL at the end */
    uint32_t timeout_ms; /* for the whole transfer; 0: a stream that may last */
    fetch_bytes_fn on_bytes;
    void *user;
    fetch_change_fn on_change; /* may be NULL */
    const char *unix_path;     /* connect to this socket instead of the host of the URL */
    bool is_tunnel;
    bool is_held;   /* nothing goes out before fetch_again */
    bool is_secret; /* what goes out and comes in is wiped from memory when it is done with */
    bool no_proxy;  /* whatever the environment says */
};

struct fetch_transfer; /* one request under way, or finished and not yet closed */

int fetch_start(struct fetch *f, const struct fetch_request *request, struct fetch_transfer **ret,
                struct tidings_error *err);
/* Once more a transfer that is finished, or is held, with these headers (NULL at the end) in place
 * of those of the same names. */
int fetch_again(struct fetch_transfer *t, const char *const *headers, struct tidings_error *err);
/* Breaks it off when it is not finished; NULL is fine. */
void fetch_close(struct fetch_transfer *t);

struct fetch_status {
    long status;                /* of the answer; 0 until its head is complete */
    char content_type[64];      /* lower case, without parameters */
    char session[512];          /* Mcp-Session-Id; empty: none (or one that is no visible ASCII) */
    char challenge[1024];       /* WWW-Authenticate, several joined; empty: none that fits */
    char nonce[256];            /* DPoP-Nonce (RFC 9449); empty: none */
    uint32_t retry_after_s;     /* Retry-After, in seconds; 0: none */
    bool finished;              /* all bytes were handed over */
    bool connected;             /* a tunnel, until it is closed */
    struct tidings_error error; /* finished: code 0, or why it failed */
};
const struct fetch_status *fetch_status(const struct fetch_transfer *t);

/* Of a connected tunnel. The socket is for waiting only: readable or writable means to try again.
 */
int fetch_socket(const struct fetch_transfer *t);
/* How many bytes went; 0: none just now. */
ssize_t fetch_send(struct fetch_transfer *t, const char *bytes, size_t len);
/* How many came; 0: none just now. TIDINGS_E_CLOSED at the end. */
ssize_t fetch_recv(struct fetch_transfer *t, char *out, size_t room);

#endif
