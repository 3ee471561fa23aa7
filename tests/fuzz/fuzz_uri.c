/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a URI, as a pattern, as a glob and its text, and as a file name. Accepted input must
 * be a fixed point, equal the concatenation of its parts, and contain no dot segment.
 */
#include <stdlib.h>

#include "formats/pattern.h"
#include "formats/uri.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void check_split(struct tidings_str uri)
{
    struct uri_parts p;
    struct buf joined;
    uri_split(uri, &p);
    buf_init(&joined, 2 * URI_MAX);
    buf_puts(&joined, p.scheme);
    buf_putc(&joined, ':');
    if (p.authority.ptr) {
        buf_puts(&joined, STR("//"));
        buf_puts(&joined, p.authority);
    }
    buf_puts(&joined, p.path);
    if (p.query.ptr) {
        buf_putc(&joined, '?');
        buf_puts(&joined, p.query);
    }
    check(str_eq(buf_str(&joined), uri));
    for (struct tidings_str rest = p.path; rest.len > 0;) {
        struct tidings_str segment = str_cut(rest, '/', &rest, NULL);
        check(!str_eq(segment, STR(".")) && !str_eq(segment, STR("..")));
    }
    check(uri_is_within(uri, uri));
    buf_deinit(&joined);
}

static void check_name(struct tidings_str name)
{
    struct buf uri, again, back;
    buf_init(&uri, URI_MAX);
    buf_init(&again, URI_MAX);
    buf_init(&back, URI_MAX);
    buf_puts(&uri, STR("file:///x"));
    if (uri_encode_segment(&uri, name) == 0 && uri_canonical(buf_str(&uri), &again, NULL) == 0) {
        check(str_eq(buf_str(&uri), buf_str(&again)));
        check(uri_decode(&back, str_skip(buf_str(&uri), 9), NULL) == 0);
        check(str_eq(buf_str(&back), name));
    }
    buf_deinit(&uri);
    buf_deinit(&again);
    buf_deinit(&back);
}

static const struct uri_alias *find_alias(const void *user, struct tidings_str in)
{
    static const struct uri_alias aliases[] = {{{"/e/", 3}, {"e:///", 5}},
                                               {{"https://h/e/", 12}, {"e:///", 5}}};
    (void)user;
    return uri_alias_find(aliases, 2, in);
}

/* With aliases: accepted input is canonical, and no longer begins with an alias. */
static void check_alias(struct tidings_str in, bool is_pattern)
{
    struct buf once, twice;
    const struct uri_alias *alias = NULL;
    buf_init(&once, 4 * URI_MAX);
    buf_init(&twice, 4 * URI_MAX);
    if (uri_alias_canonical(in, is_pattern, find_alias, NULL, &once, &alias, NULL) == 0) {
        check(!alias || str_starts(buf_str(&once), alias->to));
        check(uri_alias_canonical(buf_str(&once), is_pattern, find_alias, NULL, &twice, &alias,
                                  NULL) == 0);
        check(!alias && str_eq(buf_str(&once), buf_str(&twice)));
    }
    buf_deinit(&once);
    buf_deinit(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tidings_str in = tidings_strn((const char *)data, size), text;
    struct tidings_error err;
    struct buf once, twice;
    buf_init(&once, 4 * URI_MAX);
    buf_init(&twice, 4 * URI_MAX);
    if (uri_canonical(in, &once, &err) == 0) {
        check(uri_canonical(buf_str(&once), &twice, &err) == 0);
        check(str_eq(buf_str(&once), buf_str(&twice)));
        check_split(buf_str(&once));
    }
    buf_clear(&once);
    buf_clear(&twice);
    if (uri_canonical_pattern(in, &once, &err) == 0) {
        check(uri_canonical_pattern(buf_str(&once), &twice, &err) == 0);
        check(str_eq(buf_str(&once), buf_str(&twice)));
    }
    buf_deinit(&once);
    buf_deinit(&twice);
    check_alias(in, false);
    check_alias(in, true);
    check_name(in);
    struct tidings_str glob = str_cut(in, '\n', &text, NULL);
    if (glob_check(glob, &err) == 0) {
        (void)glob_matches(glob, text);
        (void)glob_matches_path(glob, text);
    }
    return 0;
}
