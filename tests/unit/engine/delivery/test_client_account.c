/* SPDX-License-Identifier: MIT
 *
 * The cost of one client's patterns. Steps are restored over time and shared by all workers. A
 * client without steps receives truncated or unfiltered updates. Only changes that the client may
 * see affect its account.
 */
#include "security/client_account.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"
#include "engine/delivery/filters.h"
#include "support/harness_access.h"
#include "support/harness_client.h"
#include "support/harness_core.h"
#include "support/harness_json.h"
#include "support/harness_subs.h"
#include "support/harness_tool.h"

#undef free /* memory of open_memstream does not belong to cmocka */

#define TRUNCATED "params|_meta|dev.tidings/truncated"
#define REGEX "mem://x/.*(a{1,99}){1,20}b"
#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

/* ---- the table ------------------------------------------------------------------------------- */

static void steps_are_restored_over_time(void **state)
{
    (void)state;
    struct client_accounts *all = client_accounts_create();
    struct client_account *a = client_accounts_find(all, STR("ada"), 1000);
    assert_int_equal(client_account_steps_left(a, 1000), CPU_BUDGET_BURST);
    client_account_spend(a, 5000000, 1000);
    assert_int_equal(client_account_steps_left(a, 1000), CPU_BUDGET_BURST - 5000000);
    assert_int_equal(client_account_steps_left(a, 1100),
                     CPU_BUDGET_BURST - 5000000 + CPU_BUDGET_STEPS / 10);
    client_account_spend(a, 2 * CPU_BUDGET_BURST, 1000); /* more than available: owed */
    assert_int_equal(client_account_steps_left(a, 1000), 0);
    assert_int_equal(client_account_steps_left(a, 1500), 0);
    assert_int_equal(client_account_steps_left(a, 3000), CPU_BUDGET_BURST);
    client_account_spend(a, CPU_BUDGET_BURST, 3000);
    client_account_refund(a, 1000);
    assert_int_equal(client_account_steps_left(a, 3000), 1000);
    assert_int_equal(client_account_steps_left(NULL, 3000), UINT64_MAX); /* the program */
    client_account_spend(NULL, 1, 3000);
    client_account_release(a);
    client_accounts_destroy(all);
}

static uint64_t retry_ms(const struct client_account *a, uint64_t needed, uint64_t now)
{
    struct limit_counters counters = {0};
    struct refusal why = client_account_refusal(&counters, a, needed, now);
    assert_int_equal(counters.hits[LIMIT_PATTERN_STEPS], 1);
    return why.retry_ms;
}

static void refused_client_receives_the_retry_time(void **state)
{
    (void)state;
    struct client_accounts *all = client_accounts_create();
    struct client_account *a = client_accounts_find(all, STR("ada"), 1000);
    client_account_spend(a, CPU_BUDGET_BURST, 1000);
    assert_int_equal(retry_ms(a, 1, 1000), 1);
    assert_int_equal(retry_ms(a, CPU_BUDGET_STEPS / 100, 1000), 10);
    assert_int_equal(retry_ms(a, CPU_BUDGET_STEPS / 100 + 1, 1000), 11);
    client_account_spend(a, 60ull * CPU_BUDGET_STEPS, 1000); /* a debt of a minute */
    static const uint64_t needs[] = {1, 200000, CPU_BUDGET_BURST};
    for (size_t i = 0; i < COUNT(needs); i++) {
        uint64_t ms = retry_ms(a, needs[i], 1000);
        assert_in_range(ms, 60000, 60401);
        assert_true(client_account_steps_left(a, 1000 + ms) >= needs[i]);
        assert_true(client_account_steps_left(a, 1000 + ms - 1) < needs[i]);
    }
    /* More than the maximum: the wait until the account is full. */
    assert_int_equal(retry_ms(a, UINT64_MAX, 1000), retry_ms(a, CPU_BUDGET_BURST, 1000));
    assert_int_equal(retry_ms(a, 1, 100000), 1); /* enough available: at once, and never 0 */
    client_account_release(a);
    client_accounts_destroy(all);
}

static void reconnecting_client_gains_no_steps(void **state)
{
    (void)state;
    struct client_accounts *all = client_accounts_create();
    struct client_account *a = client_accounts_find(all, STR("ada"), 1000);
    struct client_account *same = client_accounts_find(all, STR("ada"), 1000);
    assert_ptr_equal(a, same);
    client_account_spend(a, CPU_BUDGET_BURST, 1000);
    client_account_release(same);
    client_account_release(a);
    for (unsigned i = 0; i < 40; i++) { /* others arrive, and full accounts make room */
        char name[16];
        snprintf(name, sizeof(name), "client-%u", i);
        client_account_release(client_accounts_find(all, tidings_str(name), 1001));
    }
    a = client_accounts_find(all, STR("ada"), 1001);
    assert_int_equal(client_account_steps_left(a, 1001), CPU_BUDGET_STEPS / 1000);
    client_account_release(a);
    client_accounts_destroy(all);
}

static void resources_are_counted_and_returned(void **state)
{
    (void)state;
    struct client_accounts *all = client_accounts_create();
    struct client_account *a = client_accounts_find(all, STR("ada"), 1000);
    for (unsigned i = 0; i < CLIENT_ACCOUNT_MAX_FILTERS; i++) {
        assert_true(client_account_take(a, CLIENT_ACCOUNT_FILTERS));
    }
    assert_false(client_account_take(a, CLIENT_ACCOUNT_FILTERS));
    assert_true(client_account_take(a, CLIENT_ACCOUNT_UNINDEXED_REGEXES));
    client_account_give_back(a, CLIENT_ACCOUNT_FILTERS);
    assert_true(client_account_take(a, CLIENT_ACCOUNT_FILTERS));
    for (unsigned i = 0; i < CLIENT_ACCOUNT_MAX_FILTERS; i++) {
        client_account_give_back(a, CLIENT_ACCOUNT_FILTERS);
    }
    client_account_give_back(a, CLIENT_ACCOUNT_UNINDEXED_REGEXES);
    assert_true(client_account_take(NULL, CLIENT_ACCOUNT_FILTERS));
    client_account_release(a);
    client_accounts_destroy(all);
}

/* ---- clients --------------------------------------------------------------------------------- */

static struct harness b;
static struct stub stub;

static int begin(void **state)
{
    (void)state;
    harness_access_start(&b, &stub);
    return 0;
}

static int end(void **state)
{
    (void)state;
    harness_stop(&b);
    return 0;
}

static const struct harness_rule rules[] = {
    {"ada", NULL, "mem://x/open/**", HARNESS_SEE},
    {"bob", NULL, "", HARNESS_ALL},
};

/* A URI on which the regex above costs more than a client has at once. */
static const char *long_uri(const char *folder)
{
    static char uri[4096];
    int len = snprintf(uri, sizeof(uri), "mem://x/%s/", folder);
    memset(uri + len, 'a', 3900);
    uri[len + 3900] = '\0';
    return uri;
}

static void update(const char *uri)
{
    harness_update(&b, uri);
    harness_run_until_idle(&b);
}

static struct client *listen_as(const char *name, const char *uri, const char *options)
{
    char uris[256];
    snprintf(uris, sizeof(uris), "[\"%s\"]", uri);
    harness_is(&b, name, "");
    return listen_with(&b, uris, options);
}

#define AS_REGEX "{\"match\":\"regex\",\"windowMs\":0}"

static uint64_t left_of(const char *name)
{
    uint64_t now = loop_now_ms(b.worker[0]->loop);
    char who[64];
    snprintf(who, sizeof(who), "token %s", name);
    struct client_account *a =
        client_accounts_find(b.shared->client_accounts, tidings_str(who), now);
    uint64_t left = client_account_steps_left(a, now);
    client_account_release(a);
    return left;
}

static void costly_regex_is_truncated_and_others_continue(void **state)
{
    (void)state;
    harness_rules(&b, rules, COUNT(rules));
    struct client *ada = listen_as("ada", REGEX, AS_REGEX);
    struct client *bob = listen_as("bob", "mem://x/", "{\"windowMs\":0}");
    uint64_t before = b.worker[0]->limit_counters->hits[LIMIT_PATTERN_STEPS];
    update(long_uri("open"));
    assert_int_equal(update_count(ada, REGEX), 1);
    assert_json(update_nth(ada, REGEX, 0), TRUNCATED, "true");
    assert_int_equal(b.worker[0]->limit_counters->hits[LIMIT_PATTERN_STEPS], before + 1);
    assert_int_equal(update_count(bob, "mem://x/"), 1);
    client_free(ada);
    client_free(bob);
}

/* Hidden changes do not affect ada's account, even if a client with more rights has the same
 * regex. */
static void hidden_changes_cost_and_reveal_nothing(void **state)
{
    (void)state;
    harness_rules(&b, rules, COUNT(rules));
    struct client *ada = listen_as("ada", REGEX, AS_REGEX);
    struct client *bob = listen_as("bob", REGEX, AS_REGEX);
    for (int i = 0; i < 5; i++) {
        update(long_uri("hidden"));
    }
    assert_int_equal(update_count(ada, REGEX), 0);
    assert_int_equal(left_of("ada"), CPU_BUDGET_BURST);
    assert_true(update_count(bob, REGEX) > 0);
    assert_json(update_nth(bob, REGEX, 0), TRUNCATED, "true");
    update("mem://x/open/aab");
    assert_int_equal(update_count(ada, REGEX), 1);
    assert_no_json(update_nth(ada, REGEX, 0), TRUNCATED);
    client_free(ada);
    client_free(bob);
}

#define COSTLY_FILTER                                                                              \
    "{\"windowMs\":0,\"filter\":{\"properties\":{\"uri\":{\"pattern\":\"(a{1,99}){1,20}b\"}}}}"

/* A filter that fails on bob's changes is not charged to ada. */
static void filter_is_suspended_only_by_visible_changes(void **state)
{
    (void)state;
    harness_rules(&b, rules, COUNT(rules));
    struct client *ada = listen_as("ada", "mem://x/**", COSTLY_FILTER);
    struct client *bob = listen_as("bob", "mem://x/**", COSTLY_FILTER);
    for (unsigned i = 0; i < FILTER_GIVE_UPS; i++) {
        update(long_uri("hidden"));
    }
    assert_json(update_nth(bob, NULL, FILTER_GIVE_UPS - 1), "params|_meta|dev.tidings/suspended",
                "true");
    assert_int_equal(update_count(ada, NULL), 0);
    update("mem://x/open/aab");
    assert_int_equal(update_count(ada, NULL), 1);
    client_free(ada);
    client_free(bob);
}

/* Many filters, each within the limit of one evaluation; their sum is not. */
static void filters_of_an_exhausted_client_pass_all_changes(void **state)
{
    (void)state;
    harness_rules(&b, rules, COUNT(rules));
    enum { FILTERS = 60 };
    struct client *all[FILTERS];
    for (unsigned i = 0; i < FILTERS; i++) {
        char options[256];
        snprintf(options, sizeof(options),
                 "{\"windowMs\":0,\"filter\":{\"properties\":{\"uri\":{\"pattern\":"
                 "\"(a{1,4}){1,3}b%u\\\\b\"}}}}",
                 i);
        all[i] = listen_as("ada", "mem://x/open/**", options);
    }
    uint64_t judged = b.worker[0]->delivery->filters.decided;
    update(long_uri("open"));
    judged = b.worker[0]->delivery->filters.decided - judged;
    assert_true(judged > 10 && judged < FILTERS);
    unsigned told = 0;
    for (unsigned i = 0; i < FILTERS; i++) {
        told += update_count(all[i], NULL) == 1;
        client_free(all[i]);
    }
    assert_int_equal(told, FILTERS - judged);
}

static void client_filters_are_limited_separately(void **state)
{
    (void)state;
    harness_rules(&b, rules, COUNT(rules));
    static struct client *all[CLIENT_ACCOUNT_MAX_FILTERS];
    for (unsigned i = 0; i <= CLIENT_ACCOUNT_MAX_FILTERS; i++) {
        char options[96];
        snprintf(options, sizeof(options), "{\"filter\":{\"maxProperties\":%u}}", 100 + i);
        if (i == CLIENT_ACCOUNT_MAX_FILTERS) {
            harness_is(&b, "ada", "");
            struct client *c = client_http(&b);
            client_listen_with(c, "1", "[\"mem://x/open/**\"]", options);
            harness_run_until_idle(&b);
            assert_non_null(strstr(refused_reason(c, "mem://x/open/**"), "of one client"));
            client_free(c);
            struct client *bob = listen_as("bob", "mem://x/open/**", options);
            client_free(bob);
            break;
        }
        all[i] = listen_as("ada", "mem://x/open/**", options);
    }
    for (unsigned i = 0; i < CLIENT_ACCOUNT_MAX_FILTERS; i++) {
        client_free(all[i]);
    }
}

/* ---- compiling --------------------------------------------------------------------------------
 */

enum { MANY = 64 };

#define LISTEN                                                                                     \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"subscriptions/listen\",\"params\":{\"_meta\":{"    \
    "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                                  \
    "\"io.modelcontextprotocol/clientCapabilities\":{},"                                           \
    "\"dev.tidings/options\":" AS_REGEX "},\"notifications\":{\"resourceSubscriptions\":["

/* One listen of ada with this number of regexes of the most expensive kind, each with this
 * suffix. */
static struct client *listen_to_many(const char *end)
{
    struct buf text;
    buf_init(&text, 1u << 20);
    buf_puts(&text, STR(LISTEN));
    for (unsigned i = 0; i < MANY; i++) {
        buf_putf(&text, "%s\"mem://x/%03u", i ? "," : "", i);
        for (unsigned k = 0; k < 90; k++) {
            buf_puts(&text, STR("[\\\\pL\\\\pN\\\\pS]"));
        }
        buf_putf(&text, "%s\"", end);
    }
    buf_puts(&text, STR("]}}}"));
    buf_putc(&text, '\0');
    assert_int_equal(text.failed, 0);
    struct dialect_headers headers = {
        .protocol_version = STR("2026-07-28"),
        .method = STR("subscriptions/listen"),
    };
    harness_is(&b, "ada", "");
    struct client *c = client_http(&b);
    client_say(c, &headers, text.ptr);
    harness_run_until_idle(&b);
    buf_deinit(&text);
    return c;
}

/* After its burst is used up, the client is refused; other clients are not. */
static void assert_paid_for(const char *end, unsigned nth)
{
    uint64_t compiled = b.worker[0]->delivery->match.regexes.compiled;
    struct client *ada = listen_to_many(end);
    compiled = b.worker[0]->delivery->match.regexes.compiled - compiled;
    assert_in_range(compiled, CPU_BUDGET_BURST, CPU_BUDGET_BURST + CPU_BUDGET_BURST / 10);
    const char *ack = client_nth(ada, SAID_ACK, 0);
    assert_json(ack, text_of("params|_meta|dev.tidings/refused|%u|data|limit", nth),
                "pattern-steps");
    const char *ms =
        json_at(ack, text_of("params|_meta|dev.tidings/refused|%u|data|retryAfterMs", nth));
    assert_in_range(ms ? strtoul(ms, NULL, 10) : 0, 1, CPU_BUDGET_BURST / 10 / 20000 + 1);
    struct client *bob = listen_as("bob", "mem://x/.*a", AS_REGEX);
    client_free(ada);
    client_free(bob);
}

static void regexes_of_a_listen_are_charged(void **state)
{
    (void)state;
    harness_rules(&b, rules, COUNT(rules));
    assert_paid_for("", 0);
}

static void refused_regexes_are_charged(void **state)
{
    (void)state;
    harness_rules(&b, rules, COUNT(rules));
    assert_paid_for("(", MANY - 1);
}

/* ---- values and schemas ---------------------------------------------------------------------- */

#define COSTLY_SCHEMA "{\"properties\":{\"s\":{\"pattern\":\"(a{1,99}){1,20}b\"}}}"

/* Valid arguments that cost some hundred thousand steps. */
static const char *costly_arguments(void)
{
    static char text[512];
    int len = snprintf(text, sizeof(text), "\"arguments\":{\"s\":\"");
    memset(text + len, 'a', 300);
    snprintf(text + len + 300, sizeof(text) - (size_t)len - 300, "b\"}");
    return text;
}

static void count_call(void *user, struct tidings_call *call)
{
    (*(unsigned *)user)++;
    struct tidings_error err;
    tidings_call_done(call, tidings_call_text(call, STR("hello"), &err), &err);
}

static void echo(void *user, struct tidings_call *call)
{
    (void)user;
    struct tidings_error err;
    tidings_call_done(call, tidings_call_structured(call, tidings_call_arguments(call), &err),
                      &err);
}

static struct client_account *client_account_of(const char *name)
{
    char who[64];
    snprintf(who, sizeof(who), "token %s", name);
    return client_accounts_find(b.shared->client_accounts, tidings_str(who),
                                loop_now_ms(b.worker[0]->loop));
}

/* Leaves the client without steps for a minute, or restores them. */
static void use_up(const char *name, bool is_over)
{
    struct client_account *a = client_account_of(name);
    if (is_over) {
        client_account_refund(a, 60ull * CPU_BUDGET_STEPS);
    } else {
        client_account_spend(a, 60ull * CPU_BUDGET_STEPS, loop_now_ms(b.worker[0]->loop));
    }
    client_account_release(a);
}

static struct client *call_as(const char *name, const char *tool, const char *params)
{
    harness_is(&b, name, "");
    struct client *c = client_http(&b);
    client_call(c, "1", tool, params, NULL);
    harness_run_until_idle(&b);
    return c;
}

static void assert_refused(const struct client *c)
{
    const struct utterance *answer = client_answer(c);
    assert_json(answer->text, "error|data|limit", "pattern-steps");
    assert_json(answer->text, "error|data|value", "20000000");
    const char *ms = json_at(answer->text, "error|data|retryAfterMs"); /* a debt of a minute */
    assert_in_range(ms ? strtoul(ms, NULL, 10) : 0, 59000, 61000);
}

static void tool_arguments_are_checked_at_client_expense(void **state)
{
    (void)state;
    unsigned called = 0;
    harness_rules(&b, rules, COUNT(rules));
    harness_add_tool(
        &b, &(struct harness_tool){
                .name = "t", .input = COSTLY_SCHEMA, .handler = count_call, .user = &called});
    harness_run_until_idle(&b);
    uint64_t before = loop_now_ms(b.worker[0]->loop),
             hits = b.worker[0]->limit_counters->hits[LIMIT_PATTERN_STEPS];
    struct client_account *ada = client_account_of("ada");
    struct client *c = call_as("ada", "t", "\"arguments\":{\"s\":\"ab\"}");
    assert_json(client_answer(c)->text, "result|content|0|text", "hello");
    client_free(c);
    assert_int_equal(client_account_steps_left(ada, before),
                     CPU_BUDGET_BURST); /* cheap patterns are free */
    c = call_as("ada", "t", costly_arguments());
    assert_json(client_answer(c)->text, "result|content|0|text", "hello");
    client_free(c);
    assert_in_range(CPU_BUDGET_BURST - client_account_steps_left(ada, before), 100000,
                    CPU_BUDGET_BURST);
    use_up("ada", false);
    c = call_as("ada", "t", costly_arguments());
    assert_int_equal(client_answer(c)->status, 429);
    assert_refused(c);
    client_free(c);
    assert_int_equal(called, 2);
    assert_int_equal(b.worker[0]->limit_counters->hits[LIMIT_PATTERN_STEPS], hits + 1);
    c = call_as("bob", "t", costly_arguments());
    assert_json(client_answer(c)->text, "result|content|0|text", "hello");
    client_free(c);
    use_up("ada", true);
    c = call_as("ada", "t", "\"arguments\":{\"s\":\"ab\"}");
    assert_json(client_answer(c)->text, "result|content|0|text", "hello");
    client_free(c);
    client_account_release(ada);
}

static void legacy_client_is_refused_likewise(void **state)
{
    (void)state;
    unsigned called = 0;
    harness_rules(&b, rules, COUNT(rules));
    harness_add_tool(
        &b, &(struct harness_tool){
                .name = "t", .input = COSTLY_SCHEMA, .handler = count_call, .user = &called});
    harness_run_until_idle(&b);
    harness_is(&b, "ada", "");
    struct harness_session s;
    harness_session(&b, "2025-11-25", &s);
    use_up("ada", false);
    struct client *c = session_request(&s, "1", "tools/call", "\"name\":\"t\",\"arguments\":{}");
    harness_run_until_idle(&b);
    assert_refused(c);
    client_free(c);
    assert_int_equal(called, 0);
}

/* One connection for several clients, as from a proxy. */
static void another_name_on_a_connection_uses_another_account(void **state)
{
    (void)state;
    unsigned called = 0;
    harness_rules(&b, rules, COUNT(rules));
    harness_add_tool(
        &b, &(struct harness_tool){
                .name = "t", .input = COSTLY_SCHEMA, .handler = count_call, .user = &called});
    harness_run_until_idle(&b);
    static const char *const names[] = {"bob", "ada", "bob", "ada"};
    use_up("ada", false);
    struct client *c = client_pipe(&b);
    for (unsigned i = 0; i < COUNT(names); i++) {
        client_is(c, PRINCIPAL_TOKEN, names[i], "", 0);
        client_call(c, "1", "t", "\"arguments\":{}", NULL);
        harness_run_until_idle(&b);
        assert_int_equal(called, i / 2 + 1);
    }
    client_free(c);
}

/* The tool has run, so the answer is sent and charged. */
static void tool_results_are_checked_at_client_expense(void **state)
{
    (void)state;
    harness_rules(&b, rules, COUNT(rules));
    harness_add_tool(&b,
                     &(struct harness_tool){.name = "t", .output = COSTLY_SCHEMA, .handler = echo});
    harness_run_until_idle(&b);
    uint64_t before = loop_now_ms(b.worker[0]->loop);
    struct client *c = call_as("ada", "t", costly_arguments());
    assert_no_json(client_answer(c)->text, "result|isError");
    client_free(c);
    struct client_account *ada = client_account_of("ada");
    assert_in_range(CPU_BUDGET_BURST - client_account_steps_left(ada, before), 100000,
                    CPU_BUDGET_BURST);
    client_account_release(ada);
}

#define WITH_BENCH(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_restored_over_time),
        cmocka_unit_test(refused_client_receives_the_retry_time),
        cmocka_unit_test(reconnecting_client_gains_no_steps),
        cmocka_unit_test(resources_are_counted_and_returned),
        WITH_BENCH(costly_regex_is_truncated_and_others_continue),
        WITH_BENCH(hidden_changes_cost_and_reveal_nothing),
        WITH_BENCH(filter_is_suspended_only_by_visible_changes),
        WITH_BENCH(filters_of_an_exhausted_client_pass_all_changes),
        WITH_BENCH(client_filters_are_limited_separately),
        WITH_BENCH(regexes_of_a_listen_are_charged),
        WITH_BENCH(refused_regexes_are_charged),
        WITH_BENCH(tool_arguments_are_checked_at_client_expense),
        WITH_BENCH(legacy_client_is_refused_likewise),
        WITH_BENCH(another_name_on_a_connection_uses_another_account),
        WITH_BENCH(tool_results_are_checked_at_client_expense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
