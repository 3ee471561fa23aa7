/* SPDX-License-Identifier: MIT
 *
 * Client names: stored once, cut, and harmless.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/protocol/channel.h"
#include "formats/json.h"

static struct client_infos all;

static uint16_t intern(const char *json)
{
    struct json *info = NULL;
    assert_int_equal(jv_parse(tidings_str(json), 8, &info, NULL), 0);
    uint16_t number = client_info_intern(&all, info);
    jv_unref(info);
    return number;
}

static void equal_client_infos_are_shared_until_the_last_holder_leaves(void **state)
{
    (void)state;
    client_infos_init(&all);
    uint16_t a = intern("{\"name\":\"a\",\"version\":\"1\"}");
    assert_int_equal(a, intern("{\"version\":\"1\",\"name\":\"a\",\"title\":\"x\"}"));
    uint16_t b = intern("{\"name\":\"a\",\"version\":\"2\"}");
    assert_int_not_equal(a, b);
    assert_int_equal(all.by_key.count, 2);
    client_info_release(&all, a);
    assert_non_null(client_info_get(&all, a));
    client_info_release(&all, a);
    assert_null(client_info_get(&all, a));
    uint16_t c = intern("{\"name\":\"c\"}");
    assert_int_equal(c, a); /* slots are reused */
    assert_int_equal(client_info_get(&all, c)->version.len, 0);
    client_info_release(&all, 0);
    client_infos_deinit(&all);
}

static void client_info_without_name_has_no_number(void **state)
{
    (void)state;
    client_infos_init(&all);
    assert_int_equal(intern("{}"), 0);
    assert_int_equal(intern("[]"), 0);
    assert_int_equal(intern("{\"name\":7,\"version\":null}"), 0);
    assert_int_equal(intern("{\"name\":\"\"}"), 0);
    assert_int_equal(client_info_intern(&all, NULL), 0);
    assert_null(client_info_get(&all, 0));
    client_infos_deinit(&all);
}

static void names_are_cut_between_characters_and_cannot_drive_a_terminal(void **state)
{
    (void)state;
    client_infos_init(&all);
    uint16_t n = intern("{\"name\":\"\\u001b[2J\\u009b\\u202e\\u0000x\\u2066\\ud83d\\ude00\"}");
    assert_int_equal(client_info_get(&all, n)->name.len, 13);
    assert_memory_equal(client_info_get(&all, n)->name.ptr, "?[2J???x?\xf0\x9f\x98\x80", 13);
    char json[512];
    size_t at = (size_t)snprintf(json, sizeof(json), "{\"name\":\"a");
    for (int i = 0; i < 100; i++) {
        at += (size_t)snprintf(json + at, sizeof(json) - at, "\xc3\xa9");
    }
    snprintf(json + at, sizeof(json) - at, "\"}");
    n = intern(json);
    assert_int_equal(client_info_get(&all, n)->name.len, CLIENT_NAME_MAX - 1); /* a, 63 times é */
    client_infos_deinit(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_client_infos_are_shared_until_the_last_holder_leaves),
        cmocka_unit_test(client_info_without_name_has_no_number),
        cmocka_unit_test(names_are_cut_between_characters_and_cannot_drive_a_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
