/* SPDX-License-Identifier: MIT
 *
 * In place of the other tls files in a build without OpenSSL: there is no context to be had, so
 * there are no sessions, and what is received is plain.
 */
#include "base/tls.h"

#include <errno.h>

int tls_context_open(struct tls_context **ret, const struct tls_options *options,
                     struct tidings_error *err)
{
    (void)ret;
    (void)options;
    return tidings_fail(err, TIDINGS_E_UNSUPPORTED, "it was left out of this build");
}

struct tls_context *tls_context_ref(struct tls_context *c)
{
    return c;
}

void tls_context_unref(struct tls_context *c)
{
    (void)c;
}

struct tls_session *tls_session_create(struct tls_context *c, const char *protocol)
{
    (void)c;
    (void)protocol;
    return NULL;
}

void tls_session_destroy(struct tls_session *s)
{
    (void)s;
}

void tls_session_set_outlet(struct tls_session *s, tls_outlet_fn outlet, void *user)
{
    (void)s;
    (void)outlet;
    (void)user;
}

ssize_t tls_open(struct tls_session *s, struct tidings_str wire, char *out, bool *ended)
{
    (void)s;
    (void)wire;
    (void)out;
    (void)ended;
    return -EPROTO;
}

bool tls_session_is_ready(const struct tls_session *s)
{
    (void)s;
    return false;
}

const char *tls_session_reason(const struct tls_session *s)
{
    (void)s;
    return "";
}

const char *tls_session_peer(const struct tls_session *s)
{
    (void)s;
    return NULL;
}

int64_t tls_session_expiry(const struct tls_session *s)
{
    (void)s;
    return 0;
}

bool tls_session_is_for(const struct tls_session *s, struct tidings_str name)
{
    (void)s;
    (void)name;
    return false;
}

int tls_seal(struct tls_session *s, const char *bytes, size_t len)
{
    (void)s;
    (void)bytes;
    (void)len;
    return TIDINGS_E_CLOSED;
}

void tls_seal_end(struct tls_session *s)
{
    (void)s;
}

const char *tls_library(void)
{
    return NULL;
}
