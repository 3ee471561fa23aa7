/* SPDX-License-Identifier: MIT
 *
 * References between schemas: RFC 3986 §5.2, and nothing more of URIs than that needs. Results are
 * compared byte by byte; no other normalization takes place (§6.2.1).
 */
#include "json/schema_private.h"

struct parts {
    struct tidings_str scheme, authority, path, query; /* ptr NULL: absent (never the path) */
};

static struct tidings_str cut_fragment(struct tidings_str ref, struct tidings_str *ret_fragment)
{
    bool found;
    struct tidings_str rest;
    struct tidings_str before = str_cut(ref, '#', &rest, &found);
    *ret_fragment =
        found ? tidings_strn(rest.len > 0 ? rest.ptr : "", rest.len) : tidings_strn(NULL, 0);
    return before;
}

static bool is_scheme(struct tidings_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool is_alpha = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool is_more = (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
        if (!is_alpha && !(i > 0 && is_more)) {
            return false;
        }
    }
    return s.len > 0;
}

/* Appendix B; `s` has no fragment. */
static struct parts schema_uri_split(struct tidings_str s)
{
    struct parts p = {{NULL, 0}, {NULL, 0}, {"", 0}, {NULL, 0}};
    ptrdiff_t colon = str_find(s, ':');
    if (colon > 0 && is_scheme(tidings_strn(s.ptr, (size_t)colon))) {
        p.scheme = tidings_strn(s.ptr, (size_t)colon);
        s = str_skip(s, (size_t)colon + 1);
    }
    ptrdiff_t question = str_find(s, '?');
    if (question >= 0) {
        p.query = tidings_strn(s.ptr + question + 1, s.len - (size_t)question - 1);
        s.len = (size_t)question;
    }
    if (str_starts(s, STR("//"))) {
        s = str_skip(s, 2);
        ptrdiff_t slash = str_find(s, '/');
        size_t len = slash < 0 ? s.len : (size_t)slash;
        p.authority = tidings_strn(len > 0 ? s.ptr : "", len);
        s = str_skip(s, len);
    }
    p.path = s;
    return p;
}

/* §5.2.4, in place. */
static void remove_dots(char *path, size_t *len)
{
    size_t in = 0, out = 0, end = *len;
    while (in < end) {
        size_t stop = in + 1; /* the end of this segment, its leading slash included */
        while (stop < end && path[stop] != '/') {
            stop++;
        }
        size_t skip = path[in] == '/' ? 1 : 0;
        struct tidings_str name = {path + in + skip, stop - in - skip};
        bool is_up = str_eq(name, STR(".."));
        if (is_up || str_eq(name, STR("."))) {
            while (is_up && out > 0 && path[--out] != '/') {
            }
            if (stop == end && skip) {
                path[out++] = '/';
            }
        } else {
            memmove(path + out, path + in, stop - in);
            out += stop - in;
        }
        in = stop;
    }
    *len = out;
}

static struct tidings_str uri_put(char **at, struct tidings_str s)
{
    char *start = *at;
    if (s.len > 0) {
        memcpy(start, s.ptr, s.len);
    }
    *at += s.len;
    return tidings_strn(start, s.len);
}

/* §5.2.3, then the dots. */
static void put_merged(char **at, const struct parts *base, struct tidings_str path)
{
    char *start = *at;
    if (path.len == 0 || path.ptr[0] != '/') {
        struct tidings_str folder = base->path;
        while (folder.len > 0 && folder.ptr[folder.len - 1] != '/') {
            folder.len--;
        }
        uri_put(at, base->authority.ptr && base->path.len == 0 ? STR("/") : folder);
    }
    uri_put(at, path);
    size_t len = (size_t)(*at - start);
    remove_dots(start, &len);
    *at = start + len;
}

static void uri_put_query(char **at, struct tidings_str query)
{
    if (query.ptr) {
        uri_put(at, STR("?"));
        uri_put(at, query);
    }
}

int schema_uri_resolve(struct arena *arena, struct tidings_str base, struct tidings_str ref,
                       struct tidings_str *ret, struct tidings_str *ret_fragment)
{
    struct tidings_str target = cut_fragment(ref, ret_fragment);
    if (target.len == 0) {
        *ret = base;
        return 0;
    }
    struct parts r = schema_uri_split(target);
    struct parts b = schema_uri_split(base);
    char *start = arena_alloc(arena, base.len + target.len + 8);
    if (!start) {
        return TIDINGS_E_NOMEM;
    }
    char *at = start;
    if (r.scheme.ptr) {
        uri_put(&at, target); /* an absolute one is a name; its dots are its own affair */
        *ret = tidings_strn(start, (size_t)(at - start));
        return 0;
    }
    if (b.scheme.ptr) {
        uri_put(&at, b.scheme);
        uri_put(&at, STR(":"));
    }
    struct tidings_str authority = r.authority.ptr ? r.authority : b.authority;
    if (authority.ptr) {
        uri_put(&at, STR("//"));
        uri_put(&at, authority);
    }
    if (r.authority.ptr) {
        uri_put(&at, r.path);
        uri_put_query(&at, r.query);
    } else if (r.path.len == 0) {
        uri_put(&at, b.path);
        uri_put_query(&at, r.query);
    } else {
        put_merged(&at, &b, r.path);
        uri_put_query(&at, r.query);
    }
    *ret = tidings_strn(start, (size_t)(at - start));
    return 0;
}

static int uri_hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

int schema_uri_decode(struct arena *arena, struct tidings_str fragment, struct tidings_str *ret)
{
    char *out = arena_alloc(arena, fragment.len + 1);
    if (!out) {
        return TIDINGS_E_NOMEM;
    }
    size_t len = 0;
    for (size_t i = 0; i < fragment.len; i++) {
        char c = fragment.ptr[i];
        if (c == '%' && i + 2 < fragment.len && uri_hex(fragment.ptr[i + 1]) >= 0 &&
            uri_hex(fragment.ptr[i + 2]) >= 0) {
            c = (char)(uri_hex(fragment.ptr[i + 1]) * 16 + uri_hex(fragment.ptr[i + 2]));
            i += 2;
        }
        out[len++] = c;
    }
    *ret = tidings_strn(out, len);
    return 0;
}
