/* SPDX-License-Identifier: MIT
 *
 * Any bytes as an Authorization field, as a query, and as what a challenge says: a token lies
 * inside the field, a challenge is one line of visible ASCII.
 */
#include <stdlib.h>

#include "wire/bearer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tidings_str s = {size ? (const char *)data : "", size}, token = STR_EMPTY;
    const char *why = NULL;
    enum bearer_result r = bearer_parse(s, &token, &why);
    require(r != BEARER_TOKEN || (token.len > 0 && token.len <= BEARER_TOKEN_MAX &&
                                  token.ptr >= s.ptr && token.ptr + token.len <= s.ptr + s.len));
    require(r != BEARER_BAD || why);
    struct http_request req = {.query = s};
    require(bearer_find(&req, &token, &why) != BEARER_TOKEN);
    struct bearer_challenge c = {.error = s, .description = s, .scope = s, .metadata = s};
    struct buf out;
    buf_init(&out, SIZE_MAX);
    require(bearer_put_challenge(&out, &c) == 0);
    for (size_t i = 0; i + 2 < out.len; i++) {
        require(out.ptr[i] >= ' ' && out.ptr[i] <= '~');
    }
    buf_deinit(&out);
    return 0;
}
