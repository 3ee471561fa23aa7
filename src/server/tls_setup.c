/* SPDX-License-Identifier: MIT
 *
 * Loads the certificates and keys of the configuration into a TLS context, and names the libraries
 * that do TLS and WebSockets.
 */
#include "server/tls_setup.h"

#include <tidings/server.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "wire/ws.h"

static void on_warning(void *user, const char *file, const char *what)
{
    (void)user;
    log_warn(LOG_SERVER, "TLS", KV("file", file), KV("reason", what));
}

const char *tidings_tls_library(void)
{
    return tls_library();
}

const char *tidings_websocket_library(void)
{
    return ws_library();
}

int tls_setup(struct tls_context **ret, const struct config *c, struct tidings_error *err)
{
    size_t count = c->tls_cert.count;
    *ret = NULL;
    if (count == 0) {
        return 0;
    }
    struct tls_pair *pairs = mem_zalloc(count * sizeof(*pairs));
    if (!pairs) {
        return tidings_fail(err, TIDINGS_E_NOMEM, "out of memory");
    }
    for (size_t i = 0; i < count; i++) {
        pairs[i] = (struct tls_pair){c->tls_cert.items[i], c->tls_key.items[i]};
    }
    struct tls_options o = {
        .pairs = pairs,
        .count = count,
        .client_ca = c->tls_client_ca[0] ? c->tls_client_ca : NULL,
        .client_auth = (enum tls_client_auth)c->tls_client_auth,
        .least = (enum tls_version)c->tls_min,
        .warn = on_warning,
    };
    int rc = tls_context_open(ret, &o, err);
    mem_free(pairs);
    return rc < 0 ? error_wrap(err, rc, "TLS") : 0;
}
