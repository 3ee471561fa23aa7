/* SPDX-License-Identifier: MIT
 *
 * Entities in a server: ownership of the tools, and delivery of writes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "base/time.h"
#include "security/client_account.h"
#include "server/server_internal.h"
#include "support/served.h"

static struct tidings_error err;
static struct ears ears;

static void no_call(void *user, struct tidings_call *call)
{
    (void)user;
    tidings_call_done(call, 0, NULL);
}

static void call(const char *tool, const char *arguments, const char *says)
{
    const char *answer = served_call(tool, arguments);
    if (!strstr(answer, says)) {
        fail_msg("%s does not say '%s'", answer, says);
    }
}

static void program_tool_is_neither_replaced_nor_removed(void **state)
{
    (void)state;
    struct tidings_tool tool = {.name = tidings_str("transact")};
    served_set("entities", ":memory:");
    assert_int_equal(tidings_server_add_tool(served(), &tool, no_call, NULL, &err), 0);
    for (int i = 0; i < 2; i++) { /* nothing was left behind */
        assert_int_equal(tidings_server_run(served(), &err), TIDINGS_E_EXISTS);
        assert_non_null(strstr(err.text, "entities: "));
        assert_non_null(strstr(err.text, "'transact'"));
    }
    assert_int_equal(tidings_server_remove_tool(served(), tool.name, &err), 0);
    served_run();
    assert_non_null(strstr(served_modern("tools/list", ""), "\"transact\""));
}

static void invalid_store_file_fails_the_start(void **state)
{
    (void)state;
    served_set("entities", "/nowhere/at/all.db");
    assert_true(tidings_server_run(served(), &err) < 0);
    assert_non_null(strstr(err.text, "/nowhere/at/all.db"));
    assert_non_null(strstr(err.text, "make it first"));
}

static void program_receives_values_from_client_with_same_origin(void **state)
{
    (void)state;
    ears_init(&ears);
    served_set("entities", ":memory:");
    served_run();
    call("add-entity-type", "\"name\":\"T\",\"version\":1,\"jsonSchema\":{\"type\":\"object\"}",
         "\"success\":true");
    call("upsert-entity", "\"uri\":\"/entity/T@1/a\",\"value\":{\"n\":0}", "\"changed\":true");
    assert_non_null(served_subscribe("/entity/T@1/a",
                                     "{\"origin\":\"me\",\"echo\":false,\"initial\":true}", &ears));
    struct told t = ears_await(&ears, 0);
    assert_true(t.initial);
    call("upsert-entity", "\"uri\":\"/entity/T@1/a\",\"value\":{\"n\":1},\"origin\":\"me\"",
         "\"changed\":true");
    t = ears_await(&ears, 1);
    assert_string_equal(t.uri, "entity:///T@1/a");
    assert_string_equal(t.subscribed, "/entity/T@1/a");
    assert_non_null(strstr(t.metadata, "\"entityTypeName\":\"T\""));
    assert_non_null(strstr(t.value, "\\\"n\\\": 1"));
}

static void upsert(const char *type, const char *value, const char *at)
{
    char arguments[256];
    snprintf(arguments, sizeof(arguments), "\"uri\":\"entity:///%s/a\",\"value\":%s%s%s%s", type,
             value, at ? ",\"validFrom\":\"" : "", at ? at : "", at ? "\"" : "");
    call("upsert-entity", arguments, "\"changed\":true");
}

#define AT(second) "2024-01-01T10:00:0" second ".000Z"

static void assert_says(const struct told *t, const char *text)
{
    if (!strstr(t->value, text)) {
        fail_msg("'%s' does not say '%s'", t->value, text);
    }
}

/* The program receives patches like any client. */
static void program_receives_patches_from_its_baseline(void **state)
{
    (void)state;
    ears_init(&ears);
    served_set("entities", ":memory:");
    served_run();
    for (int version = 1; version <= 2; version++) {
        char type[96];
        snprintf(type, sizeof(type), "\"name\":\"T\",\"version\":%d,\"jsonSchema\":{}", version);
        call("add-entity-type", type, "\"success\":true");
        if (version == 1) {
            upsert("T@1", "{\"n\":0,\"m\":0}", AT("0"));
            upsert("T@1", "{\"n\":1}", AT("1"));
            assert_non_null(served_subscribe(
                "entity:///T@1/a/patch", "{\"initialBaseline\":\"2024-01-01T10:00:00Z\"}", &ears));
            struct told t = ears_await(&ears, 0);
            assert_true(t.initial);
            assert_says(&t, "\"baseline\":\"" AT("0") "\"");
            assert_says(&t, "\"validFrom\":\"" AT("1") "\"");
            assert_says(&t, "\"patch\":{\"m\":null,\"n\":1}");
            upsert("T@1", "{\"n\":null}", AT("2"));
            t = ears_await(&ears, 1);
            assert_says(&t, "\"full\":true,\"value\":{\"n\":null}");
            upsert("T@1", "{\"n\":3}", AT("3"));
            t = ears_await(&ears, 2);
            assert_says(&t, "\"baseline\":\"" AT("2") "\",\"patch\":{\"n\":3}");
        }
    }
    upsert("T@2", "{\"n\":4}", AT("4")); /* its URI is different from now on */
    struct told t = ears_await(&ears, 3);
    assert_int_equal(t.kind, TIDINGS_CHANGE_MOVED);
    assert_string_equal(t.uri, "entity:///T@2/a");
    assert_string_equal(t.from, "entity:///T@1/a");
    assert_says(&t, "\"baseline\":\"" AT("3") "\",\"patch\":{\"n\":4}");
    ears_init(&ears);
    assert_non_null(
        served_subscribe("entity:///T@2/a/patch", "{\"baseline\":\"" AT("5") "\"}", &ears));
    t = ears_await(&ears, 0);
    assert_non_null(strstr(t.refused, "No snapshot found with validFrom timestamp: " AT("5")));
}

#define PUT "PUT /entity/T@1/%s HTTP/1.1\r\nContent-Type: application/json"

static const char *put(const char *id, const char *value)
{
    char head[128];
    snprintf(head, sizeof(head), PUT, id);
    return served_http(head, value);
}

static void says(const char *answer, const char *text)
{
    if (!strstr(answer, text)) {
        fail_msg("%s does not say '%s'", answer, text);
    }
}

#define LIMITED "\"limit\":\"pattern-steps\",\"value\":20000000,\"retryAfterMs\":"
#define RETRY_AFTER "Retry-After: "

static unsigned long number_after(const char *answer, const char *text)
{
    says(answer, text);
    return strtoul(strstr(answer, text) + strlen(text), NULL, 10);
}

/* For a debt of a minute, repaid while this runs. */
static void says_limited(const char *answer)
{
    says(answer, "HTTP/1.1 429 ");
    unsigned long ms = number_after(answer, LIMITED);
    assert_in_range(ms, 30000, 61000);
    assert_int_equal(number_after(answer, RETRY_AFTER), (ms + 999) / 1000);
    says(answer, "\"reason\":\"limit\"");
}

/* Compilation of type schemas and validation of values, by tools and over plain HTTP. */
static void schema_work_counts_against_the_writer(void **state)
{
    (void)state;
    served_set("entities", ":memory:");
    served_set("allow-write", "true");
    served_run();
    uint64_t before = clock_monotonic_ms();
    struct client_account *a = client_accounts_find(served()->shared->client_accounts,
                                                    STR(CLIENT_ACCOUNT_MACHINE), before);
    call("add-entity-type",
         "\"name\":\"T\",\"version\":1,\"jsonSchema\":{\"properties\":{\"s\":{\"pattern\":"
         "\"(a{1,99}){1,20}b\"}}}",
         "\"success\":true");
    uint64_t left = client_account_steps_left(a, before);
    assert_in_range(CPU_BUDGET_BURST - left, 1000, CPU_BUDGET_BURST);
    char value[400] = "{\"s\":\"";
    memset(value + 6, 'a', 300);
    memcpy(value + 306, "b\"}", 4);
    says(put("a", value), "HTTP/1.1 201 ");
    assert_true(left - client_account_steps_left(a, before) >= 100000);

    client_account_spend(a, 60ull * CPU_BUDGET_STEPS, clock_monotonic_ms());
    says_limited(put("b", "{}"));
    says_limited(served_call("upsert-entity", "\"uri\":\"/entity/T@1/b\",\"value\":{}"));
    says_limited(served_call("add-entity-type", "\"name\":\"U\",\"version\":1,\"jsonSchema\":{}"));
    says(served_http("DELETE /entity/T@1/a HTTP/1.1\r\nIf-Match: *", ""), "HTTP/1.1 204 ");
    says(served_http("GET /entity/T@1/b HTTP/1.1", ""), "HTTP/1.1 404 ");

    client_account_refund(a, 60ull * CPU_BUDGET_STEPS);
    says(put("b", "{}"), "HTTP/1.1 201 ");
    client_account_release(a);
}

int main(void)
{
#define WITH(name) cmocka_unit_test_setup_teardown(name, served_begin, served_end)
    const struct CMUnitTest tests[] = {
        WITH(program_tool_is_neither_replaced_nor_removed),
        WITH(invalid_store_file_fails_the_start),
        WITH(program_receives_values_from_client_with_same_origin),
        SERVED_BOTH(program_receives_patches_from_its_baseline),
        SERVED_BOTH(schema_work_counts_against_the_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
