/* SPDX-License-Identifier: MIT
 *
 * Finds the roots of a principal in a catalog snapshot, and turns paths into URIs below them.
 */
#include "engine/catalog/roots.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "formats/uri.h"

static bool roots_has(const struct catalog *c, size_t i, const struct principal *principal,
                      const char *scheme)
{
    struct tidings_str prefix = c->mounts[i]->prefix;
    struct tidings_str its = str_cut(prefix, ':', &(struct tidings_str){0}, NULL);
    return !str_eq(its, STR("tidings")) && (!scheme || str_eq(its, tidings_str(scheme))) &&
           access_allows(principal, ACCESS_LIST, prefix);
}

size_t roots_put(const struct catalog *c, const struct principal *principal, const char *scheme,
                 size_t max_bytes, struct buf *out)
{
    size_t count = 0, shown = 0, used = 0;
    for (size_t i = 0; i < c->mount_count; i++) {
        if (!roots_has(c, i, principal, scheme)) {
            continue;
        }
        struct tidings_str prefix = c->mounts[i]->prefix;
        count++;
        if (used + prefix.len + 2 <= max_bytes) {
            buf_puts(out, shown++ > 0 ? STR(", ") : STR_EMPTY);
            buf_puts(out, prefix);
            used += prefix.len + 2;
        }
    }
    if (shown < count) {
        buf_puts(out, shown > 0 ? STR(" and more") : STR("URIs that resources/list names"));
    }
    return count;
}

struct tidings_str roots_first(const struct catalog *c, const struct principal *principal,
                               const char *scheme, size_t *ret_count)
{
    struct tidings_str first = STR_EMPTY;
    *ret_count = 0;
    for (size_t i = 0; i < c->mount_count; i++) {
        if (roots_has(c, i, principal, scheme) && (*ret_count)++ == 0) {
            first = c->mounts[i]->prefix;
        }
    }
    return first;
}

/* ---- paths ----------------------------------------------------------------------------------- */

#define ROOTS_BYTES 120u /* of an error message */

/* Returns true if `s` begins with a scheme (RFC 3986, section 3.1). */
static bool roots_has_scheme(struct tidings_str s)
{
    size_t i = 0;
    while (i < s.len && (isalnum((unsigned char)s.ptr[i]) || (i > 0 && strchr("+-.", s.ptr[i])))) {
        i++;
    }
    return i > 0 && i < s.len && s.ptr[i] == ':' && isalpha((unsigned char)s.ptr[0]);
}

static bool roots_is_path(const struct catalog *c, struct tidings_str s)
{
    return s.len > 0 && !str_eq(s, STR("**")) && !roots_has_scheme(s) && !catalog_is_alias(c, s);
}

/* The requested roots. */
struct roots_asked {
    const struct catalog *catalog;
    const struct principal *principal;
    struct tidings_str given;
};

static int roots_fail(const struct roots_asked *a, int code, const char *why,
                      struct tidings_error *err)
{
    struct buf roots;
    buf_init(&roots, ROOTS_BYTES * 2);
    size_t count = roots_put(a->catalog, a->principal, ROOTS_FILES, ROOTS_BYTES, &roots);
    if (count == 0 || roots.failed) {
        tidings_fail(err, code, "'%.*s' %s: this server has no directory; give a URI",
                     STR_ARG_MAX(a->given, 60), why);
    } else {
        tidings_fail(err, code, "'%.*s' %s: the roots are %.*s", STR_ARG_MAX(a->given, 60), why,
                     STR_ARG(buf_str(&roots)));
    }
    buf_deinit(&roots);
    return code;
}

/* Appends a path, percent-encoded except for wildcards; "." segments go. */
static void roots_put_path(struct buf *out, struct tidings_str path)
{
    while (path.len > 0) {
        bool more = false;
        struct tidings_str rest = STR_EMPTY;
        struct tidings_str segment = str_cut(path, '/', &rest, &more);
        size_t run = 0;
        while (!str_eq(segment, STR(".")) && segment.len > 0) {
            while (run < segment.len && !strchr("*[]", segment.ptr[run])) {
                run++;
            }
            (void)uri_encode_segment(out, tidings_strn(segment.ptr, run));
            if (run < segment.len) {
                buf_putc(out, segment.ptr[run++]);
            }
            segment = tidings_strn(segment.ptr + run, segment.len - run);
            run = 0;
        }
        if (more && (out->len == 0 || out->ptr[out->len - 1] != '/')) {
            buf_putc(out, '/');
        }
        path = more ? rest : STR_EMPTY;
    }
}

/* Returns true if the URI of an absolute path lies in a root. */
static bool roots_hold(const struct roots_asked *a, struct tidings_str uri)
{
    const struct tidings_provider *p = catalog_mount(a->catalog, uri);
    return p && access_allows(a->principal, ACCESS_LIST, p->prefix);
}

int roots_resolve(const struct catalog *c, const struct principal *principal,
                  struct tidings_str given, struct buf *out, struct tidings_error *err)
{
    struct roots_asked a = {c, principal, given};
    if (!roots_is_path(c, given)) {
        return 0;
    }
    size_t count = 0, begin = out->len;
    struct tidings_str root = roots_first(c, principal, ROOTS_FILES, &count);
    bool is_absolute = given.ptr[0] == '/';
    if (!is_absolute && count != 1) {
        return roots_fail(&a, TIDINGS_E_INVALID, "is a relative path", err);
    }
    buf_puts(out, is_absolute ? STR("file:///") : root);
    if (out->len > begin && out->ptr[out->len - 1] != '/') {
        buf_putc(out, '/');
    }
    roots_put_path(out, given);
    if (out->failed == 0 && is_absolute &&
        !roots_hold(&a, tidings_strn(out->ptr + begin, out->len - begin))) {
        return roots_fail(&a, TIDINGS_E_NOTFOUND, "is outside all roots", err);
    }
    int rc = buf_check(out, "the URI of the path", "give a shorter path", err);
    return rc < 0 ? rc : 1;
}

void roots_explain(const struct catalog *c, const struct principal *principal,
                   struct tidings_error *err)
{
    struct buf roots;
    buf_init(&roots, ROOTS_BYTES * 2);
    size_t used = strlen(err->text);
    if (roots_put(c, principal, NULL, ROOTS_BYTES, &roots) > 0 && !roots.failed &&
        used + roots.len + 20 < sizeof(err->text)) {
        snprintf(err->text + used, sizeof(err->text) - used, "; the roots are %.*s",
                 STR_ARG(buf_str(&roots)));
    }
    buf_deinit(&roots);
}
