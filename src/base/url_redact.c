/* SPDX-License-Identifier: MIT
 *
 * What lies between the first ':' after "://" and the last '@' is taken for a password, wherever
 * the host may begin; parameters by their name, which libpq also understands percent-encoded.
 */
#include "base/url_redact.h"

#include <stdio.h>
#include <string.h>

#define HIDDEN STR("***")

/* Where `what` begins in `text`, in any case of letters; -1: nowhere. */
static ptrdiff_t url_find_word(struct tidings_str text, struct tidings_str what)
{
    for (size_t i = 0; i + what.len <= text.len; i++) {
        if (str_eq_nocase(tidings_strn(text.ptr + i, what.len), what)) {
            return (ptrdiff_t)i;
        }
    }
    return -1;
}

/* Of "name=value": is the value one that is not shown? */
static bool url_is_secret(struct tidings_str parameter)
{
    ptrdiff_t equals = str_find(parameter, '=');
    struct tidings_str name = tidings_strn(parameter.ptr, equals < 0 ? 0 : (size_t)equals);
    return url_find_word(name, STR("password")) >= 0 || str_find(name, '%') >= 0;
}

/* Parameters, each ended by '&' or a blank. */
static void url_put_parameters(struct buf *out, struct tidings_str rest)
{
    while (rest.len > 0) {
        size_t len = 0;
        while (len < rest.len && rest.ptr[len] != '&' && rest.ptr[len] != ' ') {
            len++;
        }
        struct tidings_str one = tidings_strn(rest.ptr, len);
        if (url_is_secret(one)) {
            buf_puts(out, tidings_strn(one.ptr, (size_t)str_find(one, '=') + 1));
            buf_puts(out, HIDDEN);
        } else {
            buf_puts(out, one);
        }
        size_t used = len < rest.len ? len + 1 : len;
        buf_puts(out, tidings_strn(rest.ptr + len, used - len));
        rest = str_skip(rest, used);
    }
}

int url_put_redacted(struct buf *out, struct tidings_str text)
{
    ptrdiff_t scheme = url_find_word(text, STR("://"));
    size_t from = scheme < 0 ? text.len : (size_t)scheme + 3;
    const char *at = text.len > from ? memrchr(text.ptr + from, '@', text.len - from) : NULL;
    const char *colon = at ? memchr(text.ptr + from, ':', (size_t)(at - text.ptr) - from) : NULL;
    if (colon) {
        buf_puts(out, tidings_strn(text.ptr, (size_t)(colon - text.ptr) + 1));
        buf_puts(out, HIDDEN);
        text = str_skip(text, (size_t)(at - text.ptr));
    }
    ptrdiff_t question = str_find(text, '?');
    if (question >= 0) {
        buf_puts(out, tidings_strn(text.ptr, (size_t)question + 1));
        text = str_skip(text, (size_t)question + 1);
    } else if (colon || scheme >= 0) {
        return buf_puts(out, text);
    }
    url_put_parameters(out, text);
    return out->failed;
}

const char *url_redact(const char *text, char out[URL_REDACTED_MAX])
{
    struct buf b;
    buf_init(&b, 2 * strlen(text) + 64);
    (void)url_put_redacted(&b, tidings_str(text));
    (void)snprintf(out, URL_REDACTED_MAX, "%s", b.failed ? "***" : b.ptr ? b.ptr : "");
    buf_deinit(&b);
    return out;
}
