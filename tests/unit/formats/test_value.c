/* SPDX-License-Identifier: MIT
 *
 * Documents of JSON values: objects and arrays of every size around the changes of memory layout.
 * In all of them, members are found and duplicates rejected. Also: keys chosen to collide, parts
 * that outlive the rest, and any failed allocation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>

#include "base/str.h"
#include "formats/json.h"
#include "support/fail_alloc.h"

/* Sizes around an index (16), the first stack (128), a kept stack (4096) and growing indexes. */
static const unsigned sizes[] = {0,    1,    2,    15,   16,   17,   18,   45,   46,    47,
                                 48,   63,   64,   65,   126,  127,  128,  129,  2047,  2048,
                                 2049, 4094, 4095, 4096, 4097, 8191, 8192, 8193, 20000, 70000};
#define EACH_SIZE(i) (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)

static struct json *parse(const struct buf *text)
{
    struct json *root = NULL;
    struct tidings_error err = {0};
    assert_int_equal(text->failed, 0);
    if (jv_parse(buf_str(text), 8, &root, &err) < 0) {
        fail_msg("%s", err.text);
    }
    return root;
}

/* {"first":1,"all":{"key 0":0,…},"last":2} */
static void write_object(struct buf *text, unsigned count)
{
    buf_clear(text);
    buf_puts(text, STR("{\"first\":1,\"all\":{"));
    for (unsigned i = 0; i < count; i++) {
        buf_putf(text, "%s\"key %u\":%u", i ? "," : "", i, i);
    }
    buf_puts(text, STR("},\"last\":2}"));
}

static void assert_members(struct json *all, unsigned count)
{
    struct tidings_str key;
    struct json *value;
    unsigned n = 0;
    char wanted[24];
    assert_int_equal(jv_count(all), count);
    for (void *at = NULL; (at = jv_next(all, at, &key, &value)) != NULL; n++) {
        (void)snprintf(wanted, sizeof wanted, "key %u", n);
        assert_string_equal(key.ptr, wanted);
        assert_int_equal(jv_int(value), n);
        assert_ptr_equal(jv_get(all, wanted), value);
    }
    assert_int_equal(n, count);
    (void)snprintf(wanted, sizeof wanted, "key %u", count);
    assert_null(jv_get(all, wanted));
    assert_null(jv_get(all, ""));
    assert_null(jv_get(all, "key"));
}

static void members_are_found_in_objects_of_every_size(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, 1u << 24);
    for
        EACH_SIZE(i)
        {
            write_object(&text, sizes[i]);
            struct json *root = parse(&text);
            assert_int_equal(jv_int(jv_get(root, "first")), 1);
            assert_int_equal(jv_int(jv_get(root, "last")), 2);
            assert_members(jv_get(root, "all"), sizes[i]);
            jv_unref(root);
        }
    buf_deinit(&text);
}

/* The longest run of used slots: the maximum length of a search. */
static uint32_t longest_run(const struct value_index *index)
{
    uint32_t longest = 0, run = 0;
    /* twice, because it is a ring */
    for (uint64_t i = 0; i < 2 * ((uint64_t)index->mask + 1); i++) {
        run = index->slots[i & index->mask].member != 0 ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest;
}

/* An attacker who guesses the seed can choose keys that share a slot. Each process seeds the table
 * again, and with another seed the same keys are apart. */
static void colliding_keys_are_spread_by_another_seed(void **state)
{
    (void)state;
    enum { COUNT = 1000, SLOTS = 2048 };
    static const uint64_t guesses[] = {0, 1, 2, 4, UINT64_MAX};
    struct buf text;
    buf_init(&text, 1u << 20);
    for (size_t g = 0; g < sizeof guesses / sizeof *guesses; g++) {
        buf_clear(&text);
        buf_putc(&text, '{');
        for (unsigned n = 0, i = 0; n < COUNT; i++) {
            char key[16];
            (void)snprintf(key, sizeof key, "k%u", i);
            if ((str_hash(tidings_str(key), guesses[g]) >> 32 & (SLOTS - 1)) == 0) {
                buf_putf(&text, "%s\"%s\":%u", n > 0 ? "," : "", key, n);
                n++;
            }
        }
        buf_putc(&text, '}');
        struct json *root = parse(&text);
        const struct value_index *index = root->items[-1].index;
        assert_int_equal(index->mask, SLOTS - 1);
        assert_int_not_equal(index->seed, guesses[g]);
        assert_true(longest_run(index) < COUNT / 4); /* about 30 */
        jv_unref(root);
    }
    buf_deinit(&text);
}

static void elements_are_kept_in_arrays_of_every_size(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, 1u << 24);
    for
        EACH_SIZE(i)
        {
            buf_clear(&text);
            buf_puts(&text, STR("[\"first\",["));
            for (unsigned k = 0; k < sizes[i]; k++) {
                buf_putf(&text, "%s[%u,\"%u\"]", k ? "," : "", k, k);
            }
            buf_puts(&text, STR("],\"last\"]"));
            struct json *root = parse(&text), *all = jv_at(root, 1);
            assert_int_equal(jv_count(root), 3);
            assert_string_equal(jv_str(jv_at(root, 0)).ptr, "first");
            assert_string_equal(jv_str(jv_at(root, 2)).ptr, "last");
            assert_int_equal(jv_count(all), sizes[i]);
            assert_null(jv_at(all, sizes[i]));
            for (unsigned k = 0; k < sizes[i]; k++) {
                char wanted[24];
                (void)snprintf(wanted, sizeof wanted, "%u", k);
                assert_int_equal(jv_int(jv_at(jv_at(all, k), 0)), k);
                assert_string_equal(jv_str(jv_at(jv_at(all, k), 1)).ptr, wanted);
            }
            jv_unref(root);
        }
    buf_deinit(&text);
}

static void duplicate_is_rejected_at_any_position(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, 1u << 24);
    for
        EACH_SIZE(i)
        {
            for (unsigned of = 0; of < sizes[i]; of += 1 + sizes[i] / 3) {
                write_object(&text, sizes[i]);
                text.len -= sizeof("},\"last\":2}") - 1;
                size_t column = text.len + 2;
                buf_putf(&text, ",\"key %u\":[]}}", of);
                struct json *root = NULL;
                struct tidings_error err = {0};
                char wanted[64];
                (void)snprintf(wanted, sizeof wanted, "line 1 column %zu: duplicate object key",
                               column);
                assert_int_equal(jv_parse(buf_str(&text), 8, &root, &err), TIDINGS_E_PARSE);
                assert_string_equal(err.text, wanted);
                assert_null(root);
            }
        }
    buf_deinit(&text);
}

/* Any part of a document keeps the whole document, whichever block holds it. */
static void part_outlives_the_rest(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, 1u << 24);
    for
        EACH_SIZE(i)
        {
            write_object(&text, sizes[i]);
            struct json *root = parse(&text), *all = jv_ref(jv_get(root, "all"));
            struct json *last = jv_ref(jv_get(root, "last"));
            char key[24];
            (void)snprintf(key, sizeof key, "key %u", sizes[i] / 2);
            struct json *middle = jv_ref(jv_get(all, key)); /* NULL in an empty one */
            jv_unref(root);
            jv_unref(last);
            assert_members(all, sizes[i]);
            jv_unref(all);
            assert_int_equal(jv_int(middle), sizes[i] / 2);
            jv_unref(middle);
        }
    buf_deinit(&text);
}

static void patch_applies_to_objects_of_every_size(void **state)
{
    (void)state;
    struct buf text, other;
    buf_init(&text, 1u << 24);
    buf_init(&other, 1u << 24);
    for
        EACH_SIZE(i)
        {
            write_object(&text, sizes[i]);
            struct json *a = parse(&text), *b, *patch = NULL;
            buf_puts(&other, STR("{\"all\":{\"key 1\":null,\"new\":{\"x\":[1]}},\"last\":null}"));
            struct json *given = parse(&other);
            buf_clear(&other);
            b = merge_apply(a, given);
            jv_unref(given);
            struct json *all = jv_get(b, "all");
            bool had_one = sizes[i] > 1;
            assert_int_equal(jv_count(b), 2);
            assert_int_equal(jv_count(all), sizes[i] + 1 - had_one);
            assert_null(jv_get(all, "key 1"));
            assert_int_equal(jv_int(jv_at(jv_get(jv_get(all, "new"), "x"), 0)), 1);
            assert_int_equal(merge_diff(a, b, &patch), 1);
            assert_int_equal(jv_count(jv_get(patch, "all")), 1 + had_one);
            struct json *again = merge_apply(a, patch);
            jv_unref(a); /* the result shares nothing with it */
            assert_true(jv_equal(again, b));
            jv_unref(again);
            jv_unref(patch);
            jv_unref(b);
        }
    buf_deinit(&other);
    buf_deinit(&text);
}

static void numbers_beyond_bounds_are_rejected_and_long_ones_read(void **state)
{
    (void)state;
    enum { DIGITS = 100000 };
    static const struct {
        const char *before;
        char digit;
        const char *after;
        int rc;
    } rows[] = {
        {"", '9', "", TIDINGS_E_PARSE},
        {"-", '1', "", TIDINGS_E_PARSE},
        {"", '9', ".0", TIDINGS_E_PARSE},
        {"1e", '9', "", TIDINGS_E_PARSE},
        {"1e-", '9', "", 0},
        {"0.", '0', "1", 0},
        {"0.", '3', "", 0},
    };
    struct buf text;
    buf_init(&text, 1u << 20);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct json *root = NULL;
        buf_clear(&text);
        buf_puts(&text, tidings_str(rows[i].before));
        for (int k = 0; k < DIGITS; k++) {
            buf_putc(&text, rows[i].digit);
        }
        buf_puts(&text, tidings_str(rows[i].after));
        assert_int_equal(jv_parse(buf_str(&text), 0, &root, NULL), rows[i].rc);
        assert_true(rows[i].rc < 0 || jv_is(root, JV_REAL));
        jv_unref(root);
    }
    buf_deinit(&text);
}

/* The first text changed by the difference of the two. NULL: out of memory. */
static struct json *make(struct tidings_str a, struct tidings_str b)
{
    struct json *x = NULL, *y = NULL, *made = NULL, *patch = NULL;
    if (jv_parse(a, 8, &x, NULL) == 0 && jv_parse(b, 8, &y, NULL) == 0 &&
        merge_diff(x, y, &patch) == 1) {
        made = merge_apply(x, patch);
    }
    jv_unref(patch);
    jv_unref(x);
    jv_unref(y);
    return made;
}

static void failed_allocation_leaks_nothing(void **state)
{
    (void)state;
    /* The inputs are created before allocations fail. */
    struct buf a, b;
    buf_init(&a, 1u << 20);
    buf_init(&b, 1u << 20);
    write_object(&a, 2500); /* the stack grows and is kept, the index grows */
    write_object(&b, 200);
    char *first = strdup(a.ptr), *second = strdup(b.ptr);
    buf_deinit(&a);
    buf_deinit(&b);
    bool reached = true;
    for (long n = 1; reached; n++) {
        fail_alloc_start(n);
        struct json *made = make(tidings_str(first), tidings_str(second));
        reached = fail_alloc_stop();
        assert_true(made || reached);
        jv_unref(made);
        assert_int_equal(fail_alloc_live(), 0);
        assert_true(n < 1000);
    }
    fail_alloc_end();
    free(first);
    free(second);
}

static void *refer_often(void *root)
{
    for (int i = 0; i < 200000; i++) {
        struct json *part = jv_ref(jv_get(root, "last"));
        jv_unref(part);
        jv_unref(jv_ref(root));
    }
    return NULL;
}

static void several_threads_refer_to_one_document(void **state)
{
    (void)state;
    static const char text[] = "{\"first\":[],\"last\":2}";
    struct json *root = NULL;
    pthread_t threads[4];
    fail_alloc_start(0); /* counts */
    assert_int_equal(jv_parse(tidings_str(text), 2, &root, NULL), 0);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, refer_often, root), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(fail_alloc_live(), 1); /* a lost count would have freed it */
    assert_int_equal(jv_int(jv_get(root, "last")), 2);
    jv_unref(root);
    assert_int_equal(fail_alloc_live(), 0); /* … or would still keep it */
    fail_alloc_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_found_in_objects_of_every_size),
        cmocka_unit_test(colliding_keys_are_spread_by_another_seed),
        cmocka_unit_test(elements_are_kept_in_arrays_of_every_size),
        cmocka_unit_test(duplicate_is_rejected_at_any_position),
        cmocka_unit_test(part_outlives_the_rest),
        cmocka_unit_test(patch_applies_to_objects_of_every_size),
        cmocka_unit_test(numbers_beyond_bounds_are_rejected_and_long_ones_read),
        cmocka_unit_test(failed_allocation_leaks_nothing),
        cmocka_unit_test(several_threads_refer_to_one_document),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
