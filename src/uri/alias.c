/* SPDX-License-Identifier: MIT
 *
 * Making a URI that is written with an alias canonical, with the prefix that the alias stands for.
 */
#include "uri/alias.h"

#include "base/error.h"
#include "uri/uri.h"

const struct uri_alias *uri_alias_find(const struct uri_alias *aliases, size_t count,
                                       struct tidings_str in)
{
    for (size_t i = 0; i < count; i++) {
        if (str_starts(in, aliases[i].from)) {
            return &aliases[i];
        }
    }
    return NULL;
}

static int put_canonical_form(struct tidings_str in, bool is_pattern, struct buf *out,
                              struct tidings_error *err)
{
    return is_pattern ? uri_canonical_pattern(in, out, err) : uri_canonical(in, out, err);
}

static int alias_fail(int code, struct tidings_error *err)
{
    return tidings_fail(err, code,
                        code == TIDINGS_E_NOMEM ? "out of memory"
                                                : "the URI is too long once its alias is resolved");
}

int uri_alias_canonical(struct tidings_str in, bool is_pattern, uri_alias_fn find, const void *user,
                        struct buf *out, const struct uri_alias **ret_alias,
                        struct tidings_error *err)
{
    struct buf canonical, whole;
    buf_init(&canonical, URI_MAX * 3);
    buf_init(&whole, URI_MAX * 4);
    int rc = 0;
    const struct uri_alias *alias = NULL;
    if (in.len > 0 && in.ptr[0] == '/') {
        alias = find(user, in);
    } else {
        rc = put_canonical_form(in, is_pattern, &canonical, err);
        in = buf_str(&canonical);
        alias = rc == 0 ? find(user, in) : NULL;
    }
    if (rc == 0 && alias) {
        buf_puts(&whole, alias->to);
        buf_puts(&whole, str_skip(in, alias->from.len));
        in = buf_str(&whole);
        rc = whole.failed ? alias_fail(whole.failed, err) : 0;
    }
    if (rc == 0 && canonical.len > 0 && !alias) { /* it stays as it is */
        rc = buf_puts(out, in) < 0 ? alias_fail(out->failed, err) : 0;
    } else if (rc == 0) {
        rc = put_canonical_form(in, is_pattern, out, err);
    }
    if (ret_alias) {
        *ret_alias = alias;
    }
    buf_deinit(&whole);
    buf_deinit(&canonical);
    return rc;
}
