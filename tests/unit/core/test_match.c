/* SPDX-License-Identifier: MIT
 *
 * The match index: which subscriptions a change concerns, in which order, the same as asking each
 * one by itself, and nothing left behind after many have come and gone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "core/match.h"
#include "support/fail_alloc.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct target {
    struct match_node node;
    enum match_kind kind;
    unsigned hits;
    char uri[40];
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
    buf_putf(&trace->order, "%s%s ", target_of(node)->kind == MATCH_LITERAL ? "=" : "",
             target_of(node)->uri);
}

static void add(struct match *m, struct target *t, enum match_kind kind, const char *uri)
{
    memset(t, 0, sizeof(*t));
    t->kind = kind;
    memcpy(t->uri, uri, strlen(uri) + 1);
    assert_int_equal(match_add(m, &t->node, kind, tidings_str(uri)), 0);
}

static void a_change_finds_itself_and_its_containers_from_the_root_down(void **state)
{
    (void)state;
    static const struct {
        enum match_kind kind;
        const char *uri;
    } targets[] = {
        {MATCH_CONTAINER, "file:///a/b/"}, {MATCH_LITERAL, "file:///a/b"},
        {MATCH_LITERAL, "file:///a/b/"},   {MATCH_CONTAINER, "file:///"},
        {MATCH_CONTAINER, "file://"},      {MATCH_CONTAINER, "file:///a"},
        {MATCH_CONTAINER, "file:/"},       {MATCH_CONTAINER, "test://"},
        {MATCH_CONTAINER, "urn:x/"},       {MATCH_CONTAINER, "api:///e?q=/"},
        {MATCH_CONTAINER, "api:///e"},
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
        {"api:///e?q=/", "api:///e api:///e?q=/ "},
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

static void targets_of_one_uri_are_found_each_and_removed_singly(void **state)
{
    (void)state;
    struct match m;
    struct target a, b, never = {0};
    match_init(&m);
    add(&m, &a, MATCH_LITERAL, "x:///1");
    add(&m, &b, MATCH_LITERAL, "x:///1");
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

/* The definition, for one target. */
static bool concerns(const struct target *t, struct tidings_str changed)
{
    struct tidings_str uri = tidings_str(t->uri);
    if (t->kind == MATCH_LITERAL || str_eq(uri, changed)) {
        return str_eq(uri, changed);
    }
    struct tidings_str path = str_cut(changed, '?', &(struct tidings_str){0}, NULL);
    if (str_find(uri, '?') >= 0 || !str_starts(path, uri)) {
        return false;
    }
    if (str_eq(uri, STR("x:/")) && str_starts(path, STR("x://"))) {
        return false; /* an authority follows: another root */
    }
    return str_ends(uri, STR("/")) || path.len == uri.len || path.ptr[uri.len] == '/';
}

static void count_hit(void *user, struct match_node *node)
{
    (void)user;
    target_of(node)->hits++;
}

static uint64_t next_random(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random >> 24;
}

static void random_uri(uint64_t *random, char out[40])
{
    static const char *const roots[] = {"x:///", "x://h/", "x:/", "x://", "x:a"};
    const char *root = roots[next_random(random) % COUNT(roots)];
    size_t len = strlen(root);
    memcpy(out, root, len);
    size_t more = next_random(random) % 7;
    for (size_t i = 0; i < more; i++) {
        out[len++] = "ab//a?b/"[next_random(random) % 8];
    }
    out[len] = '\0';
}

static void the_index_agrees_with_asking_every_target(void **state)
{
    (void)state;
    static struct target targets[300];
    uint64_t random = 362436069u;
    size_t found = 0;
    for (int round = 0; round < 20; round++) {
        struct match m;
        match_init(&m);
        for (size_t i = 0; i < COUNT(targets); i++) {
            char uri[40];
            random_uri(&random, uri);
            add(&m, &targets[i], next_random(&random) % 2 ? MATCH_CONTAINER : MATCH_LITERAL, uri);
        }
        for (size_t i = 0; i < COUNT(targets); i += 3) {
            match_remove(&m, &targets[i].node);
        }
        for (int k = 0; k < 200; k++) {
            char changed[40];
            random_uri(&random, changed);
            match_find(&m, tidings_str(changed), count_hit, NULL);
            for (size_t i = 0; i < COUNT(targets); i++) {
                bool expected = i % 3 != 0 && concerns(&targets[i], tidings_str(changed));
                if (targets[i].hits != expected) {
                    fail_msg("'%s' (%d) on '%s': %u times", targets[i].uri, targets[i].kind,
                             changed, targets[i].hits);
                }
                found += expected;
                targets[i].hits = 0;
            }
        }
        for (size_t i = 0; i < COUNT(targets); i++) {
            match_remove(&m, &targets[i].node);
        }
        match_deinit(&m);
    }
    assert_true(found > 10000);
}

static void memory_is_back_after_many_came_and_went(void **state)
{
    (void)state;
    static struct target targets[1000];
    memset(targets, 0, sizeof(targets));
    uint64_t random = 521288629u;
    struct match m;
    fail_alloc_start(0);
    match_init(&m);
    for (int i = 0; i < 100000; i++) {
        struct target *t = &targets[next_random(&random) % COUNT(targets)];
        if (t->node.bucket) {
            match_remove(&m, &t->node);
        } else {
            enum match_kind kind = i % 3 ? MATCH_LITERAL : MATCH_CONTAINER;
            char uri[40];
            struct buf text;
            int number = (int)(next_random(&random) % 100000);
            buf_init(&text, sizeof(uri) - 1);
            buf_putf(&text, "x:///%d/", number);
            memcpy(uri, text.ptr, text.len + 1);
            buf_deinit(&text);
            add(&m, t, kind, uri);
        }
        /* two tables, and a bucket for each node at most */
        assert_true(fail_alloc_live() <= (long)m.count + 2);
    }
    for (size_t i = 0; i < COUNT(targets); i++) {
        match_remove(&m, &targets[i].node);
    }
    assert_int_equal(m.count, 0);
    assert_int_equal(fail_alloc_live(), 0);
    match_deinit(&m);
    fail_alloc_end();
}

static void a_failed_allocation_leaves_the_index_as_it_was(void **state)
{
    (void)state;
    for (long n = 1;; n++) {
        struct match m;
        struct match_node node = {0};
        fail_alloc_start(n);
        match_init(&m);
        int rc = match_add(&m, &node, MATCH_CONTAINER, STR("x:///a/"));
        bool reached = fail_alloc_stop();
        assert_int_equal(rc, reached ? TIDINGS_E_NOMEM : 0);
        assert_int_equal(m.count, reached ? 0 : 1);
        match_remove(&m, &node);
        match_deinit(&m);
        assert_int_equal(fail_alloc_live(), 0);
        if (!reached) {
            break;
        }
    }
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_finds_itself_and_its_containers_from_the_root_down),
        cmocka_unit_test(targets_of_one_uri_are_found_each_and_removed_singly),
        cmocka_unit_test(the_index_agrees_with_asking_every_target),
        cmocka_unit_test(memory_is_back_after_many_came_and_went),
        cmocka_unit_test(a_failed_allocation_leaves_the_index_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
