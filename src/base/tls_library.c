/* SPDX-License-Identifier: MIT
 *
 * Load OpenSSL. Its two libraries are found through one: libcrypto is a dependency of libssl.
 */
#include "base/tls_library.h"

#include <dlfcn.h>
#include <pthread.h>

#include "base/tls.h"

#define LIBRARY "libssl.so.3"

struct tls_api tls_api;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool is_there;          /* the library */
static const char *is_lacking; /* the first function it does not have */

static void load(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    is_there = library != NULL;
    if (!library) {
        return;
    }
    const struct {
        const char *name;
        void *at;
    } wanted[] = {
#define ROW(name) {#name, &tls_api.name},
        TLS_FUNCTIONS(ROW)
#undef ROW
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted && !is_lacking; i++) {
        /* ISO C has no cast from an object pointer to a function pointer; POSIX makes the bytes
         * equal. */
        void *found = dlsym(library, wanted[i].name);
        memcpy(wanted[i].at, &found, sizeof found);
        is_lacking = found ? NULL : wanted[i].name;
    }
}

int tls_api_load(struct tidings_error *err)
{
    pthread_once(&once, load);
    if (!is_there) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                            LIBRARY " cannot be loaded; install it (Debian: libssl3)");
    }
    if (is_lacking) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED, LIBRARY " has no %s", is_lacking);
    }
    return 0;
}

const char *tls_api_reason(void)
{
    const char *text = tls_api.ERR_reason_error_string(tls_api.ERR_peek_error());
    return text ? text : "no reason given";
}

const char *tls_library(void)
{
    return tls_api_load(NULL) < 0 ? NULL : tls_api.OpenSSL_version(OPENSSL_VERSION);
}
