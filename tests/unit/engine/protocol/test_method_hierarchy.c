/* SPDX-License-Identifier: MIT
 *
 * One resource and its children: metadata, the children of registered containers, and the limits of
 * a template's capabilities.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/catalog/catalog.h"
#include "support/fail_alloc.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"

static struct harness b;

static int setup(void **state)
{
    (void)state;
    harness_init(&b);
    harness_start(&b);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    harness_run_until_idle(&b);
    harness_stop(&b);
    return 0;
}

enum { LIST = 1, SUBSCRIBE = 2 };

static void read_nothing(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    (void)uri;
    tidings_read_done(read, 0, NULL);
}

static int add_with(const char *uri, unsigned capabilities, bool is_template, const char *formats,
                    struct tidings_error *err)
{
    struct tidings_resource about = {0};
    about.uri = tidings_str(uri);
    about.name = STR("a name");
    about.mime_type = STR("text/plain");
    about.formats = tidings_str(formats);
    about.listable = capabilities & LIST;
    about.not_subscribable = !(capabilities & SUBSCRIBE);
    struct catalog_entry *e = catalog_entry_create(&about, is_template, read_nothing, NULL, err);
    int rc = e ? hub_add_entry(b.hub, e, err) : TIDINGS_E_NOMEM;
    harness_run_until_idle(&b);
    return rc;
}

static int add(const char *uri, unsigned capabilities)
{
    return add_with(uri, capabilities, false, NULL, NULL);
}

static int add_template(const char *uri, unsigned capabilities)
{
    return add_with(uri, capabilities, true, NULL, NULL);
}

/* The answer to a modern request over HTTP; valid until the next call. */
static const char *ask(const char *method, const char *params)
{
    static char answer[4096];
    struct client *c = client_http(&b);
    client_modern(c, "1", method, params);
    harness_run_until_idle(&b);
    snprintf(answer, sizeof(answer), "%s", client_answer(c)->text);
    client_free(c);
    return answer;
}

/* The children of a container in pages of that size, joined by blanks. */
static const char *children(const char *method, const char *uri, unsigned page)
{
    static char all[1024];
    char cursor[256] = "";
    all[0] = '\0';
    for (unsigned pages = 0; pages < 50; pages++) {
        const char *text = ask(
            method, text_of("\"uri\":\"%s\",\"pageSize\":%u,\"cursor\":\"%s\"", uri, page, cursor));
        const char *row;
        for (unsigned i = 0; (row = json_at(text, text_of("result|resources|%u|uri", i))); i++) {
            size_t len = strlen(all);
            snprintf(all + len, sizeof(all) - len, "%s%s", len ? " " : "", row);
        }
        const char *next = json_at(text, "result|nextCursor");
        if (!next) {
            return all;
        }
        snprintf(cursor, sizeof(cursor), "%s", next);
    }
    fail_msg("the pages do not end");
    return all;
}

static void metadata_names_all_formats(void **state)
{
    (void)state;
    add("app:///one", SUBSCRIBE);
    add_with("app:///two", 0, false, "[\"text/plain\",\"text/html\"]", NULL);
    const char *text = ask("resources/metadata", "\"uri\":\"app:///one\"");
    assert_json(text, "result|resource|_meta|dev.tidings/formats|0", "text/plain");
    assert_no_json(text, "result|resource|_meta|dev.tidings/formats|1");
    assert_json(text, "result|resource|capabilities|subscribe", "true");
    assert_json(text, "result|ttlMs", "0");
    text = ask("resources/metadata", "\"uri\":\"app:///two\"");
    assert_json(text, "result|resource|_meta|dev.tidings/formats|1", "text/html");
    assert_json(text, "result|resource|capabilities|subscribe", "false");
    assert_no_json(ask("resources/list", NULL), "result|resources|0|_meta");
}

static void registered_container_lists_children_one_segment_below(void **state)
{
    (void)state;
    add("app:///d/", LIST);
    add("app:///d/b", 0);
    add("app:///d/a", 0);
    add("app:///d/c/", LIST);
    add("app:///d/c/deep", 0);
    add("app:///d/x/y", 0); /* app:///d/x/ is not registered */
    add("app:///d/q?of=a/b", 0);
    add("app:///d-not", 0);
    add("app:///e", LIST);
    add("app:///e/f", 0);
    add("app:///leaf", 0);
    static const char *const methods[] = {"resources/list", "resources/directory/read"};
    for (size_t i = 0; i < 2; i++) {
        for (unsigned page = 1; page < 6; page++) {
            assert_string_equal(children(methods[i], "app:///d/", page),
                                "app:///d/a app:///d/b app:///d/c/ app:///d/q?of=a/b");
            assert_string_equal(children(methods[i], "app:///e", page), "app:///e/f");
            assert_string_equal(children(methods[i], "app:///d/c/", page), "app:///d/c/deep");
        }
        const char *text = ask(methods[i], "\"uri\":\"app:///leaf\"");
        assert_json(text, "error|code", "-32602");
        assert_json(text, "error|data|reason", "not_listable");
        assert_json(text, "error|data|uri", "app:///leaf");
        text = ask(methods[i], "\"uri\":\"app:///nowhere\"");
        assert_json(text, "error|data|reason", "not_found");
    }
}

static void list_rows(void *user, struct tidings_list *list, struct tidings_str uri)
{
    static const char *const rows[] = {"db:///t/1", "db:///t/2", "db:///t/3", "db:///u/1"};
    int rc = 1;
    assert_true(str_eq(uri, STR("db:///t")));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && rc > 0; i++) {
        struct tidings_resource row = tidings_resource(rows[i], "a row", "text/plain");
        rc = tidings_list_add(list, &row, NULL);
    }
    tidings_list_done(list, *(const int *)user, NULL);
}

static void template_children_are_listed_by_the_program(void **state)
{
    (void)state;
    int code = 0;
    struct feature *f = feature_create(FEATURE_CHILDREN, STR("db:///t"), STR_EMPTY);
    f->children = list_rows;
    f->user = &code;
    assert_int_equal(hub_add_feature(b.hub, f, NULL), 0);
    assert_int_equal(add("db:///t", LIST | SUBSCRIBE), 0);
    assert_int_equal(add_template("db:///t/{id}", SUBSCRIBE), 0);
    for (unsigned page = 1; page < 5; page++) { /* outside rows are omitted */
        assert_string_equal(children("resources/list", "db:///t", page),
                            "db:///t/1 db:///t/2 db:///t/3");
    }
    code = TIDINGS_E_IO;
    assert_non_null(json_at(ask("resources/list", "\"uri\":\"db:///t\""), "error|message"));
    assert_int_equal(hub_remove_feature(b.hub, FEATURE_CHILDREN, STR("db:///t"), NULL), 0);
    assert_string_equal(children("resources/list", "db:///t", 2), "");
}

static void cursor_belongs_to_its_list(void **state)
{
    (void)state;
    add("app:///d/", LIST);
    add("app:///d/a", 0);
    add("app:///d/b", 0);
    add("app:///e/", LIST);
    add("app:///e/a", 0);
    char of_d[256], of_all[256];
    const char *text = ask("resources/list", "\"uri\":\"app:///d/\",\"pageSize\":1");
    snprintf(of_d, sizeof(of_d), "%s", json_at(text, "result|nextCursor"));
    text = ask("resources/list", "\"pageSize\":1");
    snprintf(of_all, sizeof(of_all), "%s", json_at(text, "result|nextCursor"));
    const struct {
        const char *params, *method;
    } rows[] = {
        {text_of("\"uri\":\"app:///e/\",\"cursor\":\"%s\"", of_d), "resources/list"},
        {text_of("\"uri\":\"app:///d/\",\"cursor\":\"%s\"", of_all), "resources/list"},
        {text_of("\"cursor\":\"%s\"", of_d), "resources/list"},
        {text_of("\"cursor\":\"%s\"", of_d), "resources/templates/list"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_json(ask(rows[i].method, rows[i].params), "error|code", "-32602");
    }
}

static void template_capabilities_bound_those_of_its_resources(void **state)
{
    (void)state;
    struct tidings_error err = {0};
    assert_int_equal(add_template("t:///none/{x}", 0), 0);
    assert_int_equal(add("t:///none/quiet", 0), 0);
    assert_int_equal(add_with("t:///none/a", LIST, false, NULL, &err), TIDINGS_E_CONFLICT);
    assert_non_null(strstr(err.text, "'t:///none/a' says it can be listed"));
    assert_non_null(strstr(err.text, "'t:///none/{x}'"));
    assert_int_equal(add_with("t:///none/a", SUBSCRIBE, false, NULL, &err), TIDINGS_E_CONFLICT);
    assert_non_null(strstr(err.text, "subscribed to"));
    assert_int_equal(add("t:///none/a/b", LIST | SUBSCRIBE), 0); /* not of the template */
    assert_int_equal(add_template("t:///all/{x}", LIST | SUBSCRIBE), 0);
    assert_int_equal(add("t:///all/a", LIST | SUBSCRIBE), 0);
    assert_int_equal(add("t:///all/b", 0), 0);
    /* The opposite case. */
    assert_int_equal(add("t:///first/a", LIST), 0);
    assert_int_equal(add_with("t:///first/{x}", SUBSCRIBE, true, NULL, &err), TIDINGS_E_CONFLICT);
    assert_int_equal(add_template("t:///first/{x}", LIST), 0);
    assert_int_equal(add("t:///all/a", 0), TIDINGS_E_EXISTS);
    assert_int_equal(add_template("t:///all/{x}", 0), TIDINGS_E_EXISTS);
}

static void failed_allocation_is_an_error_and_leaks_nothing(void **state)
{
    (void)state;
    bool reached = true;
    for (long n = 1; reached; n++) {
        fail_alloc_start(0);
        long before = fail_alloc_live();
        setup(NULL);
        add("app:///d/", LIST);
        add("app:///d/a", 0);
        add("app:///d/b", 0);
        struct client *list = client_http(&b), *about = client_http(&b);
        fail_alloc_start(n);
        client_modern(list, "1", "resources/list", "\"uri\":\"app:///d/\",\"pageSize\":1");
        client_modern(about, "2", "resources/metadata", "\"uri\":\"app:///d/a\"");
        harness_run_until_idle(&b);
        reached = fail_alloc_stop();
        if (list->count == 1 && list->said[0].text && !strstr(list->said[0].text, "\"error\"")) {
            assert_json(list->said[0].text, "result|resources|0|uri", "app:///d/a");
            assert_non_null(json_at(list->said[0].text, "result|nextCursor"));
        }
        assert_true(reached || json_at(client_answer(about)->text, "result|resource|uri"));
        client_free(list);
        client_free(about);
        teardown(NULL);
        assert_int_equal(fail_alloc_live(), before);
    }
    fail_alloc_end();
}

int main(void)
{
#define HIERARCHY_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        HIERARCHY_TEST(metadata_names_all_formats),
        HIERARCHY_TEST(registered_container_lists_children_one_segment_below),
        HIERARCHY_TEST(template_children_are_listed_by_the_program),
        HIERARCHY_TEST(cursor_belongs_to_its_list),
        HIERARCHY_TEST(template_capabilities_bound_those_of_its_resources),
        cmocka_unit_test(failed_allocation_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
