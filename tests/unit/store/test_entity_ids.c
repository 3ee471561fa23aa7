/* SPDX-License-Identifier: MIT
 *
 * The set never denies an id that it contains. It denies other ids once it is complete. Above its
 * limit, or without memory, it denies nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/str.h"
#include "store/entity_cache.h"
#include "support/fail_alloc.h"

static void add(struct entity_ids *ids, unsigned n)
{
    char id[16];
    int len = snprintf(id, sizeof id, "e%u", n);
    entity_ids_add(ids, tidings_strn(id, (size_t)len));
}

static bool may_have(const struct entity_ids *ids, unsigned n)
{
    char id[16];
    int len = snprintf(id, sizeof id, "e%u", n);
    return entity_ids_may_have(ids, tidings_strn(id, (size_t)len));
}

static void set_denies_nothing_before_it_is_complete(void **state)
{
    (void)state;
    struct entity_ids ids = {0};
    assert_true(may_have(&ids, 1));
    add(&ids, 1);
    assert_true(may_have(&ids, 2));
    ids.is_complete = true;
    assert_true(may_have(&ids, 1));
    assert_false(may_have(&ids, 2));
    entity_ids_clear(&ids);
    assert_true(may_have(&ids, 2));
    ids.is_complete = true; /* of an empty store */
    assert_false(may_have(&ids, 1));
    add(&ids, 1);
    assert_true(may_have(&ids, 1));
    entity_ids_clear(&ids);
}

static void added_ids_are_never_denied(void **state)
{
    (void)state;
    struct entity_ids ids = {.is_complete = true};
    for (unsigned i = 0; i < 50000; i++) {
        add(&ids, i);
        add(&ids, i / 2);
    }
    assert_int_equal(ids.count, 50000);
    unsigned wrong = 0;
    for (unsigned i = 0; i < 50000; i++) {
        assert_true(may_have(&ids, i));
        wrong += may_have(&ids, 1000000 + i);
    }
    assert_int_equal(wrong, 0);
    entity_ids_clear(&ids);
}

static void set_denies_nothing_above_its_limit(void **state)
{
    (void)state;
    struct entity_ids ids = {.is_complete = true};
    for (unsigned i = 0; i < ENTITY_IDS_MAX + 1; i++) {
        add(&ids, i);
    }
    assert_true(may_have(&ids, ENTITY_IDS_MAX + 5));
    assert_true(ids.is_too_many);
    assert_null(ids.slots);
    add(&ids, 1);
    assert_null(ids.slots);
}

static void set_denies_nothing_without_memory(void **state)
{
    (void)state;
    struct entity_ids ids = {.is_complete = true};
    fail_alloc_start(1);
    add(&ids, 1);
    assert_true(may_have(&ids, 1));
    assert_true(may_have(&ids, 2));
    entity_ids_clear(&ids);
    assert_int_equal(fail_alloc_live(), 0);
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_denies_nothing_before_it_is_complete),
        cmocka_unit_test(added_ids_are_never_denied),
        cmocka_unit_test(set_denies_nothing_above_its_limit),
        cmocka_unit_test(set_denies_nothing_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
