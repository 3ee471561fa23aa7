/* SPDX-License-Identifier: MIT
 *
 * Regexes in the match index: their owners pay for the search, regexes without literal text are
 * limited, and grams find all matches.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/match/match.h"
#include "support/fail_alloc.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void count(void *user, struct match_node *node)
{
    (void)node;
    ++*(unsigned *)user;
}

/* A lookup with a price: each node has its own purse. */
struct payers {
    struct match m;
    struct match_node nodes[3];
    bool wants[3];
    uint64_t purse[3], paid[3];
    unsigned found[3], unsure[3];
};

static size_t index_of(const struct payers *p, const struct match_node *node)
{
    return (size_t)(node - p->nodes);
}

static void note_found(void *user, struct match_node *node)
{
    struct payers *p = user;
    p->found[index_of(p, node)]++;
}

static void note_unsure(void *user, struct match_node *node)
{
    struct payers *p = user;
    p->unsure[index_of(p, node)]++;
}

static bool may_pay(void *user, struct match_node *node, uint64_t *ret_steps)
{
    struct payers *p = user;
    *ret_steps = p->purse[index_of(p, node)];
    return p->wants[index_of(p, node)];
}

static void note_paid(void *user, struct match_node *node, uint64_t steps)
{
    struct payers *p = user;
    size_t i = index_of(p, node);
    assert_true(p->wants[i] && steps <= p->purse[i]);
    p->purse[i] -= steps;
    p->paid[i] += steps;
}

static void start(struct payers *p, const char *a, const char *b, const char *c)
{
    const char *texts[] = {a, b, c};
    memset(p, 0, sizeof(*p));
    match_init(&p->m);
    for (size_t i = 0; i < COUNT(p->nodes); i++) {
        assert_int_equal(match_add(&p->m, &p->nodes[i], PATTERN_REGEX, tidings_str(texts[i]), NULL),
                         0);
        p->wants[i] = true;
        p->purse[i] = 1000000;
    }
}

static void find(struct payers *p, const char *uri)
{
    static const struct match_calls calls = {note_found, may_pay, note_paid, note_unsure};
    memset(p->found, 0, sizeof(p->found));
    memset(p->unsure, 0, sizeof(p->unsure));
    memset(p->paid, 0, sizeof(p->paid));
    match_find_paid(&p->m, tidings_str(uri), &calls, p);
}

static void end(struct payers *p)
{
    for (size_t k = 0; k < COUNT(p->nodes); k++) {
        match_remove(&p->m, &p->nodes[k]);
    }
    assert_int_equal(match_bytes(&p->m), 0);
    match_deinit(&p->m);
}

#define HOSTILE "x:///(a|aa|a+)+$" /* exponential with backtracking */
#define HOSTILE_URI "x:///aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-"

/* A regex without an interested owner is not searched and costs nothing. */
static void owners_pay_only_for_their_own_regexes(void **state)
{
    (void)state;
    static struct payers p;
    start(&p, HOSTILE, HOSTILE, "x:///aaaa");
    p.wants[0] = false;
    find(&p, HOSTILE_URI);
    assert_int_equal(p.paid[0], 0);
    assert_true(p.paid[1] > 0 && p.paid[1] < 5000);
    assert_int_equal(p.unsure[0] + p.unsure[1], 0);
    assert_int_equal(p.found[2], 1);
    p.wants[1] = false;
    find(&p, "x:///aaaa");
    assert_int_equal(p.paid[0] + p.paid[1], 0);
    assert_int_equal(p.found[0] + p.found[1] + p.unsure[0] + p.unsure[1], 0);
    end(&p);
}

static void regex_without_budget_is_unsure(void **state)
{
    (void)state;
    static struct payers p;
    start(&p, HOSTILE, HOSTILE, "x:///aaaa");
    p.purse[0] = p.purse[1] = 0;
    find(&p, "x:///aaaa");
    assert_int_equal(p.found[0] + p.found[1], 0);
    assert_int_equal(p.unsure[0], 1);
    assert_int_equal(p.unsure[1], 1);
    assert_int_equal(p.found[2], 1); /* the other searches continue */
    /* Another owner pays the rest if the first cannot. */
    p.purse[0] = p.purse[1] = 20;
    find(&p, HOSTILE_URI);
    assert_int_equal(p.unsure[0] + p.unsure[1], 2);
    assert_int_equal(p.purse[0] + p.purse[1], 0);
    p.purse[0] = 20;
    p.purse[1] = 100000;
    find(&p, "x:///aaaa");
    assert_int_equal(p.found[0] + p.found[1], 2);
    assert_int_equal(p.unsure[0] + p.unsure[1], 0);
    end(&p);
}

/* Owners: each may have two unindexed regexes. */
static unsigned owned[2];

static bool take_unindexed(void *owner)
{
    unsigned *n = owner;
    *n += *n < 2 ? 1 : 100;
    return *n <= 2 || (*n -= 100, false);
}

static void give_back_unindexed(void *owner)
{
    --*(unsigned *)owner;
}

static void owners_have_a_limit_of_regexes_without_literal_text(void **state)
{
    (void)state;
    struct match_node nodes[5] = {{0}}, again = {0};
    struct match m;
    struct tidings_error err = {0};
    match_init(&m);
    m.take_unindexed = take_unindexed;
    m.give_back_unindexed = give_back_unindexed;
    owned[0] = owned[1] = 0;
    assert_int_equal(match_add_for(&m, &nodes[0], PATTERN_REGEX, STR("a.b"), &owned[0], NULL), 0);
    assert_int_equal(match_add_for(&m, &nodes[1], PATTERN_REGEX, STR("a.c"), &owned[0], NULL), 0);
    assert_int_equal(match_add_for(&m, &nodes[2], PATTERN_REGEX, STR("a.d"), &owned[0], &err),
                     TIDINGS_E_LIMIT);
    assert_non_null(strstr(err.text, "of this client"));
    /* An existing regex and a regex with literal text cost nothing; other owners have separate
     * limits. */
    assert_int_equal(match_add_for(&m, &again, PATTERN_REGEX, STR("a.b"), &owned[0], NULL), 0);
    assert_int_equal(match_add_for(&m, &nodes[2], PATTERN_REGEX, STR("a.dddd"), &owned[0], NULL),
                     0);
    assert_int_equal(match_add_for(&m, &nodes[3], PATTERN_REGEX, STR("a.d"), &owned[1], NULL), 0);
    assert_int_equal(owned[1], 1);
    match_remove(&m, &nodes[0]);
    assert_int_equal(owned[0], 2);
    match_remove(&m, &again);
    assert_int_equal(owned[0], 1);
    assert_int_equal(match_add_for(&m, &nodes[4], PATTERN_REGEX, STR("a.e"), &owned[0], NULL), 0);
    for (size_t i = 1; i < COUNT(nodes); i++) {
        match_remove(&m, &nodes[i]);
    }
    assert_int_equal(owned[0] + owned[1], 0);
    assert_int_equal(match_bytes(&m), 0);
    match_deinit(&m);
}

static void regexes_without_literal_text_are_limited(void **state)
{
    (void)state;
    static struct match_node nodes[MATCH_MAX_UNINDEXED_REGEXES + 1];
    struct match_node again = {0}, filed = {0};
    struct match m;
    struct tidings_error err = {0};
    memset(nodes, 0, sizeof(nodes));
    match_init(&m);
    for (size_t i = 0; i < COUNT(nodes); i++) {
        char text[] = "[a]b.c.d$";
        text[1] = (char)('a' + i % 26);
        text[5] = (char)('a' + i / 26 % 26);
        text[7] = (char)('a' + i / 26 / 26);
        int rc = match_add(&m, &nodes[i], PATTERN_REGEX, tidings_str(text), &err);
        assert_int_equal(rc, i < MATCH_MAX_UNINDEXED_REGEXES ? 0 : TIDINGS_E_LIMIT);
    }
    assert_non_null(strstr(err.text, "no literal text of 4 bytes"));
    assert_int_equal(match_add(&m, &again, PATTERN_REGEX, STR("[a]b.a.a$"), NULL), 0);
    assert_int_equal(match_add(&m, &filed, PATTERN_REGEX, STR("[a]b-a-a$"), NULL), 0);
    unsigned hits = 0;
    match_find(&m, STR("x:///ab-a-a"), count, &hits);
    assert_int_equal(hits, 3);
    match_remove(&m, &nodes[5]);
    assert_int_equal(
        match_add(&m, &nodes[MATCH_MAX_UNINDEXED_REGEXES], PATTERN_REGEX, STR("z"), NULL), 0);
    match_remove(&m, &again);
    match_remove(&m, &filed);
    for (size_t i = 0; i < COUNT(nodes); i++) {
        match_remove(&m, &nodes[i]);
    }
    assert_int_equal(match_bytes(&m), 0);
    match_deinit(&m);
}

/* Many patterns that share most of their text are filed where they differ, and each is found
 * separately. */
static void regexes_that_share_text_are_distinguished(void **state)
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
        assert_int_equal(match_add(&m, &nodes[i], PATTERN_REGEX, buf_str(&text), NULL), 0);
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

/* No failed allocation in a search loses a match or leaks. */
static void search_without_memory_is_reported_as_a_match(void **state)
{
    (void)state;
    for (long n = 1;; n++) {
        struct match m;
        struct match_node node = {0};
        unsigned hits = 0;
        fail_alloc_start(0);
        match_init(&m);
        assert_int_equal(match_add(&m, &node, PATTERN_REGEX, STR("(a|b)+long(?=er)"), NULL), 0);
        fail_alloc_start(n);
        match_find(&m, STR("x:///aabblonger"), count, &hits);
        bool reached = fail_alloc_stop();
        assert_int_equal(hits, 1);
        match_find(&m, STR("x:///aabblonger"), count, &hits);
        assert_int_equal(hits, 2);
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
        cmocka_unit_test(owners_pay_only_for_their_own_regexes),
        cmocka_unit_test(regex_without_budget_is_unsure),
        cmocka_unit_test(owners_have_a_limit_of_regexes_without_literal_text),
        cmocka_unit_test(regexes_without_literal_text_are_limited),
        cmocka_unit_test(regexes_that_share_text_are_distinguished),
        cmocka_unit_test(search_without_memory_is_reported_as_a_match),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
