/* SPDX-License-Identifier: MIT
 *
 * Entity URIs: each form and its parts, one spelling for each, and the message of every refusal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sources/entity.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void entity_uris_are_parsed_and_rebuilt_in_each_form(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
        enum entity_uri_kind kind;
    } rows[] = {
        {"entity:///", "entity:///", ENTITY_URI_ROOT},
        {"entity:///types", "entity:///types", ENTITY_URI_TYPES},
        {"entity:///User@1.0/", "entity:///User@1.0/", ENTITY_URI_TYPE},
        {"entity:///User@1.0", "entity:///User@1.0/", ENTITY_URI_TYPE},
        {"entity:///types@1/", "entity:///types@1/", ENTITY_URI_TYPE},
        {"entity:///?parent=p.1", "entity:///?parent=p.1", ENTITY_URI_ROOT},
        {"entity:///User@1/?parent=p", "entity:///User@1/?parent=p", ENTITY_URI_TYPE},
        {"entity:///User@1.0/u-1.x_Y", "entity:///User@1.0/u-1.x_Y", ENTITY_URI_CURRENT},
        {"entity:///u-1", "entity:///u-1", ENTITY_URI_CURRENT},
        {"entity:///u-1/patch", "entity:///u-1/patch", ENTITY_URI_PATCH},
        {"entity:///u/at/2024-01-01T10:00:00Z", "entity:///u/at/2024-01-01T10:00:00.000Z",
         ENTITY_URI_AT},
        {"entity:///User@1.0/u/patch", "entity:///User@1.0/u/patch", ENTITY_URI_PATCH},
        {"entity:///U@1/u/patch/2024-01-01T10:00:00Z",
         "entity:///U@1/u/patch/2024-01-01T10:00:00.000Z", ENTITY_URI_PATCH_FROM},
        {"entity:///U@1/u/at/2024-01-01T10:00:00.120Z",
         "entity:///U@1/u/at/2024-01-01T10:00:00.120Z", ENTITY_URI_AT},
        {"entity:///U@1/u/at/2024-01-01T12:00:00+02:00",
         "entity:///U@1/u/at/2024-01-01T10:00:00.000Z", ENTITY_URI_AT},
        {"entity:///U@1/at/at/2024-01-01T10:00:00Z", "entity:///U@1/at/at/2024-01-01T10:00:00.000Z",
         ENTITY_URI_AT},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct entity_uri uri, again;
        struct tidings_error err = {0};
        struct buf out;
        buf_init(&out, ENTITY_URI_MAX);
        if (entity_uri_parse(tidings_str(rows[i].in), &uri, &err) < 0) {
            fail_msg("%s: %s", rows[i].in, err.text);
        }
        assert_int_equal(uri.kind, rows[i].kind);
        assert_int_equal(entity_uri_build(&uri, &out), 0);
        assert_string_equal(out.ptr, rows[i].out);
        assert_int_equal(entity_uri_parse(buf_str(&out), &again, &err), 0);
        assert_int_equal(again.kind, uri.kind);
        assert_int_equal(again.time, uri.time);
        assert_int_equal(entity_uri_is_short(buf_str(&out)), uri.id.len > 0 && uri.type.len == 0);
        assert_true(str_eq(again.id, uri.id) && str_eq(again.parent, uri.parent));
        buf_deinit(&out);
    }
}

static void invalid_entity_uris_are_rejected_with_the_expected_form(void **state)
{
    (void)state;
    static const struct {
        const char *in, *says;
    } rows[] = {
        {"entity://host/User@1/u", "begin with entity:///"},
        {"file:///User@1/u", "begin with entity:///"},
        {"entity:///User/u", "{type}@{version}"},
        {"entity:///User@/u", "{type}@{version}"},
        {"entity:///@1/u", "{type}@{version}"},
        {"entity:///Us.er@1/u", "{type}@{version}"},
        {"entity:///User@1@2/u", "{type}@{version}"},
        {"entity:///types/", "{type}@{version}"},
        {"entity:///User@1//patch", "not a valid entity id"},
        {"entity:///User@1/a%20b", "not a valid entity id"},
        {"entity:///User@1/a/", "may not follow"},
        {"entity:///User@1/a/pätch", "may not follow"},
        {"entity:///User@1/a/history", "may not follow"},
        {"entity:///User@1/a/patch/", "2024"},
        {"entity:///User@1/a/at", "2024"},
        {"entity:///User@1/a/at/yesterday", "2024"},
        {"entity:///User@1/a/at/2024-01-01T10:00:00Z/x", "2024"},
        {"entity:///User@1/a?at=2024-01-01T10:00:00Z", "/at/{timestamp}"},
        {"entity:///User@1/a?patchFrom=2024-01-01T10:00:00Z", "/patch/{baseline}"},
        {"entity:///User@1/a?parent=p", "only ?parent={id}"},
        {"entity:///types?parent=p", "only ?parent={id}"},
        {"entity:///User@1/?child=p", "only ?parent={id}"},
        {"entity:///User@1/?parent=", "not a valid parent id"},
        {"entity:///User@1/?parent=a&x=y", "not a valid parent id"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct entity_uri uri;
        struct tidings_error err = {0};
        assert_int_equal(entity_uri_parse(tidings_str(rows[i].in), &uri, &err), TIDINGS_E_INVALID);
        if (!strstr(err.text, rows[i].says)) {
            fail_msg("%s: '%s' does not say '%s'", rows[i].in, err.text, rows[i].says);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entity_uris_are_parsed_and_rebuilt_in_each_form),
        cmocka_unit_test(invalid_entity_uris_are_rejected_with_the_expected_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
