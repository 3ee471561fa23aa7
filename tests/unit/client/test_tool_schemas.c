/* SPDX-License-Identifier: MIT
 *
 * Tool results against the server's schemas, over a transport without a server: when the client
 * lists the tools, invalid results, and hostile schemas.
 */
#include "client/tools.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/time.h"
#include "support/fake_transport.h"

#define SUM                                                                                        \
    "{\"type\":\"object\",\"properties\":{\"sum\":{\"type\":\"number\"}},\"required\":[\"sum\"]}"

struct server {
    const char *schema; /* of the tool "add"; NULL: none */
    const char *result; /* of a call */
    bool is_silent;     /* about its tools */
    char *page;         /* instead of all of it */
};

static void serving(struct fake *f, const char *method, int64_t id, struct json *m)
{
    (void)m;
    const struct server *s = f->user;
    if (fake_modern(f, method, id)) {
        return;
    }
    if (strcmp(method, "tools/call") == 0) {
        fake_result(f, id, s->result);
    } else if (strcmp(method, "tools/list") == 0 && s->is_silent) {
        fake_error(f, id, -32601, "unknown method");
    } else if (strcmp(method, "tools/list") == 0 && s->page) {
        fake_result(f, id, s->page);
    } else if (strcmp(method, "tools/list") == 0) {
        size_t size = strlen(s->schema ? s->schema : "") + 200;
        char *text = malloc(size);
        assert_non_null(text);
        snprintf(text, size, "{\"tools\":[{\"name\":\"other\"},{\"name\":\"add\"%s%s}]}",
                 s->schema ? ",\"outputSchema\":" : "", s->schema ? s->schema : "");
        fake_result(f, id, text);
        free(text);
    }
}

/* The number of such requests so far. */
static int asked(const struct fake *f, const char *method)
{
    int count = 0;
    for (const char *at = f->log; (at = strstr(at, method)) != NULL; at++) {
        count++;
    }
    return count;
}

static struct tidings_error err;

static bool passes(struct tidings_client *c)
{
    memset(&err, 0, sizeof(err));
    char *text = tidings_client_call(c, "add", "{}", NULL, NULL, &err);
    bool has_passed = text != NULL;
    tidings_free(text);
    assert_null(tidings_client_last_error(c)); /* the server answered without any */
    assert_int_equal(has_passed, err.code == 0);
    return has_passed;
}

static void schema_violation_error_names_its_location(void **state)
{
    (void)state;
    struct fake f;
    struct server s = {.schema = SUM,
                       .result = "{\"content\":[],\"structuredContent\":{\"sum\":3}}"};
    struct tidings_client *c = fake_client(&f, serving, &s, NULL);
    assert_true(passes(c));
    assert_true(passes(c));
    assert_int_equal(asked(&f, "tools/list"), 1); /* once is enough */
    s.result = "{\"content\":[],\"structuredContent\":{\"sum\":\"three\"}}";
    assert_false(passes(c));
    assert_int_equal(err.code, TIDINGS_E_PARSE);
    assert_non_null(strstr(err.text, "the result of 'add' breaks its outputSchema: /sum: "));
    assert_non_null(strstr(err.text, "(schema: /properties/sum/type)"));
    s.result = "{\"content\":[]}";
    assert_false(passes(c));
    assert_non_null(strstr(err.text, "there is no structuredContent"));
    /* An error result needs no structure; it is also available unchanged. */
    s.result = "{\"content\":[],\"isError\":true}";
    assert_true(passes(c));
    s.result = "{\"content\":[],\"structuredContent\":[]}";
    assert_false(passes(c));
    char *raw = tidings_client_request(c, "tools/call", "{\"name\":\"add\"}", &err);
    assert_string_equal(raw, s.result);
    tidings_free(raw);
    tidings_client_destroy(c);
}

static void unstructured_result_requests_no_schema(void **state)
{
    (void)state;
    struct fake f;
    struct server s = {.schema = SUM, .result = "{\"content\":[]}"};
    struct tidings_client *c = fake_client(&f, serving, &s, NULL);
    assert_true(passes(c));
    assert_int_equal(asked(&f, "tools/list"), 0);
    tidings_client_destroy(c);
}

static int pass_over(void *user, struct tidings_str item)
{
    (void)user;
    (void)item;
    return 0;
}

static void listed_tools_are_reused_until_changed(void **state)
{
    (void)state;
    struct fake f;
    struct server s = {.schema = SUM, .result = "{\"content\":[]}"};
    struct tidings_client *c = fake_client(&f, serving, &s, NULL);
    assert_int_equal(tidings_client_list(c, TIDINGS_LISTING_TOOLS, pass_over, NULL, &err), 0);
    assert_int_equal(asked(&f, "tools/list"), 1);
    s.result = "{\"content\":[],\"structuredContent\":{\"sum\":3}}";
    assert_true(passes(c));
    assert_int_equal(asked(&f, "tools/list"), 1);
    s.result = "{\"content\":[]}";
    assert_false(passes(c)); /* known to need some */
    /* The schema has changed by now, without a notification. */
    s.schema = "{\"type\":\"object\",\"required\":[\"total\"]}";
    s.result = "{\"content\":[],\"structuredContent\":{\"total\":3}}";
    assert_true(passes(c));
    int before = asked(&f, "tools/list");
    assert_true(passes(c));
    assert_int_equal(asked(&f, "tools/list"), before);
    s.schema = NULL;
    s.result = "{\"content\":[],\"structuredContent\":7}";
    fake_say(&f, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}");
    assert_true(passes(c));
    assert_int_equal(asked(&f, "tools/list"), before + 1);
    tidings_client_destroy(c);
}

static void empty_tool_list_is_accepted(void **state)
{
    (void)state;
    struct fake f;
    struct server s = {.is_silent = true, .result = "{\"content\":[],\"structuredContent\":{}}"};
    struct tidings_client *c = fake_client(&f, serving, &s, NULL);
    assert_true(passes(c));
    assert_true(passes(c));
    assert_int_equal(asked(&f, "tools/list"), 1);
    tidings_client_destroy(c);
}

/* ---- schemas that are meant to hurt ---------------------------------------------------------- */

static char *repeated(const char *before, const char *middle, size_t count, const char *after)
{
    size_t len = strlen(middle), at = strlen(before);
    char *text = malloc(at + len * count + strlen(after) + 1);
    assert_non_null(text);
    memcpy(text, before, at);
    for (size_t i = 0; i < count; i++, at += len) {
        memcpy(text + at, middle, len);
    }
    memcpy(text + at, after, strlen(after) + 1);
    return text;
}

static void hostile_schemas_are_limited(void **state)
{
    (void)state;
    char *huge = repeated("{\"required\":[", "\"aaaaaaaaaaaaaaaa\",", 300000, "\"x\"]}");
    char *wide = repeated("{\"anyOf\":[", "{\"type\":\"string\"},", 20000, "false]}");
    char *deep = repeated("", "{\"not\":", 50, "false");
    char *closed = repeated(deep, "}", 50, "");
    const char *const schemas[] = {
        huge,
        wide,
        closed,
        "{\"properties\":{\"sum\":{\"pattern\":\"^(a+)+$\"}}}",
        "{\"properties\":{\"sum\":{\"pattern\":\"(((a{1,900}){1,900}){1,900})\"}}}",
        "{\"$ref\":\"https://example.com/elsewhere\"}",
        "{\"$ref\":\"#\"}",
        "{\"properties\":{\"sum\":{\"pattern\":\"(a)\\\\1\"}}}",
        "{\"type\":7}",
        "true",
        "7",
    };
    uint64_t begun = clock_monotonic_ms();
    for (size_t i = 0; i < sizeof(schemas) / sizeof(schemas[0]); i++) {
        struct fake f;
        struct server s = {.schema = schemas[i],
                           .result = "{\"content\":[],\"structuredContent\":{\"sum\":"
                                     "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\"}}"};
        struct tidings_client_options o = {.max_bytes = 16u << 20};
        struct tidings_client *c = fake_client(&f, serving, &s, &o);
        bool has_passed = passes(c);
        assert_true(has_passed || err.code == TIDINGS_E_PARSE);
        tidings_client_destroy(c);
    }
    /* Generous: each has a budget of some 40 ms. */
    assert_true(clock_monotonic_ms() - begun < 60000);
    free(huge);
    free(wide);
    free(deep);
    free(closed);
}

static void excess_tools_are_not_validated(void **state)
{
    (void)state;
    struct fake f;
    char *page = repeated("{\"tools\":[", "{\"name\":\"same\",\"outputSchema\":" SUM "},", 3000,
                          "{\"name\":\"add\",\"outputSchema\":" SUM "}]}");
    /* Names are unique; each tool gets its own. */
    char *at = page;
    for (unsigned i = 0; (at = strstr(at, "\"same\"")) != NULL; i++) {
        char name[8];
        snprintf(name, sizeof(name), "%04u", i);
        memcpy(at + 1, name, 4);
    }
    struct server s = {.page = page, .result = "{\"content\":[],\"structuredContent\":7}"};
    struct tidings_client *c = fake_client(&f, serving, &s, NULL);
    assert_true(passes(c));
    tidings_client_destroy(c);
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schema_violation_error_names_its_location),
        cmocka_unit_test(unstructured_result_requests_no_schema),
        cmocka_unit_test(listed_tools_are_reused_until_changed),
        cmocka_unit_test(empty_tool_list_is_accepted),
        cmocka_unit_test(hostile_schemas_are_limited),
        cmocka_unit_test(excess_tools_are_not_validated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
