/* SPDX-License-Identifier: MIT
 *
 * `= {0}` for every struct that a program fills in, passed to its function: the library uses the
 * default or rejects it and names the missing member. It never acts on a zeroed struct by mistake.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <tidings/tidings.h>

static struct tidings_server *server;
static struct tidings_client *client;

static void never_read(void *user, struct tidings_read *read, struct tidings_str uri)
{
    (void)user, (void)read, (void)uri;
    fail();
}

static void never_call(void *user, struct tidings_call *call)
{
    (void)user, (void)call;
    fail();
}

static int zero_begin(void **state)
{
    (void)state;
    server = tidings_server_create(NULL);
    client = tidings_client_create("tcp://127.0.0.1:1", &(struct tidings_client_options){0}, NULL);
    return server && client ? 0 : -1; /* zero is the default in the client's options */
}

static int zero_end(void **state)
{
    (void)state;
    tidings_server_destroy(server);
    tidings_client_destroy(client);
    return 0;
}

static void zeroed_structs_use_defaults(void **state)
{
    (void)state;
    struct tidings_error err = {0, ""};
    assert_int_equal(tidings_server_set_info(server, &(struct tidings_server_info){0}, &err), 0);
    char *schema = tidings_schema_object(NULL, 0, &err);
    assert_non_null(schema);
    tidings_free(schema);
    struct tidings_client_options options = {0};
    const char *const argv[] = {"true", NULL};
    struct tidings_client *launched = tidings_client_launch(argv, &options, &err);
    assert_non_null(launched);
    tidings_client_destroy(launched);
}

/* The outcome: the code, and the word that its message must contain. */
#define REFUSED(call, member)                                                                      \
    do {                                                                                           \
        struct tidings_error err = {0, ""};                                                        \
        (void)!(call);                                                                             \
        if (err.code >= 0) {                                                                       \
            fail_msg("%s is accepted", #call);                                                     \
        }                                                                                          \
        if (!strstr(err.text, (member))) {                                                         \
            fail_msg("%s says '%s', nothing of '%s'", #call, err.text, (member));                  \
        }                                                                                          \
    } while (0)

static void missing_member_is_named(void **state)
{
    (void)state;
    const struct tidings_resource resource = {0};
    const struct tidings_change change = {0};
    const struct tidings_tool tool = {0};
    const struct tidings_prompt prompt = {0};
    const struct tidings_subscribe_options on = {0};
    const struct tidings_client_asking asking = {0};
    const struct tidings_client_http http = {0};
    const struct tidings_copying copying = {0};
    const struct tidings_watch_hook hook = {0};
    const struct tidings_provider_ops ops = {0};
    const struct tidings_schema_field field = {0};
    struct tidings_client_http_answer answer;
    struct tidings_str uri = tidings_str("app:///a");
    REFUSED(tidings_server_add_resource(server, &resource, never_read, NULL, &err), "URI");
    REFUSED(tidings_server_add_template(server, &resource, never_read, NULL, &err), "");
    REFUSED(tidings_server_publish(server, &resource, uri, &err), "");
    REFUSED(tidings_announce(server, &change, &err), "URI");
    REFUSED(tidings_server_add_tool(server, &tool, never_call, NULL, &err), "name");
    REFUSED(tidings_server_add_prompt(server, &prompt, never_call, NULL, &err), "name");
    REFUSED(tidings_server_subscribe(server, uri, &on, &err), "function");
    REFUSED(tidings_client_subscribe(client, "app:///a", &on, &err), "");
    REFUSED(tidings_client_ask(client, &asking, &err), "method");
    REFUSED(tidings_client_http(client, &http, &answer, &err), "");
    REFUSED(tidings_copy_begin(client, "app:///a", &copying, &err), "");
    REFUSED(tidings_server_on_watch(server, uri, &hook, &err), "'watch'");
    REFUSED(tidings_server_mount(server, &ops, uri, tidings_str(""), &err), "");
    REFUSED(tidings_schema_object(&field, 1, &err), "name");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(zeroed_structs_use_defaults, zero_begin, zero_end),
        cmocka_unit_test_setup_teardown(missing_member_is_named, zero_begin, zero_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
