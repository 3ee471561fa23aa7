/* SPDX-License-Identifier: MIT
 *
 * Load libcurl, once. The library counts who has initialised it, so that clients need not know of
 * each other; it stays in memory after the last one (its TLS library cannot be unloaded safely).
 */
#include "http_client/curl.h"

#include <pthread.h>

#include "base/library.h"

/* The same interface under both names; Debian has one per TLS library. */
static struct library library = {
    .file = "libcurl.so.4", .other = "libcurl-gnutls.so.4", .package = "libcurl4"};
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct curl_api loaded;

static void curl_open(void)
{
    const struct library_function wanted[] = {
#define CURL_FUNCTION_ROW(field, symbol) {#symbol, &loaded.field},
        CURL_FUNCTIONS(CURL_FUNCTION_ROW)
#undef CURL_FUNCTION_ROW
    };
    library_open(&library, wanted, sizeof(wanted) / sizeof(wanted[0]));
}

int curl_load(struct curl_api *api, struct tidings_error *err)
{
    pthread_once(&once, curl_open);
    int rc = library_check(&library, err);
    if (rc == 0 && loaded.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        rc = tidings_fail(err, TIDINGS_E_UNSUPPORTED, "libcurl cannot start");
    }
    if (rc == 0) {
        *api = loaded;
    }
    return rc;
}

void curl_unload(struct curl_api *api)
{
    if (api->global_cleanup) {
        api->global_cleanup();
    }
    *api = (struct curl_api){0};
}
