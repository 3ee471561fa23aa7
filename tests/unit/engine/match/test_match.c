/* SPDX-License-Identifier: MIT
 *
 * The match index: the subscriptions of each kind that a change concerns, refused patterns, no
 * leaks after many patterns, and no effect of a failed allocation.
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
#include "support/fail_alloc.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct target {
    struct match_node node;
    enum pattern_kind kind;
    char uri[64];
};

struct trace {
    struct buf order;
};

static struct target *target_of(struct match_node *node)
{
    return (struct target *)(void *)((char *)node - offsetof(struct target, node));
}

static void note(void *user, struct match_node *node)
{
    struct trace *trace = user;
    buf_putf(&trace->order, "%s%s ", target_of(node)->kind == PATTERN_LITERAL ? "=" : "",
             target_of(node)->uri);
}

static void add(struct match *m, struct target *t, enum pattern_kind kind, const char *uri)
{
    struct tidings_error err = {0};
    memset(t, 0, sizeof(*t));
    t->kind = kind;
    memcpy(t->uri, uri, strlen(uri) + 1);
    if (match_add(m, &t->node, kind, tidings_str(uri), &err) < 0) {
        fail_msg("'%s': %s", uri, err.text);
    }
}

static void change_matches_its_uri_and_containers_from_the_root_down(void **state)
{
    (void)state;
    static const struct {
        enum pattern_kind kind;
        const char *uri;
    } targets[] = {
        {PATTERN_CONTAINER, "file:///a/b/"}, {PATTERN_LITERAL, "file:///a/b"},
        {PATTERN_LITERAL, "file:///a/b/"},   {PATTERN_CONTAINER, "file:///"},
        {PATTERN_CONTAINER, "file://"},      {PATTERN_CONTAINER, "file:///a"},
        {PATTERN_CONTAINER, "file:/"},       {PATTERN_CONTAINER, "test://"},
        {PATTERN_CONTAINER, "urn:x/"},       {PATTERN_CONTAINER, "api:///e?q=/"},
        {PATTERN_CONTAINER, "api:///e"},
    };
    static const struct {
        const char *changed, *order;
    } rows[] = {
        {"file:///a/b", "=file:///a/b file:// file:/// file:///a "},
        {"file:///a/b/", "=file:///a/b/ file:// file:/// file:///a file:///a/b/ "},
        {"file:///a/b/c", "file:// file:/// file:///a file:///a/b/ "},
        {"file:///a/b//c", "file:// file:/// file:///a file:///a/b/ "},
        {"file:///a", "file:// file:/// file:///a "},
        {"file:///a/", "file:// file:/// file:///a "},
        {"file:///a?q=/b/", "file:// file:/// file:///a "},
        {"file:///ab", "file:// file:/// "},
        {"file:///", "file:// file:/// "},
        {"file://host/x", "file:// "},
        {"file:/x", "file:/ "},
        {"test://static-text", "test:// "},
        {"urn:x/y", "urn:x/ "},
        {"urn:x", ""},
        {"api:///e?q=/", "api:///e?q=/ api:///e "},
        {"api:///e?q=/x", "api:///e "},
        {"other:///a", ""},
    };
    struct match m;
    struct target all[COUNT(targets)];
    match_init(&m);
    for (size_t i = 0; i < COUNT(targets); i++) {
        add(&m, &all[i], targets[i].kind, targets[i].uri);
    }
    assert_int_equal(m.count, COUNT(targets));
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct trace trace;
        buf_init(&trace.order, 4096);
        match_find(&m, tidings_str(rows[i].changed), note, &trace);
        if (!str_eq(buf_str(&trace.order), tidings_str(rows[i].order))) {
            fail_msg("'%s': '%.*s', expected '%s'", rows[i].changed, STR_ARG(buf_str(&trace.order)),
                     rows[i].order);
        }
        buf_deinit(&trace.order);
    }
    for (size_t i = 0; i < COUNT(targets); i++) {
        match_remove(&m, &all[i].node);
    }
    assert_int_equal(m.bare, 0);
    match_deinit(&m);
}

static void targets_of_one_uri_are_each_found_and_removed(void **state)
{
    (void)state;
    struct match m;
    struct target a, b, never = {0};
    match_init(&m);
    add(&m, &a, PATTERN_LITERAL, "x:///1");
    add(&m, &b, PATTERN_LITERAL, "x:///1");
    match_remove(&m, &never.node);
    struct trace trace;
    buf_init(&trace.order, 4096);
    match_find(&m, STR("x:///1"), note, &trace);
    assert_string_equal(trace.order.ptr, "=x:///1 =x:///1 ");
    match_remove(&m, &a.node);
    match_remove(&m, &a.node);
    assert_int_equal(m.count, 1);
    buf_clear(&trace.order);
    match_find(&m, STR("x:///1"), note, &trace);
    assert_string_equal(trace.order.ptr, "=x:///1 ");
    match_remove(&m, &b.node);
    match_deinit(&m);
    buf_deinit(&trace.order);
}

static void count(void *user, struct match_node *node)
{
    (void)node;
    ++*(unsigned *)user;
}

/* Patterns that only a comparison can distinguish are limited per place, however many exist
 * elsewhere. */
static void patterns_that_differ_between_wildcards_are_limited(void **state)
{
    (void)state;
    static struct match_node nodes[MATCH_MAX_ALIKE + 1], elsewhere;
    struct match m;
    struct tidings_error err = {0};
    memset(nodes, 0, sizeof(nodes));
    match_init(&m);
    for (size_t i = 0; i < COUNT(nodes); i++) {
        char text[] = "x:///a*?*b*c";
        text[7] = (char)('A' + i % 26);
        text[9] = (char)('a' + i / 26);
        int rc = match_add(&m, &nodes[i], PATTERN_GLOB, tidings_str(text), &err);
        assert_int_equal(rc, i < MATCH_MAX_ALIKE ? 0 : TIDINGS_E_LIMIT);
    }
    assert_non_null(strstr(err.text, "64 others differ from it only between their wildcards"));
    assert_int_equal(match_add(&m, &elsewhere, PATTERN_GLOB, STR("x:///a*z*b*d"), NULL), 0);
    match_remove(&m, &elsewhere);
    for (size_t i = 0; i < COUNT(nodes); i++) {
        match_remove(&m, &nodes[i]);
    }
    match_deinit(&m);
}

/* Folders with more shapes than are kept exactly; each pattern is still found. */
static void shapes_with_equal_prefix_are_all_found(void **state)
{
    (void)state;
    static struct target targets[20][20];
    char a[21], text[64];
    struct match m;
    match_init(&m);
    memset(a, 'a', sizeof(a));
    for (int i = 0; i < 20; i++) {
        for (int k = 0; k < 20; k++) {
            struct buf out;
            buf_init(&out, sizeof(text) - 1);
            buf_putf(&out, "x:///%.*s*%.*s", i, a, k, a);
            memcpy(text, out.ptr, out.len + 1);
            buf_deinit(&out);
            add(&m, &targets[i][k], PATTERN_GLOB, text);
        }
    }
    for (int n = 0; n < 40; n++) {
        char uri[64] = "x:///";
        memset(uri + 5, 'a', (size_t)n);
        unsigned hits = 0, expected = 0;
        match_find(&m, tidings_strn(uri, 5 + (size_t)n), count, &hits);
        for (int i = 0; i < 400; i++) {
            expected += i / 20 + i % 20 <= n;
        }
        assert_int_equal(hits, expected);
    }
    for (int i = 0; i < 400; i++) {
        match_remove(&m, &targets[i / 20][i % 20].node);
    }
    assert_int_equal(match_bytes(&m), 0);
    match_deinit(&m);
}

/* Text between wildcards in one folder: found by any 8 or 4 bytes of it, once however often
 * these occur. */
static void text_between_wildcards_is_found_once_anywhere(void **state)
{
    (void)state;
    static const char *const patterns[] = {"*error*",    "*errors*",       "*an-error*",
                                           "*rror*",     "*long-error-1*", "*long-error-2*",
                                           "*error*/x",  "*rror*/x",       "*long-error-1*/x",
                                           "[a-z]rror*", "*[0-9]",         "*e*rror*"};
    static const char *const uris[] = {"x:///error",
                                       "x:///error-error-error",
                                       "x:///a-long-error-1-error-1-long-error-1",
                                       "x:///rrorrror",
                                       "x:///error-error/x",
                                       "x:///long-error-1-long-error-1/x",
                                       "x:///an-errorsrrors",
                                       "x:///rro",
                                       "x:///long-error-2-long-error-1"};
    struct match m;
    struct target targets[COUNT(patterns)];
    size_t found = 0;
    match_init(&m);
    for (size_t i = 0; i < COUNT(patterns); i++) {
        char text[64] = "x:///";
        memcpy(text + 5, patterns[i], strlen(patterns[i]) + 1);
        add(&m, &targets[i], PATTERN_GLOB, text);
    }
    for (size_t k = 0; k < COUNT(uris); k++) {
        unsigned hits = 0, expected = 0;
        match_find(&m, tidings_str(uris[k]), count, &hits);
        for (size_t i = 0; i < COUNT(patterns); i++) {
            expected +=
                pattern_matches(PATTERN_GLOB, tidings_str(targets[i].uri), tidings_str(uris[k]));
        }
        if (hits != expected) {
            fail_msg("'%s': %u, expected %u", uris[k], hits, expected);
        }
        found += expected;
    }
    assert_true(found > 20);
    for (size_t i = 0; i < COUNT(patterns); i++) {
        match_remove(&m, &targets[i].node);
    }
    match_deinit(&m);
}

/* States × segments at most: a URI and patterns with every possible path finish at once. */
static void hostile_patterns_and_uris_finish(void **state)
{
    (void)state;
    static char uri[URI_MAX];
    static struct target targets[64];
    struct match m;
    match_init(&m);
    for (size_t i = 0; i < sizeof(uri); i++) {
        uri[i] = "/a"[i % 2];
    }
    memcpy(uri, "x:", 2);
    for (size_t i = 0; i < COUNT(targets); i++) {
        char text[64] = "x:/**";
        size_t len = 5;
        for (size_t bit = 0; bit < 6; bit++) {
            memcpy(text + len, i >> bit & 1 ? "/a/**" : "/*/**", 5);
            len += 5;
        }
        memcpy(text + len, "/zz", 4);
        add(&m, &targets[i], PATTERN_GLOB, text);
    }
    unsigned hits = 0;
    match_find(&m, tidings_strn(uri, sizeof(uri)), count, &hits);
    assert_int_equal(hits, 0);
    memcpy(uri + sizeof(uri) - 3, "/zz", 3);
    match_find(&m, tidings_strn(uri, sizeof(uri)), count, &hits);
    assert_int_equal(hits, COUNT(targets));
    for (size_t i = 0; i < COUNT(targets); i++) {
        match_remove(&m, &targets[i].node);
    }
    match_deinit(&m);
}

static uint64_t next_random(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random >> 24;
}

static const struct {
    enum pattern_kind kind;
    const char *format;
} mixture[] = {
    {PATTERN_LITERAL, "x:///%u/"},         {PATTERN_CONTAINER, "x:///%u/"},
    {PATTERN_CONTAINER, "x:///%u"},        {PATTERN_GLOB, "x:///%u/**/*.log"},
    {PATTERN_GLOB, "x:///**/p%u-*.log"},   {PATTERN_GLOB, "x:///d/*-%u-*"},
    {PATTERN_GLOB, "x:///d/a%u**b"},       {PATTERN_TEMPLATE, "x:///%u/{v}"},
    {PATTERN_TEMPLATE, "x:///d/%u{?q}"},   {PATTERN_REGEX, "^x:///%u/.*\\.log$"},
    {PATTERN_GLOB_Q, "x:///%u/a?c/[0-9]"}, {PATTERN_TEMPLATE, "x:///%u/{+v}/{w:3}"},
};

/* The maximum number of segments, for every length up to the next memory size. */
static void uri_of_any_length_can_be_all_slashes(void **state)
{
    (void)state;
    static char uri[URI_MAX];
    struct match m;
    struct target own, all;
    match_init(&m);
    add(&m, &own, PATTERN_LITERAL, "///////");
    add(&m, &all, PATTERN_GLOB, "/**");
    memset(uri, '/', sizeof(uri));
    for (size_t len = 1; len <= URI_MAX; len = len == 600 ? URI_MAX - 1 : len + 1) {
        unsigned found = 0;
        match_find(&m, tidings_strn(uri, len), count, &found);
        assert_int_equal(found, len == 7 ? 2 : 1);
    }
    match_remove(&m, &own.node);
    match_remove(&m, &all.node);
    match_deinit(&m);
}

static void mixed_text(unsigned which, unsigned number, char out[64])
{
    struct buf text;
    buf_init(&text, 63);
    for (const char *at = mixture[which].format; *at; at++) {
        if (*at == '%' && at[1] == 'u') {
            buf_putu(&text, number);
            at++;
        } else {
            buf_putc(&text, *at);
        }
    }
    memcpy(out, text.ptr, text.len + 1);
    buf_deinit(&text);
}

/* Two million additions and removals; fewer under sanitizers. */
static void memory_is_released_after_many_patterns(void **state)
{
    (void)state;
    static struct target targets[1000];
    memset(targets, 0, sizeof(targets));
    uint64_t random = 521288629u;
    int cycles = getenv("TIDINGS_SLOW") ? 100000 : 2000000;
    size_t most = 0;
    struct match m;
    fail_alloc_start(0);
    match_init(&m);
    for (int i = 0; i < cycles; i++) {
        struct target *t = &targets[next_random(&random) % COUNT(targets)];
        if (t->node.entry) {
            match_remove(&m, &t->node);
        } else {
            char uri[64];
            unsigned which = (unsigned)(next_random(&random) % COUNT(mixture));
            mixed_text(which, (unsigned)(next_random(&random) % 100000), uri);
            add(&m, t, mixture[which].kind, uri);
        }
        if (i == cycles / 10) {
            most = match_bytes(&m);
        }
        /* Tables and shared parts of regexes; a pattern takes a state per step, a leaf, its
         * template (3) or its regex (3) and a gram, and a list of shapes. */
        assert_true(fail_alloc_live() <= 5 * (long)m.count + 16);
        assert_true(i <= cycles / 10 || match_bytes(&m) < 2 * most);
    }
    for (size_t i = 0; i < COUNT(targets); i++) {
        match_remove(&m, &targets[i].node);
    }
    assert_int_equal(m.count, 0);
    assert_int_equal(match_bytes(&m), 0);
    assert_int_equal(fail_alloc_live(), 0);
    match_deinit(&m);
    fail_alloc_end();
}

static void failed_allocation_leaves_the_index_unchanged(void **state)
{
    (void)state;
    for (unsigned which = 0; which < COUNT(mixture); which++) {
        char text[64], other[64];
        mixed_text(which, 7, text);
        mixed_text(which, 8, other);
        for (long n = 1;; n++) {
            struct match m;
            struct match_node node = {0}, before = {0};
            struct tidings_error err = {0};
            fail_alloc_start(0);
            match_init(&m);
            assert_int_equal(match_add(&m, &before, mixture[which].kind, tidings_str(other), NULL),
                             0);
            size_t bytes = match_bytes(&m);
            long live = fail_alloc_live();
            fail_alloc_start(n);
            int rc = match_add(&m, &node, mixture[which].kind, tidings_str(text), &err);
            bool reached = fail_alloc_stop();
            if (reached && rc < 0) {
                assert_int_equal(rc, TIDINGS_E_NOMEM);
                assert_true(err.text[0] != '\0');
                assert_int_equal(match_bytes(&m), bytes);
                assert_int_equal(fail_alloc_live(), live);
                assert_int_equal(m.count, 1);
                assert_null(node.entry);
            } else {
                assert_int_equal(rc, 0);
            }
            match_remove(&m, &node);
            match_remove(&m, &before);
            match_deinit(&m);
            assert_int_equal(fail_alloc_live(), 0);
            if (!reached) {
                assert_true(n > 1);
                break;
            }
        }
    }
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(change_matches_its_uri_and_containers_from_the_root_down),
        cmocka_unit_test(targets_of_one_uri_are_each_found_and_removed),
        cmocka_unit_test(patterns_that_differ_between_wildcards_are_limited),
        cmocka_unit_test(shapes_with_equal_prefix_are_all_found),
        cmocka_unit_test(text_between_wildcards_is_found_once_anywhere),
        cmocka_unit_test(hostile_patterns_and_uris_finish),
        cmocka_unit_test(uri_of_any_length_can_be_all_slashes),
        cmocka_unit_test(memory_is_released_after_many_patterns),
        cmocka_unit_test(failed_allocation_leaves_the_index_unchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
