/* SPDX-License-Identifier: MIT
 *
 * The options of a subscription: every field, its accepted values, and the error messages.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/delivery/options.h"
#include "engine/protocol/dialect.h"
#include "support/harness_json.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct option_limits limits = {
    .window_ms = 100,
    .rate_ms = 7,
    .max_window_ms = 60000,
    .max_rate_ms = 3000,
};

/* `ret` may borrow from the document, so the document lives until the end of the test. */
static struct json *document;

static int take(const char *text, bool uris, struct options *o, struct tidings_error *err)
{
    jv_unref(document);
    document = NULL;
    assert_int_equal(jv_parse(tidings_str(text), JSON_MAX_DEPTH, &document, NULL), 0);
    options_init(o);
    int rc = options_read(o, document, uris, err);
    unsigned matches;
    return rc < 0 ? rc : options_resolve(o, &limits, STR("a:///b"), &matches, err);
}

static int forget(void **state)
{
    (void)state;
    jv_unref(document);
    document = NULL;
    return 0;
}

static void defaults_are_those_of_the_server(void **state)
{
    (void)state;
    struct options o;
    struct tidings_error err;
    assert_int_equal(take("{}", false, &o, &err), 0);
    assert_int_equal(o.match, OPTION_MATCH_AUTO);
    assert_int_equal(o.include, OPTION_INCLUDE_NONE);
    assert_int_equal(o.window_ms, 100);
    assert_int_equal(o.rate_ms, 7);
    assert_false(o.given || o.initial);
    assert_true(o.echo);
    assert_int_equal(o.origin.len, 0);
    assert_int_equal(options_read(&o, NULL, false, &err), 0);
    assert_int_equal(o.window_ms, 100);
}

static void fields_are_all_parsed(void **state)
{
    (void)state;
    struct options o;
    struct tidings_error err;
    assert_int_equal(take("{\"match\":\"regex\",\"windowMs\":0,\"rateMs\":3000,\"include\":"
                          "\"value\",\"initial\":true,\"since\":\"ab.12\",\"origin\":\"me\","
                          "\"echo\":false,\"filter\":{\"required\":[]},\"order\":\"strict\","
                          "\"bookmarks\":true,\"detail\":\"slim\",\"gather\":true}",
                          false, &o, &err),
                     0);
    assert_int_equal(o.match, OPTION_MATCH_REGEX);
    assert_int_equal(o.include, OPTION_INCLUDE_VALUE);
    assert_int_equal(o.given, 0x3dff);
    assert_true(o.initial && !o.echo && o.is_strict && o.bookmarks && o.is_slim && o.gather);
    assert_int_equal(o.window_ms, 0);
    assert_int_equal(o.rate_ms, 3000);
    assert_int_equal(o.since.epoch, 0xab);
    assert_int_equal(o.since.seq, 12);
    assert_true(str_eq(o.origin, STR("me")));
    assert_true(jv_is(jv_get(o.filter, "required"), JV_ARRAY));
}

static void choices_each_have_their_meaning(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum option_match match;
    } matches[] = {
        {"auto", OPTION_MATCH_AUTO},           {"literal", OPTION_MATCH_LITERAL},
        {"container", OPTION_MATCH_CONTAINER}, {"template", OPTION_MATCH_TEMPLATE},
        {"glob", OPTION_MATCH_GLOB},           {"regex", OPTION_MATCH_REGEX},
    };
    static const struct {
        const char *name;
        enum option_include include;
    } includes[] = {
        {"none", OPTION_INCLUDE_NONE},
        {"metadata", OPTION_INCLUDE_METADATA},
        {"value", OPTION_INCLUDE_VALUE},
        {"patch", OPTION_INCLUDE_PATCH},
    };
    struct options o;
    struct tidings_error err;
    for (size_t i = 0; i < COUNT(matches); i++) {
        assert_int_equal(take(text_of("{\"match\":\"%s\"}", matches[i].name), false, &o, &err), 0);
        assert_int_equal(o.match, matches[i].match);
    }
    for (size_t i = 0; i < COUNT(includes); i++) {
        assert_int_equal(take(text_of("{\"include\":\"%s\"}", includes[i].name), false, &o, &err),
                         0);
        assert_int_equal(o.include, includes[i].include);
    }
}

static void invalid_option_is_refused_with_field_and_accepted_values(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *said[3];
    } rows[] = {
        {"{\"match\":\"exact\"}", {"'match'", "literal", "regex"}},
        {"{\"match\":7}", {"'match'", "glob", "template"}},
        {"{\"match\":null}", {"'match'", "container", "auto"}},
        {"{\"match\":\"Regex\"}", {"'match'", "regex", "one of"}},
        {"{\"include\":\"diff\"}", {"'include'", "none", "patch"}},
        {"{\"detail\":\"thin\"}", {"'detail'", "full", "slim"}},
        {"{\"detail\":true}", {"'detail'", "full", "slim"}},
        {"{\"baseline\":7}", {"'baseline'", "etag", "validFrom"}},
        {"{\"initialBaseline\":\"\"}", {"'baseline'", "etag", "validFrom"}},
        {"{\"baseline\":\"a\",\"initialBaseline\":\"b\"}", {"two different", NULL, NULL}},
        {"{\"include\":true}", {"'include'", "metadata", "one of"}},
        {"{\"windowMs\":-1}", {"'windowMs'", "0 to 86400000", "milliseconds"}},
        {"{\"windowMs\":60001}", {"'windowMs'", "0 to 60000", "integer"}},
        {"{\"windowMs\":\"100\"}", {"'windowMs'", "integer", "milliseconds"}},
        {"{\"windowMs\":1.5}", {"'windowMs'", "integer", "milliseconds"}},
        {"{\"windowMs\":9223372036854775807}", {"'windowMs'", "integer", "milliseconds"}},
        {"{\"rateMs\":3001}", {"'rateMs'", "0 to 3000", "integer"}},
        {"{\"rateMs\":[]}", {"'rateMs'", "milliseconds", "integer"}},
        {"{\"initial\":1}", {"'initial'", "true", "false"}},
        {"{\"initial\":\"true\"}", {"'initial'", "true", "false"}},
        {"{\"echo\":0}", {"'echo'", "true", "false"}},
        {"{\"order\":true}", {"'order'", "merged", "strict"}},
        {"{\"bookmarks\":\"yes\"}", {"'bookmarks'", "true", "false"}},
        {"{\"gather\":100}", {"'gather'", "true", "false"}},
        {"{\"origin\":\"\"}", {"'origin'", "1 to 256", "string"}},
        {"{\"origin\":7}", {"'origin'", "1 to 256", "string"}},
        {"{\"since\":5}", {"'since'", "cursor", NULL}},
        {"{\"since\":\"5\"}", {"'since'", "cursor", NULL}},
        {"{\"since\":\"x.5\"}", {"'since'", "cursor", NULL}},
        {"{\"filter\":true}", {"'filter'", "object", "JSON Schema"}},
        {"{\"filter\":\"{}\"}", {"'filter'", "object", "JSON Schema"}},
        {"{\"filters\":{}}", {"'filters'", "windowMs", "filter"}},
        {"{\"windowms\":1}", {"'windowms'", "windowMs", "known"}},
        {"{\"\":1}", {"''", "known", "match"}},
        {"{\"uris\":{}}", {"'uris'", "known", "match"}},
        {"[]", {"dev.tidings/options", "object", NULL}},
        {"[\"match\"]", {"dev.tidings/options", "object", NULL}},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct options o;
        struct tidings_error err = {0};
        assert_int_equal(take(rows[i].text, false, &o, &err), TIDINGS_E_INVALID);
        for (size_t k = 0; k < COUNT(rows[i].said) && rows[i].said[k]; k++) {
            if (!strstr(err.text, rows[i].said[k])) {
                fail_msg("%s: \"%s\" does not say %s", rows[i].text, err.text, rows[i].said[k]);
            }
        }
    }
}

static void invalid_field_rejects_all_options(void **state)
{
    (void)state;
    struct options o;
    struct tidings_error err;
    assert_int_equal(take("{\"windowMs\":5,\"initial\":true,\"rateMs\":-1}", false, &o, &err),
                     TIDINGS_E_INVALID);
    struct options before;
    options_init(&before);
    assert_memory_equal(&o, &before, sizeof(o));
}

static void unknown_long_name_is_cut_in_the_error_message(void **state)
{
    (void)state;
    char name[512], text[600];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    snprintf(text, sizeof(text), "{\"%s\":1}", name);
    struct options o;
    struct tidings_error err;
    assert_int_equal(take(text, false, &o, &err), TIDINGS_E_INVALID);
    assert_non_null(strstr(err.text, "known are match"));
}

static void origin_is_limited_to_256_bytes(void **state)
{
    (void)state;
    char text[400];
    struct options o;
    struct tidings_error err;
    memset(text, 'o', sizeof(text));
    for (unsigned len = 256; len <= 257; len++) {
        const char *json = text_of("{\"origin\":\"%.*s\"}", (int)len, text);
        assert_int_equal(take(json, false, &o, &err), len == 256 ? 0 : TIDINGS_E_INVALID);
    }
}

static void ceiling_itself_is_allowed(void **state)
{
    (void)state;
    struct options o;
    struct tidings_error err;
    assert_int_equal(take("{\"windowMs\":60000,\"rateMs\":3000}", false, &o, &err), 0);
    assert_int_equal(o.window_ms, 60000);
    static const struct option_limits none = {0};
    jv_unref(document);
    document = NULL;
    assert_int_equal(jv_parse(STR("{\"windowMs\":1}"), 8, &document, NULL), 0);
    unsigned matches;
    options_init(&o);
    assert_int_equal(options_read(&o, document, false, &err), 0);
    assert_int_equal(options_resolve(&o, &none, STR_EMPTY, &matches, &err), TIDINGS_E_INVALID);
    assert_non_null(strstr(err.text, "0 to 0"));
}

static void uris_member_is_ignored_only_where_it_belongs(void **state)
{
    (void)state;
    struct options o;
    struct tidings_error err;
    assert_int_equal(take("{\"uris\":{\"a:b\":{\"match\":7}},\"windowMs\":3}", true, &o, &err), 0);
    assert_int_equal(o.window_ms, 3);
    assert_int_equal(take("{\"uris\":{}}", false, &o, &err), TIDINGS_E_INVALID);
}

static void later_options_replace_earlier_ones(void **state)
{
    (void)state;
    struct options o;
    struct tidings_error err;
    assert_int_equal(take("{\"windowMs\":3,\"initial\":true}", false, &o, &err), 0);
    struct json *own = NULL;
    assert_int_equal(jv_parse(STR("{\"windowMs\":4,\"rateMs\":9}"), 8, &own, NULL), 0);
    assert_int_equal(options_read(&o, own, false, &err), 0);
    jv_unref(own);
    assert_int_equal(o.window_ms, 4);
    assert_int_equal(o.rate_ms, 9);
    assert_true(o.initial);
}

/* ---- rules ------------------------------------------------------------------------------------
 */

/* Rules of three prefixes; their borrowed data lives as long as the test. */
static struct json *rule_documents[3];
static struct option_rule rules[3];

static struct option_limits limits_with_rules(void)
{
    static const struct {
        const char *prefix, *text;
    } rows[] = {
        {"", "[{\"include\":\"metadata\",\"echo\":false,\"origin\":\"batch\"},{\"since\":false}]"},
        {"file:///logs/",
         "[{\"windowMs\":500,\"initial\":true,\"match\":\"glob\",\"filter\":{\"title\":\"logs\"}},"
         "{\"windowMs\":900000,\"include\":\"metadata\",\"initial\":false,"
         "\"match\":[\"literal\",\"container\"],\"since\":true}]"},
        {"file:///logs/hot/", "[{\"windowMs\":0,\"rateMs\":9,\"detail\":\"slim\"},"
                              "{\"rateMs\":10,\"origin\":false,"
                              "\"echo\":false,\"filter\":false,\"order\":false}]"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct json **d = &rule_documents[i];
        jv_unref(*d);
        assert_int_equal(jv_parse(tidings_str(rows[i].text), 8, d, NULL), 0);
        assert_int_equal(option_rule_read(&rules[i], jv_at(*d, 0), jv_at(*d, 1), NULL), 0);
        rules[i].prefix = tidings_str(rows[i].prefix);
    }
    struct option_limits with = limits;
    with.rules = rules;
    with.rule_count = COUNT(rules);
    return with;
}

static int forget_rules(void **state)
{
    for (size_t i = 0; i < COUNT(rule_documents); i++) {
        jv_unref(rule_documents[i]);
        rule_documents[i] = NULL;
    }
    return forget(state);
}

static int read_and_resolve(const char *text, const char *uri, struct options *o, unsigned *matches,
                            struct tidings_error *err)
{
    struct option_limits with = limits_with_rules();
    jv_unref(document);
    document = NULL;
    assert_int_equal(jv_parse(tidings_str(text), JSON_MAX_DEPTH, &document, NULL), 0);
    options_init(o);
    assert_int_equal(options_read(o, document, false, err), 0);
    return options_resolve(o, &with, tidings_str(uri), matches, err);
}

static void defaults_come_from_the_longest_prefix_that_has_any(void **state)
{
    (void)state;
    struct options o;
    unsigned matches;
    assert_int_equal(read_and_resolve("{}", "db:///x", &o, &matches, NULL), 0);
    assert_int_equal(o.include, OPTION_INCLUDE_METADATA);
    assert_true(!o.echo && str_eq(o.origin, STR("batch")) && !o.initial);
    assert_int_equal(o.window_ms, 100);
    assert_int_equal(matches, UINT_MAX);

    assert_int_equal(read_and_resolve("{}", "file:///logs/a.log", &o, &matches, NULL), 0);
    assert_int_equal(o.include, OPTION_INCLUDE_METADATA);
    assert_int_equal(o.window_ms, 500);
    assert_int_equal(o.match, OPTION_MATCH_GLOB);
    assert_true(o.initial);
    assert_int_equal(matches, 1u << OPTION_MATCH_LITERAL | 1u << OPTION_MATCH_CONTAINER);

    assert_true(str_eq(jv_str(jv_get(o.filter, "title")), STR("logs")));
    assert_int_equal(read_and_resolve("{}", "file:///logs/hot/", &o, &matches, NULL), 0);
    assert_int_equal(o.window_ms, 0);
    assert_int_equal(o.rate_ms, 9);
    assert_true(o.initial && o.is_slim);
    assert_int_equal(
        read_and_resolve("{\"detail\":\"full\"}", "file:///logs/hot/", &o, &matches, NULL), 0);
    assert_false(o.is_slim);

    /* A subscription that overlaps a prefix is not within it. */
    assert_int_equal(read_and_resolve("{}", "file:///", &o, &matches, NULL), 0);
    assert_int_equal(o.window_ms, 100);
    assert_false(o.initial || o.is_slim);
    assert_null(o.filter);
}

static void client_options_replace_defaults(void **state)
{
    (void)state;
    struct options o;
    unsigned matches;
    assert_int_equal(
        read_and_resolve("{\"windowMs\":7,\"include\":\"none\",\"initial\":false,\"echo\":true,"
                         "\"match\":\"literal\",\"filter\":{}}",
                         "file:///logs/a", &o, &matches, NULL),
        0);
    assert_int_equal(o.window_ms, 7);
    assert_int_equal(o.include, OPTION_INCLUDE_NONE);
    assert_int_equal(o.match, OPTION_MATCH_LITERAL);
    assert_true(o.echo && !o.initial);
    assert_int_equal(jv_count(o.filter), 0);
}

static void ceilings_apply_inside_a_prefix_and_to_overlapping_subscriptions(void **state)
{
    (void)state;
    static const struct {
        const char *text, *uri, *said; /* NULL: accepted */
    } rows[] = {
        /* the server's ceiling is 60000; the prefix allows more, overlapping subscriptions do
         * not get it */
        {"{\"windowMs\":60001}", "file:///other", "0 to 60000"},
        {"{\"windowMs\":900000}", "file:///logs/a", NULL},
        {"{\"windowMs\":900001}", "file:///logs/a", "0 to 900000"},
        {"{\"windowMs\":60001}", "file:///", "0 to 60000"},
        {"{\"rateMs\":10}", "file:///logs/hot/a", NULL},
        {"{\"rateMs\":11}", "file:///logs/hot/a", "0 to 10"},
        {"{\"rateMs\":11}", "file:///logs/", "0 to 10"},
        {"{\"rateMs\":11}", "", "0 to 10"},
        {"{\"rateMs\":11}", "file:///logs/cold", NULL},
        {"{\"include\":\"value\"}", "file:///other", NULL},
        {"{\"include\":\"value\"}", "file:///logs/a", "at most 'metadata'"},
        {"{\"include\":\"value\"}", "file:///", "at most 'metadata'"},
        {"{\"include\":\"patch\"}", "file:///logs/a", "at most 'metadata'"},
        {"{\"initial\":true}", "file:///other", NULL},
        {"{\"initial\":true}", "file:///logs/a", "'initial'"},
        {"{\"initial\":true}", "", "'initial'"},
        {"{\"since\":\"a.1\"}", "file:///other", "'since'"},
        {"{\"since\":\"a.1\"}", "file:///logs/a", NULL},
        {"{\"origin\":\"me\"}", "file:///logs/hot/a", "'origin'"},
        {"{\"echo\":false}", "file:///logs/hot/a", "'echo'"},
        {"{\"echo\":true}", "file:///logs/hot/a", NULL},
        {"{\"order\":\"strict\"}", "file:///logs/hot/a", "'order'"},
        {"{\"order\":\"merged\"}", "file:///logs/hot/a", NULL},
        {"{\"order\":\"strict\"}", "file:///logs/a", NULL},
        {"{\"filter\":{}}", "file:///logs/hot/a", "'filter'"},
        {"{\"filter\":{}}", "file:///logs/", "'filter'"},
        {"{\"filter\":{}}", "file:///logs/a", NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct options o;
        unsigned matches;
        struct tidings_error err = {0};
        int rc = read_and_resolve(rows[i].text, rows[i].uri, &o, &matches, &err);
        if (rc != (rows[i].said ? TIDINGS_E_INVALID : 0) ||
            (rows[i].said && !strstr(err.text, rows[i].said))) {
            fail_msg("%s of '%s': %d \"%s\"", rows[i].text, rows[i].uri, rc, err.text);
        }
    }
}

static void access_rule_is_checked_field_by_field(void **state)
{
    (void)state;
    static const struct {
        const char *text, *said;
    } rows[] = {
        {"[{\"windowMs\":\"1s\"},{}]", "'windowMs'"},
        {"[{\"since\":\"a.1\"},{}]", "'since' has no default"},
        {"[{\"uris\":{}},{}]", "unknown option 'uris'"},
        {"[{\"filter\":{\"properties\":{\"uri\":{\"type\":7}}}},{}]", "/properties/uri/type"},
        {"[{},{\"filter\":{}}]", "'filter' must be true or false"},
        {"[{},{\"match\":\"glob\"}]", "'match' must be an array"},
        {"[{},{\"match\":[]}]", "'match' must be an array"},
        {"[{},{\"match\":[\"auto\"]}]", "'match' must be one of literal"},
        {"[{},{\"include\":true}]", "'include'"},
        {"[{},{\"initial\":\"no\"}]", "'initial'"},
        {"[{},{\"since\":\"a.1\"}]", "'since' must be true or false"},
        {"[{},{\"rateMs\":86400001}]", "'rateMs'"},
        {"[{},{\"order\":\"strict\"}]", "'order' must be true or false"},
        {"[{},{\"bookmarks\":false}]", "'bookmarks' has no limit"},
        {"[{},{\"gather\":false}]", "'gather' has no limit"},
        {"[{},{\"detail\":false}]", "'detail' has no limit"},
        {"[{},{\"detail\":\"slim\"}]", "'detail' has no limit"},
        {"[{},{\"window\":1}]", "unknown option 'window'"},
        {"[7,{}]", "must be objects"},
        {"[{},[]]", "must be objects"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct option_rule rule;
        struct tidings_error err = {0};
        jv_unref(document);
        document = NULL;
        assert_int_equal(jv_parse(tidings_str(rows[i].text), 8, &document, NULL), 0);
        int rc = option_rule_read(&rule, jv_at(document, 0), jv_at(document, 1), &err);
        if (rc != TIDINGS_E_INVALID || !strstr(err.text, rows[i].said)) {
            fail_msg("%s: %d \"%s\"", rows[i].text, rc, err.text);
        }
    }
}

static void defaults_apply_to_omitted_options(void **state)
{
    (void)state;
    const struct dialect_defaults defaults = {.metadata = true, .rate_ms = 1000, .gather = true},
                                  none = {0};
    struct options o;
    struct option_limits own = {0};
    options_init(&o);
    options_default(&o, &own, &defaults);
    assert_int_equal(o.include, OPTION_INCLUDE_METADATA);
    assert_int_equal(own.rate_ms, 1000);
    assert_true(own.gather);
    options_init(&o);
    o.given = OPTION_INCLUDE;
    options_default(&o, &own, &defaults);
    assert_int_equal(o.include, OPTION_INCLUDE_NONE);
    own.rate_ms = 7;
    options_default(&o, &own, &none);
    assert_int_equal(own.rate_ms, 7);
    assert_false(own.gather);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_apply_to_omitted_options),
        cmocka_unit_test_teardown(defaults_are_those_of_the_server, forget),
        cmocka_unit_test_teardown(fields_are_all_parsed, forget),
        cmocka_unit_test_teardown(choices_each_have_their_meaning, forget),
        cmocka_unit_test_teardown(invalid_option_is_refused_with_field_and_accepted_values, forget),
        cmocka_unit_test_teardown(invalid_field_rejects_all_options, forget),
        cmocka_unit_test_teardown(unknown_long_name_is_cut_in_the_error_message, forget),
        cmocka_unit_test_teardown(origin_is_limited_to_256_bytes, forget),
        cmocka_unit_test_teardown(ceiling_itself_is_allowed, forget),
        cmocka_unit_test_teardown(uris_member_is_ignored_only_where_it_belongs, forget),
        cmocka_unit_test_teardown(later_options_replace_earlier_ones, forget),
        cmocka_unit_test_teardown(defaults_come_from_the_longest_prefix_that_has_any, forget_rules),
        cmocka_unit_test_teardown(client_options_replace_defaults, forget_rules),
        cmocka_unit_test_teardown(ceilings_apply_inside_a_prefix_and_to_overlapping_subscriptions,
                                  forget_rules),
        cmocka_unit_test_teardown(access_rule_is_checked_field_by_field, forget_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
