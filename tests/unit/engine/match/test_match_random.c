/* SPDX-License-Identifier: MIT
 *
 * The index against the definition: random subscriptions of every kind are added and removed,
 * random URIs change, and each node must be found exactly if its pattern matches. More than 900,000
 * comparisons, fourteen million with TIDINGS_LONG set.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/match/match.h"
#include "formats/uri.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define TARGETS 240u
#define URIS 40u
#define KINDS 6u

/* A subscription and the data that speed up its definition. */
struct target {
    struct match_node node;
    enum pattern_kind kind;
    unsigned hits;
    struct buf text;
    struct uri_template *compiled;
    struct regex *regex;
};

struct run {
    struct match m;
    uint64_t random;
    struct target targets[TARGETS];
    size_t compared, matched[KINDS], refused;
};

static size_t pick(struct run *r, size_t n)
{
    r->random ^= r->random << 13;
    r->random ^= r->random >> 7;
    r->random ^= r->random << 17;
    return (size_t)(r->random >> 24) % n;
}

static const char *const roots[] = {"x:///", "x://h/", "x:/", "x://", "urn:"};
static const char *const segments[] = {
    "a",           "b",   "ab",    "aab",    "a.b",   "",          "log-1.txt",
    "log-2.txt",   "%20", "a%20b", "%C3%A9", "a*b",   "error-log", "errors",
    "long-name-1", "%2A", "abab",  "a,b",    "k;m=1", "1",         "x@2",
};
static const char *const queries[] = {"?q=1", "?q=1&r=2", "?r=/a/b", "?", "?q=a/b/c&r"};

static void put_uri(struct run *r, struct buf *out)
{
    /* Few enough to repeat, with an occasional odd character. */
    buf_puts(out, tidings_str(roots[pick(r, pick(r, 4) ? 1 : COUNT(roots))]));
    size_t depth = pick(r, pick(r, 3) ? 3 : 6);
    for (size_t i = 0; i <= depth; i++) {
        buf_puts(out, tidings_str(segments[pick(r, pick(r, 3) ? 4 : COUNT(segments))]));
        if (i < depth || pick(r, 5) == 0) {
            buf_putc(out, '/');
        }
    }
    if (pick(r, 6) == 0) {
        buf_puts(out, tidings_str(queries[pick(r, COUNT(queries))]));
    }
}

static const char *const glob_pieces[] = {
    "*", "*",   "**",    "/**/", "/**",     "[a-c]", "[!a]",        "[%20*]",
    "?", "*-*", "*.txt", "log*", "*error*", "[0-9]", "*long-name*", "/*/"};
static const char *const template_pieces[] = {
    "{v}",   "{w}",   "{v}.{e}", "{+p}", "{?q,r}", "{?r*}", "{&q}",   "{/s*}", "{/s,t}",  "{.e}",
    "{v:1}", "{v:2}", "{;m}",    "{#f}", "{v,w}",  "{v*}",  "{v}{w}", "{n.o}", "/{a}/{b}"};
static const char *const regex_pieces[] = {
    ".*",          "[a-z]+", "(a|b)", "(ab)?",     "\\d",       "a?",   "b*",   "e{0,2}",
    "(?:log|err)", "-",      "[^/]",  "$",         "^",         "\\.",  "\\w+", "|",
    "(?i)",        "o+r",    "error", "long-name", "[]a]",      "x{2}", "/",    "log-",
    ".txt",        "(?=a)",  "\\/",   "aab",       "(a(b|c)+)*"};

/* A URI with some bytes replaced by pieces, so that it may match. */
static void put_pattern(struct run *r, struct buf *out, const char *const *pieces, size_t count)
{
    struct buf uri;
    buf_init(&uri, 1000);
    put_uri(r, &uri);
    for (size_t at = 0; at < uri.len;) {
        if (at > 4 && pick(r, 5) == 0) {
            buf_puts(out, tidings_str(pieces[pick(r, count)]));
            at += pick(r, 4);
        } else {
            buf_putc(out, uri.ptr[at++]);
        }
    }
    buf_deinit(&uri);
}

static void put_regex(struct run *r, struct buf *out)
{
    size_t n = 1 + pick(r, 4);
    for (size_t i = 0; i < n; i++) {
        if (pick(r, 3) == 0) {
            buf_puts(out, tidings_str(segments[pick(r, COUNT(segments))]));
        } else {
            buf_puts(out, tidings_str(regex_pieces[pick(r, COUNT(regex_pieces))]));
        }
    }
}

/* The text of a new subscription; false if it is not canonical. */
static bool put_text(struct run *r, struct target *t)
{
    struct buf raw;
    bool ok = true;
    buf_init(&raw, 4000);
    switch (t->kind) {
    case PATTERN_LITERAL:
    case PATTERN_CONTAINER:
        put_uri(r, &raw);
        ok = uri_canonical(buf_str(&raw), &t->text, NULL) == 0;
        break;
    case PATTERN_GLOB:
    case PATTERN_GLOB_Q:
        put_pattern(r, &raw, glob_pieces, COUNT(glob_pieces));
        ok = uri_canonical_pattern(buf_str(&raw), &t->text, NULL) == 0;
        break;
    case PATTERN_TEMPLATE:
        put_pattern(r, &raw, template_pieces, COUNT(template_pieces));
        ok = uri_canonical_pattern(buf_str(&raw), &t->text, NULL) == 0;
        break;
    case PATTERN_REGEX:
        put_regex(r, &t->text);
        break;
    }
    buf_deinit(&raw);
    return ok;
}

static void drop(struct run *r, struct target *t)
{
    match_remove(&r->m, &t->node);
    template_destroy(t->compiled);
    t->compiled = NULL;
    regex_destroy(t->regex);
    t->regex = NULL;
    buf_clear(&t->text);
}

/* Compares the result of the index for a pattern with the result of compiling it. */
static bool is_well_formed(struct target *t)
{
    switch (t->kind) {
    case PATTERN_GLOB:
    case PATTERN_GLOB_Q:
        return glob_check_uri(buf_str(&t->text), t->kind == PATTERN_GLOB_Q, NULL) == 0;
    case PATTERN_TEMPLATE:
        return template_create(buf_str(&t->text), &t->compiled, NULL) == 0;
    case PATTERN_REGEX:
        return regex_create(buf_str(&t->text), REGEX_BYTES, REGEX_MAX_BYTES, &t->regex, NULL) == 0;
    case PATTERN_LITERAL:
    case PATTERN_CONTAINER:
        break;
    }
    return true;
}

static void renew(struct run *r, struct target *t)
{
    int rc = TIDINGS_E_INVALID;
    drop(r, t);
    while (rc < 0) {
        buf_clear(&t->text);
        t->kind = (enum pattern_kind)pick(r, KINDS);
        if (!put_text(r, t)) {
            continue;
        }
        rc = match_add(&r->m, &t->node, t->kind, buf_str(&t->text), NULL);
        r->refused += rc < 0;
        if (is_well_formed(t) != (rc == 0) && rc != TIDINGS_E_LIMIT) {
            fail_msg("'%s' (%d): %d", t->text.ptr, t->kind, rc);
        }
        if (rc < 0) {
            drop(r, t);
        }
    }
}

static bool is_concerned(const struct target *t, struct tidings_str uri)
{
    uint64_t steps = UINT64_MAX;
    switch (t->kind) {
    case PATTERN_TEMPLATE:
        return template_match(t->compiled, uri, NULL, NULL);
    case PATTERN_REGEX:
        return regex_search(t->regex, NULL, uri, &steps) == REGEX_FOUND;
    case PATTERN_LITERAL:
    case PATTERN_CONTAINER:
    case PATTERN_GLOB:
    case PATTERN_GLOB_Q:
        break;
    }
    return pattern_matches(t->kind, buf_str(&t->text), uri);
}

/* A string that a pattern may match: wildcards filled in at random. */
static void put_instance(struct run *r, struct buf *out, struct tidings_str pattern)
{
    static const char *const fillings[] = {"a",    "b",    "",          "ab",   "a/b",
                                           "1",    "%20",  "?q=1",      ".b",   "x,y",
                                           "/a/b", "&q=2", "log-1.txt", ";m=1", "aa"};
    while (pattern.len > 0) {
        char c = pattern.ptr[0];
        size_t len = 1;
        if (c == '{' || c == '[') {
            len = str_cut(pattern, c == '{' ? '}' : ']', &(struct tidings_str){0}, NULL).len + 1;
        }
        while (c == '*' && len < pattern.len && pattern.ptr[len] == '*') {
            len++;
        }
        if (strchr("{[*", c) || (c == '?' && pick(r, 2))) {
            buf_puts(out, tidings_str(fillings[pick(r, pick(r, 2) ? 2 : COUNT(fillings))]));
        } else {
            buf_putc(out, c);
        }
        pattern = str_skip(pattern, len);
    }
}

static void count_hit(void *user, struct match_node *node)
{
    (void)user;
    ((struct target *)(void *)((char *)node - offsetof(struct target, node)))->hits++;
}

static void compare(struct run *r, struct tidings_str uri)
{
    match_find(&r->m, uri, count_hit, NULL);
    for (size_t i = 0; i < TARGETS; i++) {
        struct target *t = &r->targets[i];
        bool expected = is_concerned(t, uri);
        if (t->hits != expected) {
            fail_msg("'%s' (%d) on '%.*s': %u times", t->text.ptr, t->kind, STR_ARG(uri), t->hits);
        }
        r->matched[t->kind] += expected;
        r->compared++;
        t->hits = 0;
    }
}

static void index_agrees_with_the_definition(void **state)
{
    (void)state;
    static struct run r;
    size_t rounds = getenv("TIDINGS_LONG") ? 1500 : 100;
    r.random = 88172645463325252u;
    match_init(&r.m);
    for (size_t i = 0; i < TARGETS; i++) {
        buf_init(&r.targets[i].text, 4200);
        renew(&r, &r.targets[i]);
    }
    for (size_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < TARGETS / 3; i++) {
            renew(&r, &r.targets[pick(&r, TARGETS)]);
        }
        for (size_t i = 0; i < URIS;) {
            struct buf raw, uri;
            buf_init(&raw, 1000);
            buf_init(&uri, URI_MAX);
            const struct target *like = &r.targets[pick(&r, TARGETS)];
            if (pick(&r, 2) && like->kind != PATTERN_REGEX) {
                put_instance(&r, &raw, buf_str(&like->text));
            } else {
                put_uri(&r, &raw);
            }
            if (uri_canonical(buf_str(&raw), &uri, NULL) == 0) {
                compare(&r, buf_str(&uri));
                i++;
            }
            buf_deinit(&raw);
            buf_deinit(&uri);
        }
    }
    for (size_t i = 0; i < TARGETS; i++) {
        drop(&r, &r.targets[i]);
        buf_deinit(&r.targets[i].text);
    }
    assert_int_equal(match_bytes(&r.m), 0);
    match_deinit(&r.m);
    print_message("%zu comparisons; matched %zu %zu %zu %zu %zu %zu; %zu refused\n", r.compared,
                  r.matched[0], r.matched[1], r.matched[2], r.matched[3], r.matched[4],
                  r.matched[5], r.refused);
    assert_true(r.compared >= (getenv("TIDINGS_LONG") ? 1000000u : 200000u));
    for (size_t i = 0; i < KINDS; i++) {
        assert_true(r.matched[i] > 300);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(index_agrees_with_the_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
