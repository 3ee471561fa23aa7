/* SPDX-License-Identifier: MIT
 *
 * Load libcurl. Each table holds its own reference to the library; the library counts them and its
 * global initialisation, so clients need not know of each other. The library stays in memory after
 * the last one (its TLS library cannot be unloaded safely).
 */
#include "http_client/curl.h"

#ifdef TIDINGS_HAVE_CURL

#include <dlfcn.h>

/* The same interface under both names; Debian has one per TLS library. */
static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};

/* ISO C has no cast from an object pointer to a function pointer; POSIX makes the bytes equal. */
static bool curl_find(void *library, const char *symbol, void *at)
{
    void *found = dlsym(library, symbol);
    memcpy(at, &found, sizeof(found));
    return found != NULL;
}

int curl_load(struct curl_api *api, struct tidings_error *err)
{
    struct curl_api a = {0};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !a.library; i++) {
        a.library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    }
    if (!a.library) {
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                            "libcurl.so.4 cannot be loaded; install it (Debian: libcurl4)");
    }
    bool complete = true;
#define CURL_FUNCTION_FIND(field, symbol)                                                          \
    complete = curl_find(a.library, #symbol, &a.field) && complete;
    CURL_FUNCTIONS(CURL_FUNCTION_FIND)
#undef CURL_FUNCTION_FIND
    if (!complete || a.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        dlclose(a.library);
        return tidings_fail(err, TIDINGS_E_UNSUPPORTED,
                            "libcurl is too old or cannot start (needed: 7.66 or newer)");
    }
    *api = a;
    return 0;
}

void curl_unload(struct curl_api *api)
{
    if (api->library) {
        api->global_cleanup();
        dlclose(api->library);
    }
    *api = (struct curl_api){0};
}

#endif
