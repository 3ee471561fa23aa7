/* SPDX-License-Identifier: MIT
 *
 * Makes paths of files from URIs, and refuses those that cannot be one.
 */
#include "bin/sync/local_name.h"

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* One segment, decoded, behind `*len` bytes of `out`. */
static const char *add_segment(struct tidings_str s, char out[LOCAL_NAME_MAX], size_t *len)
{
    size_t begin = *len;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c == '%') {
            int high = s.len - i > 2 ? digit(s.ptr[i + 1]) : -1;
            int low = s.len - i > 2 ? digit(s.ptr[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return "a '%' in it encodes nothing";
            }
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '?' || c == '#') {
            return "it has a query or a fragment";
        }
        if (c == '\0' || c == '/') {
            return "a name in it holds a slash or a NUL";
        }
        if (*len - begin >= LOCAL_SEGMENT_MAX || *len + 2 >= LOCAL_NAME_MAX) {
            return "it is too long for a file's name";
        }
        out[(*len)++] = c;
    }
    size_t n = *len - begin;
    if (n == 0 || (n <= 2 && memcmp(out + begin, "..", n) == 0)) {
        return "a name in it is empty, '.' or '..'";
    }
    return NULL;
}

const char *local_name(struct tidings_str base, struct tidings_str uri, char out[LOCAL_NAME_MAX])
{
    size_t len = 0, depth = 0;
    if (uri.len <= base.len || base.len == 0 || memcmp(uri.ptr, base.ptr, base.len) != 0) {
        return "it is not below what is mirrored";
    }
    struct tidings_str rest = tidings_strn(uri.ptr + base.len, uri.len - base.len);
    if (rest.ptr[rest.len - 1] == '/') {
        rest.len--;
    }
    do {
        const char *slash = rest.len > 0 ? memchr(rest.ptr, '/', rest.len) : NULL;
        size_t n = slash ? (size_t)(slash - rest.ptr) : rest.len;
        const char *why = add_segment(tidings_strn(rest.ptr, n), out, &len);
        if (why) {
            return why;
        }
        if (++depth > LOCAL_DEPTH_MAX) {
            return "it is too deep";
        }
        n += slash ? 1 : 0;
        rest = tidings_strn(rest.ptr + n, rest.len - n);
        if (slash) {
            out[len++] = '/';
        }
        if (slash && rest.len == 0) {
            return "a name in it is empty, '.' or '..'";
        }
    } while (rest.len > 0);
    out[len] = '\0';
    return strncmp(out, LOCAL_RESERVED, sizeof(LOCAL_RESERVED) - 1) == 0
               ? "the mirror itself uses such names"
               : NULL;
}
