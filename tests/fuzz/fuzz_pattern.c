/* SPDX-License-Identifier: MIT
 *
 * The first byte selects the kind of pattern, the rest of the first line is the pattern, the second
 * line a URI. Raw bytes must not crash; the index must find canonical input exactly if the
 * definition matches, both as its only entry and among others, and removal must leave it empty.
 */
#include <stdlib.h>

#include "engine/match/match.h"
#include "formats/uri.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void count(void *user, struct match_node *node)
{
    (void)node;
    ++*(unsigned *)user;
}

static void count_ours(void *user, struct match_node *node)
{
    struct match_node **ours = user;
    if (node == ours[0]) {
        check(ours[1] == NULL); /* once */
        ours[1] = node;
    }
}

/* Whatever the bytes: added or refused, and gone again. */
static void check_raw(enum pattern_kind kind, struct tidings_str text, struct tidings_str uri)
{
    struct match m;
    struct match_node node = {0};
    struct tidings_error err;
    unsigned hits = 0;
    match_init(&m);
    if (match_add(&m, &node, kind, text, &err) == 0) {
        match_find(&m, uri, count, &hits);
        check(hits <= 1);
    } else {
        check(err.text[0] != '\0');
    }
    match_remove(&m, &node);
    check(match_bytes(&m) == 0);
    match_deinit(&m);
}

static const struct {
    enum pattern_kind kind;
    const char *text;
} others[] = {
    {PATTERN_CONTAINER, "x:///"},       {PATTERN_GLOB, "x:///**/*a*"},
    {PATTERN_GLOB, "x:///*/**"},        {PATTERN_GLOB_Q, "x:///?"},
    {PATTERN_TEMPLATE, "x:///{a}/{b}"}, {PATTERN_TEMPLATE, "x:///{+a}"},
    {PATTERN_REGEX, "x:///.*abc"},      {PATTERN_GLOB, "x:///a*b/*/c*d"},
};

static void check_canonical(enum pattern_kind kind, struct tidings_str text, struct tidings_str uri)
{
    struct match m;
    struct match_node nodes[sizeof(others) / sizeof(*others)] = {{0}}, node = {0};
    struct match_node *ours[2] = {&node, NULL};
    size_t n = sizeof(others) / sizeof(*others);
    match_init(&m);
    for (size_t i = 0; i < n; i++) {
        check(match_add(&m, &nodes[i], others[i].kind, tidings_str(others[i].text), NULL) == 0);
    }
    if (match_add(&m, &node, kind, text, NULL) == 0) {
        match_find(&m, uri, count_ours, (void *)ours);
        check((ours[1] != NULL) == pattern_matches(kind, text, uri));
    }
    for (size_t i = 0; i < n; i++) {
        match_remove(&m, &nodes[i]);
    }
    match_remove(&m, &node);
    check(match_bytes(&m) == 0);
    match_deinit(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tidings_str uri;
    struct tidings_str text = str_cut(tidings_strn((const char *)data, size), '\n', &uri, NULL);
    if (text.len == 0) {
        return 0;
    }
    enum pattern_kind kind = (enum pattern_kind)((unsigned char)text.ptr[0] % 6);
    text = str_skip(text, 1);
    check_raw(kind, text, uri);

    struct buf pattern, changed;
    buf_init(&pattern, URI_MAX + 1024);
    buf_init(&changed, URI_MAX + 1024);
    bool ok = uri_canonical(uri, &changed, NULL) == 0;
    if (kind == PATTERN_REGEX) {
        ok = ok && buf_puts(&pattern, text) == 0;
    } else if (kind == PATTERN_LITERAL || kind == PATTERN_CONTAINER) {
        ok = ok && uri_canonical(text, &pattern, NULL) == 0;
    } else {
        ok = ok && uri_canonical_pattern(text, &pattern, NULL) == 0;
    }
    if (ok) {
        check_canonical(kind, buf_str(&pattern), buf_str(&changed));
    }
    buf_deinit(&pattern);
    buf_deinit(&changed);
    return 0;
}
