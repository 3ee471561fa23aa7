/* SPDX-License-Identifier: MIT
 *
 * Subscription rules in the configuration: of mounts and of URI prefixes, from every source,
 * printed and read back. Their effect is tested in worker.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"
#include "server/option_rules.h"

static int load(struct config *c, const char *text, struct tidings_error *err)
{
    return config_load_text(c, "tidings.json", tidings_str(text), err);
}

static void option_rules_apply_mounts_then_prefixes_by_length(void **state)
{
    (void)state;
    static char variable[] = "TIDINGS_SUBSCRIPTION={\"uri\":\"A:///\",\"options\":{\"rateMs\":1}}";
    static char *const environment[] = {variable, NULL};
    struct config c;
    struct tidings_error err = {0};
    struct rules rules;
    assert_int_equal(config_init(&c, NULL), 0);
    assert_int_equal(
        load(
            &c,
            "{\"mounts\": [{\"path\": \"/srv\", \"options\": {\"include\": \"metadata\"},"
            " \"limits\": {\"initial\": false}}],"
            " \"subscriptions\": [{\"uri\": \"file:///srv/logs/\", \"options\": {\"windowMs\": 9}},"
            " {\"limits\": {\"match\": [\"glob\"], \"rateMs\": 5}}]}",
            &err),
        0);
    assert_int_equal(rules_init(&rules, &c, NULL, &err), 0);
    assert_int_equal(rules.count, 3);
    assert_int_equal(rules.at[0].prefix.len, 0);
    assert_int_equal(rules.at[0].ceiling.given, OPTION_MATCH | OPTION_RATE);
    assert_int_equal(rules.at[0].ceiling.matches, 1u << OPTION_MATCH_GLOB);
    assert_true(str_eq(rules.at[1].prefix, STR("file:///srv/")));
    assert_int_equal(rules.at[1].defaults.include, OPTION_INCLUDE_METADATA);
    assert_int_equal(rules.at[1].ceiling.refused, OPTION_INITIAL);
    assert_true(str_eq(rules.at[2].prefix, STR("file:///srv/logs/")));
    assert_int_equal(rules.at[2].defaults.window_ms, 9);
    rules_deinit(&rules);

    /* printed rules read back unchanged */
    struct buf printed;
    struct config d;
    buf_init(&printed, 1u << 20);
    assert_int_equal(config_print(&c, &printed), 0);
    assert_int_equal(config_init(&d, NULL), 0);
    assert_int_equal(load(&d, printed.ptr, &err), 0);
    assert_string_equal(d.mounts[0].limits, "{\"initial\":false}");
    assert_int_equal(d.subscriptions.count, 2);
    buf_deinit(&printed);
    config_deinit(&d);

    /* a higher source replaces the list; commas in JSON are not separators */
    assert_int_equal(config_load_env(&c, environment, &err), 0);
    assert_int_equal(rules_init(&rules, &c, NULL, &err), 0);
    assert_int_equal(rules.count, 2);
    assert_true(str_eq(rules.at[0].prefix, STR("a:///")));
    rules_deinit(&rules);
    config_deinit(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(option_rules_apply_mounts_then_prefixes_by_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
