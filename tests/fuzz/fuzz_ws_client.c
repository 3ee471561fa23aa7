/* SPDX-License-Identifier: MIT
 *
 * Any bytes as the answer to a WebSocket handshake, and as the place where an old server wants its
 * messages. An answer is judged the same however many bytes follow it, and only one that grants the
 * request with the right proof is taken; a place is on the same server or none.
 */
#include <stdlib.h>

#include "client/transport_http.h"
#include "formats/websocket.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define KEY "dGhlIHNhbXBsZSBub25jZQ=="
#define PROOF "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void check_handshake(struct tidings_str bytes)
{
    struct tidings_error err = {0};
    ptrdiff_t len = ws_client_check(bytes, KEY, &err);
    require(len <= (ptrdiff_t)bytes.len && (len >= 0) == (err.code == 0));
    if (len > 0) {
        require(memmem(bytes.ptr, (size_t)len, PROOF, sizeof(PROOF) - 1) != NULL);
        require(ws_client_check(tidings_strn(bytes.ptr, (size_t)len), KEY, NULL) == len);
        require(ws_client_check(tidings_strn(bytes.ptr, (size_t)len - 1), KEY, NULL) == 0);
    }
}

static void check_endpoint(struct tidings_str where)
{
    static const char *const urls[] = {"http://h:1/a/sse", "https://h", "http://h/a/?b/c"};
    static const size_t origins[] = {10, 9, 8};
    for (size_t i = 0; i < 3; i++) {
        char *url = endpoint_resolve(urls[i], where);
        require(!url || (strncmp(url, urls[i], origins[i]) == 0 &&
                         (url[origins[i]] == '/' || url[origins[i]] == '?')));
        tidings_free(url);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tidings_str bytes = tidings_strn((const char *)data, size);
    check_handshake(bytes);
    check_endpoint(bytes);
    return 0;
}
