/* SPDX-License-Identifier: MIT
 *
 * Server rules for subscriptions below a URI prefix: defaults and forbidden options.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct harness b;
static struct stub files;

static int begin(void **state)
{
    (void)state;
    harness_init(&b);
    b.self.list_changed = b.options.list_changed = false;
    harness_start(&b);
    stub_mount(&files, &b, "mem://x/", STUB_QUERY);
    stub_add(&files, "mem://x/a", false);
    stub_add(&files, "mem://x/dir/", true);
    stub_add(&files, "mem://x/dir/one", false);
    harness_add_template(&b, "weather://city/{location}");
    return 0;
}

static int end(void **state)
{
    (void)state;
    harness_stop(&b);
    return 0;
}

struct row {
    const char *spelled, *options;
    const char *refused; /* part of the reason; NULL: honoured, and … */
    const char *hears, *deaf;
};

static void check(const struct row *r)
{
    struct client *c = listen_with(&b, text_of("[\"%s\"]", r->spelled), r->options);
    const char *reason = refused_reason(c, r->spelled);
    if (!reason != !r->refused || (reason && !strstr(reason, r->refused))) {
        fail_msg("'%s': %s", r->spelled, reason ? reason : "honoured");
    }
    if (r->hears) {
        harness_update(&b, r->deaf);
        harness_update(&b, r->hears);
        harness_run_until_idle(&b);
        assert_int_equal(update_count(c, NULL), 1);
        assert_json(update_nth(c, r->spelled, 0), "params|uri", r->hears);
    }
    client_free(c);
    harness_run_until_idle(&b);
    assert_int_equal(stub_watched_all(&files), 0);
    assert_int_equal(b.worker[0]->stats.subscriptions, 0);
}

static void rule_decides_the_allowed_kinds_and_options(void **state)
{
    (void)state;
    const struct option_rule set[] = {
        {
            .prefix = STR("mem://x/dir/"),
            .defaults = {.given = OPTION_MATCH, .match = OPTION_MATCH_LITERAL},
            .ceiling = {.given = OPTION_INCLUDE, .include = OPTION_INCLUDE_METADATA},
        },
        {
            .prefix = STR("weather://city/"),
            .ceiling = {.given = OPTION_MATCH, .matches = 1u << OPTION_MATCH_LITERAL},
        },
    };
    static const struct row table[] = {
        /* the name below the prefix is literal by default */
        {"mem://x/dir/", NULL, NULL, "mem://x/dir/", "mem://x/dir/one"},
        {"mem://x/dir/*", NULL, "not found", NULL, NULL},
        {"mem://x/dir/*", "{\"match\":\"auto\"}", NULL, "mem://x/dir/one", "mem://x/a"},
        {"mem://x/dir/one", "{\"include\":\"value\"}", "'include'", NULL, NULL},
        {"mem://x/*", "{\"include\":\"value\"}", "'include'", NULL, NULL},
        {"x", "{\"include\":\"value\",\"match\":\"regex\"}", "'include'", NULL, NULL},
        {"weather://city/{a}", NULL, "kind template; accepted here are: literal", NULL, NULL},
        {"weather://city/", NULL, "kind container; accepted", NULL, NULL},
        {"weather://**", NULL, "kind glob; accepted", NULL, NULL},
        {"weather://city/rome", NULL, NULL, "weather://city/rome", "weather://city/bonn"},
    };
    b.option_limits.rules = set;
    b.option_limits.rule_count = COUNT(set);
    for (size_t i = 0; i < COUNT(table); i++) {
        check(&table[i]);
    }
}

/* include, initial, origin and echo of a rule reach the subscription in both eras. */
static void defaults_of_a_rule_are_those_of_the_subscription(void **state)
{
    (void)state;
    const struct option_rule rule = {
        .defaults =
            {
                .given = OPTION_INCLUDE | OPTION_INITIAL | OPTION_ORIGIN | OPTION_ECHO,
                .include = OPTION_INCLUDE_METADATA,
                .initial = true,
                .origin = STR("batch"),
                .echo = false,
            },
    };
    b.option_limits.rules = &rule;
    b.option_limits.rule_count = 1;
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    struct client *stream = session_stream(&s, NULL);
    const char *answer = session_subscribe_with(&s, "mem://x/a", NULL);
    assert_non_null(strstr(answer, "\"result\""));
    struct client *listens[2] = {listen_with(&b, "[\"mem://x/a\"]", NULL), stream};
    struct tidings_change change = {.uri = STR("mem://x/a"), .origin = STR("batch")};
    harness_announce(&b, &change);
    change.origin = STR("somebody");
    harness_announce(&b, &change);
    harness_run_until_idle(&b);
    for (size_t i = 0; i < COUNT(listens); i++) {
        assert_int_equal(update_count(listens[i], NULL), 2);
        assert_json(update_nth(listens[i], NULL, 0), "params|_meta|dev.tidings/initial", "true");
        assert_json(update_nth(listens[i], NULL, 1), "params|metadata|change_type", "updated");
        assert_int_equal(version_of(update_nth(listens[i], NULL, 1)), 2);
    }
    client_free(listens[0]);
    client_free(stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rule_decides_the_allowed_kinds_and_options, begin, end),
        cmocka_unit_test_setup_teardown(defaults_of_a_rule_are_those_of_the_subscription, begin,
                                        end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
