/* SPDX-License-Identifier: MIT
 *
 * The library rejects misuse with an error message that names the mistake, and never crashes: NULL
 * handles, an ended or running server, confused URIs and templates, tables without rows, providers
 * without a name or a reason.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <tidings/tidings.h>

static struct tidings_error err;

static void read_nothing(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user;
    (void)uri;
    tidings_read_answer(read, TIDINGS_STR("x"));
}

static void call_nothing(void *user, struct tidings_call *call)
{
    (void)user;
    tidings_call_done(call, 0, NULL);
}

static void hear_nothing(void *user, const struct tidings_update *update)
{
    (void)user;
    (void)update;
}

static void on_timer(void *user)
{
    (void)user;
}

static void complete_nothing(void *user, struct tidings_complete *complete)
{
    (void)user;
    tidings_complete_done(complete, 0, NULL);
}

static void on_route(void *user, const struct tidings_http_request *request,
                     struct tidings_http_response *response)
{
    (void)user;
    (void)request;
    (void)response;
}

#define assert_says(expected, part, call)                                                          \
    do {                                                                                           \
        err = (struct tidings_error){0, ""};                                                       \
        int got_ = (int)(call);                                                                    \
        if (got_ != (expected) || err.code != (expected) || !strstr(err.text, (part))) {           \
            fail_msg("%s: %d '%s', not %d with '%s'", #call, got_, err.text, (expected), (part));  \
        }                                                                                          \
    } while (0)
#define assert_refused(call) assert_says(TIDINGS_E_INVALID, "", call)
#define assert_none(call)                                                                          \
    do {                                                                                           \
        err = (struct tidings_error){0, ""};                                                       \
        const void *got_ = (call);                                                                 \
        if (got_ || err.code != TIDINGS_E_INVALID || err.text[0] == '\0') {                        \
            fail_msg("%s: '%s'", #call, err.text);                                                 \
        }                                                                                          \
    } while (0)

/* ---- handles --------------------------------------------------------------------------------- */

static void null_server_is_rejected_by_fallible_functions(void **state)
{
    (void)state;
    struct tidings_server *s = NULL;
    struct tidings_server_info info = {0};
    struct tidings_resource about = tidings_resource("app:///a", "a", NULL);
    struct tidings_resource uris = tidings_resource("app:///{a}", "a", NULL);
    struct tidings_watch_hook hook = {0};
    struct tidings_change change = {.uri = about.uri};
    struct tidings_subscribe_options on = {.fn = hear_nothing};
    struct tidings_tool tool = {.name = TIDINGS_STR("t")};
    struct tidings_prompt prompt = {.name = TIDINGS_STR("p")};
    struct tidings_totals totals;
    struct tidings_str none = TIDINGS_STR("");
    assert_refused(tidings_server_set(s, "http", "127.0.0.1:0", &err));
    assert_refused(tidings_server_args(s, 0, NULL, &err));
    assert_refused(tidings_server_add_socket(s, TIDINGS_LISTENER_HTTP, -1, &err));
    assert_refused(tidings_server_set_info(s, &info, &err));
    assert_refused(tidings_server_declare(s, "tools", &err));
    assert_refused(tidings_server_add_resource(s, &about, read_nothing, NULL, &err));
    assert_refused(tidings_server_add_template(s, &uris, read_nothing, NULL, &err));
    assert_refused(tidings_server_remove(s, about.uri, &err));
    assert_refused(tidings_server_on_watch(s, about.uri, &hook, &err));
    assert_refused(tidings_server_mount(s, tidings_provider_find("file"), about.uri, none, &err));
    assert_refused(tidings_server_publish(s, &about, none, &err));
    assert_refused(tidings_server_unpublish(s, about.uri, &err));
    assert_refused(tidings_changed(s, about.uri, none, &err));
    assert_refused(tidings_announce(s, &change, &err));
    assert_refused(tidings_changed_all(s, &err));
    assert_refused(tidings_server_set_rate(s, about.uri, 1, &err));
    assert_refused(tidings_server_set_options(s, about.uri, none, none, &err));
    assert_none(tidings_server_subscribe(s, about.uri, &on, &err));
    assert_refused(tidings_server_add_route(s, "/x", on_route, NULL, &err));
    assert_refused(tidings_server_every(s, 10, on_timer, NULL, &err));
    assert_refused(tidings_server_sandbox(s, &err));
    assert_refused(tidings_server_run(s, &err));
    assert_refused(tidings_server_start(s, &err));
    assert_refused(tidings_server_turn(s, &err));
    assert_refused(tidings_server_finish(s, &err));
    assert_refused(tidings_server_add_tool(s, &tool, call_nothing, NULL, &err));
    assert_refused(tidings_server_remove_tool(s, tool.name, &err));
    assert_refused(tidings_server_add_prompt(s, &prompt, call_nothing, NULL, &err));
    assert_refused(tidings_server_remove_prompt(s, prompt.name, &err));
    assert_refused(tidings_server_complete_prompt(s, prompt.name, complete_nothing, NULL, &err));
    assert_refused(tidings_server_complete_template(s, uris.uri, complete_nothing, NULL, &err));
    assert_refused(tidings_server_subscribers(s, none, NULL, NULL, &err));
    assert_refused(tidings_server_subscriptions(s, 1, NULL, NULL, &err));
    assert_refused(tidings_server_is_subscribed(s, 1, about.uri, &err));
    assert_refused(tidings_server_totals(s, &totals, &err));
    assert_refused(tidings_server_unsubscribe(s, 1, about.uri, &err));
    assert_refused(tidings_server_disconnect(s, 1, &err));
}

static void null_server_is_ignored_by_void_functions(void **state)
{
    (void)state;
    tidings_server_stop(NULL);
    tidings_server_stop_now(NULL);
    tidings_server_reload(NULL);
    tidings_server_on_ready(NULL, NULL, NULL);
    tidings_server_on_reloaded(NULL, NULL, NULL);
    tidings_server_destroy(NULL);
    assert_ptr_equal(tidings_server_address(NULL, 0), NULL);
    assert_ptr_equal(tidings_config_print(NULL), NULL);
    assert_ptr_equal(tidings_config_json(NULL), NULL);
    assert_int_equal(tidings_server_fd(NULL), -1);
    assert_int_equal(tidings_server_timeout_ms(NULL), -1);
}

static void null_output_pointer_is_rejected(void **state)
{
    (void)state;
    struct tidings_server *s = tidings_server_create(NULL);
    struct tidings_resource about = tidings_resource("app:///a", "a", NULL);
    about.uri = tidings_strn(NULL, 5);
    assert_refused(tidings_server_set_info(s, NULL, &err));
    assert_refused(tidings_server_set(s, NULL, "1", &err));
    assert_refused(tidings_server_declare(s, NULL, &err));
    assert_refused(tidings_server_totals(s, NULL, &err));
    assert_refused(tidings_server_add_resource(s, &about, read_nothing, NULL, &err));
    assert_refused(tidings_changed(s, tidings_strn(NULL, 5), tidings_strn(NULL, 5), &err));
    assert_none(tidings_schema_object(NULL, 1, &err));
    tidings_server_destroy(s);
}

/* ---- the life of a server -------------------------------------------------------------------- */

static int mounted_open(struct tidings_provider *p, struct tidings_str config,
                        struct tidings_error *e)
{
    (void)p;
    (void)config;
    (void)e; /* it says nothing */
    return TIDINGS_E_IO;
}

static int opens(struct tidings_provider *p, struct tidings_str config, struct tidings_error *e)
{
    (void)p;
    (void)config;
    (void)e;
    return 0;
}

static void mounted_read(struct tidings_provider *p, struct tidings_read *read,
                         struct tidings_str uri)
{
    (void)p;
    (void)uri;
    tidings_read_answer(read, TIDINGS_STR("x"));
}

static void mounted_close(struct tidings_provider *p)
{
    (void)p;
}

static const struct tidings_provider_ops fine = {
    .abi = TIDINGS_PROVIDER_ABI,
    .name = "fine",
    .open = opens,
    .read = mounted_read,
    .close = mounted_close,
};

static void mount_is_rejected_on_running_stepped_server(void **state)
{
    (void)state;
    struct tidings_server *s = tidings_server_create(NULL);
    assert_int_equal(tidings_server_set(s, "http", "127.0.0.1:0", NULL), 0);
    assert_int_equal(tidings_server_mount(s, &fine, TIDINGS_STR("a:///"), TIDINGS_STR(""), NULL),
                     0);
    assert_int_equal(tidings_server_start(s, NULL), 0);
    assert_says(TIDINGS_E_BUSY, "before the server",
                tidings_server_mount(s, &fine, TIDINGS_STR("b:///"), TIDINGS_STR(""), &err));
    tidings_server_destroy(s);
}

static void ended_server_returns_closed(void **state)
{
    (void)state;
    struct tidings_server *s = tidings_server_create(NULL);
    struct tidings_resource about = tidings_resource("app:///a", "a", NULL);
    struct tidings_tool tool = {.name = TIDINGS_STR("t")};
    struct tidings_prompt prompt = {.name = TIDINGS_STR("p")};
    assert_int_equal(tidings_server_set(s, "http", "127.0.0.1:0", NULL), 0);
    assert_int_equal(tidings_server_set(s, "publish", "app:///p/", NULL), 0);
    assert_int_equal(tidings_server_start(s, NULL), 0);
    assert_int_equal(tidings_changed(s, about.uri, TIDINGS_STR(""), NULL), 0);
    assert_int_equal(tidings_server_finish(s, NULL), 0);
    assert_says(TIDINGS_E_CLOSED, "ended", tidings_changed(s, about.uri, TIDINGS_STR(""), &err));
    assert_says(TIDINGS_E_CLOSED, "ended", tidings_changed_all(s, &err));
    assert_says(TIDINGS_E_CLOSED, "ended",
                tidings_server_add_resource(s, &about, read_nothing, NULL, &err));
    assert_says(TIDINGS_E_CLOSED, "ended",
                tidings_server_add_tool(s, &tool, call_nothing, NULL, &err));
    assert_says(TIDINGS_E_CLOSED, "ended",
                tidings_server_add_prompt(s, &prompt, call_nothing, NULL, &err));
    assert_says(TIDINGS_E_CLOSED, "ended",
                tidings_server_mount(s, &fine, TIDINGS_STR("b:///"), TIDINGS_STR(""), &err));
    about.uri = tidings_str("app:///p/a");
    assert_says(TIDINGS_E_CLOSED, "ended",
                tidings_server_publish(s, &about, TIDINGS_STR("x"), &err));
    assert_int_equal(tidings_server_finish(s, NULL), 0); /* even after it has ended */
    assert_int_equal(tidings_server_turn(s, NULL), 0);
    tidings_server_destroy(s);
}

/* ---- error messages -------------------------------------------------------------------------- */

static void errors_distinguish_resource_template_and_media_type(void **state)
{
    (void)state;
    struct tidings_server *s = tidings_server_create(NULL);
    struct tidings_resource about = tidings_resource("a:///{x}", "a", NULL);
    assert_says(TIDINGS_E_INVALID, "tidings_server_add_template",
                tidings_server_add_resource(s, &about, read_nothing, NULL, &err));
    about.uri = tidings_str("a:///x");
    assert_says(TIDINGS_E_INVALID, "tidings_server_add_resource",
                tidings_server_add_template(s, &about, read_nothing, NULL, &err));
    about.mime_type = tidings_str("not a type");
    assert_says(TIDINGS_E_INVALID, "'not a type'",
                tidings_server_add_resource(s, &about, read_nothing, NULL, &err));
    about.uri = tidings_str("a:///{x}");
    assert_says(TIDINGS_E_INVALID, "'not a type'",
                tidings_server_add_template(s, &about, read_nothing, NULL, &err));
    about.mime_type = tidings_str("text/plain; charset=utf-8");
    assert_int_equal(tidings_server_add_template(s, &about, read_nothing, NULL, &err), 0);
    about.uri = tidings_str("a:///%7Bx%7D"); /* braces that are meant */
    assert_int_equal(tidings_server_add_resource(s, &about, read_nothing, NULL, &err), 0);
    tidings_server_destroy(s);
}

static void missing_arguments_are_reported_as_missing(void **state)
{
    (void)state;
    struct tidings_server *s = tidings_server_create(NULL);
    struct tidings_prompt prompt = {.name = TIDINGS_STR("p"), .argument_count = 2};
    assert_says(TIDINGS_E_INVALID, "`arguments` is NULL",
                tidings_server_add_prompt(s, &prompt, call_nothing, NULL, &err));
    prompt.argument_count = 65;
    prompt.arguments = (struct tidings_argument[]){{"a", NULL, NULL, false}};
    assert_says(TIDINGS_E_INVALID, "at most 64 arguments",
                tidings_server_add_prompt(s, &prompt, call_nothing, NULL, &err));
    tidings_server_destroy(s);
}

static void provider_requires_name_and_reports_open_failure(void **state)
{
    (void)state;
    struct tidings_server *s = tidings_server_create(NULL);
    struct tidings_provider_ops ops = fine;
    ops.name = NULL;
    assert_says(TIDINGS_E_INVALID, "a name",
                tidings_server_mount(s, &ops, TIDINGS_STR("a:///"), TIDINGS_STR(""), &err));
    assert_says(TIDINGS_E_INVALID, "a table",
                tidings_server_mount(s, NULL, TIDINGS_STR("a:///"), TIDINGS_STR(""), &err));
    ops = fine;
    ops.open = mounted_open;
    assert_says(TIDINGS_E_IO, "fine provider at 'a:///': input/output error",
                tidings_server_mount(s, &ops, TIDINGS_STR("a:///"), TIDINGS_STR(""), &err));
    tidings_server_destroy(s);
}

static void error_names_setting_as_program_spelled_it(void **state)
{
    (void)state;
    struct tidings_server *s = tidings_server_create(NULL);
    assert_says(TIDINGS_E_INVALID, "\"http\"", tidings_server_set(s, "http", "no:where", &err));
    assert_ptr_equal(strstr(err.text, "--http"), NULL);
    tidings_server_destroy(s);
}

static void unknown_error_code_has_its_own_name(void **state)
{
    (void)state;
    assert_string_equal(tidings_code_name(TIDINGS_E_UNKNOWN), "TIDINGS_E_UNKNOWN");
    assert_string_equal(tidings_code_name(-999), "not a TIDINGS_E_ code");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_server_is_rejected_by_fallible_functions),
        cmocka_unit_test(null_server_is_ignored_by_void_functions),
        cmocka_unit_test(null_output_pointer_is_rejected),
        cmocka_unit_test(mount_is_rejected_on_running_stepped_server),
        cmocka_unit_test(ended_server_returns_closed),
        cmocka_unit_test(errors_distinguish_resource_template_and_media_type),
        cmocka_unit_test(missing_arguments_are_reported_as_missing),
        cmocka_unit_test(provider_requires_name_and_reports_open_failure),
        cmocka_unit_test(error_names_setting_as_program_spelled_it),
        cmocka_unit_test(unknown_error_code_has_its_own_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
