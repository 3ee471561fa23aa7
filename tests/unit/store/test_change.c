/* SPDX-License-Identifier: MIT
 *
 * The record of one change: it copies everything, encodes shared strings once and counts
 * references. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "store/change.h"
#include "support/fail_alloc.h"

static void record_copies_its_data_and_encoded_strings(void **state)
{
    (void)state;
    char uri[] = "x:///a\"b";
    struct tidings_change change = {.uri = tidings_str(uri),
                                    .kind = TIDINGS_CHANGE_CREATED,
                                    .etag = STR("\"1\""),
                                    .from = STR("x:///old"),
                                    .metadata = STR("{\"k\":1}"),
                                    .size = 7,
                                    .has_size = true,
                                    .modified_ms = 9};
    struct change *c = change_create(&change, 0xab, 12);
    assert_non_null(c);
    memset(uri, '!', sizeof(uri));
    assert_true(str_eq(c->uri, STR("x:///a\"b")));
    assert_true(str_eq(c->uri_json, STR("\"x:///a\\\"b\"")));
    assert_true(str_eq(c->meta_json, STR(",\"dev.tidings/version\":\"ab.12\","
                                         "\"dev.tidings/etag\":\"\\\"1\\\"\","
                                         "\"dev.tidings/from\":\"x:///old\"")));
    assert_true(str_starts(c->metadata_json, STR("\"k\":1,\"updated_at\":9,\"size\":7,")));
    assert_true(str_ends(c->metadata_json, STR(",\"version\":\"ab.12\"")));
    assert_true(str_eq(change_metadata_plain(c), STR("\"k\":1")));
    /* The form for clients that may not see everything. */
    struct tidings_str unversioned = change_metadata_without_version(c);
    assert_true(str_starts(unversioned, STR("\"k\":1,\"updated_at\":9,\"size\":7,\"timestamp\":")));
    assert_int_equal(unversioned.len + sizeof(",\"version\":\"ab.12\"") - 1, c->metadata_json.len);
    assert_true(
        str_starts(str_skip(c->meta_json, c->meta_version_len), STR(",\"dev.tidings/etag\":")));
    assert_true(str_starts(str_skip(c->meta_json, c->meta_json.len - c->meta_from_len),
                           STR(",\"dev.tidings/from\":")));
    assert_int_equal(c->epoch, 0xab);
    assert_int_equal(c->seq, 12);
    assert_int_equal(c->size, 7);
    assert_int_equal(c->modified_ms, 9);
    assert_int_equal(c->lists, 0);
    assert_string_equal(tidings_change_name(c->kind), "created");
    assert_true(str_eq(c->from, STR("x:///old")));
    assert_string_equal(change_type_name(c, c->kind), "moved");
    assert_string_equal(change_type_name(c, TIDINGS_CHANGE_UPDATED), "updated");
    assert_true(change_bytes(c) > sizeof(*c) + c->uri.len);
    change_unref(c);
}

static void record_of_a_departure_names_the_destination(void **state)
{
    (void)state;
    const struct tidings_change move = {.uri = STR("x:///new\""),
                                        .from = STR("x:///old"),
                                        .kind = TIDINGS_CHANGE_MOVED,
                                        .etag = STR("2")};
    struct change *c = change_create_departure(&move, 1, 2);
    assert_non_null(c);
    assert_true(str_eq(c->uri, STR("x:///old")) && str_eq(c->uri_json, STR("\"x:///old\"")));
    assert_true(str_eq(c->to, STR("x:///new\"")) && str_eq(c->to_json, STR("\"x:///new\\\"\"")));
    assert_true(str_ends(c->meta_json, STR(",\"dev.tidings/from\":\"x:///old\"")));
    assert_int_equal(c->kind, TIDINGS_CHANGE_DELETED);
    assert_int_equal(change_kind_of(c, c->kind), TIDINGS_CHANGE_MOVED);
    assert_true(change_names_destination(c, c->kind, false));
    assert_false(change_names_destination(c, c->kind, true));
    /* It reappeared in the same window. */
    assert_false(change_names_destination(c, TIDINGS_CHANGE_UPDATED, false));
    change_unref(c);
}

static void record_without_a_resource_is_list_changed(void **state)
{
    (void)state;
    struct change *c = change_create_list_event(CHANGE_LIST, 1, 2);
    assert_non_null(c);
    assert_int_equal(c->lists, LIST_RESOURCES);
    assert_int_equal(c->uri.len, 0);
    assert_int_equal(c->size, -1);
    assert_true(str_eq(c->meta_json, STR(",\"dev.tidings/version\":\"1.2\"")));
    change_unref(c);
}

static void application_keys_have_precedence(void **state)
{
    (void)state;
    struct tidings_change change = {
        .uri = STR("x:///a"),
        .metadata = STR("{\"version\":\"v7\",\"size\":1,\"updated_at\":2,\"timestamp\":3,"
                        "\"change_type\":\"lie\",\"checksum\":\"c\"}"),
        .checksum = STR("other"),
        .size = 9,
        .has_size = true,
    };
    struct change *c = change_create(&change, 1, 2);
    assert_non_null(c);
    assert_true(str_eq(c->metadata_json,
                       STR("\"version\":\"v7\",\"size\":1,\"updated_at\":2,\"timestamp\":3,"
                           "\"checksum\":\"c\"")));
    assert_true(str_eq(change_metadata_plain(c), c->metadata_json));
    assert_true(str_eq(c->own_type_json, STR("\"lie\"")));
    change_unref(c);
}

static void plain_form_without_metadata_has_time_size_and_checksum(void **state)
{
    (void)state;
    struct tidings_change change = {
        .uri = STR("x:///a"), .checksum = STR("c"), .size = 9, .has_size = true, .modified_ms = 5};
    struct change *c = change_create(&change, 1, 2);
    assert_non_null(c);
    assert_true(
        str_eq(change_metadata_plain(c), STR("\"updated_at\":5,\"size\":9,\"checksum\":\"c\"")));
    assert_int_equal(c->own_type_json.len, 0);
    change_unref(c);
}

static void last_reference_frees_the_record_and_failures_leak_nothing(void **state)
{
    (void)state;
    struct tidings_change change = {.uri = STR("x:///a")};
    for (long n = 1;; n++) {
        fail_alloc_start(n);
        struct change *c = change_create(&change, 1, 2);
        bool reached = fail_alloc_stop();
        assert_int_equal(c == NULL, reached);
        if (c) {
            struct change *again = change_ref(c);
            assert_ptr_equal(again, c);
            change_unref(c);
            assert_int_equal(again->seq, 2);
        }
        change_unref(c);
        assert_int_equal(fail_alloc_live(), 0);
        if (!reached) {
            break;
        }
    }
    fail_alloc_end();
    change_unref(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(record_copies_its_data_and_encoded_strings),
        cmocka_unit_test(record_of_a_departure_names_the_destination),
        cmocka_unit_test(record_without_a_resource_is_list_changed),
        cmocka_unit_test(application_keys_have_precedence),
        cmocka_unit_test(plain_form_without_metadata_has_time_size_and_checksum),
        cmocka_unit_test(last_reference_frees_the_record_and_failures_leak_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
