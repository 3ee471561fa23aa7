/* SPDX-License-Identifier: MIT
 *
 * Regexes in the match index: those that take too long are suspended and their nodes told once,
 * whatever the callback does; those without literal text are few; grams find what they must.
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

/* Exponential for a backtracking matcher on the URI below. */
#define HOSTILE STR("x:///(a|aa|a+)+$")
#define HOSTILE_URI STR("x:///aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-")

static void count(void *user, struct match_node *node)
{
    (void)node;
    ++*(unsigned *)user;
}

struct told {
    struct match m;
    struct match_node nodes[4];
    unsigned times[4];
    bool is_finding;
    enum { KEEP, REMOVE_IT, REMOVE_ALL, ADD_AGAIN } what;
};

static void note_find(void *user, struct match_node *node)
{
    (void)node;
    assert_true(((struct told *)user)->is_finding);
}

static void on_suspended(void *user, struct match_node *node)
{
    struct told *t = user;
    size_t i = (size_t)(node - t->nodes);
    t->times[i]++;
    switch (t->what) {
    case KEEP:
        break;
    case REMOVE_IT:
        match_remove(&t->m, node);
        break;
    case REMOVE_ALL:
        for (size_t k = 0; k < COUNT(t->nodes); k++) {
            match_remove(&t->m, &t->nodes[k]);
        }
        break;
    case ADD_AGAIN:
        match_remove(&t->m, node);
        assert_int_equal(match_add(&t->m, node, MATCH_REGEX, HOSTILE, NULL), TIDINGS_E_LIMIT);
        assert_int_equal(match_add(&t->m, node, MATCH_GLOB, STR("y:///*"), NULL), 0);
        break;
    }
}

static void start(struct told *t, int what)
{
    memset(t, 0, sizeof(*t));
    match_init(&t->m);
    t->what = what;
    t->m.on_suspended = on_suspended;
    t->m.suspended_user = t;
    for (size_t i = 0; i < COUNT(t->nodes); i++) {
        assert_int_equal(match_add(&t->m, &t->nodes[i], MATCH_REGEX, HOSTILE, NULL), 0);
    }
}

static void end(struct told *t)
{
    for (size_t k = 0; k < COUNT(t->nodes); k++) {
        match_remove(&t->m, &t->nodes[k]);
    }
    assert_int_equal(match_bytes(&t->m), 0);
    match_deinit(&t->m);
}

static void find(struct told *t)
{
    t->is_finding = true;
    match_find(&t->m, HOSTILE_URI, note_find, t);
    t->is_finding = false;
}

static void a_regex_that_gives_up_three_times_is_suspended_and_its_nodes_told_once(void **state)
{
    (void)state;
    static struct told t;
    start(&t, KEEP);
    struct match_node other = {0};
    assert_int_equal(match_add(&t.m, &other, MATCH_REGEX, STR("x:///aaaa"), NULL), 0);
    find(&t);
    find(&t);
    assert_int_equal(t.times[0], 0);
    for (int i = 0; i < 5; i++) {
        find(&t);
    }
    for (size_t i = 0; i < COUNT(t.nodes); i++) {
        assert_int_equal(t.times[i], 1);
    }
    /* Others go on; the suspended one is not found where it used to match, nor added again. */
    unsigned hits = 0;
    match_find(&t.m, STR("x:///aaaa"), count, &hits);
    assert_int_equal(hits, 1);
    struct match_node late = {0};
    struct tidings_error err = {0};
    assert_int_equal(match_add(&t.m, &late, MATCH_REGEX, HOSTILE, &err), TIDINGS_E_LIMIT);
    assert_non_null(strstr(err.text, "suspended"));
    match_remove(&t.m, &other);
    end(&t);
}

static void a_suspended_regex_starts_anew_when_all_its_nodes_are_gone(void **state)
{
    (void)state;
    static struct told t;
    unsigned hits = 0;
    start(&t, REMOVE_IT);
    for (int i = 0; i < 3; i++) {
        find(&t);
    }
    assert_int_equal(t.m.count, 0);
    assert_int_equal(match_bytes(&t.m), 0);
    for (size_t i = 0; i < COUNT(t.nodes); i++) {
        assert_int_equal(t.times[i], 1);
    }
    assert_int_equal(match_add(&t.m, &t.nodes[0], MATCH_REGEX, HOSTILE, NULL), 0);
    match_find(&t.m, STR("x:///aaaa"), count, &hits);
    assert_int_equal(hits, 1);
    end(&t);
}

static void the_callback_may_remove_any_node_and_add_others(void **state)
{
    (void)state;
    static struct told t;
    start(&t, REMOVE_ALL);
    for (int i = 0; i < 4; i++) {
        find(&t);
    }
    assert_int_equal(t.times[0] + t.times[1] + t.times[2] + t.times[3], 1);
    assert_int_equal(t.m.count, 0);
    end(&t);

    unsigned hits = 0;
    start(&t, ADD_AGAIN);
    for (int i = 0; i < 4; i++) {
        find(&t);
    }
    match_find(&t.m, STR("y:///1"), count, &hits);
    assert_int_equal(hits, COUNT(t.nodes));
    end(&t);
}

static void nobody_need_be_told(void **state)
{
    (void)state;
    static struct told t;
    start(&t, KEEP);
    t.m.on_suspended = NULL;
    for (int i = 0; i < 5; i++) {
        find(&t);
    }
    assert_int_equal(t.m.count, COUNT(t.nodes));
    end(&t);
}

static void suspend_two(struct told *t, int what)
{
    static const char uri[] = "x:///aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa_-";
    start(t, what);
    match_remove(&t->m, &t->nodes[3]);
    assert_int_equal(match_add(&t->m, &t->nodes[3], MATCH_REGEX, STR("x:///(a|aa|a+)+_$"), NULL),
                     0);
    for (int i = 0; i < 3; i++) {
        t->is_finding = true;
        match_find(&t->m, tidings_str(uri), note_find, t);
        t->is_finding = false;
    }
}

static void two_regexes_suspended_in_one_lookup_are_both_told(void **state)
{
    (void)state;
    static struct told t;
    suspend_two(&t, KEEP);
    for (size_t i = 0; i < COUNT(t.nodes); i++) {
        assert_int_equal(t.times[i], 1);
    }
    end(&t);
    suspend_two(&t, REMOVE_ALL);
    assert_int_equal(t.times[0] + t.times[1] + t.times[2] + t.times[3], 1);
    assert_int_equal(match_bytes(&t.m), 0);
    end(&t);
}

static void regexes_without_literal_text_are_few(void **state)
{
    (void)state;
    static struct match_node nodes[MATCH_MAX_LOOSE_REGEXES + 1];
    struct match_node again = {0}, filed = {0};
    struct match m;
    struct tidings_error err = {0};
    memset(nodes, 0, sizeof(nodes));
    match_init(&m);
    for (size_t i = 0; i < COUNT(nodes); i++) {
        char text[] = "[a]b.c$";
        text[1] = (char)('a' + i % 26);
        text[5] = (char)('a' + i / 26);
        int rc = match_add(&m, &nodes[i], MATCH_REGEX, tidings_str(text), &err);
        assert_int_equal(rc, i < MATCH_MAX_LOOSE_REGEXES ? 0 : TIDINGS_E_LIMIT);
    }
    assert_non_null(strstr(err.text, "no literal text of 4 bytes"));
    assert_int_equal(match_add(&m, &again, MATCH_REGEX, STR("[a]b.a$"), NULL), 0);
    assert_int_equal(match_add(&m, &filed, MATCH_REGEX, STR("[a]b.aaaa$"), NULL), 0);
    unsigned hits = 0;
    match_find(&m, STR("x:///ab-a"), count, &hits);
    assert_int_equal(hits, 2);
    match_remove(&m, &nodes[5]);
    assert_int_equal(match_add(&m, &nodes[MATCH_MAX_LOOSE_REGEXES], MATCH_REGEX, STR("z"), NULL),
                     0);
    match_remove(&m, &again);
    match_remove(&m, &filed);
    for (size_t i = 0; i < COUNT(nodes); i++) {
        match_remove(&m, &nodes[i]);
    }
    assert_int_equal(match_bytes(&m), 0);
    match_deinit(&m);
}

/* Many that share most of their text are filed where they differ, and each found alone. */
static void regexes_that_share_text_are_told_apart(void **state)
{
    (void)state;
    static struct match_node nodes[2000];
    struct match m;
    match_init(&m);
    memset(nodes, 0, sizeof(nodes));
    for (unsigned i = 0; i < COUNT(nodes); i++) {
        struct buf text;
        buf_init(&text, 100);
        buf_putf(&text, "^file:///srv/team-%u/.*\\.(log|txt)$", i);
        assert_int_equal(match_add(&m, &nodes[i], MATCH_REGEX, buf_str(&text), NULL), 0);
        buf_deinit(&text);
    }
    assert_true(m.regexes.grams.count > 500);
    for (unsigned i = 0; i < COUNT(nodes); i += 37) {
        struct buf uri;
        unsigned hits = 0;
        buf_init(&uri, 100);
        buf_putf(&uri, "file:///srv/team-%u/a/b.log", i);
        match_find(&m, buf_str(&uri), count, &hits);
        assert_int_equal(hits, 1);
        buf_deinit(&uri);
    }
    for (unsigned i = 0; i < COUNT(nodes); i++) {
        match_remove(&m, &nodes[i]);
    }
    assert_int_equal(match_bytes(&m), 0);
    match_deinit(&m);
}

/* Whatever fails while searching, nothing is lost and nothing leaks. */
static void a_search_out_of_memory_is_no_match_and_no_leak(void **state)
{
    (void)state;
    for (long n = 1;; n++) {
        struct match m;
        struct match_node node = {0};
        unsigned hits = 0;
        fail_alloc_start(0);
        match_init(&m);
        assert_int_equal(match_add(&m, &node, MATCH_REGEX, STR("(a|b)+long"), NULL), 0);
        fail_alloc_start(n);
        match_find(&m, STR("x:///aabblong"), count, &hits);
        bool reached = fail_alloc_stop();
        assert_int_equal(hits, reached ? 0 : 1);
        match_find(&m, STR("x:///aabblong"), count, &hits);
        assert_int_equal(hits, reached ? 1 : 2);
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
        cmocka_unit_test(a_regex_that_gives_up_three_times_is_suspended_and_its_nodes_told_once),
        cmocka_unit_test(a_suspended_regex_starts_anew_when_all_its_nodes_are_gone),
        cmocka_unit_test(the_callback_may_remove_any_node_and_add_others),
        cmocka_unit_test(nobody_need_be_told),
        cmocka_unit_test(two_regexes_suspended_in_one_lookup_are_both_told),
        cmocka_unit_test(regexes_without_literal_text_are_few),
        cmocka_unit_test(regexes_that_share_text_are_told_apart),
        cmocka_unit_test(a_search_out_of_memory_is_no_match_and_no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
