/* SPDX-License-Identifier: MIT
 *
 * Requests in a build without the headers of libcurl: there are none. Creation fails with a
 * sentence, so nothing else can be reached.
 */
#include "http_client/fetch.h"

#ifndef TIDINGS_HAVE_CURL

int fetch_create(int wake_fd, size_t max_bytes, struct fetch **ret, struct tidings_error *err)
{
    (void)wake_fd;
    (void)max_bytes;
    (void)ret;
    return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                        "this build has no client: it was made without "
                        "the headers of libcurl");
}

void fetch_destroy(struct fetch *f)
{
    (void)f;
}

const char *fetch_library(const struct fetch *f)
{
    (void)f;
    return "";
}

int fetch_start(struct fetch *f, const struct fetch_request *request, struct fetch_transfer **ret,
                struct tidings_error *err)
{
    (void)f;
    (void)request;
    (void)ret;
    return tidings_fail(err, TIDINGS_E_UNSUPPORTED, "this build has no client");
}

int fetch_again(struct fetch_transfer *t, const char *header, struct tidings_error *err)
{
    (void)t;
    (void)header;
    return tidings_fail(err, TIDINGS_E_UNSUPPORTED, "this build has no client");
}

void fetch_close(struct fetch_transfer *t)
{
    (void)t;
}

const struct fetch_status *fetch_status(const struct fetch_transfer *t)
{
    static const struct fetch_status none = {.finished = true};
    (void)t;
    return &none;
}

int fetch_socket(const struct fetch_transfer *t)
{
    (void)t;
    return -1;
}

ssize_t fetch_send(struct fetch_transfer *t, const char *bytes, size_t len)
{
    (void)t;
    (void)bytes;
    (void)len;
    return TIDINGS_E_CLOSED;
}

ssize_t fetch_recv(struct fetch_transfer *t, char *out, size_t room)
{
    (void)t;
    (void)out;
    (void)room;
    return TIDINGS_E_CLOSED;
}

int fetch_fd(const struct fetch *f)
{
    (void)f;
    return -1;
}

int fetch_step(struct fetch *f, int timeout_ms, struct tidings_error *err)
{
    (void)f;
    (void)timeout_ms;
    return tidings_fail(err, TIDINGS_E_UNSUPPORTED, "this build has no client");
}

#endif
