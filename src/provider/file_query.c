/* SPDX-License-Identifier: MIT
 *
 * Queries over files: `file:///logs?pattern=*.error.log` covers what is below the path and matches.
 * A pattern without a slash is compared with names at any depth, one with a slash with the path
 * below. `file:///query?pattern=*.txt` means below every mount, also below one that could have a
 * directory of that name: with a slash, `file:///query/?pattern=*.txt`, that directory is meant. A
 * mount at or below `file:///query` is meant by its own path.
 */
#include "provider/file_private.h"

#include <stdio.h>

#include "base/str.h"
#include "uri/pattern.h"
#include "uri/uri.h"

#define EVERYWHERE "/query"

static int bad_query(struct tidings_error *err)
{
    return tidings_fail(err, TIDINGS_E_INVALID,
                        "a query over files is '?pattern=GLOB', for example '?pattern=*.log'");
}

int provider_file_query(struct tidings_provider *p, struct tidings_str uri, char *glob, size_t *len,
                        struct tidings_error *err)
{
    struct tidings_str query, pattern;
    struct tidings_str base = str_cut(uri, '?', &query, NULL);
    if (!str_starts(query, STR("pattern=")) || str_find(query, '&') >= 0) {
        return bad_query(err);
    }
    struct buf decoded;
    buf_init(&decoded, URI_MAX);
    int rc = uri_decode(&decoded, str_skip(query, 8), err);
    pattern = buf_str(&decoded);
    if (rc == 0 && pattern.len == 0) {
        rc = bad_query(err);
    }
    if (rc == 0) {
        rc = glob_check(pattern, err);
    }
    if (rc == 0) {
        struct uri_parts parts;
        uri_split(base, &parts);
        bool everywhere =
            str_eq(parts.path, STR(EVERYWHERE)) && !uri_is_within(tidings_provider_prefix(p), base);
        bool slash = base.len > 0 && base.ptr[base.len - 1] == '/';
        bool deep = str_find(pattern, '/') < 0;
        int n = everywhere ? snprintf(glob, *len, "%.*s://**/%.*s", STR_ARG(parts.scheme),
                                      STR_ARG(pattern))
                           : snprintf(glob, *len, "%.*s%s%s%.*s", STR_ARG(base), slash ? "" : "/",
                                      deep ? "**/" : "", STR_ARG(pattern));
        if (n < 0 || (size_t)n >= *len) {
            rc = tidings_fail(err, TIDINGS_E_LIMIT, "the query is too long");
        } else {
            *len = (size_t)n;
        }
    }
    buf_deinit(&decoded);
    return rc;
}
