/* SPDX-License-Identifier: MIT
 *
 * Walking a JSON pointer, token by token, without memory of its own.
 */
#include "json/pointer.h"

#include "base/str.h"

#define TOKEN_MAX 1024u

/* RFC 6901 §4: ~1 is '/', then ~0 is '~'; any other '~' is an error. */
static bool unescape(struct tidings_str token, char *out, size_t *len)
{
    size_t n = 0;
    for (size_t i = 0; i < token.len; i++) {
        char c = token.ptr[i];
        if (n == TOKEN_MAX) {
            return false;
        }
        if (c == '~') {
            if (i + 1 == token.len || (token.ptr[i + 1] != '0' && token.ptr[i + 1] != '1')) {
                return false;
            }
            c = token.ptr[++i] == '0' ? '~' : '/';
        }
        out[n++] = c;
    }
    *len = n;
    return true;
}

/* An index has no leading zero. */
static struct json *element(const struct json *array, struct tidings_str token)
{
    uint64_t index = 0;
    if (!str_to_u64(token, &index) || (token.len > 1 && token.ptr[0] == '0') ||
        index >= jv_count(array)) {
        return NULL;
    }
    return jv_at(array, (size_t)index);
}

struct json *jv_point(struct json *root, struct tidings_str pointer)
{
    char name[TOKEN_MAX];
    struct json *at = root;
    while (at && pointer.len > 0) {
        if (pointer.ptr[0] != '/') {
            return NULL;
        }
        struct tidings_str rest = str_skip(pointer, 1);
        ptrdiff_t slash = str_find(rest, '/');
        struct tidings_str token = {rest.ptr, slash < 0 ? rest.len : (size_t)slash};
        size_t len = 0;
        if (!unescape(token, name, &len)) {
            return NULL;
        }
        at = jv_is(at, JV_ARRAY) ? element(at, token) : jv_get_str(at, tidings_strn(name, len));
        pointer = str_skip(rest, token.len);
    }
    return at;
}
