/* SPDX-License-Identifier: MIT
 *
 * Any bytes as an Authorization field, as a query, as the content of a challenge, and as a
 * challenge: a token lies inside the field, a challenge is one line of visible ASCII that reads
 * back as written, and its reported text has no control characters.
 */
#include <stdlib.h>

#include "formats/http_fields.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok) {
        abort();
    }
}

static bool is_visible(struct tidings_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < ' ' || s.ptr[i] > '~') {
            return false;
        }
    }
    return true;
}

static bool is_inside(struct tidings_str part, struct tidings_str s)
{
    return part.len == 0 || (part.ptr >= s.ptr && part.ptr + part.len <= s.ptr + s.len);
}

static void check_challenge(struct tidings_str field)
{
    struct bearer_challenge c;
    struct tidings_error err = {0};
    bool is_one = bearer_read_challenge(field, &c);
    require(is_inside(c.error, field) && is_inside(c.description, field) &&
            is_inside(c.scope, field) && is_inside(c.metadata, field));
    require(is_one || (c.error.len == 0 && c.metadata.len == 0));
    require(bearer_refused(401, field, &err) == TIDINGS_E_DENIED);
    require(is_visible(tidings_str(err.text)));
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
    struct tidings_str line = tidings_strn(out.ptr, out.len - 2);
    require(is_visible(line));
    struct bearer_challenge again;
    require(bearer_read_challenge(str_skip(line, strlen("WWW-Authenticate: ")), &again));
    require((again.scope.len > 0) == (s.len > 0) && str_eq(again.scope, again.metadata));
    buf_deinit(&out);
    check_challenge(s);
    return 0;
}
