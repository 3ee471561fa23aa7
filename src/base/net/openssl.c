/* SPDX-License-Identifier: MIT
 *
 * Loads OpenSSL. One library is enough: libcrypto is a dependency of libssl.
 */
#include "base/net/openssl.h"

#include <pthread.h>

#include "base/library.h"

struct tls_api tls_api;

static pthread_once_t once = PTHREAD_ONCE_INIT;
LIBRARY(library, "tls", "TLS, token signatures and encrypted cursors", "recommended", "libssl3",
        "libssl.so.3");

static void tls_library_load(void)
{
    const struct library_function wanted[] = {
#define ROW(name) {#name, &tls_api.name},
        TLS_FUNCTIONS(ROW)
#undef ROW
    };
    library_open(&library, wanted, sizeof wanted / sizeof *wanted);
}

int tls_api_load(struct tidings_error *err)
{
    pthread_once(&once, tls_library_load);
    return library_check(&library, err);
}

const char *tls_api_reason(void)
{
    const char *text = tls_api.ERR_reason_error_string(tls_api.ERR_peek_error());
    return text ? text : "no reason given";
}
